"""vLLM's engine on a CPU, with the plug-in in it and behind `unspool serve`; run by ``make vllm-engine``.

The model has one layer and random weights. The prompt contains what it must write (see `scripted`); everything else is
sampled, under the grammar of the request.
"""

import contextlib
import importlib
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import unspool
from tests.support import closed_tool
from unspool import Dialect, Stage

from ..loopback import free_port, process
from .support import NAMED, WEATHER, Gathered, Parts, parts
from .test_vllm_host import make_tokenizer
from .vllm_server import PATIENCE, markers, serving, write_model

pytestmark = [pytest.mark.vllm_engine, pytest.mark.filterwarnings("default")]
END = "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "<think>\n{% if enable_thinking is defined and not enable_thinking %}\n</think>\n\n{% endif %}"
)
ROOT = str(Path(__file__).parents[2])
ENGINE = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": ROOT,
}
FLAGS = ["--load-format", "dummy", "--enforce-eager", "--max-num-seqs", "4"]
FLAGS += ["--logits-processors", "tests.plugins.scripted:Scripted"]
_CHOICES = {"city": {"enum": ["Oslo", "Zürich"]}, "class": {"enum": ["first", "second"]}}
_SEATS = {"type": "integer", "minimum": 1, "maximum": 9}
BOUNDED = closed_tool("book", "window", **_CHOICES, seats=_SEATS, window="boolean")
BOUNDED["function"]["strict"] = True
"""A tool whose calls a model of random weights can end."""
SHORT = {"type": "string", "maxLength": 6}
"""Added if the grammar enforces lengths, as in JSON. In markup, xgrammar also counts bytes that are no characters."""
TOOLS = [WEATHER, BOUNDED]
CALLS = [("get_weather", {"city": "Zürich", "days": 3}), ("get_weather", {"city": "<b>Oslo</b>"})]
LIMIT = 1500


class Case(NamedTuple):
    """An output, and the request that it answers."""

    content: str
    calls: int
    choice: Any = "auto"
    thoughts: str | None = "Two cities,\nthen an answer. 🌍"


CASES = {
    "auto": Case("Gern: ", 1),
    "without a call": Case("Just <b>1</b> answer, für dich.", 0),
    "parallel": Case("Both.", 2),
    "none": Case("No call: ", 1, "none"),
    "required": Case("", 1, "required"),
    "required, parallel": Case("", 2, "required"),
    "named": Case("", 1, NAMED),
    "auto, thinking off": Case("Sure.", 2, thoughts=None),
    "required, thinking off": Case("", 2, "required", thoughts=None),
    "none, thinking off": Case("Sure.", 1, "none", thoughts=None),
}


class Model:
    """A served model.

    Args:
        url: the URL of the server.
        engine: the URL of vLLM, if that is another server.
        reason: whether the reader of the output knows why it ended.
    """

    def __init__(self, url: str, engine: str, dialect: Dialect, tokenizer: Any, *, reason: bool) -> None:
        self.client = importlib.import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.url = url
        self.engine = engine
        self.dialect = dialect
        self.tokenizer = tokenizer
        self.reason = reason

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text))

    def raw(self, case: Case) -> str:
        """A case as the model writes it after its prompt."""
        calls = [{"function": {"name": n, "arguments": json.dumps(a)}} for n, a in CALLS[: case.calls]]
        message = {"role": "assistant", "content": case.content, "tool_calls": calls}
        return self.plan(case) + unspool.render(message, self.dialect, tools=TOOLS, stage=Stage.CONTENT).removesuffix(
            END
        )

    @property
    def bounded(self) -> dict[str, Any]:
        """`BOUNDED`, with all bounds that can be enforced."""
        tool: dict[str, Any] = json.loads(json.dumps(BOUNDED))
        if self.dialect.argument_format == "json":
            tool["function"]["parameters"]["properties"]["note"] = SHORT
            tool["function"]["parameters"]["required"].append("note")
        return tool

    def plan(self, case: Case) -> str:
        """The reasoning of a case. The tags of plug-ins begin directly after its closing marker."""
        gap = "" if self.engine == self.url and case.choice not in ("auto", "none") else "\n\n"
        return "" if case.thoughts is None else f"{case.thoughts}\n</think>{gap}"

    def want(self, raw: str, case: Case, finish_reason: str = "stop") -> Parts:
        """The parts that `unspool.parse` reads in it."""
        stage = Stage.CONTENT if case.thoughts is None else Stage.REASONING
        known = finish_reason if self.reason else "stop"
        options: dict[str, Any] = {"tools": TOOLS, "tool_choice": case.choice, "finish_reason": known}
        return parts(unspool.parse(raw, self.dialect, stage=stage, **options))

    def ask(self, case: Case, ids: list[int], *, stream: bool, pause: int = 0, **fields: Any) -> Any:
        """Send a request whose answer begins with these ids, each after a pause in milliseconds."""
        said = importlib.import_module("tests.plugins.scripted").order(ids, pause) if ids else "Hi"
        given: dict[str, Any] = {"tools": TOOLS, "temperature": 1.0, "max_tokens": LIMIT, **fields}
        if case.thoughts is None:
            given["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
        return self.client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": said}],
            tool_choice=case.choice,
            stream=stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
            **given,
        )

    def answer(self, case: Case, ids: list[int], **fields: Any) -> tuple[Parts, str, Any]:
        """A whole answer, with its finish reason and usage."""
        made = self.ask(case, ids, stream=False, **fields)
        (choice,) = made.choices
        calls = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or []]
        return (thoughts(choice.message), choice.message.content or "", calls), choice.finish_reason, made.usage

    def streamed(self, case: Case, ids: list[int], **fields: Any) -> tuple[Parts, str, Any]:
        """The same for a stream."""
        found, reason, usage = Gathered(), "", None
        for chunk in self.ask(case, ids, stream=True, **fields):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                reason = choice.finish_reason or reason
                found.say(thoughts(choice.delta), choice.delta.content)
                for call in choice.delta.tool_calls or []:
                    found.call(call.index, call.function.name if call.id else None, call.function.arguments)
        return found.parts, reason, usage


def thoughts(message: Any) -> str:
    """Reasoning, by either of its names."""
    return getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None) or ""


def tidy(found: Parts) -> Parts:
    """Drop white space beside calls, which is no content in vLLM."""
    reasoning, content, calls = found
    return (reasoning, content if content.strip() or not calls else "", calls)


def together(check: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Check numbers, as many at a time as the engine computes at once."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, numbers))


@contextlib.contextmanager
def unspool_serve(folder: Path, engine: str, dialect: Dialect, *flags: str) -> Iterator[str]:
    """The command ``unspool serve`` in front of an engine."""
    port = free_port()
    command = [sys.executable, "-m", "unspool", "serve", "--engine", engine, "--tokenizer", str(folder)]
    command += ["--dialect", dialect.name, "--model", "tiny", "--port", str(port), *flags]
    url = f"http://127.0.0.1:{port}"
    with process(command, f"{url}/health", folder / "serve.log", PATIENCE, PYTHONPATH=ROOT):
        yield url


PLACES = [("hermes", "plug-in"), ("qwen3-coder", "plug-in"), ("hermes", "unspool serve")]


@pytest.fixture(scope="module", params=PLACES, ids=[f"{name}, {place}" for name, place in PLACES])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    name, place = request.param
    dialect = unspool.get_dialect(name)
    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(sorted({*markers(dialect), "<think>", "</think>", END}))
    tokenizer.eos_token = END
    write_model(folder, tokenizer, TEMPLATE, eos_token_id=tokenizer.eos_token_id)
    plugged = dialect if place == "plug-in" else None
    # Without the plug-in, no part of it may be in the server.
    environment = {**ENGINE, **({} if plugged else {"VLLM_PLUGINS": ""})}
    with serving(folder, ["serve", *FLAGS], environment, plugged) as url:
        if plugged:
            yield Model(url, url, dialect, tokenizer, reason=False)
        else:
            with unspool_serve(folder, url, dialect) as front:
                yield Model(front, url, dialect, tokenizer, reason=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whole_and_streamed_answers_give_what_the_parser_gives(model: Model, case: Case) -> None:
    raw = model.raw(case)
    ids = [*model.ids(raw), model.tokenizer.eos_token_id]
    want = model.want(raw, case)
    assert len(want[2]) == (0 if case.choice == "none" else case.calls), "the case is what it says"
    whole, reason, usage = model.answer(case, ids)
    streamed, streamed_reason, streamed_usage = model.streamed(case, ids)
    assert tidy(whole) == tidy(streamed) == tidy(want)
    assert reason == streamed_reason
    assert reason == ("stop" if not want[2] or case.choice == NAMED else "tool_calls")
    assert usage.completion_tokens == streamed_usage.completion_tokens == len(ids)
    assert usage.prompt_tokens == streamed_usage.prompt_tokens > len(ids)
    if case.thoughts:
        assert len(case.thoughts) <= usage.completion_tokens_details.reasoning_tokens <= len(ids)


def test_an_output_that_is_cut_by_length_is_read_up_to_there(model: Model) -> None:
    case = Case("Both.", 2, thoughts="Two cities.")
    raw = model.raw(case).replace("ü", "u")
    ids = model.ids(raw)

    def compare(cut: int) -> None:
        text = model.tokenizer.decode(ids[:cut], skip_special_tokens=False)
        want = tidy(model.want(text, case, "length"))
        whole, reason, _ = model.answer(case, ids, max_tokens=cut)
        streamed, streamed_reason, _ = model.streamed(case, ids, max_tokens=cut)
        assert (cut, tidy(whole), tidy(streamed)) == (cut, want, want)
        assert reason == streamed_reason
        assert reason in ("length", "tool_calls")
        assert reason == "length" or want[2]

    together(compare, [*range(3, len(ids), 17), len(ids)])


@pytest.mark.parametrize(
    ("choice", "plan", "stream"),
    [("required", "Drawn.", False), ("named", None, True), ("single", "Drawn.", True), ("required", None, True)],
    ids=["required", "named, not thinking, streamed", "single, streamed", "required, not thinking, streamed"],
)
def test_a_sampled_answer_under_required_ends_in_a_valid_call(
    model: Model, choice: str, plan: str | None, stream: bool
) -> None:
    validate = importlib.import_module("jsonschema").validate
    tools = [model.bounded]
    schema = tools[0]["function"]["parameters"]
    mode: Any = {"type": "function", "function": {"name": "book"}} if choice == "named" else "required"
    case = Case("", 1, mode, thoughts=plan)
    script = model.ids(model.plan(case))
    ask = model.streamed if stream else model.answer

    def draw(seed: int) -> None:
        (reasoning, content, calls), reason, _ = ask(
            case, script, seed=seed, tools=tools, parallel_tool_calls=choice != "single"
        )
        assert (reasoning, content.strip()) == (plan or "", "")
        assert calls, (reason, seed)
        assert reason == ("stop" if choice == "named" else "tool_calls")
        assert choice != "single" or len(calls) == 1
        for name, arguments in calls:
            assert name == "book"
            validate(json.loads(arguments), schema)

    together(draw, range(4))


def test_a_call_that_the_model_begins_by_itself_is_kept_to_its_strict_schema(model: Model) -> None:
    validate = importlib.import_module("jsonschema").validate
    tool = model.bounded
    case = Case("", 1, thoughts="Drawn.")
    written = {"role": "assistant", "tool_calls": [{"function": {"name": "book", "arguments": "{}"}}]}
    call = unspool.render(written, model.dialect, tools=[tool], stage=Stage.CONTENT)
    script = model.ids(model.plan(case) + call[: call.index("book") + len("book")])

    def draw(seed: int) -> None:
        (reasoning, _, calls), _, _ = model.answer(case, script, seed=seed, tools=[tool], max_tokens=len(script) + 300)
        assert (reasoning, calls[0][0]) == ("Drawn.", "book")
        validate(json.loads(calls[0][1]), tool["function"]["parameters"])

    together(draw, range(3))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_spelled_closing_does_not_end_reasoning_or_start_the_grammar(model: Model, stream: bool) -> None:
    if model.url != model.engine:
        pytest.skip("unspool serve gets no ids from vLLM")
    validate = importlib.import_module("jsonschema").validate
    case = Case("", 1, "required", thoughts="any")
    tools = [model.bounded]
    spelled = [i for character in "So </think> is" for i in model.ids(character)]
    script = [*spelled, *model.ids(" how.\n</think>")]
    ask = model.streamed if stream else model.answer

    def draw(seed: int) -> None:
        (reasoning, content, calls), _, _ = ask(case, script, seed=seed, tools=tools)
        assert (reasoning.rstrip(), content.strip()) == ("So </think> is how.", "")
        assert calls
        for _, arguments in calls:
            validate(json.loads(arguments), tools[0]["function"]["parameters"])

    together(draw, range(2))


def counted(engine: str, name: str) -> float:
    """What vLLM's metrics say of all its models."""
    with urllib.request.urlopen(f"{engine}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))


def test_when_the_client_leaves_the_engine_stops(model: Model) -> None:
    case = Case("", 0, "none")
    long = model.ids("x</think>") + model.ids("&") * 2000  # sampled tokens could end the output at once
    before = counted(model.engine, "vllm:generation_tokens_total")
    stream = model.ask(case, long, stream=True, pause=5, max_tokens=2500)
    for _ in range(5):
        next(stream)
    stream.close()  # ten seconds before the end
    until = time.monotonic() + 60
    # Metrics lag behind, but all of them alike: where tokens are counted, their request is running or over.
    while not (made := counted(model.engine, "vllm:generation_tokens_total") - before) or counted(
        model.engine, "vllm:num_requests_running"
    ):
        assert time.monotonic() < until, f"still running after {made} tokens"
        time.sleep(0.05)
    assert counted(model.engine, "vllm:generation_tokens_total") - before < len(long)


def test_tools_that_cannot_be_constrained_are_refused_before_generation(model: Model) -> None:
    openai = importlib.import_module("openai")
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "not": {}}}}
    with pytest.raises(openai.BadRequestError, match="not"):
        model.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Hi"}], tools=[odd], tool_choice="required"
        )
