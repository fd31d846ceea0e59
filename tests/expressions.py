"""Print every regular expression of the library as JSON, with its flags: `python -m tests.expressions`.

They are those of its modules, and those that it compiles while it reads the examples of all dialects. A process of its
own sees them all: in another one, most are compiled already.
"""

import gc
import importlib
import json
import pkgutil
import re
from re import _compiler as compiler  # type: ignore[attr-defined]  # it has no stub
from typing import Any

_COMPILE = compiler.compile
_FOREIGN = ("unspool.plugins.", "unspool.rl.")
"""Modules that need other packages."""

compiled: set[tuple[str, int]] = set()


def compile_and_keep(pattern: Any, flags: int = 0) -> Any:
    """Compile a pattern as `re` does, and keep it."""
    if isinstance(pattern, str):
        compiled.add((pattern, int(flags)))
    return _COMPILE(pattern, flags)


def main() -> None:
    """Print the expressions of unspool, which is imported here for the first time."""
    re.purge()
    compiler.compile = compile_and_keep
    unspool = importlib.import_module("unspool")
    for module in pkgutil.walk_packages(unspool.__path__, "unspool."):
        if not module.name.startswith(_FOREIGN):
            importlib.import_module(module.name)
    from unspool.policy import Policy
    from unspool.regex import Regex

    from .support import DIALECTS, cases, run, tools_of

    for dialect in DIALECTS:
        tools = tools_of(dialect)
        for case in cases([dialect]):
            for policy in (None, Policy(bad_arguments="repair", markers_in_strings="end")):
                for chunks in ([case.raw], list(case.raw)):
                    run(dialect, chunks, tools=tools, policy=policy)
    lazy = [o._made_of for o in gc.get_objects() if isinstance(o, Regex)]
    print(json.dumps(sorted({*compiled, *((pattern, int(flags)) for pattern, flags in lazy)})))


if __name__ == "__main__":
    main()
