"""Everything written has the types of the official clients, strictly."""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import ag_ui.core
import pydantic
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from ..support import Case, examples
from .readers import frames
from .streams import USAGE, agui, candle, chat, messages, mindie, responses, runs, stream

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
