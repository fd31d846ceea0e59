"""Raw completions, read by OpenAI's own client, and the tokenizer over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from unspool.engines import Delta
from unspool.engines.upstream import Upstream

from ..engines.upstream.support import DONE, Fake, event, fails, says, tells, threaded
from .support import HELLO, Live, Scripted, chunks, live, replay
from .writing import TOKENIZER, Writing, template

PATH = "/v1/completions"
RAW = '<think>So.</think> Hi <tool_call>{"name": "f"}</tool_call>\n'


def parts(server: Live, stream: bool, **asked: Any) -> list[Any]:
    """The pieces of a streamed completion, or the whole one."""
    answer = server.openai.completions.create(model="m", stream=stream, **asked)
    return list(answer) if stream else [answer]


def entry(token: str, logprob: float, **tops: float) -> dict[str, Any]:
    top = [{"token": t, "logprob": p, "bytes": None} for t, p in tops.items()]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": top}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_raw_completion_is_the_engines_own_text(stream: bool) -> None:
    with live(Scripted([RAW[:7], RAW[7:]]), "hermes") as server:
        pieces = parts(server, stream, prompt="Once", max_tokens=9)
    assert (len(pieces) > 2) is stream
    assert ("".join(c.choices[0].text for c in pieces), pieces[-1].choices[0].finish_reason) == (RAW, "stop")
    last = pieces[-1]
    assert (last.object, last.id[:5], last.model) == ("text_completion", "cmpl-", "served")
    assert stream or (last.usage.prompt_tokens, last.usage.completion_tokens) == (11, 7)
    (asked,) = server.engine.requests
    assert (asked.prompt, asked.max_tokens, asked.messages, asked.constraint) == ("Once", 9, [], None)
    assert (asked.add_special, asked.echo) == (True, False)


def test_max_tokens_are_sixteen_unless_the_request_says_otherwise() -> None:
    with live(Scripted(["x"])) as server:
        server.openai.completions.create(model="m", prompt="Once")
    assert server.engine.requests[0].max_tokens == 16


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_each_of_several_prompts_has_n_outputs(stream: bool) -> None:
    with live(Scripted(["x"])) as server:
        told: Any = {"stream_options": {"include_usage": True}} if stream else {}
        pieces = parts(server, stream, prompt=["a", "b", "c"], n=2, seed=7, **told)
        usage = pieces[-1].usage
    assert {c.index for piece in pieces for c in piece.choices} == set(range(6))
    found = sorted(server.engine.requests, key=lambda r: r.choice)
    assert [r.prompt for r in found] == ["a", "a", "b", "b", "c", "c"]
    assert [r.sampling.seed for r in found] == [7, 8, 7, 8, 7, 8]
    assert (usage.prompt_tokens, usage.completion_tokens) == (33, 42), "each prompt counts once"


def test_prompts_may_be_ids_of_tokens() -> None:
    with live(Scripted(["x"])) as server:
        server.openai.completions.create(model="m", prompt=[1, 2, 3])
        server.openai.completions.create(model="m", prompt=[[4, 5], [6]])
    assert [r.prompt for r in server.engine.requests] == [(1, 2, 3), (4, 5), (6,)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_prompt_is_repeated_and_holds_no_stop_strings(stream: bool) -> None:
    with live(replay("and then.\nSo it was.")) as server:
        pieces = parts(server, stream, prompt="Once.\n", echo=True, stop=["\n"])
    assert "".join(c.choices[0].text for c in pieces) == "Once.\nand then."


def test_a_prompt_of_ids_is_repeated_as_text_if_its_tokens_are_known() -> None:
    ids = TOKENIZER.encode("<|im_start|>Once", add_special_tokens=False).ids
    with live(Writing("more"), "hermes", prompts=template()) as server:
        answer = server.openai.completions.create(model="m", prompt=ids, echo=True)
        assert answer.choices[0].text == "<|im_start|>Oncemore"
    refused = pytest.raises(openai.BadRequestError, match="echo: needs a prompt of text")
    with live(Scripted(["more"])) as server, refused:
        server.openai.completions.create(model="m", prompt=ids, echo=True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_log_probabilities_have_the_form_of_completions(stream: bool) -> None:
    pieces = [Delta(text="Hé", logprobs=(entry("Hé", -0.5, no=-1.5),)), Delta(text="!", logprobs=(entry("!", -0.25),))]
    with live(Scripted(pieces)) as server:
        answer = parts(server, stream, prompt="x", logprobs=1)
    found = [f for c in answer if (f := c.choices[0].logprobs) is not None]
    assert [t for f in found for t in f.tokens] == ["Hé", "!"]
    assert [p for f in found for p in f.token_logprobs] == [-0.5, -0.25]
    assert [t for f in found for t in f.top_logprobs] == [{"Hé": -0.5, "no": -1.5}, {"!": -0.25}]
    assert [o for f in found for o in f.text_offset] == [0, 2]


def test_nothing_is_generated_where_max_tokens_is_zero() -> None:
    with live(Scripted(["surprise"])) as server:
        answer = server.openai.completions.create(model="m", prompt="Once", echo=True, max_tokens=0)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Once", "length")
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (0, answer.usage.prompt_tokens)


def test_a_failure_is_an_error_of_openais_form_whole_and_streamed() -> None:
    with live(Scripted(["a", "b"], fail_after=1)) as server:
        with pytest.raises(openai.InternalServerError, match="the device is lost"):
            server.openai.completions.create(model="m", prompt="x")
        frames = chunks(server.post(PATH, prompt="x", stream=True).text)
        assert frames[-1]["error"]["message"] == "the device is lost"


def test_the_token_that_ends_an_output_is_none_of_it() -> None:
    with live(Scripted(["So it ", "is.<|im_", "end|>"]), "hermes", prompts=template()) as server:
        answer = server.openai.completions.create(model="m", prompt="x")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("So it is.", "stop")


# -- log-probabilities of prompts: vLLM and SGLang ---------------------------------------------------------------------

PROMPT: dict[str, list[Any]] = {
    "tokens": ["Two", " and", " two"],
    "token_logprobs": [None, -2.0, -1.0],
    "top_logprobs": [None, {" and": -2.0, ",": -0.5}, {" two": -1.0}],
}


def said(text: str, more: list[tuple[str, float]], reason: str | None, usage: Any) -> bytes:
    """The first chunk of an answer that repeats the prompt's tokens."""
    logprobs = {
        "tokens": [*PROMPT["tokens"], *(t for t, _ in more)],
        "token_logprobs": [*PROMPT["token_logprobs"], *(p for _, p in more)],
        "top_logprobs": [*PROMPT["top_logprobs"], *({t: p} for t, p in more)],
        "text_offset": [-1] * (3 + len(more)),
    }
    choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason, "token_ids": [7]}
    return event({"choices": [choice], "usage": usage})


def scoring(kind: str, *, end: bool = False) -> Fake:
    """vLLM leaves the prompt's text out, as ids of tokens are asked for; SGLang decodes it without special tokens."""
    text, more = ("", [("<|im_end|>", -0.125)]) if end else (" are", [(" are", -0.125)])
    echoed = "Two and two" if kind == "sglang" else ""
    usage = None if kind == "sglang" else {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}

    answer = says(said(echoed + text, more, "stop" if end else "length", usage), DONE)
    return Fake(kind, answer, tokenize=tells({"tokens": [1, 2, 3]}))


@pytest.fixture(params=["vllm", "sglang"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("prompt", ["Two and two", [1, 2, 3]], ids=["text", "ids"])
def test_log_probabilities_of_a_prompt_are_those_of_the_engine(kind: str, stream: bool, prompt: Any) -> None:
    if isinstance(prompt, list):
        prompt = TOKENIZER.encode("abc", add_special_tokens=False).ids
    with threaded(scoring(kind)) as fake, live(Upstream(fake.url, tokenizer=TOKENIZER), "hermes") as server:
        asked: Any = {"prompt": prompt, "echo": True, "logprobs": 0, "max_tokens": 1, "stream": stream}
        answer = server.ok(PATH, **asked)
    found = [c["choices"][0] for c in (chunks(answer.text) if stream else [answer.json()])]
    logprobs = next(c["logprobs"] for c in found if c["logprobs"])
    echoed = "Two and two" if isinstance(prompt, str) else "abc"
    assert "".join(c["text"] for c in found) == echoed + " are"
    assert logprobs["tokens"] == ["Two", " and", " two", " are"]
    assert logprobs["token_logprobs"] == [None, -2.0, -1.0, -0.125]
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["text_offset"] == [0, 3, 7, 11]
    sent = fake.generated[0].body
    assert (sent["echo"], sent["logprobs"], sent["max_tokens"]) == (True, 1, 1)


def test_the_last_token_has_its_entry_if_it_ends_the_output(kind: str) -> None:
    with threaded(scoring(kind, end=True)) as fake, live(Upstream(fake.url), "hermes") as server:
        answer = server.post(PATH, prompt="Two and two", echo=True, logprobs=1, max_tokens=1).json()
    (choice,) = answer["choices"]
    assert choice["text"] == "Two and two"
    assert len(choice["logprobs"]["tokens"]) == 4, "lm-eval takes the last for the generated token"


def test_a_prompt_alone_is_scored_where_max_tokens_is_zero(kind: str) -> None:
    with threaded(scoring(kind)) as fake, live(Upstream(fake.url), "hermes") as server:
        answer = server.post(PATH, prompt="Two and two", echo=True, logprobs=1, max_tokens=0).json()
    (choice,) = answer["choices"]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("Two and two", PROMPT["tokens"])
    assert fake.generated[0].body["max_tokens"] == 1


def test_an_engine_without_log_probabilities_of_prompts_is_named() -> None:
    with threaded(Fake("llamacpp", fails(500))) as fake:
        fake.routes["/tokenize"] = scoring("sglang").routes["/tokenize"]
        with live(Upstream(fake.url), "hermes") as server:
            answer = server.post(PATH, prompt="x", echo=True, logprobs=1)
    assert answer.status_code == 400
    assert "the engine (llama.cpp) does not report those of prompts" in answer.json()["error"]["message"]


@pytest.mark.parametrize("special", [None, False], ids=["by default", "without"])
@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp"])
def test_the_tokenizers_first_token_is_added_unless_it_is_refused(owner: str, special: bool | None) -> None:
    fake = scoring("sglang")
    fake.owner = owner
    with threaded(fake), live(Upstream(fake.url), "hermes") as server:
        server.post(PATH, prompt="x", **({} if special is None else {"add_special_tokens": special}))
    (sent,) = [a.body for a in fake.asked if a.path == ("/v1/completions" if owner == "vllm" else "/tokenize")]
    assert sent["add_special" if owner == "llamacpp" else "add_special_tokens"] is (special is None)


# -- the tokenizer -----------------------------------------------------------------------------------------------------


@pytest.fixture
def tokenizing() -> Iterator[Any]:
    with live(Writing("x"), "hermes", prompts=template(), api_key="secret") as server:
        server.http.headers["authorization"] = "Bearer secret"
        yield server


def test_texts_become_tokens_and_tokens_texts(tokenizing: Any) -> None:
    text = "<|im_start|>user\nHé!"
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    answer = tokenizing.post("/tokenize", prompt=text, add_special_tokens=False, return_token_strs=True).json()
    strings = [TOKENIZER.id_to_token(i) for i in ids]
    assert answer == {"count": len(ids), "max_model_len": None, "tokens": ids, "token_strs": strings}
    assert tokenizing.post("/detokenize", tokens=ids).json() == {"prompt": text}


def test_a_conversation_becomes_the_tokens_of_its_prompt(tokenizing: Any) -> None:
    found = {}
    for generate in (True, False):
        answer = tokenizing.post("/tokenize", messages=HELLO, add_generation_prompt=generate).json()
        found[generate] = tokenizing.post("/detokenize", tokens=answer["tokens"]).json()["prompt"]
        assert answer["count"] == len(answer["tokens"])
    assert found[True] == found[False] + "<|im_start|>assistant\n"
    tokenizing.post(messages=HELLO)
    assert tokenizing.engine.requests[-1].prompt == found[True]


def test_what_cannot_be_tokenized_is_said(tokenizing: Any) -> None:
    for path, fields, message in (
        ("/tokenize", {}, "prompt: is required"),
        ("/tokenize", {"prompt": "x" * 1_048_577}, "prompt: 1,048,577 characters; allowed are 1,048,576"),
        ("/tokenize", {"messages": []}, "messages: is empty"),
        ("/detokenize", {}, "tokens: is required"),
        ("/detokenize", {"tokens": [1, "2"]}, "tokens: must be a list of token ids"),
        ("/detokenize", {"tokens": [1 << 40]}, "tokens: must be a list of token ids"),
        ("/detokenize", {"tokens": [1, 1 << 30]}, "tokens: 1073741824 is no token of the vocabulary"),
    ):
        answer = tokenizing.post(path, **fields)
        assert (answer.status_code, message in answer.json()["error"]["message"]) == (400, True), answer.text
    assert tokenizing.post("/tokenize", prompt="\ud800").status_code == 200
    with live(replay("x")) as other:
        for path, fields in (("/tokenize", {"prompt": "x"}), ("/detokenize", {"tokens": [1]})):
            answer = other.post(path, **fields)
            assert (answer.status_code, "--tokenizer" in answer.text) == (501, True)


def test_special_tokens_and_the_version_are_told(tokenizing: Any) -> None:
    assert tokenizing.http.get("/tokenizer_info").json() == {"eos_token": "<|im_end|>"}
    assert tokenizing.http.get("/version").json().keys() == {"version"}
    del tokenizing.http.headers["authorization"]
    assert tokenizing.http.get("/tokenizer_info").status_code == 401
    assert tokenizing.http.post("/tokenize", content=json.dumps({"prompt": "x"})).status_code == 401
