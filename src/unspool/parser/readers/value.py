"""Turns the text of one argument into JSON."""

import json
import re
from collections.abc import Mapping
from typing import Final

from ...dialect.markers import Parameter
from ...dialect.syntax import Syntax
from ...schema import Kinds, Marked, Schema, decode, is_json_value, repeated_key
from ..ledger import CAP
from ..openings import NULL
from .containers import Containers, Held, is_list
from .literal import DONE, ERROR, LiteralReader
from .spelling import Root
from .strings import escaped, json_string
from .whole import whole_object


class ValueKind:
    """How the text of an argument becomes JSON."""

    STRING: Final = "string"  # a string, passed on as it arrives
    NULLABLE: Final = "nullable"  # held while it may be `null`, else a string
    GUESS: Final = "guess"  # held while it may be JSON, else a string
    TYPED: Final = "typed"  # held to its end, then decoded as its schema and its markup allow
    QUOTED: Final = "quoted"  # held while it may be a string in quotes that would be another type without them


class Value:
    """The text of one argument, which arrives piece by piece."""

    def __init__(
        self, containers: Containers, parameter: Parameter, fields: dict[str, str], schema: Schema | None
    ) -> None:
        # parameter, fields: the template of its opening, and its fields.
        self.parameter = parameter
        self.fields = fields
        self.schema = schema  # the value's, if it is known
        key = fields.get("key", "")
        # A tag of its key's name, which a model may write in place of its closing; ``""`` if that is its closing.
        self.tag = f"</{key}>" if parameter.closing.alone and parameter.closing.first != f"</{key}>" else ""
        self.starting = True  # its text has not begun: what stands there may belong to its opening
        self.line_start = False  # none of its text was read yet, and it begins at the start of a line
        self.begun = False  # a piece of it was emitted
        self._call = containers.call
        self._containers = containers
        self._held: list[str] = []
        self._size = 0  # how many characters are held
        self._limit = CAP  # how many may be held
        self._literal: LiteralReader | None = None  # checks whether the text is JSON
        self._rest = ""  # the text that this has not consumed
        kinds = self.kinds = None if schema is None else schema.kinds()
        self._marked = type_by_markup(fields)
        kind = self.kind = kind_of(kinds, self._marked)  # how its text becomes JSON
        if kind == ValueKind.GUESS:
            self._literal = LiteralReader(Syntax.JSON, Root.ANY)
        elif kind == ValueKind.TYPED and self._marked is Marked.NOT and kinds is not None:
            self._limit = limit_of(kinds)

    def starts(self, *, line: bool, quoted: bool, tagged: bool) -> None:
        """Its text begins: at the start of a line (``line``), with a quote, or with a tag of its key's name."""
        self.starting = False
        self.line_start = line
        if tagged:  # whose closing is its own
            self.tag = ""
        if quoted and self.kind != ValueKind.TYPED:
            # It may be a string in quotes that distinguish it from another type.
            self.kind = ValueKind.QUOTED

    def holds(self) -> bool:
        """Whether it is held to its end, however long it is."""
        return self.kind == ValueKind.TYPED and self._limit == CAP and self._size < CAP // 2

    def push(self, text: str, end: int) -> None:  # a branch for each kind of value
        """Add text that ends at an offset."""
        self.line_start = False
        kind = self.kind
        if kind == ValueKind.STRING:
            self._emit(escaped(text), end)
            return
        room = self._limit - self._size
        self._held.append(text)
        self._size += len(text)
        if kind == ValueKind.NULLABLE:
            if self._size > 64 or not NULL.startswith("".join(self._held).strip()):
                self._as_string(end)
        elif kind == ValueKind.GUESS:
            literal = self._literal
            assert literal is not None
            rest = self._rest + text[:room]  # nothing beyond the limit decides, however the text is cut
            used = literal.read(rest, 0)
            literal.take()
            self._rest = rest[used:]
            begins = self._held[0].lstrip()[:1] if not literal.stack else ""
            if literal.mode == ERROR or begins == '"' or (literal.mode == DONE and self._rest.strip()):
                self._as_string(end)
        elif kind == ValueKind.QUOTED:
            head = "".join(self._held[:2])[1:2]
            if head and head not in " \t\n\r{[-0123456789tfn":
                self._as_string(end)
        if self._size > self._limit and self.kind != ValueKind.STRING:
            notice = "hold_overflow" if self._limit == CAP else "value_type"
            self._call.notice(notice, self.fields.get("key", ""))
            self._as_string(end)

    def _as_string(self, end: int) -> None:
        """Emit what was held as a string."""
        text = "".join(self._held)
        self._held = []
        self.kind = ValueKind.STRING
        self._emit(escaped(text), end)

    def _emit(self, fragment: str, end: int) -> None:
        """Emit a piece of a string."""
        if self.begun:
            self._containers.piece(fragment, end, first=False)
        else:
            self.begun = True
            self._containers.piece(f'"{fragment}', end, first=True)

    def done(self, end: int) -> None:
        """End the value at an offset."""
        containers = self._containers
        if self.kind == ValueKind.STRING:
            self._emit('"', end)
            json_text = containers.pieces()
            if json_text is not None:
                containers.value(Held(json_text, json.loads(json_text)), end)
        else:
            held = self._decoded("".join(self._held))
            if not containers.held_back and containers.levels[-1].bracket == "{" and is_list(self.kinds):
                containers.hold(containers.levels[-1])  # another value may follow
            elif not held.fits and not containers.held_back:
                self._call.notice("value_type", self.fields.get("key", ""))
            containers.value(held, end)
        containers.leave()

    def _decoded(self, text: str) -> Held:  # a branch for each kind of value
        """The JSON of a value that was held to its end."""
        kind = self.kind
        if kind == ValueKind.GUESS:
            literal = self._literal
            assert literal is not None
            if literal.mode != DONE:
                literal.read(self._rest + " ", 0)  # the space ends a number or a word
            if literal.mode != DONE:
                return Held(json_string(text), text)
            decoded = text.strip()
        elif kind == ValueKind.NULLABLE:
            return Held(NULL if text.strip() == NULL else json_string(text), text)
        elif kind == ValueKind.QUOTED:
            return Held(json_string(unquoted(text)), text)
        else:
            kinds = self.kinds
            decoded, fits = decode(
                unquoted(text) if self._call.context.plan.arguments.quoted else text, kinds, self._marked
            )
            if not text and self._call.context.plan.arguments.items and kinds is not None:
                # An empty container and an empty text look alike; the schema decides.
                empty = "[]" if "array" in kinds.types else "{}" if "object" in kinds.types else ""
                decoded, fits = (empty, True) if empty else (decoded, fits)
            if not fits:
                decoded = self._repaired(text.strip(), kinds) or decoded
                return Held(decoded, text if decoded[0] == '"' else decoded, decoded[0] != '"')
        if decoded[0] in "[{":
            key = repeated_key(decoded)
            if key is not None:
                self._call.notice("duplicate_arguments", key)
        return Held(decoded, text)

    def _repaired(self, text: str, kinds: Kinds | None) -> str:
        """The JSON of an object or a list that is written nearly as JSON, as with line breaks in its strings, or as
        Python writes it, and whose last brackets may be too few or too many; ``""`` if the text is none, or the schema
        admits no such value."""
        kind = {"{": "object", "[": "array"}.get(text[:1])
        if kind is None or (kinds is not None and kind not in kinds.types):
            return ""
        literal = LiteralReader(Syntax.JSON, Root.ANY, repair=True)
        rest = text[literal.read(text, 0) :]
        if literal.mode != DONE and text[-1] != ",":  # brackets that are missing at its end
            rest += "".join(["}" if bracket == "{" else "]" for bracket in reversed(literal.stack)])
            rest = rest[literal.read(rest, 0) :]
        decoded = literal.take()
        if literal.mode != DONE or rest.strip("]} \t\r\n") or text[0] != decoded[0]:
            return ""
        self._call.status = "repaired"
        self._call.notice("repaired", literal.repaired or "brackets")
        for note in literal.notes:
            self._call.notice(*note)
        return decoded


def kind_of(kinds: Kinds | None, marked: Marked) -> str:
    """How the text of a value becomes JSON, by the types that its schema admits, and by its markup."""
    any_string = kinds is not None and kinds.strings is None and "string" in kinds.types
    if marked is not _UNMARKED:
        return ValueKind.STRING if marked is Marked.STRING and (any_string or kinds is None) else ValueKind.TYPED
    if kinds is None:
        return ValueKind.GUESS
    if any_string:
        return ValueKind.NULLABLE if "null" in kinds.types else ValueKind.STRING
    return ValueKind.TYPED


def limit_of(kinds: Kinds) -> int:
    """How many characters of a typed value may be held: no more than the longest string that its schema lists."""
    if kinds.strings is not None and kinds.types <= {"string", "null"}:
        return max(map(len, (NULL, *kinds.strings)))
    return CAP


def plain_value(schema: Schema | None, text: str, marked: Marked) -> str | None:  # a branch for each kind of value
    """The JSON of a complete value; ``None`` if a `Value` may do more than decode it."""
    kinds = None if schema is None else schema.kinds()
    kind = kind_of(kinds, marked)
    if kind == ValueKind.STRING:
        return json_string(text)
    if len(text) > CAP // 2:
        return None
    if kind == ValueKind.NULLABLE:
        return NULL if text.strip() == NULL else json_string(text)
    if kind == ValueKind.GUESS:
        inside = text.strip(" \t\n\r")
        if inside[:1] not in _JSON_BEGINS:
            return json_string(text)
        return inside if inside[0] == "{" and whole_object(inside, 0) == len(inside) else None
    if marked is _UNMARKED and kinds is not None and len(text) > limit_of(kinds):
        return None
    json_text, fits = decode(text, kinds, marked)
    return json_text if fits and (json_text[0] not in "[{" or repeated_key(json_text) is None) else None


_JSON_BEGINS: Final = frozenset("{[-0123456789tfn")


def type_by_markup(fields: Mapping[str, str]) -> Marked:
    """The type of an argument according to its opening."""
    markup = fields.get("string") or fields.get("type")
    if markup is None:
        return _UNMARKED
    return Marked.STRING if markup == ("true" if "string" in fields else "string") else Marked.OTHER


def marked_by(argument: re.Match[str]) -> Marked:
    """The same for a complete argument, as matched by `Parameter.plain`."""
    return type_by_markup(argument.groupdict()) if argument.re.groups > _KEY_AND_VALUE else _UNMARKED


_KEY_AND_VALUE: Final = 2
_UNMARKED: Final = Marked.NOT  # Python 3.11 is slow to find members of enumerations


def unquoted(text: str) -> str:
    """A text without its quotes, if they distinguish it from JSON other than a string."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' and is_json_value(text[1:-1]) else text
