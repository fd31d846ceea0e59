"""Recognizes the openings of calls, and what may follow or end a call."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec

from ..dialect.follows import ARGUMENT_END, FOLLOWERS
from ..dialect.markers import (
    ARGUMENT_KEYS,
    BLOCK_END,
    CALL,
    CALL_END,
    END,
    NAME_KEYS,
    Block,
    CallOpening,
    Form,
    Marker,
    Scan,
    literals_of,
    tag_of,
)
from ..dialect.patterns import (
    MAX_SPACE,
    MORE,
    NAME,
    NO,
    SPACES,
    Pattern,
    fence,
    names_call,
    rest_begins,
    skip_brackets,
    skip_separators,
    skip_space,
)
from ..dialect.syntax import Syntax
from ..dialect.template import ObjectShape
from ..regex import Regex
from ..schema import properties_of, takes_text
from .ledger import Tape
from .lookout import ALWAYS, Lookout, first_of

NULL: Final = "null"
SURPLUS: Final = ("]", "}", ")", "`")  # the first character of what may close too much

_JSON_KEY = Regex(rf'\s*+"((?:[^"\\\n]|\\.){{0,256}}+)"{SPACES}:')
_JSON_KEY_MAYBE = Regex(rf'\s*+(?:"(?:[^"\\\n]|\\.){{0,256}}+(?:\\|"{SPACES})?)?\Z')
_WORD = Regex(r"[\w.\-:/=]*+")
_HEADER = Regex(r"(?:(?:<[^\s<>]{0,64}+>?|[\w.\-:/=]{1,256}+)[ \t]{0,8}+){0,4}")
"""The rest of a header: words, as they are in names, and tags."""
_TAG = Regex(r"[<\[]\S")
_SHORT = Regex(r""""(?:[^"\\\n]|\\.){0,256}+"|'(?:[^'\\\n]|\\.){0,256}+'|[0-9]{1,18}+""")
_SHORT_MAYBE = Regex(r"""(?:"(?:[^"\\\n]|\\.){0,256}+(?:\\|")?|'(?:[^'\\\n]|\\.){0,256}+(?:\\|')?|[0-9]{1,18}+)?\Z""")


class Match(msgspec.Struct, frozen=True):
    """How the opening of a call matches."""

    end: int  # where it ends, `NO`, or `MORE`
    fields: dict[str, str]  # the values of its template's fields, as far as it matches
    # The arguments do not begin as they should, or the output ends before them. Such a match counts only if there is no
    # other.
    weak: bool = False
    doubtful: bool = False  # they do not begin as they should, and the call is text if it is never closed


_NONE: Final = Match(NO, {})
_END: Final = attrgetter("end")


class Openings(msgspec.Struct, eq=False):
    """Recognizes calls. Like the `Lookout`, it looks at text without reading it."""

    look: Lookout  # recognizes everything else
    tape: Tape
    names: Mapping[str, Any] | None  # the declared tools by name; ``None`` if they are unknown
    named: str  # the function that the tool choice names, or ``""``
    text_until: int = ALWAYS  # openings of calls before this offset are text
    _searched: tuple[int, int] = (0, 0)  # the offsets between which nothing may end an open string

    # -- openings -----------------------------------------------------------------------------------------------------

    def match(self, o: CallOpening, i: int, *, edge: bool) -> Match:  # hot: the cheapest conditions first
        """How the opening of a call matches at ``i``; ``edge``: at a boundary."""
        look = self.look
        tape = self.tape
        form = o.form
        if tape.base + i < self.text_until or (form.other and not self.names):
            return _NONE
        if not o.marked and (self.names is None or not (edge or self._stands_apart(o, i))):
            return _NONE
        fields: dict[str, str] = {}
        r = look.stands(o.pattern, i, fields) if look.ignores else o.pattern.match(tape.buf, i, fields)
        if r == NO:
            return _NONE
        if r == MORE:
            return self._unfinished(o, form, i, fields)
        if form.shape is not None:
            return Match(self._object_begins(o, form, r), fields)
        if not self._declared(o, i, fields):
            return _NONE
        undeclared = form.wordless and self.names is not None and not self.declares(fields["name"])
        peek = self._arguments_begin(o, form, r, demands=form.demands or undeclared)
        if undeclared and peek == NO:
            return _NONE
        return Match(r, fields) if peek >= 0 else self._without_arguments(o, form, r, fields, cut=peek == MORE)

    def declares(self, name: str) -> bool:
        """Whether a declared tool has this name."""
        return self.names is not None and name in self.names

    def _unfinished(self, o: CallOpening, form: Form, i: int, fields: dict[str, str]) -> Match:
        """How an opening matches that the text cuts: at the output's end, it is a call's if its name is complete, and
        the rest of it may still open arguments."""
        tape = self.tape
        cut = tape.final and form.shape is None and form.arguments and o.pattern.named(tape.buf, i)
        if cut and self._declared(o, i, fields):
            return Match(len(tape.buf), fields, True)
        if o.marked or o.pattern.atoms[0].kind != NAME:
            return Match(MORE, fields)
        rest = tape.buf[i:].rstrip()
        declared = self._begins_name(rest) or rest.startswith(tuple(self.names or ()))
        return Match(MORE, fields) if declared else _NONE

    def _without_arguments(self, o: CallOpening, form: Form, end: int, fields: dict[str, str], *, cut: bool) -> Match:
        """How an opening matches without arguments after it; ``cut``: they may still come."""
        final = self.tape.final
        if not cut and form.syntax is None:
            glued = self._key_in_name(end, fields)
            if glued >= 0:
                return Match(glued, fields)
            cut = glued == MORE
        if not cut:
            counts = form.opening.after_name and not self._outside(o, form)
            return Match(end, fields, True, quotable(form)) if counts else _NONE
        if final and not o.pattern.first and not self.declares(fields.get("name", "")):
            return _NONE  # no marker and no arguments: text
        return Match(end, fields, True) if final else Match(MORE, fields)

    def marker(self, o: Marker, i: int) -> tuple[int, Match | None]:
        """The end of a marker at ``i``, if it counts, and how it matches if it opens a call."""
        if isinstance(o, CallOpening):
            match = self.match(o, i, edge=False)
            return match.end, match
        return self.look.marker(o, i), None

    def as_text(self, o: CallOpening, i: int) -> bool:
        """Whether an opening at ``i`` is text because of what follows, or because it is read again."""
        form = o.form
        if form.shape is not None or not form.opening.after_name:
            return False
        # Text that is read again may be cut off after it.
        again = self.tape.base + i < self.text_until
        return again or (self._outside(o, form) and self.look.stands(o.pattern, i) >= 0)

    def _outside(self, o: CallOpening, form: Form) -> bool:
        """Whether the opening lacks that of its block, so that it counts only if arguments, a closing or the end
        follow."""
        block = self.look.plan.calls.blocks[0]
        return o.block is not None and bool(block.opening.atoms) and not o.block.opening.atoms and quotable(form)

    def _stands_apart(self, o: CallOpening, i: int) -> bool:
        """Whether an unmarked opening may count at ``i``: where a line begins, or after a space; not in code."""
        tape = self.tape
        if i > tape.i and not tape.buf[i - 1].isspace() and not o.anywhere:
            return False
        quoting = self.look.ledger.quoting
        if self.look.quoted(i) or quoting.fenced():
            return False
        return o.anywhere or quoting.blank() or (o.spaced and i > tape.i and tape.buf[i - 1] == " ")

    def _declared(self, o: CallOpening, i: int, fields: dict[str, str]) -> bool:
        """Whether the name may be a call's. If it is unmarked or has unusual characters, it must be declared.

        A longer declared name is not split (`{name}.{name}`, `{name}:{index}`). The tool of a form with bare text must
        take text, if it is declared.
        """
        if o.form.name:
            fields["name"] = o.form.name
            tool = None if self.names is None else self.names.get(o.form.name)
            if tool is not None and not takes_text(tool, o.form.key):
                return False
        if o.pattern.splits_name and self.declares(o.pattern.longer_name(self.tape.buf, i)):
            return False
        name = fields.get("name", "")
        return (self.names is not None and name in self.names) or (o.marked and names_call(name))

    def _begins_name(self, text: str) -> bool:
        """Whether a text may be the name of a declared tool, or its beginning."""
        return self.names is None or any(name.startswith(text) for name in self.names)

    def _object_begins(self, o: CallOpening, form: Form, i: int) -> int:
        """``i`` if an object that may be a call begins there."""
        tape = self.tape
        buf = tape.buf
        j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return MORE
        assert form.shape is not None
        if form.forced and self.named:
            # Any object is the arguments, unless it is the requested call itself.
            wrapped = self.wrapped(i)
            native = 0 if wrapped else self._is_native(o, i)
            return MORE if MORE in (wrapped, native) else NO if native else i
        quote, written = buf[j], form.shape.quote
        if quote != written and not self._mends_quote(quote, written):
            return NO
        return i if o.marked or quote == "'" else self._key_begins(form.shape, i)

    def _mends_quote(self, quote: str, written: str) -> bool:
        """Whether a quote around keys is read in place of the one that a dialect writes."""
        plan = self.look.plan
        quotes = [f.shape.quote for f in plan.calls.forms if f.shape is not None]
        return plan.repairs and (quote, written) == ("'", '"') and "'" not in quotes

    def _key_begins(self, shape: ObjectShape, i: int) -> int:
        """``i`` if the first key there is one of a call's object: any other object is rejected at its first key."""
        buf = self.tape.buf
        m = _JSON_KEY.match(buf, i)
        if m is None:
            return MORE if _JSON_KEY_MAYBE.match(buf, i) and not self.tape.final else NO
        key = m.group(1)
        if shape.name_is_key:
            known = "\\" in key or self.names is None or self.declares(key)
        else:
            known = key == "type" or key in ARGUMENT_KEYS | NAME_KEYS or any(k == key for k, _ in shape.keys)
        return i if known else NO

    def _arguments_begin(self, o: CallOpening, form: Form, i: int, *, demands: bool) -> int:
        """``i`` if arguments begin there, or, unless there must be some, the closing of the call or of its block."""
        if not form.arguments or form.syntax == Syntax.PYTHON or form.syntax == Syntax.TEXT:
            return i
        buf = self.tape.buf
        j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return MORE
        begins = self._markup_begins(j) if form.syntax is None else self._literal_begins(form.syntax, j)
        if begins >= 0:
            return i
        if demands:
            return begins  # without arguments, another form reads another name here, or this is text
        closes = self.look.first(self._closings(o, form), j)
        return i if closes >= 0 else min(begins, closes)

    def _markup_begins(self, i: int) -> int:
        """Whether an argument in markup opens at ``i``, or JSON instead, or a stray closing of one stands there; by the
        rules of `Lookout`."""
        arguments = self.look.plan.arguments
        begun = arguments.begins.match(self.tape.buf, i)
        if begun and begun.lastindex and self.look.stands(arguments.parameters[begun.lastindex - 1].opening, i) >= 0:
            return i
        r = self.look.first(arguments.parameters.openings, i)
        if r < 0 and self.tape.buf[i] == "{":
            return i
        if r == NO and not self.tape.final:
            r = self.look.first([loose for _, loose in arguments.parameters.unopened], i)
        if r >= 0 or not (stray := arguments.stray_closings):
            return r
        end = self.look.first(stray, i)
        if end < 0:
            return first_of((r, end))
        j = skip_space(self.tape.buf, end)
        if j == len(self.tape.buf):
            return i if self.tape.ended else MORE
        behind = first_of((self.look.first(arguments.parameters.openings, j), self.look.first(arguments.closings, j)))
        return i if behind >= 0 else behind

    def _key_in_name(self, i: int, fields: dict[str, str]) -> int:
        """The end of a name, up to ``i``, to which the key of its first argument is glued, as it lacks its first tag;
        `NO` or `MORE`. The key must be declared."""
        name, names = fields.get("name", ""), self.names or {}
        loose = () if name in names else self.look.plan.arguments.parameters.loose
        r = self.look.first([each.tags[0] for _, each in loose], i)
        if r == NO:
            return NO
        found = (n for n in names if name.startswith(n) and name[len(n) :] in properties_of(names[n]))
        own = max(found, key=len, default="")
        if r == MORE or not own:
            return r if own else NO
        fields["name"] = own
        return i - len(name) + len(own)

    def _literal_begins(self, syntax: str, i: int) -> int:
        """Whether arguments that are one literal begin at ``i``: an object, an object in a string, or null."""
        buf = self.tape.buf
        if buf[i] == "`" and syntax == Syntax.JSON:
            at = fence(buf, i, final=self.tape.final)
            return min(at, i)
        if buf[i] == "{" or (buf[i] == '"' and syntax == Syntax.JSON) or (buf[i] == "(" and syntax == Syntax.QUOTE):
            return i
        if syntax == Syntax.JSON and NULL.startswith(buf[i : i + len(NULL)]):
            return i if buf.startswith(NULL, i) else MORE
        return NO

    def _closings(self, o: CallOpening, form: Form) -> list[Pattern]:
        """What may close a call without arguments; its block's closing, if it has none of its own."""
        calls = self.look.plan.calls
        blocks = calls.blocks if o.block is None else [o.block]
        if form.closing or not all(b.closing.worded for b in blocks):
            return calls.call_closings
        return [*calls.call_closings, *(b.closing for b in blocks)]

    def wrapped(self, i: int) -> int:
        """Under a named choice: whether the object is a call (name, then arguments), not arguments: 1, 0, `MORE`."""
        name = json.dumps(self.named)
        return self._spells(i, ('"name"',), (":",), (name,), (",",), ('"arguments"', '"parameters"'), (":",))

    def _is_native(self, o: CallOpening, i: int) -> int:
        """Under a named choice: whether a call is here that the dialect writes as an object without a marker: 1, 0 or
        `MORE`."""
        if not self.declares(self.named):
            return 0
        own = literals_of(o.pattern)
        edge = (m for m in self.look.outline.edge if isinstance(m, CallOpening) and literals_of(m.pattern) == own)
        forms = (m.form for m in edge if not m.form.forced)
        found = [self._spells(i, *_spelling(f.shape, self.named)) for f in forms if f.shape is not None]
        return 1 if 1 in found else MORE if MORE in found else 0

    def begins_object(self, form: Form, i: int) -> int:
        """Whether an object at ``i``, after its bracket, begins as a plain call of a declared tool does: 1, 0 or
        `MORE`."""
        if form.shape is None or form.outside is None:
            return 0
        r = self._spells(i, *_spelling(form.shape, None), ("{",))
        header = form.outside.header.match(self.tape.buf, i) if r == 1 else None
        return r if r != 1 or (header is not None and self.declares(header["name"])) else 0

    def _spells(self, i: int, *expected: tuple[str, ...]) -> int:
        """Whether one text of each group follows at ``i``: 1, 0 or `MORE`. An empty group is any short value."""
        buf = self.tape.buf
        for texts in expected:
            j = skip_space(buf, i)
            if j - i > MAX_SPACE:
                return 0
            i = j
            if texts:
                found = next((len(e) for e in texts if buf.startswith(e, i)), 0)
                doubt = any(rest_begins(e, buf, i) for e in texts)
            else:
                m = _SHORT.match(buf, i)
                found = 0 if m is None or m.end() == len(buf) else m.end() - i
                doubt = _SHORT_MAYBE.match(buf, i) is not None
            if not found:
                return MORE if doubt and not self.tape.final else 0
            i += found
        return 1

    def takes_name(self, form: Form, block: Block, name: str) -> bool:
        """Whether an object is a call of this name; if nothing marks it, the name must be declared."""
        if not form.other and (form.marked or block.marked or (form.forced and name == self.named)):
            return True
        return self.names is not None and name in self.names

    def may_name(self, i: int) -> bool:
        """Whether the text from ``i`` to the output's end may be the name of a declared tool, or its beginning."""
        return not self.tape.final or self._begins_name(self.tape.buf[i:].rstrip())

    def begun(self, pattern: Pattern, i: int) -> bool:
        """Whether an opening at ``i``, which the output's end cuts, looks like one: the field that is cut contains the
        beginning of a name, or a few words, on one line."""
        buf = self.tape.buf
        cut = pattern.cut(buf, i)
        if self.names is not None and cut and self._begins_name(cut):
            return True
        return (_HEADER if _TAG.search(buf, i) else _WORD).fullmatch(cut) is not None

    def pending(self) -> bool:
        """Whether the waiting text is a call's opening, cut after its first marker or before its arguments."""
        buf = self.tape.buf
        i = skip_space(buf, self.tape.i)
        if i >= len(buf):
            return False
        for o in self.look.outline.edge:
            if not isinstance(o, CallOpening) or not o.marked or o.block is None:
                continue
            marker = o.block.opening if o.block.opening and o.block.marked else o.form.opening
            if marker.first and buf.startswith(marker.first, i) and self.look.stands(o.pattern, i) != NO:
                return True
        return False

    # -- what ends a call ---------------------------------------------------------------------------------------------

    def opens_next(self, i: int, *, inside: bool = False) -> int:
        """The end of the opening of another call at ``i``, with a block open (``inside``) or not; `NO` or `MORE`."""
        buf, calls = self.tape.buf, self.look.plan.calls
        if not inside:
            return self._opens(calls.following.at(buf, i), i, edge=False)
        r = self._opens(calls.following_inside.at(buf, i), i, edge=True)
        j = self.separated(i) if r == NO else i
        if j == MORE or j == i or j - i > MAX_SPACE:
            return MORE if j == MORE else r
        return self._opens(calls.following_inside.at(buf, j), j, edge=True)

    def separated(self, i: int) -> int:
        """The end of white space and of the separator of calls at ``i``; `MORE` if the separator may go on."""
        buf = self.tape.buf
        separator = self.look.plan.calls.separator
        j = i if "-" < buf[i : i + 1] < "\x7f" and buf[i] != ";" else skip_separators(buf, i)
        if not separator.atoms or j - i > MAX_SPACE:
            return j
        r = self.look.stands(separator, j)
        if r == MORE and not self.tape.final:
            return MORE
        return skip_separators(buf, r) if r >= 0 else j

    def goes_on(self, i: int, *, marked: bool = False) -> int:
        """The end of the opening of the next call of the same block at ``i``, with a marker or a declared name;
        ``marked``: the block is, so that any object with a call's key is one."""
        inner = self.look.plan.calls.inner_bare.at(self.tape.buf, i)
        inner = [o for o in inner if o.pattern.first or not o.marked]
        r = self._opens(inner, i, edge=True)
        if r != NO or not marked:
            return r
        ends = ((o, self.look.stands(o.pattern, i)) for o in inner if o.form.shape is not None)
        return self.look.settled(first_of(self._object_begins(o, o.form, end) if end >= 0 else end for o, end in ends))

    def _opens(self, openings: list[CallOpening], i: int, *, edge: bool) -> int:
        matches = map(partial(self.match, i=i, edge=edge), openings)
        return self.look.settled(first_of(map(_END, matches))) if openings else NO

    def follows_call(self, i: int, *, closed: bool = False) -> int:
        """``i`` if what follows may follow a call: its block's closing (unless ``closed``), another call, the end."""
        tape = self.tape
        j = self.separated(i)
        if j == MORE or j - i > MAX_SPACE:
            return min(j, NO)
        if j == len(tape.buf):
            return i if tape.ended else MORE
        r = self.behind(CALL_END, j, closed=closed)
        return i if r >= 0 or (r == MORE and tape.ended) else r

    def surplus_end(self, i: int) -> int:
        """The end of the brackets at ``i`` that may close too much, or `MORE`; fences too, if no text had backticks."""
        buf, fences = self.tape.buf, not self.look.ledger.quoting.ticks
        n = skip_brackets(buf, i, fences=fences)
        return MORE if fences and rest_begins("```", buf, n) and buf.startswith("`", n) and not self.tape.final else n

    def surplus(self, i: int, closings: Iterable[Pattern]) -> int:
        """The end of the brackets at ``i`` that close too much, if one of some closings or the turn's end follows."""
        buf = self.tape.buf
        n = self.surplus_end(i) if buf.startswith(SURPLUS, i) else i
        if n == i or n - i > MAX_SPACE:
            return NO
        if n == MORE or (n == len(buf) and not self.tape.final):
            return MORE
        patterns = list(closings)
        for k in range(i + 1, n + 1):  # as few brackets as possible are too many: a closing may begin with others
            r = n if k == len(buf) else min(self.look.first(patterns, k), k)
            behind = skip_space(buf, k)
            if r == NO and buf[k - 1] in "]})`" and behind - k <= MAX_SPACE:
                r = min(self.look.end_here(behind), k)
            if r == MORE and not self.tape.final:
                return MORE
            if r >= 0:
                return k
        return NO

    def behind(self, closing: str, i: int, *, closed: bool = False) -> int:
        """``i`` if the text there may follow a closing, by `FOLLOWERS`; else `NO` or `MORE`.

        Args:
            closing: what was closed. After an argument, the reader of arguments looks for further ones.
            i: the end of white space and separators after it.
            closed: the block is closed as well.
        """
        look, calls, found = self.look, self.look.plan.calls, NO
        inside = closing == ARGUMENT_END
        for kind in FOLLOWERS[closing]:
            if kind == CALL_END:
                r = look.first(calls.argument_followers if inside else calls.call_closings, i)
            elif kind == BLOCK_END:
                r = NO if closed else look.first(calls.block_closings, i)
            elif kind == END:
                r = look.end_here(i)
            elif kind == CALL:
                found = min(found, r := NO if inside else look.first(calls.call_openings, i))
                r = r if r >= 0 else self.opens_next(i, inside=inside)
            else:
                continue
            if r >= 0:
                return i
            found = min(found, r)
        return found

    # -- a marker in an open string -----------------------------------------------------------------------------------

    def string_end(self, scan: Scan, i: int) -> re.Match[str] | None:
        """The first text from ``i`` on that may end an open string. No text is searched again for a later call."""
        tape = self.tape
        begin, end = self._searched
        if begin <= tape.base + i <= end:
            i = end - tape.base
        else:
            begin = tape.base + i
        m = scan.find.search(tape.buf, i)
        self._searched = begin, tape.base + (len(tape.buf) if m is None else m.start())
        return m

    def ends_string(self, scan: Scan, p: int, m: re.Match[str]) -> int:
        """The end of the closing at ``p``, found as ``m``, if it ends both an open string and the call."""
        begun = m.group() not in scan.triggers
        ends = (self._ends_call(o, p) for o in scan.markers.at(self.tape.buf, p))
        return self.look.settled(MORE if begun else first_of(ends))

    def _ends_call(self, o: Marker, p: int) -> int:
        """The end of a closing at ``p``, if it ends the call."""
        r = self.look.marker(o, p)
        return r if r < 0 or o.kind == END or self.look.certain(p) else self.follows_call(r, closed=o.block is not None)

    def marker_within(self, i: int, end: int) -> tuple[int, int]:
        """The first marker between two places in a broken string that may end the call: its place, and whether."""
        scan = self.look.plan.calls.string_ends
        buf = self.tape.buf
        while scan is not None:
            m = scan.find.search(buf, i, end)
            if m is None:
                break
            i = m.start()
            if m.end() == len(buf) or m.group() in scan.triggers:
                r = self.ends_string(scan, i, m)
                if r != NO:
                    return i, r
            i += 1
        return end, NO


def quotable(form: Form) -> bool:
    """Whether prose quotes such openings, so that text after one may be just that: all but JSON's special tokens."""
    return form.syntax is None or not tag_of(form.opening)


def _spelling(shape: ObjectShape, name: str | None) -> Iterator[tuple[str, ...]]:
    """How the object of a call with this name (``None``: any) begins, up to its arguments; an empty group is a short
    value."""
    quote = shape.quote
    names = () if name is None else (quote + json.dumps(name)[1:-1] + quote,)
    if shape.name_is_key:
        yield from (names, (":",), ("{",))
        return
    for n, (key, role) in enumerate(shape.keys):
        if n:
            yield (",",)
        yield from ((f"{quote}{key}{quote}",), (":",))
        if role == "arguments":
            return
        yield names if role == "name" else ()
