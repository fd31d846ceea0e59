"""Tries a dialect: cuts texts in many ways, reads them, and checks what must hold for the events of every output.

`unspool.check.promises` and the test suite use it.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ..dialect.examples import example_tools
from ..dialect.file import Dialect, Example, ExampleCall
from ..events import (
    NOTICES,
    ContentDelta,
    Event,
    Finish,
    Markup,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Stage,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..message import Message, fold
from ..parser import Parser

MAX_PLACES: Final = 3_000
"""The largest number of places at which a text is cut; in a longer text, they are spread over it."""


class Broken(AssertionError):
    """A promise is not kept; the message says where and how."""


def demand(kept: object, why: str) -> None:
    """Raise `Broken` if a condition does not hold."""
    if not kept:
        raise Broken(why)


class Trial(NamedTuple):
    """One raw text of an example, with its meaning."""

    dialect: Dialect
    number: int
    raw: str
    example: Example
    tools: list[dict[str, Any]]

    @property
    def calls(self) -> tuple[ExampleCall, ...]:
        return self.example.tool_calls

    def __str__(self) -> str:
        return f"{self.dialect.name}-{self.number}"


def cases(dialects: Iterable[Dialect]) -> list[Trial]:
    """Every raw text of every example."""
    found: list[Trial] = []
    for d in dialects:
        tools = example_tools(d)
        raws = [(raw, example) for example in d.examples for raw in example.raw]
        found.extend(Trial(d, i, raw, example, tools) for i, (raw, example) in enumerate(raws))
    return found


def at_content(dialect: Dialect) -> Dialect:
    """A dialect whose output begins with content, as tests of parts presume; its examples begin where they did."""
    if dialect.stage is not Stage.REASONING:
        return dialect
    examples = tuple(msgspec.structs.replace(e, stage=e.stage or dialect.stage) for e in dialect.examples)
    return altered(dialect, examples, stage=Stage.CONTENT)


def altered(dialect: Dialect, examples: tuple[Example, ...], **fields: Any) -> Dialect:
    """A dialect with other fields and these examples, instead of those that the property reads from its file."""
    other = msgspec.structs.replace(dialect, **fields)
    vars(other)["examples"] = examples
    return other


# -- ways to cut a text ------------------------------------------------------------------------------------------------


def places(text: str) -> Sequence[int]:
    """The places at which a text is cut: all, or `MAX_PLACES` that are spread over it."""
    step = max(len(text) / MAX_PLACES, 1)
    return [int(i * step) for i in range(int(len(text) / step))]


def splits(text: str) -> Iterator[list[str]]:
    """The ways to cut a text in two."""
    for at in places(text):
        if at:
            yield [text[:at], text[at:]]


def random_split(text: str, rng: random.Random, longest: int = 12) -> list[str]:
    """Pieces of random length, at most ``longest``."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def chunkings(text: str) -> Iterator[list[str]]:
    """The whole text, its characters, every cut in two, and random pieces of the size of tokens."""
    yield [text]
    yield list(text)
    yield from splits(text)
    rng = random.Random(0)
    for longest in (3, 12, 40):
        yield random_split(text, rng, longest)


# -- running -----------------------------------------------------------------------------------------------------------


def number(index: int, name: str) -> str:
    """Make ids that do not change between runs."""
    return f"made-{index}"


def run(
    dialect: str | Dialect, chunks: Sequence[str], finish_reason: str = "stop", **options: Any
) -> tuple[Message, list[Event]]:
    """Parse chunks, and check what must hold for the events of every output; `Broken` if the check failed."""
    parser = Parser(dialect, **options)
    events: list[Event] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    events += parser.close(finish_reason)
    check_events(events, "".join(chunks))
    message = parser.message
    demand(message == fold(events), "the parser's message is not that of its events")
    return message, events


def read(case: Trial, chunks: Sequence[str] | None = None, **options: Any) -> tuple[Message, list[Event]]:
    """Read a case's raw text in its stage with its tools."""
    settings: dict[str, Any] = {"tools": case.tools, "stage": case.example.stage, "ids": number, **options}
    return run(case.dialect, [case.raw] if chunks is None else chunks, **settings)


def same(message: Message) -> tuple[Any, ...]:
    """The parts of a message that must not depend on chunking; made-up ids too, if the parser has ``ids=number``."""
    return (
        message.reasoning,
        message.content,
        message.finish_reason,
        tuple((c.name, c.arguments, c.status, c.id, c.known, c.raw) for c in message.tool_calls),
    )


def notices(message: Message) -> list[str]:
    return [n.kind for n in message.notices]


def empty(message: Message) -> bool:
    return not (message.reasoning or message.tool_calls or message.content.strip())


def check_events(events: Sequence[Event], output: str) -> None:
    """Check that events tile and quote an output, that calls come in order, and that it ends once; else `Broken`."""
    _check_places(events, output)
    _check_reasoning(events)
    _check_calls(events)
    for event in events:
        if isinstance(event, Notice) and (event.start != event.end or event.kind not in NOTICES):
            raise Broken(f"{event} {'has a span' if event.start != event.end else 'is of no documented kind'}")
    ends = [i for i, event in enumerate(events) if isinstance(event, Finish)]
    demand(ends, "the output does not end")
    if after := events[ends[0] + 1 :]:
        raise Broken(f"{after[0]} follows the end")


def _check_reasoning(events: Sequence[Event]) -> None:
    thinking = False
    for event in events:
        if isinstance(event, ReasoningStart | ReasoningEnd):
            if thinking != isinstance(event, ReasoningEnd):
                raise Broken(f"{event}: reasoning is {'' if thinking else 'not '}open")
            thinking = not thinking
        elif isinstance(event, ReasoningDelta | ContentDelta) and thinking != isinstance(event, ReasoningDelta):
            raise Broken(f"{event} on the wrong side of reasoning")


def _check_calls(events: Sequence[Event]) -> None:
    index = -1
    start: ToolCallStart | None = None  # of the open call
    for event in events:
        if isinstance(event, ToolCallStart):
            index += 1
            if start is not None or event.index != index:
                raise Broken(f"{event}{' while a call is open' if start is not None else ': calls are counted from 0'}")
            if not (event.name and event.id):
                raise Broken(f"{event} has no name or no id")
            start = event
        elif isinstance(event, ToolCallDelta | ToolCallEnd):
            if start is None or event.index != index:
                raise Broken(f"{event} outside its call")
            if isinstance(event, ToolCallEnd):
                if not (event.status == "ok" or event.raw or event.end == start.start):
                    raise Broken(f"{event} keeps nothing of what the model wrote")
                start = None
    demand(start is None, "a call was not ended")


def _check_places(events: Sequence[Event], output: str) -> None:
    at = 0
    for event in events:
        if event.start != at:
            raise Broken(f"{event} does not begin where the one before it ended, at {at}")
        if event.end < event.start:
            raise Broken(f"{event} goes backwards")
        at = event.end
        if isinstance(event, ReasoningDelta | ContentDelta | Markup):
            if not event.text:
                raise Broken(f"{event} is empty")
            if event.text != output[event.start : event.end]:
                raise Broken(f"{event} is not the output's own text")
    demand(at == len(output), f"events cover {at} of {len(output)} characters")
