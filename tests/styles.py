"""One dialect of each style, on which `make test` tries each property, and the dialects that a change touches.

Each commit draws others, so that none is left out for ever. `make test-all` tries every property on every dialect.
"""

import re
import subprocess
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from unspool import Dialect, list_dialects
from unspool.check.trials import Trial

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
FOLDER = "src/unspool/dialects"
_MANY = 12
"""From how many dialects on a test's cases are of a property, and not of these dialects alone."""
_DRAWN = 2
"""How many dialects are tried because the commit draws them. The styles that these lack are added."""
_NAMING = {"name", "aliases", "models", "file", "start", "end", "id"}
"""Keys whose values differ from family to family, and make no style."""


def shape(dialect: Dialect) -> tuple[Any, ...]:
    """How a dialect's parts are put together."""
    call = dialect.call[0] if dialect.call else None
    block = dialect.calls[0] if dialect.calls else None
    return (
        dialect.argument_format,
        dialect.framed,
        bool(dialect.item),
        call is not None and call.object is not None,
        call is not None and bool(call.opening.strip()),
        block is not None and bool(block.opening.strip()),
        bool(dialect.reasoning),
    )


def features(dialect: Dialect) -> set[Any]:
    """What a dialect file contains: the keys that it uses, its policies, and the traits of its shape."""
    plain = Dialect(name="plain")
    keys = [key for key in dialect.__struct_fields__ if key not in _NAMING and key != "policy"]
    policies = msgspec.structs.asdict(dialect.policy).items()
    return {
        *enumerate(shape(dialect)),
        *(key for key in keys if getattr(dialect, key) != getattr(plain, key, None)),
        *((key, value) for key, value in policies if value != getattr(plain.policy, key)),
    }


@cache
def commit() -> str:
    """The commit that draws; empty without git."""
    return _git("rev-parse", "--short=12", "HEAD")


@cache
def representatives(seed: str) -> tuple[str, ...]:
    """Few dialects, found greedily, with every feature and every shape of several dialects between them, beginning with
    those that the seed draws."""
    shapes = Counter(map(shape, list_dialects()))
    common = {each for each, count in shapes.items() if count > 1}
    has = {dialect.name: features(dialect) | {shape(dialect)} & common for dialect in list_dialects()}
    order = sorted(has, key=lambda name: zlib.crc32(f"{seed} {name}".encode()))
    chosen = order[:_DRAWN]
    missing = set().union(*has.values()).difference(*(has[name] for name in chosen))
    while missing:
        best = max(order, key=lambda name: len(has[name] & missing))
        chosen.append(best)
        missing -= has[best]
    return tuple(chosen)


@cache
def touched() -> frozenset[str]:
    """The dialects whose files differ from main's, or on main from the commit before, and those based on them.

    Without git there are none.
    """
    base = next(filter(None, (_git("merge-base", "HEAD", ref) for ref in ("main", "origin/main"))), "")
    if base == _git("rev-parse", "HEAD"):
        base = _git("rev-parse", "--verify", "HEAD^")
    changed = _git("diff", "--name-only", base, "--", FOLDER) if base else ""
    changed += "\n" + _git("ls-files", "--others", "--exclude-standard", "--", FOLDER)
    names = {Path(file).stem for file in changed.split() if file.endswith(".toml")}
    based = re.compile(r'^base\s*=\s*"(.*)"', re.M)
    for file in (ROOT / FOLDER).glob("*.toml"):
        if (found := based.search(file.read_text(encoding="utf-8"))) and found[1] in names:
            names.add(file.stem)
    return frozenset(names)


def _git(*words: str) -> str:
    """What git prints; nothing if it fails or is missing."""
    try:
        ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def of_styles(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """The tests without the cases of dialects that add no style to a property that is tried on many dialects.

    Of a test that is marked as ``sampled``, as many cases are kept as the mark says.
    """
    tests: defaultdict[str, dict[pytest.Item, str]] = defaultdict(dict)
    for item in items:
        tests[item.nodeid.partition("[")[0]][item] = next(_dialects(item), "")
    wanted = {*representatives(seed), *touched(), ""}
    kept = []
    for test, cases in tests.items():
        every = len(set(cases.values())) < _MANY
        found = [item for item, name in cases.items() if every or name in wanted]
        mark = found[0].get_closest_marker("sampled") if found else None
        kept += sample(found, mark.args[0], test + seed) if mark else found
    return kept


def sample(cases: list[T], most: int, test: str) -> list[T]:
    """At most ``most`` of a test's cases, evenly spread. The name shifts the selection, so that each test differs."""
    count = min(most, len(cases))
    seed = zlib.crc32(test.encode())
    return [cases[(seed + i * len(cases) // count) % len(cases)] for i in range(count)]


def _dialects(item: pytest.Item) -> Iterator[str]:
    """The names of the dialects among the parameters of a test."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, Trial):
                yield part.dialect.name
            elif isinstance(part, Dialect):
                yield part.name
            elif isinstance(part, str) and part in _names():
                yield part


@cache
def _names() -> frozenset[str]:
    return frozenset(dialect.name for dialect in list_dialects())
