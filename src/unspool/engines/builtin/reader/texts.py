"""Texts: in the usual phrasings of requests, after their cues, or from the words that are left."""

import itertools
import re
from typing import Final

from .division import does, tells_how
from .filling import Filling, keeps, named, own_parts, role
from .message import Message, Span, items
from .places import joined, pair, place
from .prompt import Parameter
from .spans import numbers, quotes
from .words import (
    CONCEPTS,
    CUES,
    CUISINES,
    DAYS,
    FRAMES,
    KINDS,
    LABELS,
    LEAD,
    PREPOSITIONS,
    RELATIVE,
    SETS,
    STARTERS,
    STOP,
    TAIL,
    derived,
    parts_of,
    plain,
    stem,
)

_DRAWN: Final = re.compile(r"[\s\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]+$")
"""Emoji after a request."""
_ENDS: Final = frozenset((".", "?", "!", ";", "\n"))
_LONG: Final = ("body", "query", "subject")
_FITS: Final = {
    "who": ("email", "people", "channel", "phone"),
    "by": ("author", "query"),
    "title": ("subject",),
    "items": ("items", "query"),
}
"""The kinds of a frame's group that is not named after a kind."""
_SORTS: Final = dict.fromkeys(SETS["cuisine names"], CUISINES) | {"genre": SETS["genres"]}
_FORMED: Final = ("month", "date", "time", "email", "url", "unit", "currency", "expression", "people")


# -- frames ------------------------------------------------------------------------------------------------------------


def framed(f: Filling) -> None:
    """Read texts in the usual phrasings of requests: *remind me to ...*, *translate ... into French*."""
    text = f.message.text
    starts, end = _core(text, _asked_from(f))
    for concept in sorted((*f.tool.concepts[0], *f.tool.concepts[1]), key=lambda c: c == "search"):
        for frame in FRAMES.get(concept, ()):
            found = next((g for start in starts if (g := frame.fullmatch(text, start, end))), None)
            if found is None or (found.groupdict().get("who") or "").lower() in SETS["determiners"]:
                continue
            left = len(f.left)
            for kind, value in found.groupdict().items():
                if value and value.strip():
                    _group(f, kind, f.message.covering(found.start(kind), found.end(kind), value))
            if "title" not in found.groupdict() or len(f.left) < left:
                return


def _asked_from(f: Filling) -> int:
    """Where a request begins: after the remarks before it, and the marks that end them."""
    m = f.message
    first = 0
    for s in f.told:
        if s.first == first:
            first = next((i for i in range(s.last, len(m)) if m.words[i].low[0].isalnum()), len(m))
    return m.words[first].start if first < len(m) else 0


def _core(text: str, begin: int) -> tuple[list[int], int]:
    """Where a request may begin, the last position first, and where it ends, without *could you* and *please*."""
    starts = [begin]
    while found := LEAD.match(text, starts[-1]):
        starts.append(found.end())
    end = len(_DRAWN.sub("", text).rstrip(" \n\t.?!"))
    while found := TAIL.search(text[:end]):
        end = len(text[: found.start()].rstrip(" \n\t.?!"))
    return starts[::-1], end


def _group(f: Filling, kind: str, span: Span) -> None:
    """Give the words of a frame's group to their parameter."""
    m = f.message
    p = _for(f, kind)
    first, last = span.first, span.last
    called = next((i for i in range(first + 1, last - 1) if m.has(i, SETS["calls"])), None)
    nouns = [i for i in range(first, called or first) if not m.taken[i] and not m.has(i, SETS["determiners"])]
    thing = called is not None and (_names(f, first, called) or (len(nouns) < 2 and m.large(called + 1)))
    if kind in ("subject", "title") and called is not None and thing and not m.taken[called + 1]:
        first = called + 1  # *a meeting called Budget review*
    while first < last and (m.taken[first] or (first > span.first and m.has(first, SETS["before a rest"]))):
        first += 1
    end = next((i for i in range(first, last) if m.taken[i]), last)
    if kind == "body" and any(m.words[i].low in SETS["opens a text"] for i in range(end, last)):
        return  # it follows words that are taken: *tell the team in #general that ...*
    if kind == "body" and end - first > 2 and m.has(first, SETS["opens a text"]):
        first += 1
    if kind == "query" and any(q.kinds[:1] == ("place",) and not q.optional for q in f.texts() if q is not p):
        cut = next((i for i in range(end - 2, first, -1) if m.has(i, SETS["before a place"])), end)
        first += cut < end and m.has(first, SETS["articles"]) and first + 1 < cut
        end = cut  # a dermatologist *in Seattle*
    bound = end
    alone = m.has(first, SETS["pronouns"])
    end = m.trimmed(first + alone, end, SETS["loose ends"] if end < len(m) else SETS["marks"])
    leads = [w for q in f.tool.parameters if q is not p for w in own_parts(q)]
    while first < end < bound < len(m) and any(derived(m.words[end - 1].low, w) for w in leads):
        end = m.trimmed(first, end - 1, SETS["loose ends"])  # *..., assign it to* Rosa
    if p is None or first >= end or (m.has(first, SETS["persons"]) and named(p, SETS["somebody"])):
        return
    led = SETS["before a quoted query"] if kind == "query" else frozenset()
    whole = next((s for s in quotes(m) if s.first == first or m.has(s.first - 1, led)), None)
    whole = whole if whole is not None and first <= whole.first and whole.last <= last else None
    if whole is not None and p.type != "array":
        f.give_span(p, whole)
        return
    begun, first = first, _unlabelled(f, first, end)
    while p.type == "array" and first + 1 < end and m.words[first].low in SETS["function"] | f.tool.asking | STARTERS:
        first += 1  # *what can I cook with* rice
    value = _unquoted(m.said(first, end))
    idle = f.tool.nouns | f.tool.described | SETS["mere things"] if p.optional else f.tool.nouns
    if kind == "query" and p.kinds[:1] not in (("query",), ("body",), ("subject",)) and m.has(first, SETS["inverting"]):
        return  # *is Lucy online* is no name
    same = kind in ("body", "query") and {stem(w.low) for w in m.words[first:end]} <= idle
    if same or nothing(f, m.span(first, end)):
        return
    several = items(m, first, end)
    if not value:
        return
    named_so = first > begun and _plural(m, first - 1) and all(m.large(s.first) for s in several)
    if p.type == "array" or ((kind == "items" or named_so) and len(several) > 1 and _short(several)):
        f.give_all(p, several)
    else:
        f.give_span(p, Span(first, end, value))


def _unlabelled(f: Filling, first: int, last: int) -> int:
    """The beginning of a name without what it is called before it: *customer John Wick*, *the companies* Helvex and
    Brix; not *Radio Nova*."""
    m = f.message
    begin = first + m.has(first, SETS["determiners"])
    while begin + 1 < last and m.large(begin + 1) and stem(m.words[begin].low) in f.tool.nouns - STOP:
        if begin and m.large(begin):
            break
        begin = first = begin + 1
    return first


def _plural(m: Message, i: int) -> bool:
    """Whether a word is a plural, as *companies* is, and lists several things."""
    return stem(m.words[i].low) != m.words[i].low and m.words[i].low.endswith("s")


def _unquoted(text: str) -> str:
    """A text without the quotes around it, or a single unpaired one. *WHERE state = 'open'* keeps its quotes."""
    text = text.strip(" ")
    for mark in ("'", '"', "`"):
        if text.count(mark) < 3:
            text = text.strip(mark) if text[:1] == mark or text.count(mark) == 1 else text
    return text.strip("“” ").removesuffix("'s").removesuffix("’s")


def nothing(f: Filling, span: Span) -> bool:
    """Whether words are only a placeholder for a value: *someone*, *an email*."""
    low = [w.low for w in f.message.words[span.first : span.last]]
    noun = low[0] in ("a", "an") and {stem(w) for w in low[1:]} <= f.tool.name_words
    return len(low) < 4 and ({*low} <= SETS["anyone"] or noun)


def _names(f: Filling, first: int, last: int) -> bool:
    """Whether words name the thing that the tool makes."""
    words = {stem(w.low) for w in f.message.words[first:last]} - STOP
    return words <= f.tool.nouns | f.tool.described | {stem(w) for w in f.tool.asking}


def _short(spans: list[Span]) -> bool:
    return all(s.last - s.first < 4 for s in spans)


def _for(f: Filling, kind: str) -> Parameter | None:
    texts = f.texts()
    own = [p for p in texts if set(p.kinds[:1]) & {*_FITS.get(kind, (kind,))}]
    if not own and kind == "who":
        own = [p for p in texts if named(p, SETS["person"])]
    elif not own and kind not in ("author", "by", "title"):
        own = [p for p in texts if not p.optional and (not p.kinds or p.kinds[0] in (*_LONG, "items"))]
    return own[0] if own else None


# -- sorts -------------------------------------------------------------------------------------------------------------


def _end(m: Message, i: int, stops: frozenset[str]) -> int:
    """The end of a text that begins at ``i``: before a mark, a day, or a word that begins something else."""
    while i < len(m) and not m.taken[i]:
        low = m.words[i].low
        stopped = low in stops and (low != "," or not joined(m, i))
        if low in _ENDS or stopped or low in RELATIVE or low in DAYS:
            break
        i += 1
    return i


def sorts(f: Filling) -> None:
    """Give cuisines and genres the words that are known as such."""
    m = f.message
    for p in f.texts():
        name = next((w for w in own_parts(p) if w in SETS["cuisine names"] | {"genre"}), "")
        known = _SORTS.get(name, frozenset()) if p.kinds[:1] == ("sort",) else frozenset()
        found = next((i for i, w in enumerate(m.words) if {w.low, stem(w.low)} & known and not m.taken[i]), None)
        if found is not None:
            f.give_span(p, m.span(found, found + 1))


def sort(f: Filling, p: Parameter) -> None:
    """Read the word before the tool's subject: *thai* restaurants."""
    m = f.message
    nouns = {n for some in f.tool.concepts for c in some for n in CONCEPTS[c][0]} | set(parts_of(f.tool.name))
    for i in range(1, len(m)):
        before, w = m.words[i - 1].low, m.words[i].low
        says = before[0].isalpha() and before not in STOP | SETS["no sort"] | nouns
        if says and not m.taken[i - 1] and (w in nouns or stem(w) in nouns):
            f.give_span(p, m.span(i - 1, i))
            return


# -- texts -------------------------------------------------------------------------------------------------------------


def labelled(f: Filling) -> None:
    """Read texts after unambiguous words, such as *titled*."""
    if not LABELS.isdisjoint(f.message.at) or any(f" {label} " in f.message.low for label in LABELS):
        for p in f.texts():
            _cued(f, p, LABELS)


def announced(f: Filling) -> None:
    """Give the required text the words after a colon: *create a poll: ...*, *DM Ben: are you there?*"""
    m = f.message
    wanted = [p for p in f.left if p.kinds[:1] and p.kinds[0] in _LONG and not p.optional and p.type == "string"]
    inside = {i for s in quotes(m) for i in range(s.first, s.last)}
    colon = next((i for i in m.at.get(":", ()) if i not in inside), None)
    if colon and not any(m.has(colon - 1, own_parts(p)) for p in wanted):
        wanted = [p for p in wanted if p.kinds[0] == "body"] or wanted
    if len(wanted) != 1 or not colon or colon + 2 > len(m) or m.taken[colon] or m.text[m.words[colon].end] != " ":
        return
    several = items(m, colon + 1, _end(m, colon + 1, frozenset()))
    counts = [s for s in numbers(m) if s.last < colon and m.free(s) and s.value == str(len(several))]
    if len(several) > 1 and counts and wanted[0].kinds[0] != "body":
        f.give_all(wanted[0], several)
        m.take(m.span(counts[0].first, colon))  # *two things*: ... and ...
        return
    idle = f.tool.asking | STOP | SETS["verbs"] | SETS["imperatives"] | SETS["words for a text"] | {"self", "myself"}
    idle |= {*plain(wanted[0].description).split(), "following"}
    free = [i for i in range(colon) if not m.taken[i] and m.words[i].low[0].isalnum() and m.words[i].low not in idle]
    about = f.tool.described if m.has(colon - 2, ("the",)) else frozenset()
    free = [i for i in free if i < colon - 1 or stem(m.words[i].low) not in about]  # page the *team*: ...
    others = [q for q in f.texts() if q is not wanted[0] and not q.optional]
    others = [q for q in others if free or not m.has(colon - 1, own_parts(q))]
    if ([q.type for q in others] != ["string"]) if free else any(q.type != "array" for q in others):
        return
    body = wanted[0].kinds[0] == "body"
    end = len(m) - (m.has(len(m) - 1, (".",))) if body else _end(m, colon + 1, frozenset())
    others = [q for q in f.texts() if q is not wanted[0]]
    leads = (i for i in range(colon + 2, end - 1) if not body and m.large(i + 1) and m.words[i].low in PREPOSITIONS)
    belongs = (i for i in leads if any(not PREPOSITIONS[m.words[i].low].isdisjoint(own_parts(q)) for q in others))
    end = next(belongs, end)  # Ana Diaz *from Acme*
    orders = (i for i in range(colon + 2, end) if m.has(i, ("and",)) and m.has(i + 1, SETS["imperatives"]))
    end = m.trimmed(colon + 2, next((i for i in orders if m.has(i + 2, SETS["referring"])), end), (",",))
    if end > colon + 1:
        whole = next((s for s in quotes(m) if s.first == colon + 1), None)
        f.give_span(wanted[0], whole or m.span(colon + 1, end))
        m.taken[colon] = True


def quoted(f: Filling) -> None:
    """Read quoted words, if a single text has no value yet."""
    wanted = [p for p in f.texts() if p.kinds[:1] and p.kinds[0] in _LONG]
    found = [s for s in quotes(f.message) if f.message.free(s)]
    if len(found) == 1 and len(wanted) == 1:
        f.give_span(wanted[0], found[0])


def listed(f: Filling) -> None:
    """Give the only required text the contents of several quotes: *add 'buy milk' and 'call Ann'*."""
    found = [s for s in quotes(f.message) if f.message.free(s)]
    between = {w.low for a, b in itertools.pairwise(found) for w in f.message.words[a.last : b.first]}
    needed = [p for p in f.texts() if not p.optional]
    if len(found) > 1 and len(needed) == 1 and between and between <= SETS["joins"]:
        f.give_all(needed[0], found)
    _recipients(f)
    _made_with(f)


def _recipients(f: Filling) -> None:
    """Give the only person whom a text is for each of the names that are listed: *tell Bob and Ann that ...*"""
    m = f.message
    able = [p for p in f.texts() if p.type == "string" and not p.optional]
    able = [p for p in able if {*p.kinds[:1]} & {*_FITS["who"]} or named(p, SETS["person"])]
    if len(able) != 1 or f.filled.several or not any(p.kinds[:1] == ("body",) for p in f.tool.parameters):
        return
    for i in range(1, len(m) - 2):
        ends = [i]
        while m.has(ends[-1] + 1, SETS["joins"]) and _names_one(
            m, behind := ends[-1] + 2 + m.has(ends[-1] + 2, ("and",))
        ):
            ends.append(behind)
        closed = ends[-1] + 1 == len(m) or m.has(ends[-1] + 1, (":", "that", "saying"))
        sure = closed or all(map(m.large, ends))
        if m.has(i - 1, {"to", "tell"} | f.tool.asking) and _names_one(m, i) and len(ends) > 1 and sure:
            f.give_all(able[0], [m.span(k, k + 1) for k in ends])
            m.taken[i : ends[-1] + 1] = [True] * (ends[-1] + 1 - i)
            return


def _names_one(m: Message, i: int) -> bool:
    return i < len(m) and not m.taken[i] and m.words[i].low.isalpha() and m.words[i].low not in STOP


def _made_with(f: Filling) -> None:
    """Give the only list what something is made with: a pizza *with mushrooms and olives*."""
    m = f.message
    lists = [p for p in f.texts() if p.type == "array" and p.kinds[:1] in ((), ("items",))]
    first = m.at.get("with", [len(m)])[-1] + 1
    last = m.trimmed(first, _end(m, first, frozenset(PREPOSITIONS)), SETS["loose ends"] | SETS["polite"])
    labels = {w for q in f.tool.parameters for w in own_parts(q)} | SETS["determiners"] | SETS["it"]
    members = items(m, first, last) if first < last else []
    if len(lists) == 1 and members and labels.isdisjoint({m.words[first].low, m.words[last - 1].low}):
        f.give_all(lists[0], members)


def worded(f: Filling) -> None:
    """Read texts by their cues, then places, then the words that are left."""
    m = f.message
    if not any(p.kinds[:1] and p.kinds[0] in _LONG and not named(p, SETS["one at a time"]) for p in f.texts()):
        inverts = not {"do", "does", "did"}.isdisjoint(m.at)
        for i in range(2, len(m)):
            asks = m.has(i - 1, ("i", "we")) and m.has(i - 2, SETS["inverting"]) and m.has(i, SETS["imperatives"])
            m.taken[i] = m.taken[i] or asks or tells_how(m, i) or (inverts and does(m, i))  # can I *watch* Dune
    for p in f.texts():
        if p.kinds[:1] == ("sort",):
            sort(f, p)
    two = [p for p in f.texts() if p.kinds[:1] == ("place",) and not p.optional and role(p) is None]
    two = [p for p in two if not named(p, SETS["regions"])]
    if len(two) == 2:
        pair(f, *two)
    cued = [p for p in f.texts() if (p.kinds[:1] != ("sort",) or not p.optional) and not _cued(f, p)]
    for p in cued:
        if p.kinds[:1] in (("place",), ("zone",)) or (not p.kinds and named(p, SETS["room names"])):
            place(f, p)
    for p in sorted(cued, key=lambda p: (p.optional, p.kinds[:1] == ("body",))):
        if p in f.left:
            _rest(f, p)


def _cues(f: Filling, p: Parameter) -> list[str]:
    """The words that may precede a parameter's text."""
    own = [" ".join(own_parts(p))]
    kind = p.kinds[0] if p.kinds else ""
    if (side := role(p)) is not None:
        return CUES[side]
    if named(p, ("reason",)):
        return [*own, "because", "because of"]
    if kind == "email" or named(p, SETS["called"]):
        return CUES["who"]
    if kind == "directory" and p.optional:
        return own + CUES[kind]
    if kind == "subject" and not any("body" in q.kinds[:1] for q in f.tool.parameters):
        return [c for c in own + CUES[kind] if c not in ("about", "name")] + [":"]
    return own + (CUES[kind] if kind in ("body", "subject") else [])


def _cued(f: Filling, p: Parameter, only: frozenset[str] | None = None) -> bool:
    """Give a parameter the text after a word of its name or kind (*subject*, *saying*, *from*). Returns whether there
    is one."""
    m = f.message
    for cue in sorted(_cues(f, p), key=len, reverse=True):
        parts = cue.split()
        if not parts or (only is not None and cue not in only):
            continue
        for i in m.at.get(parts[0], ()):
            begin = i + len(parts)
            if begin >= len(m) or [w.low for w in m.words[i:begin]] != parts or any(m.taken[i:begin]):
                continue
            called = role(p) or p.kinds[:1] == ("email",) or "contact" in p.name
            if (i > 0 or called or cue not in SETS["opening"]) and _behind(f, p, i, begin, only):
                return True
    return False


def _behind(f: Filling, p: Parameter, cue: int, begin: int, labels: frozenset[str] | None) -> bool:
    """Give a parameter the text after the cue from ``cue`` to ``begin``. Returns whether there is one."""
    m = f.message
    body = p.kinds[:1] == ("body",) or named(p, ("reason",))
    after = begin
    if m.has(cue, ("to",)) and m.has(begin, SETS["imperatives"]) and m.has(cue - 1, SETS["before a verb"] | {"like"}):
        return False  # I want *to send* a mail
    while m.has(begin, SETS["after a cue"] - (SETS["determiners"] if body else set())) and not m.large(begin):
        begin += 1
    stops = SETS["ends labelled"] if labels else _stops(p)
    stops -= SETS["joins"] if p.type == "array" else frozenset()
    sides = {side for q in f.texts() if q is not p and (side := role(q)) is not None}
    end = _until_subject(f, begin, p) if body else _end(m, begin, stops | sides)
    end = m.trimmed(begin, end, SETS["behind a cue"])
    if begin >= end:
        return False
    if p.kinds[:1] == ("directory",) and end - begin > 1:
        end = m.trimmed(begin + 1, end, KINDS["directory"])  # the docs folder
    if body and m.text[m.words[end - 1].end : m.words[end - 1].end + 1] in ("!", "?"):
        end += 1
    if not body and all(w.low in f.tool.asking for w in m.words[begin:end]):
        return False
    side, placed = role(p), not p.kinds or "place" in p.kinds
    small = f.cased and placed
    house = m.words[begin].low.isdigit() and m.large(begin + 1)  # *10 Downing Street*
    thing = begin > after and m.has(begin - 1, SETS["determiners"])  # *the airport*
    small = (small and not thing) or m.words[begin].low in STOP or m.words[begin].low.isdigit()
    if side and not m.large(begin) and small and not house:
        return False
    m.take(m.span(cue, begin))
    if (whole := next((s for s in quotes(m) if s.first == begin and m.free(s)), None)) is not None:
        f.give_all(p, [whole])
        return True
    several = items(m, begin, end)
    if side == "to" and placed and len(several) > 1 and f.filled.several is None:
        f.give_all(p, several)
    else:
        f.give_span(p, m.span(begin, end))
    return True


def _stops(p: Parameter) -> frozenset[str]:
    text = p.kinds[:1] == ("subject",) and not named(p, SETS["called"])
    return SETS["ends subject"] if text else SETS["ends value"]


def _until_subject(f: Filling, i: int, p: Parameter) -> int:
    m = f.message
    subject = any("subject" in q.kinds[:1] for q in f.left if q is not p)
    while i < len(m) and not m.taken[i] and not (subject and m.has(i, ("subject",))):
        i += 1
    return i


def _idle(f: Filling, span: Span) -> bool:
    """Whether a text has no word that means something besides the request: what is *in stock*."""
    return all(w.low in STOP or w.low in f.tool.asking for w in f.message.words[span.first : span.last])


def _rest(f: Filling, p: Parameter) -> None:
    """Give a parameter the words that are left, if it may have them."""
    m = f.message
    kind = p.kinds[0] if p.kinds else ""
    if p.type == "array":
        if p.optional and kind == "people":
            return
        span = _remaining(f, p, long=True)
        if p.optional and span and not (m.has(span.first - 1, PREPOSITIONS) or _spoken_of(f, p, span)):
            return
        found = [s for s in items(m, span.first, span.last) if m.free(s)] if span else []
        found = [s for s in found if not {*s.value.lower().split()} <= SETS["anyone"]]
        found = [s for s in found if not {stem(w.low) for w in m.words[s.first : s.last]} <= f.tool.nouns]
        if found:
            f.give_all(p, found)
        return
    if (
        kind in _FORMED
        or (p.optional and kind not in (*_LONG, ""))
        or (kind == "subject" and "mail" in f.tool.concepts[0])
    ):
        return
    texts = [q for q in f.tool.parameters if q.type in ("string", "any") and not q.choices]
    others = [q for q in f.left if q is not p and q in texts and not q.optional and not q.choices]
    span = _remaining(f, p, long=kind in _LONG or (not kind and not others and len(texts) == 1))
    if (
        span is None
        and not p.optional
        and (kind in ("", "symbol") or (kind == "subject" and named(p, SETS["one at a time"])))
    ):
        span = _remaining(f, p, long=False, asking=f.tool.name_words | STARTERS)
    if span is not None and {stem(w.low) for w in m.words[span.first : span.last]} <= {stem(w) for w in own_parts(p)}:
        return
    words = range(span.first, span.last) if span is not None else ()
    if span is not None and all(m.words[i].low in SETS["function"] and not m.shouted(i) for i in words):
        return
    if span is None or (p.optional and (not _spoken_of(f, p, span) or _idle(f, span))):
        return
    if kind in ("place", "zone") and all(w.low in RELATIVE | DAYS for w in m.words[span.first : span.last]):
        return
    if kind in ("place", "zone") and f.cased and not named(p, SETS["rooms"]) and not span.value[0].isupper():
        return
    if named(p, SETS["somebody"] | SETS["humans"]) and m.large(span.first):
        small = (i for i in range(span.first, span.last) if not m.large(i) and m.words[i].low[0].isalpha())
        span = m.span(span.first, next(small, span.last))  # Helen, not *Helen free*
    of = next((i for i in range(span.first + 1, span.last - 1) if m.has(i, ("of",))), None)
    if of is not None and kind == "" and not m.large(of - 1):
        span = m.span(of + 1, m.trimmed(of + 2, span.last, SETS["behind a text"]))  # the usage *of checkout*
    if kind in ("", "subject"):
        span = _narrowed(f, p, span, both=not kind)
    found = items(m, span.first, span.last)
    each = kind in ("symbol", "path", "directory", "") or named(p, SETS["one at a time"])
    listing = each or not SETS["of lists"].isdisjoint(f.tool.concepts[0])
    if listing and not p.optional and len(found) > 1 and _short(found):
        f.give_all(p, found)
    else:
        f.give_span(p, span)


def _narrowed(f: Filling, p: Parameter, span: Span, *, both: bool) -> Span:
    """A value without the tool's own words around it: *the podcast Radiolab*, *the cellar door*."""
    m = f.message
    first, last = span.first, span.last
    both = both and not (keeps(p, m.words[last - 1].low))
    while both and last - first > 1 and stem(m.words[last - 1].low) in f.tool.nouns and not m.large(last - 1):
        last = m.trimmed(first, last - 1, SETS["behind a text"])
    named_so = range(first + 1, last) if both and m.large(first) else ()
    last = next((i for i in named_so if not m.large(i) and stem(m.words[i].low) in f.tool.nouns), last)
    begin = first + m.has(first, SETS["determiners"])
    while begin < last - 1 and stem(m.words[begin].low) in f.tool.nouns and not m.large(begin):
        begin += 1
        first = begin
    if last < span.last and m.has(first, SETS["determiners"]) and first < last - 1:
        first += 1
    return m.span(first, last) if first < last else span


def _spoken_of(f: Filling, p: Parameter, span: Span) -> bool:
    """Whether words belong to an optional text, because they follow words such as *about*, or because it is the only
    one."""
    first = f.tool.parameters[0] is p and len(f.tool.parameters) <= 2
    return first or f.message.has(span.first - 1, SETS["about"])


def _remaining(f: Filling, p: Parameter, *, long: bool, asking: frozenset[str] | None = None) -> Span | None:
    """The words that are left, between those that ask and those of other values; with ``long``, as many as possible."""
    m = f.message
    asking = f.tool.asking if asking is None else asking
    verbs = asking | STOP | SETS["verbs"]
    runs: list[Span] = []
    i = 0
    while i < len(m):
        while i < len(m) and (
            m.taken[i] or not m.words[i].low[0].isalnum() or m.words[i].low in verbs or _orders(m, i)
        ):
            if not m.taken[i] and m.shouted(i) and m.words[i].low not in asking | SETS["spoken in capitals"]:
                break  # publish *ON*
            if i and not m.taken[i] and m.large(i) and m.words[i].low not in asking | STOP:
                break  # a name: *a Switch*
            i += 1
        first = i
        while i < len(m) and not m.taken[i] and not _breaks(m, i, first, verbs, long):
            i += 1
        last = m.trimmed(first, i, SETS["behind a text"] if long else SETS["behind a text"] | verbs)
        last = m.trimmed(first + 1, last, asking & SETS["trailing"])
        while not long and last > first and not any(map(str.isalnum, m.words[last - 1].low)):
            last -= 1
        if not long:
            last = m.trimmed(first, last, asking)
        elif last - first > 1 and p.kinds[:1] != ("query",) and m.has(last - 1, asking & SETS["listings"]):
            last -= 1
        if first < last:
            runs.append(m.span(first, last))
        i = max(i, first + 1)
    if not runs:
        return None
    measured = [s for s in runs if s.first > 1 and m.has(s.first - 1, ("of",)) and m.taken[s.first - 2]]
    measured = [s for s in measured if stem(m.words[s.first].low) not in f.tool.nouns]
    if measured:
        return measured[0]  # *150 grams of rice*
    return max(runs, key=lambda s: s.last - s.first) if long else runs[0]


def _orders(m: Message, i: int) -> bool:
    """Whether a verb begins a request, also after a place or a file: *replace* a, in app.ini *replace* a."""
    return (i == 0 or (m.taken[i - 1] and m.words[0].low in PREPOSITIONS)) and m.has(i, SETS["imperatives"])


def _breaks(m: Message, i: int, first: int, verbs: frozenset[str], long: bool) -> bool:
    """Whether a text ends before the word at ``i``."""
    low = m.words[i].low
    if low in _ENDS:
        return not (long and i + 1 < len(m) and m.words[i].end == m.words[i + 1].start)
    goes_on = i > first and i + 1 < len(m) and low in SETS["joins"] and m.words[i + 1].low not in verbs | {","}
    return not long and (low in STOP or low == ",") and not m.large(i) and not goes_on
