"""The plug-in in vLLM's own server without an engine (`vllm launch render`); run by ``make vllm``."""

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

import unspool
from unspool import Dialect, Stage

from ..loopback import told
from ..support import present, tools_of
from .support import STRICT, WEATHER, Gathered, Parts, mode_of, parts, raws
from .test_vllm_host import make_tokenizer, prompt_of
from .vllm_server import WAYS, markers, serving, write_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]
SERVERS = [
    ("hermes", "flag"),  # JSON between tags
    ("hermes", "entry point"),
    ("qwen3-coder", "flag"),  # one tag for each argument
    ("glm45", "entry point"),  # keys and values in tags
    ("deepseekv31", "flag"),  # JSON between special tokens
    ("deepseekv32", "entry point"),  # typed markup
    ("kimi_k2", "flag"),  # ids in the markup
    ("mistral", "entry point"),  # one list of calls
    ("llama3", "flag"),  # no marker at all
    ("pythonic", "entry point"),  # Python
    ("harmony", "flag"),  # frames, with the prompt's header
    ("gemma4", "entry point"),  # values of their own
]
"""Dialects of different kinds, and how the plug-in is loaded."""


class Server:
    """A server, and the dialect that it reads."""

    def __init__(self, url: str, dialect: Dialect, tokenizer: Any) -> None:
        self.url = f"{url}/v1/chat/completions"
        self.dialect = dialect
        self.tokenizer = tokenizer

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text))

    def request(self, tools: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        said = [{"role": "user", "content": "Hi"}]
        chosen = {"tools": tools, "tool_choice": "auto"} if tools else {}
        return {"model": "tiny", "messages": said, **chosen, **fields}


@pytest.fixture(scope="module", params=SERVERS, ids=[f"{name} by {way}" for name, way in SERVERS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    name, way = request.param
    dialect = unspool.get_dialect(name)
    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(markers(dialect))
    start = json.dumps("".join(dialect.start[:1]), ensure_ascii=False)
    write_model(folder, tokenizer, "{% for m in messages %}{{ m.content }}{% endfor %}{{ " + start + " }}")
    environment, flags = WAYS[way]
    with serving(folder, ["launch", "render", *flags], environment, dialect) as url:
        yield Server(url, dialect, tokenizer)


def derendered(server: Server, raw: str, prompt: list[int], request: dict[str, Any]) -> Parts:
    """A whole output through the server."""
    choice = {"index": 0, "token_ids": server.ids(raw), "finish_reason": "length"}
    body = {
        "generate_response": {"request_id": "r", "choices": [choice], "prompt_token_ids": prompt},
        "chat_request": request,
        "prompt_token_ids": prompt,
    }
    message = told(f"{server.url}/derender", body)["choices"][0]["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message.get("reasoning") or "", message.get("content") or "", calls


def streamed(server: Server, raw: str, prompt: list[int], request: dict[str, Any], size: int) -> Parts:
    """The same, a few tokens at a time."""
    ids = server.ids(raw)
    state = None
    found = Gathered()
    for at in range(0, len(ids), size):
        last = at + size >= len(ids)
        choice = {"index": 0, "token_ids": ids[at : at + size], "finish_reason": "length" if last else None}
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [choice]},
            "stream_state": state,
            "chat_request": {**request, "stream": True},
            "prompt_token_ids": prompt,
        }
        answer = told(f"{server.url}/derender", body)
        state = answer["stream_state"]
        for delta in (c["delta"] for c in answer["chunk"]["choices"]):
            found.say(delta.get("reasoning"), delta.get("content"))
            for call in delta.get("tool_calls") or []:
                name = call["function"]["name"] if call.get("id") else None
                found.call(call["index"], name, call["function"].get("arguments"))
    return found.parts


def assert_read(server: Server, raw: str, prompt: str, tools: list[dict[str, Any]]) -> None:
    """Assert that the server reads what `unspool.parse` reads, whole and streamed."""
    want = parts(unspool.parse(raw, server.dialect, tools=tools, prompt=prompt))
    whole = (
        want if want[1].strip() or not want[2] else (want[0], "", want[2])
    )  # in vLLM, blank text beside calls is no content
    ids = server.ids(prompt)
    request = server.request(tools)
    assert derendered(server, raw, ids, request) == whole
    for size in (9, len(raw)):
        got = streamed(server, raw, ids, request, size)
        assert got == want or (got[0], got[1].strip(), got[2]) == whole


def test_derendering_says_what_the_parser_says(server: Server) -> None:
    for example, raw in raws(server.dialect):
        prompt = prompt_of(server.dialect, example.stage or server.dialect.stage)
        assert_read(server, raw, prompt, tools_of(server.dialect))
    assert_read(server, "Answer <b>1</b>, and 2 < 3.", prompt_of(server.dialect, Stage.CONTENT), [WEATHER])
    if server.dialect.reasoning:
        assert_read(server, "Never closed", prompt_of(server.dialect, Stage.REASONING), [WEATHER])


@pytest.mark.parametrize("choice", ["required", "named", "auto", "single"])
def test_rendering_carries_our_tag(server: Server, choice: str) -> None:
    mode = mode_of(choice)
    request = server.request([STRICT], tool_choice=mode, parallel_tool_calls=choice != "single")
    rendered = told(f"{server.url}/render", request)
    carried = json.loads(rendered["sampling_params"]["structured_outputs"]["structural_tag"])
    own = present(unspool.constrain(server.dialect, [STRICT], mode, choice != "single", stage=Stage.CONTENT))
    kind = importlib.import_module("xgrammar").StructuralTag
    made = kind.model_validate(own.structural_tag)
    if choice == "single":  # vLLM adds its own limit
        limit = importlib.import_module("vllm.tool_parsers.structural_tag_registry").limit_to_single_tool_call
        limit(made)
    assert carried == made.model_dump()
    assert rendered["sampling_params"]["skip_special_tokens"] is False
    assert rendered["token_ids"] == server.ids("Hi" + "".join(server.dialect.start[:1]))
