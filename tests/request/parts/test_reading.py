"""Every protocol reads the same parts into the same messages, and refuses the same ones."""

import json
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.media import MP4, base64_of, gif, part, png, url, wav
from unspool import get_dialect
from unspool.engines import Medium
from unspool.request.chat_request import ChatRequest
from unspool.request.fields import BadRequest, Fields, read_object
from unspool.request.parts.reading import settled, urls
from unspool.request.protocols import AguiProtocol, ChatProtocol, MessagesProtocol, ResponsesProtocol
from unspool.request.settings import Limits, Settings

from ...support import calling, function_call

SETTINGS = Settings(model="m", dialect=get_dialect("hermes"))
ASKED = {"role": "user", "content": "?"}


def _chat(parts: Any, role: str = "user", arguments: str = "{}") -> dict[str, Any]:
    if role == "tool":
        called = calling(function_call("look", arguments, "c1"), content=None)
        return {"messages": [ASKED, called, {"role": "tool", "tool_call_id": "c1", "content": parts}]}
    return {"messages": [{"role": role, "content": parts}]}


def _responses(parts: Any, role: str = "user", arguments: str = "{}") -> dict[str, Any]:
    if isinstance(parts, list):
        parts = [{"type": "input_text", "text": p["text"]} if p["type"] == "text" else p for p in parts]
    if role == "tool":
        call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments}
        return {"input": [ASKED, call, {"type": "function_call_output", "call_id": "c1", "output": parts}]}
    return {"input": [{"role": role, "content": parts}]}


def _messages(parts: Any, role: str = "user", arguments: str = "{}") -> dict[str, Any]:
    if role == "tool":
        call = {"type": "tool_use", "id": "c1", "name": "look", "input": json.loads(arguments)}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": parts}
        turns = [ASKED, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        return {"max_tokens": 9, "messages": turns}
    return {"max_tokens": 9, "messages": [{"role": role, "content": parts}]}


def _agui(parts: Any, role: str = "user", arguments: str = "{}") -> dict[str, Any]:
    messages: list[Any] = [{"id": "1", "role": role, "content": parts}]
    if role == "tool":
        called = {"id": "1", "role": "assistant", "toolCalls": [function_call("look", arguments, "c1")]}
        answered = {"id": "2", "role": "tool", "toolCallId": "c1", "content": parts}
        messages = [{"id": "0", **ASKED}, called, answered]
    return {"threadId": "t", "runId": "r", "messages": messages}


Asked = Callable[..., dict[str, Any]]
PROTOCOLS: dict[str, tuple[Any, Asked]] = {
    "chat": (ChatProtocol(SETTINGS), _chat),
    "responses": (ResponsesProtocol(SETTINGS), _responses),
    "messages": (MessagesProtocol(SETTINGS), _messages),
    "ag-ui": (AguiProtocol(SETTINGS), _agui),
}
"""Protocols, with a request in each: of parts, in a message of a role; a tool's answers a call with arguments."""


def source(data: bytes, type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": type, "data": base64_of(data)}


def given(data: bytes, type: str) -> dict[str, Any]:
    return {"type": "data", "value": base64_of(data), "mimeType": type}


def image(protocol: str, data: bytes) -> dict[str, Any]:
    """An image in the form of a protocol."""
    forms: dict[str, dict[str, Any]] = {
        "chat": {"type": "image_url", "image_url": {"url": url(data), "detail": "high"}},
        "responses": {"type": "input_image", "image_url": url(data), "detail": "auto"},
        "messages": {"type": "image", "source": source(data, "image/png")},
        "ag-ui": {"type": "image", "source": given(data, "image/png")},
    }
    return forms[protocol]


def linked(protocol: str, at: str) -> dict[str, Any]:
    """An image at a URL in the form of a protocol."""
    forms: dict[str, dict[str, Any]] = {
        "chat": {"type": "image_url", "image_url": {"url": at}},
        "responses": {"type": "input_image", "image_url": at},
        "messages": {"type": "image", "source": {"type": "url", "url": at}},
        "ag-ui": {"type": "image", "source": {"type": "url", "value": at}},
    }
    return forms[protocol]


def read(protocol: str, parts: list[Any], role: str = "user", **limits: Any) -> ChatRequest:
    """A request with these parts, after its bytes were checked."""
    reader, asked = PROTOCOLS[protocol]
    most = Limits(**limits)
    request: ChatRequest = reader.read(Fields(asked(parts, role)))
    assert not urls(request, most)
    return settled(request, {}, most)


def content(protocol: str, parts: list[Any], role: str = "user") -> Any:
    return read(protocol, parts, role).messages[-1]["content"]


TEXT = {"type": "text", "text": "What is this?"}
PDF = b"%PDF-1.7\n"
BLOCKS = {"type": "content", "content": [{"type": "text", "text": "Hello."}]}


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_image_is_named_by_its_digest_in_its_place(protocol: str, role: str) -> None:
    request = read(protocol, [TEXT, image(protocol, png()), TEXT, image(protocol, png(9))], role)
    assert request.messages[-1]["role"] == role
    assert request.messages[-1]["content"] == [TEXT, part(png()), TEXT, part(png(9))]
    assert [(m.data, m.type, m.width, m.role) for m in request.media.values()] == [
        (png(), "image/png", 4, role),
        (png(9), "image/png", 9, role),
    ]
    assert base64_of(png()).encode() not in msgspec.json.encode(request.messages)


def test_a_data_url_with_escapes_needs_no_object_for_each_of_them() -> None:
    tracemalloc.start()
    for head, escaped in (("", "%41"), (";base64", "%51%55%46%42")):  # QUFB is AAA
        data = f"data:text/plain{head},{escaped * 500_000}"
        text = content("ag-ui", [{"type": "binary", "mimeType": "text/plain", "filename": "a", "url": data}])
        assert text.count("A") == 500_000 * (3 if head else 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000
    with pytest.raises(BadRequest, match="begins no escape"):
        content("ag-ui", [{"type": "binary", "mimeType": "text/plain", "url": "data:text/plain,100% sure"}])


@pytest.mark.parametrize("padding", range(6))
def test_base64_may_have_too_much_padding_or_none(padding: int) -> None:
    for words in ("ab", "abc", "abcd"):
        url_ = f"data:;base64,{base64_of(words.encode()).rstrip('=')}{'=' * padding}"
        text = content("ag-ui", [{"type": "binary", "mimeType": "text/plain", "filename": "a", "url": url_}])
        assert text.split("\n")[1] == words
    for bad in ("A", "QUF=B", "QUFBQ", "QU-B"):
        with pytest.raises(BadRequest, match="is not base64"):
            content("chat", [{"type": "image_url", "image_url": {"url": f"data:;base64,{bad}{'=' * padding}"}}])


LONG = 1 << 19


@pytest.mark.parametrize("begins", range(6))
def test_a_long_part_is_decoded_as_a_short_one(begins: int) -> None:
    """It is decoded in steps, which must not show."""
    words = "a" * begins + "é=1 %" * LONG
    for url_ in (f"data:text/plain,{quote(words)}", f"data:;base64,{base64_of(words.encode())}"):
        text = content("ag-ui", [{"type": "binary", "mimeType": "text/plain", "filename": "a", "url": url_}])
        assert text.split("\n")[1] == words
    padded = base64_of(bytes(LONG // 4 * 3 - begins)) + "AAAA"
    if begins % 3:
        with pytest.raises(BadRequest, match="is not base64"):
            content("chat", [{"type": "image_url", "image_url": {"url": f"data:;base64,{padded}"}}])


def test_other_threads_have_turns_while_base64_and_numbers_are_read_and_written() -> None:
    """A single call of a decoder would let none of them run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # as the server does
    data = png() + bytes(32 << 20)
    asked = Fields({"messages": [{"role": "user", "content": [image("chat", data)]}]})
    medium = Medium(kind="image", type="image/png", data=data, sha256="")
    assert medium.base64 == base64_of(data)
    numbers = b'{"a": [%s1]}' % (b"1e300," * 1_000_000)
    ints = b'{"a": [%s1]}' % (b"1," * 2_000_000)
    works: list[tuple[Callable[[], object], float]] = [
        (lambda: PROTOCOLS["chat"][0].read(asked), 0.33),
        (lambda: medium.base64, 0.5),
        (lambda: read_object(numbers), 0.33),
        (lambda: read_object(numbers.replace(b"[", b'["\\ud800",')), 0.33),
        (lambda: read_object(ints), 0.33),
    ]
    for work, most in works:
        shares = []
        for _ in range(5):
            began, turns = time.thread_time(), [0.0]
            clock, done = time.pthread_getcpuclockid(threading.get_ident()), threading.Event()
            other = threading.Thread(target=_look, args=(clock, turns, done))
            other.start()
            work()
            done.set()
            other.join()
            shares.append(max(b - a for a, b in pairwise([began, *turns[1:]])) / (time.thread_time() - began))
        assert min(shares) < most, shares
    sys.setswitchinterval(before)


def _look(clock: int, turns: list[float], done: threading.Event) -> None:
    """Note the time of another thread at each turn of this one."""
    while not done.is_set():
        turns.append(time.clock_gettime(clock))
        time.sleep(0)


@pytest.mark.parametrize(
    ("protocol", "given_part", "found"),
    [
        ("chat", {"type": "input_audio", "input_audio": {"data": base64_of(wav()), "format": "wav"}}, "audio/wav"),
        ("chat", {"type": "video_url", "video_url": {"url": url(MP4, "video/mp4")}}, "video/mp4"),
        ("chat", {"type": "audio_url", "audio_url": {"url": url(wav(), "audio/wav")}}, "audio/wav"),
        ("chat", {"type": "image_url", "image_url": url(gif())}, "image/gif"),
        ("chat", {"type": "image_url", "image_url": {"url": url(gif(), "image/jpeg;x=1")}}, "image/gif"),
        ("chat", {"type": "image_url", "image_url": f" DATA:;Base64,{base64_of(gif())}\n"}, "image/gif"),
        ("responses", {"type": "input_image", "image_url": f"data:;base64,{quote(base64_of(png()))}"}, "image/png"),
        ("chat", {"type": "file", "file": {"file_data": url(png()), "filename": "a.png"}}, "image/png"),
        ("responses", {"type": "input_audio", "input_audio": {"data": base64_of(wav()), "format": "wav"}}, "audio/wav"),
        ("responses", {"type": "input_file", "file_data": base64_of(png())}, "image/png"),
        ("messages", {"type": "document", "source": source(png(), "image/png")}, "image/png"),
        ("ag-ui", {"type": "audio", "source": given(wav(), "audio/wav")}, "audio/wav"),
        ("ag-ui", {"type": "video", "source": given(MP4, "video/mp4")}, "video/mp4"),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "data": base64_of(png())}, "image/png"),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "url": url(png())}, "image/png"),
    ],
)
def test_other_media_are_read_too(protocol: str, given_part: dict[str, Any], found: str) -> None:
    (only,) = content(protocol, [given_part])
    assert (only["type"], only["media_type"]) == (found.partition("/")[0], found)


@pytest.mark.parametrize(
    ("protocol", "given_part"),
    [
        ("chat", {"type": "file", "file": {"file_data": url(b"Hello.", "text/plain"), "filename": "a.txt"}}),
        ("responses", {"type": "input_file", "file_data": base64_of(b"Hello."), "filename": "a.txt"}),
        ("messages", {"type": "document", "source": source(b"Hello.", "text/plain"), "title": "a.txt"}),
        ("messages", {"type": "document", "title": "a.txt", "source": {"type": "text", "data": "Hello."}}),
        ("messages", {"type": "document", "title": "a.txt", "source": {"type": "content", "content": "Hello."}}),
        ("messages", {"type": "document", "title": "a.txt", "source": BLOCKS}),
        ("ag-ui", {"type": "binary", "mimeType": "text/plain", "filename": "a.txt", "url": "data:,Hel%6co."}),
    ],
)
def test_a_document_becomes_its_text(protocol: str, given_part: dict[str, Any]) -> None:
    assert content(protocol, [TEXT, given_part]) == "What is this?[a.txt]\nHello.\n[End of a.txt]\n"


@pytest.mark.parametrize(
    ("protocol", "given_part"),
    [
        ("messages", {"type": "document", "source": {"type": "text", "data": "a\ud800"}, "title": "\ud800"}),
        ("responses", {"type": "input_file", "file_data": "data:,a\ud800", "filename": "\ud800"}),
    ],
)
def test_half_a_character_of_a_document_is_replaced(protocol: str, given_part: dict[str, Any]) -> None:
    assert "\na\ufffd\n" in content(protocol, [given_part])


def test_what_is_said_about_a_document_stands_before_its_text() -> None:
    given_part = {"type": "document", "source": {"type": "text", "data": "Hello."}, "context": "A letter."}
    assert content("messages", [given_part]) == "[document]\nA letter.\n\nHello.\n[End of document]\n"


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize(
    ("protocol", "given_part"),
    [
        ("chat", {"type": "file", "file": {"file_data": url(PDF, "application/pdf"), "filename": "a.pdf"}}),
        ("responses", {"type": "input_file", "file_data": base64_of(PDF), "filename": "a.pdf"}),
        ("messages", {"type": "document", "source": source(PDF, "application/pdf")}),
        ("ag-ui", {"type": "document", "source": given(PDF, "application/pdf")}),
    ],
)
def test_a_pdf_is_refused_for_the_engine_the_template_and_the_role(
    protocol: str, given_part: dict[str, Any], role: str
) -> None:
    reason = f"no engine and no chat template takes PDF, in a message of role '{role}' or any other; send its text"
    with pytest.raises(BadRequest, match=reason):
        read(protocol, [given_part], role)


FORBIDDEN: list[str] = json.loads(Path(__file__).with_name("forbidden.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("at", FORBIDDEN)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_url_of_any_other_scheme_or_with_a_user_is_refused(protocol: str, at: str) -> None:
    other = r"is not a data: URL, nor one of http or https|is required"
    with pytest.raises(BadRequest, match="unprintable" if at.startswith(("http://", "https://")) else other) as refused:
        read(protocol, [linked(protocol, at)])
    assert "user:password" not in str(refused.value)
    assert refused.value.param is not None
    assert "content[0]" in refused.value.param


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_url_of_http_waits_to_be_fetched(protocol: str) -> None:
    reader, asked = PROTOCOLS[protocol]
    request = reader.read(Fields(asked([linked(protocol, "HTTPS://example.com/a.png")])))
    assert [one.url for one in urls(request, Limits())] == ["HTTPS://example.com/a.png"]
    with pytest.raises(BadRequest, match="is not fetched here"):
        settled(request, {}, Limits())
    done = settled(request, {"HTTPS://example.com/a.png": png()}, Limits())
    assert done.messages[-1]["content"] == [part(png())]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<html>", "the bytes are text/plain; allowed are image/png"),
        (b"%PDF-1.7", "the bytes are application/pdf; allowed are image/png"),
        (b"PK\x03\x04", "the bytes are of no type that is known"),
        (wav(), "the bytes are audio/wav; allowed are image/png"),
        (MP4, "the bytes are video/mp4"),
        (png()[:20], "the header of the PNG is cut"),
        (png(0, 5), "the image has no pixels"),
        (png(60_000, 60_000), "60,000 × 60,000 pixels; allowed are 50,000,000"),
        (gif(frames=10_000, frame=(80, 80)), "pixels; allowed are"),
        (b"", "has no bytes"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bytes_that_are_no_image_or_one_that_is_too_large_are_refused(protocol: str, data: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match="content") as refused:
        read(protocol, [image(protocol, data)])
    assert reason in str(refused.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_are_bounded_in_number_and_in_bytes(protocol: str) -> None:
    reader, asked = PROTOCOLS[protocol]
    request = reader.read(Fields(asked([image(protocol, png())] * 1000)))
    with pytest.raises(BadRequest, match="1,000 parts; allowed are 100"):
        urls(request, Limits())
    with pytest.raises(BadRequest, match=r"the parts have more than 200 bytes"):
        read(protocol, [image(protocol, png())] * 4, media=200)


def test_chat_completions_takes_parts_of_responses_and_strings_among_parts() -> None:
    """Clients mix them."""
    mixed = [{"type": "input_text", "text": "a"}, "b", {"type": "output_text", "text": "c"}]
    for role in ("system", "user", "assistant", "tool"):
        assert read("chat", mixed, role).messages[-1]["content"] == "abc"
    shown = [*mixed, {"type": "input_image", "image_url": url(png())}]
    assert read("chat", shown).messages == read("chat", [*mixed, image("chat", png())]).messages
    assert read("ag-ui", mixed[1:2]).messages[-1]["content"] == "b"


@pytest.mark.parametrize("protocol", ["chat", "ag-ui"])
@pytest.mark.parametrize("role", ["system", "assistant"])
def test_other_roles_have_parts_of_text_only(protocol: str, role: str) -> None:
    with pytest.raises(BadRequest):
        read(protocol, [image(protocol, png())], role)


@pytest.mark.parametrize(
    ("protocol", "given_part", "reason"),
    [
        ("chat", {"type": "image"}, "allowed are text, image_url"),
        ("chat", {"type": "image_url", "image_url": {}}, r"image_url\.url: is required"),
        ("chat", {"type": "image_url", "image_url": 3}, "must be an object"),
        ("chat", {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@@"}}, "is not base64"),
        ("chat", {"type": "file", "file": {"file_id": "file-1"}}, "no files are stored"),
        ("chat", {"type": "image", "sha256": "0" * 64, "media_type": "image/png"}, "is not supported"),
        ("responses", {"type": "input_image", "file_id": "file-1"}, "no files are stored"),
        ("messages", {"type": "image", "source": {"type": "file", "file_id": "f"}}, "one of base64, data, url, text"),
        ("messages", {"type": "document", "source": {**BLOCKS, "content": [{"type": "image"}]}}, r"\[0\]\.type"),
        ("messages", {"type": "document", "source": {"type": "text", "data": 5}}, "data"),
        ("ag-ui", {"type": "binary", "mimeType": "image/png"}, "url: is required"),
    ],
)
def test_a_malformed_part_is_refused_with_its_field(protocol: str, given_part: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read(protocol, [given_part])
