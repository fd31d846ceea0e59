"""Adjacent values between commas: *12 Elm Street, Springfield, 62704*, *2 burgers and 1 cola*."""

import re
from typing import Any, Final

from .assign import MOST, assign
from .filling import Filling, own_parts, role
from .message import Message, Span
from .prompt import NUMERIC, Parameter
from .spans import FORMS, emails, numbers, value_of
from .words import NUMBERS, PREPOSITIONS, SETS, STARTERS, STOP, stem

_HOUSE: Final = re.compile(r"\d+\w? .*[a-z]|.*[a-z] \d+\w?")
_REGION: Final = re.compile(r"[A-Z]{2,3}")
_NAMED: Final = 9.0
"""For the parameter whose name precedes a value."""
_FORMED: Final = {k: spans for k, spans in FORMS if k in ("email", "date", "time", "repository", "url", "channel")}


def side_by_side(f: Filling) -> None:
    """Give the words between commas to the parts of an object or, after a colon, to all required parameters."""
    m = f.message
    groups: dict[str, list[Parameter]] = {}
    for p in f.left:
        if not p.choices and p.type in ("string", "any", *NUMERIC):
            groups.setdefault(p.name.rpartition(".")[0], []).append(p)
    for name, group in groups.items():
        if name:
            _between_commas(f, group, [s for s in _runs(f) if _on_side(m, group[0], s[0].first)])
    needed = [p for p in groups.get("", ()) if not p.optional]
    colon = next(iter(m.at.get(":", ())), None)
    if colon is not None and len(needed) > 1 and not any(m.has(i, SETS["calls"]) for i in range(colon)):
        behind = [[s for s in run if s.first > colon and not _orders(m, s)] for run in _runs(f)]
        _between_commas(f, groups[""], [run for run in behind if run])


def _between_commas(f: Filling, group: list[Parameter], runs: list[list[Span]]) -> None:
    """Give parameters the values of the run that has one for each required parameter. Values with a form decide."""
    needed = [p for p in group if not p.optional] or group
    if len(needed) < 2:
        return
    address = any(SETS["streets"] & {*own_parts(p)} for p in group)
    for whole in runs:
        house = next((i for i, s in enumerate(whole) if _HOUSE.fullmatch(s.value.lower())), 0)
        run = whole[house:] if address else whole
        begun = any(stem(f.message.words[s.first].low) in map(stem, own_parts(p)) for s in run for p in group)
        labels = [s.first + len(own_parts(p)) for s in run for p in group if address and _begins(f.message, p, s)]
        if begun and not labels:
            continue  # `marked` reads names of parameters
        run = [f.message.span(next((i for i in labels if s.first < i < s.last), s.first), s.last) for s in run]
        pairs = assign(group, run, lambda p, s: _fits(f.message, p, s)) if len(run) >= len(needed) else []
        given = [p for p, _ in pairs]
        if len(pairs) == len(run) and all(p in given for p in needed):
            for p, s in pairs:
                f.message.take(s)
                f.give(p, _number(s.value) if p.type in NUMERIC else s.value)
            return


def _begins(m: Message, p: Parameter, s: Span) -> bool:
    """Whether words begin with a parameter's name, and others follow: *postcode 20095*."""
    own = own_parts(p)
    return s.last - s.first > len(own) and [w.low for w in m.words[s.first : s.first + len(own)]] == own


def _orders(m: Message, s: Span) -> bool:
    """Whether words begin with a verb that asks: *and assign it*."""
    return m.has(s.first + m.has(s.first, ("and",)), SETS["imperatives"])


def _runs(f: Filling) -> list[list[Span]]:
    """Runs of adjacent values between commas. The first value begins after the words that lead to it."""
    m = f.message
    found: list[list[Span]] = []
    first = next((i for i, w in enumerate(m.words) if w.low not in f.tool.asking | STARTERS), 0)
    run: list[Span] = []
    announced = False
    for i in range(len(m) + 1):
        ends = i == len(m) or m.taken[i] or m.words[i].low in (".", "?", "!", ";", ":")
        if not ends and m.words[i].low != ",":
            if not run and not announced and _leads(m, i):
                first = i + 1
            elif run and not announced and m.words[i].low in PREPOSITIONS.keys() | SETS["turned into"] and i > first:
                ends = True
        if not ends and m.words[i].low != ",":
            continue
        if first < i:
            run.append(m.span(first, i))
        if ends:
            found += [run[:MOST]] if len(run) > 1 else []
            run = []
        announced = m.has(i, (":",))
        first = i + 1
    return found


def _leads(m: Message, i: int) -> bool:
    """Whether a word leads to a value: *to*, *at*, *is*."""
    low = m.words[i].low
    return low in PREPOSITIONS or low in SETS["equals"] | SETS["turned into"] | SETS["before own"]


def _on_side(m: Message, p: Parameter, first: int) -> bool:
    """Whether values are on a parameter's side: after *from*, or *to*."""
    side = role(p)
    return side is None or m.has(first - 1, (side,))


def _fits(m: Message, p: Parameter, s: Span) -> float:
    """How well the form of a value fits a parameter."""
    words = {*own_parts(p)}
    kind = p.kinds[0] if p.kinds else ""
    low = s.value.lower()
    alone = Message(s.value)
    number = _number(s.value)
    if p.type in NUMERIC:
        return 3 if number is not None and (p.type == "number" or isinstance(number, int)) else 0
    if kind in _FORMED:
        return 5 if any(True for _ in _FORMED[kind](alone)) else 0
    if any(True for _ in emails(alone)):
        return 0.1
    if [w.low for w in m.words[: s.first]][-len(own_parts(p)) :] == own_parts(p):
        return _NAMED  # *postcode* 20095
    digits = sum(map(str.isdigit, s.value))
    if kind == "phone":
        return 4 if digits > 5 else 0
    if words & SETS["postal"]:
        return 4 if digits > 2 and " " not in s.value.strip() else 1 if digits else 0
    if words & SETS["streets"]:
        return 4 if _HOUSE.fullmatch(low) else 0.2
    if words & {"state", "province"}:
        return 3 if _REGION.fullmatch(s.value) else 0.5
    return 0.2 if number is not None else 1 + (m.large(s.first) and bool(words & {"city", "name", "country", "town"}))


def _number(text: str) -> Any:
    spans = list(numbers(m := Message(text)))
    if len(spans) != 1 or spans[0].first or spans[0].last < len(m):
        return None
    return value_of(spans[0])


# -- objects in a list -------------------------------------------------------------------------------------------------


def rows(f: Filling) -> None:
    """Give a list one object for each part of a message with a number and a name: *2 burgers and 1 cola*."""
    m = f.message
    for p in [p for p in f.left if p.type == "array" and p.inner]:
        whole = [q for q in p.inner if q.type in NUMERIC]
        names = [q for q in p.inner if q.type == "string" and not q.choices and not q.optional]
        if len(whole) != 1 or len(names) != 1:
            continue
        counted = [s for s in numbers(m) if m.free(s)] + [m.span(i, i + 1) for i in _articles(m)]
        counted.sort()
        found: list[dict[str, Any]] = []
        for s in counted:
            end = _item(f, s.last)
            while end > s.last + 1 and m.words[end - 1].low in STOP | SETS["loose ends"]:
                end -= 1
            if end == s.last:
                continue
            first = s.last + (m.has(s.last, ("x", "of")) and end > s.last + 1)
            found.append(
                {names[0].name: m.said(first, end), whole[0].name: 1 if s.value in ("a", "an") else _number(s.value)}
            )
            m.take(m.span(s.first, end))
        if found:
            f.give(p, [{q.name: one[q.name] for q in p.inner if q.name in one} for one in found])


def _articles(m: Message) -> list[int]:
    """The positions at which *a* means one: in a list with another number, or one that *and* joins."""
    return [
        i
        for a in ("a", "an")
        for i in m.at.get(a, ())
        if not m.taken[i]
        and (m.has(i - 1, SETS["joins"]) or any(m.has(j, ("and",)) for j in range(i, min(i + 5, len(m)))))
    ]


def _item(f: Filling, i: int) -> int:
    """The end of a thing's name."""
    m = f.message
    first = i
    while i < len(m) and not m.taken[i] and (m.words[i].low[0].isalpha()) and not m.has(i, SETS["joins"]):
        if i > first and (m.words[i].low in PREPOSITIONS or m.words[i].low in NUMBERS) and not m.has(i, ("of", "with")):
            break
        i += 1
    return i
