"""What the tests of the machine share: ways to cut a text, a run that checks what always holds, and the cases."""

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import unspool
from unspool import (
    ContentDelta,
    Dialect,
    Event,
    Finish,
    Markup,
    Message,
    Parser,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Stage,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from unspool.dialect import Example, ExampleCall, example_tools

DIALECTS: list[Dialect] = unspool.list_dialects()
"""Every dialect: a new file is tested by existing."""
CALLING = [d for d in DIALECTS if d.call]
THINKING = [d for d in DIALECTS if d.reasoning]
DEFAULT_ID = "call_" + "?" * 24


def named(dialects: Iterable[Dialect]) -> dict[str, Any]:
    """Arguments of `pytest.mark.parametrize` for a test's ``dialect``."""
    found = list(dialects)
    return {"argnames": "dialect", "argvalues": found, "ids": [d.name for d in found]}


# -- cases -------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One raw text of an example, and what it means."""

    dialect: Dialect
    number: int
    raw: str
    example: Example

    @property
    def tools(self) -> list[dict[str, Any]]:
        return tools_of(self.dialect)

    @property
    def calls(self) -> tuple[ExampleCall, ...]:
        return self.example.tool_calls

    def __str__(self) -> str:
        return f"{self.dialect.name}-{self.number}"


@cache
def _tools(name: str) -> str:
    return json.dumps(example_tools(next(d for d in DIALECTS if d.name == name)))


def tools_of(dialect: Dialect) -> list[dict[str, Any]]:
    """The tools that a dialect's examples call."""
    found: list[dict[str, Any]] = json.loads(_tools(dialect.name))
    return found


def cases(dialects: Iterable[Dialect] = tuple(DIALECTS)) -> list[Case]:
    """Every raw text of every example."""
    found: list[Case] = []
    for d in dialects:
        raws = [(raw, example) for example in d.examples for raw in example.raw]
        found.extend(Case(d, i, raw, example) for i, (raw, example) in enumerate(raws))
    return found


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool with properties; a property is a JSON type or a whole schema."""
    schemas = {k: {"type": v} if isinstance(v, str) else v for k, v in properties.items()}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": schemas}}}


def literals(dialect: Dialect) -> list[str]:
    """Every literal of a dialect, trimmed."""
    parts = (
        *dialect.reasoning, *dialect.content, *dialect.preamble, *dialect.calls, *dialect.call, *dialect.argument,
        *dialect.item,
    )  # fmt: skip
    found = [p.strip() for t in parts for p in (*t.before, *t.after) if isinstance(p, str)]
    return sorted({t for t in (*found, *dialect.start, *dialect.end, dialect.quote) if t.strip()})


# -- ways to cut a text ------------------------------------------------------------------------------------------------


def splits(text: str) -> Iterator[list[str]]:
    """Every way to cut a text in two."""
    for at in range(1, len(text)):
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


def chunkings(text: str, seed: int = 0, randoms: int = 3) -> Iterator[list[str]]:
    """The whole text, its characters, every cut in two, and random cuts."""
    yield [text]
    yield list(text)
    yield from splits(text)
    rng = random.Random(seed)
    for longest in itertools.islice(itertools.cycle((3, 12, 40)), randoms):
        yield random_split(text, rng, longest)


# -- running -----------------------------------------------------------------------------------------------------------


def run(
    dialect: str | Dialect, chunks: Sequence[str], finish_reason: str = "stop", **options: Any
) -> tuple[Message, list[Event]]:
    """Parse chunks; asserts all that holds for the events of any output whatever."""
    parser = Parser(dialect, **options)
    events: list[Event] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    events += parser.close(finish_reason)
    check(events, "".join(chunks))
    message = parser.message
    assert message == unspool.fold(events), "the parser's message is not what its events tell"
    return message, events


def check(events: Sequence[Event], output: str) -> None:
    """Assert that events tile an output, that texts are its own, and that calls come in order."""
    at = began = 0
    index = -1
    open_call = thinking = False
    finished = 0
    for event in events:
        assert not finished, f"{event} follows the end"
        assert event.start == at, f"{event} does not begin where the one before it ended, at {at}"
        assert event.end >= event.start, f"{event} goes backwards"
        at = event.end
        if isinstance(event, ReasoningDelta | ContentDelta | Markup):
            assert event.text, f"{event} is empty"
            assert event.text == output[event.start : event.end], f"{event} is not the output's own text"
        if isinstance(event, ReasoningStart):
            assert not thinking, f"{event}: reasoning is open already"
            thinking = True
        elif isinstance(event, ReasoningEnd):
            assert thinking, f"{event}: no reasoning is open"
            thinking = False
        elif isinstance(event, ReasoningDelta):
            assert thinking, f"{event} outside reasoning"
        elif isinstance(event, ContentDelta):
            assert not thinking, f"{event} inside reasoning"
        elif isinstance(event, ToolCallStart):
            assert not open_call, f"{event} while a call is open"
            index += 1
            assert event.index == index, f"{event}: calls are counted from 0"
            assert event.name, f"{event} has no name"
            assert event.id, f"{event} has no id"
            open_call = True
            began = event.start
        elif isinstance(event, ToolCallDelta):
            assert open_call, f"{event} outside a call"
            assert event.index == index, f"{event} of another call"
        elif isinstance(event, ToolCallEnd):
            assert open_call, f"{event} outside a call"
            assert event.index == index, f"{event} of another call"
            assert event.status in ("ok", "incomplete", "invalid", "repaired")
            if event.status != "ok" and event.end > began:
                assert event.raw, f"{event} keeps nothing of what the model wrote"
            open_call = False
        elif isinstance(event, Finish):
            finished += 1
        elif isinstance(event, unspool.Notice):
            assert event.start == event.end
            assert event.kind in unspool.NOTICES, f"{event} is of no documented kind"
    assert finished == 1, "an output ends once"
    assert not open_call, "a call was not ended"
    assert at == len(output), f"events tell {at} of {len(output)} characters"


def native_id(dialect: Dialect, call_id: str) -> str | None:
    """A call's id where the model wrote it; ``None`` where it was made up and has random letters."""
    return None if "?" in dialect.id else call_id


def same(message: Message, *, ids: bool = True) -> tuple[Any, ...]:
    """What must not depend on chunking; pass ``ids=number`` to the parser so that ids made up are equal too."""
    return (
        message.reasoning,
        message.content,
        message.finish_reason,
        tuple((c.name, c.arguments, c.status, c.id if ids else None, c.known) for c in message.tool_calls),
    )


def number(index: int, name: str) -> str:
    """Ids that do not change between runs."""
    return f"made-{index}"


def notices(message: Message) -> list[str]:
    """The kinds of a message's notices."""
    return [n.kind for n in message.notices]


def text_events(events: Iterable[Event]) -> str:
    """What events tell as reasoning and content, in order."""
    return "".join(e.text for e in events if isinstance(e, ReasoningDelta | ContentDelta))


def empty(message: Message) -> bool:
    """Whether a message tells nothing."""
    return not (message.reasoning or message.tool_calls or message.content.strip())


def values(message: Message) -> list[tuple[str, Any]]:
    """Names and argument values of the calls."""
    return [(c.name, json.loads(c.arguments)) for c in message.tool_calls]


def expected(example: Example) -> list[tuple[str, Any]]:
    """The same of an example."""
    return [(c.name, c.arguments) for c in example.tool_calls]


def parse_case(case: Case, chunks: Sequence[str] | None = None, **options: Any) -> tuple[Message, list[Event]]:
    """Run an example's raw text in its stage with its tools."""
    settings: dict[str, Any] = {"tools": case.tools, "stage": case.example.stage, "ids": number, **options}
    return run(case.dialect, [case.raw] if chunks is None else chunks, **settings)


STAGES = [None, *Stage]
