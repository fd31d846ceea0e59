"""Templates: text as the model writes it, with fields in braces for the text that varies."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from ..errors import DialectError
from ..regex import Regex

FIELDS: dict[str, tuple[str, ...]] = {
    "reasoning": ("reasoning", "any"),
    "content": ("content", "name", "any"),
    "preamble": ("content", "any"),
    "calls": ("calls", "call", "any"),
    "call": ("name", "arguments", "index", "number", "id", "any"),
    "argument": ("key", "value", "string", "type", "any"),
    "item": ("value", "any"),
    "id": ("name", "index", "number"),
}
"""The fields that each kind of template may contain. ``{any}`` is allowed only in templates that are never
written, and so is ``{name}`` in content: a tool's name that is skipped."""

BODIES: dict[str, tuple[str, ...]] = {
    "reasoning": ("reasoning",),
    "content": ("content",),
    "preamble": ("content",),
    "calls": ("calls", "call"),
    "call": ("arguments",),
    "argument": ("value",),
    "item": ("value",),
}
"""The field that a part is about: what comes before it opens the part, what comes after it closes it."""

_WHOLE: Final = frozenset(body for bodies in BODIES.values() for body in bodies)

_FIELD = Regex(r"\{([a-z_]+)\}")


class Field(msgspec.Struct, frozen=True, gc=False):
    name: str


Piece = str | Field


def text_of(parts: tuple[Piece, ...]) -> str:
    """The text of some pieces, without their fields."""
    return "".join(p for p in parts if isinstance(p, str))


class Template(msgspec.Struct, frozen=True):
    text: str  # as written in the file
    # before, after: the text on either side of the body, without white space that touches a text body.
    before: tuple[Piece, ...]
    body: str  # the name of the body's field; ``""`` if there is none (a call without arguments)
    after: tuple[Piece, ...]
    # lead, trail: white space at the outer edges (the margins).
    lead: str
    trail: str
    # inner_lead, inner_trail: white space between the markers and a text body; it belongs to the markers.
    inner_lead: str
    inner_trail: str
    object: "ObjectShape | None" = None  # a call written as an object, or ``None``
    # The other spelling of a literal with which this copy of a template is read; ``None`` if it is none.
    spelled: str | None = None

    @property
    def steps(self) -> "tuple[Step, ...]":
        """The literals and fields of the text, in the order in which they are written."""
        # In an object, quotes are the object's own.
        return steps_of(self.text, self.object is None)

    @property
    def head(self) -> "tuple[Step, ...]":
        """The steps before the body; all steps if the template has no body."""
        return _sides(self)[0]

    @property
    def tail(self) -> "tuple[Step, ...]":
        return _sides(self)[1]

    @property
    def opening(self) -> str:
        """The text before the body, without the margin; all text if the template has no body."""
        return self._around()[0][len(self.lead) :]

    @property
    def closing(self) -> str:
        """The text after the body, without the margin."""
        closing = self._around()[1]
        return closing[: len(closing) - len(self.trail)]

    def _around(self) -> tuple[str, str]:
        if not self.body:
            return self.text, ""
        before, _, after = self.text.partition(f"{{{self.body}}}")
        return before, after

    def fill(self, fields: Mapping[str, str]) -> str:
        return written(self.steps, fields)


class ObjectShape(msgspec.Struct, frozen=True, gc=False):
    """A call that is written as an object: the meaning of each key.

    ``keys`` pairs a key with ``name``, ``arguments``, ``id``, ``index`` or ``number``. ``name_is_key``: the only one.
    """

    keys: tuple[tuple[str, str], ...]
    name_is_key: bool
    quote: str


class TextCall(msgspec.Struct, frozen=True):
    """How a model writes calls of a tool that it was trained on, whose only argument is bare text, ``{value}``."""

    name: str
    key: str
    templates: tuple[Template, ...]


class Trained(msgspec.Struct, frozen=True):
    """The tools that a model was trained on, and whose calls it writes differently: with bare text as their only
    argument, or by templates for a glob of the tool's name."""

    text: tuple[TextCall, ...] = ()
    tools: tuple[tuple[str, Template], ...] = ()


class Codec(msgspec.Struct, frozen=True):
    """The syntax of arguments that are one object: ``json`` or ``python``, and the quote around strings in JSON."""

    name: str = "json"
    quote: str = '"'


class Separator(msgspec.Struct, frozen=True):
    """The text between two calls, and between two arguments."""

    calls: str = ""
    arguments: str = ""


def pieces(text: str) -> list[Piece]:
    """The literals and fields of a text, in turn."""
    found: list[Piece] = []
    at = 0
    for m in _FIELD.finditer(text):
        if m.start() > at:
            found.append(text[at : m.start()])
        found.append(Field(m.group(1)))
        at = m.end()
    if at < len(text):
        found.append(text[at:])
    return found


def parse_template(kind: str, text: str, where: str) -> Template:
    """Parse a template; `DialectError` if it is a call's object with other members than it may have."""
    parts = pieces(text)
    body = next((p.name for p in parts if isinstance(p, Field) and p.name in BODIES[kind]), "")
    shaped = _object_call(text, where) if kind == "call" and body else None
    if shaped is not None:
        return shaped
    at = parts.index(Field(body)) if body else len(parts)
    before, after = parts[:at], parts[at + 1 :]
    lead = trail = inner_lead = inner_trail = ""
    if body in ("reasoning", "content", "value"):
        before, inner_lead = _cut_end(before)
        after, inner_trail = _cut_start(after)
    before, lead = _cut_start(before)
    after, trail = _cut_end(after)
    if not body:
        before, trail = _cut_end(before)
    return Template(text, tuple(before), body, tuple(after), lead, trail, inner_lead, inner_trail)


def single_braces(text: str) -> str:
    """A template without braces around those of the arguments."""
    return text.replace("{{arguments}}", "{arguments}")


def _cut_start(parts: list[Piece]) -> tuple[list[Piece], str]:
    if parts and isinstance(parts[0], str):
        text = parts[0].lstrip()
        space = parts[0][: len(parts[0]) - len(text)]
        return ([text, *parts[1:]] if text else parts[1:]), space
    return parts, ""


def _cut_end(parts: list[Piece]) -> tuple[list[Piece], str]:
    if parts and isinstance(parts[-1], str):
        text = parts[-1].rstrip()
        space = parts[-1][len(text) :]
        return ([*parts[:-1], text] if text else parts[:-1]), space
    return parts, ""


_MEMBER = Regex(r"""(['"])([^'"{}]+)\1\s*:\s*(?:(['"])?\{(name|id|index|number|arguments)\}\3?)\s*(,|\Z)\s*""")
_OBJECT = Regex(r"\{(?=\s*['\"])")
_NAME_KEY = Regex(r"""(['"])\{name\}\1\s*:\s*\{arguments\}\s*""")


def _object_call(text: str, where: str) -> Template | None:
    """The object that a call is, if its arguments are inside literal braces.

    If that object is a member of another, the rest of the outer one is text around it.
    """
    first = _OBJECT.search(text)
    if first is None or first.start() > text.index("{arguments}"):
        return None
    # A name may also come before the object.
    inside = min(i for f in ("{name}", "{arguments}") if (i := text.find(f, first.start())) >= 0)
    braces = [m for m in _OBJECT.finditer(text) if m.start() < inside]
    opened = braces[-1]
    closed = len(text)
    for _ in braces:
        closed = text.rindex("}", 0, closed)
    inner = text[opened.end() : closed].strip()
    head, tail = text[: opened.start()], text[closed + 1 :]
    m = _NAME_KEY.fullmatch(inner)
    if m is not None:
        shape = ObjectShape((), True, m.group(1))
    else:
        keys: list[tuple[str, str]] = []
        at = 0
        quote = inner[0]
        while at < len(inner):
            member = _MEMBER.match(inner, at)
            if member is None:
                allowed = '"key": "{name}", "key": {arguments}, "key": "{id}", or {"{name}": {arguments}}'
                if "{{arguments}}" in inner:
                    allowed += f"; arguments have braces of their own: write {single_braces(text)!r}"
                raise DialectError(
                    f"{where}: {inner[at:]!r} is not a member that the object of a call may have; allowed are {allowed}"
                )
            keys.append((member.group(2), member.group(4)))
            at = member.end()
        shape = ObjectShape(tuple(keys), False, quote)
        if not any(role == "name" for _, role in keys):
            raise DialectError(f"{where}: the object needs {{name}}")
    before, lead = _cut_start(pieces(head))
    before, _ = _cut_end(before)
    after, _ = _cut_start(pieces(tail))
    after, trail = _cut_end(after)
    return Template(text, tuple(before), "arguments", tuple(after), lead, trail, "", "", shape)


# --- filling a template ---------------------------------------------------------------------------------------------


class Step(msgspec.Struct, frozen=True, gc=False):
    """A literal (``name`` is empty), or a field; ``quoted`` if it is escaped, because it is in double quotes."""

    name: str
    text: str = ""
    quoted: bool = False

    def write(self, fields: Mapping[str, str]) -> str:
        """The literal, or the text of the field."""
        if not self.name:
            return self.text
        value = fields[self.name]
        return escape(value) if self.quoted else value


_ENTITIES: Final = {"&quot;": '"', "&apos;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY: Final = Regex("&(?:quot|apos|lt|gt|amp);")


def escape(text: str) -> str:
    """Escape text for use between double quotes."""
    return text.replace("&", "&amp;").replace('"', "&quot;")


def unescape(text: str) -> str:
    """Unescape text between quotes; an ``&`` that begins none of XML's five entities stands for itself."""
    return _ENTITY.sub(lambda m: _ENTITIES[m.group()], text) if "&" in text else text


@lru_cache(maxsize=1024)
def steps_of(text: str, markup: bool = False) -> tuple[Step, ...]:
    """The literals and fields of a text. Bodies are never escaped; without ``markup``, no field is."""
    parts = pieces(text)
    found = []
    for i, part in enumerate(parts):
        if isinstance(part, Field):
            before, after = parts[i - 1] if i else "", parts[i + 1] if i + 1 < len(parts) else ""
            between = isinstance(before, str) and before.endswith('"') and isinstance(after, str) and after[:1] == '"'
            found.append(Step(part.name, quoted=markup and between and part.name not in _WHOLE))
        else:
            found.append(Step("", part))
    return tuple(found)


@lru_cache(maxsize=1024)
def _sides(template: Template) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    steps = template.steps
    at = next((i for i, step in enumerate(steps) if step.name and step.name == template.body), len(steps))
    return steps[:at], steps[at + 1 :]


def written(steps: Iterable[Step], fields: Mapping[str, str]) -> str:
    return "".join([step.write(fields) for step in steps])


def literal(steps: Sequence[Step]) -> str:
    """The text of steps up to the first field."""
    return steps[0].text if steps and not steps[0].name else ""


def without(steps: Sequence[Step], count: int) -> tuple[Step, ...]:
    """Steps without this many characters of their first literal."""
    if not count:
        return tuple(steps)
    rest = literal(steps)[count:]
    return (Step("", rest), *steps[1:]) if rest else tuple(steps[1:])


def unstarted(opening: str, starts: tuple[str, ...]) -> str:
    """An opening without the ``start``, or its end, that the prompt already contains.

    Equal signs are not divided: the end of ``<bot>`` does not begin ``>>{name}``.
    """
    ends = _ends(starts)
    if not opening.startswith(ends):
        return opening
    held = next(text for text in ends if opening.startswith(text))
    divided = len(set(held)) == 1 and not held.isalnum() and opening.startswith(held[0], len(held))
    return opening if divided else opening[len(held) :]


@lru_cache(1)  # they are large if there are many starts, and asked for at once
def _ends(starts: tuple[str, ...]) -> tuple[str, ...]:
    """The starts, and all their ends, that are not blank: the longest first."""
    ordered = sorted(starts, key=len, reverse=True)
    ends = (start[i:] for start in ordered for i in range(1, len(start)))
    return tuple(text for text in (*ordered, *ends) if text.strip())


def id_pattern(template: str, name: str) -> str:
    """A regular expression for the ids of a tool's calls; the first number is a group, named after its field."""
    found = ""
    for step in steps_of(template):
        if step.name == "name":
            found += re.escape(name)
        elif step.name:
            found += f"(?:{_DIGITS})" if "(?P<" in found else f"(?P<{step.name}>{_DIGITS})"
        else:
            found += "".join("[A-Za-z0-9]" if c == "?" else re.escape(c) for c in step.text)
    return found


_DIGITS: Final = "(?:0|[1-9][0-9]{0,17})"


def writable(templates: Sequence[Template]) -> list[Template]:
    return [t for t in templates if "{any}" not in t.text and t.spelled is None]
