"""Everything written has the types of the official clients, strictly."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ag_ui.core
import pydantic
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from ..support import Trial, examples
from .readers import frames
from .streams import USAGE, agui, candle, chat, messages, mindie, responses, runs, stream


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


CHAT = {".choices.delta.reasoning_content", ".choices.message.reasoning_content"}
CANDLE = {".choices.delta.reasoning", ".extensions"}
RESPONSES = {".store", ".response.store"}
WRITERS: list[tuple[Callable[[], Any], Any, Any, set[str]]] = [
    (lambda: chat(include_usage=True), ChatCompletionChunk, ChatCompletion, CHAT),
    (mindie, ChatCompletionChunk, ChatCompletion, CHAT),
    (candle, ChatCompletionChunk, ChatCompletion, CANDLE),
    (responses, ResponseStreamEvent, Response, RESPONSES),
    (messages, RawMessageStreamEvent, AnthropicMessage, set()),
    (agui, ag_ui.core.Event, None, set()),
]
"""Writers, with the types of what they stream and of their whole answers, and the fields that are no client's."""


@pytest.mark.parametrize("case", examples(), ids=str)
def test_everything_written_matches_the_clients_types(case: Trial) -> None:
    _, (message, events), _ = runs(case)
    for writer, streamed, whole, extras in WRITERS:
        for frame in frames(stream(writer(), events), done=streamed is ChatCompletionChunk):
            read(streamed, frame.data, extras)
        if whole is not None:
            read(whole, json.loads(writer().whole([message], USAGE, events=[events])), extras)
