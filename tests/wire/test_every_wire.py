"""In every protocol, a list of events gives the same message, in a stream and in a whole answer."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from unspool import Event, Message, ReasoningDelta
from unspool.wire.encoding import clean, encode

from ..support import Trial, examples
from . import readers
from .readers import Answer, answer_of, chat_stream, chat_whole
from .streams import (
    USAGE,
    agui,
    called,
    candle,
    chat,
    content,
    finished,
    messages,
    mindie,
    reasoning,
    responses,
    runs,
    stream,
)

Both = Callable[[Message, list[Event]], tuple[Any, Any, Answer]]
"""The contents of a stream, of a whole answer, and a client's result of the stream."""


def by_chat(field: str) -> Both:
    def both(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
        name = "reasoning" if field == "both" else field
        writer = chat(reasoning_field=field, include_usage=True)
        (streamed,), usage = chat_stream(stream(writer, events), name)
        whole = writer.whole([message], USAGE)
        return (streamed, usage), (chat_whole(whole, name)[0], json.loads(whole)["usage"]), streamed

    return both


def by_mindie(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
    # The role is in every chunk, and the reader would join them, as the official client does.
    sent = stream(mindie(), events).replace(b'"role":"assistant",', b"")
    sent = sent.replace(b'"delta":{', b'"delta":{"role":"assistant",', 1)
    (streamed,), usage = chat_stream(sent)
    whole = mindie().whole([message], USAGE)
    return (streamed, usage), (chat_whole(whole)[0], json.loads(whole)["usage"]), streamed


def by_candle(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
    (streamed,), usage = chat_stream(stream(candle(include_usage=True), events), "reasoning")
    answer = json.loads(candle().whole([message], USAGE, events=[events]))
    extensions = answer.get("extensions", {"reasoning_chunks": [], "tool_call_chunks": []})
    (answered,) = chat_whole(json.dumps(answer).encode())
    whole = answered._replace(reasoning="".join(extensions["reasoning_chunks"]))
    assert extensions["reasoning_chunks"] == [clean(e.text) for e in events if isinstance(e, ReasoningDelta)]
    bare = streamed._replace(reasoning=streamed.reasoning.replace("<think>", "").replace("</think>", ""))
    return (bare, usage), (whole, answer["usage"]), bare


def by_responses(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
    streamed = readers.responses_stream(stream(responses(), events))
    return streamed, json.loads(responses().whole([message], USAGE)), readers.responses_answer(streamed)


def by_messages(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
    streamed = readers.messages_stream(stream(messages(), events))
    return streamed, readers.messages_whole(messages().whole([message], USAGE)), readers.messages_answer(streamed)


def by_agui(message: Message, events: list[Event]) -> tuple[Any, Any, Answer]:
    streamed, _ = readers.agui_stream(stream(agui(), events))
    return None, None, streamed  # the protocol has no whole answers


WIRES: dict[str, Both] = {
    "chat": by_chat("reasoning_content"),
    "chat-reasoning": by_chat("reasoning"),
    "chat-both": by_chat("both"),
    "mindie": by_mindie,
    "candle": by_candle,
    "responses": by_responses,
    "messages": by_messages,
    "agui": by_agui,
}


def agreed(name: str, message: Message, events: list[Event]) -> Answer:
    """What a client reads, in a stream and in a whole answer alike."""
    streamed, whole, answer = WIRES[name](message, events)
    assert streamed == whole, name
    return answer


@pytest.mark.parametrize("case", examples(), ids=str)
def test_every_wire_rebuilds_the_message_and_its_stream_equals_its_whole_answer(case: Trial) -> None:
    for message, events in runs(case):
        assert {name: agreed(name, message, events) for name in WIRES} == dict.fromkeys(WIRES, answer_of(message))


@pytest.mark.parametrize("case", examples(), ids=str)
def test_a_message_and_events_survive_as_json(case: Trial) -> None:
    for message, events in runs(case):
        read = msgspec.json.decode(encode([message, events]), type=tuple[Message, list[Event]])
        assert read == (message, events)


@pytest.mark.parametrize("name", ["responses", "messages", "agui"])
def test_calls_that_are_sent_at_the_same_time_are_written_one_after_another(name: str) -> None:
    f, g = called(0, "call-0", "f", '{"x"', ": 1}"), called(1, "call-1", "g", "{}")
    events = finished("tool_calls", content("a"), f[:2], content("b"), g[:2], f[2:], g[2:])
    answer = agreed(name, unspool.fold(events), events)
    assert answer == answer_of(unspool.fold(events))
    assert answer.calls == (("call-0", "f", '{"x": 1}'), ("call-1", "g", "{}"))


@pytest.mark.parametrize("name", WIRES)
def test_a_call_that_was_never_ended_is_closed_by_the_finish(name: str) -> None:
    events = finished("length", called(0, "call-0", "f", '{"x"')[:-1], content("b"))
    assert agreed(name, unspool.fold(events), events) == answer_of(unspool.fold(events))


LONE = "a\ud83d\u2028\x85b"


@pytest.mark.parametrize("name", WIRES)
def test_lone_surrogates_and_line_ends_of_unicode_break_no_stream(name: str) -> None:
    call = called(0, "call\udc00", "f\udc00", f'{{"x": "{LONE}"}}')
    events = finished("tool_calls", reasoning(LONE)[1:2], content(LONE), call)
    seen = "a\ufffd\u2028\x85b"
    assert agreed(name, unspool.fold(events), events) == Answer(
        seen, seen, (("call\ufffd", "f\ufffd", '{"x": "' + seen + '"}'),), "tool_calls"
    )


# -- any events at all -------------------------------------------------------------------------------------------------

PIECES = st.lists(st.text(min_size=1, max_size=6), max_size=3)
OBJECTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(json.dumps)
BLOCKS = st.tuples(st.sampled_from(("reasoning", "cut reasoning", "content")), PIECES) | st.tuples(
    st.sampled_from(("ok", "repaired", "invalid", "incomplete")), PIECES | OBJECTS.map(lambda text: [text])
)


def events_of(parts: list[tuple[Any, list[str]]], reason: str) -> list[Event]:
    """Events of blocks in any order, including orders in which no parser emits them."""
    blocks: list[list[Event]] = []
    index = 0
    for kind, pieces in parts:
        if kind == "content":
            blocks.append(content(*pieces))
        elif "reasoning" in kind:
            blocks.append(reasoning(*pieces, closed=kind == "reasoning"))
        else:
            blocks.append(called(index, f"call-{index}", "f", *pieces, status=kind))
            index += 1
    return finished("tool_calls" if index and reason == "stop" else reason, *blocks)


@given(st.lists(BLOCKS, max_size=6), st.sampled_from(("stop", "length", "content_filter")))
def test_any_events_give_the_same_message_on_every_wire(parts: list[tuple[Any, list[str]]], reason: str) -> None:
    events = events_of(parts, reason)
    message = unspool.fold(events)
    for name in WIRES:
        if name == "candle" and any(kind == "invalid" for kind, _ in parts):
            continue  # its stream ends there
        assert agreed(name, message, events) == answer_of(message), name
