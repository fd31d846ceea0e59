"""The official clients read the wires: their types, strictly, and the clients themselves, without a network."""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import ag_ui.core
import anthropic
import httpx2
import openai
import pydantic
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

import unspool
from unspool.wire import Failure
from unspool.wire.chat import error_body as chat_error
from unspool.wire.messages import error_body as messages_error

from ..support import Case, examples
from .readers import Answer, answer_of, frames
from .streams import USAGE, agui, candle, chat, messages, mindie, responses, runs, stream
from .test_chat import EVENTS

# -- types -------------------------------------------------------------------------------------------------------------


def unknown(value: Any, path: str = "") -> Iterator[str]:
    """Fields that a client's model does not declare."""
    if isinstance(value, pydantic.BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from unknown(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from unknown(item, path)


@functools.cache
def adapter(kind: Any) -> Any:
    return pydantic.TypeAdapter(kind)


def read(kind: Any, data: Any, extras: Iterable[str] = ()) -> None:
    """Validate without conversions: no unknown fields, no missing ones, and only the allowed literals."""
    value = adapter(kind).validate_json(json.dumps(data), strict=True)
    assert set(unknown(value)) <= set(extras)


CHAT_EXTRAS = {".choices.delta.reasoning_content", ".choices.message.reasoning_content"}
CANDLE_EXTRAS = {".choices.delta.reasoning", ".extensions"}
RESPONSE_EXTRAS = {".store", ".response.store"}


@pytest.mark.parametrize("case", examples(), ids=str)
def test_everything_written_matches_the_clients_types(case: Case) -> None:
    for message, events in list(runs(case))[1:2]:
        for frame in frames(stream(chat(include_usage=True), events), done=True):
            read(ChatCompletionChunk, frame.data, CHAT_EXTRAS)
        read(ChatCompletion, json.loads(chat().whole([message], USAGE)), CHAT_EXTRAS)
        for frame in frames(stream(mindie(), events), done=True):
            read(ChatCompletionChunk, frame.data, CHAT_EXTRAS)
        read(ChatCompletion, json.loads(mindie().whole([message], USAGE)), CHAT_EXTRAS)
        for frame in frames(stream(candle(), events), done=True):
            read(ChatCompletionChunk, frame.data, CANDLE_EXTRAS)
        read(ChatCompletion, json.loads(candle().whole([message], USAGE, events=[events])), CANDLE_EXTRAS)
        for frame in frames(stream(responses(), events)):
            read(ResponseStreamEvent, frame.data, RESPONSE_EXTRAS)
        read(Response, json.loads(responses().whole([message], USAGE)), RESPONSE_EXTRAS)
        for frame in frames(stream(messages(), events)):
            read(RawMessageStreamEvent, frame.data)
        read(AnthropicMessage, json.loads(messages().whole([message], USAGE)))
        for frame in frames(stream(agui(), events)):
            read(ag_ui.core.Event, frame.data)


# -- clients -----------------------------------------------------------------------------------------------------------


def transport(body: bytes, status: int = 200) -> Any:
    """A transport that answers any request. Streams are sent byte by byte."""
    streaming = body.startswith((b"data:", b"event:"))
    kind = "text/event-stream" if streaming else "application/json"

    def answer(_: Any) -> Any:
        content = (body[i : i + 7] for i in range(0, len(body), 7)) if streaming else body
        return httpx2.Response(status, headers={"content-type": kind}, content=content)

    return httpx2.MockTransport(answer)


def openai_client(body: bytes, status: int = 200) -> Any:
    http = openai.DefaultHttpxClient(transport=transport(body, status))
    return openai.OpenAI(api_key="EMPTY", base_url="http://test/v1", max_retries=0, http_client=http)


def anthropic_client(body: bytes, status: int = 200) -> Any:
    http = anthropic.DefaultHttpxClient(transport=transport(body, status))
    return anthropic.Anthropic(api_key="EMPTY", base_url="http://test", max_retries=0, http_client=http)


TURN: Any = [{"role": "user", "content": "Hi"}]


def chat_answer(choice: Any) -> Answer:
    message = choice.message
    calls = tuple((c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ())
    return Answer(getattr(message, "reasoning_content", None) or "", message.content or "", calls, choice.finish_reason)


def test_the_stream_helper_reads_all_choices() -> None:
    writer = chat(n=3)
    body = writer.start()
    for event in EVENTS:
        for choice in (2, 1, 0):
            body += writer.events(choice, [event])
    body += writer.finish()
    with openai_client(body) as client, client.chat.completions.stream(model="m", messages=TURN, n=3) as streaming:
        final = streaming.get_final_completion()
    expected = answer_of(unspool.fold(EVENTS))
    assert [chat_answer(c) for c in final.choices] == [expected] * 3


def test_the_stream_helper_reports_arguments_as_they_arrive_and_their_end() -> None:
    with (
        openai_client(stream(chat(), EVENTS)) as client,
        client.chat.completions.stream(model="m", messages=TURN) as streaming,
    ):
        kinds = [e.type for e in streaming]
    assert kinds.count("tool_calls.function.arguments.delta") >= 2
    assert kinds.count("tool_calls.function.arguments.done") == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500, 503])
def test_clients_raise_the_error_that_belongs_to_the_status_with_its_message(status: int) -> None:
    failure = Failure("what went wrong", status, "model")
    with (
        openai_client(chat_error(failure), status) as client,
        pytest.raises(openai.APIStatusError, match="what went wrong") as raised,
    ):
        client.chat.completions.create(model="m", messages=TURN)
    assert raised.value.status_code == status
    assert raised.value.param == "model"
    with (
        anthropic_client(messages_error(failure), status) as client,
        pytest.raises(anthropic.APIStatusError, match="what went wrong"),
    ):
        client.messages.create(model="m", max_tokens=9, messages=TURN)
