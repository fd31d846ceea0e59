"""Calls that stand whole in the text, written as their dialect writes them: read at a glance.

What is read here the readers of `readers` would say in the same words. Where anything is not plain (a schema that has
to decide, a key given twice, a marker in a value, an error) this says nothing, and they read the call.
"""

from typing import NamedTuple

from ..dialect.markers import Block, Form
from ..dialect.patterns import skip_space
from ..dialect.syntax import Syntax
from ..regex import Regex
from ..schema import Schema
from .call import Desk
from .openings import ARGUMENT_KEYS, Match, Openings
from .readers.plain import whole_object
from .readers.strings import escaped
from .readers.wrapped import WRAPPERS
from .white import common_prefix, common_suffix

_HEADER = Regex(
    r'\s{0,64}+"(\w{1,64}+)"\s{0,64}+:\s{0,64}+"([^"\\\x00-\x1f]{1,256}+)"\s{0,64}+,\s{0,64}+"(\w{1,64}+)"\s{0,64}+:\s{0,64}+(?=\{)'
)
_WRAPPED = Regex(rf'\{{\s*+"(?:{"|".join(WRAPPERS)})"')


class Whole(NamedTuple):
    """A call, and where in the text its parts end.

    Attributes:
        name, arguments: of the call; the arguments are JSON.
        header: where what is read for its name ends.
        inside: where its arguments end; ``end``: where it ends.
    """

    name: str
    arguments: str
    header: int
    inside: int
    end: int


_Inside = tuple[str, str, int, int, int]
"""The same, but for the call's own closing: where that may begin stands in place of the end."""


def whole_call(openings: Openings, desk: Desk, form: Form, block: Block, match: Match, buf: str) -> Whole | None:
    """The call whose opening matched, if all of it is there and plain."""
    if not form.arguments or form.forced or openings.repairing or openings.string_ends() or openings.look.by_ids:
        return None
    fields = match.fields
    if form.shape is not None:
        read = _object(openings, form, block, match.end, buf)
    elif form.syntax is Syntax.JSON:
        i = skip_space(buf, match.end)
        inside = whole_object(buf, i)
        read = (fields["name"], buf[i:inside], match.end, inside, inside) if inside else None
    else:
        read = _markup(openings, desk, form, match, buf) if form.syntax is None else None
    if read is None:
        return None
    name, arguments, header, inside, end = read
    if desk.known(name) is False:
        return None
    if form.syntax is not None and _WRAPPED.match(arguments) and desk.schema(name) is not None:
        return None
    if form.suffix:
        end = openings.look.stands(form.suffix, skip_space(buf, end), dict(fields))
    return Whole(name, arguments, header, inside, end) if end >= 0 else None


def _object(openings: Openings, form: Form, block: Block, i: int, buf: str) -> _Inside | None:
    """A call that is an object of a name and arguments, whose inside begins at ``i``."""
    shape = form.shape
    assert shape is not None
    m = _HEADER.match(buf, i)
    if m is None or shape.name_is_key or shape.quote != '"':
        return None
    keys = dict(shape.keys)
    first, name, second = m.groups()
    if keys.get(first) != "name" or "id" in keys.values() or not openings.takes_name(form, block, name):
        return None
    if (keys.get(second) or ("arguments" if second in ARGUMENT_KEYS else "")) != "arguments":
        return None
    begin = m.end()
    inside = whole_object(buf, begin)
    end = skip_space(buf, inside) if inside else -1
    return (name, buf[begin:inside], m.end(2) + 1, inside, end + 1) if end >= 0 and buf.startswith("}", end) else None


def _markup(openings: Openings, desk: Desk, form: Form, match: Match, buf: str) -> _Inside | None:
    """A call whose arguments are strings, each in markup of its own."""
    plan = openings.look.plan
    name = match.fields["name"]
    schema = desk.schema(name)
    parameter = plan.parameters[0]  # the most literal one, which counts before the others
    plain = parameter.plain()
    if schema is None or plain is None or plan.items or plan.comma or plan.quoted or not form.suffix:
        return None
    i = match.end
    m = plain.match(buf, i)
    told: dict[str, str] = {}
    while m is not None:
        key, text = m.groups()
        if key in told or not _is_string(schema, key):
            return None
        start = common_prefix(text, parameter.lead)
        told[key] = escaped(text[start : len(text) - common_suffix(text, start, len(text), parameter.trail)])
        i = m.end()
        m = plain.match(buf, i)
    i = skip_space(buf, i)
    if not told or openings.look.stands(form.suffix, i) < 0:
        return None
    inside = ", ".join([f'"{key}": "{value}"' for key, value in told.items()])
    return name, f"{{{inside}}}", match.end, i, i


def _is_string(schema: Schema, key: str) -> bool:
    """Whether an argument is a string, whatever it holds."""
    found = schema.property(key)
    kinds = None if found is None or key in WRAPPERS else found.kinds
    return kinds is not None and kinds.strings is None and "string" in kinds.types and "null" not in kinds.types
