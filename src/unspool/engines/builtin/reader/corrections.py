"""Corrections within a message: *a table for 4, no wait, make it 6*."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from .message import Message, Span
from .prompt import Parameter, Tool
from .spans import codes, colors, dates, emails, languages, numbers, paths, phones, times, urls
from .words import STARTERS, STOP

_CUE: Final = re.compile(
    r"""(?ix)
    \s*(?: [,.;!?\u2013\u2014(-]+ | \b(?=no,?\ wait|wait,?\ no|scratch\ that|or\ rather|make\ that|i\ mean) )\s*
    (?:(?:oh|ah|uh|um|hm+|er+|argh|well|but|or|sorry|pardon|please)\b[\s,.!]*)*
    (?:no|nope|wait|hold\ on|hang\ on|scratch\ that|strike\ that|correction|oops|whoops|sorry|actually|my\ bad
      |my\ mistake|i\ mean|i\ meant|or\ rather|rather|make\ (?:that|it)|on\ second\ thought|better)
    \b[\s,.:!\u2013\u2014-]*
    (?:(?:no|wait|sorry|actually|please|let's|lets|rather|better)\b[\s,.!]*)*
    (?:(?:i\ mean|i\ meant|make\ (?:that|it|them)|make|say|it'?s|it\ is|that'?s|(?:that|it)\ should\ be|should\ be
      |change\ (?:that|it)\ to|use|do|go\ (?:for|with))\b[\s,:]*)?
    """
)
"""The beginning of a correction."""
_TAIL: Final = 8
"""The most words of a correction that does not begin with its value."""
_MOST: Final = 4
"""The most positions at which the beginning of a correction is tried."""
_Spans = Callable[[Message], Iterable[Span]]


def _names(m: Message) -> Iterator[Span]:
    """Sequences of capitalized words."""
    i = 0
    while i < len(m):
        last = i
        while m.large(last) and m.words[last].low[0].isalpha() and m.words[last].low not in STOP | STARTERS:
            last += 1
        if last > i:
            yield m.span(i, last)
        i = last + 1


_KINDS: Final[tuple[_Spans, ...]] = (
    emails,
    urls,
    phones,
    dates,
    times,
    numbers,
    languages,
    colors,
    paths,
    codes,
    _names,
)
"""The kinds of values that can be corrected, the clearest first."""


def corrected(tools: tuple[Tool, ...], text: str) -> str:
    """A message after its own corrections; the same message if there are none."""
    for cue in itertools.islice(_CUE.finditer(text), _MOST):
        head, tail = text[: cue.start()], text[cue.end() :]
        quoted = head.count('"') % 2 or not tail.strip()
        if head.strip() and not quoted and (new := _replaced(tools, head, tail)):
            return new
    return text


def _replaced(tools: tuple[Tool, ...], head: str, tail: str) -> str:
    """The first part of a message with values from the second part; empty if none is corrected."""
    before, after = Message(head), Message(tail)
    chosen = [_chosen(p) for t in tools for p in t.parameters if p.choices]
    for kind in (*chosen, _ended(tail), *_KINDS):
        new = next(iter(kind(after)), None)
        old = [s for s in kind(before) if s.last > s.first]
        if new is None or not old or (new.first > 0 and len(after) > _TAIL):
            continue
        same = max(old, key=lambda s: (_alike(before, s, after, new), s.first))
        if before.said(same.first, same.last).lower() == after.said(new.first, new.last).lower():
            continue
        start, end = before.words[same.first].start, before.words[same.last - 1].end
        rest = tail[after.words[new.last - 1].end :]
        return f"{head[:start]}{after.said(new.first, new.last)}{head[end:]}{_more(rest, head[end:])}"
    return ""


def _more(rest: str, behind: str) -> str:
    """The rest of a correction, without words that are there already or mean nothing."""
    words = [w for w in re.findall(r"[\w']+", rest.lower()) if w not in STOP | {"instead", "please"}]
    return "" if {*words} <= {*re.findall(r"[\w']+", behind.lower())} else rest


def _alike(a: Message, s: Span, b: Message, t: Span) -> int:
    """How alike the words around two values are: *for 4 people*, *5 people*."""
    behind = s.last < len(a) and b.has(t.last, (a.words[s.last].low,))
    ahead = s.first > 0 and b.has(t.first - 1, (a.words[s.first - 1].low,))
    return behind + ahead


def _chosen(p: Parameter) -> _Spans:
    """The choices of a parameter."""
    words = [c.lower().replace("_", " ") for c in p.choices if isinstance(c, str)]

    def spans(m: Message) -> Iterator[Span]:
        yield from sorted(s for w in words for s in m.phrases.get(w, ()))

    return spans


def _ended(tail: str) -> _Spans:
    """Words that end as a correction does: *oat milk, sorry, soy milk*."""
    words = [w for w in re.findall(r"[\w']+", tail.lower()) if w not in STOP]

    def spans(m: Message) -> Iterator[Span]:
        if len(words) == 2:
            yield from (m.span(i - 1, i + 1) for i in m.at.get(words[1], ()) if i and m.words[i - 1].low not in STOP)

    return spans
