"""Regular expressions that are compiled when they are first used, so that an import costs nothing.

Python before 3.11.5 takes too much where the inside of a possessive group fails after a repetition, a choice or a look
ahead in it. So these stand where such a group begins, or not in it at all (`tests/test_regex.py`).
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

    __slots__ = _METHODS

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[..., str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        # Not `__getattr__`, which would make every later look-up of a method slow.
        def first(name: str) -> Callable[..., Any]:
            def call(*args: Any, **named: Any) -> Any:
                compiled = re.compile(pattern, flags)
                for method in _METHODS:
                    setattr(self, method, getattr(compiled, method))
                return getattr(compiled, name)(*args, **named)

            return call

        for name in _METHODS:
            setattr(self, name, first(name))


class Prefix(Regex):
    """A regular expression that matches at every place, if only nothing.

    Attributes:
        match: as that of `re.Pattern`, but never ``None``.
    """

    __slots__ = ()

    match: Callable[..., re.Match[str]]
