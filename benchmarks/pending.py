"""How much text a parser holds: endless text of hostile kinds, begun anywhere in a dialect's examples.

Events tile the output, so the text fed after the end of the last event is held.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from unspool import Dialect, Parser, Policy, Stage, list_dialects
from unspool.dialect.examples import example_tools

from .effort import Effort
from .samples import cut
from .table import Row

_CAP: Final = 65_536
_LENGTH: Final = 80_000
_CHUNK: Final = 2_000
_LOOK: Final = 4 * _CHUNK
"""The number of characters after which feeding ends if nothing is held."""

_ENDLESS: Final = (" ", "\n", "a", "1", "<", "</", '"', "\\", "[", "{", "x y\n", '{"a":', "<|", "é, ")
"""The texts that are repeated endlessly."""

_POLICIES: Final = {
    "library policy": Policy(),
    "policy drop": Policy(bad_arguments="drop", unknown_tool="drop", unclosed_reasoning="content"),
    "policy text": Policy(bad_arguments="text", unknown_tool="text", text_before_tools="content", bare_calls=True),
}


class _Case(NamedTuple):
    """The beginning of endless text: it follows ``text``, a possible output so far."""

    dialect: Dialect
    text: str
    stage: Stage | None


def pending(effort: Effort) -> Iterator[Row]:
    """The largest held text in every dialect."""
    cases = [case for dialect in list_dialects() for case in _cases(dialect, effort.cuts)]
    for name, policy in _POLICIES.items():
        most, case, unit = max(
            ((_waiting(case, unit, policy), case, unit) for case, unit in product(cases, _ENDLESS)),
            key=lambda found: found[0],
        )
        where = f"{name}: {case.dialect.name}, {case.text[-12:]!r} then endless {unit!r}"
        yield Row("pending text", where, most, "characters", _CAP)


def _cases(dialect: Dialect, count: int) -> list[_Case]:
    """Beginnings of the dialect's examples, evenly spread."""
    every = [
        _Case(dialect, raw[:end], example.stage)
        for example in dialect.examples
        for raw in example.raw
        for end in range(len(raw) + 1)
    ]
    step = -(-len(every) // count)
    return every[step // 2 :: step]


def _waiting(case: _Case, unit: str, policy: Policy) -> int:
    """The most characters that were held after any chunk."""
    parser = Parser(case.dialect, tools=example_tools(case.dialect), stage=case.stage, policy=policy)
    fed = emitted = most = 0
    for chunk in (case.text, *cut(unit * (_LENGTH // len(unit)), _CHUNK)):
        events = parser.feed(chunk)
        fed += len(chunk)
        if events:
            emitted = events[-1].end
        most = max(most, fed - emitted)
        if fed > len(case.text) + _LOOK and most < _CHUNK:
            break
    return most
