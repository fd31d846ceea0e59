"""Checks a dialect file: the rules that it keeps, its own examples, and the promises of every dialect."""

from collections.abc import Callable, Iterable
from functools import partial
from os import PathLike
from pathlib import Path

import msgspec

from ..dialect.examples import example_tools
from ..dialect.file import Dialect
from ..dialect.lint import CHECKING, SOFT
from ..dialect.loader import read_dialect
from ..dialect.registry import find_base
from ..errors import ConstraintError, DialectError
from ..validation import check
from .examples import Problem, example_message, try_examples
from .hints import ENDS

__all__ = ["Problem", "check_dialect", "example_message", "load_dialect", "read_file", "try_examples"]


def load_dialect(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file and try its examples: each raw text is read whole, and each first one is rendered back.

    Args:
        path: a TOML file. Its ``base`` may be any dialect that `get_dialect` knows.

    Raises:
        DialectError: the file is invalid, or an example fails. The message names the key and what is allowed, or the
            example, the result and the expected result.
        TypeError: ``path`` is not a path.
    """
    check("path", path, (str, PathLike), "the path of a TOML file")
    if isinstance(path, str) and not path.endswith(".toml") and not Path(path).exists():
        raise DialectError(f"{path}: no such file; a shipped dialect is get_dialect({path!r})")
    dialect = read_file(path)
    for problem in try_examples(dialect):
        raise DialectError(f"{Path(path).name}: {problem}")
    return dialect


def read_file(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file without trying its examples."""
    return read_dialect(Path(path), find_base)


def check_dialect(dialect: Dialect) -> list[Problem]:
    """Return the problems of a dialect; an empty list if there are none.

    Every raw text must mean its example's message, and every promise of `unspool.check.promises` must hold, as for the
    shipped dialects. A dialect with calls needs an example with one.
    """
    check("dialect", dialect, Dialect, "a Dialect, such as get_dialect(name)")
    # Loading does not need the grammar.
    from .promises import DIALECT_PROMISES, RAW_PROMISES, WRITTEN_PROMISES
    from .trials import Trial, at_content

    found = [*try_examples(dialect), *(Problem(f.key, str(f)) for f in CHECKING.findings(dialect))]
    # What is wrong with a template may be why an example fails.
    found.sort(key=lambda problem: problem.where.startswith("examples"))
    if found:
        return found
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        for j, raw in enumerate(example.raw):
            case = Trial(dialect, j, raw, example, tools)
            for promise in (*RAW_PROMISES, *(WRITTEN_PROMISES if j == 0 else ())):
                found += _kept(f"examples[{i}].raw[{j}]", partial(promise, case), ENDS.hints(case))
    # The prompt decides the stage: a dialect that begins with reasoning must also work for outputs without it.
    for begun in dict.fromkeys((dialect, at_content(dialect))):
        for general in DIALECT_PROMISES:
            found += _kept("file", partial(general, begun))
    if found:
        found[0] = msgspec.structs.replace(found[0], why=(*found[0].why, *SOFT.hints(dialect)))
    return found


def _kept(where: str, promise: Callable[[], None], hints: Iterable[str] = ()) -> list[Problem]:
    try:
        promise()
    except (AssertionError, DialectError, ConstraintError) as error:
        return [Problem(where, str(error), tuple(hints))]
    return []
