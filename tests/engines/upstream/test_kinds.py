"""What each kind of server is sent, field by field, and what is read from the bytes that it writes.

The bytes are those of the servers' own sources: vLLM 0.33.0 (``entrypoints/openai/completion/serving.py``: events are
dumped without unset fields, the usage without nulls), SGLang 0.5.23 (``srt/entrypoints/openai/serving_completions.py``
and ``protocol.py``: nulls are written), llama.cpp as in llama-cpp-python 0.3.36 (``tools/server/server-task.cpp``:
``to_json_non_oaicompat``), llama-cpp-python 0.3.36 (``llama_cpp/llama.py``) and transformers 5.23
(``cli/serving/completion.py``). FastDeploy's follow its documentation, because its sources are on no registry.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import Constraint
from unspool.engines import Delta, Request, Thinking
from unspool.engines.upstream import KINDS, Upstream
from unspool.engines.upstream.answers import read_completion, read_native
from unspool.engines.upstream.client import LONG
from unspool.engines.upstream.kinds import body
from unspool.grammar.gbnf import gbnf
from unspool.wire import Usage

from ...conftest import run
from ..generation import text_of, until
from .support import STREAM, Answer, Asked, Fake, collect, connected, event, fails, fault, request, says, tells

OWNERS = {k.name: k.owner for k in KINDS.values()}


def constraint(**schema: Any) -> Constraint:
    schema = schema or {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    found = unspool.constrain("hermes", [tool], "required", stage="content")
    assert found is not None
    return found


# -- what servers write ------------------------------------------------------------------------------------------------


def stream(name: str) -> bytes:
    """What a kind of server writes; ``-captured`` where the tokens were asked for."""
    return (Path(__file__).parent / "streams" / f"{name.removesuffix('-llguidance')}.txt").read_bytes()


_CAFE: dict[str, Any] = {"token": " café", "logprob": -0.25, "bytes": [32, 99, 97, 102, 195, 169]}
_TEA = {"token": " tea", "logprob": -1.5, "bytes": [32, 116, 101, 97]}
LOGPROBS = ({**_CAFE, "top_logprobs": [_CAFE, _TEA]},)
COUNTS: dict[str, Any] = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def server(kind: str, answer: Answer | None = None) -> Fake:
    """A server of a kind, with the routes by which it is recognized."""
    head = STREAM.replace(b"text/event-stream", KINDS[kind].stream.encode())
    # The answers of vLLM and SGLang about tokens say more.
    tokens = {"tokens": [1, 15043], "count": 2, "max_model_len": 4096}
    fake = Fake(OWNERS[kind] or "me", answer or says(stream(kind), head=head), tokenize=tells(tokens))
    if path := KINDS[kind].path:
        fake.routes["/openapi.json"] = tells({"paths": {"/v1/completions": {}, path: {}}})
    return fake


def seen(kind: str, asked: Request, written: bytes | None = None, **options: Any) -> tuple[Asked, list[Delta]]:
    """The request as the server got it, and the resulting output."""

    async def main() -> tuple[Asked, list[Delta]]:
        fake = server(kind, None if written is None else says(written))
        options.setdefault("kind", kind if kind.endswith("llguidance") else None)
        async with connected(fake, **options) as engine:
            deltas = await collect(engine, asked)
        (one,) = fake.generated
        return one, deltas

    return run(main())


def refused(kind: str, asked: Request, **options: Any) -> str:
    async def main() -> str:
        fake = server(kind)
        async with connected(fake, kind=kind, **options) as engine:
            found, error = await fault(engine, asked)
        assert (found, error.status, fake.generated) == ("", 400, [])
        return str(error)

    return run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_of_every_kind_is_read(kind: str) -> None:
    deltas = seen(kind, request())[1]
    assert text_of(deltas) == "<think> café"
    assert deltas[0].text == "<think>"
    assert [d.finish_reason for d in deltas] == [None] * (len(deltas) - 1) + ["stop"]


@pytest.mark.parametrize(
    ("kind", "usage"),
    [
        ("vllm", Usage(**COUNTS, cached_tokens=1)),
        ("sglang", Usage(**COUNTS, cached_tokens=1)),
        ("llama.cpp", Usage(prompt_tokens=2, completion_tokens=3, cached_tokens=1)),
        ("fastdeploy", Usage(**COUNTS, cached_tokens=1, reasoning_tokens=2)),
        ("transformers", Usage(**COUNTS)),
        ("llama-cpp-python", None),
        ("ollama", Usage(prompt_tokens=2, completion_tokens=3)),
    ],
)
def test_the_usage_is_what_the_server_reports(kind: str, usage: Usage | None) -> None:
    assert seen(kind, request())[1][-1].usage == usage


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_token_ids_belong_to_the_text(kind: str) -> None:
    assert [d.token_ids for d in seen(kind, request())[1]] == [(151667,), (52,), ()]
    kept = seen(kind, request(), keep_end=True)[1]
    assert [i for d in kept for i in d.token_ids] == [151667, 52, 151645]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp"])
@pytest.mark.parametrize("alternatives", [0, 1, 2])
def test_logprobs_have_the_form_of_chat_completions(kind: str, alternatives: int) -> None:
    found = [d.logprobs for d in seen(kind, request(logprobs=alternatives))[1] if d.logprobs]
    assert found == [({**LOGPROBS[0], "top_logprobs": LOGPROBS[0]["top_logprobs"][:alternatives]},)]


@pytest.mark.parametrize(
    ("keep_end", "more", "tokens"),
    [
        (False, {}, [(), (5,)]),
        (True, {}, [(5,), (5, 6)]),
        (False, {"stop_reason": "word"}, [(5,), (5, 6)]),
        (False, {"matched_stop": "word"}, [(5,), (5, 6)]),
        (False, {"finish_reason": "length"}, [(5,), (5, 6)]),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_an_ending_token_without_text_has_no_logprob(
    count: int, keep_end: bool, more: dict[str, Any], tokens: list[tuple[int, ...]]
) -> None:
    fields = {"tokens": ["a", "b"][:count], "token_logprobs": [-0.5, -0.25][:count], "top_logprobs": None}
    choice = {"text": "a", "finish_reason": "stop", "token_ids": [5, 6][:count], "logprobs": fields, **more}
    piece = read_completion(json.dumps({"choices": [choice]}).encode(), 0, keep_end, capture=False)
    assert piece.token_ids == tokens[count - 1]
    assert [entry["token"] for entry in piece.logprobs] == ["a", "b"][: len(piece.token_ids)]


def test_a_special_token_among_the_alternatives_of_llama_cpp_has_the_name_of_the_chosen_one() -> None:
    chosen, named = {"id": 2, "logprob": -0.1, "bytes": []}, {"id": 3, "token": "a", "logprob": -3.0, "bytes": [97]}
    reported = {**chosen, "token": "<|im_end|>", "top_logprobs": [{**chosen, "token": ""}, named]}
    data = {"content": "", "completion_probabilities": [reported]}
    (entry,) = read_native(json.dumps(data).encode(), 2, keep_end=False, capture=False).logprobs
    assert [one["token"] for one in entry["top_logprobs"]] == ["<|im_end|>", "a"]


def test_logprobs_of_servers_without_ids_are_unchanged() -> None:
    fields = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": None}
    choice = {"text": "a", "finish_reason": "stop", "logprobs": fields}
    piece = read_completion(json.dumps({"choices": [choice]}).encode(), 0, keep_end=False, capture=False)
    assert len(piece.logprobs) == 1


@pytest.mark.parametrize(
    ("kind", "last", "reason"),
    [
        ("vllm", {"choices": [{"text": "", "finish_reason": "length", "token_ids": [5]}]}, "length"),
        ("vllm", {"choices": [{"text": "", "finish_reason": "repetition"}]}, "stop"),
        ("llama.cpp", {"content": "", "stop": True, "stop_type": "limit"}, "length"),
        ("llama.cpp", {"content": "", "stop": True, "stop_type": "word"}, "stop"),
        ("fastdeploy", {"choices": [{"text": "", "finish_reason": "content_filter"}]}, "content_filter"),
    ],
)
async def test_finish_reasons_are_openais(kind: str, last: Any, reason: str) -> None:
    async with connected(server(kind, says(event(last)))) as engine:
        assert (await collect(engine))[-1].finish_reason == reason


# -- what servers are sent ---------------------------------------------------------------------------------------------

EVERYTHING = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.3,
    "repetition_penalty": 1.1,
    "seed": 7,
    "logprobs": 2,
}
LLAMA_NAMES = {k: v for k, v in EVERYTHING.items() if k not in ("repetition_penalty", "logprobs")}
USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
TEXT = {"prompt": "<s>Hi", "max_tokens": 50}
IDS = {"prompt": [1, 15043], "max_tokens": 50}
RAW = {"skip_special_tokens": False, "add_special_tokens": False}
SENT: dict[str, dict[str, Any]] = {
    "vllm": {**EVERYTHING, **USAGE, **TEXT, **RAW, "spaces_between_special_tokens": False, "return_token_ids": True},
    "sglang": {**EVERYTHING, **USAGE, **IDS, "skip_special_tokens": False, "return_token_ids": True},
    "fastdeploy": {**EVERYTHING, **USAGE, **TEXT, **RAW},
    "llama.cpp": {
        **LLAMA_NAMES,
        "prompt": [1, 15043],
        "repeat_penalty": 1.1,
        "n_probs": 2,
        "n_predict": 50,
        "cache_prompt": True,
        "response_fields": ["content", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"],
    },
    "llama-cpp-python": {**LLAMA_NAMES, **TEXT, "repeat_penalty": 1.1, "logprobs": 2},
}


@pytest.mark.parametrize("kind", SENT)
def test_every_field_has_the_servers_own_name(kind: str) -> None:
    asked, _ = seen(kind, request(max_tokens=50, **EVERYTHING))
    assert asked.method == "POST"
    assert asked.path == ("/completion" if kind == "llama.cpp" else "/v1/completions")
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {"stream": True, "model": "model-of-it", **SENT[kind]}


def test_transformers_gets_only_fields_that_it_knows() -> None:
    asked, _ = seen("transformers", request(max_tokens=5, temperature=0.5, top_p=0.9, seed=2**40, top_k=-1, min_p=0.0))
    sampling = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "seed": 2**40 % 2**32}
    assert asked.body == {"prompt": "<s>Hi", "stream": True, **sampling}, (
        "its list of models is not what it serves, so none is named"
    )
    named, _ = seen("transformers", request(), model="mine")
    assert named.body == {"prompt": "<s>Hi", "stream": True, "model": "mine"}


LACKS = [("top_k", 5), ("presence_penalty", 1.0), ("logprobs", 0), ("repetition_penalty", 1.2)]


@pytest.mark.parametrize(
    ("kind", "asked", "named"),
    [
        *(("transformers", request(**{field: value}), f"{field}: ") for field, value in LACKS),
        *((kind, request([1, 2, 3]), "prompt: ") for kind in ("llama-cpp-python", "transformers")),
    ],
)
def test_features_that_a_kind_lacks_are_refused(kind: str, asked: Request, named: str) -> None:
    assert refused(kind, asked).startswith(named)


REST = {"vllm": 4096, "sglang": 4096 - 2 - 128, "llama-cpp-python": 0, "fastdeploy": None, "transformers": None}
"""Without a limit, the rest of the context is the limit."""


@pytest.mark.parametrize(
    ("kind", "asked", "field", "value"),
    [
        *((kind, request(), "max_tokens", most) for kind, most in REST.items()),
        ("llama.cpp", request(), "n_predict", -1),
        *((k, request((1, 2), max_tokens=3), "prompt", [1, 2]) for k in ("vllm", "sglang", "llama.cpp", "fastdeploy")),
        ("vllm", request("a\ud83d"), "prompt", "a\ud83d"),
        ("vllm", request(seed=2**64 - 1), "seed", 2**63 - 1),
        ("llama.cpp", request(seed=-1), "seed", 2**32 - 2),  # -1 would be any
    ],
)
def test_a_field_has_a_value_that_the_server_takes(kind: str, asked: Request, field: str, value: Any) -> None:
    assert seen(kind, asked)[0].body.get(field) == value


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_server_that_hides_its_context_needs_a_limit(kind: str) -> None:
    fake = server(kind)
    fake.context = None
    async with connected(fake) as engine:
        _, error = await fault(engine)
        assert error.status == 400
        assert "max_tokens" in str(error)
        await collect(engine, request(max_tokens=3))


@pytest.mark.parametrize(
    ("kind", "path", "field"), [("sglang", "prompt", "add_special_tokens"), ("llama.cpp", "content", "add_special")]
)
async def test_a_prompt_gets_no_second_beginning_of_sequence_token(kind: str, path: str, field: str) -> None:
    fake = server(kind)
    async with connected(fake) as engine:
        await collect(engine)
    (asked,) = (a for a in fake.asked if a.path == "/tokenize")
    assert asked.body == {path: "<s>Hi", field: False, "model": "model-of-it"}


async def test_a_request_without_a_prompt_is_refused() -> None:
    async with connected(server("vllm")) as engine:
        _, error = await fault(engine, Request(messages=[{"role": "user", "content": "Hi"}]))
        assert error.status == 400
        assert str(error) == "prompt: the engine needs one, but the server has no chat template to render it"


@pytest.mark.parametrize(
    ("kind", "field"),
    [("vllm", "include_stop_str_in_output"), ("sglang", "no_stop_trim"), ("fastdeploy", "include_stop_str_in_output")],
)
def test_the_token_that_ends_an_output_is_kept_on_demand(kind: str, field: str) -> None:
    assert field not in seen(kind, request())[0].body
    assert seen(kind, request(), keep_end=True)[0].body[field] is True


def test_llama_cpp_is_asked_which_special_tokens_to_show() -> None:
    asked, _ = seen("llama.cpp", request(), markers=("<tool_call>", "</tool_call>"))
    assert asked.body["preserved_tokens"] == ["<tool_call>", "</tool_call>"]
    assert "preserved_tokens" not in seen("vllm", request(), markers=("<tool_call>",))[0].body


# -- constraints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "form"),
    [
        ("vllm", "response_format", lambda c: c.structural_tag),
        ("sglang", "response_format", lambda c: c.structural_tag),
        ("fastdeploy", "guided_grammar", lambda c: gbnf(c.grammar)),
        ("llama.cpp", "grammar", lambda c: gbnf(c.grammar)),
        ("llama.cpp-llguidance", "grammar", lambda c: c.lark_spaced),
        ("llama-cpp-python", "grammar", lambda c: gbnf(c.grammar)),
    ],
)
def test_a_constraint_is_sent_in_the_field_that_the_kind_reads(
    kind: str, field: str, form: Callable[[Constraint], Any]
) -> None:
    wanted = constraint()
    asked, _ = seen(kind, request(constraint=wanted))
    assert asked.body[field] == json.loads(json.dumps(form(wanted)))
    free, _ = seen(kind, request())
    assert field not in free.body


@pytest.mark.parametrize("kind", ["transformers", "ollama"])
def test_a_kind_without_constraints_refuses_them(kind: str) -> None:
    wanted = constraint()
    error = refused(kind, request(constraint=wanted))
    assert error.startswith(f"the engine ({kind}) does not support constraints")
    wanted.looser = lambda: None
    assert seen(kind, request(constraint=wanted))[0].body.keys() == seen(kind, request())[0].body.keys()


def test_schemas_beyond_a_kinds_grammar_are_refused() -> None:
    wanted = constraint(
        type="object", properties={"zip": {"type": "string", "pattern": r"^\p{N}{5}$"}}, required=["zip"]
    )
    message = refused("llama.cpp", request(constraint=wanted))
    assert "zip.pattern" in message
    assert seen("vllm", request(constraint=wanted))[0].body["response_format"] == wanted.structural_tag
    wanted.looser = constraint
    assert seen("llama.cpp", request(constraint=wanted))[0].body["grammar"] == constraint().gbnf


async def test_a_long_prompt_does_not_wait_for_grammars(monkeypatch: pytest.MonkeyPatch) -> None:
    derived, begun = threading.Event(), []

    def derive(wanted: Constraint) -> bool:
        begun.append(wanted)
        return derived.wait()

    monkeypatch.setattr(Constraint, "structural_tag", property(derive))
    async with connected(Fake("vllm", says(stream("vllm")))) as engine:
        slow = [asyncio.create_task(collect(engine, request(constraint=constraint()))) for _ in range(3)]
        try:
            await until(lambda: len(begun) == 2)
            async with asyncio.timeout(20):
                assert text_of(await collect(engine, request("x" * LONG)))
        finally:
            derived.set()
        assert all([text_of(await one) for one in slow])


def test_ollama_gets_a_raw_text_and_its_options_in_one_field() -> None:
    asked, _ = seen("ollama", request(temperature=0.5, seed=2**40, top_k=3), model="m")
    assert asked.path == "/api/generate"
    body = dict(asked.body)
    assert body.pop("prompt")
    assert body.pop("options") == {"temperature": 0.5, "seed": 2**40 % (2**31 - 1), "top_k": 3, "num_predict": -1}
    assert body == {"model": "m", "raw": True, "think": False, "stream": True, "truncate": False, "shift": False}


@pytest.mark.parametrize(
    "last", ['{"error":"the runner has stopped"}', '{"response":"","thinking":"Reasoning.","done":false}']
)
async def test_an_error_or_a_parsed_part_of_ollama_ends_the_output(last: str) -> None:
    head = STREAM.replace(b"text/event-stream", b"application/x-ndjson")
    answer = says(b'{"response":"a","done":false}\n', f"{last}\n".encode(), head=head)
    async with connected(server("ollama", answer)) as engine:
        found, error = await fault(engine, request())
    assert (found, error.status) == ("a", 502)


# -- detecting the kind ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.endswith("llguidance")])
async def test_every_kind_is_detected_once(kind: str) -> None:
    fake = server(kind)
    async with connected(fake) as engine:
        for _ in range(3):
            await collect(engine)
    assert [a.path for a in fake.asked].count("/v1/models") == 1
    assert len(fake.generated) == 3


async def test_transformers_is_detected_though_it_fails_to_list_its_models() -> None:
    fake = server("transformers")
    fake.routes["/v1/models"] = fails(500, b"Internal Server Error", "text/plain")
    async with connected(fake, check_interval=0.02) as engine:
        await engine.health()
        assert text_of(await collect(engine)) == "<think> café"
        await until(lambda: [a.path for a in fake.asked].count("/health") > 1)


async def test_concurrent_requests_share_one_detection() -> None:
    fake = server("vllm")
    async with connected(fake) as engine:
        await asyncio.gather(*(collect(engine) for _ in range(20)))
    assert [a.path for a in fake.asked].count("/v1/models") == 1


@pytest.mark.parametrize("answer", [[], {}, {"data": []}, {"data": ["x"]}, {"data": [{"owned_by": "who"}]}, b"{"])
async def test_an_undetectable_server_needs_a_kind(answer: Any) -> None:
    fake = Fake("", says(stream("vllm")), v1__models=tells(answer))
    async with connected(fake) as engine:
        _, error = await fault(engine)
        assert error.status == 503
        assert "kind: " in str(error)
        assert "vllm" in str(error)
    async with connected(fake, kind="vllm") as engine:
        assert text_of(await collect(engine, request(max_tokens=5))) == "<think> café"


async def test_a_server_without_a_list_of_models_needs_kind_and_model() -> None:
    fake = Fake("", says(stream("llama-cpp-python")), v1__models=fails(404))
    async with connected(fake, kind="llama-cpp-python", model="mine") as engine:
        assert text_of(await collect(engine)) == "<think> café"
    assert fake.generated[0].body["model"] == "mine"


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"urls": []}, "urls: at least one"),
        ({"urls": "localhost:8000"}, "urls: 'localhost:8000' is not like"),
        ({"urls": "ftp://localhost"}, "urls: "),
        ({"urls": "http://localhost:99999"}, "urls: "),
        ({"urls": "http://user:secret@localhost"}, "urls: must not contain a user"),
        ({"urls": "http://localhost?x=1"}, "urls: "),
        ({"urls": ["http://a:1", "http://a:1/v1/"]}, "urls: http://a:1 is given twice"),
        ({"kind": "openai"}, "kind: 'openai' is not one of vllm, sglang"),
        ({"api_key": "a\r\nb"}, "api_key: "),
        ({"connect_timeout": 0}, "connect_timeout: 0 is not"),
        ({"first_timeout": float("nan")}, "first_timeout: "),
        ({"next_timeout": float("inf")}, "next_timeout: "),
        ({"check_interval": -1}, "check_interval: "),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=": ") as caught:
        Upstream(**{"urls": "http://localhost:8000", **wrong})
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_may_end_with_a_slash_or_v1(suffix: str) -> None:
    fake = server("vllm")
    async with fake.running():
        engine = Upstream(fake.url + suffix)
        assert text_of(await collect(engine)) == "<think> café"
        await engine.close()


def test_a_reasoning_budget_is_sent_to_servers_that_support_it() -> None:
    request = Request(prompt="x", thinking=Thinking(budget=9, opening="<think>", closing="</think>", inside=True))
    fields: dict[str, dict[str, Any]] = {
        "llama.cpp": {
            "reasoning_budget_tokens": 9,
            "reasoning_budget_start_tag": "<think>",
            "reasoning_budget_end_tags": ["</think>"],
        },
        "fastdeploy": {"reasoning_max_tokens": 9},
        "vllm": {"thinking_token_budget": 9},
        "sglang": {"custom_params": {"thinking_budget": 9}},
    }
    for kind in KINDS.values():
        for budgets in (False, True):
            asked = body(kind, request, [1], model="m", context=100, budgets=budgets)
            plain = body(kind, Request(prompt="x"), [1], model="m", context=100, budgets=budgets)
            taken = fields.get(kind.name.removesuffix("-llguidance"), {}) if budgets or not kind.opt_in else {}
            assert asked == {**plain, **taken}


# -- tokens for training -----------------------------------------------------------------------------------------------


CAPTURE = Request(prompt="Hi", prompt_ids=[1, 15043], capture=True)


@pytest.mark.parametrize("keep_end", [False, True])
@pytest.mark.parametrize(
    "name", ["vllm-captured", "sglang-captured", "sglang-captured-increments", "llama.cpp-captured"]
)
def test_captured_tokens_are_those_that_were_sampled_with_their_log_probabilities(name: str, keep_end: bool) -> None:
    kind = name.partition("-captured")[0]
    asked, deltas = seen(kind, CAPTURE, stream(name), keep_end=keep_end)
    assert asked.body.get("prompt", asked.body.get("input_ids")) == [1, 15043]
    found = [d.sampled for d in deltas if d.sampled is not None]
    assert [i for s in found for i in s.ids] == [151667, 52, 151645]
    assert [p for s in found for p in s.logprobs] == [-0.5, -0.25, -0.125]
    assert {d.prompt_ids or (d.sampled.prompt_ids if d.sampled else None) for d in deltas} - {None, ()} == {(1, 15043)}
    assert text_of(deltas) == "<think> café"
    assert not any(d.logprobs for d in deltas), "the client asked for none"
    if kind != "llama.cpp":
        assert found[-1].versions == (("7", 0, 2), ("8", 2, 3))
    assert asked.body.get("return_weight_versions") is (True if kind == "vllm" else None)


def test_sglang_is_asked_for_tokens_at_its_own_endpoint() -> None:
    asked, deltas = seen("sglang", CAPTURE, stream("sglang-captured"))
    assert asked.path == "/generate"
    assert asked.body == {
        "input_ids": [1, 15043],
        "stream": True,
        "model": "model-of-it",
        "return_logprob": True,
        "return_routed_experts": True,
        "return_prompt_token_ids": True,
        "sampling_params": {
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "max_new_tokens": 4096 - 2 - 128,
        },
    }
    assert [d.sampled.experts for d in deltas if d.sampled is not None] == ["", "", "AAEC"]
    assert [d.token_ids for d in deltas] == [(151667,), (52,), (), ()]


def test_log_probabilities_that_do_not_belong_to_the_tokens_are_left_out() -> None:
    one_too_many = stream("vllm-captured").replace(b'"token_logprobs":[-0.25]', b'"token_logprobs":[-0.25,-0.5]')
    _, deltas = seen("vllm", CAPTURE, one_too_many)
    assert [p for d in deltas if d.sampled for p in d.sampled.logprobs] == [-0.5, None, -0.125]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp"])
def test_nothing_is_captured_unless_it_is_asked_for(kind: str) -> None:
    assert not any(d.sampled for d in seen(kind, request())[1])


def test_the_kinds_that_hide_special_tokens_are_known() -> None:
    hiding = {name for name, kind in KINDS.items() if not kind.shows_special}
    assert hiding == {"ollama", "llama-cpp-python", "transformers"}
