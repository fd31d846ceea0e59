"""Regular expressions that are compiled on first use, so that an import costs nothing.

Before Python 3.11.5, a possessive group matches too much if its inside fails after a repetition, a choice or a
look-ahead. So no expression has such a group (`tests/test_regex.py` tries them all).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub")


class Regex:
    """A regular expression; after its first use, its methods are those of the compiled pattern itself.

    Attributes:
        match, fullmatch, search, finditer, findall, sub: as those of `re.Pattern`.
    """

    __slots__ = (*_METHODS, "_made_of")

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[..., str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._made_of = pattern, flags

        # Not `__getattr__`, which would make every later lookup of a method slow.
        def first(name: str) -> Callable[..., Any]:
            def call(*args: Any, **named: Any) -> Any:
                compiled = re.compile(pattern, flags)
                for method in _METHODS:
                    setattr(self, method, getattr(compiled, method))
                return getattr(compiled, name)(*args, **named)

            return call

        for name in _METHODS:
            setattr(self, name, first(name))

    def __reduce__(self) -> tuple[type["Regex"], tuple[str, int]]:
        return type(self), self._made_of


class Prefix(Regex):
    """A regular expression that matches at every place, if only the empty text.

    Attributes:
        match: as in `re.Pattern`, but its result is never ``None``.
    """

    __slots__ = ()

    match: Callable[..., re.Match[str]]
