"""The arguments of a call as nodes: JSON, keyword arguments, quotes of the dialect's own, and markup."""

from typing import Any, Final

import msgspec

from ..dialect import Dialect
from ..errors import ConstraintError
from ..parser.patterns import closing
from ..parser.plan import Plan
from ..schema import Schema
from ..template import Template, steps, writable
from .nodes import EMPTY, Const, Json, Node, Text, choice, seq
from .values import JSON_SPELLING, PYTHON_SPELLING, Rules, Values, other_names, quote_spelling, shape

__all__ = ["Arguments", "Tool", "others"]


class Tool(msgspec.Struct, frozen=True):
    """A tool that may be called; ``parameters`` is a prepared schema, of an object."""

    name: str
    parameters: dict[str, Any]


class Arguments:
    """Makes nodes for the arguments of tools, as one dialect writes them."""

    def __init__(self, d: Dialect, plan: Plan, rules: Rules) -> None:
        self.d = d
        self.rules = rules
        outer = [*(f.suffix.first for f in plan.forms if f.suffix), *(b.suffix.first for b in plan.blocks if b.suffix)]
        self.outer = tuple(dict.fromkeys(outer))

    def of(self, tool: Tool) -> Node:
        """A tool's arguments; they may be empty."""
        d = self.d
        at = f"tools.{tool.name}.parameters"
        if d.call[0].object is not None:
            return Json(tool.parameters)
        if d.item:
            values = Values(JSON_SPELLING, self.rules, tool.parameters)
            return choice(self.nested_members(values, b, at) for b in _objects(values, tool.parameters, at))
        if d.argument:
            values = Values(JSON_SPELLING, self.rules, tool.parameters, self.ends_of(d.argument[0]))
            return choice(self.markup_arguments(values, b, at) for b in _objects(values, tool.parameters, at))
        if d.codec == "python":
            values = Values(PYTHON_SPELLING, self.rules, tool.parameters)
            return choice(self.keywords(values, b, at) for b in _objects(values, tool.parameters, at))
        if d.quote != '"':
            values = Values(quote_spelling(d.quote), self.rules, tool.parameters)
            return choice(values.object(b, at) for b in _objects(values, tool.parameters, at))
        return Json(tool.parameters)

    def keywords(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        entries, extra = values.entries(schema, at)
        bad = next((k for k, _, _ in entries if not k.isidentifier()), None)
        if bad is not None:
            raise ConstraintError(f"{at}.properties: {bad!r} is no Python name, so it cannot be a keyword")
        if extra is not None:
            extra = seq(other_names([k for k, _, _ in entries]), Const("="), extra)
        return values.members([(seq(Const(f"{k}="), v), r) for k, v, r in entries], extra, ", ")

    def ends_of(self, template: Template) -> tuple[str, ...]:
        """What may end the value of an argument."""
        return tuple(dict.fromkeys((closing(template.after).first, *self.outer)))

    def markup_arguments(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        _refuse(schema, at)
        properties, rest = shape(schema)
        required = schema.get("required", [])
        entries = []
        for name, node in properties.items():
            if node is not False or name in required:
                made = self.markup_argument(values, Const(name), node, f"{at}.{name}")
                entries.append((made, name in required))
        extra = None
        if rest is not False:
            name_ = other_names(list(properties))
            extra = self.markup_argument(values, name_, rest, f"{at}.additionalProperties")
        return values.members(entries, extra, self.d.argument_separator)

    def markup_argument(self, values: Values, key: Node, schema: dict[str, Any] | bool, at: str) -> Node:
        template = self.d.argument[0]
        typed = "{string}" in template.text or "{type}" in template.text
        root = {"$defs": values.definitions}
        types = Schema(schema, root).types
        found: list[Node] = []
        untold = types is None and not typed
        for branch in values.branches(schema):
            if branch is False:
                continue
            if untold or branch is True or not branch:
                found += self.untyped(values, template, key, typed=typed)
                continue
            for kind, one in _by_type(branch, at):
                if kind == "string":
                    found += self.string_argument(values, template, key, one, at)
                elif typed or types is None or "string" not in types or kind == "null":
                    field = "number" if kind == "integer" else kind
                    found.append(self.other_argument(values, template, key, one, field, at))
        if not found:
            raise ConstraintError(f"{at}: admits no value")
        return choice(found)

    def untyped(self, values: Values, template: Template, key: Node, *, typed: bool) -> list[Node]:
        if not typed:
            return self.string_argument(values, template, key, {}, "")
        found = self.string_argument(values, template, key, {}, "")
        for kind in ("number", "boolean", "null", "object", "array"):
            found.append(self.other_argument(values, template, key, {"type": kind}, kind, ""))
        return found

    def around(self, template: Template, key: Node, kind: str) -> tuple[Node, str, Node]:
        """What stands before a value, the first marker behind it, and the rest."""
        opening, _, end = template.text.partition("{value}")
        fields = {"string": "true" if kind == "string" else "false", "type": kind}

        def write(text: str) -> Node:
            parts: list[Node] = []
            for step in steps(text):
                if step.name == "key":
                    parts.append(Const(step.write({"key": key.text})) if isinstance(key, Const) else key)
                else:
                    parts.append(Const(step.write(fields)))
            return seq(*parts)

        if not isinstance(key, Const) and "{key}" in end:
            raise ConstraintError(
                f"additionalProperties: dialect {self.d.name!r} closes an argument with its name; allowed is false"
            )
        stop = end.partition("{")[0]
        bare = stop.strip()
        rest = end[len(stop) - len(stop.lstrip()) + len(bare) :]
        return write(opening), bare, write(rest)

    def string_argument(
        self, values: Values, template: Template, key: Node, schema: dict[str, Any], at: str
    ) -> list[Node]:
        ends = self.ends_of(template)
        head, stop, rest = self.around(template, key, "string")
        listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if listed is not None:
            kept = [v for v in listed if isinstance(v, str) and not any(e in v for e in ends)]
            if not kept:
                raise ConstraintError(f"{at}: its values hold markers of the dialect")
            return [seq(head, Const(v + template.inner_trail + stop), rest) for v in kept]
        low, high, pattern = schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern", "")
        if low or high is not None or pattern:
            # The value is exactly what is told, so the white space before the marker is written as it is.
            stop = template.inner_trail + stop
        free = not (low or high is not None or pattern)
        longer = [t for t in writable(self.d.argument)[1:] if free and _continues(t, template)]
        if not longer or not isinstance(head, Const):
            return [seq(head, Text(stop, others(ends, stop), (), low, high, pattern), rest)]
        # What may not stand in this one may in another that goes on from it, such as a CDATA section. The text belongs
        # to one word with what stands before it, since the other's opening begins alike.
        found: list[Node] = []
        unlike: list[Node] = []
        for other in longer:
            opening, other_stop, other_rest = self.around(other, key, "string")
            assert isinstance(opening, Const)
            unlike.append(Const(opening.text[len(head.text) :]))
            text = Text(other_stop, others((closing(other.after).first,), other_stop), head=opening.text)
            found.append(seq(text, other_rest))
        text = Text(stop, others(ends, stop), tuple(unlike), head=head.text)
        return [seq(text, rest), *found]

    def other_argument(
        self, values: Values, template: Template, key: Node, schema: dict[str, Any], kind: str, at: str
    ) -> Node:
        head, stop, rest = self.around(template, key, kind)
        value: Node
        if kind in ("object", "array"):
            whole = {**schema, "$defs": values.definitions} if values.definitions else schema
            try:
                spelled: Node | None = values.value(schema, at)
            except ConstraintError:
                spelled = None  # a keyword that only JSON itself can keep; its strings then may hold markers
            value = Json(whole, values.without, spelled)
        else:
            value = values.value(schema, at)
        return seq(head, value, Const(template.inner_trail + stop), rest)

    # -- arguments whose values are markup ------------------------------------------------------------------------

    def nested_members(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        _refuse(schema, at)
        properties, more = shape(schema)
        required = schema.get("required", [])
        if more is not False and more is not True:
            raise ConstraintError(
                f"{at}.additionalProperties: dialect {self.d.name!r} closes an argument with its name; allowed is false"
            )
        entries = []
        for name, node in properties.items():
            if node is not False or name in required:
                head, stop, rest = self.around(self.d.argument[0], Const(name), "")
                made = seq(head, self.nested(values, node, stop, rest, f"{at}.{name}"))
                entries.append((made, name in required))
        return values.members(entries, None, self.d.argument_separator)

    def nested(self, values: Values, schema: dict[str, Any] | bool, stop: str, rest: Node, at: str) -> Node:
        """A value and what closes it."""
        if isinstance(schema, dict) and "$ref" in schema:
            key = ("nested", id(values.definitions), schema["$ref"], stop, rest)
            return self.rules.once(key, lambda: self._nested(values, schema, stop, rest, at))
        return self._nested(values, schema, stop, rest, at)

    def _nested(self, values: Values, schema: dict[str, Any] | bool, stop: str, rest: Node, at: str) -> Node:
        opened = self.d.argument[0].text.partition("{key}")[0]
        end = seq(Const(stop), rest)
        found: list[Node] = []
        types = Schema(schema, {"$defs": values.definitions}).types
        for branch in values.branches(schema):
            if branch is False:
                continue
            if branch is True or not branch or types is None:
                found.append(seq(Text(stop, others((*self.ends_of(self.d.argument[0]), opened), stop)), rest))
                continue
            for kind, one in _by_type(branch, at):
                if kind == "object":
                    found.append(seq(self.nested_members(values, one, at), end))
                elif kind == "array":
                    found.append(seq(self.nested_items(values, one, at), end))
                elif kind != "string":
                    if "string" not in types or kind == "null":
                        found.append(seq(values.value(one, at), end))
                elif "enum" in one or "const" in one:
                    listed = one["enum"] if "enum" in one else [one["const"]]
                    found += [seq(Const(v), end) for v in listed if isinstance(v, str) and opened not in v]
                else:
                    bounds = (one.get("minLength", 0), one.get("maxLength"), one.get("pattern", ""))
                    found.append(seq(Text(stop, others((opened, stop), stop), (), *bounds), rest))
        if not found:
            raise ConstraintError(f"{at}: admits no value")
        return choice(found)

    def nested_items(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        _only(schema, ("type", "items", "prefixItems", "minItems", "maxItems"), at)
        head, stop, rest = self.around(self.d.item[0], EMPTY, "")

        def item(node: dict[str, Any] | bool, name: str) -> Node:
            return seq(head, self.nested(values, node, stop, rest, f"{at}.{name}"))

        return values.elements(schema, item, "")


def others(texts: frozenset[str] | tuple[str, ...] | list[str], stop: str) -> tuple[str, ...]:
    """Markers beside the one that ends a text, each once, without those that hold another."""
    found = sorted({t for t in texts if t and t != stop}, key=lambda t: (len(t), t))
    return tuple(t for i, t in enumerate(found) if not any(u in t for u in found[:i]))


def _objects(values: Values, schema: dict[str, Any], at: str) -> list[dict[str, Any]]:
    """The schemas of objects that a tool's parameters may be."""
    found = [b if isinstance(b, dict) else {} for b in values.branches(schema) if b is not False]
    found = [b for b in found if "type" not in b or b["type"] == "object" or "object" in b["type"]]
    if not found:
        raise ConstraintError(f"{at}: must admit an object")
    return found


def _refuse(schema: dict[str, Any], at: str) -> None:
    _only(schema, ("type", "properties", "required", "additionalProperties"), at)


def _only(schema: dict[str, Any], allowed: tuple[str, ...], at: str) -> None:
    for key in schema:
        if key not in allowed and key != "$defs":
            raise ConstraintError(
                f"{at}.{key}: cannot be kept where arguments are markup; allowed are {', '.join(allowed)}"
            )


_KINDS: Final = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}


def _by_type(branch: dict[str, Any], at: str) -> list[tuple[str, dict[str, Any]]]:
    """A branch for each of its types."""
    if "enum" in branch or "const" in branch:
        listed = branch["enum"] if "enum" in branch else [branch["const"]]
        kinds: dict[str, list[Any]] = {}
        for value in listed:
            kinds.setdefault(_KINDS.get(type(value), "null"), []).append(value)
        return [(kind, {"enum": values}) for kind, values in kinds.items()]
    types = branch.get("type")
    if types is None:
        raise ConstraintError(f"{at}: a schema that tells no type has {', '.join(branch)}; add type")
    return [(kind, {**branch, "type": kind}) for kind in (types if isinstance(types, list) else [types])]


def _continues(other: Template, first: Template) -> bool:
    """Whether a template's opening goes on from another's, and it closes otherwise."""
    opening = first.text.partition("{value}")[0]
    return other.text.startswith(opening) and len(other.text.partition("{value}")[0]) > len(opening)
