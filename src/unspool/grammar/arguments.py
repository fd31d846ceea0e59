"""Builds nodes for arguments of calls: JSON, keyword arguments, JSON with other quotes, and markup."""

import itertools
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from ..dialect.compiling import argument_closings, plain_arguments
from ..dialect.file import Dialect
from ..dialect.follows import follows
from ..dialect.loose import value_tags
from ..dialect.patterns import ANY, LITERAL, SPACE, TAG_ENDS, WORD, Pattern, closing, pattern
from ..dialect.plan import Plan, string_ends
from ..dialect.syntax import is_keyword
from ..dialect.template import Step, Template, TextCall, literal, without, writable
from ..errors import ConstraintError
from ..parser.readers.wrapped import DEFINING, NAME, WRAPPERS
from ..schema import Schema, decode
from .freeform import Freeform
from .nodes import EMPTY, SEPARATORS, SPACES, Chars, Const, Finer, Free, Json, Node, Text, choice, seq, series
from .schemas import property_names
from .values import (
    JSON_SPELLING,
    PYTHON_SPELLING,
    GrammarRules,
    Values,
    member_names,
    other_names,
    quote_spelling,
    shape,
)


class Tool(msgspec.Struct, frozen=True):
    """A tool that may be called, with the prepared schema of its arguments, which are an object."""

    name: str
    parameters: dict[str, Any]
    text: TextCall | None = None  # how its calls are written as bare text; ``None`` if they are not
    free: Freeform | None = None  # for a custom tool, the grammar of its only argument, a text


class Arguments:
    """Builds nodes for the arguments of tools, as one dialect writes them."""

    def __init__(self, d: Dialect, plan: Plan, rules: GrammarRules) -> None:
        self.d = d
        self.rules = rules
        self.plan = plan
        shape = d.call[0].object if d.call else None
        self.markup = bool(d.argument) and shape is None
        self.keyworded = shape is None and d.codec.name == "python"
        if self.keyworded or (shape is not None and shape.quote == "'"):
            self.spelling = PYTHON_SPELLING
        elif shape is not None or d.codec.quote == '"':
            self.spelling = JSON_SPELLING
        else:
            self.spelling = quote_spelling(d.codec.quote)
        # Names of arguments that would be read as a wrapper of all, or, where nothing marks a call, as a quoted tool.
        bare = shape is not None and not (plan.calls.blocks[0].marked or plan.calls.forms[0].marked)
        self.unlike = (*WRAPPERS, *DEFINING) if bare else WRAPPERS
        self.outer = plan.calls.closings
        self.guard = _guard(d.argument[0], plan) if d.argument else ()
        self.openings = tuple(dict.fromkeys(p.opening.first for p in plan.arguments.parameters))
        self.items = tuple(dict.fromkeys(p.opening.first for p in plan.arguments.items))
        self.serials = itertools.count()

    def of(self, tool: Tool, end: str) -> Node:
        """A tool's arguments, which may be empty, with the text that closes the call."""
        d = self.d
        if tool.free is not None:
            return self.free(tool, tool.free, end)
        at = f"tools.{tool.name}.parameters"
        parameters = _forbidding(tool.parameters, self.unlike)
        if not self.markup:
            return seq(self.value(parameters, at), Const(end))
        names = property_names(parameters) if d.item else member_names(parameters)
        kept_out = self.ends_of(d.argument[0], names, tool.name)
        if d.item or not self.plan.arguments.breaks:  # if arguments begin on new lines, none begins within JSON
            kept_out += self.opened(names)
        values = Values(JSON_SPELLING, self.rules, parameters, (*kept_out, *(self.items if d.item else ())))
        branches = _objects(values, parameters, at)
        if d.item:
            return choice(seq(self.nested_members(values, b, at), Const(end)) for b in branches)
        return choice(_MarkupBuilder(self, tool.name, values, b, at, end).all() for b in branches)

    def free(self, tool: Tool, grammar: Freeform, end: str) -> Node:
        """The only argument of a custom tool, whose text a grammar in the request describes."""
        (key,) = tool.parameters["properties"]
        if self.markup:
            template = self.d.argument[0]
            head, stop, rest = self.around(template, Const(key), "string")
            tail = literal(template.tail)
            margin = tail[: len(tail) - len(tail.lstrip())]
            ends = (
                *self.ends_of(template, [key], tool.name),
                *(t.text for t in own_tags(template, Const(key))),
            )
            return seq(head, Free(grammar.source, "", ends), Const(margin + stop), rest, Const(end))
        source, ends = grammar.source, string_ends(self.plan)
        if self.keyworded:
            return choice(seq(Const(f"{key}={q}"), Free(source, q), Const(q + end)) for q in ("'", '"'))
        style, quote = self.spelling.style, self.spelling.quote
        opening = "{" + style.key(key) + style.colon
        if quote:
            return seq(Const(opening + quote), Free(source, "", (quote,)), Const(quote + "}" + end))
        quotes = ("'", '"') if self.spelling is PYTHON_SPELLING else ('"',)
        return choice(seq(Const(opening + q), Free(source, q, ends), Const(q + "}" + end)) for q in quotes)

    def value(self, parameters: dict[str, Any], at: str) -> Node:
        values = Values(self.spelling, self.rules, parameters, string_ends(self.plan))
        if self.spelling is JSON_SPELLING:
            return spelled(values, parameters, at)
        write = partial(self.keywords, values) if self.keyworded else values.object
        return choice(write(b, at) for b in _objects(values, parameters, at))

    def opened(self, names: list[str]) -> tuple[str, ...]:
        """The openings of arguments of these names; with the name, since a bracket may also begin JSON or a tag."""
        found = [_before_names(o, names) if o in ("[", "{", "<") else [o] for o in self.openings]
        return tuple(itertools.chain.from_iterable(found))

    def keywords(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        entries, extra = values.entries(schema, at)
        bad = next((k for k, _, _ in entries if not is_keyword(k)), None)
        if bad is not None:
            raise ConstraintError(f"{at}.properties: {bad!r} cannot be the name of a keyword argument")
        if extra is not None:
            extra = seq(other_names(member_names(schema)), Const("="), extra)
        return values.members([(seq(Const(f"{k}="), v), r) for k, v, r in entries], extra, ", ")

    def ends_of(self, template: Template, names: list[str], tool: str) -> tuple[str, ...]:
        """The texts that may end the value of an argument with one of these names, in a call of this tool."""
        own = closing(template.after).first
        ends = _before_names(own, names) if template.tail[1:2] and template.tail[1].name == "key" else [own]
        ends += [closing(t.after).first for t in self.d.item[:1]]
        ends += [p.first for p in argument_closings(template, self.d)[1:]]
        outer = (_before_names(s.first, [tool]) if s.begins_with_name else [s.first] for s in self.outer)
        return tuple(dict.fromkeys((*ends, *itertools.chain.from_iterable(outer))))

    def guards(self, later: list[str]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The nodes that a text value must not contain or begin with: its closings, and the openings of arguments
        that may still come, each of which would replace a missing closing."""
        if not later or not self.guard:
            return self.guard, ()
        name = choice(map(Const, later)) if len(later) <= _MAX_TOLD else Chars("\\n", negated=True, max=256)
        opened = choice(_as_node(p.opening, name) for p in self.plan.arguments.parameters)
        if not self.plan.arguments.breaks:
            return (*self.guard, opened), ()
        first = any("\n" in p.lead for p in self.plan.arguments.parameters)
        lines = [seq(Const(line), opened) for line in self.plan.arguments.breaks]
        indented = (seq(Const(line[1:]), opened) for line in self.plan.arguments.breaks)
        return (*self.guard, *lines), tuple(indented) if first else ()

    def around(self, template: Template, key: Node, kind: str) -> tuple[Node, str, Node]:
        """The text before a value, the first marker after it, and the rest."""
        fields = _kinds(kind) | ({"key": key.text} if isinstance(key, Const) else {})

        def write(steps: Iterable[Step]) -> Node:
            return seq(
                *(key if step.name == "key" and "key" not in fields else Const(step.write(fields)) for step in steps)
            )

        tail = template.tail
        if "key" not in fields and any(step.name == "key" for step in tail):
            raise ConstraintError(
                f"additionalProperties: dialect {self.d.name!r} closes an argument with its name; allowed is false"
            )
        if "key" in fields:  # a closing that contains the name is one text
            tail = tuple(Step("", step.write(fields)) if step.name == "key" else step for step in tail)
            tail = (Step("", "".join(step.text for step in tail)),) if not any(step.name for step in tail) else tail
        stop = literal(tail)
        rest = without(tail, len(stop) - len(stop.lstrip()) + len(stop.strip()))
        return write(template.head), stop.strip(), write(rest)

    # -- arguments with nested values ------------------------------------------------------------------------

    def nested_members(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        _only(schema, _OF_OBJECTS, at)
        declared, more = shape(schema)
        if more is not False and more is not True:
            raise ConstraintError(
                f"{at}.additionalProperties: dialect {self.d.name!r} closes an argument with its name; allowed is false"
            )
        template = self.d.argument[0]
        entries = [(self.nested(values, node, template, Const(k), f"{at}.{k}"), r) for k, node, r in declared]
        return values.members(entries, None, self.d.separator.arguments)

    def nested(self, values: Values, schema: dict[str, Any] | bool, template: Template, key: Const, at: str) -> Node:
        """An argument or an item whose value may nest."""
        typed = any(step.name in ("string", "type") for step in template.steps)
        head, stop, rest = self.around(template, key, "")

        def around(kind: str) -> tuple[Node, str, Node]:
            return self.around(template, key, kind) if typed else (EMPTY, stop, rest)

        def make() -> Node:
            return self.values_in(around, values, schema, at)

        if isinstance(schema, dict) and "$ref" in schema:
            own = (key, template) if typed else (stop, rest)
            node = self.rules.once(("nested", id(values.definitions), schema["$ref"], *own), make)
        else:
            node = make()
        return node if typed else seq(head, node)

    def values_in(self, around: "_Around", values: Values, schema: dict[str, Any] | bool, at: str) -> Node:
        """The values of a schema, in the markup for each type."""
        found: list[Node] = []
        types = Schema(schema, {"$defs": values.definitions}).types
        # A value that must be a text does not nest, whatever it begins with.
        plain = types is not None and types <= {"string", "null"}
        kept_out = values.without if plain else (*values.without, *self.openings)
        for kind, one in _by_type(values.branches(schema), types, at):
            head, stop, rest = around("number" if kind == "integer" else kind)
            end = seq(Const(stop), rest)
            if kind == "object":
                found.append(seq(head, self.nested_members(values, one, at), end))
            elif kind == "array":
                found.append(seq(head, self.nested_items(values, one, at), end))
            elif kind != "string":
                found.append(seq(head, values.value(one, at), end))
            elif (texts := _listed_texts(one, kept_out)) is not None:
                found += [seq(head, Const(text), end) for text in texts]
            else:
                bounds = (one.get("minLength", 0), one.get("maxLength"), one.get("pattern", ""))
                found.append(seq(head, Text(stop, others(kept_out, stop), (), *bounds), rest))
        if not found:
            raise ConstraintError(f"{at}: admits no value")
        return choice(found)

    def nested_items(self, values: Values, schema: dict[str, Any], at: str) -> Node:
        _only(schema, ("type", "items", "prefixItems", "minItems", "maxItems"), at)

        def item(node: dict[str, Any] | bool, name: str) -> Node:
            return self.nested(values, node, self.d.item[0], EMPTY, f"{at}.{name}")

        return values.elements(schema, item, "")


_Around = Callable[[str], tuple[Node, str, Node]]
"""Maps the type of a value to what comes before it, the first marker after it, and the rest."""


class _MarkupBuilder:
    """The arguments of one tool in markup, up to the end of the call.

    A text value may contain its own closing, unless something follows that may follow an argument. So each argument
    is built together with what follows it: the beginning of the next one, or what closes the call. For printers that
    cannot express this, arguments are built separately, and their text contains no closing.
    """

    def __init__(
        self, arguments: Arguments, tool: str, values: Values, schema: dict[str, Any], at: str, end: str
    ) -> None:
        _only(schema, _OF_OBJECTS, at)
        self.arguments = arguments
        self.tool = tool
        self.serial = next(arguments.serials)
        self.values = values
        self.at = at
        self.end = end
        self.template = arguments.d.argument[0]
        self.opening = literal(self.template.head)
        self.entries, self.extra = shape(schema)
        if self.extra is True and any(step.name == "key" for step in self.template.tail):
            self.extra = False  # a grammar cannot repeat an opened name, so only declared names work
        self.names = member_names(schema)

    def all(self) -> Node:
        """The arguments, with what closes the call."""
        declared = [(self.alone(i), required) for i, (_, _, required) in enumerate(self.entries)]
        extra = None if self.extra is False else self.alone(len(self.entries))
        plain = seq(self.values.members(declared, extra, self.arguments.d.separator.arguments), Const(self.end))
        if not self.end or not self.arguments.guard:
            return plain
        return Finer(plain, _continued(self.continuations(0, "")))

    def alone(self, i: int) -> Node:
        return seq(Const(self.opening), self.argument(i, []))

    def continuations(self, i: int, separator: str) -> list[tuple[str, Node]]:
        """The continuations after the arguments before ``i``: a text, and what follows it."""
        found: list[tuple[str, Node]] = []
        if i < len(self.entries) or self.extra is not False:
            found.append((separator + self.opening, self.arguments_from(i)))
        if not any(required for _, _, required in self.entries[i:]):
            found.append((self.end, EMPTY))
        return _factored(found)

    def argument_or_later(self, i: int) -> Node:
        """An argument from ``i`` on that may come next, after its opening's beginning, with all that follows."""
        separator = self.arguments.d.separator.arguments
        if i == len(self.entries):
            return self.argument(i, self.continuations(i, separator))
        found = [self.argument(i, self.continuations(i + 1, separator))]
        if not self.entries[i][2] and (i + 1 < len(self.entries) or self.extra is not False):
            found.append(self.arguments_from(i + 1))
        return choice(found)

    def arguments_from(self, i: int) -> Node:
        return self.arguments.rules.once(("arguments", self.serial, i), lambda: self.argument_or_later(i))

    def argument(self, i: int, follow: list[tuple[str, Node]]) -> Node:
        """The argument at ``i``, after the beginning of its opening; after the last come undeclared arguments."""
        key: Node
        if i < len(self.entries):
            name, schema, _ = self.entries[i]
            key, at = Const(name), f"{self.at}.{name}"
        else:
            key, schema, at = other_names(self.names), self.extra, f"{self.at}.additionalProperties"
        text = self.template.text
        typed = "{string}" in text or "{type}" in text
        types = Schema(schema, {"$defs": self.values.definitions}).types
        found: list[Node] = []
        for kind, one in _by_type(self.values.branches(schema), types, at, typed=typed):
            if kind == "string":
                found += self.strings(i, key, one, at, follow)
            else:
                found.append(self.other(key, one, "number" if kind == "integer" else kind, at, follow))
        if not found:
            raise ConstraintError(f"{at}: admits no value")
        return choice(found)

    def around(self, template: Template, key: Node, kind: str) -> tuple[Node, str, str]:
        """The text before a value, without the beginning of the opening; the marker after the value; and the rest."""
        head, stop, rest = self.arguments.around(template, key, kind)
        first, *more = series(head)
        assert isinstance(first, Const)
        assert isinstance(rest, Const)
        return seq(Const(first.text[len(self.opening) :]), *more), stop, rest.text

    def later(self, i: int) -> list[str]:
        """The declared arguments that may still be missing when the one at ``i`` is written."""
        return [k for j, (k, _, required) in enumerate(self.entries) if j > i or (j < i and not required)]

    def ends_of(self, template: Template, key: Node) -> tuple[str, ...]:
        names = [key.text] if isinstance(key, Const) else self.names
        return self.arguments.ends_of(template, names, self.tool)

    def strings(self, i: int, key: Node, schema: dict[str, Any], at: str, follow: list[tuple[str, Node]]) -> list[Node]:
        # Longer than others: all of it is where one text ends, and each part would need most of these names.
        template = self.template
        later = self.later(i)
        opened = self.arguments.opened(later) if later else ()
        kept_out = (*self.ends_of(template, key), *opened)
        head, stop, rest = self.around(template, key, "string")
        twice = own_tags(template, key)
        texts = _listed_texts(schema, (*kept_out, *(t.text for t in twice)))
        if texts is not None:
            if not texts:
                raise ConstraintError(f"{at}: all its values contain markers of the dialect")
            closed = template.inner_trail + stop + rest
            return [seq(head, Const(text + closed), _continued(follow)) for text in texts]
        bounds = (schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern", ""))
        free = bounds == (0, None, "")
        # A bounded value is written exactly, and so is the white space before the marker.
        closed = stop + rest if free else template.inner_trail + stop + rest
        guard, unlike = self.arguments.guards(later) if follow else ((), ())
        longer = [t for t in writable(plain_arguments(self.arguments.d))[1:] if _beyond(t, template)]
        unlike = (*unlike, *(seq(SPACES, tag) for tag in twice), *(Const(_beyond(t, template)) for t in longer))
        ends = (seq(Const((stop + rest).strip()), SPACES),) if guard else ()

        def text(follower: str, head: str = "") -> Text:
            stop = closed + follower
            return Text(stop, others(kept_out, stop), unlike, *bounds, head=head, guard=guard, ends=ends)

        after = follow or [("", EMPTY)]
        if not longer or not free or not isinstance(head, Const):
            return [seq(head, text(f), node) for f, node in after]
        sections = [seq(self.section(t, key, opened, guarded=bool(guard)), _continued(follow)) for t in longer]
        return [*sections, *(seq(text(f, head.text), node) for f, node in after)]

    def section(self, template: Template, key: Node, opened: tuple[str, ...], *, guarded: bool) -> Node:
        """A text in a longer spelling, such as a CDATA section.

        The closing that the short one excludes may be allowed in it; the call's may not where another call follows,
        because it ends this one. It forms one word with what comes before it, since both openings begin alike.
        """
        opening, stop, rest = self.around(template, key, "string")
        assert isinstance(opening, Const)
        ends = self.ends_of(template, key)
        inside = _guard(template, self.arguments.plan) if guarded else ()
        without = others((*(ends[:1] if inside else ends), *opened), stop)
        return seq(Text(stop, without, head=opening.text, guard=inside), Const(rest))

    def other(self, key: Node, schema: dict[str, Any], kind: str, at: str, follow: list[tuple[str, Node]]) -> Node:
        head, stop, rest = self.around(self.template, key, kind)
        value = (spelled if kind in ("object", "array") else Values.value)(self.values, schema, at)
        return seq(head, value, Const(self.template.inner_trail + stop + rest), _continued(follow))


def own_tags(template: Template, key: Node) -> list[Const]:
    """The texts that count as a repeated tag where the value of an argument begins: its opening, and the last tag in
    it; of an unknown name, what every opening begins with."""
    if not isinstance(key, Const):
        return [Const(literal(template.head).strip())]
    opening = "".join(step.write({"key": key.text, **_kinds("string")}) for step in template.head).strip()
    tags = value_tags(pattern(template.before))
    last = opening[opening.rfind(tags[-1].first) :] if tags else opening
    return [Const(t) for t in dict.fromkeys((opening, last))] if opening[-1] in TAG_ENDS else []


def _kinds(kind: str) -> dict[str, str]:
    return {"string": "true" if kind == "string" else "false", "type": kind}


def _factored(found: list[tuple[str, Node]]) -> list[tuple[str, Node]]:
    """The same continuations, of which none begins as another does: lexers take the shorter text."""
    if len(found) < 2:
        return found
    (short, first), (long, second) = sorted(found, key=lambda each: len(each[0]))
    if not long.startswith(short):
        return found
    return [(short, choice((first, seq(Const(long[len(short) :]), second))))]


def _forbidding(parameters: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Parameters without other arguments of some names, if they may come first, alone, or after a name."""
    properties = parameters.get("properties")
    needed = any(key != NAME for key in parameters.get("required") or ())
    if properties is None or needed or parameters.get("additionalProperties") is False:
        return parameters
    return {**parameters, "properties": properties | {k: False for k in names if k not in properties}}


def spelled(values: Values, schema: dict[str, Any], at: str) -> Json:
    """JSON whose strings contain none of the texts that these values exclude."""
    whole = {**schema, "$defs": values.definitions} if values.definitions else schema
    if not values.without:
        return Json(whole)
    try:
        return Json(whole, values.without, values.value(schema, at))
    except ConstraintError as error:
        # A keyword that only JSON itself can enforce; its strings may then contain markers.
        return Json(whole, values.without, None, str(error))


def _continued(follow: list[tuple[str, Node]]) -> Node:
    if not follow:
        return EMPTY
    return choice(seq(Const(text), node) for text, node in follow)


def _guard(template: Template, plan: Plan) -> tuple[Node, ...]:
    """The ends of a text value: a closing, and something that may follow it. None if a closing contains a field,
    which lexers cannot handle: the text then contains no closing at all."""
    rule = follows(plan, argument_closings(template, plan.dialect))
    if any(a.kind not in (LITERAL, SPACE) for closings, _ in rule for p in closings for a in p.atoms):
        return ()
    found: list[Node] = []
    own = _as_node(plan.calls.separator)
    between = choice((SEPARATORS, seq(SEPARATORS, own, SEPARATORS))) if plan.calls.separator else SEPARATORS
    for closings, followers in rule:
        wanted = [first for first in dict.fromkeys(p.first for p in followers) if first]
        if closings and wanted:
            found.append(seq(choice(map(_as_node, closings)), between, choice(map(Const, wanted))))
    return tuple(found)


_BLANKS: Final = "".join(c for c in map(chr, range(0x3001)) if c.isspace())


def _before_names(opening: str, names: list[str]) -> list[str]:
    """The beginning of a marker before one of these names, with the white space that may come before it."""
    return [opening + name for name in (*names, *_BLANKS)]


_MAX_TOLD: Final = 64
"""The largest number of argument names that a text value excludes one by one; of more, it excludes all openings."""


_FIELDS: Final = {
    SPACE: SPACES, ANY: Chars("\\n", negated=True, min=0, max=256), WORD: Chars("A-Za-z_", max=32)
}  # fmt: skip


def _as_node(pattern: Pattern, name: Node = EMPTY) -> Node:
    """A pattern with this name in its other fields."""
    return seq(*(Const(a.text) if a.kind == LITERAL else _FIELDS.get(a.kind, name) for a in pattern.atoms))


def others(texts: Collection[str], stop: str) -> tuple[str, ...]:
    """The markers other than the one that ends a text, each once, without those that contain another."""
    found = sorted({t for t in texts if t and t != stop}, key=lambda t: (len(t), t))
    return tuple(t for i, t in enumerate(found) if not any(u in t for u in found[:i]))


def _objects(values: Values, schema: dict[str, Any], at: str) -> list[dict[str, Any]]:
    found = [b if isinstance(b, dict) else {} for b in values.branches(schema) if b is not False]
    found = [b for b in found if "type" not in b or b["type"] == "object" or "object" in b["type"]]
    if not found:
        raise ConstraintError(f"{at}: must admit an object")
    return found


_OF_OBJECTS: Final = ("type", "properties", "required", "additionalProperties")


def _only(schema: dict[str, Any], allowed: tuple[str, ...], at: str) -> None:
    for key in schema:
        if key not in allowed and key != "$defs":
            raise ConstraintError(
                f"{at}.{key}: is not supported for arguments in markup; supported are {', '.join(allowed)}"
            )


_KINDS: Final = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}


def _by_type(
    branches: Iterable[dict[str, Any] | bool], types: Collection[str] | None, at: str, *, typed: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """The types of a value, each with its schema. A value of any type is taken for a string, unless the markup tells
    types."""
    guesses = ("string", "number", "boolean", "null", "object", "array") if typed else ("string",)
    guessed: list[tuple[str, dict[str, Any]]] = []
    known: list[tuple[str, dict[str, Any]]] = []
    for branch in branches:
        if branch is False:
            continue
        if branch is True or not branch or (types is None and not typed):
            guessed += [(kind, {"type": kind}) for kind in guesses]
        else:
            known += _apart(branch, at)
    return guessed + (known if typed else _readable(known))


def _apart(branch: dict[str, Any], at: str) -> list[tuple[str, dict[str, Any]]]:
    """A schema for each type that it names."""
    if "enum" in branch or "const" in branch:
        listed = branch["enum"] if "enum" in branch else [branch["const"]]
        kinds: dict[str, list[Any]] = {}
        for value in listed:
            kinds.setdefault(_KINDS.get(type(value), "null"), []).append(value)
        return [(kind, {"enum": values}) for kind, values in kinds.items()]
    types = branch.get("type")
    if types is None:
        raise ConstraintError(f"{at}: a schema without a type has {', '.join(branch)}; add type")
    return [(kind, {**branch, "type": kind}) for kind in (types if isinstance(types, list) else [types])]


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    """The only values that a schema admits, if it lists its values."""
    found: list[Any] | None = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return found


def _listed_texts(schema: dict[str, Any], without: Collection[str]) -> list[str] | None:
    """The strings among the values that a schema lists, if it does, without those that contain a marker."""
    listed = _listed(schema)
    return None if listed is None else [v for v in listed if isinstance(v, str) and not any(m in v for m in without)]


def _readable(parts: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The branches of a schema, by type, whose values keep their type in markup without types. A text that is
    admitted as a string is read as one, except ``null``."""
    strings = [_listed(one) for kind, one in parts if kind == "string"]
    free = None in strings
    listed = [v for values in strings for v in values or ()]

    def is_read(kind: str) -> bool:
        if kind in ("string", "null"):
            return kind == "string" or "null" not in listed
        return not free and not any(decode(v, Schema({"type": kind}).kinds())[1] for v in listed)

    return [(kind, one) for kind, one in parts if is_read(kind)]


def _beyond(other: Template, first: Template) -> str:
    """What an opening has after all of another; ``""`` if it begins otherwise."""
    opening, longer = first.lead + first.opening, other.lead + other.opening
    return longer[len(opening) :] if longer.startswith(opening) else ""
