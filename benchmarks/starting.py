"""The cost before the first chunk: a parser, the import, the first use of a dialect."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import unspool
from unspool import Dialect, Parser

from .clock import Clock, seconds
from .effort import Effort, one_each
from .samples import Tools, calling
from .table import Row, ranked
from .texts import HUNDRED_TOOLS, TOOLS

_CONSTRUCTION: Final = 100.0
_IMPORT: Final = 60.0
_FIRST_USE: Final = 10.0
_PARSERS: Final = 50
"""The number of parsers made in a round."""

_IMPORTING: Final = """
import time
start = time.process_time()
from unspool import Parser, parse
print((time.process_time() - start) * 1e3)
"""
_READING: Final = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from unspool import Parser, parse
print(sum(path.endswith(".toml") for path in opened))
"""
_USING: Final = """
import json, sys, time
name, tools = sys.argv[1], json.loads(sys.argv[2])
from unspool import Parser
start = time.process_time()
Parser(name, tools=tools).feed("Hello")
print((time.process_time() - start) * 1e3)
"""


def with_bytecode(folder: str) -> dict[str, str]:
    """The environment for interpreters that keep bytecode, as installed packages have it, in a folder.

    The caller's environment may forbid bytecode. Then each process would compile all that it imports.
    """
    env = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def construct(effort: Effort) -> Iterator[Row]:
    """The cost of a parser, after the first one of its dialect."""
    found = [(_constructing(d, TOOLS, effort.rounds), d) for d in calling()]
    yield from ranked("a Parser", found, "× bare", median=_CONSTRUCTION, worst=_CONSTRUCTION, of="4 tools")
    found = [(_constructing(d, HUNDRED_TOOLS, effort.rounds), d) for d in one_each()]
    yield from ranked("a Parser", found, "× bare", of="100 tools")


def _constructing(dialect: Dialect, tools: Tools, rounds: int) -> float:
    """The cost of a parser, in bare calls."""
    name = dialect.name
    Parser(name, tools=tools)
    clock = Clock(_PARSERS)
    for _ in range(rounds):
        start = seconds()
        for _ in range(_PARSERS):
            Parser(name, tools=tools)
        clock.add(seconds() - start, _PARSERS)
    return clock.ratio


def imports(effort: Effort) -> Iterator[Row]:
    """`import unspool` in a fresh interpreter whose bytecode is cached."""
    with _Interpreters() as python:
        fastest = min(python.number(_IMPORTING) for _ in range(2 * effort.starts))
        yield Row("import unspool", f"quickest of {2 * effort.starts}", fastest, "ms", _IMPORT)
        yield Row("import unspool", "dialect files read", python.number(_READING), "", 0)


def first_use(effort: Effort) -> Iterator[Row]:
    """`Parser(name).feed("Hello")` in a fresh interpreter, directly after the import."""
    every = calling()
    with _Interpreters() as python:
        for kind, names in (
            ("by name", {d.name: d for d in every}),
            ("by alias", {d.aliases[-1]: d for d in every if d.aliases}),
        ):
            if not effort.everywhere:
                names = dict(list(names.items())[::8])
            found = _first_uses(python, list(names), effort.starts)
            yield from ranked(
                "first use of a dialect", [(found[n], names[n]) for n in names], "ms", worst=_FIRST_USE, of=kind
            )


def _first_uses(python: "_Interpreters", names: list[str], starts: int) -> dict[str, float]:
    """Milliseconds by name. The slowest so far is measured again, until it stays the slowest."""
    tools = json.dumps(TOOLS)
    found = {name: [python.number(_USING, name, tools)] for name in names}
    while True:
        slowest = max(found, key=lambda name: min(found[name]))
        if len(found[slowest]) >= starts:
            return {name: min(times) for name, times in found.items()}
        found[slowest].append(python.number(_USING, slowest, tools))


class _Interpreters:
    """Fresh interpreters that find only this unspool, msgspec, and their bytecode.

    They find no other installed package: msgspec would import ``typing_extensions``, which takes a third longer.
    """

    def __enter__(self) -> "_Interpreters":
        self._folder = tempfile.TemporaryDirectory()
        for package in (unspool, msgspec):
            Path(self._folder.name, package.__name__).symlink_to(Path(package.__path__[0]))
        self._env = with_bytecode(self._folder.name) | {"PYTHONPATH": self._folder.name}
        self.number(_USING, "json", json.dumps(TOOLS))  # fills the cache
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def number(self, code: str, *args: str) -> float:
        """The output of the code."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, *args], env=self._env, stdout=subprocess.PIPE, text=True, check=True
        )
        return float(done.stdout)
