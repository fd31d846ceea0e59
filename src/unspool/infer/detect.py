"""Finds the dialects that a model may use, by its name, its chat template, or its outputs."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, TypeGuard

import msgspec

from ..dialect.file import Dialect, literal
from ..dialect.patterns import worded
from ..dialect.registry import list_dialects, model_key
from ..dialect.template import Template, pieces
from ..errors import DialectError
from ..events import Stage
from ..message import Message
from ..parser import parse
from ..policy import Policy
from ..validation import check, described, wrong_type

_NAME_WEIGHT = 0.5
"""The weight of a name, relative to a chat template: the template is what is written, a name is arbitrary."""
_WORD = re.compile(r"\*[a-z]+\*")
"""A glob of a single word, such as ``*thinking*``: in a dialect without calls it tells a habit, not a family."""
_WORD_WORTH = 0.1  # what a match by such a word is worth; one by a family's name is worth up to 1
_MISSING = 0.5  # the cost of a marker that the template lacks; one that it contains counts 1
_READ = 0.7  # the weight of a marker that is read, but not written
_EXACT = 0.2  # the highest weight of text between fields that occurs verbatim
_NOISE = 0.05  # the share of the best score by template below which a dialect is no candidate
_MARKER = re.compile(  # also a tag with the word directly after it, which ends its line
    r'>>+\w+|<[^<>|｜\s{}]+>[a-z]+(?=\n)|<[^<>\s{}]*(?:>| \w+)?|\[[^\[\]\s<>{}]*\]|"[^"\s{}]+"|[^\s<>{}"\']+'
)
_CLOSE = 0.4  # the highest weight of an output that a dialect would have written almost so
_REPAIR = Policy(bad_arguments="repair")
_PLAIN = re.compile(r"[\w.,:;'!?-]*")


class Candidate(msgspec.Struct, frozen=True):
    """A dialect that a model may use.

    Attributes:
        dialect: its name.
        score: how well it fits; greater than zero, and comparable only within one result.
        reason: the evidence for it.
    """

    dialect: str
    score: float
    reason: str


def detect_dialect(
    model: str | None = None,
    chat_template: str | None = None,
    *,
    output: str | Sequence[str] | None = None,
    awaited: Callable[[], None] | None = None,
) -> list[Candidate]:
    """Return the dialects that a model may use, the likeliest first.

    Dialects with only reasoning come last.

    Args:
        model: the model's name; case and organization (``unsloth/…``) do not matter.
        chat_template: the text of its chat template.
        output: one or several raw outputs. Calls and reasoning in them decide; plain text does not.
        awaited: called before each reading of an output, since all may take seconds; an error that it raises ends them.

    Raises:
        ValueError: no argument is given.
        TypeError: an argument is not a string.
    """
    check("model", model, (str, type(None)), "a model's name or None")
    check("chat_template", chat_template, (str, type(None)), "the text of a chat template or None")
    check("output", output, (str, Sequence, type(None)), "a string or a list of strings, or None")
    if awaited is not None and not callable(awaited):
        raise wrong_type("awaited", awaited, "a callable () -> None, or None")
    if model is None and chat_template is None and output is None:
        raise ValueError("detect_dialect: needs model=, chat_template= or output=")
    dialects = list_dialects()
    by_name = _by_name(dialects, model) if model is not None else {}
    by_template = _relative(_by_template(dialects, chat_template)) if chat_template is not None else {}
    by_template = {d: evidence for d, evidence in by_template.items() if evidence[0] > _NOISE}
    by_output = _relative(_by_output(dialects, output, awaited)) if output is not None else {}
    found: list[tuple[bool, int, Candidate]] = []
    for d in dialects:
        evidence = [by[d.name] for by in (by_name, by_template, by_output) if d.name in by]
        if evidence and (not by_output or d.name in by_output):
            score = round(sum(score for score, _ in evidence), 4)
            reason = "; ".join(why for _, why in evidence)
            found.append((not d.call, -len(d.models), Candidate(d.name, score, reason)))
    # Among equals, the format of more models comes first; files without models (variants of a format) come last.
    return [f[-1] for f in sorted(found, key=lambda f: (f[0], -f[2].score, f[1]))]


def _relative(found: dict[str, tuple[float, str]]) -> dict[str, tuple[float, str]]:
    """Scores as parts of the best one."""
    best = max((score for score, _ in found.values()), default=1.0)
    return {name: (score / best, why) for name, (score, why) in found.items()}


# --- by name ----------------------------------------------------------------------------------------------------------


def _by_name(dialects: list[Dialect], model: str) -> dict[str, tuple[float, str]]:
    """Rank dialects by how literally their globs match a name, from 0 to `_NAME_WEIGHT`."""
    name = model_key(model)
    found = {}
    best = max((d.matches(name) for d in dialects if d.call), default=0)
    for d in dialects:
        if glob := d.matching(name):
            score = 1 + literal(glob)
            if not d.call and _WORD.fullmatch(glob):
                found[d.name] = _WORD_WORTH * _NAME_WEIGHT, f"the name contains no family, only {glob.strip('*')!r}"
            else:
                found[d.name] = score / max(best, score) * _NAME_WEIGHT, f"the name fits {glob}"
    return found


# --- by template ------------------------------------------------------------------------------------------------------


def _by_template(dialects: list[Dialect], template: str) -> dict[str, tuple[float, str]]:
    """Rank dialects by how many of their markers a chat template contains; rare markers count more."""
    text = _spelled_out(template)
    marks = {d.name: d.derived("detect", _marks) for d in dialects}
    shared = Counter(m for found in marks.values() for m in _every((*found.turns, *found.parts)))
    weight = {m: math.log(1 + len(dialects) / n) for m, n in shared.items()}
    present = {m for m in weight if m in text}
    scored = {}
    for d in dialects:
        score, seen, expected = _compare(marks[d.name], present, weight)
        if score > 0:
            exact = sum(literal in text for literal in marks[d.name].exact)
            score *= 1 + _EXACT * exact / max(1, len(marks[d.name].exact))
            rarest = max(seen, key=lambda m: weight[m])
            scored[d.name] = score, f"{len(seen)} of {expected} markers occur in the template, such as {rarest}"
    return scored


def _compare(marks: "_Marks", present: set[str], weight: dict[str, float]) -> tuple[float, list[str], int]:
    """A dialect's score, the markers that were found, and how many were expected."""

    def worth(alternative: tuple[str, ...]) -> float:
        return sum(weight[m] if m in present else -_MISSING * weight[m] for m in alternative)

    score = 0.0
    seen: list[str] = []
    expected = 0
    for group in marks.parts:
        # The written forms come first; the others are only read.
        values = [worth(a) * (1 if i == 0 else _READ) for i, a in enumerate(group)]
        chosen = group[values.index(max(values))]
        score += max(values)
        seen += [m for m in chosen if m in present]
        expected += len(chosen)
    if not seen:
        return 0.0, [], 0
    for group in marks.turns:
        # Other code may write the beginning and end of turns, so a template may lack them.
        score += max((max(worth(a), 0.0) for a in group), default=0.0)
    return score, seen, expected


_Group = tuple[tuple[str, ...], ...]


class _Marks(msgspec.Struct, frozen=True):
    """A dialect's markers: groups of alternatives, each of them markers that occur together."""

    turns: tuple[_Group, ...]
    parts: tuple[_Group, ...]
    exact: tuple[str, ...]  # the text between fields, if that is more than one marker


def _every(groups: Iterable[_Group]) -> set[str]:
    return {marker for group in groups for alternative in group for marker in alternative}


def _marks(d: Dialect) -> _Marks:
    groups = [
        [t for t in g if t.spelled is None] for g in (d.reasoning, d.content, d.calls, d.call, d.argument, d.item)
    ]
    turns = tuple(tuple(_split([text]) for text in texts) for texts in (d.start, d.end))
    # A part that is a turn of its own repeats the markers of turns, which many dialects share.
    shared = _every(turns)
    parts = [tuple(tuple(m for m in _split(_literals(t)) if m not in shared) for t in group) for group in groups]
    exact = [text for group in groups for t in group[:1] for text in pieces(t.text) if _is_exact(text)]
    return _Marks(turns, tuple(group for group in parts if any(group)), tuple(exact))


def _is_exact(text: object) -> TypeGuard[str]:
    """Whether a part of a template is text of more than one marker."""
    if not isinstance(text, str) or not _split([text]):
        return False
    return len(_MARKER.findall(text)) > 1 or any(map(str.isspace, text))


def _literals(t: Template) -> list[str]:
    keys = [f'"{key}"' for key, _ in t.object.keys] if t.object is not None else []
    return [p for p in (*t.before, *t.after) if isinstance(p, str)] + keys


def _split(texts: Iterable[str]) -> tuple[str, ...]:
    """Split a text into markers; words without any markup are none."""
    found = [m for text in texts for m in _MARKER.findall(text)]
    return tuple(dict.fromkeys(m for m in found if worded(m) and not _PLAIN.fullmatch(m)))


_SET = re.compile(r"""\{%-?\s*set\s+(\w+)\s*=\s*(['"])((?:(?!\2)[^\\\n]){1,80})\2(?:\.format\((\w+)\))?\s*-?%\}""")
_JOINT = re.compile(r"""(['"])\s*[+~]\s*\1""")


def _spelled_out(template: str) -> str:
    """The template with constants substituted and concatenated strings joined."""
    names: dict[str, str] = {}
    for name, _, value, argument in _SET.findall(template):
        names[name] = value.replace("{}", names.get(argument, "")) if argument else value
    if names:
        used = re.compile(rf"\b(?:{'|'.join(names)})\b")
        template = used.sub(lambda m: f"'{names[m.group()]}'", template)
    return _JOINT.sub("", template).replace("\\n", "\n")


# --- by output --------------------------------------------------------------------------------------------------------

OUTPUTS = 50  # the largest number of outputs that are read
LONGEST = 200_000  # the largest number of characters of an output that are read
MARKERS = re.compile(r"<\|?/?[A-Za-z][\w/.:|=\u2581\uff5c-]{0,60}\|?>|<[|\uff5c][^<>\n]{1,60}>|\[/?[A-Z][A-Z_]{2,40}\]")
"""A text that looks like a marker."""
_NAMES = re.compile(r"""["']name["']\s*:\s*["']([^"'\\\n]{1,64})["']|(?:^|[\[,;]\s*)([A-Za-z_][\w.]{0,63})\(""", re.M)
"""A text that looks like a tool's name: calls without markers count only for declared names."""


def _by_output(
    dialects: list[Dialect], output: str | Sequence[str], awaited: Callable[[], None] | None
) -> dict[str, tuple[float, str]]:
    """Rank dialects by how well they read what a model wrote."""
    outputs = [output] if isinstance(output, str) else list(output)
    for text in outputs:
        if not isinstance(text, str):
            raise TypeError(f"output: must be a string or a list of strings, not {described(text)}")
    outputs = [text[:LONGEST] for text in outputs[:OUTPUTS]]
    found = {}
    for d in dialects:
        score, thoughts, same = 0.0, 0, 0
        calls: Counter[str] = Counter()
        for text in outputs:
            if awaited is not None:
                awaited()
            value, message, written = read_output(d, text)
            score += value
            calls.update(c.status for c in message.tool_calls if value > 0)
            thoughts += bool(message.reasoning) and value > 0
            same += written
        if score > 0 and calls.total() + thoughts:
            reason = f"reads {_calls(calls)} and {_count(thoughts, 'thought')} of {_count(len(outputs), 'output')}"
            found[d.name] = score, reason + (f", and renders {same} unchanged" if same else "")
    return found or _by_markers(dialects, "\n".join(outputs))


def _by_markers(dialects: list[Dialect], text: str) -> dict[str, tuple[float, str]]:
    """Rank dialects that read no call and no thought by their markers in what a model wrote."""
    marks = {d.name: {m for m in _every(d.derived("detect", _marks).parts) if MARKERS.search(m)} for d in dialects}
    seen = {name: [m for m in sorted(found) if m in text] for name, found in marks.items()}
    return {
        name: (len(found) ** 2 / len(marks[name]), f"reads no call, but {found[0]} is one of its markers")
        for name, found in seen.items()
        if found
    }


def _calls(calls: Counter[str]) -> str:
    """Calls by status, in words."""
    broken = calls["invalid"] + calls["incomplete"]
    parts = [f"{n} {word}" for n, word in ((calls["repaired"], "repaired"), (broken, "broken")) if n]
    return _count(calls.total(), "call") + (f" ({', '.join(parts)})" if parts else "")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def read_output(d: Dialect, text: str) -> tuple[float, Message, bool]:
    """How well a dialect reads an output, what it reads, and whether it renders it unchanged."""
    # The prompt may have opened or closed the reasoning.
    other = Stage.CONTENT if d.stage is Stage.REASONING else Stage.REASONING
    stages = [None, other] if d.reasoning else [None]
    return max((_read(d, text, stage) for stage in stages), key=lambda reading: reading[0])


_WORTH = {"ok": 2.0, "repaired": 1.5, "incomplete": 1.0, "invalid": 0.5}
"""What a call that is read says for a dialect, by its status."""


def _read(d: Dialect, text: str, stage: Stage | None) -> tuple[float, Message, bool]:
    names = {a or b for a, b in _NAMES.findall(text)}
    tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in sorted(names)]
    # What people ask about is often broken: a call whose arguments can be repaired shows the dialect as well.
    message = parse(text, d, tools=tools or None, stage=stage, policy=_REPAIR)
    left = len(MARKERS.findall(message.content)) + len(MARKERS.findall(message.reasoning))
    taken = len(MARKERS.findall(text)) - left
    # Without a marker, what looks like the beginning of a call may be anything.
    calls = [c for c in message.tool_calls if c.name and (taken > 0 or c.status in ("ok", "repaired"))]
    # That a call which the end cuts is not closed says nothing.
    known = {"repaired", "missing_close"} if any(c.status == "incomplete" for c in calls) else {"repaired"}
    doubts = sum(n.kind not in known for n in message.notices) + 2 * (len(message.tool_calls) - len(calls))
    thought = bool(message.reasoning) and _thought_closes(d, text, message)
    score = sum(_WORTH[c.status] for c in calls) + thought + 0.25 * taken - 0.5 * left - 0.5 * doubts
    if score <= 0 or not (calls or thought):
        return 0.0, message, False
    return _compared(d, text, stage, tools, message, score)


def _thought_closes(d: Dialect, text: str, message: Message) -> bool:
    """Whether a thought is closed. One that is not, or that a call interrupted, is read from a stage alone."""
    unclosed = any(n.kind == "unclosed_reasoning" or n.detail == "reasoning" for n in message.notices)
    return not unclosed and any(t.closing.strip().lower() in text.lower() for t in d.reasoning)


def _compared(
    d: Dialect, text: str, stage: Stage | None, tools: list[Any], message: Message, score: float
) -> tuple[float, Message, bool]:
    """A reading whose score grows by how much of the text the dialect itself would have written so."""
    from ..renderer import render  # not needed for other ways

    try:
        written = render(message, d, tools=tools or None, stage=stage)
    except DialectError:
        exact = d.derived("detect", _marks).exact
        same = sum(len(literal.strip()) for literal in exact if literal.strip() in text)
        return score + _EXACT * min(1.0, same / max(1, len(text))), message, False
    rest = text.removeprefix(written)
    if rest != text and (not rest.strip() or rest.strip() in d.end):
        return score + 1, message, True
    if stage is not None:
        return score, message, False  # a guess about the prompt gains nothing
    text, written = text.strip(), written.strip()
    head = _alike(text, written)
    tail = min(_alike(reversed(text), reversed(written)), min(len(text), len(written)) - head)
    # In steps, so that white space at a single place decides nothing.
    return score + _CLOSE * round((head + tail) / max(len(text), len(written), 1), 1), message, False


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """How many characters are the same from the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
