"""Prepares a tool's JSON Schema for a grammar: self-contained, in the form of one draft, with known keywords only.

If a schema asserts what no grammar here can enforce, that is an error that names the place. Two keywords are relaxed:
``oneOf`` is read as ``anyOf``; ``format`` is ignored if strings are not JSON, or if it is not in `FORMATS` (JSON
Schema defines it as an annotation). Unknown keywords, and unknown types of tools, are ignored, as in `unspool.schema`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, Final

from ..errors import ConstraintError
from ..schema import MAX_DEPTH, resolve
from ..validation import near
from .bounds import MAX_PATTERN, Budget, check_count, check_finite, check_number, step

MAX_TOOL_NODES: Final = 20_000  # how many nodes the schemas of one tool may contain

MAX_KEY: Final = 256  # the longest name of a property, in characters

FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
"""The formats that are enforced for JSON strings."""

_TYPES: Final = ("string", "number", "integer", "boolean", "null", "object", "array")
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_REFUSED: Final = (
    "not", "if", "then", "else", "contains", "uniqueItems", "propertyNames", "dependentRequired", "dependentSchemas",
    "dependencies", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
_MAPS: Final = ("properties", "patternProperties")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties")
_IMPLIED: Final = {
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems"),
}
"""The types of schemas that name none, by the keywords that they have."""

_ANNOTATIONS: Final = ("title", "description", "examples", "default", "$comment")
_DEFS: Final = "#/$defs/"

Node = dict[str, Any]


def prepare(
    schema: object, where: str, *, closed: bool = False, strict: bool = False, budget: Budget | None = None
) -> Node | bool:
    """Return a self-contained schema: references point to its own ``$defs``, and only known keywords are left. A
    `ConstraintError` names what cannot be enforced, or is malformed.

    Args:
        schema: the schema from the request; anything but a ``dict`` or ``False`` admits everything.
        closed: whether objects that declare properties have no others, unless they say otherwise.
        strict: whether unknown types are refused. In tools they admit everything, since many declare other languages'.
        budget: the request's budget; default: a new one for this schema.
    """
    copy = _Copy(schema, closed, budget or Budget(), strict)
    root = copy.joined(copy.node(schema, where, 0), 0)
    for name in copy.definitions:
        copy.definitions[name] = copy.joined(copy.definitions[name], 0)
    if copy.definitions:
        check_finite(root, copy.definitions, where)
    if copy.definitions and isinstance(root, dict):
        root = {**root, "$defs": copy.definitions}
    return root


class _Copy:
    def __init__(self, root: object, closed: bool, budget: Budget, strict: bool) -> None:
        self.root = root
        self.strict = strict
        self.budget = budget
        self.closed = closed
        self.definitions: dict[str, Node | bool] = {}
        self.named: dict[int, str] = {}
        self.visits = 0

    def node(self, node: object, at: str, depth: int, *, closed: bool | None = None) -> Node | bool:
        self.visits += 1
        if depth > MAX_DEPTH:
            raise ConstraintError(f"{at}: nested deeper than {MAX_DEPTH}")
        if self.visits > MAX_TOOL_NODES:
            raise ConstraintError(f"{at}: the schema has more than {MAX_TOOL_NODES:,} nodes")
        if not isinstance(node, Mapping):
            return node is not False
        self.budget.node(node, at)
        closed = self.closed if closed is None else closed
        found: Node = {}
        node = _without_property_names(node)
        _refuse(node, at)
        # Keys keep the schema's order, because grammars write properties in that order.
        for key, value in node.items():
            if key == "$ref":
                found["$ref"] = self.reference(value, f"{at}.$ref", depth)
            elif key == "items" and isinstance(value, list):  # tuples, as in drafts before 2020-12
                found["prefixItems"] = [self.node(v, f"{at}.items[{i}]", depth + 1) for i, v in enumerate(value)]
                found["items"] = self.node(node.get("additionalItems"), f"{at}.additionalItems", depth + 1)
            elif key in (*_MAPS, *_LISTS, *_SINGLE):
                found[key] = self.inner(key, value, f"{at}.{key}", depth + 1, closed)
            elif key == "type":
                self.types(value, f"{at}.type", found)
            else:
                self.simple(key, value, f"{at}.{key}", found)
        self.tidy(node, found, at, closed=closed)
        if node.get("nullable") is True and "type" in found:
            found = {"anyOf": [found, {"type": "null"}]}
        return found

    def inner(self, key: str, value: Any, at: str, depth: int, closed: bool) -> Any:
        """The schemas that a keyword contains."""
        if key in _LISTS:
            parts = self.list(value, at)
            inside = False if key == "allOf" else closed
            return [self.node(part, f"{at}[{i}]", depth, closed=inside) for i, part in enumerate(parts)]
        if key in _SINGLE:
            return self.node(value, at, depth)
        if not isinstance(value, Mapping):
            raise ConstraintError(f"{at}: must be an object")
        if any(not isinstance(k, str) or len(k) > MAX_KEY for k in value):
            raise ConstraintError(f"{at}: a name is longer than {MAX_KEY} characters")
        if key == "patternProperties":
            value = {_regular(pattern, at): inner for pattern, inner in value.items()}
        return {k: self.node(v, f"{at}.{k}", depth) for k, v in value.items()}

    def joined(self, node: Node | bool, depth: int) -> Node | bool:
        """Merge everything that must hold at once into the node's own keywords, if they can express it."""
        if not isinstance(node, dict) or depth > 2 * MAX_DEPTH:
            return node
        step()
        if "allOf" in node or ("$ref" in node and len(node) > 1):
            rest = {k: v for k, v in node.items() if k not in ("allOf", "$ref")}
            parts = [rest, *node.get("allOf", ()), *([{"$ref": node["$ref"]}] if "$ref" in node else [])]
            try:
                return self.joined(merged([self.target(p) for p in parts]), depth + 1)
            except ConstraintError:
                return node  # engines that support `allOf` may still enforce it
        return mapped(node, lambda inner: self.joined(inner, depth + 1))

    def target(self, node: Node | bool) -> Node | bool:
        """The target of a node that is only a reference; any other node as it is."""
        if isinstance(node, dict) and set(node) == {"$ref"}:
            return self.definitions[node["$ref"][len(_DEFS) :]]
        return node

    def list(self, value: object, at: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise ConstraintError(f"{at}: must be a non-empty list")
        return value

    def reference(self, ref: object, at: str, depth: int) -> str:
        target = resolve(self.root, ref)
        if target is None:
            raise ConstraintError(f"{at}: {ref!r} cannot be resolved; only references within the schema are supported")
        name = self.named.get(id(target))
        if name is None:
            name = self.named[id(target)] = f"r{len(self.named)}"
            self.definitions[name] = True  # if it is met again below itself, the name is enough
            self.definitions[name] = self.node(target, at, depth + 1)
        return _DEFS + name

    def types(self, value: object, at: str, found: Node) -> None:
        names = [value] if isinstance(value, str) else value
        if self.strict:
            unknown = [n for n in names if n not in _TYPES] if isinstance(names, list) else [value]
            if unknown or not names:
                hint = near(unknown[0], _TYPES) if unknown and isinstance(unknown[0], str) else ""
                raise ConstraintError(f"{at}: must be one of {', '.join(_TYPES)}, not {value!r:.80}{hint}")
        if isinstance(names, list) and names and all(n in _TYPES for n in names):
            found["type"] = names[0] if len(names) == 1 else list(dict.fromkeys(names))

    def simple(self, key: str, value: Any, at: str, found: Node) -> None:
        if key in (*_COUNTS, *BOUNDS):
            if not isinstance(value, bool) or not key.startswith("exclusive"):  # draft 4: see `tidy`
                found[key] = _number(key, value, at)
        elif key == "required":
            if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
                raise ConstraintError(f"{at}: must be a list of strings")
            found[key] = list(dict.fromkeys(value))
            self.budget.values(found[key], at)
        elif key in ("enum", "const"):
            self.budget.values(value, at)
            found[key] = _plain(self.list(value, at) if key == "enum" else value, at)
        elif key == "pattern":
            if not isinstance(value, str):
                raise ConstraintError(f"{at}: must be a string, not {value!r}")
            self.budget.text(value, at, MAX_PATTERN)
            found[key] = _regular(value, at)
        elif key == "format" and isinstance(value, str) and value in FORMATS:
            found[key] = value

    def tidy(self, node: Mapping[str, Any], found: Node, at: str, *, closed: bool) -> None:
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if node.get(exclusive) is True and bound in found:
                found[exclusive] = found.pop(bound)
        if isinstance(node.get("enum"), list) and "type" in found:
            kept = [v for v in found["enum"] if _has_type(v, found["type"])]
            if not kept:
                raise ConstraintError(f"{at}.enum: none of its values has the type {found['type']!r}")
            found["enum"] = kept
        if "properties" in found and "additionalProperties" not in found:
            found["additionalProperties"] = not closed
        for kind, keys in _IMPLIED.items():
            if "type" not in found and not found.keys().isdisjoint(keys):
                found["type"] = kind


_ALLOWED: Final = (
    "type, enum, const, anyOf, oneOf, allOf, $ref, properties, required, additionalProperties, patternProperties, "
    "items, prefixItems, minItems, maxItems, minLength, maxLength, pattern, format, minimum, maximum, "
    "exclusiveMinimum, exclusiveMaximum, multipleOf"
)


_BEYOND: Final = re.compile(r"\[(?:\\.|[^\\\]])*\]|(\(\?<?[=!]|\\[1-9]|\\k<)|\\.", re.DOTALL)
"""The assertions and references in a pattern, which xgrammar and llguidance refuse, past classes and escapes."""


def _regular(pattern: str, at: str) -> str:
    if beyond := next((one[1] for one in _BEYOND.finditer(pattern) if one[1]), ""):
        raise ConstraintError(f"{at}: {beyond!r}: grammars cannot look around or back")
    return pattern


def _refuse(node: Mapping[str, Any], at: str) -> None:
    refused = next((key for key in _REFUSED if node.get(key) not in (None, False, {}, [])), "not")
    if refused in node:  # ``not`` means something in any case
        raise ConstraintError(f"{at}.{refused}: is not supported by grammars; supported are {_ALLOWED}")


def _number(key: str, value: Any, at: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in BOUNDS:
        if not number:
            raise ConstraintError(f"{at}: must be a number, not {value!r}")
        check_number(key, value, at)
        return value
    if not number or not 0 <= value < inf or value != int(value):
        raise ConstraintError(f"{at}: must be an integer of at least 0, not {value!r}")
    check_count(key, int(value), at)
    return int(value)


def _without_property_names(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node whose ``propertyNames`` say nothing, or are written by other keywords, without them, as code generators
    write maps: names that are any string, that match a pattern, or that are among some.
    """
    names = node.get("propertyNames")
    if names is True:
        names = {}
    if not isinstance(names, Mapping):
        return node
    says = {k: v for k, v in names.items() if k not in _ANNOTATIONS and (k, v) != ("type", "string")}
    rest = {k: v for k, v in node.items() if k != "propertyNames"}
    if not says:
        return rest
    if says.keys() not in ({"pattern"}, {"enum"}, {"const"}) or not rest.keys().isdisjoint(_MAPS):
        return node
    value = node.get("additionalProperties", True)
    if "pattern" in says:
        return {**rest, "patternProperties": {says["pattern"]: value}, "additionalProperties": False}
    allowed = says.get("enum", [says.get("const")])
    if not isinstance(allowed, list) or not all(isinstance(n, str) for n in allowed):
        return node
    return {**rest, "properties": dict.fromkeys(allowed, value), "additionalProperties": False}


def _plain(value: Any, at: str) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConstraintError(f"{at}: is not JSON: {error}") from None


def mapped(node: Node, change: Callable[[Any], Any]) -> Node:
    """A prepared node with each schema directly in it changed."""
    found: Node = {}
    for key, value in node.items():
        if key in (*_MAPS, "$defs"):
            found[key] = {name: change(inner) for name, inner in value.items()}
        elif key in _LISTS:
            found[key] = [change(inner) for inner in value]
        else:
            found[key] = change(value) if key in _SINGLE else value
    return found


def tables(schema: object) -> Iterator[dict[str, Any]]:
    """Every schema in a schema, at any depth. The keys of a map of schemas are names, whatever they spell."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            yield node
            for keyword, inner in node.items():
                if keyword in (*_MAPS, "$defs") and isinstance(inner, dict):
                    waiting.extend(inner.values())
                elif keyword not in ("enum", "const"):
                    waiting.append(inner)


def property_names(schema: object) -> list[str]:
    """The names of all properties in a schema, at any depth."""
    found = (node.get("properties") for node in tables(schema))
    return list(dict.fromkeys(name for properties in found if isinstance(properties, dict) for name in properties))


def _has_type(value: object, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer" in names or "number" in names
    kinds = {float: "number", str: "string", type(None): "null", list: "array", dict: "object"}
    return kinds[type(value)] in names


def _common(left: str | list[str], right: str | list[str]) -> str | list[str]:
    one, other = ([x] if isinstance(x, str) else x for x in (left, right))
    found = [t for t in one if t in other or (t == "integer" and "number" in other)]
    found += [t for t in other if t == "integer" and "number" in one and t not in found]
    return found[0] if len(found) == 1 else found


_BOTH: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "properties": lambda one, other: one | other | {k: merged([one[k], other[k]]) for k in one if k in other},
    "additionalProperties": lambda one, other: merged([one, other]),
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "type": _common,
    "enum": lambda one, other: [v for v in one if v in other],
    **dict.fromkeys(("minLength", "minItems", "minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxLength", "maxItems", "maximum", "exclusiveMaximum"), min),
}
"""What a keyword says where two schemas must hold."""


def merged(parts: list[Node | bool]) -> Node | bool:
    """Merge the parts into one schema; `ConstraintError` if they contradict each other in a keyword."""
    whole: dict[str, Any] = {}
    for part in parts:
        step(len(part) if isinstance(part, dict) else 1)
        if part is False:
            return False
        if part is True:
            continue
        for key, value in part.items():
            if key == "$defs":
                continue
            if key not in whole or whole[key] == value:
                whole[key] = value
            elif key in _BOTH:
                whole[key] = _BOTH[key](whole[key], value)
                if key in ("type", "enum") and not whole[key]:
                    return False
            elif key == "allOf":
                step(len(whole[key]) + len(value))
                whole[key] = [*whole[key], *value]
            elif key in ("anyOf", "oneOf", "$ref"):
                whole["allOf"] = [*whole.get("allOf", ()), {key: value}]
            else:
                raise ConstraintError(f"allOf: its parts contradict each other in {key}")
    return whole
