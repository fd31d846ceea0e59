"""A whole answer, including the parser's construction, compared with a ten-line reader of that one format."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import unspool
from unspool import Dialect

from .clock import ROUND, Clock, least_chunk, seconds, time_feed
from .effort import Effort
from .samples import calling, cut
from .strings import CHUNK
from .table import Row, ranked

_WANTED: Final = {"json": 3.0, "markup": 4.0}
_MEDIAN: Final = 5.0
_WORST: Final = 12.0
_ROUND: Final = 40
_STREAMED: Final = 100.0
_STREAMED_WORST: Final = 300.0

_THOUGHT: Final = (
    "The user asks for the weather in two cities, and wants to know what to pack. I look up both, in the units that "
    "they use, and then compare. There is no need to ask for the dates: they said next week, so that a forecast of "
    "seven days is what I want. If one of the two fails I say so, and answer with the other. It is a short trip, and "
    "they want to travel light: what is for rain and what is for cold should be the same coat, if that can be."
)
_CONTENT: Final = "I look at the forecast for both cities, and tell you then what to pack."
_CALLS: Final = [
    (
        "get_weather",
        {"city": "Paris", "days": "7", "unit": "celsius", "note": "next week, with wind and rain by the hour"},
    ),
    ("get_weather", {"city": "New York", "days": "7", "unit": "fahrenheit", "note": "the same, for the comparison"}),
]
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The forecast for a city.",
            "parameters": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("city", "days", "unit", "note")},
            },
        },
    }
]


def _json_text() -> str:
    calls = "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in _CALLS
    )
    return f"<think>\n{_THOUGHT}\n</think>\n\n{_CONTENT}\n{calls}"


def _markup_text() -> str:
    def call(name: str, arguments: dict[str, str]) -> str:
        values = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in arguments.items())
        return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"

    return f"<think>\n{_THOUGHT}\n</think>\n\n{_CONTENT}\n\n" + "\n".join(call(*c) for c in _CALLS)


_THINK: Final = re.compile(r"\s*<think>\n?(.*?)\n?</think>\s*", re.S)
_JSON_CALL: Final = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.S)
_MARKUP_CALL: Final = re.compile(r"<tool_call>\s*<function=([^>]+)>(.*?)</function>\s*</tool_call>", re.S)
_PARAMETER: Final = re.compile(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", re.S)


def _ten_lines(text: str) -> dict[str, Any]:
    thought = _THINK.match(text)
    rest = text[thought.end() :] if thought else text
    calls = []
    for found in _JSON_CALL.findall(rest):
        call = json.loads(found)
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        calls.append({"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function})
    content = _JSON_CALL.sub("", rest).strip()
    return _message(thought[1] if thought else None, content or None, calls)


def _ten_lines_of_markup(text: str) -> dict[str, Any]:
    thought = _THINK.match(text)
    rest = text[thought.end() :] if thought else text
    calls = []
    for name, body in _MARKUP_CALL.findall(rest):
        function = {"name": name, "arguments": json.dumps(dict(_PARAMETER.findall(body)))}
        calls.append({"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function})
    content = _MARKUP_CALL.sub("", rest).strip()
    return _message(thought[1] if thought else None, content or None, calls)


def _message(reasoning: str | None, content: str | None, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": calls}


def _read(dialect: str | Dialect, text: str) -> dict[str, Any]:
    return unspool.parse(text, dialect, tools=TOOLS).to_openai()


def _same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    def comparable(message: dict[str, Any]) -> object:
        calls = [call["function"] for call in message["tool_calls"]]
        return calls, message["reasoning_content"], message["content"].strip()

    return comparable(ours) == comparable(theirs)


def answers(effort: Effort) -> Iterator[Row]:
    """1.1 kB of reasoning, text and two calls: our time divided by that of the ten lines."""
    yield from ranked(
        "whole answer, a character beside one of ten lines of JSON",
        [(_beside(d, text), d) for d, text in _each()],
        "× regex",
        median=_MEDIAN,
        worst=_WORST,
    )
    for kind, dialect, text, other in (
        ("json", "hermes", _json_text(), _ten_lines),
        ("markup", "qwen3-coder", _markup_text(), _ten_lines_of_markup),
    ):
        if not _same(_read(dialect, text), other(text)):
            raise AssertionError(f"{dialect}: {_read(dialect, text)!r} is not {other(text)!r}")
        ratios = sorted(_ratio(dialect, text, other) for _ in range(max(9, effort.rounds)))
        yield Row(
            "whole answer, parser included",
            f"{len(text):,} characters, {kind}",
            ratios[len(ratios) // 2],
            "× regex",
            _WANTED[kind],
        )


def streamed(effort: Effort) -> Iterator[Row]:
    """feed() per chunk of those answers, openings and closings of calls and arguments included."""
    found = [(_chunks(dialect, text, effort.rounds), dialect) for dialect, text in _each()]
    name = f"whole answer, {CHUNK} characters a chunk"
    yield from ranked(name, found, "× bare", median=_STREAMED, worst=_STREAMED_WORST, least=least_chunk())


def _chunks(dialect: Dialect, text: str, rounds: int) -> float:
    clock, chunks = Clock(), cut(text, CHUNK)
    for _ in range(rounds * ROUND // len(chunks) + 1):
        clock.add(time_feed(unspool.Parser(dialect, tools=TOOLS).feed, chunks), len(chunks))
    return clock.whole_ratio


def _each() -> Iterator[tuple[Dialect, str]]:
    """The calls in every dialect, with the reasoning and the text where it can write them."""
    calls = [
        {"id": f"call0000{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(_CALLS)
    ]
    whole = {"reasoning_content": _THOUGHT, "content": _CONTENT, "tool_calls": calls}
    for dialect in calling():
        for parts in (whole, {**whole, "reasoning_content": ""}, {"tool_calls": calls}):
            with suppress(ValueError):
                yield dialect, unspool.render({"role": "assistant", **parts}, dialect, tools=TOOLS)
                break


def _beside(dialect: Dialect, text: str) -> float:
    """The cost of a character in a dialect, relative to that in JSON for the ten lines."""
    other = _json_text()
    ratios = sorted(_ratio(dialect, text, _ten_lines, other) for _ in range(5))
    return ratios[2] * len(other) / len(text)


def _ratio(
    dialect: str | Dialect, text: str, other: Callable[[str], dict[str, Any]], their_text: str | None = None
) -> float:
    their_text = text if their_text is None else their_text
    start = seconds()
    for _ in range(_ROUND):
        _read(dialect, text)
    ours = seconds() - start
    start = seconds()
    for _ in range(_ROUND):
        other(their_text)
    return ours / (seconds() - start)
