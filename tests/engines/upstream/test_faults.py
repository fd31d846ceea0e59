"""Every fault of a server becomes an `EngineError` whose status says whose fault it is."""

import asyncio
import logging
from typing import Any

import pytest

from unspool.engines.upstream.answers import failure

from ..generation import text_of
from .support import (
    DONE,
    ENDLESS,
    HEAD,
    STREAM,
    Answer,
    Asked,
    Connection,
    Fake,
    chunk,
    collect,
    connected,
    event,
    fails,
    fault,
    request,
    said,
    says,
    tells,
)


async def ends_in(answer: Answer, **options: Any) -> tuple[str, int, str]:
    """The text up to the error, its status and its message."""
    async with connected(Fake("vllm", answer), **options) as engine:
        found, error = await fault(engine)
        return found, error.status, str(error)


async def reads(answer: Answer) -> str:
    async with connected(Fake("vllm", answer)) as engine:
        return text_of(await collect(engine))


def raw(*pieces: bytes) -> Answer:
    """Answers with these bytes, and closes."""

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(*pieces)

    return answer


# -- correct streams, cut at odd places ---------------------------------------------------

HELLO = said("Grüße, 世界 🌍") + said("!", "stop") + DONE


@pytest.mark.parametrize("size", [1, 5])
async def test_events_and_characters_may_be_cut_anywhere(size: int) -> None:
    utf8 = HELLO.decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16").encode()
    pieces = [utf8[i : i + size] for i in range(0, len(utf8), size)]
    assert await reads(says(*pieces)) == "Grüße, 世界 🌍!"


WELL: dict[str, tuple[Answer, str]] = {
    "it ends with its connection": (raw(ENDLESS, HELLO), "Grüße, 世界 🌍!"),
    "it ends without [DONE]": (says(said("Hi"), said("", "stop")), "Hi"),
    "more behind [DONE] is not read": (says(said("Hi", "stop"), DONE + said("more"), b"data: {broken\n\n"), "Hi"),
    "comments and unknown fields are skipped": (
        says(b": ping\n\n", b"event: x\n", said("Hi", novel={"a": [1]}), b": \n", said("", "stop"), DONE),
        "Hi",
    ),
    "lone surrogates pass through": (says(said("a\ud83d"), said("b", "stop"), DONE), "a\ud83db"),
    "invalid UTF-8 and a byte order mark": (
        says(b"\xef\xbb\xbf" + said("first "), event(b'{"choices": [{"text": "a\xffb"}]}'), said("", "stop"), DONE),
        "first a\ufffdb",
    ),
}


@pytest.mark.parametrize(("answer", "found"), WELL.values(), ids=WELL)
async def test_a_stream_is_read_although_it_is_odd(answer: Answer, found: str) -> None:
    assert await reads(answer) == found


# -- malformed streams --------------------------------------------------------------------------

MALFORMED: dict[str, bytes] = {
    "no JSON": b"data: {broken\n\n",
    "text": b"data: Internal Server Error\n\n",
    "a list": event([1]),
    "a number for the text": event({"choices": [{"text": 5}]}),
    "no list of choices": event({"choices": {}}),
    "ids that are none": event({"choices": [{"text": "x", "token_ids": ["a"]}]}),
    "ids below zero": event({"choices": [{"text": "x", "token_ids": [-1]}]}),
    "ids beyond any vocabulary": event({"choices": [{"text": "x", "token_ids": [1 << 70]}]}),
    "counts below zero": event({"choices": [{"text": "x"}], "usage": {"completion_tokens": -1}}),
    "counts beyond all bounds": event({"choices": [{"text": "x"}], "usage": {"prompt_tokens": 10**4000}}),
    "deep nesting": b"data: " + b"[" * 100_000 + b"\n\n",
    "deep nesting where anything may stand": b'data: {"error": ' + b"[" * 100_000 + b"\n\n",
    "half a line": said("cut")[:-9],
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_malformed_event_is_a_server_error(kind: str) -> None:
    found, status, message = await ends_in(says(said("Hi "), MALFORMED[kind]))
    assert (found, status) == ("Hi ", 502)
    assert "malformed" in message or "early" in message
    assert len(message) < 700


async def test_an_endless_event_is_given_up() -> None:
    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(ENDLESS, said("Hi "), b"data: ")
        while True:
            await connection.send(b"x" * 1_000_000)

    found, status, message = await ends_in(answer)
    assert (found, status) == ("Hi ", 502)
    assert "is larger than" in message


@pytest.mark.parametrize(
    "pieces",
    [
        (STREAM, chunk(said("Hi ")), b"0\r\n\r\n"),  # an end without a reason
        (STREAM, chunk(said("Hi ")), chunk(DONE), b"0\r\n\r\n"),
        (STREAM, chunk(said("Hi "))),  # the connection breaks off
        (ENDLESS, said("Hi ")),
        (HEAD + b"Content-Length: 5000\r\n\r\n", said("Hi ")),
    ],
)
async def test_a_stream_that_ends_early_is_a_server_error(pieces: tuple[bytes, ...]) -> None:
    found, status, _ = await ends_in(raw(*pieces))
    assert (found, status) == ("Hi ", 502)


@pytest.mark.parametrize(
    "pieces",
    [
        (STREAM, chunk(said("Hi ")), chunk(said("there", "length"))),  # the connection breaks off before the usage
        (HEAD + b"Content-Length: 5000\r\n\r\n", said("Hi "), said("there", "length")),
        (STREAM, chunk(said("Hi ")), chunk(said("there", "length")), b"not hex\r\n"),  # nothing comes any more
    ],
)
async def test_an_output_that_has_its_finish_reason_is_whole_without_its_usage(pieces: tuple[bytes, ...]) -> None:
    async with connected(Fake("vllm", raw(*pieces)), next_timeout=0.2) as engine:
        deltas = await collect(engine)
        assert (text_of(deltas), deltas[-1].finish_reason) == ("Hi there", "length")


@pytest.mark.parametrize("where", ["choice", "delta", "message"])
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking", "tool_calls", "function_call"])
async def test_what_a_server_has_parsed_is_told_not_lost(where: str, field: str) -> None:
    parsed = {field: [{"name": "f"}] if field == "tool_calls" else "x"}
    choice = {"text": "Hi", **parsed} if where == "choice" else {where: {"content": "Hi", **parsed}}
    found, status, message = await ends_in(says(event({"choices": [choice]}), said("", "stop"), DONE))
    assert (found, status) == ("", 502)
    assert "the engine parses its output" in message


async def test_a_stream_with_broken_chunks_ends_at_the_time_out() -> None:
    found, status, _ = await ends_in(raw(STREAM, chunk(said("Hi ")), b"not hex\r\n"), next_timeout=0.2)
    assert (found, status) == ("Hi ", 504)


@pytest.mark.parametrize("bytes_", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 9000])
async def test_something_other_than_an_answer_is_a_server_error(bytes_: bytes) -> None:
    assert (await ends_in(raw(bytes_)))[:2] == ("", 502)


async def test_an_answer_that_is_not_a_stream_is_a_server_error() -> None:
    found, status, message = await ends_in(tells({"choices": [{"text": "Hi"}]}))
    assert (found, status) == ("", 502)
    assert "application/json" in message


async def test_a_redirection_is_not_followed() -> None:
    elsewhere = b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    assert (await ends_in(raw(elsewhere)))[1] == 502


@pytest.mark.parametrize(
    ("inside", "status", "message"),
    [
        (
            {"error": {"message": "The grammar is bad", "type": "BadRequestError", "code": 400}},
            400,
            "The grammar is bad",
        ),
        ({"error": {"message": "Internal server error", "code": 500}}, 502, "the engine failed"),
        ({"error": {"message": "waited too long", "code": 503}}, 503, "is overloaded"),
        ({"error": "CUDA out of memory"}, 502, "the engine failed"),
        ({"error": {}}, 502, "failed"),
        ({"choices": [{"text": "", "finish_reason": "abort"}]}, 503, "aborted the generation"),
    ],
)
async def test_an_error_within_the_stream_ends_it(inside: Any, status: int, message: str) -> None:
    found, got, error_text = await ends_in(says(said("Hi "), event(inside), DONE))
    assert (found, got) == ("Hi ", status)
    assert message in error_text


# -- HTTP errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "got", "message"),
    [
        (400, {"error": {"message": "top_p must be in (0, 1]", "code": 400}}, 400, "top_p must be in (0, 1]"),
        (400, {"object": "error", "message": "too long a prompt", "code": 400}, 400, "too long a prompt"),
        (422, {"detail": [{"loc": ["body", "seed"], "msg": "not an integer"}]}, 400, "body.seed: not an integer"),
        (422, {"detail": "Unexpected fields"}, 400, "Unexpected fields"),
        (422, {"detail": [{"loc": 5, "msg": [1]}]}, 400, "5: [1]"),
        (413, {}, 400, "rejected"),
        (404, {"error": {"message": "The model `x` does not exist.", "code": 404}}, 502, "does not know the path"),
        (
            401,
            {"error": {"message": "Incorrect API key provided: sk-secret", "code": 401}},
            503,
            "rejected the API key",
        ),
        (403, {"error": "the key sk-secret is for others"}, 503, "rejected the API key"),
        (429, {"error": {"message": "too many requests"}}, 429, "is overloaded"),
        (500, {"error": {"message": "sk-secret: CUDA error"}}, 502, "the engine failed"),
        (500, b"Internal Server Error", 502, "failed"),
        (503, {"error": {"message": "Loading model", "code": 503}}, 503, "is overloaded"),
        (504, {}, 504, "timed out"),
        (418, ["?"], 502, "failed"),
    ],
)
async def test_an_http_error_keeps_its_message_and_whose_fault_it_is(
    status: int, body: Any, got: int, message: str
) -> None:
    found, status_sent, error_text = await ends_in(fails(status, body), api_key="sk-secret")
    assert (found, status_sent) == ("", got)
    assert message in error_text
    assert "sk-secret" not in error_text
    assert "CUDA" not in error_text, "the client is not told what went wrong inside the server"


@pytest.mark.parametrize(
    "message",
    [
        "request (9038 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "This model's maximum context length is 8192 tokens. However, your request has 9038 input tokens.",
        "The decoder prompt (length 9038) is longer than the maximum model length of 8192.",
        "The input (9038 tokens) is longer than the model's context length (8192 tokens).",
        "Input text is too long, input_ids_len (9038) + min_tokens(1) >= max_model_len(8192)",
    ],
)
def test_a_prompt_beyond_the_context_is_told_in_the_words_that_clients_act_on(message: str) -> None:
    error = failure(message, 400)
    assert (str(error), error.code) == ("prompt is too long: 9038 tokens > 8192 maximum", "context_length_exceeded")


def test_other_errors_that_name_the_context_keep_their_message() -> None:
    message = "max_tokens: 9000 is too many: the context length is 8192 tokens"
    assert failure("the context length is 8192 tokens, the prompt 20", 400).code is None
    assert failure(message, 500).code is None


async def test_a_long_error_is_shortened() -> None:
    assert len((await ends_in(fails(400, {"error": {"message": "x" * 1_000_000}})))[2]) < 700


async def test_the_key_is_sent_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fake = Fake("vllm", fails(500, {"error": {"message": "no sk-secret here"}}))
    async with connected(fake, api_key="sk-secret") as engine:
        await fault(engine)
    assert {a.headers["authorization"] for a in fake.asked} == {"Bearer sk-secret"}
    assert "sk-secret" not in repr(vars(engine))
    assert "sk-secret" not in caplog.text


# -- time --------------------------------------------------------------------------------------------------------------


async def _silent(connection: Connection, asked: Asked) -> None:
    await connection.gone()


async def _no_token(connection: Connection, asked: Asked) -> None:
    await connection.send(STREAM)
    while True:
        await connection.send(chunk(b": keep-alive\n\n"))
        await asyncio.sleep(0.02)


async def _stalls(connection: Connection, asked: Asked) -> None:
    await connection.send(STREAM, chunk(said("Hi ")))
    await connection.gone()


def _nothing(piece: bytes, begun: bytes = b"", pause: float = 0.0) -> Answer:
    """Sends events without anything of the output for ever, as fast as they are read or with a pause between them."""

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(STREAM, *([chunk(begun)] if begun else ()))
        while True:
            await connection.send(chunk(piece * (1 if pause else 10_000)))
            await asyncio.sleep(pause)

    return answer


_IDLE = [event({"choices": []}), event({}), said(""), event({"usage": {"completion_tokens": 9}}), b": idle\n\n"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (_silent, ""),
        (_no_token, ""),
        (_stalls, "Hi "),
        *((_nothing(piece, pause=0.02), "") for piece in _IDLE),
        *((_nothing(piece, said("Hi "), pause=0.02), "Hi ") for piece in _IDLE),
    ],
)
async def test_a_server_that_takes_too_long_is_given_up(answer: Answer, found: str) -> None:
    got, status, message = await ends_in(answer, first_timeout=20 if found else 0.2, next_timeout=0.2)
    assert (got, status) == (found, 504)
    assert "timed out" in message


@pytest.mark.parametrize("begun", [b"", said("Hi ")])
@pytest.mark.parametrize("piece", _IDLE)
async def test_a_server_that_floods_with_nothing_is_given_up_before_its_time(piece: bytes, begun: bytes) -> None:
    found, status, message = await ends_in(_nothing(piece, begun))
    assert (found, status) == ("Hi " if begun else "", 502)
    assert "nothing of the output" in message


async def test_a_server_that_never_answers_the_detection_is_given_up() -> None:
    async with connected(Fake("vllm", says(), v1__models=_silent), connect_timeout=0.2) as engine:
        _, error = await fault(engine)
        assert error.status == 504


@pytest.mark.parametrize("odd", ["NaN", "-Infinity", "1e999", '"\\ud800"', "1"], ids=str)
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
async def test_a_list_of_models_that_is_not_strictly_json_is_read(before: bytes, odd: str) -> None:
    models = before + b'{"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 9, "odd": %s}]}' % odd.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = says(said("Hi"), said("", "stop"), DONE)
    async with connected(Fake("vllm", answer, v1__models=says(models, head=head))) as engine:
        assert text_of(await collect(engine)) == "Hi"


async def test_time_that_the_consumer_takes_does_not_count_as_the_servers() -> None:
    answer = says(b"".join(said(str(i)) for i in range(5)) + said("", "stop") + DONE)
    async with connected(Fake("vllm", answer), next_timeout=0.1) as engine:
        found = ""
        async for delta in engine.generate(request()):
            await asyncio.sleep(0.15)
            found += delta.text
        assert found == "01234"
