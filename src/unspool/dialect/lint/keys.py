"""Rules about keys that need, or exclude, one another. They are tried when a file is loaded."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...events import Stage
from ..file import Dialect
from .rule import Found, Rules, found

KEYS = Rules()


_NEEDS = (("calls", "call"), ("argument", "call"), ("item", "call"), ("anywhere", "call"), ("item", "argument"))


@KEYS.row("calls, argument, item, anywhere, call", "needs `{other}`", instead="write it, or leave `{key}` out")
def a_key_without_another(d: Dialect) -> Iterator[Found]:
    for key, other in _NEEDS:
        if getattr(d, key) and not getattr(d, other):
            yield found(key, key=key, other=other)


@KEYS.row("call, reasoning, content", "the file defines neither `call` nor `reasoning` nor a framed `content`")
def nothing_to_read(d: Dialect) -> Iterator[Found]:
    if not (d.call or d.reasoning or d.framed):
        yield found("call")


@KEYS.row(
    "text, tools, content, calls", "is allowed only where content is framed and each call is on its own",
    instead="{proposal}",
)  # fmt: skip
def trained_tools_in_a_block(d: Dialect) -> Iterator[Found]:
    for key in ("text", "tools"):
        if not getattr(d.trained, key):
            continue
        block = d.calls[0] if d.calls else None
        if block is None:
            yield found(key, proposal="write `call`, for all other tools")
        elif not d.framed:
            own = "as in content = '<say>{content}</say>'"
            proposal = f"if the model writes markers around content, write them, {own}; if not, leave `{key}` out"
            yield found(key, proposal=proposal)
        elif block.opening or block.closing:
            moved = f"as in call = {block.opening + d.call[0].text + block.closing!r}"
            proposal = f"write calls = '{{calls}}', and its markers into the templates of calls, {moved}"
            yield found(key, proposal=f"{proposal}; if several calls are between them, leave `{key}` out")


@KEYS.row("tools, call", "must have the fields that `call` has", instead="write the same ones, as in {call!r}")
def trained_tools_with_other_fields(d: Dialect) -> Iterator[Found]:
    for glob, own in d.trained.tools if d.call else ():
        if own.body != d.call[0].body or own.object is not None or d.call[0].object is not None:
            yield found(f"tools.{glob}", call=d.call[0])


@KEYS.row("text", "must have markers on both sides of its field, without white space")
def text_without_markers(d: Dialect) -> Iterator[Found]:
    for one in d.trained.text:
        if not all(t.opening and t.closing and not t.inner_lead and not t.inner_trail for t in one.templates):
            yield found(f"text.{one.name}")


@KEYS.row("quote, argument, arguments", 'needs JSON arguments (no `argument`, no arguments = "python")')
def a_quote_where_arguments_are_not_json(d: Dialect) -> Iterator[Found]:
    if d.codec.quote != '"' and (d.argument or d.codec.name != "json"):
        yield found("quote")


@KEYS.row("arguments, argument", "cannot be combined with `argument`", instead="leave one of them out")
def two_ways_to_write_arguments(d: Dialect) -> Iterator[Found]:
    if d.argument and d.codec.name != "json":
        yield found("arguments")


@KEYS.row("anywhere, calls, call", "{text!r} begins no template of `calls` or `call`", instead="write how calls begin")
def an_opening_of_no_call(d: Dialect) -> Iterator[Found]:
    openings = [t.opening.strip() for t in (*d.calls, *d.call)]
    for text in d.anywhere:
        if not any(o.startswith(text) for o in openings):
            yield found("anywhere", text=text)


@KEYS.row(
    "stage, reasoning", "is 'reasoning', but the file has no `reasoning`", instead="write it, or leave `stage` out",
)  # fmt: skip
def a_stage_of_no_reasoning(d: Dialect) -> Iterator[Found]:
    if d.stage is Stage.REASONING and not d.reasoning:
        yield found("stage")


# -- sizes -------------------------------------------------------------------------------------------------------------
SIZES = Rules()

MAX_TEXT: Final = 512
"""How many characters a template, a marker or a name may have; regular expressions of longer ones nest too deeply."""
MAX_TEXTS: Final = 64  # how many templates, markers or names a key may list, since each is searched for everywhere


@SIZES.row("every key but `examples`", "contains a text of {size:,} characters; allowed are {allowed}")
def a_long_text(tables: Mapping[str, Any]) -> Iterator[Found]:
    for key, texts in _texts_by_key(tables):
        if (size := max(map(len, texts), default=0)) > MAX_TEXT:
            yield found(key, size=size, allowed=MAX_TEXT)


@SIZES.row("every key but `examples`", "contains {count:,} texts; allowed are {allowed}")
def many_texts(tables: Mapping[str, Any]) -> Iterator[Found]:
    for key, texts in _texts_by_key(tables):
        if len(texts) > MAX_TEXTS:
            yield found(key, count=len(texts), allowed=MAX_TEXTS)


def _texts_by_key(tables: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    return ((key, list(_texts(value))) for key, value in tables.items() if key != "examples")


def _texts(value: object) -> Iterator[str]:
    """Every text in a value, and every key of its tables."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            waiting += [*inner, *inner.values()]
        elif isinstance(inner, list):
            waiting += inner
