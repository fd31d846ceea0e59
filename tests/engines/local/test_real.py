"""The real small model in a real llama.cpp, through `unspool serve` and the official clients.

`make test` runs the short form, `make local` all of it.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import unspool
from unspool.checkpoints.gguf import read_gguf
from unspool.cli.local import find_local
from unspool.engines import read_recordings
from unspool.engines.local import Launch, LlamaProcess
from unspool.grammar.schemas import FORMATS

from ...loopback import ask, told
from ...server.processes import SERVE, Process
from ...server.support import both, until
from ...sessions.recorded import FOLDER, SHAPES
from ...small import TOOL, need_small_model
from ...support import tool
from ...wire.readers import (
    Answer,
    agui_stream,
    answer_of,
    messages_answer,
    messages_stream,
    messages_whole,
    responses_answer,
    responses_stream,
)

PATIENCE = 120.0
WEATHER: Any = TOOL["function"]["parameters"]
PARIS: Any = [{"role": "user", "content": "What is the weather in Paris?"}]


class Serving(Process):
    """A running `unspool serve`, and the folder of its recordings."""

    def __init__(self, recordings: Path, *arguments: str, command: Sequence[str] = SERVE) -> None:
        need_small_model()
        given = ("--context", "2048", "--slots", "2", *arguments, "--capture", str(recordings))
        super().__init__(*given, command=command)
        self.recordings = recordings
        clients: Any = {"api_key": "any", "max_retries": 0, "timeout": PATIENCE}
        self.openai = openai.OpenAI(base_url=f"{self.url}/v1", **clients)
        self.anthropic = anthropic.Anthropic(base_url=self.url, **clients)

    def chat(self, messages: Any = PARIS, **fields: Any) -> Any:
        return self.openai.chat.completions.create(
            **{"model": "smollm2-135m", "messages": messages, "temperature": 0, "max_tokens": 80, **fields}
        )

    def llama(self) -> int:
        """The process of llama.cpp."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
                if parent == self.process.pid and b"local/child.py" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        raise AssertionError("llama.cpp does not run")


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, command: Sequence[str] = SERVE) -> Iterator[Serving]:
    with Serving(folder / "r", *arguments, command=command) as one, one.openai, one.anthropic:
        until(lambda: ask(f"{one.url}/health")[0] == 200, PATIENCE)
        yield one


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


def called(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]


def test_a_call_by_chat_completions_is_the_same_whole_and_streamed_and_parsed(served: Serving) -> None:
    whole = served.chat(tools=[TOOL])
    assert called(whole.choices[0].message) == [("get_weather", {"city": "Paris"})]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.usage.prompt_tokens > whole.usage.completion_tokens > 10
    pieces = [c.choices[0].delta for c in served.chat(tools=[TOOL], stream=True) if c.choices]
    arguments = "".join(p.tool_calls[0].function.arguments or "" for p in pieces if p.tool_calls)
    assert arguments == whole.choices[0].message.tool_calls[0].function.arguments
    recorded = read_recordings(served.recordings)[-2:]
    assert recorded[0].text == recorded[1].text
    parsed = unspool.parse(recorded[0].text, "hermes", tools=[TOOL])
    assert [call.arguments for call in parsed.tool_calls] == [arguments]


def test_the_list_of_models_has_the_name_that_the_file_gives_itself(served: Serving) -> None:
    (listed,) = served.anthropic.models.list()
    gguf = read_gguf(need_small_model())
    assert (listed.id, listed.display_name) == ("smollm2-135m", gguf.text("general.name"))
    assert listed.display_name


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_demanded_call_is_made_whatever_is_said(choice: Any, served: Serving) -> None:
    message = served.chat([{"role": "user", "content": "Hello!"}], tools=[TOOL], tool_choice=choice).choices[0].message
    assert called(message)[0][0] == "get_weather"
    assert not message.content


def test_none_makes_no_call(served: Serving) -> None:
    assert served.chat(tools=[TOOL], tool_choice="none").choices[0].message.tool_calls is None


def test_content_follows_a_schema(served: Serving) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    format: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    content = served.chat(response_format=format).choices[0].message.content
    assert json.loads(content)["city"] in ("Paris", "Rome")


@pytest.mark.local
def test_two_calls_are_the_same_by_every_protocol_whole_and_streamed(served: Serving) -> None:
    asked: Any = {"model": "any", "extra_body": {"temperature": 0}}
    question: Any = [said("What is the weather in Paris and in Rome?")]
    function = TOOL["function"]
    messages = both(
        served.anthropic.messages,
        messages=question,
        max_tokens=200,
        tools=[{"name": function["name"], "description": function["description"], "input_schema": WEATHER}],
        **asked,
    )
    responses = both(
        served.openai.responses, input=question, tools=[{"type": "function", "strict": False, **function}], **asked
    )
    run = {"threadId": "t", "runId": "r", "state": {}, "context": [], "messages": [{"id": "1", **question[0]}]}
    options = {"forwardedProps": {"temperature": 0}, "tools": [function]}
    answer, _ = agui_stream(ask(f"{served.url}/ag-ui", {**run, **options})[1].encode())
    found = [[(b.name, b.input) for b in one.content if b.type == "tool_use"] for one in messages]
    found += [[(i.name, json.loads(i.arguments)) for i in one.output if i.type == "function_call"] for one in responses]
    found += [[(name, json.loads(arguments)) for _, name, arguments in answer.calls]]
    two = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert found == [two] * 5
    for recorded in read_recordings(served.recordings)[-5:]:
        parsed = unspool.parse(recorded.text, "hermes", tools=[TOOL])
        assert [(call.name, json.loads(call.arguments)) for call in parsed.tool_calls] == two


@pytest.mark.local
@pytest.mark.parametrize("program", sorted(SHAPES))
def test_requests_of_claude_code_and_codex_are_answered_whole_and_streamed(program: str, served: Serving) -> None:
    for turn in json.loads((FOLDER / f"{program}.json").read_text(encoding="utf-8")):
        for stream in (False, True):
            body = {**turn["body"], "temperature": 0, "stream": stream}
            body["max_tokens" if program == "claude-code" else "max_output_tokens"] = 40
            status, text = ask(f"{served.url}{turn['path']}", body)
            assert status == 200, text
            answer = READERS[program, stream](text.encode())
            one = read_recordings(served.recordings)[-1]
            said = answer_of(unspool.parse(one.text, "hermes", tools=one.asked.tools, prompt=one.asked.prompt))
            assert (answer.reasoning, answer.content) == (said.reasoning, said.content)
            # A namespace of Codex is a field of its own.
            assert [(name, given) for _, name, given in answer.calls] == [
                (name.rpartition(".")[2], given) for _, name, given in said.calls
            ]


READERS: dict[tuple[str, bool], Callable[[bytes], Answer]] = {
    ("claude-code", False): lambda text: messages_answer(messages_whole(text)),
    ("claude-code", True): lambda text: messages_answer(messages_stream(text)),
    ("codex", False): lambda text: responses_answer(json.loads(text)),
    ("codex", True): lambda text: responses_answer(responses_stream(text)),
}


@pytest.mark.local
def test_several_choices_stop_strings_and_probabilities(served: Serving) -> None:
    story: Any = [{"role": "user", "content": "Tell me a story."}]
    texts = {
        served.chat(story, temperature=1, seed=seed, max_tokens=30).choices[0].message.content for seed in range(4)
    }
    assert len(texts) >= 3
    assert len(served.chat(story, n=2, temperature=1, max_tokens=10).choices) == 2
    whole = served.chat(story, max_tokens=30).choices[0].message.content
    word = whole.split()[3]
    cut = served.chat(story, max_tokens=30, stop=[word]).choices[0]
    assert (cut.message.content, cut.finish_reason) == (whole.partition(word)[0], "stop")
    tokens = served.chat(story, max_tokens=4, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert len(tokens) == 4
    assert all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in tokens)
    assert served.chat(story, max_tokens=3).choices[0].finish_reason == "length"


def said(text: str) -> Any:
    return {"role": "user", "content": text}


RESULT: Any = [
    *PARIS,
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "18 C, sunny"},
]
CITY = {"type": "json_schema", "json_schema": {"name": "city", "schema": WEATHER}}
GREEDY: dict[str, dict[str, Any]] = {
    "words": {"messages": [said("Tell me about the sea.")]},
    "a system message": {"messages": [{"role": "system", "content": "Be brief."}, said("Why is the sky blue?")]},
    "a call": {"tools": [TOOL]},
    "tools that are not needed": {"messages": [said("Hi!")], "tools": [TOOL]},
    "required": {"messages": [said("Hello!")], "tools": [TOOL], "tool_choice": "required"},
    "named": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
    "none": {"tools": [TOOL], "tool_choice": "none"},
    "a thought": {"messages": [said("What is the capital of Italy?")], "reasoning_effort": "low"},
    "a thought before a call": {"tools": [TOOL], "tool_choice": "required", "reasoning_effort": "low"},
    "a format": {"messages": [said("Name a city in Spain.")], "response_format": CITY},
    "a result": {"messages": RESULT, "tools": [TOOL]},
    "a stream": {"messages": [said("Wie heißt die Hauptstadt von 日本? 😀")], "stream": True},
    "stop": {"messages": [said("Count from one to ten in words.")], "stop": ["three"]},
}
SPY = """
import json, os, sys
from unspool.cli import main
from unspool.engines.upstream.client import Client
opened = Client.open
def spied(self, backend, path, asked, *others):
    if path == "/completion":
        with open(sys.argv[1], "a") as file:
            file.write(asked.decode() + "\\n")
    return opened(self, backend, path, asked, *others)
Client.open = spied
sys.exit(main(sys.argv[2:]))
"""
"""unspool's command, which writes to a file what it asks llama.cpp for."""


@pytest.mark.local
def test_a_greedy_answer_is_llama_cpps_own_completion_of_the_recorded_prompt(tmp_path: Path) -> None:
    # Both have one slot and are asked in one order: what is cached of a prompt changes the last bits of its numbers.
    log = tmp_path / "asked"
    command = [sys.executable, "-c", SPY, str(log), "serve"]
    with serving(tmp_path, "--slots", "1", command=command) as served:
        for fields in GREEDY.values():
            body = {"model": "any", "temperature": 0, "max_tokens": 60, "messages": PARIS, **fields}
            assert ask(f"{served.url}/v1/chat/completions", body)[0] == 200
    asked = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    recorded = read_recordings(served.recordings)
    with child() as complete:
        for (case, fields), one, sent in zip(GREEDY.items(), recorded, asked, strict=True):
            prompt = {"prompt": one.asked.prompt, "stream": False, "response_fields": ["content"]}
            text = complete(**{**sent, **prompt})
            assert (text[: len(one.text)] if "stop" in fields else text) == one.text, case


@contextlib.contextmanager
def child() -> Iterator[Callable[..., str]]:
    """A llama.cpp of its own with one slot: what it says to the body of a request to ``/completion``."""
    model = find_local("")
    fields = {**model.fields, "n_ctx": 2048, "n_parallel": 1, "kv_unified": False}
    process = LlamaProcess(Launch(model=model.gguf.path, adapters=model.adapters, fields=fields))

    def complete(**body: Any) -> str:
        address = process.address
        return str(told(f"{address.url}/completion", body, address.key)["content"])

    process.start()
    try:
        until(lambda: process.address.status().state == "ready", PATIENCE)
        yield complete
    finally:
        process.close()


@pytest.mark.local
def test_a_model_that_prefers_white_space_ends_its_json_all_the_same() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["n"], "properties": {"n": {"type": "boolean"}}}
    schema["additionalProperties"] = False
    constraint = unspool.constrain(
        "hermes",
        stage="content",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    )
    assert constraint is not None
    blank = [[c, 100] for c in "\t\n "]
    with child() as complete:
        text = complete(prompt="JSON: ", grammar=constraint.lark_spaced, logit_bias=blank, temperature=0, n_predict=40)
    assert json.loads(text).keys() == {"n"}


@pytest.mark.local
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_llama_cpp_follows_each_format_of_strings(form: str, served: Serving) -> None:
    asked: Any = tool("x", a={"type": "string", "format": form})
    message = served.chat([said("Use x.")], tools=[asked], tool_choice="required", max_tokens=40).choices[0].message
    assert message.tool_calls[0].function.arguments.startswith('{"a": "')


@pytest.mark.local
def test_a_raw_completion_of_a_prompts_tokens_is_what_chat_reads(served: Serving) -> None:
    said = served.chat().choices[0].message.content
    tokens = told(f"{served.url}/tokenize", {"messages": PARIS})
    assert (len(tokens["tokens"]), tokens["max_model_len"]) == (tokens["count"], 2048)
    prompt = told(f"{served.url}/detokenize", {"tokens": tokens["tokens"]})["prompt"]
    assert prompt.endswith("<|im_start|>assistant\n")
    for one in (tokens["tokens"], prompt):
        asked = {"prompt": one, "temperature": 0, "max_tokens": 80, "add_special_tokens": False, "logprobs": 1}
        (choice,) = told(f"{served.url}/v1/completions", asked)["choices"]
        assert choice["text"].strip() == said.strip()
        assert "".join(choice["logprobs"]["tokens"]).startswith(choice["text"])
    refused = ask(f"{served.url}/v1/completions", {"prompt": prompt, "echo": True, "logprobs": 1})
    assert (refused[0], "does not report those of prompts" in refused[1]) == (400, True)


@pytest.mark.local
def test_a_prompt_beyond_the_context_is_an_error_that_clients_know(served: Serving) -> None:
    long: Any = [{"role": "user", "content": "word " * 4000}]
    with pytest.raises(openai.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > 2048 maximum") as chat:
        served.chat(long)
    assert chat.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as responses:
        served.openai.responses.create(model="smollm2-135m", input=long)
    assert responses.value.code == "context_length_exceeded"
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: "):
        served.anthropic.messages.create(model="smollm2-135m", max_tokens=5, messages=long)


@pytest.mark.local
def test_a_cancelled_answer_frees_its_slot(served: Serving) -> None:
    for _ in range(4):
        stream = served.chat([{"role": "user", "content": "Tell me a long story."}], max_tokens=1500, stream=True)
        next(iter(stream))
        stream.close()
    began = time.monotonic()
    assert served.chat(max_tokens=2)
    assert time.monotonic() - began < 20


@pytest.mark.local
def test_a_hostile_schema_is_refused_and_others_are_served(served: Serving) -> None:
    huge = {"type": "string", "pattern": "(a{1,900}b{1,900}){1,900}"}
    nested: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        nested = {"type": "object", "properties": {"a": nested}}
    for schema in (huge, nested, {"type": "integer", "multipleOf": 47_567_917}):
        tools = [tool("x", a=schema)]
        with contextlib.suppress(openai.BadRequestError):
            served.chat(tools=tools, tool_choice="required", max_tokens=5)
        if schema is not nested:  # which no request may have
            assert served.chat(tools=tools, max_tokens=1), "nobody has asked for a grammar"
    assert called(served.chat(tools=[TOOL]).choices[0].message) == [("get_weather", {"city": "Paris"})]


@pytest.mark.local
def test_a_schema_that_cannot_be_compiled_is_refused_by_its_own_field(served: Serving) -> None:
    never: Any = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    asked: Any = {
        "response_format.json_schema.schema": ("chat/completions", "messages", PARIS, "response_format"),
        "text.format.schema": ("responses", "input", "Hello", "text"),
        "output_config.format.schema": ("messages", "messages", PARIS, "output_config"),
    }
    named: Any = {"type": "json_schema", "name": "n", "schema": never}
    for where, (path, said, words, field) in asked.items():
        form = {"type": "json_schema", "json_schema": named} if field == "response_format" else {"format": named}
        function = {"type": "function", "name": "f", "parameters": {"type": "object"}}
        beside = {"chat/completions": TOOL, "responses": function, "messages": {"name": "f", "input_schema": WEATHER}}
        for tools in ([], [beside[path]]):
            asked_for = {said: words, field: form, "max_tokens": 9, "tools": tools}
            status, answer = ask(f"{served.url}/v1/{path}", asked_for)
            error = json.loads(answer)["error"]
            assert (status, error["message"].partition(": ")[0]) == (400, where)
            assert path == "messages" or error["param"] == where
    wrong: Any = {"name": "f", "parameters": never, "strict": True}
    for more in ({"tool_choice": "required"}, {"response_format": CITY}):
        with pytest.raises(openai.BadRequestError, match="does not support these schemas") as refused:
            served.chat(tools=[{"type": "function", "function": wrong}], **more)
        assert refused.value.param == "tools"


@pytest.mark.local
def test_a_grammar_that_llama_cpp_drops_is_refused_however_little_it_logs(tmp_path: Path) -> None:
    schema = {**WEATHER, "properties": {"city": {"type": "string", "pattern": "^(.{0,500}x){0,500}$"}}}
    dropped: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    with serving(tmp_path, "--llama", "verbosity=0") as served:
        with pytest.raises(openai.InternalServerError, match="dropped the grammar"):
            served.chat([said("Hi!")], response_format=dropped)
        with pytest.raises(openai.BadRequestError, match="cannot follow the grammar"):
            served.chat([said("Hi!")], response_format=dropped)


@pytest.mark.local
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_a_killed_llama_cpp_ends_running_answers_with_an_error_and_serves_later_ones(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        errors: list[Exception] = []

        def story() -> None:
            try:
                for _ in served.chat(
                    [{"role": "user", "content": "Tell me a long story."}], max_tokens=1500, stream=True, temperature=2
                ):
                    begun.set()
            except openai.APIError as error:
                errors.append(error)

        begun = threading.Event()
        running = threading.Thread(target=story)
        running.start()
        assert begun.wait(PATIENCE)
        before = served.llama()
        os.kill(before, signal.SIGKILL)
        assert called(served.chat(tools=[TOOL]).choices[0].message) == [("get_weather", {"city": "Paris"})]
        running.join(PATIENCE)
        assert "llama.cpp ended (SIGKILL)" in str(errors[0])
        assert served.llama() != before
    assert not Path(f"/proc/{before}").exists()


@pytest.mark.local
def test_two_models_are_served_at_once(tmp_path: Path) -> None:
    file = tmp_path / "unspool.toml"
    file.write_text(f'[models.small]\n[models.plain]\nengine = "{need_small_model()}"\n', encoding="utf-8")
    with serving(tmp_path, "--config", str(file)) as served:
        assert called(served.chat(model="small", tools=[TOOL]).choices[0].message) == [
            ("get_weather", {"city": "Paris"})
        ]
        demanded = served.chat(model="plain", tools=[TOOL], tool_choice="required").choices[0].message
        assert called(demanded)[0][0] == "get_weather"
