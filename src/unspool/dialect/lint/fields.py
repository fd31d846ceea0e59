"""Rules about the fields of templates. They are tried before a template is parsed."""

from collections.abc import Iterator
from typing import NamedTuple

from ..template import BODIES, FIELDS, Field, pieces, single_braces
from .rule import Found, Rules, found

TEMPLATES = Rules()


class TemplateText(NamedTuple):
    """A template that was not parsed yet."""

    key: str  # where it is in the file
    kind: str  # the key of `FIELDS` and `BODIES`
    text: str
    first: bool  # whether messages are written by it

    @property
    def fields(self) -> list[str]:
        """The names of its fields."""
        return [p.name for p in pieces(self.text) if isinstance(p, Field)]


@TEMPLATES.row("every template, and `id`", "unknown field {{{field}}}; allowed are {allowed}")
def an_unknown_field(t: TemplateText) -> Iterator[Found]:
    for field in t.fields:
        if field not in FIELDS[t.kind]:
            yield found(t.key, field=field, allowed=", ".join(f"{{{a}}}" for a in FIELDS[t.kind]))


@TEMPLATES.row(
    "the first template of every key but `id`",
    "{{{field}}} is not allowed in the first alternative",
    ", because that one is written",
)
def a_skipped_field_that_is_written(t: TemplateText) -> Iterator[Found]:
    for field in t.fields if t.first else ():
        if field == "any" or (field == "name" and t.kind == "content"):
            yield found(t.key, field=field)


@TEMPLATES.row("every template but `id`", "{{{body}}} may occur only once")
def two_bodies(t: TemplateText) -> Iterator[Found]:
    bodies = [field for field in t.fields if field in BODIES.get(t.kind, ())]
    if len(bodies) > 1:
        yield found(t.key, body=bodies[0])


@TEMPLATES.row("every template but `call`", "needs the field {body}")
def no_body(t: TemplateText) -> Iterator[Found]:
    bodies = () if t.kind == "call" else BODIES.get(t.kind, ())
    if bodies and not any(field in bodies for field in t.fields):
        yield found(t.key, body=" or ".join(f"{{{b}}}" for b in bodies))


@TEMPLATES.row("call, tools", "needs {{name}}; where one object has both, write {proposal!r}")
def a_call_without_a_name(t: TemplateText) -> Iterator[Found]:
    if t.kind == "call" and "name" not in t.fields:
        both = '{"name": "{name}", "arguments": {arguments}}'
        single = single_braces(t.text)
        yield found(t.key, proposal=single.replace("{arguments}", both) if "{arguments}" in t.text else both)


@TEMPLATES.row("argument", "needs {{key}}")
def an_argument_without_a_key(t: TemplateText) -> Iterator[Found]:
    if t.kind == "argument" and "key" not in t.fields:
        yield found(t.key)
