"""Finds the types that a tool's JSON Schema gives to values, and converts text to them.

XML-like dialects write ``<parameter=days>3</parameter>``, which does not say whether ``3`` is a number or text. The
schema does, and `decode` writes the JSON.

Schemas come from requests, so they are not trusted: nothing here raises, malformed parts are ignored, and every query
visits at most `MAX_VISITS` nodes, at most `MAX_DEPTH` deep. A schema without information gives "unknown" (``None``),
as do ``true``, ``false`` and everything that is not a ``dict``.
"""

import enum
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from math import isinf
from typing import Any, Final, Literal, cast, get_args

import msgspec

from .regex import Regex
from .validation import refuse_constant

JsonType = Literal["string", "number", "integer", "boolean", "null", "object", "array"]
Types = frozenset[JsonType]
Node = dict[Any, Any]

MAX_DEPTH: Final = 64  # how deep one query follows references and combinations
MAX_VISITS: Final = 10_000  # how many nodes (and values of enums) one query visits
MAX_NESTING: Final = 512  # how deep arrays and objects may be nested in a value
_REMEMBERED: Final = 64
"""The most names of members that a schema caches besides those that it lists, and their longest length."""
_MAX_KEPT: Final = 16_384  # the largest schema, in bytes of JSON, that is kept for later requests
_MAX_POINTER: Final = 2_048  # the longest ``$ref``, in characters

_encode: Final = msgspec.json.Encoder().encode
_NAMES: Final = frozenset(get_args(JsonType))
_NAMING: Final = ("properties", "$ref", "allOf", "anyOf", "oneOf")  # the keywords that name members of an object
_NOTHING: Final[Types] = frozenset()
_NULL: Final[Types] = frozenset({"null"})
_OF_PYTHON: Final[dict[type, JsonType]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
}


class Kinds(msgspec.Struct, frozen=True):
    """The types and strings that a schema admits."""

    types: Types
    strings: frozenset[str] | None = None
    """The strings that it lists (``enum``, ``const``); ``None`` if it admits any, or no strings at all."""


class Schema:
    """One node of a schema, read lazily; its ``$ref`` pointers start from ``root``."""

    __slots__ = ("_declared", "_elements", "_kinds", "_members", "_node", "_root")

    def __init__(self, node: object, root: object = None) -> None:
        self._node = node
        self._root = node if root is None else root
        # The results of earlier queries; ``False``: none was made.
        self._kinds: Kinds | Literal[False] | None = False
        self._members: dict[str, Schema | None] = {}
        self._declared: dict[str, Schema | None] = {}
        self._elements: Schema | Literal[False] | None = False

    def kinds(self) -> Kinds | None:
        """The types and the strings that a value may have; ``None`` if the schema does not say."""
        if self._kinds is False:
            kinds = _Walk(self._root).kinds(self._node, 0)
            self._kinds = kinds if kinds and kinds.types else None
        return self._kinds

    @property
    def types(self) -> Types | None:
        """The JSON types that a value may have; ``None`` if the schema does not say.

        ``number`` stands for integers too, so ``integer`` is never listed beside it. A schema that contradicts itself
        (a string whose enum lists numbers) does not say either.
        """
        kinds = self.kinds()
        return None if kinds is None else kinds.types

    def property(self, name: str) -> "Schema | None":
        """The schema of an object's member; ``None`` if it is not declared."""
        return self._member(name, _own_property, self._members)

    def required(self) -> list[str]:
        """The members that the object must have."""
        required = self._node.get("required") if isinstance(self._node, Mapping) else None
        return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []

    def only_string(self) -> str | None:
        """The object's only required member, if it may be any string."""
        required = self.required()
        if len(required) != 1:
            return None
        member = self.property(required[0])
        return required[0] if member is not None and member.kinds() == Kinds(frozenset({"string"})) else None

    def names_members(self) -> bool:
        """Whether the schema names the members of an object, and those are all that it tells of them."""
        keys = self._node.keys() if isinstance(self._node, dict) else set()
        return "patternProperties" not in keys and not keys.isdisjoint(_NAMING)

    def declares(self, name: str) -> bool:
        """Whether the schema names this member of an object."""
        return self._member(name, _named_property, self._declared) is not None

    def _member(
        self, name: str, own: Callable[[Node, str], list[object]], known: "dict[str, Schema | None]"
    ) -> "Schema | None":
        found = known.get(name, self)
        if found is self:
            found = self._child(lambda node: own(node, name))
            # Names come from the model, which may write any, so not all are kept.
            listed = isinstance(self._node, dict) and _named_property(self._node, name)
            if listed or (len(known) < _REMEMBERED and len(name) < _REMEMBERED):
                known[name] = found
        return found

    def items(self) -> "Schema | None":
        """The schema of an array's elements at any position; ``None`` if it is not declared."""
        if self._elements is False:
            self._elements = self._child(_own_items)
        return self._elements

    def _child(self, own: "_Own") -> "Schema | None":
        walk = _Walk(self._root)
        found = walk.children(self._node, own, 0)
        return Schema(walk.combine("allOf", found), self._root) if found else None

    def __repr__(self) -> str:
        return f"Schema({sorted(self.types) if self.types else None})"


_TEXT_KEYS: Final = frozenset(("type", "description", "title", "default", "examples"))


def takes_text(tool: Mapping[str, Any], key: str) -> bool:
    """Whether a tool has only this argument, which may be any string."""
    properties = properties_of(tool)
    if set(properties) != {key}:
        return False
    value = properties[key]
    return isinstance(value, Mapping) and value.get("type") in ("string", ["string"]) and set(value) <= _TEXT_KEYS


def properties_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments that a tool declares, by their keys."""
    parameters = function_of(tool).get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def for_tool(tool: Mapping[str, Any]) -> Schema:
    """Return the schema of a tool's arguments, from an OpenAI tool dict, nested (``function``) or flat.

    Requests repeat their tools, so a schema is walked once for all with the same JSON.
    """
    parameters = function_of(tool).get("parameters")
    try:
        key = _encode(parameters)
    except (TypeError, ValueError, OverflowError, RecursionError):  # Python, not JSON
        return Schema(parameters)
    return _of_json(key) if len(key) <= _MAX_KEPT else Schema(parameters)


@lru_cache(256)
def _of_json(text: bytes) -> Schema:
    return Schema(json.loads(text))  # msgspec is slow for numbers such as 1e300


def tool_name(tool: Mapping[str, Any]) -> str | None:
    """A tool's name; ``None`` if the dict contains none."""
    name = function_of(tool).get("name")
    return name if isinstance(name, str) and name else None


def function_of(tool: object) -> Mapping[str, Any]:
    """The part of an OpenAI tool dict with the name and the parameters, nested (``function``) or flat."""
    if type(tool) is dict:  # the common case, without a check of abstract classes
        function = tool.get("function", tool)
        if type(function) is dict:
            return function
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return function if isinstance(function, Mapping) else {}


# --- walking a schema -------------------------------------------------------------------------------------------------

_Own = Callable[[Node], list[object]]


_NO_KINDS: Final = Kinds(_NOTHING)
_NO_STRINGS: Final[Types] = frozenset(_NAMES - {"string", "integer"})


class _Walk:
    """One query of a schema: follows references and combinations, within the two bounds.

    A node met again below itself (a circular reference) adds nothing: the schema means its least fixed point.
    """

    __slots__ = ("_path", "_root", "_visits")

    def __init__(self, root: object) -> None:
        self._root = root
        self._path: set[int] = set()
        self._visits = 0

    def kinds(self, node: object, depth: int) -> Kinds | None:
        """The kinds that ``node`` admits: ``None`` is unknown; no types at all is a circle or a contradiction."""
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._visits >= MAX_VISITS:
            return None
        if id(node) in self._path:
            return _NO_KINDS
        self._visits += 1
        self._path.add(id(node))
        found = self._kinds_inside(node, depth + 1)
        self._path.discard(id(node))
        # OpenAPI's keyword applies only to the type next to it.
        if found and found.types and node.get("nullable") is True and "type" in node:
            found = Kinds(found.types | _NULL, found.strings)
        return found

    def _kinds_inside(self, node: Node, depth: int) -> Kinds | None:
        stated = [_declared(node.get("type")), self._of_values(node)]
        if "$ref" in node:
            stated.append(self.kinds(resolve(self._root, node["$ref"]), depth))
        stated += [self.kinds(branch, depth) for branch in _branches(node, "allOf")]
        stated += [self._union(_branches(node, kind), depth) for kind in ("anyOf", "oneOf")]
        known = [kinds for kinds in stated if kinds and kinds.types]
        if not known:
            # A circle stays a circle; otherwise a union around it would become unknown.
            return _implied(node) or (_NO_KINDS if any(k is not None and not k.types for k in stated) else None)
        kinds = known[0]
        for other in known[1:]:
            kinds = _meet(kinds, other)
        return kinds

    def _union(self, branches: list[object], depth: int) -> Kinds | None:
        if not branches:
            return None
        types = _NOTHING
        strings: frozenset[str] | None = frozenset()
        for branch in branches:
            more = self.kinds(branch, depth)
            if more is None:
                return None
            types |= more.types
            if "string" in more.types:
                strings = None if strings is None or more.strings is None else strings | more.strings
        return Kinds(_canonical(types), strings if "string" in types else None)

    def _of_values(self, node: Node) -> Kinds | None:
        values: object = [node["const"]] if "const" in node else node.get("enum")
        if not isinstance(values, list) or not values:
            return None
        self._visits += len(values)
        if self._visits > MAX_VISITS:
            return None
        found = {_OF_PYTHON.get(kind) for kind in set(map(type, values))}
        if None in found:
            return None
        strings = frozenset(value for value in values if type(value) is str) if "string" in found else None
        return Kinds(_canonical(frozenset(cast("set[JsonType]", found))), strings)

    def children(self, node: object, own: _Own, depth: int) -> list[object]:
        """The schemas that all apply to a child of ``node``; ``own`` finds those that a node itself declares."""
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._visits >= MAX_VISITS or id(node) in self._path:
            return []
        self._visits += 1
        self._path.add(id(node))
        depth += 1
        found = own(node)
        if "$ref" in node:
            found += self.children(resolve(self._root, node["$ref"]), own, depth)
        for branch in _branches(node, "allOf"):
            found += self.children(branch, own, depth)
        for kind in ("anyOf", "oneOf"):
            # A branch that does not declare the child (most often null) cannot be the one that was written.
            declared = [self.children(branch, own, depth) for branch in _branches(node, kind)]
            some = [self.combine("allOf", parts) for parts in declared if parts]
            if some:
                found.append(self.combine("anyOf", some))
        self._path.discard(id(node))
        return found

    def combine(self, kind: Literal["allOf", "anyOf"], nodes: list[object]) -> object:
        """Combine ``nodes``, each named once: otherwise recursive schemas would double at each level."""
        distinct: dict[int, object] = {}
        for node in nodes:
            target = self._target(node)
            inner = _branches(target, kind) if isinstance(target, dict) and set(target) == {kind} else [target]
            distinct.update((id(part), part) for part in map(self._target, inner))
        parts = list(distinct.values())
        return parts[0] if len(parts) == 1 else {kind: parts}

    def _target(self, node: object) -> object:
        """The target of a node that is only a reference; any other node as it is."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, dict) or set(node) != {"$ref"}:
                break
            node = resolve(self._root, node["$ref"])
        return node


def resolve(root: object, ref: object) -> object:
    """The node that a local JSON pointer (``#/…``) into ``root`` refers to; ``None``, an unknown schema, for any
    other."""
    if not isinstance(ref, str) or ref[:1] != "#" or len(ref) > _MAX_POINTER:
        return None
    node = root
    if ref == "#":
        return node
    from urllib.parse import unquote  # slow to import, rarely needed

    head, *parts = unquote(ref[1:]).split("/")
    if head or len(parts) > MAX_DEPTH:
        return None
    for part in parts:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and key.isdecimal() and len(key) <= 6 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def _named_property(node: Node, name: str) -> list[object]:
    declared = node.get("properties")
    return [declared[name]] if isinstance(declared, dict) and name in declared else []


def _own_property(node: Node, name: str) -> list[object]:
    named = _named_property(node, name)
    if named:
        return named
    others = node.get("additionalProperties")
    return [others] if isinstance(others, dict) else []


def _own_items(node: Node) -> list[object]:
    first = _branches(node, "prefixItems")
    rest = node.get("items")
    if isinstance(rest, list):  # tuples, as in drafts before 2020-12
        first, rest = first + rest, node.get("additionalItems")
    if rest is None or (first and isinstance(rest, bool)):  # closed or open: nothing about the others
        return [{"anyOf": first}] if first else []
    return [{"anyOf": [*first, rest]}] if first else [rest]


def _branches(node: Node, key: str) -> list[object]:
    branches = node.get(key)
    return branches if isinstance(branches, list) else []


def _declared(declared: object) -> Kinds | None:
    names = [declared] if isinstance(declared, str) else declared
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n in _NAMES for n in names):
        return None
    return Kinds(_canonical(frozenset(names)))


def _implied(node: Node) -> Kinds | None:
    """The type that follows from keywords that only make sense for one, in a schema that names none."""
    found = _NOTHING
    if isinstance(node.get("properties"), dict) or isinstance(node.get("required"), list):
        found |= {"object"}
    if isinstance(node.get("items"), dict | list | bool) or isinstance(node.get("prefixItems"), list):
        found |= {"array"}
    return Kinds(found) if found else None


def _canonical(types: Types) -> Types:
    return types - {"integer"} if "number" in types else types


def _meet(left: Kinds, right: Kinds) -> Kinds:
    both = left.types & right.types
    if {"integer", "number"} <= left.types | right.types and "number" not in both:
        both |= {"integer"}
    lists = [strings for strings in (left.strings, right.strings) if strings is not None]
    if "string" not in both or not lists:
        return Kinds(both)
    strings = lists[0] & lists[-1]
    return Kinds(both, strings) if strings else Kinds(both - {"string"})


# --- from text to JSON ------------------------------------------------------------------------------------------------

_BLANK: Final = " \t\n\r"
_NUMBER: Final = Regex(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")


class Marked(enum.Enum):
    """A value's type by the model's markup."""

    NOT = enum.auto()
    STRING = enum.auto()
    OTHER = enum.auto()  # JSON, or sometimes a string, which is then in quotes


def decode(text: str, kinds: Kinds | None, marked: Marked = Marked.NOT) -> tuple[str, bool]:  # a line for each type
    """Turn the text of an argument value into JSON text, and say whether it fits its schema's ``kinds``.

    If the schema allows a string, the text is that string, except for the bare text ``null`` if null is allowed
    too. If it lists the only allowed strings, any other text is not a string. Other types are the model's own
    text without white space around it, so no digit is lost; ``True`` and ``None`` are read as Python writes them. Text
    that fits nothing, or nests deeper than `MAX_NESTING`, becomes a string and does not fit. If the kinds are unknown
    (``None``), text that is JSON other than a string stays that JSON, and everything else becomes a string; both fit.

    A type that the markup gives counts unless the schema does not allow it; then the schema counts, if the text fits.
    """
    bare = text.strip(_BLANK)
    if marked is Marked.OTHER:
        found = bare if bare[:1] == '"' and _is_json(bare) else _fitting(bare, _NO_STRINGS)
        if found is not None and (kinds is None or _admits(kinds.types, _kind(found))):
            return found, True
        decoded, fits = (_quote(text), False) if kinds is None else decode(text, kinds)
        return (decoded, fits) if fits or found is None else (found, True)
    if kinds is None:
        return (bare if marked is Marked.NOT and is_json_value(bare) else _quote(text)), True
    if "string" in kinds.types:
        if kinds.strings is None:
            return ("null" if text == "null" and "null" in kinds.types else _quote(text)), True
        if text in kinds.strings:
            return _quote(text), True
    found = _fitting(bare, kinds.types)
    return (_quote(text), False) if found is None else (found, True)


def _admits(types: Types, kind: JsonType) -> bool:
    return kind in types or (kind == "integer" and "number" in types)


def _kind(json_text: str) -> JsonType:
    c = json_text[0]
    if c in '"{[tfn':
        return cast(JsonType, {'"': "string", "{": "object", "[": "array", "n": "null"}.get(c, "boolean"))
    return "number" if set(json_text) & set(".eE") else "integer"


def collected(texts: list[str], items: "Schema | None") -> tuple[str, bool]:
    """Join the pieces that were given for an array, elements or arrays, into one JSON array. Say whether all fit."""
    elements: list[str] = []
    kinds = None if items is None else items.kinds()
    nested = kinds is not None and "array" in kinds.types
    all_fit = True
    for text in texts:
        bare = text.strip(_BLANK)
        if bare[:1] == "[" and not nested and _is_json(bare):
            inner = bare[1:-1].strip(_BLANK)
            if inner:
                elements.append(inner)
        else:
            element, fits = decode(text, kinds)
            all_fit = all_fit and fits
            elements.append(element)
    return f"[{', '.join(elements)}]", all_fit


WRAPPERS: Final = ("arguments", "parameters", "input")  # names under which models sometimes give all arguments as one
_WRAPPER: Final = Regex(rf'\{{\s*+"(?:{"|".join(WRAPPERS)})"\s*+:')
_MOST_WRAPPED: Final = 8  # how many objects may be around one


def declared_object(text: str, schema: Schema) -> str:
    """The text, if it is a JSON object whose keys the schema all declares, or such an object as the only member of
    others (each a wrapper), else ``""``."""
    for _ in range(_MOST_WRAPPED):
        text = text.strip(_BLANK)
        if text[:1] != "{" or not _is_json(text):
            break
        keys = [key for key, _ in _PAIRS.decode(text)]
        if all(schema.declares(key) for key in keys):
            return text
        wrapper = _WRAPPER.match(text)
        if wrapper is None or len(keys) > 1:
            break
        text = text[wrapper.end() : -1]
    return ""


def repeated_key(json_text: str) -> str | None:
    """A key that an object in a JSON text has twice."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        found.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]

    json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=look).decode(json_text)
    return found[0] if found else None


def is_json_value(text: str) -> bool:
    """Whether a text, without white space around it, is JSON other than a string."""
    bare = text.strip(_BLANK)
    return bare[:1] != '"' and _is_json(bare)


def _fitting(bare: str, types: frozenset[str]) -> str | None:  # a branch for each type
    """The JSON text of a value that is not a string; ``None`` if it has none of the types."""
    if bare[:1] in ("{", "["):
        kind = "object" if bare[0] == "{" else "array"
        return bare if kind in types and _is_json(bare) else None
    if "null" in types and bare in ("null", "None", "none"):
        return "null"
    if "boolean" in types and len(bare) <= 5 and bare.lower() in ("true", "false"):
        return bare.lower()
    if "number" in types or "integer" in types:
        number = _NUMBER.fullmatch(bare)
        if number and (number.lastindex is None or ("number" in types and not isinf(float(bare)))):
            return bare
        if number and number.group(2) is None and not number.group(1).strip(".0"):
            return bare[: number.start(1)]  # an integer, though with a point
    return None


def _finite(text: str) -> str:
    if isinf(float(text)):
        raise ValueError(f"{text} is too large for a float")
    return text


# Numbers are left as text: converting them costs time, and Python refuses integers of more than 4,300 digits.
_PAIRS: Final = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=tuple)
_JSON: Final = json.JSONDecoder(parse_constant=refuse_constant, parse_int=str, parse_float=_finite)


def _is_json(text: str) -> bool:
    if text[:1] not in '{["-0123456789tfn':
        return False
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    return text.count("{") + text.count("[") <= MAX_NESTING or not nests_deeper(value, MAX_NESTING)


def nests_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects in a value nest more than ``most`` deep, the value itself included."""
    level = [value]
    for _ in range(most + 1):
        level = [v for v in level if isinstance(v, dict | list)]
        if not level:
            return False
        level = [child for v in level for child in (v.values() if isinstance(v, dict) else v)]
    return True
