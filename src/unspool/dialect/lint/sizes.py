"""Rules about the sizes of a file's texts and lists. They are tried on its tables, before a template is read."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .rule import Found, Rules, found

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
