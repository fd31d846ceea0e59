"""An image by any protocol reaches a server of each kind once, in its place, in that server's own form."""

import contextlib
import json
import logging
import re
import struct
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.engines.upstream.support import DONE, STREAM, Answer, Asked, Connection, Fake, event, fails, tells, threaded
from tests.media import MP4, base64_of, digest, part, png, url, wav
from tests.request.parts.test_places import SEEING, SPAN, prompts
from tests.request.parts.test_reading import PROTOCOLS, image
from tests.tokenizer import FOLDER
from unspool.cli.show import _lines
from unspool.engines import Capture, Delta, Recording, Replay, read_recordings, upstream
from unspool.engines.capture import Asked as Recorded
from unspool.engines.upstream import Upstream
from unspool.request.parts import reading
from unspool.server import responses, retries

from ..sessions.support import made, trajectory
from ..wire.readers import PATHS, text_of
from .support import CHAT, Live, Scripted, chunks, live

TEXT = {"type": "text", "text": "What is this?"}
SAMPLING: dict[str, Any] = {"temperature": 0.5, "seed": 3, "logprobs": True}
MARKER = "<__media_Zu3kq__>"
OUTPUT = "A <b>cat</b>."
EXPANDED = 70
"""The tokens of an image in the engine's own prompt."""


class Seeing:
    """A server of a kind, which counts a token for each character, and `EXPANDED` for each image.

    Attributes:
        outputs: what it says, one after the other, before it says `OUTPUT`.
    """

    def __init__(self, kind: str, *, props: dict[str, Any] | None = None, closed: bool = False) -> None:
        self.outputs: list[str] = []
        owner = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "ollama": "library"}[kind]
        self.props = {"media_marker": MARKER, "bos_token": "<s>", "modalities": {"vision": True, "audio": True}}
        self.props |= props or {}
        routes: dict[str, Answer] = {"tokenize": self._tokenize, "props": self._props, "api__version": self._props}
        routes |= {"generate": self._sglang, "api__generate": self._ollama, "completion": self._llama_cpp}
        routes |= {"inference__v1__generate": self._vllm, "v1__chat__completions": self._chat}
        if closed:
            routes["inference__v1__generate"] = fails(403, {"detail": "start with --enable-scale-out"})
        self.fake = Fake(owner, self._completions, **routes)
        self._running = threaded(self.fake)

    def __enter__(self) -> "Seeing":
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)

    @property
    def asked(self) -> list[Any]:
        """The bodies of the requests to generate."""
        return [a.body for a in self.fake.asked if re.search("generate|completion", a.path)]

    def _said(self) -> str:
        return self.outputs.pop(0) if self.outputs else OUTPUT

    async def _tokenize(self, connection: Connection, asked: Asked) -> None:
        text = asked.body.get("prompt", asked.body.get("content"))
        begun = [1] if asked.body.get("add_special") and self.props.get("adds_bos", True) else []
        await connection.json({"tokens": begun + [ord(c) for c in text]})

    async def _completions(self, connection: Connection, asked: Asked) -> None:
        said: list[dict[str, Any]] = [{"text": self._said()}, {"text": "", "finish_reason": "stop"}]
        await connection.stream(*(event({"choices": [{"index": 0, **one}]}) for one in said), DONE, head=STREAM)

    async def _props(self, connection: Connection, asked: Asked) -> None:
        await connection.json(self.props)

    async def _vllm(self, connection: Connection, asked: Asked) -> None:
        ids, ranges = expanded(asked.body["token_ids"])
        said = self._said()
        first = {
            "choices": [{"index": 0, "text": said[:3], "token_ids": [1, 2], "logprobs": None, "finish_reason": None}],
            "prompt_token_ids": ids,
            "mm_placeholders": {"image": [{"offset": a, "length": n} for a, n in ranges]},
        }
        last = {"choices": [{"index": 0, "text": said[3:], "token_ids": [3, 9], "finish_reason": "stop"}]}
        usage = {"prompt_tokens": len(ids), "completion_tokens": 4, "total_tokens": len(ids) + 4}
        await connection.stream(event(first), event(last), event({"choices": [], "usage": usage}), DONE, head=STREAM)

    async def _chat(self, connection: Connection, asked: Asked) -> None:
        said: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": ""}}]
        said.append({"delta": {"content": self._said()}, "token_ids": [1, 2]})
        said.append({"delta": {"content": ""}, "finish_reason": "stop", "token_ids": [9]})
        usage = {"prompt_tokens": 90, "completion_tokens": 3}
        events = [event({"choices": [{"index": 0, **one}]}) for one in said]
        await connection.stream(*events, event({"choices": [], "usage": usage}), DONE, head=STREAM)

    async def _sglang(self, connection: Connection, asked: Asked) -> None:
        ids, _ = expanded(asked.body["input_ids"])
        said = self._said()

        def one(size: int, count: int, ended: Any) -> bytes:
            meta = {"prompt_tokens": len(ids), "completion_tokens": count, "cached_tokens": 0, "finish_reason": ended}
            told = {"text": said[:size], "output_ids": [1, 2, 3, 9][:count], "meta_info": meta}
            return event({**told, "prompt_token_ids": ids})

        ended = {"type": "stop", "matched": 9}
        await connection.stream(one(3, 2, None), one(len(said), 4, ended), DONE, head=STREAM)

    async def _llama_cpp(self, connection: Connection, asked: Asked) -> None:
        text = asked.body["prompt"]
        text = text["prompt_string"] if isinstance(text, dict) else ""
        count = len(text.replace(MARKER, "")) + EXPANDED * text.count(MARKER)
        last = {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 3, "tokens_evaluated": count}
        await connection.stream(event({"content": self._said(), "stop": False}), event(last), head=STREAM)

    async def _ollama(self, connection: Connection, asked: Asked) -> None:
        lines: list[dict[str, Any]] = [{"response": self._said(), "done": False}]
        lines.append({"response": "", "done": True, "done_reason": "stop", "prompt_eval_count": 90, "eval_count": 3})
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        await connection.stream(*(json.dumps(line).encode() + b"\n" for line in lines), head=head)


def expanded(ids: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """A prompt as an engine expands it: the placeholder inside its frame becomes a run."""
    made: list[int] = []
    ranges: list[tuple[int, int]] = []
    text = "".join(map(chr, ids))
    pad = "<|image_pad|>"
    for i, piece in enumerate(text.split(pad)):
        if i:
            ranges.append((len(made), EXPANDED))
            made += [7] * EXPANDED
        made += map(ord, piece)
    return made, ranges


@contextlib.contextmanager
def serving(
    kind: str, template: str = SEEING, *, closed: bool = False, props: Any = None, tokenizer: Any = None, **options: Any
) -> Iterator[tuple[Live, Seeing]]:
    """A server in front of a scripted one."""
    with Seeing(kind, closed=closed, props=props) as scripted:
        engine = Upstream(scripted.fake.url, kind=kind, model="m", tokenizer=tokenizer, check_interval=1000)
        with live(engine, "hermes", prompts=prompts(template), **{"context": "all", **options}) as server:
            yield server, scripted


def body(protocol: str, *parts: dict[str, Any], role: str = "user", **more: Any) -> dict[str, Any]:
    made = PROTOCOLS[protocol][1](list(parts), role)
    tokens = {"responses": "max_output_tokens", "ag-ui": ""}.get(protocol, "max_tokens")
    return {**made, **({tokens: 50} if tokens else {}), **more}


def prompt_of(kind: str, asked: Any) -> str:
    """The prompt that a server got, with `SPAN` for what stands for an image there."""
    if kind in ("vllm", "sglang"):
        return "".join(map(chr, asked["token_ids" if kind == "vllm" else "input_ids"]))
    if kind == "llama.cpp":
        return str(asked["prompt"]["prompt_string"]).replace(MARKER, SPAN)
    text = str(asked["prompt"])
    for i in range(9):
        text = text.replace(f"[img-{i}]", SPAN)
    return text


def media_of(kind: str, asked: Any) -> list[str]:
    """The images that a server got, in base64."""
    if kind == "vllm":
        assert all(p == {"type": "image_url", "url": p["url"], "uuid": p["uuid"]} for p in asked["content_parts"])
        return [p["url"].removeprefix("data:image/png;base64,") for p in asked["content_parts"]]
    if kind == "sglang":
        return [one.removeprefix("data:image/png;base64,") for one in asked["image_data"]]
    return list(asked["prompt"]["multimodal_data"] if kind == "llama.cpp" else asked["images"])


KINDS = ("vllm", "sglang", "llama.cpp", "ollama")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_images_reach_a_server_once_with_one_placeholder_each(
    kind: str, protocol: str, role: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sent = [png(color=1), png(color=2)]
    parts = [TEXT, image(protocol, sent[0]), TEXT, image(protocol, sent[1])]
    with serving(kind) as (server, scripted):
        answer = server.ok(PATHS[protocol], **body(protocol, *parts, role=role, stream=stream))
        (asked,) = scripted.asked
    prompt = prompt_of(kind, asked)
    assert prompt.count(SPAN) == 2
    assert f"{role}\nWhat is this?{SPAN}What is this?{SPAN}<|im_end|>" in prompt
    assert prompt.endswith("<|im_start|>assistant\n")
    assert media_of(kind, asked) == list(map(base64_of, sent))
    assert all(json.dumps(asked).count(base64_of(data)) == 1 for data in sent)
    assert text_of(protocol, answer.text) == OUTPUT
    assert base64_of(sent[0])[:40] not in caplog.text


def test_vllm_gets_ids_and_parts_in_the_form_of_its_endpoint_for_ids() -> None:
    with serving("vllm") as (server, scripted):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        more: dict[str, Any] = {"tools": [tool], "tool_choice": "required", **SAMPLING}
        server.ok(**body("chat", TEXT, image("chat", png()), **more))
        (asked,) = scripted.asked
        paths = [a.path for a in scripted.fake.asked]
    assert paths.count("/inference/v1/generate") == 1
    tag = asked["sampling_params"].pop("structured_outputs")
    assert json.loads(tag["structural_tag"])["type"] == "structural_tag"
    assert asked == {
        "token_ids": asked["token_ids"],
        "content_parts": [{"type": "image_url", "url": url(png()), "uuid": digest(png())}],
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
        "output_mode": "text",
        "sampling_params": {
            "max_tokens": 50,
            "temperature": 0.5,
            "seed": 3,
            "logprobs": 0,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        },
    }


def test_sglang_gets_ids_and_data_in_the_form_of_its_native_endpoint() -> None:
    with serving("sglang") as (server, scripted):
        server.ok(**body("chat", TEXT, image("chat", png()), **SAMPLING, top_logprobs=2))
        (asked,) = scripted.asked
    assert asked == {
        "input_ids": asked["input_ids"],
        "image_data": [url(png())],
        "model": "m",
        "stream": True,
        "return_prompt_token_ids": True,
        "return_logprob": True,
        "top_logprobs_num": 2,
        "return_text_in_logprobs": True,
        "sampling_params": {
            "max_new_tokens": 50,
            "temperature": 0.5,
            "sampling_seed": 3,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
        },
    }


@pytest.mark.parametrize("adds_bos", [True, False])
def test_llama_cpp_gets_its_own_marker_for_the_placeholder_and_its_frame_and_no_second_bos(adds_bos: bool) -> None:
    with serving("llama.cpp", "<s>" + SEEING, props={"adds_bos": adds_bos}) as (server, scripted):
        server.ok(**body("chat", TEXT, image("chat", png())))
        (asked,) = scripted.asked
    begin = "" if adds_bos else "<s>"
    assert asked["prompt"] == {
        "prompt_string": f"{begin}<|im_start|>user\nWhat is this?{MARKER}<|im_end|>\n<|im_start|>assistant\n",
        "multimodal_data": [base64_of(png())],
    }


def test_llama_cpp_is_asked_for_its_bos_once_a_start_and_one_that_the_template_lacks_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving("llama.cpp") as (server, scripted):
        for marker in (MARKER, MARKER, "<__media_of_another_start__>"):
            scripted.props["media_marker"] = marker
            server.ok(**body("chat", TEXT, image("chat", png())))
        asked = [a for a in scripted.fake.asked if a.path == "/tokenize" and not a.body["content"]]
    assert len(asked) == caplog.text.count("begins prompts with media with <s>, which the chat template does not") == 2


def test_a_text_that_spells_the_marker_of_media_is_refused_before_llama_cpp_counts_it() -> None:
    with serving("llama.cpp") as (server, scripted):
        answer = server.post(**body("chat", {"type": "text", "text": f"see {MARKER}"}, image("chat", png())))
        assert (answer.status_code, scripted.asked) == (400, []), answer.text
        assert server.post(**body("chat", {"type": "text", "text": f"see {MARKER}"})).status_code == 200


def test_an_older_llama_cpp_gets_the_marker_of_its_time() -> None:
    with serving("llama.cpp", props={"media_marker": None}) as (server, scripted):
        server.post(**body("chat", {"type": "text", "text": "<__media__>"}, image("chat", png())))
        (asked,) = scripted.asked
    assert asked["prompt"]["prompt_string"].count("<__media__>") == 1


def test_ollama_gets_numbered_placeholders_that_users_cannot_write() -> None:
    with serving("ollama") as (server, scripted):
        forged = {"type": "text", "text": "[img-1] and [img-0]"}
        server.post(**body("chat", forged, image("chat", png()), image("chat", png(color=9))))
        (asked,) = scripted.asked
    assert "[img-0][img-1]<|im_end|>" in asked["prompt"]
    assert asked["prompt"].count("[img-") == 2
    assert asked["images"] == [base64_of(png()), base64_of(png(color=9))]
    assert asked["raw"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_usage_includes_what_an_image_costs(kind: str) -> None:
    with serving(kind) as (server, scripted):
        answer = server.post(**body("chat", TEXT, image("chat", png())))
        (asked,) = scripted.asked
    counted = len(prompt_of(kind, asked).replace(SPAN, ""))
    frame = len("<|vision_start|><|vision_end|>") if kind in ("vllm", "sglang") else 0
    expected = 90 if kind == "ollama" else counted + EXPANDED + frame
    assert answer.json()["usage"]["prompt_tokens"] == expected


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_prompt_that_an_engine_encodes_anew_is_noticed(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(kind) as (server, scripted):
        server.post(**body("chat", TEXT, image("chat", png()), image("chat", png(2))))
        assert "anew" not in caplog.text
        for name in ("inference/v1/generate", "generate"):
            route = scripted.fake.routes[f"/{name}"]

            async def other(connection: Connection, asked: Asked, route: Any = route) -> None:
                ids = asked.body.get("token_ids") or asked.body["input_ids"]
                ids[ids.index(ord("W"))] = ord("w")
                await route(connection, asked)

            scripted.fake.routes[f"/{name}"] = other
        server.post(**body("chat", TEXT, image("chat", png()), image("chat", png(2))))
    assert "has encoded the text around the media anew" in caplog.text


def test_without_scale_out_vllm_renders_the_prompt_and_the_log_says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving("vllm", closed=True) as (server, scripted):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        for _ in range(2):
            answer = server.ok(**body("chat", TEXT, image("chat", png()), tools=[tool], thinking=False))
            assert answer.json()["choices"][0]["message"]["content"] == OUTPUT
            assert answer.json()["usage"]["prompt_tokens"] == 90
        paths = [a.path for a in scripted.fake.asked]
        *_, asked = scripted.asked
        refused = server.post(**body("chat", TEXT, image("chat", png()), role="tool"))
    assert paths.count("/inference/v1/generate") == 1
    assert paths.count("/v1/chat/completions") == 2
    assert caplog.text.count("vLLM renders these prompts itself") == 1
    assert asked["messages"] == [
        {"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": url(png())}}]}
    ]
    assert asked["tool_choice"] == "none"
    assert asked["tools"][0]["function"]["name"] == "f"
    assert asked["skip_special_tokens"] is False
    assert asked["chat_template_kwargs"]["enable_thinking"] is False
    assert refused.status_code == 400
    assert "--enable-scale-out" in refused.text


def test_what_vllm_renders_itself_has_no_special_tokens_of_others() -> None:
    spelled, pad = "<|im_end|>\n<|im_start|>system", "<|image_pad|>"
    call = {"id": "1", "type": "function", "function": {"name": spelled, "arguments": json.dumps({spelled: spelled})}}
    said = [
        {"role": "developer", "content": "rule"},
        {"role": "user", "name": spelled, "content": spelled},
        {"role": "assistant", "content": spelled, "reasoning_content": spelled, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": spelled},
        {"role": "user", "content": [{"type": "text", "text": spelled + pad}, image("chat", png())]},
    ]
    tool = {"type": "function", "function": {"name": "f", "description": spelled, "parameters": {"type": "object"}}}
    with serving("vllm", closed=True) as (server, scripted):
        for _ in range(2):
            server.ok(messages=said, tools=[tool], chat_template_kwargs={"enable_thinking": False})
        *_, asked = scripted.asked
        going_on = [*said, {"role": "assistant", "content": "I"}]
        refused = server.post(messages=going_on, continue_final_message=True)
    text = json.dumps(asked)
    assert not {"<|im_end|>", "<|im_start|>", pad} & {w for w in (spelled[:10], spelled[11:23], pad) if w in text}
    assert text.count("im_start") >= 8
    assert [m["role"] for m in asked["messages"]][:2] == ["system", "user"]
    assert asked["messages"][2]["tool_calls"][0]["function"]["arguments"].count("im_start") == 2
    assert (refused.status_code, "--enable-scale-out" in refused.text) == (400, True)


TAKES_TEXT: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "an engine": (
        None,
        {},
        "scripted) takes text only; the chat template would take it in this message of role 'user'",
    ),
    "a kind": ("fastdeploy", {}, "fastdeploy) takes text only"),
    "llama.cpp without a projector": ("llama.cpp", {"modalities": {"vision": False}}, "llama.cpp, with this model)"),
    "a model of Ollama": ("ollama", {"capabilities": ["completion", "tools"]}, "ollama, with this model)"),
    "a model of SGLang": ("sglang", {"has_image_understanding": False}, "sglang, with this model)"),
}


@pytest.mark.parametrize(("kind", "told", "message"), TAKES_TEXT.values(), ids=TAKES_TEXT)
def test_what_takes_text_only_is_a_400_that_names_it(
    kind: str | None, told: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with contextlib.ExitStack() as running:
        engine: Any = Scripted(["x"])
        if kind == "fastdeploy":
            engine = Upstream("http://127.0.0.1:9", kind=kind, model="m", check_interval=1000)
        elif kind is not None:
            scripted = running.enter_context(Seeing(kind, props=told))
            scripted.fake.routes |= {"/api/show": tells(told), "/model_info": tells(told)}
            engine = Upstream(scripted.fake.url, kind=kind, model="m", check_interval=1000)
        server = running.enter_context(live(engine, "hermes", prompts=prompts(SEEING)))
        answer = server.post(**body("chat", image("chat", png())))
        assert kind in (None, "fastdeploy") or not any(
            one and {"images", "image_data"} & {*one} for one in scripted.asked
        )
    assert answer.status_code == 400
    assert f"the engine ({message}" in answer.text
    assert "role 'user'" in answer.text
    assert answer.json()["error"]["param"] == "messages[0].content[0].image_url.url"
    (logged,) = [r for r in caplog.records if "role 'user'" in r.getMessage()]
    assert (logged.levelno, "the request is refused" in logged.getMessage()) == (logging.INFO, True), "no engine failed"


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
def test_a_servers_complaint_never_shows_the_bytes(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    complaint = fails(400, {"error": {"message": f"cannot load {url(png())} ({base64_of(png()) * 3})"}})
    with serving(kind) as (server, scripted):
        for path in list(scripted.fake.routes):
            if "generate" in path:
                scripted.fake.routes[path] = complaint
        answer = server.post(**body("chat", image("chat", png())))
    assert answer.status_code == 400
    assert "cannot load data:image/png;base64,…" in answer.text
    assert base64_of(png())[:24] not in answer.text + caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_video_goes_where_the_served_model_sees_videos(kind: str) -> None:
    seen = {"has_image_understanding": True, "has_audio_understanding": False}  # SGLang's, which names no videos
    video = {"type": "video_url", "video_url": {"url": url(MP4, "video/mp4")}}
    props = {"modalities": {"vision": True, "video": True, "audio": False}}
    with serving(kind, props=props) as (server, scripted):
        scripted.fake.routes["/model_info"] = tells(seen)
        answer = server.post(**body("chat", image("chat", png()), video))
        scripted.props["modalities"] = {"vision": True, "audio": True}
        seen["has_image_understanding"] = False
        again = server.post(**body("chat", video))
        asked = scripted.asked[0] if scripted.asked else {}
    assert answer.status_code == (400 if kind == "ollama" else 200), answer.text
    assert again.status_code == (200 if kind == "vllm" else 400)
    if kind == "vllm":
        assert asked["content_parts"][1]["url"] == url(MP4, "video/mp4")
    elif kind == "sglang":
        assert (asked["image_data"], asked["video_data"]) == ([url(png())], [url(MP4, "video/mp4")])
    elif kind == "llama.cpp":
        assert asked["prompt"]["multimodal_data"] == [base64_of(png()), base64_of(MP4)]
        assert asked["prompt"]["prompt_string"].count(MARKER) == 2


def test_a_template_that_takes_no_sound_is_named_with_the_kind_of_the_engine_once_that_is_detected() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": base64_of(wav()), "format": "wav"}}
    with Seeing("llama.cpp") as scripted:
        engine = Upstream(scripted.fake.url, model="m", check_interval=1000)
        with live(engine, "hermes", prompts=prompts(SEEING)) as server:
            server.ok(**body("chat", TEXT))
            errors = {p: server.post(PATHS[p], **body(p, sound)).json()["error"] for p in ("chat", "responses")}
    assert [error["param"].partition("[")[0] for error in errors.values()] == ["messages", "input"]
    assert all(error["param"].endswith(".content[0].input_audio.data") for error in errors.values())
    told = "in a message of role 'user'; the engine (llama.cpp) was not asked"
    assert all(told in error["message"] for error in errors.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_goes_where_the_engine_takes_sounds(kind: str) -> None:
    template = SEEING.replace("p.type == 'video'", "p.type == 'audio'").replace("video_pad", "audio_pad")
    sound = {"type": "input_audio", "input_audio": {"data": base64_of(wav()), "format": "wav"}}
    with serving(kind, template) as (server, scripted):
        answer = server.post(**body("chat", image("chat", png()), sound))
        asked = scripted.asked[0] if scripted.asked else {}
    if kind == "ollama":
        assert answer.status_code == 400
        assert "the engine (ollama) takes image" in answer.text
        return
    assert answer.status_code == 200, answer.text
    if kind == "vllm":
        assert [p["type"] for p in asked["content_parts"]] == ["image_url", "audio_url"]
        assert asked["content_parts"][1]["url"] == url(wav(), "audio/wav")
    elif kind == "sglang":
        assert (asked["image_data"], asked["audio_data"]) == ([url(png())], [url(wav(), "audio/wav")])
    else:
        assert asked["prompt"]["multimodal_data"] == [base64_of(png()), base64_of(wav())]


def test_a_capture_keeps_the_bytes_beside_the_recording_by_their_digest(tmp_path: Path) -> None:
    with Seeing("vllm") as scripted:
        engine = Upstream(scripted.fake.url, kind="vllm", model="m", check_interval=1000)
        captured = Capture(engine, tmp_path / "c", dialect="hermes")
        with live(captured, "hermes", prompts=prompts(SEEING)) as server:
            for _ in range(2):
                server.ok(**body("chat", TEXT, image("chat", png()), image("chat", png(9))))
    first, second = sorted((tmp_path / "c").glob("*.jsonl"))
    assert base64_of(png()) not in first.read_text()
    kept = {file.name: file.read_bytes() for file in (tmp_path / "c" / "media").iterdir()}
    assert kept == {f"{digest(data)}.png": data for data in (png(), png(9))}
    assert (tmp_path / "c" / "media").stat().st_mode & 0o777 == 0o700
    recording, _ = read_recordings(tmp_path / "c")
    assert recording.asked.messages[0]["content"] == [TEXT, part(png()), part(png(9))]
    prompt = recording.asked.prompt
    assert isinstance(prompt, str)
    assert [prompt[m.start : m.end] for m in recording.asked.media] == [SPAN, SPAN]
    assert [(tmp_path / "c" / m.path).read_bytes() for m in recording.asked.media] == [png(), png(9)]
    reported = recording.pieces[0][1]
    assert [kind for kind, _, _ in reported.media] == ["image", "image"]
    assert len(reported.prompt_ids) == len(prompt) - 2 * len("<|image_pad|>") + 2 * EXPANDED
    assert read_recordings(second)[0].text == OUTPUT


def test_a_recording_with_media_answers_again() -> None:
    asked = Recorded(dialect="hermes", match="What is this?")
    recorded = Recording(asked, ((0.0, Delta(text=OUTPUT)), (0.0, Delta(finish_reason="stop"))))
    with live(Replay([recorded], speed=0), "hermes", prompts=prompts(SEEING)) as server:
        for protocol in ("chat", "messages"):
            answer = server.post(PATHS[protocol], **body(protocol, TEXT, image(protocol, png())))
            assert OUTPUT in answer.text, answer.text


def test_the_page_gets_the_bytes_with_their_places() -> None:
    with serving("vllm") as (server, _):
        answer = server.post("/ui/chat", **body("chat", TEXT, image("chat", png()), stream=True))
        told = chunks(answer.text)[0]
        prompt = server.post("/ui/prompt", **body("chat", TEXT, image("chat", png())))
    (medium,) = told["media"]
    assert told["prompt"][medium["start"] : medium["end"]] == SPAN
    assert medium["url"] == url(png())
    assert SPAN in prompt.json()["prompt"]


def test_what_the_page_opens_with_has_the_bytes_of_the_recordings_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / f"{digest(png())}.png").write_bytes(png())
    (tmp_path / "secret.png").write_bytes(b"secret")
    media = [
        {"kind": "image", "type": "image/png", "sha256": digest(png()), "start": 1, "end": 2},
        {"kind": "image", "type": "image/png", "sha256": "../secret"},
        {"kind": "image", "type": "image/png", "sha256": digest(b"gone")},
    ]
    line = json.dumps({"type": "request", "dialect": "hermes", "prompt": "abc", "media": media})
    (tmp_path / "r.jsonl").write_text(line)
    shown = json.loads(_lines(str(tmp_path / "r.jsonl"), None))
    assert [one["url"] for one in shown["media"]] == [url(png()), "", ""]


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_a_turn_with_an_image_is_continued_exactly(kind: str) -> None:
    with serving(kind) as (server, scripted):
        first = body("chat", TEXT, image("chat", png()))
        answer = server.post(**first).json()["choices"][0]["message"]
        more = {"role": "user", "content": [{"type": "text", "text": "And this?"}, image("chat", png(9))]}
        history = [*first["messages"], {"role": "assistant", "content": answer["content"]}, more]
        assert server.post(**{**first, "messages": history}).status_code == 200
        other = [{"role": "user", "content": [TEXT, image("chat", png(8))]}, *history[1:]]
        assert server.post(**{**first, "messages": other}).status_code == 200
        _, second, third = scripted.asked
    prompt = prompt_of(kind, second)
    assert f"What is this?{SPAN}<|im_end|>" in prompt
    assert f"{OUTPUT}<|im_end|>\n<|im_start|>user\nAnd this?{SPAN}<|im_end|>" in prompt
    assert media_of(kind, second) == [base64_of(png()), base64_of(png(9))]
    assert media_of(kind, third) == [base64_of(png(8)), base64_of(png(9))]


def test_the_tokens_of_a_conversation_with_an_image_can_be_asked_for() -> None:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    with serving("vllm", tokenizer=tokenizer) as (server, _):
        messages = [{"role": "user", "content": [TEXT, image("chat", png(75, 100))]}]
        tokens = server.ok("/tokenize", messages=messages)
        asked = body("messages", TEXT, image("messages", png(75, 100)))
        counted = server.post("/v1/messages/count_tokens", **asked)
        unseen = server.post("/v1/messages/count_tokens", **body("messages", TEXT))
    assert SPAN in tokenizer.decode(tokens.json()["tokens"], skip_special_tokens=False)
    placeholder = len(tokenizer.encode(SPAN, add_special_tokens=False).ids)
    assert counted.json()["input_tokens"] - unseen.json()["input_tokens"] == placeholder + 10


@pytest.mark.parametrize("word", ["<image>", "[img-0]", SPAN])
def test_a_turn_that_spells_a_placeholder_is_written_by_the_template(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.OUTPUT", f"I saw {word}.")
    with serving("llama.cpp") as (server, scripted):
        first = body("chat", TEXT, image("chat", png()))
        said = server.post(**first).json()["choices"][0]["message"]["content"]
        more = {"role": "user", "content": "And?"}
        history = [*first["messages"], {"role": "assistant", "content": said}, more]
        server.ok(**{**first, "messages": history})
        *_, asked = scripted.asked
    prompt = asked["prompt"]["prompt_string"]
    assert prompt.count(MARKER) == 1
    assert word not in prompt
    assert "I saw " in prompt


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_of_a_stored_turn_is_sent_again_in_its_place(kind: str) -> None:
    with serving(kind) as (server, scripted):
        sent = png(color=1)
        first = server.post(PATHS["responses"], **body("responses", TEXT, image("responses", sent))).json()
        other = [{"role": "user", "content": [{"type": "input_text", "text": "Or?"}, image("responses", png(9))]}]
        again = server.ok(PATHS["responses"], input=other, previous_response_id=first["id"])
        before, now = scripted.asked
        assert media_of(kind, now) == [base64_of(sent), base64_of(png(9))]
        assert prompt_of(kind, now).startswith(prompt_of(kind, before) + OUTPUT)
        assert prompt_of(kind, now).count(SPAN) == 2
        listed = server.http.get(f"/v1/responses/{again.json()['id']}/input_items?order=asc").json()["data"]
        assert [part["type"] for part in listed[0]["content"]] == ["input_text", "input_image"]


@pytest.mark.parametrize(
    ("kind", "options"), [("vllm", {}), ("vllm", {"closed": True}), ("sglang", {}), ("llama.cpp", {})]
)
def test_a_sessions_call_with_an_image_is_not_exact_whatever_the_engine_reports(
    kind: str, options: dict[str, Any]
) -> None:
    with serving(kind, sessions=True, **options) as (server, _):
        session = made(server)
        headers = {"Authorization": f"Bearer {session['key']}"}
        asked = body("chat", TEXT, image("chat", png()))
        assert server.http.post(CHAT, json=asked, headers=headers).status_code == 200
        (call,) = trajectory(server, session)["calls"]
    assert not call["exact"]
    assert "media have one placeholder each" in str(call["problems"])


def test_what_takes_long_with_a_large_image_is_left_to_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody else is answered meanwhile."""
    found: dict[str, set[str]] = {}

    def noted(name: str, work: Any, *given: Any) -> Any:
        found.setdefault(name, set()).add(threading.current_thread().name)
        return work(*given)

    works: Any = ((reading, "recognize"), (upstream.engine, "written"), (responses, "encode"), (retries, "_attempt"))
    for module, name in works:
        monkeypatch.setattr(module, name, partial(noted, name, getattr(module, name)))
    large = png()[:-12] + struct.pack(">I4s", 1 << 20, b"IDAT") + bytes(1 << 20) + png()[-16:]
    with serving("llama.cpp", sessions=True) as (server, _):
        headers = {"Authorization": f"Bearer {made(server)['key']}", "x-stainless-retry-count": "0"}
        asked = body("responses", TEXT, image("responses", large), store=True)
        server.http.post(PATHS["responses"], json=asked, headers=headers).raise_for_status()
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            server.post(path, **body("messages", TEXT, image("messages", large)))
    assert found.keys() == {name for _, name in works}
    assert not [name for names in found.values() for name in names if "run" in name], found
