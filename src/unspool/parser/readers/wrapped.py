"""Unwraps arguments: from a JSON string that contains the object, or from an object's only member."""

import json
import re
from typing import Final

from ...dialect.patterns import MORE, NO, fence, rest_begins, skip_space
from ...dialect.syntax import Syntax
from ...regex import Regex
from ...schema import Schema, declared_object
from .literal import DONE, ERROR, MAX_HELD, STRING, VALUE, LiteralReader
from .spelling import Root


class UnwrapReader:
    """Reads arguments that come as a string with a JSON object inside: decodes the string, and reads the object.

    It has the interface of a `LiteralReader`.
    """

    def __init__(self, syntax: str, *, repair: bool = False) -> None:
        self._outer = LiteralReader(syntax, Root.ANY, repair=repair)
        self._inner = LiteralReader(Syntax.JSON, Root.OBJECT, repair=repair)
        self.stack = self._outer.stack
        self.notes = self._inner.notes
        self._inner_error = ""
        self._decoded = ""
        self._raw = ""
        self._started = False
        self._fenced = False  # the object is in a fence
        self.mode = VALUE
        self.error = ""
        self.out: list[str] = []

    @property
    def delimiter(self) -> str:
        """The quote that ends the string, inside of it."""
        return self._outer.delimiter

    @property
    def repaired(self) -> str:
        """The first repair that was made, or ``""``."""
        return self._outer.repaired or self._inner.repaired

    def take(self) -> str:
        """The JSON text read since the last call."""
        text = "".join(self.out)
        self.out = []
        return text

    def rest(self) -> str:
        """Take the held text."""
        return self.take() + self._inner.rest()

    def close_all(self) -> str:
        """The text that would close the object inside."""
        return self._inner.close_all() if self.mode == STRING and not self._inner_error else ""

    def read(self, text: str, i: int) -> int:
        """Consume ``text`` from ``i`` on; see `LiteralReader.read`."""
        outer = self._outer
        i = outer.read(text, i)
        self.mode = outer.mode
        self.error = outer.error
        self._raw += outer.take()
        if not self._started:
            if not self._raw:
                return i
            self._raw = self._raw.lstrip()[1:]
            self._started = True
        ended = self.mode == DONE
        self._decode(ended=ended)
        self.out = [] if self._inner_error else [self._read_inner(ended=ended)]
        if self._inner_error:
            # The rest of the string is emitted as it is; when it ends, the call ends as invalid.
            self.out.append(self._decoded)
            self._decoded = ""
            if ended:
                self.mode = ERROR
                self.error = self._inner_error
        return i

    def _decode(self, *, ended: bool) -> None:
        """Decode what was read of the string: whole escapes only; half a surrogate pair waits for the other half."""
        raw = self._raw[:-1] if ended else self._raw
        m = None if ended else _HIGH_SURROGATE.search(raw)
        keep = 6 if m is not None and len(m.group(1)) % 2 else 0
        self._raw = raw[len(raw) - keep :]
        complete = raw[: len(raw) - keep]
        self._decoded += _JSON_ESCAPE.sub(_unescape, complete) if "\\" in complete else complete

    def _read_inner(self, *, ended: bool) -> str:
        """Read what was decoded, and return the JSON; ``ended``: the string is complete."""
        inner = self._inner
        if inner.mode == VALUE and not inner.stack:
            self._decoded = self._decoded.lstrip()
            at = fence(self._decoded, 0, final=ended)
            if at == MORE:
                return ""
            if at >= 0:
                self._fenced = True
                self._decoded = self._decoded[at:]
        used = inner.read(self._decoded, 0)
        self._decoded = self._decoded[used:]
        if inner.mode == ERROR:
            self._inner_error = inner.error
            return inner.rest()
        rest = self._decoded.strip()
        if inner.mode == DONE and rest and not (self._fenced and "```".startswith(rest)):
            self._inner_error = "text after the arguments"
        elif ended and inner.mode != DONE:
            if not inner.stack and not self._decoded.strip():
                return "{}"
            self._inner_error = "a string that contains no object"
        return inner.take()


_HIGH_SURROGATE = Regex(r"(\\++)u[dD][89abAB][0-9a-fA-F]{2}\Z")
_JSON_ESCAPE = Regex(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.S)
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescape(m: re.Match[str]) -> str:
    high, low, code, simple = m.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code is not None:
        return chr(int(code, 16))
    return _UNESCAPED.get(simple, simple)


WRAPPERS: Final = ("arguments", "parameters", "input")  # names under which models sometimes give all arguments as one
NAME: Final = "name"  # what may stand before them, with the call's name once more
_LONGEST: Final = 256  # the longest beginning of a wrapper, in characters, white space included


class Unwrapping:
    """JSON that is either the call's arguments, or an object that contains them, also as a string, alone or after the
    call's name."""

    def __init__(self, schema: Schema, call: str) -> None:
        self._schema = schema
        self._call = call
        self._text: list[str] = []
        self._size = 0
        self._start = -1  # where the inner object begins, once that is certain
        self.over = False  # it is decided which, and nothing is held any more
        self.overflown = False  # too much was held

    def push(self, fragment: str) -> str:
        """Add a piece of the arguments, and return what may be emitted."""
        self._text.append(fragment)
        self._size += len(fragment)
        if self._start < 0:
            text = "".join(self._text)
            self._text = [text]
            self._start = self._begins(text)
            if self._start == _NEVER:
                return self.rest()
        if self._start >= 0 and self._size > MAX_HELD:
            self.overflown = True
            return self.rest()
        return ""

    def rest(self) -> str:
        """The held text, as it is."""
        self.over = True
        text = "".join(self._text)
        self._text = []
        return text

    def close(self) -> str:
        """The arguments are complete: return what is still to be emitted."""
        text = self.rest()
        if self._start < 0:
            return text
        outer: tuple[tuple[str, object], ...] = _PAIRS.decode(text)
        value = outer[-1][1]
        inner = value if isinstance(value, str) else text[self._start : text.rindex("}")]
        alone = len(outer) == 1 + (outer[0][0] == NAME)
        return (declared_object(inner, self._schema) or text) if alone else text

    def _begins(self, text: str) -> int:
        """Where the inner object begins; `_NEVER` if there is none, -1 while that is undecided."""
        if not _MAY_WRAP.match(text):
            return -1 if _BEGUN.fullmatch(text) else _NEVER
        names = [f'"{wrapper}"' for wrapper in WRAPPERS if not self._schema.declares(wrapper)]
        i, steps = 0, [["{"], [*names, f'"{NAME}"'], [":"], ["{", '"']]
        for expected in steps:
            i = skip_space(text, i)
            found = next((e for e in expected if text.startswith(e, i)), None)
            if i > _LONGEST or (found is None and not any(rest_begins(e, text, i) for e in expected)):
                return _NEVER
            if found is None:
                return -1
            if found == f'"{NAME}"':
                steps[2:] = [[":"], [json.dumps(self._call)], [","], names, [":"], ["{", '"']]
            i += len(found)
        return i - 1


_NEVER: Final = -2
_PAIRS: Final = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=tuple)


_FIRST: Final = "|".join((*WRAPPERS, NAME))
WRAPPED: Final = Regex(rf'\{{\s*+"(?:{_FIRST})"')
"""Matches the beginning of arguments whose first key is a wrapper's name, or `NAME`."""
_SPACE: Final = rf"\s{{0,{_LONGEST}}}+"
_BEGUN: Final = Regex(rf'{_SPACE}(?:\{{{_SPACE}"?)?')
"""Matches arguments before their first key."""
_MAY_WRAP: Final = Regex(rf'{_SPACE}\{{{_SPACE}"[{"".join(sorted({name[0] for name in (*WRAPPERS, NAME)}))}]')
"""Matches the beginning of arguments whose first key begins as a wrapper's name, or `NAME`."""
UNWRAPPED: Final = Regex(rf'[ \t\n\r]*+\{{[ \t\n\r]*+(?:\}}|"(?!(?:{_FIRST})")[^"]*")')
"""Matches the beginning of arguments whose first key is known, and is neither."""


def unwrapping(schema: Schema | None, name: str) -> Unwrapping | None:
    """An `Unwrapping` for a call; ``None`` if the schema names no members."""
    named = schema is not None and schema.names_members() and schema.types is not None
    return Unwrapping(schema, name) if schema is not None and named else None


DEFINING: Final = {"type": '{"type":"object"', "properties": '{"properties":{'}
"""How a schema begins, by its first member, without white space."""
_KEYWORDS: Final = "type|description|title|enum|anyOf|oneOf|allOf|default|\\$ref"
_DESCRIBED: Final = Regex(rf'\{{"([^"]*)":\{{"(?:{_KEYWORDS})"')
_DESCRIBED_MAYBE: Final = Regex(r'\{(?:"[^"]*(?:"(?::(?:\{(?:"[$\w]*)?)?)?)?)?')
"""How an object begins whose first member is a schema, without white space; or the beginning of that."""
_HEAD: Final = 256  # the longest of these beginnings, in characters, white space included


def defines(  # a line for each sign
    text: str, i: int, schema: Schema | None, *, described: bool = False, final: bool = True
) -> int:
    """Whether the object at ``i`` declares arguments, as in a quoted tool: it is their schema, or, in an object that
    is ``described``, has one for each. ``i``, `NO`, or `MORE`."""
    if schema is None or not schema.names_members():
        return NO
    head = "".join(text[i : i + _HEAD].split()).replace("'", '"')
    begins = [begin for key, begin in DEFINING.items() if not schema.declares(key)]
    if head.startswith(tuple(begins)):
        return i
    each = _DESCRIBED.match(head) if described else None
    if each is not None:
        member = schema.property(each[1])
        return NO if member is not None and (member.types is None or "object" in member.types) else i
    doubtful = any(b.startswith(head) for b in begins) or (described and _DESCRIBED_MAYBE.fullmatch(head))
    return MORE if doubtful and not final and len(text) - i < _HEAD else NO
