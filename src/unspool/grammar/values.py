"""Nodes for values that match a schema, in a dialect's syntax: JSON, Python literals, JSON with other quotes.

Schemas must come from `unspool.grammar.schemas.prepare`.
"""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from ..errors import ConstraintError
from ..renderer.values import JSON, PYTHON, Style, as_escape, in_quotes, read_json, write
from ..schema import MAX_DEPTH
from . import regular
from .flat import in_class, lacking
from .nodes import EMPTY, Chars, Const, Json, Node, Ref, Repeat, Text, Word, choice, optional, seq, series
from .schemas import BOUNDS, merged

Schema = dict[str, Any] | bool

MAX_NAME: Final = 64  # the longest name of an undeclared argument, in characters

_DIGITS = Chars("0-9", max=None)
_INTEGER: Final = seq(optional(Const("-")), choice((Const("0"), seq(Chars("1-9"), Chars("0-9", min=0, max=None)))))
_NUMBER: Final = seq(
    _INTEGER,
    optional(seq(Const("."), _DIGITS)),
    optional(seq(Chars("eE"), optional(Chars("+\\-")), Chars("0-9", max=2))),
)
_HEX = "0-9a-fA-F"
# Escapes of surrogates alone would not be characters.
_UNICODE: Final = choice(
    (
        seq(Const("\\u"), Chars("0-9a-cA-Ce-fE-F"), Chars(_HEX, min=3, max=3)),
        seq(Const("\\u"), Chars("dD"), Chars("0-7"), Chars(_HEX, min=2, max=2)),
    )
)
_JSON_CHARACTER: Final = choice(
    (Chars('"\\\\\\x00-\\x1f', negated=True), seq(Const("\\"), Chars('"\\\\/bfnrt')), _UNICODE)
)


def _python_character(quote: str) -> Node:
    return choice(
        (
            Chars(f"{quote}\\\\\\x00-\\x1f", negated=True),
            seq(Const("\\"), Chars("\\\\'\"abfnrtv")),
            seq(Const("\\x"), Chars("0-9a-fA-F", min=2, max=2)),
            _UNICODE,
        )
    )


class GrammarRules:
    """The rules of a grammar that is being built."""

    def __init__(self) -> None:
        self.found: dict[str, Node] = {}
        self.dense: set[str] = set()
        self._names: dict[Any, str] = {}

    def add(self, node: Node, *, dense: bool = False) -> Node:
        """A reference to the node, or the node itself if it is as short; see `Grammar.dense`."""
        if isinstance(node, Const | Ref | Json | Chars):
            return node
        name = f"n{len(self.found)}"
        self.found[name] = node
        if dense:
            self.dense.add(name)
        return Ref(name)

    def once(self, key: Any, make: Callable[[], Node]) -> Node:
        """A reference to what ``make`` returns, which is called once for each key; the result may refer to itself."""
        if key not in self._names:
            before = len(self.found)
            name = self._names[key] = f"n{before}"
            self.found[name] = EMPTY  # a placeholder
            try:
                self.found[name] = make()
            except ConstraintError:
                self._forget(before)
                raise
        return Ref(self._names[key])

    def _forget(self, before: int) -> None:
        """Drop all but the first rules: later ones may refer to a rule that could not be made."""
        for name in list(self.found)[before:]:
            del self.found[name]
            self.dense.discard(name)
        self._names = {key: name for key, name in self._names.items() if name in self.found}


class ValueSpelling(msgspec.Struct, frozen=True):
    style: Style  # how the renderer writes them
    # Makes strings with a minimum and a maximum length, without certain texts.
    string: Callable[[int, int | None, tuple[str, ...]], Node]
    # Makes an object's key other than those given, without certain texts.
    key: Callable[[list[str], tuple[str, ...]], Node]
    quote: str = ""  # the marker that no text contains, because it is not escaped

    def writes(self, value: object) -> bool:
        """Whether no text in a value contains the quote."""
        return not self.quote or JSON.string(self.quote)[1:-1] not in json.dumps(value, ensure_ascii=False)


def _json_string(min: int, max: int | None, without: tuple[str, ...]) -> Node:
    return Word(seq(Const('"'), Repeat(_JSON_CHARACTER, min, max), Const('"')), without)


def _python_string(min: int, max: int | None, without: tuple[str, ...]) -> Node:
    return choice(Word(seq(Const(q), Repeat(_python_character(q), min, max), Const(q)), without) for q in ("'", '"'))


def other_names(names: list[str]) -> Node:
    """A Python-like name other than ``names``."""
    first, later = frozenset(_FIRST), frozenset(_LATER)
    return Word(_other(_tree(n for n in names if n[:1] in first and later.issuperset(n)), "A-Z_a-z", "0-9A-Z_a-z"))


def _other_strings(quote: str) -> Callable[[list[str], tuple[str, ...]], Node]:
    """Strings without escapes, other than certain names; any string if there are none."""
    plain = f"^{quote}\\\\\\x00-\\x1f"

    def key(names: list[str], without: tuple[str, ...]) -> Node:
        inside = optional(_other(_tree(n for n in names if n), plain, plain)) if names else None
        character = _JSON_CHARACTER if quote == '"' else _python_character(quote)
        return Word(seq(Const(quote), inside or Repeat(character), Const(quote)), without)

    return key


JSON_SPELLING: Final = ValueSpelling(JSON, _json_string, _other_strings('"'))
PYTHON_SPELLING: Final = ValueSpelling(PYTHON, _python_string, _other_strings("'"))


@lru_cache(16)  # rules that are made once are keyed by it
def quote_spelling(quote: str) -> ValueSpelling:
    """JSON with bare keys, whose strings are unescaped between markers."""

    def string(min: int, max: int | None, without: tuple[str, ...]) -> Node:
        return seq(Const(quote), Text(quote, without, min=min, max=max))

    return ValueSpelling(in_quotes(quote), string, lambda names, without: other_names(names), quote)


_FIRST: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_LATER: Final = _FIRST + "0123456789"

_Tree = dict[str, Any]


def _tree(names: Iterable[str]) -> _Tree:
    root: _Tree = {}
    for name in names:
        node = root
        for c in name:
            node = node.setdefault(c, {})
        node[""] = {}
    return root


def _other(tree: _Tree, first: str, later: str) -> Node:
    """Texts of one or more characters that are not in the tree of texts to avoid."""
    inside = [c for c in tree if c]
    parts: list[Node] = [seq(_but(first, inside), _but(later, (), min=0, max=None if later[0] == "^" else MAX_NAME))]
    for c in inside:
        rest = _other(tree[c], later, later)
        parts.append(seq(Const(c), rest if "" in tree[c] else optional(rest)))
    return choice(parts)


def _but(set: str, without: Iterable[str], min: int = 1, max: int | None = 1) -> Chars:
    """The characters of a class (negated if it begins with ``^``), except some."""
    if set[0] == "^":
        return Chars(set[1:] + in_class(without), True, min, max)
    kept = "".join(c for c in _LATER if c not in without and (set[0] == "0" or c in _FIRST))
    return Chars(_ranges(kept) if without else set, False, min, max)


def _ranges(characters: str) -> str:
    """The inside of a character class; neighbours are joined to ranges."""
    spans = regular.merged_ranges((ord(c), ord(c)) for c in characters)
    return "".join(chr(a) + ("-" if b > a + 1 else "") + (chr(b) if b > a else "") for a, b in spans)


class Values:
    """Nodes for the values of one schema. Their strings contain no text of ``without``."""

    def __init__(
        self, spelling: ValueSpelling, rules: GrammarRules, root: Schema, without: tuple[str, ...] = ()
    ) -> None:
        self.spelling = spelling
        self.rules = rules
        self.definitions: dict[str, Schema] = root.get("$defs", {}) if isinstance(root, dict) else {}
        self.without = without
        self.style = spelling.style
        self._depth = 0

    def resolve(self, schema: Schema) -> Schema:
        """Follow a schema that is only a reference, and merge its ``allOf``."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or not ("$ref" in schema or "allOf" in schema):
                return schema
            rest = {k: v for k, v in schema.items() if k not in ("$ref", "allOf", "$defs")}
            parts = [rest, *schema.get("allOf", ())]
            if "$ref" in schema:
                parts.append(self.definitions[schema["$ref"].rpartition("/")[2]])
            schema = merged(parts)
        raise ConstraintError(f"$ref: a chain of more than {MAX_DEPTH} references")

    def branches(self, schema: Schema) -> list[Schema]:
        """The alternatives of a schema, each including what applies to all of them."""
        schema = self.resolve(schema)
        if not isinstance(schema, dict):
            return [schema]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                rest = {k: v for k, v in schema.items() if k not in (key, "$defs")}
                found = []
                for part in schema[key]:
                    found += self.branches(merged([rest, part]) if rest else part)
                return found
        return [schema]

    def value(self, schema: Schema, at: str) -> Node:
        """A value that matches the schema; ``at`` names its place, for errors."""
        if isinstance(schema, dict) and "$ref" in schema:
            rest = json.dumps({k: v for k, v in schema.items() if k not in ("$ref", "$defs")}, sort_keys=True)
            key = (id(self.definitions), schema["$ref"], id(self.spelling), self.without, rest)
            return self.rules.once(key, lambda: self._value(schema, at))
        return self._value(schema, at)

    def _value(self, schema: Schema, at: str) -> Node:
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            raise ConstraintError(f"{at}: nested deeper than {MAX_DEPTH}")
        try:
            found = [self._branch(branch, at) for branch in self.branches(schema)]
        finally:
            self._depth -= 1
        possible = [node for node in found if node is not None]
        if not possible:
            raise ConstraintError(f"{at}: admits no value")
        return choice(possible)

    def _branch(self, schema: Schema, at: str) -> Node | None:
        if schema is False:
            return None
        if schema is True or not schema.keys() - {"$defs"}:
            return self.anything()
        if "const" in schema:
            only = schema["const"]
            return self.listed([only], at) if only in schema.get("enum", [only]) else None
        if "enum" in schema:
            return self.listed(schema["enum"], at)
        if "type" not in schema:
            return self.anything()
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return choice(self._typed(schema, kind, at) for kind in types)

    def listed(self, values: list[object], at: str) -> Node:
        """One of the values of an ``enum`` or ``const``."""
        texts = [
            write(read_json(json.dumps(v, ensure_ascii=False)), self.style) for v in values if self.spelling.writes(v)
        ]
        kept = [t for t in texts if not any(w in t for w in self.without)]
        if not kept:
            raise ConstraintError(f"{at}: all its values contain markers of the dialect")
        return choice(map(Const, kept))

    def _typed(self, schema: dict[str, Any], kind: str, at: str) -> Node:
        if kind == "string":
            return self.string(schema, at)
        if kind in ("integer", "number"):
            return self.number(schema, kind)
        if kind == "boolean":
            return choice((Const(self.style.true), Const(self.style.false)))
        if kind == "null":
            return Const(self.style.null)
        return self.array(schema, at) if kind == "array" else self.object(schema, at)

    def string(self, schema: dict[str, Any], at: str) -> Node:
        if "pattern" in schema:
            return self.matching(schema, at)
        return self.spelling.string(schema.get("minLength", 0), schema.get("maxLength"), self.without)

    def matching(self, schema: dict[str, Any], at: str) -> Node:
        """A JSON string that matches a pattern; a character that a marker needs is written as an escape."""
        if self.spelling is not JSON_SPELLING:
            raise ConstraintError(f"{at}.pattern: is not supported unless strings are JSON; supported are {_STRINGS}")
        if bound := next((key for key in ("minLength", "maxLength") if key in schema), ""):
            raise ConstraintError(f"{at}.{bound}: is not supported in GBNF beside pattern")
        try:
            inside = regular.node(regular.sought(schema["pattern"]), frozenset(map(ord, lacking(self.without, '"'))))
        except ValueError as error:
            raise ConstraintError(f"{at}.pattern: {error}") from None
        return seq(Const('"'), inside, Const('"'))

    def number(self, schema: dict[str, Any], kind: str) -> Node:
        """Numbers are written alike in every spelling."""
        bounds = {k: v for k, v in schema.items() if k in BOUNDS}
        if bounds:
            return Json({"type": kind, **bounds})
        return Word(_INTEGER if kind == "integer" else _NUMBER)

    def array(self, schema: dict[str, Any], at: str) -> Node:
        elements = self.elements(schema, lambda node, name: self.value(node, f"{at}.{name}"), self.style.comma)
        return seq(Const("["), elements, Const("]"))

    def elements(self, schema: dict[str, Any], item: "Callable[[Schema, str], Node]", separator: str) -> Node:
        """The elements of an array; ``item`` makes one from its schema and its place."""
        first = schema.get("prefixItems", [])
        low, high = schema.get("minItems", 0), schema.get("maxItems")
        rest = schema.get("items", True)
        comma = Const(separator)
        if not first:
            if rest is False or high == 0:
                return EMPTY
            return Repeat(item(rest, "items"), low, high, separator)
        # A tuple, built backwards: each element may only exist if those before it do.
        tail: Node = EMPTY
        if rest is not False and (high is None or high > len(first)):
            more = None if high is None else high - len(first)
            tail = Repeat(seq(comma, item(rest, "items")), max(0, low - len(first)), more)
        for i in reversed(range(min(len(first), len(first) if high is None else high))):
            element = item(first[i], f"prefixItems[{i}]")
            tail = seq(comma if i else EMPTY, element, tail)
            tail = tail if i < low else optional(tail)
        return tail

    def key(self, name: str, at: str) -> str:
        """The name of a property, with markers escaped as in `unspool.render`; `ConstraintError` if they cannot be."""
        text = self.style.key(name)
        marker = next((t for t in self.without if t and t in text), "")
        if marker and self.style is not JSON:
            raise ConstraintError(f"{at}.properties: the name {name[:60]!r} contains a marker of the dialect")
        while marker:
            text = text.replace(marker, as_escape(marker[0]) + marker[1:])
            marker = next((t for t in self.without if t and t in text), "")
        return text

    def object(self, schema: dict[str, Any], at: str) -> Node:
        entries, extra = self.entries(schema, at)
        if extra is not None:
            extra = seq(self.spelling.key(member_names(schema), self.without), Const(self.style.colon), extra)
        members = [(seq(Const(self.key(k, at) + self.style.colon), v), r) for k, v, r in entries]
        inside = self.members(members, extra, self.style.comma)
        return seq(Const("{"), inside, Const("}"))

    def entries(self, schema: dict[str, Any], at: str) -> tuple[list[tuple[str, Node, bool]], Node | None]:
        """Declared members (name, value, whether required) in the schema's order, and the value of others."""
        for keyword in ("patternProperties", "minProperties", "maxProperties"):
            if keyword in schema:
                where = "in GBNF" if self.spelling is JSON_SPELLING else "unless arguments are JSON"
                raise ConstraintError(f"{at}.{keyword}: is not supported {where}")
        declared, others = shape(schema)
        found = [(name, self.value(node, f"{at}.{name}"), required) for name, node, required in declared]
        return found, None if others is False else self.value(others, f"{at}.additionalProperties")

    def members(self, entries: list[tuple[Node, bool]], extra: Node | None, separator: str) -> Node:
        """Members in order, optional unless required, then other members, with separators."""
        if not separator:
            found = [node if required else optional(node) for node, required in entries]
            return seq(*found, *(() if extra is None else (Repeat(extra),)))
        comma = Const(separator)
        # Built backwards: what may follow if nothing was written yet, and if something was.
        first: Node = optional(Repeat(extra, 1, None, separator)) if extra is not None else EMPTY
        later: Node = Repeat(seq(comma, extra)) if extra is not None else EMPTY
        for node, required in reversed(entries):
            if required:
                first, later = seq(node, later), seq(comma, node, later)
            else:
                # A repeated part is a reference, except for its beginning, which is joined with the separator.
                head, *rest = series(node)
                node = seq(head, self.rules.add(seq(*rest)))
                later = self.rules.add(later)
                first = choice((seq(node, later), first))
                later = seq(optional(seq(comma, node)), later)
        return self.rules.add(first, dense=True) if sum(not required for _, required in entries) > 2 else first

    def anything(self) -> Node:
        key = ("anything", id(self.spelling), self.without)
        return self.rules.once(key, self._anything)

    def _anything(self) -> Node:
        style, value = self.style, self.anything()
        string = self.spelling.string(0, None, self.without)
        name = self.spelling.key([], self.without)
        return choice(
            (
                string,
                Word(_NUMBER),
                *(Const(word) for word in (style.true, style.false, style.null)),
                seq(Const("["), Repeat(value, 0, None, style.comma), Const("]")),
                seq(Const("{"), Repeat(seq(name, Const(style.colon), value), 0, None, style.comma), Const("}")),
            )
        )


_STRINGS: Final = "enum, const, minLength, maxLength"


def shape(schema: dict[str, Any]) -> tuple[list[tuple[str, Schema, bool]], Schema]:
    """The members that an object declares (name, schema, whether required), in the order in which they are written,
    and the schema of other members. Members that must not exist are left out."""
    others: Schema = schema.get("additionalProperties", True)
    properties = dict(schema.get("properties", {}))
    for name in schema.get("required", ()):
        if name not in properties:
            if others is False:
                raise ConstraintError(f"required: {name!r} is neither declared nor an additional property")
            properties[name] = others
    required = schema.get("required", ())
    return [(k, v, k in required) for k, v in properties.items() if v is not False or k in required], others


def member_names(schema: dict[str, Any]) -> list[str]:
    """The names that a schema gives to members, which other members must not have."""
    return list(dict.fromkeys((*schema.get("properties", ()), *schema.get("required", ()))))
