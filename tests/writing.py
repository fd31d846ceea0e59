"""A simple writer of model output, independent of the renderer.

It fills the first form of each part, and refuses nothing.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from unspool import Dialect

Arguments = dict[str, Any] | str
"""The values of a call, or its arguments as the text that the model writes."""

_FIELD = re.compile(r"\{([a-z_]+)\}")


def fill(template: str, **fields: str) -> str:
    """A template with its fields filled. The inserted text is not expanded again."""
    return _FIELD.sub(lambda m: fields[m.group(1)], template)


def write_calls(dialect: Dialect, calls: Sequence[tuple[str, Arguments]]) -> str:
    """Calls in the dialect's first forms, without white space before the first call."""
    written = [write_call(dialect, i, *call) for i, call in enumerate(calls)]
    template = dialect.calls[0].text
    if "{calls}" in template:
        text = fill(template, calls=dialect.separator.calls.join(written))
    else:
        lead = dialect.calls[0].lead
        blocks = [fill(template, call=w) for w in written]
        # Between blocks, the separator replaces the margin of the next one.
        text = dialect.separator.calls.join([blocks[0], *(b.removeprefix(lead) for b in blocks[1:])])
    return text.lstrip()


def write_call(dialect: Dialect, index: int, name: str, arguments: Arguments) -> str:
    """One call."""
    call_id = {"{index}": str(index)}.get(dialect.id, f"id{index:07}")
    text = arguments if isinstance(arguments, str) else write_arguments(dialect, arguments)
    return fill(
        dialect.call[0].text, name=name, arguments=text, index=str(index), number=str(index + 1), id=call_id
    )  # fmt: skip


def call_forms(dialect: Dialect, name: str, arguments: str) -> Iterator[str]:
    """One call in every form that the dialect lists, without outer white space."""
    fields = {"name": name, "arguments": arguments, "index": "0", "number": "1", "id": "id0000000", "any": "x"}
    for call in dialect.call:
        text = fill(call.text, **fields)
        yield from (fill(block.text, calls=text, call=text, any="x").strip() for block in dialect.calls)


def an_id(dialect: Dialect, index: int, name: str) -> str:
    """An id in the dialect's form."""
    return fill(dialect.id, name=name, index=str(index), number=str(index + 1)).replace("?", "0")


def write_arguments(dialect: Dialect, values: dict[str, Any]) -> str:
    """The arguments of a call."""
    if dialect.argument:
        return dialect.separator.arguments.join(_argument(dialect, k, v) for k, v in values.items())
    if dialect.codec.quote != '"':
        return _quoted(dialect, values)
    if dialect.codec.name == "python" and dialect.call[0].object is None:
        return ", ".join(f"{k}={v!r}" for k, v in values.items())
    return json.dumps(values, ensure_ascii=False)


def write_argument_text(dialect: Dialect, key: str, value: str) -> str:
    """The arguments of a call with one argument, a number with these digits."""
    if dialect.argument:
        return fill(dialect.argument[0].text, key=key, value=value, string="false", type="number")
    if dialect.codec.quote != '"':
        return f"{{{key}:{value}}}"
    if dialect.codec.name == "python" and dialect.call[0].object is None:
        return f"{key}={value}"
    return f'{{"{key}": {value}}}'


def _argument(dialect: Dialect, key: str, value: Any) -> str:
    template = dialect.argument[0].text
    string = "true" if isinstance(value, str) else "false"
    return fill(template, key=key, value=_value(dialect, value), string=string, type=_type(value))


def _value(dialect: Dialect, value: Any) -> str:
    if isinstance(value, str):
        return value
    if dialect.item and isinstance(value, dict) and value:
        return write_arguments(dialect, value)
    if dialect.item and isinstance(value, list) and value:
        return "".join(fill(dialect.item[0].text, value=_value(dialect, v)) for v in value)
    return json.dumps(value, ensure_ascii=False)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}[type(value)]


def _quoted(dialect: Dialect, value: Any) -> str:
    if isinstance(value, str):
        return f"{dialect.codec.quote}{value}{dialect.codec.quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_quoted(dialect, v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_quoted(dialect, v) for v in value) + "]"
    return json.dumps(value)


def write_reasoning(dialect: Dialect, reasoning: str) -> str:
    """A reasoning part; its margins are left out."""
    return fill(dialect.reasoning[0].text, reasoning=reasoning).strip()


def around_reasoning(dialect: Dialect) -> tuple[str, str]:
    """The opening and the closing of a reasoning part, without margins."""
    head, _, tail = write_reasoning(dialect, "\0").partition("\0")
    return head, tail


def write_content(dialect: Dialect, content: str) -> str:
    """A content part in the dialect's own frame, if it has one; margins of a turn are left out."""
    template = dialect.content[0]
    return fill(template.text if dialect.framed else template.text.strip(), content=content)


def write_turn(dialect: Dialect, content: str) -> str:
    """A turn with only content and no frame, with the white space that the dialect writes around it."""
    return fill(dialect.content[0].text, content=content)
