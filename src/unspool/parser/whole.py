"""Complete calls, written as their dialect writes them, read in one go.

The result is the same as that of the classes in `readers`. If anything is not plain (a schema that has to decide, a
key given twice, a marker in a value, an error), the result is ``None``, and they read the call.
"""

from collections.abc import Container
from typing import NamedTuple

from ..dialect.markers import Block, Form
from ..dialect.patterns import MAX_SPACE, NO, skip_space
from ..dialect.plan import Plan
from ..dialect.syntax import Syntax
from ..regex import Regex
from ..schema import Marked, Schema, decode_marked
from ..toolset import Toolset
from .ledger import CAP
from .openings import ARGUMENT_KEYS
from .readers.plain import whole_object
from .readers.strings import json_string
from .readers.value import marked_by, scalar
from .readers.wrapped import WRAPPERS
from .white import common_prefix, common_suffix

_HEADER = Regex(
    r'\s{0,64}+"(\w{1,64}+)"\s{0,64}+:\s{0,64}+"([^"\\\x00-\x1f]{1,256}+)"\s{0,64}+,\s{0,64}+"(\w{1,64}+)"\s{0,64}+:\s{0,64}+(?=\{)'
)
_WRAPPED = Regex(rf'\{{\s*+"(?:{"|".join(WRAPPERS)})"')


class Whole(NamedTuple):
    """A call, and the places in the text where its parts end.

    Attributes:
        name, arguments: the name of the call, and its arguments as JSON.
        header: the end of what is read up to its name.
        inside: the end of its arguments; ``end``: the end of the call.
    """

    name: str
    arguments: str
    header: int
    inside: int
    end: int


_Inside = tuple[str, str, int, int, int]
"""The same, before the call's own closing is read: the end is where that may begin."""


def whole_call(
    plan: Plan, tools: Toolset, form: Form, block: Block, text: str, i: int, fields: dict[str, str]
) -> Whole | None:
    """The call whose opening ends at ``i`` and has these fields, if all of it is there and plain."""
    policy = plan.policy
    if not form.arguments or form.forced or policy.bad_arguments == "repair" or policy.markers_in_strings == "end":
        return None
    names = tools.names
    if form.shape is not None:
        read = _object(form, form.marked or block.marked, names, text, i)
    elif form.syntax is Syntax.JSON:
        begin = skip_space(text, i)
        inside = whole_object(text, begin) if begin - i <= MAX_SPACE else 0
        read = (fields["name"], text[begin:inside], i, inside, inside) if inside else None
    else:
        read = _markup(plan, tools.schema(fields["name"]), form, text, i, fields) if form.syntax is None else None
    if read is None:
        return None
    name, arguments, header, inside, end = read
    if names is not None and name not in names:
        return None
    if form.syntax is not None and _WRAPPED.match(arguments) and tools.schema(name) is not None:
        return None
    if form.closing:
        closing = skip_space(text, end)
        end = form.closing.match(text, closing, dict(fields)) if closing - end <= MAX_SPACE else NO
    if policy.bad_arguments in ("drop", "text") and end - i > CAP // 2:  # as a held call, it may be beyond the cap
        return None
    return Whole(name, arguments, header, inside, end) if end >= 0 else None


def _object(form: Form, marked: bool, names: Container[str] | None, text: str, i: int) -> _Inside | None:
    """A call that is an object with a name and arguments, whose inside begins at ``i``."""
    shape = form.shape
    assert shape is not None
    m = _HEADER.match(text, i)
    if m is None or shape.name_is_key or shape.quote != '"':
        return None
    keys = dict(shape.keys)
    first, name, second = m.groups()
    if keys.get(first) != "name" or "id" in keys.values() or not (marked or (names is not None and name in names)):
        return None
    if (keys.get(second) or ("arguments" if second in ARGUMENT_KEYS else "")) != "arguments":
        return None
    begin = m.end()
    inside = whole_object(text, begin)
    end = skip_space(text, inside) if inside else -1
    return (name, text[begin:inside], m.end(2) + 1, inside, end + 1) if end >= 0 and text.startswith("}", end) else None


def _markup(plan: Plan, schema: Schema | None, form: Form, text: str, i: int, fields: dict[str, str]) -> _Inside | None:
    """A call in markup, whose arguments are strings, numbers or booleans."""
    if schema is None or plan.arguments.items or plan.arguments.comma or plan.arguments.quoted or not form.closing:
        return None
    parameter = plan.arguments.parameters[0]  # the most literal one, which is tried first
    plain = parameter.plain()
    header = i
    arguments: dict[str, str] = {}
    m = None if plain is None else plain.match(text, i)
    while plain is not None and m is not None:
        key, value = m["key"], m["value"]
        start = common_prefix(value, parameter.lead)
        value = value[start : len(value) - common_suffix(value, start, len(value), parameter.trail)]
        json = _plain_value(schema.property(key), value, marked_by(m))
        if key in arguments or key in WRAPPERS or json is None:
            return None
        arguments[key] = json
        i = m.end()
        m = plain.match(text, i)
    closed, i = i, skip_space(text, i)
    if not arguments or i - closed > MAX_SPACE or form.closing.match(text, i, {}) < 0:
        return None
    pieces: list[str] = []  # joined once, since a value may be long
    for key, value in arguments.items():
        pieces += (', "', key, '": ', value)
    pieces[0] = '{"'
    return fields["name"], "".join([*pieces, "}"]), header, i, i


def _plain_value(schema: Schema | None, text: str, markup: Marked) -> str | None:
    """The JSON of an argument's text, if its schema leaves no doubt."""
    kinds = scalar(schema)
    if kinds is None:
        types = None if schema is None or schema.strings is not None else schema.types
        plain = types is not None and "string" in types and "null" not in types and markup is not Marked.OTHER
        return json_string(text) if plain else None
    json, fits = decode_marked(text, kinds, markup)
    return json if fits and len(text) <= CAP else None
