"""Arguments: which of the values in a message are for which of a tool's parameters."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from .prompt import Parameter, Tool
from .spans import Message, Span, items
from .words import CONCEPTS, CUISINES, CURRENCIES, DAYS, FRAMES, FROM, MONTHS, NUMBERS, OFF, RELATIVE, STOP, TO, UNITS, parts_of, stem

_CUES: Final[dict[str, tuple[str, ...]]] = {
    "body": ("saying", "says", "that says", "with the text", "with text", "with the message", "with message", "with body", "body", "message", "text", "telling", "content", "with the content", "to say", ":"),
    "subject": ("subject", "titled", "called", "named", "title", "with the title", "with the subject", "with subject", "with title", "about", "labeled", "labelled", "name"),
}
_ENDS: Final = frozenset((".", "?", "!", ";", "\n"))


class Filled:
    """What a message gives a tool: arguments of one or several calls, and what is missing."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.values: dict[str, Any] = {}
        self.several: tuple[str, list[Any]] | None = None
        self.missing: list[Parameter] = []

    def calls(self) -> list[dict[str, Any]]:
        """The arguments of each call."""
        if self.several is None:
            return [self.values]
        name, values = self.several
        return [{k: (value if k == name else self.values[k]) for k in self.order if k == name or k in self.values} for value in values]


def fill(tool: Tool, message: Message, *, cased: bool = False) -> Filled:
    """The arguments of a tool, from a message whose values are taken as they are given; ``cased``: names are written large."""
    return _Filling(tool, message, cased).run()


class _Filling:
    """One tool and one message."""

    def __init__(self, tool: Tool, message: Message, cased: bool) -> None:
        self.cased = cased or any(w.text[0].isupper() and w.low not in STOP for w in message.words[1:])
        self.tool = tool
        self.message = message
        self.filled = Filled([p.name for p in tool.parameters])
        self.left: list[Parameter] = []

    def run(self) -> Filled:
        message, filled = self.message, self.filled
        self.left = [p for p in self.tool.parameters]
        for p in list(self.left):
            if p.choices or p.type == "boolean":
                value = self._choice(p) if p.choices else self._switch(p)
                if value is not None:
                    self._give(p, value)
                elif p.choices:
                    self.left.remove(p)
                    if not p.optional and self._role(p) is None and {*parts_of(p.name)} & {"unit", "units", "priority", "mode", "scale", "format", "type"}:
                        filled.values[p.name] = p.choices[0]
                    else:
                        self._miss(p)
        self.left = [p for p in self.left if p.type != "boolean" or self._miss(p)]
        for kind, spans in self._formed():
            for p in [p for p in self.left if kind in p.kinds[:3] and p.type in ("string", "any", "array")]:
                self._by_form(p, kind, spans)
        self._numbers()
        self._framed()
        self._people()
        self._texts()
        for p in self.left:
            body = next((q.name for q in self.tool.parameters if q.kinds[:1] == ("body",) and q.name in filled.values), None)
            if p.kinds[:1] == ("subject",) and body is not None and not p.optional:
                filled.values[p.name] = " ".join(str(filled.values[body]).split()[:6])
            else:
                self._miss(p)
        order = [p.name for p in self.tool.parameters]
        filled.values = {k: filled.values[k] for k in order if k in filled.values}
        return filled

    def _miss(self, p: Parameter) -> bool:
        if not p.optional:
            self.filled.missing.append(p)
        return False

    def _give(self, p: Parameter, value: Any) -> None:
        self.filled.values[p.name] = value
        if p in self.left:
            self.left.remove(p)

    # -- enumerations and switches ---------------------------------------------------------------------------------

    def _choice(self, p: Parameter) -> Any:
        message = self.message
        role = self._role(p)
        if role is not None and all(isinstance(c, str) for c in p.choices):
            same: dict[str, str] = {}
            for c in p.choices:
                same[CURRENCIES.get(c.lower(), UNITS.get(c.lower(), c.lower())).lower()] = c
            spans = [*message.currencies(), *message.units(), *message.languages()]
            spans = sorted(s for s in spans if message.free(s) and self._canonical(s.value) in same)
            chosen = self._sided(spans, role) if spans else None
            if chosen is not None:
                return same[self._canonical(message.take(chosen))]
        found: tuple[int, Any, Span] | None = None
        for choice in p.choices:
            words = " ".join(re.findall(r"\w+", str(choice).lower().replace("_", " ")))
            for i in range(len(message)):
                for j in range(i + 1, min(i + 4, len(message)) + 1):
                    said = " ".join(re.findall(r"\w+", message.said(i, j).lower()))
                    same = said == words or (len(words) > 3 and stem(said) == stem(words))
                    unit = j == i + 1 and message.words[i].low in UNITS and UNITS.get(message.words[i].low) == UNITS.get(words)
                    unit = unit and (len(message.words[i].low) > 1 or message.words[i].text.isupper() or message.is_(i - 1, "in", "degrees", "°", "to", ","))
                    if words and (same or unit) and not message.taken[i] and not (len(said) == 1 and said == "a"):
                        found = found or (i, choice, Span(i, j, said))
        if found is None:
            return None
        if not self._needed(found[2]):
            message.take(found[2])
        return found[1]

    def _canonical(self, text: str) -> str:
        low = text.lower()
        return CURRENCIES.get(low, UNITS.get(low, low)).lower()

    def _needed(self, span: Span) -> bool:
        """Whether the words are the only ones that a text could hold."""
        return False

    def _switch(self, p: Parameter) -> bool | None:
        message = self.message
        own = {stem(w) for w in parts_of(p.name)} - {"is", "include", "with", "only", "be", "use", "show", "enable", "enabled", "get", "on", "off", "now"}
        state = {"on", "state", "power", "enabled", "status", "active"} & set(parts_of(p.name)) or not own
        for i, w in enumerate(message.words):
            if state and w.low in ("on", "off", "enable", "disable"):
                if w.low == "on" and not (message.is_(i - 1, "turn", "switch", "lights", "light", "lamp", "it", "them", "put", "keep", "leave") or message.is_(i - 2, "turn", "switch") or i == len(message) - 1 or self._turned(i)):
                    continue
                message.taken[i] = True
                return w.low in ("on", "enable")
        hits = [i for i, w in enumerate(message.words) if stem(w.low) in own or (w.low.endswith("ly") and stem(w.low[:-2]) in own)]
        if not hits:
            return None
        for i in hits:
            message.taken[i] = True
        before = [message.words[k].low for k in range(max(0, hits[0] - 3), hits[0])]
        return not (set(before) & OFF)

    def _turned(self, i: int) -> bool:
        return any(message_word.low in ("turn", "switch", "flip") for message_word in self.message.words[max(0, i - 5) : i])

    # -- what is told by its form ----------------------------------------------------------------------------------

    def _formed(self) -> Iterator[tuple[str, Callable[[], Iterator[Span]]]]:
        m = self.message
        yield from (("email", m.emails), ("url", m.urls), ("path", m.paths), ("directory", m.paths), ("expression", m.expressions))
        yield from (("zone", m.zones), ("language", m.languages), ("currency", m.currencies), ("unit", m.units))
        yield from (("symbol", m.symbols), ("date", m.dates), ("time", m.times))

    def _by_form(self, p: Parameter, kind: str, spans: Callable[[], Iterator[Span]]) -> None:
        if kind in ("unit", "currency", "language") and kind != p.kinds[0] and not self._both(kind):
            return
        if kind == "date" and p.kinds[0] not in ("date", "time") and "date" not in p.name.lower():
            return
        if kind == "time" and p.kinds[0] not in ("date", "time"):
            return
        free = [s for s in spans() if self.message.free(s)]
        if not free:
            return
        role = self._role(p)
        if role is None and kind in ("unit", "currency", "language") and any(self._role(q) == "to" and kind in q.kinds[:3] for q in self.tool.parameters if q is not p):
            role = "from"
        if kind in ("date", "time") and p.kinds[0] in ("date", "time"):
            self._moment(p, kind, free)
            return
        listed = len(free) > 1 and all(w.low in (",", "and", "or", "&", "also", "then") for w in self.message.words[free[-2].last : free[-1].first])
        if kind in ("language", "currency") and listed and role != "from" and self.filled.several is None and p.type != "array":
            chosen = [s for s in free if s.first >= free[-2].first]
            self.filled.several = (p.name, [self.message.take(s) for s in chosen])
            self.left.remove(p)
            return
        if kind in ("unit", "currency", "language") and role is not None:
            chosen = self._sided(free, role)
            if chosen is not None:
                self._give(p, self.message.take(chosen))
            return
        if kind == "unit" and not any(q for q in self.left if q is not p and "unit" in q.kinds[:1]) and UNITS.get(free[0].value.lower()) in ("celsius", "fahrenheit"):
            self._give(p, self.message.take(free[0]))
            return
        if len(free) > 1 and not p.optional and kind in ("email", "path", "symbol", "expression", "url", "directory", "zone") and self.filled.several is None:
            if p.type == "array":
                self._give(p, [self.message.take(s) for s in free])
            else:
                self.filled.several = (p.name, [self.message.take(s) for s in free])
                self.left.remove(p)
            return
        value: Any = self.message.take(free[0])
        if kind in ("path", "directory", "expression"):
            value = value.strip()
        self._give(p, [value] if p.type == "array" else value)

    def _both(self, kind: str) -> bool:
        """Whether two of its parameters are the two sides of a conversion."""
        return sum(kind in q.kinds or bool(self._role(q)) for q in self.tool.parameters) > 1

    def _moment(self, p: Parameter, kind: str, free: list[Span]) -> None:
        """A day, a time, or both where one parameter is for both."""
        others = [q for q in self.left if q is not p and q.kinds[:1] in (("date",), ("time",)) and q.type == "string"]
        names = set(parts_of(p.name))
        only = others or names & {"day", "date", "weekday"} or "time" in names and not names & {"date", "datetime", "when", "due"}
        if only and kind != ("date" if names & {"day", "date", "weekday", "due"} or p.kinds[0] == "date" and not names & {"time", "hour", "at"} else "time"):
            if not (kind == "date" and names & {"time", "at", "when"} and not others):
                return
        m = self.message
        dates = [s for s in m.dates() if m.free(s)]
        times = [s for s in m.times() if m.free(s)]
        spans = sorted((dates[:1] if kind == "date" or not only or names & {"time", "at", "when"} else []) + (times[:1] if kind == "time" or not only else []))
        if not spans:
            return
        first, last = spans[0].first, spans[-1].last
        if last - first > sum(s.last - s.first for s in spans) + 1:
            spans = spans[:1]
            last = spans[0].last
        for s in spans:
            m.take(s)
        self._give(p, m.said(first, last))

    def _role(self, p: Parameter) -> str | None:
        words = set(parts_of(p.name))
        return "from" if words & FROM else "to" if words & TO else None

    def _sided(self, free: list[Span], role: str) -> Span | None:
        """Of two units, currencies or languages, what is converted, or what it becomes."""
        m = self.message
        numbered = [s for s in free if s.first and re.search(r"\d$", m.words[s.first - 1].low) or re.match(r"[$€£]?\d", m.words[s.first].low) or (s.first and m.words[s.first - 1].low in (*NUMBERS, "degrees", "from"))]
        asked = [s for s in free if s not in numbered and (m.is_(s.first - 1, "to", "in", "into", "many", "much", "for") or s is free[-1])]
        if role == "from":
            return (numbered or [s for s in free if not m.is_(s.first - 1, "to", "into", "many")] or [None])[0] if len(free) > 1 or numbered else None
        rest = asked or [s for s in free if s not in numbered]
        return rest[-1] if rest else None

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _numbers(self) -> None:
        m = self.message
        wanted = [p for p in self.left if p.type in ("integer", "number")]
        texts = [p for p in self.left if p.type in ("string", "any") and not p.kinds[:1] and set(parts_of(p.name)) & {"id", "number", "code", "no", "ref", "amount", "tracking"}]
        free = [s for s in m.numbers() if m.free(s)]
        for p in [p for p in self.left if p.type == "array" and free and {"numbers", "values", "nums", "data"} & set(parts_of(p.name))]:
            self._give(p, [float(m.take(s)) if "." in s.value else int(m.take(s)) for s in free])
            free = []
        required = [p for p in wanted if not p.optional]
        if len(required) == 1 and len(free) > 1 and self.filled.several is None and self._apart(free):
            p = required[0]
            values = [float(s.value) for s in free]
            self.filled.several = (p.name, [int(v) if v == int(v) else v for v in values])
            self.left.remove(p)
            for s in free:
                m.take(s)
            return
        for p in wanted:
            unit = next((UNITS[w] for w in parts_of(p.name) if w in UNITS and len(w) > 2), None)
            near = [s for s in free if unit and self._unit_of(s) == unit]
            names = {stem(w) for w in parts_of(p.name) if len(w) > 2}
            names |= {"%"} if "percent" in names else {"d"} if "side" in names else set()
            own = sorted((d, s) for s in free if (d := self._distance(s, names)) < 4)
            if near or own:
                self._number(p, near[0] if near else own[0][1], free)
        wanted = [p for p in wanted if p in self.left]
        subtract = " from " in m.low and len([p for p in wanted]) == 2 and re.search(r"\b(subtract|take)\b", m.low)
        spans = list(reversed(free)) if subtract else list(free)
        for p in wanted:
            unit = next((UNITS[w] for w in parts_of(p.name) if w in UNITS and len(w) > 2), None)
            for s in spans:
                if p.optional and (float(s.value) > 200 or m.is_(s.first - 1, "in", "since", "of") or (s.last < len(m) and not m.words[s.last].low[0].isalpha()) or s.last == len(m)):
                    continue
                said = self._unit_of(s)
                if unit in ("second", "minute", "hour") and said in ("second", "minute", "hour") and said != unit:
                    size = {"second": 1, "minute": 60, "hour": 3600}
                    value = float(s.value) * size[said] / size[unit]
                    self._number(p, s._replace(value=str(int(value)) if value == int(value) else str(value)), free)
                    spans.remove(s)
                    break
                if unit and said and said != unit:
                    continue
                self._number(p, s, free)
                spans.remove(s)
                break
        for p in texts:
            codes = [Span(i, i + 1, w.text) for i, w in enumerate(m.words) if re.search(r"\d", w.text) and not m.taken[i]]
            if codes:
                first = codes[0]
                while first.first > 1 and m.is_(first.first - 1, "-", "#") and m.words[first.first - 1].end == m.words[first.first].start:
                    begin = first.first - (2 if m.is_(first.first - 1, "-") else 0)
                    if begin == first.first:
                        break
                    first = Span(begin, first.last, m.said(begin, first.last))
                self._give(p, m.take(first))

    def _distance(self, s: Span, names: set[str]) -> int:
        """How many words lie between a number and one of these; what stands behind it is nearer."""
        m = self.message
        word = m.words[s.first].low
        if any(word.endswith(n) or word.startswith(n) for n in names if n in ("%", "d")):
            return 0
        for d in (1, 2):
            for k in (s.last + d - 1, s.first - d):
                if 0 <= k < len(m) and (stem(m.words[k].low) in names or m.words[k].low in names):
                    return d
                if k >= s.last and k < len(m) and m.words[k].low in (",", "and", "by"):
                    continue
        return 9

    def _apart(self, spans: list[Span]) -> bool:
        """Whether numbers are members of one list: *orders 12 and 15*."""
        m = self.message
        between = [w.low for a, b in zip(spans, spans[1:], strict=False) for w in m.words[a.last : b.first]]
        return all(w in (",", "and", "or", "&", "#", "also", "order", "user", "number", "id", "as", "well") for w in between)

    def _unit_of(self, s: Span) -> str | None:
        m = self.message
        if found := re.fullmatch(r"[$€£]?[\d.,]+([a-z]+)", m.words[s.first].low):
            return UNITS.get(found[1])
        for k in (s.last, s.last + 1):
            if k < len(m) and m.words[k].low != "-" and m.words[k].low in UNITS and m.words[k].low != "in":
                return UNITS[m.words[k].low]
            if k < len(m) and m.words[k].low not in ("-", "more", "next"):
                break
        return None

    def _number(self, p: Parameter, s: Span, free: list[Span]) -> None:
        m = self.message
        value = float(s.value)
        if p.type == "integer" and value != int(value):
            return
        m.take(s)
        free.remove(next(f for f in free if f.first == s.first))
        if s.last < len(m) and m.words[s.last].low in UNITS and set(parts_of(p.name)) & {*UNITS}:
            m.taken[s.last] = True
        self._give(p, int(value) if value == int(value) else value)

    def _framed(self) -> None:
        """Texts as one asks for them: *remind me to ...*, *translate ... into French*."""
        m = self.message
        named, also = self.tool.concepts
        for concept in (*named, *also):
            for frame in FRAMES.get(concept, ()):
                if (found := re.fullmatch(f"(?is){frame}", m.text)) is None:
                    continue
                for kind, value in found.groupdict().items():
                    if value and value.strip():
                        self._group(kind, m.covering(found.start(kind), found.end(kind), value))
                return

    def _group(self, kind: str, span: Span) -> None:
        m = self.message
        fits = {"who": ("email", "people", "channel", "phone")}.get(kind, (kind,))
        texts = [p for p in self.left if p.type in ("string", "any", "array")]
        own = [p for p in texts if set(p.kinds[:1]) & set(fits)]
        if not own and kind == "who":
            own = [p for p in texts if {*parts_of(p.name)} & {"to", "recipient", "contact", "user", "person", "name", "number", "who"}]
        elif not own and kind != "author":
            own = [p for p in texts if (not p.kinds or p.kinds[0] in ("query", "subject", "body", "items")) and not p.optional]
        if not own:
            return
        p = own[0]
        first, last = span.first, span.last
        while first < last and m.taken[first]:
            first += 1
        end = first
        while end < last and not m.taken[end]:
            end += 1
        while end > first and (m.words[end - 1].low in ("at", "on", "in", "by", "for", "and", "to", ",", ".", "?", "!", "with", "a", "the", "please") and end < len(m) or m.words[end - 1].low in (".", "?", "!", ",")):
            end -= 1
        if first >= end:
            return
        whole = Span(first, end, m.said(first, end).strip("'\"“” "))
        if p.type == "array":
            values = items(m, first, end)
            for v in values:
                m.take(v)
            self._give(p, [v.value for v in values])
        elif kind == "items" and len(several := items(m, first, end)) > 1 and self.filled.several is None:
            self.filled.several = (p.name, [m.take(v) for v in several])
            self.left.remove(p)
        else:
            self._give(p, m.take(whole))

    # -- people and texts ------------------------------------------------------------------------------------------

    def _people(self) -> None:
        m = self.message
        for p in [p for p in self.left if p.kinds[:1] == ("people",)]:
            for i, w in enumerate(m.words):
                if w.low == "with" and not m.taken[i]:
                    last = self._end(i + 1)
                    names = [s for s in items(m, i + 1, last)]
                    if names:
                        m.taken[i:last] = [True] * (last - i)
                        self._give(p, [s.value for s in names] if p.type == "array" else m.said(names[0].first, names[-1].last))
                    break

    def _end(self, i: int, *, stops: frozenset[str] = frozenset(("on", "at", "about", "for", "with", "from", "subject", "saying", "to", "titled", "called", "tomorrow", "today", "next", "please", ","))) -> int:
        m = self.message
        j = i
        while j < len(m) and not m.taken[j] and m.words[j].low not in _ENDS and (m.words[j].low not in stops or (m.words[j].low == "," and self._lists(j))):
            if m.words[j].low in RELATIVE or m.words[j].low in DAYS:
                break
            j += 1
        return j

    def _lists(self, j: int) -> bool:
        return "and" in (w.low for w in self.message.words[j : j + 6])

    def _texts(self) -> None:
        """Texts: quotes, what stands behind their cues, and what is left."""
        m = self.message
        wanted = [p for p in self.left if p.type in ("string", "any", "array", "object")]
        for p in list(wanted):
            if p.type == "object":
                wanted.remove(p)
        quotes = list(m.quotes())
        for p in wanted[:]:
            if len(quotes) == 1 and set(p.kinds[:1]) & {"body", "query", "subject"} and len([q for q in wanted if set(q.kinds[:1]) & {"body", "query", "subject"}]) == 1:
                self._give(p, m.take(quotes[0]))
                wanted.remove(p)
        for p in wanted[:]:
            if p.kinds[:1] == ("sort",):
                wanted.remove(p)
                self._sort(p)
        for p in wanted[:]:
            if self._cued(p, wanted):
                wanted.remove(p)
        for p in wanted[:]:
            if "place" in p.kinds[:1] or (not p.kinds and self._placed(p)):
                if self._place(p, wanted):
                    wanted.remove(p)
        for p in sorted(wanted, key=lambda p: (p.optional, p.kinds[:1] == ("body",))):
            if p in self.left and self._rest(p):
                continue

    def _sort(self, p: Parameter) -> None:
        """The word before what the tool is for: *thai* restaurants."""
        m = self.message
        if said := next((i for i, w in enumerate(m.words) if w.low in CUISINES and not m.taken[i]), None) is not None:
            at = next(i for i, w in enumerate(m.words) if w.low in CUISINES and not m.taken[i])
            if {"cuisine", "kitchen", "type", "food"} & {*parts_of(p.name)} and said:
                self._give(p, m.take(Span(at, at + 1, m.words[at].text)))
                return
        named, also = self.tool.concepts
        nouns = {w for c in (*named, *also) for w in CONCEPTS[c][0]} | set(parts_of(self.tool.name))
        for i in range(1, len(m)):
            w = m.words[i - 1]
            if (m.words[i].low in nouns or stem(m.words[i].low) in nouns) and not m.taken[i - 1] and w.low not in STOP | {"good", "best", "find", "open", "nearest", "cheap", "new", "nice"} and w.low[0].isalpha() and w.low not in nouns:
                self._give(p, m.take(Span(i - 1, i, w.text)))
                return

    def _placed(self, p: Parameter) -> bool:
        return bool({"room", "place", "in", "where", "zone", "town"} & set(parts_of(p.name)))

    def _cued(self, p: Parameter, wanted: list[Parameter]) -> bool:
        """What stands behind a word of the parameter's name or kind: *subject*, *saying*, *from*, *to*."""
        m = self.message
        cues = [*(" ".join(parts_of(p.name)),), *(c for kind in p.kinds[:1] for c in _CUES.get(kind, ()))]
        role = self._role(p)
        if role == "from":
            cues = ["from", "leaving", "departing"]
        elif role == "to":
            cues = ["to", "into", "towards"]
        elif p.kinds[:1] == ("email",) or set(parts_of(p.name)) & {"recipient", "contact", "person", "channel", "user", "who"}:
            cues = ["to", "email", "mail", "text", "message", "tell", "call", "dm", "ping", "in", "on"]
        elif "subject" in p.kinds[:1] and not any("body" in q.kinds[:1] for q in self.tool.parameters):
            cues = [c for c in cues if c not in ("about", "name")] + ([":"] if not any(":" in c for c in cues) else [])
        last_body = p.kinds[:1] == ("body",)
        for cue in sorted(cues, key=len, reverse=True):
            parts = cue.split()
            for i in range(len(m) - len(parts)):
                if [m.words[i + k].low for k in range(len(parts))] != parts or any(m.taken[i : i + len(parts)]):
                    continue
                begin = i + len(parts)
                if cue in ("text", "message", "email", "mail", "name", "call", "content") and i == 0 and not (role or p.kinds[:1] == ("email",) or "contact" in p.name):
                    continue
                while begin < len(m) and m.words[begin].low in (":", "the", "is", "that", "a", "as", "my", ",", "-"):
                    if m.words[begin].low == "my" and last_body:
                        break
                    begin += 1
                end = len(m) if last_body else self._until(begin, p)
                if last_body:
                    end = self._until_cue(begin, p)
                while end > begin and m.words[end - 1].low in ("and", ",", ".", "please", "!", "with", "the", "a", "?", "on", "at"):
                    end -= 1
                if last_body and end > begin and m.words[end - 1].end < len(m.text) and m.text[m.words[end - 1].end] in "!?":
                    end += 1
                if begin < end and not any(m.taken[begin:end]):
                    if role and (m.words[begin].low in STOP or m.words[begin].low.isdigit() or (self.cased and not m.words[begin].text[0].isupper() and "place" in (*p.kinds, "place"))) and not m.words[begin].text[0].isupper():
                        continue
                    span = Span(begin, end, m.said(begin, end))
                    m.taken[i:begin] = [True] * (begin - i)
                    if role and "place" in (*p.kinds, "place") and len(items(m, begin, end)) > 1 and p.type != "array" and self.filled.several is None and role == "to":
                        self.filled.several = (p.name, [m.take(s) for s in items(m, begin, end)])
                        self.left.remove(p)
                        return True
                    value = m.take(span)
                    self._give(p, [s.value for s in items(m, begin, end)] if p.type == "array" else value)
                    return True
        return False

    def _until(self, i: int, p: Parameter) -> int:
        return self._end(i, stops=frozenset(("on", "at", "about", "for", "from", "subject", "saying", "to", "titled", "called", "please", ",", "and", "with", "text", "body", "message", "via", "by", "in", "that", "says", "tonight", "then", "-", "is", "are") if p.kinds[:1] != ("subject",) else ("saying", "body", "text", "message", "with", "please", ",", "due", "by", "and", "for", "at", "on")))

    def _until_cue(self, i: int, p: Parameter) -> int:
        m = self.message
        j = i
        while j < len(m) and not m.taken[j]:
            if m.words[j].low == "subject" and any("subject" in q.kinds[:1] for q in self.left if q is not p):
                break
            j += 1
        return j

    def _skipped(self) -> frozenset[str]:
        """The words of the tool itself: they ask for it, and are no value."""
        words = {w for w in parts_of(self.tool.name)} | {stem(w) for w in parts_of(self.tool.name)}
        for names, asks in CONCEPTS.values():
            if names & words or any(f" {n} " in f" {self.tool.description.lower()} " for n in names):
                words |= {w for a in asks for w in a.split()} | {w for n in names for w in n.split()}
        return frozenset(words | {w + "s" for w in words})

    def _place(self, p: Parameter, wanted: list[Parameter]) -> bool:
        """Places: behind *in*, *for*, *at*, *of*; else what is left."""
        m = self.message
        skipped = self._skipped()
        best: tuple[int, list[Span]] | None = None
        for i, w in enumerate(m.words):
            if w.low in ("in", "for", "at", "of", "near", "around", "over", "to", "inside", "from", "is", "visiting", "visit", "like", "between", "about", "on") and i + 1 < len(m):
                found = self._listed(i + 1, skipped)
                if found:
                    weight = {"in": 5, "for": 4, "at": 3, "near": 4, "of": 3, "around": 3, "over": 3, "to": 3, "visiting": 3, "visit": 3, "inside": 3, "between": 3, "about": 2}.get(w.low, 1)
                    weight += 2 * found[0].value[0].isupper()
                    if best is None or weight > best[0]:
                        best = (weight, found)
        several = any(m.is_(k, "both", "each", "compare", "than", "versus", "difference", "there", "them", "warmer", "colder", "sunnier", "hotter") for k in range(len(m)))
        if self.cased and several and (best is None or not best[1][0].value[0].isupper() or len(best[1]) == 1):
            large = self._large(skipped)
            if len(large) > 1 or (large and best is None):
                best = (5, large)
        if best is not None and self.cased and not best[1][0].value[0].isupper() and (large := self._large(skipped)):
            best = (5, large[:1])
        if best is not None and self.cased and not best[1][0].value[0].isupper() and best[0] < 5:
            best = None
        if best is None and not p.optional:
            for run in m.runs((*skipped, *RELATIVE, *DAYS, *MONTHS, *UNITS)):
                parts = self._listed(run.first, skipped)
                if parts and (parts[0].value[0].isupper() or not self.cased):
                    weight = 1 + 2 * parts[0].value[0].isupper()
                    if best is None or weight > best[0]:
                        best = (weight, parts)
        if best is not None and p.optional and best[0] < 4 and not best[1][0].value[0].isupper():
            return False
        if best is None:
            return False
        spans = best[1]
        for s in spans:
            m.take(s)
        values = [s.value for s in spans]
        if p.type == "array":
            self._give(p, values)
        elif len(values) > 1 and self.filled.several is None:
            self.filled.several = (p.name, values)
            self.left.remove(p)
        else:
            self._give(p, values[0])
        return True

    def _large(self, skipped: frozenset[str]) -> list[Span]:
        """All names that are written large."""
        m = self.message
        found: list[Span] = []
        i = 0
        while i < len(m):
            if m.words[i].text[0].isupper() and m.words[i].low not in STOP and m.words[i].low not in skipped | DAYS | MONTHS and (parts := self._listed(i, skipped)):
                found += [s for s in parts if s.value[0].isupper()]
                i = max(i + 1, parts[-1].last)
            else:
                i += 1
        return found

    def _listed(self, i: int, skipped: frozenset[str]) -> list[Span]:
        """Names from here on, and those that a comma or *and* adds to them."""
        m = self.message
        stops = STOP - {"la", "do", "the"} | RELATIVE | DAYS | {"next", "week", "weather", "time", "forecast", "hourly", "degrees", "celsius", "fahrenheit", "later", "compared", "versus", "vs", "plus", "than", "soon", "morning", "evening", "afternoon", "night", "hours", "days", "minutes", "temperature"}
        found: list[Span] = []
        while i < len(m):
            while i < len(m) and m.words[i].low in ("the", "in", "for", "of", "both", "at", "also", "my", "downtown", "city"):
                i += 1
            first = i
            while i < len(m) and not m.taken[i] and m.words[i].low[0].isalpha() and (m.words[i].low not in stops or (i > first and m.words[i].text[0].isupper())) and (m.words[i].low not in skipped or m.words[i].text[0].isupper() and i > first):
                i += 1
                if i + 1 < len(m) and m.words[i].low in (".", "'") and m.words[i - 1].low in ("st", "mt"):
                    i += 1
                if i + 1 < len(m) and m.words[i].low in ("de", "la", "of", "del", "am", "upon", "do", "da", "the") and m.words[i + 1].text[0].isupper() and not m.taken[i]:
                    i += 1
            if i == first:
                break
            end = i
            if i + 1 < len(m) and m.words[i].low == "," and m.words[i + 1].text.isupper() and len(m.words[i + 1].text) == 2:
                end = i = i + 2
            elif i + 1 < len(m) and m.words[i].low == "," and m.words[i + 1].text[0].isupper() and not self._lists(i) and not found and i + 2 >= len(m) - 1 and m.words[first].text[0].isupper():
                end = i = i + 2
            found.append(Span(first, end, m.said(first, end)))
            if i < len(m) and m.words[i].low in (",", "and", "or", "&", "vs", "versus", "plus", "/", "than"):
                i += 1
                while i < len(m) and m.words[i].low in ("and", "or", "then", "also", "well", "as"):
                    i += 1
                continue
            if m.is_(i, "as") and m.is_(i + 1, "well") and m.is_(i + 2, "as"):
                i += 3
                continue
            break
        return found

    def _rest(self, p: Parameter) -> bool:
        """What is left of the message, for a text that has to be there."""
        m = self.message
        kind = p.kinds[0] if p.kinds else ""
        if p.type == "array":
            return self._items(p)
        if p.optional and kind not in ("query", "subject", "body", ""):
            return False
        if kind in ("date", "time", "email", "url", "unit", "currency", "expression", "path", "directory", "people", "zone", "language"):
            if kind in ("directory", "path", "language", "zone") and not p.optional:
                pass
            else:
                return False
        others = [q for q in self.left if q is not p and q.type in ("string", "any") and not q.optional and not q.choices]
        if kind == "subject" and "mail" in (*self.tool.concepts[0], *self.tool.concepts[1]):
            return False
        long = kind in ("query", "body", "subject") or (not kind and not others and len([q for q in self.tool.parameters if q.type in ("string", "any")]) == 1)
        span = self._remaining(long, p)
        if span is None:
            return False
        if p.optional and not self._about(p, span):
            return False
        found = items(m, span.first, span.last)
        if kind in ("symbol", "path", "directory", "") and not p.optional and self.filled.several is None and len(found) > 1 and all(s.last - s.first < 4 for s in found):
            self.filled.several = (p.name, [m.take(s) for s in found])
            self.left.remove(p)
            return True
        self._give(p, m.take(span))
        return True

    def _about(self, p: Parameter, span: Span) -> bool:
        """Whether an optional text is spoken of: a single one of its tool, behind words such as *about*, or described."""
        m = self.message
        before = m.words[span.first - 1].low if span.first else ""
        first = next((q for q in self.tool.parameters), None)
        return before in ("about", "on", "for", "of", "in", "named", "called", "to") or (first is p and len(self.tool.parameters) <= 2)

    def _items(self, p: Parameter) -> bool:
        m = self.message
        span = self._remaining(True, p)
        if span is None:
            return False
        found = [s for s in items(m, span.first, span.last) if m.free(s)]
        for s in found:
            m.take(s)
        self._give(p, [s.value for s in found])
        return bool(found)

    def _remaining(self, long: bool, p: Parameter) -> Span | None:
        """The words that are left between those that ask and those that other values have."""
        m = self.message
        skipped = self._skipped()
        verbs = skipped | STOP | {"set", "create", "add", "make", "put", "find", "new", "start", "open", "send", "play", "write", "save", "book", "schedule", "buy", "run", "execute", "turn", "switch", "cancel", "delete", "remove", "high", "list", "latest", "do", "take", "log", "post", "stuff", "articles", "results", "something", "name", "status", "read", "called", "titled", "track", "convert", "order", "feed", "update", "change", "rename", "roll", "define", "mean", "means", "word", "another", "us", "fetch", "pull", "bring", "mark", "into", "call"}
        runs: list[Span] = []
        i, n = 0, len(m)
        while i < n:
            while i < n and (m.taken[i] or not m.words[i].low[0].isalnum() or (m.words[i].low in verbs and not (long and runs and False))):
                i += 1
            first = i
            while i < n and not m.taken[i] and (m.words[i].low not in _ENDS or (long and i + 1 < n and m.words[i].end == m.words[i + 1].start)):
                goes_on = i > first and i + 1 < n and m.words[i].low in ("and", ",", "or", "&") and m.words[i + 1].low not in verbs | {","}
                if not long and (m.words[i].low in STOP or m.words[i].low == ",") and not m.words[i].text[0].isupper() and not goes_on:
                    break
                i += 1
            last = i
            while last > first and (m.words[last - 1].low in ("please", "for", "on", "at", "in", "to", "with", "and", "from", "by", "my", "the", "me", ",", "of", "is", "a", "thanks", "about", "now", "into", "as", ":", "that", "-") or (not long and m.words[last - 1].low in verbs)):
                last -= 1
            if not long:
                while last > first and m.words[last - 1].low in skipped:
                    last -= 1
            elif m.words[last - 1 : last] and m.words[last - 1].low in skipped and last - first > 1 and p.kinds[:1] != ("query",) and m.is_(last, "?", ".", "!") is False and m.words[last - 1].low in ("list", "reminder", "calendar", "song", "todo", "task", "notes", "alarm", "light", "lights", "cart"):
                last -= 1
            if first < last:
                runs.append(Span(first, last, m.said(first, last)))
            i = max(i, first + 1)
        if not runs:
            return None
        return max(runs, key=lambda s: s.last - s.first) if long else runs[0]
