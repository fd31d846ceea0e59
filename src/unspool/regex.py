"""Regular expressions that are compiled when they are first used, so that an import costs nothing."""

import re
from collections.abc import Callable, Iterator
from typing import Any


class Regex:
    """A regular expression; after its first use, its methods are those of the compiled pattern itself.

    Attributes:
        match, fullmatch, search, finditer, findall, sub: as those of `re.Pattern`.
    """

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[..., str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = re.compile(self._pattern, self._flags)
        for method in ("match", "fullmatch", "search", "finditer", "findall", "sub"):
            setattr(self, method, getattr(compiled, method))
        return self.__dict__[name]
