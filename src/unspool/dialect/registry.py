"""Finds dialects by name: the shipped ones, and those of entry points. Each is read on first use."""

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from ..errors import DialectError, UnknownDialect
from ..regex import Regex
from ..validation import check, near, wrong_type
from .file import Dialect, comparable
from .loader import read_dialect

if TYPE_CHECKING:
    from importlib import metadata

# Paths are strings here: `pathlib` is slow to import.
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dialects")
_LONGEST = 100  # how many characters of a name errors repeat and compare
_HEAD = 1024  # how many characters of a file contain its names
_NAMES = Regex(r'^(?:name|aliases)\s*=\s*(".*"|\[[^\]]*\])', re.M)
_STRING = Regex(r'"([^"]*)"')
_POINT = Regex(r"(?<=\d)(?:p(?=\d)|_(?=\d(?![\db.])))")  # in a version: `v3p1`, `3_1`; `qwen3_8b` has none


@cache
def _paths() -> list[str]:
    return [os.path.join(_FOLDER, f) for f in sorted(os.listdir(_FOLDER)) if f.endswith(".toml")]


@cache
def _head(path: str) -> bytes:
    """The beginning of a shipped file, in lower case, which contains its names."""
    with open(path, "rb", buffering=0) as stream:
        return stream.read(_HEAD).lower().partition(b"[[examples]]")[0]


def _names(head: bytes) -> list[str]:
    return [name for m in _NAMES.finditer(head.decode(errors="ignore")) for name in _STRING.findall(m.group(1))]


@cache
def _files() -> dict[str, str]:
    """Every shipped name, in lower case, with its file."""
    return {name: path for path in _paths() for name in _names(_head(path))}


def _shipped(key: str) -> str | None:
    own = os.path.join(_FOLDER, f"{key}.toml")  # a file is named after its dialect
    if own in _paths():
        return own
    quoted = f'"{key}"'.encode(errors="replace")  # few heads contain it, and a request may name anything
    return next((p for p in _paths() if quoted in _head(p) and key in _names(_head(p))), None)


@cache
def _entry_points() -> dict[str, "metadata.EntryPoint"]:
    from importlib import metadata  # slow to import, rarely needed

    return {e.name.lower(): e for e in metadata.entry_points(group="unspool.dialects")}


@cache
def _load(path: str) -> Dialect:
    return read_dialect(path, find_base, trusted=True)


@cache
def _load_entry_point(name: str) -> Dialect:
    loaded = _entry_points()[name].load()
    value = loaded() if callable(loaded) else loaded
    return value if isinstance(value, Dialect) else read_dialect(value, find_base)


def find_base(name: str) -> Dialect:
    """Find the dialect on which another one is based; `DialectError` if there is no dialect of this name."""
    dialect = _look_up(name)
    if dialect is None:
        raise DialectError(f"base: there is no dialect {name!r}{_near(name)}")
    return dialect


def find(name: str) -> Dialect:
    """Find the dialect of a name or alias, ignoring case, names first; `UnknownDialect` if there is none."""
    dialect = _found.get(name) or _look_up(name)  # most names are written as they are cached
    if dialect is None and len(name) > _LONGEST:
        raise UnknownDialect(f"there is no dialect {name[:_LONGEST]!r}…; see list_dialects()")
    if dialect is None:
        file = f"a file is load_dialect({name!r})" if name.endswith(".toml") else ""
        hints = [hint for hint in (file, _near(name).removeprefix("; "), _as_model(name)) if hint]
        raise UnknownDialect(f"there is no dialect {name!r}; {' '.join(hints) or 'see list_dialects()'}")
    return dialect


_found: dict[str, Dialect] = {}


def _look_up(name: str) -> Dialect | None:
    key = name.lower()  # in lower case before it is cached, since a name has many spellings
    dialect = _found.get(key)
    if dialect is None:
        path = _shipped(key)
        if path is not None:
            dialect = _load(path)
        elif key in _entry_points():
            dialect = _load_entry_point(key)
        else:
            return None
        _found[key] = dialect
    return dialect


def _near(name: str) -> str:
    return near(name, sorted({*_files(), *_entry_points()}), 3)


def _as_model(name: str) -> str:
    """A hint for callers that give a model's name instead of a dialect's."""
    model = model_key(name)
    best = max(list_dialects(), key=lambda d: d.matches(model))
    if best.matches(model):
        return f"as a model's name, detect_dialect(model={name!r}) finds {best.name!r}"
    return f"for a model's name see detect_dialect(model={name!r})" if "/" in name else ""


def model_key(model: str) -> str:
    """A model's name as `Dialect.matches` expects it: without its organization, as globs are spelled.

    The tag ``:latest`` says nothing, and some hosts write ``v3p1`` or ``v3_1`` for a version with a point.
    """
    name = model.strip().rstrip("/").replace("\\", "/").rsplit("/", 1)[-1].lower()
    return comparable(_POINT.sub(".", name.removesuffix(":latest")))


@cache
def _combined(name: str, reasoning: str) -> Dialect:
    other = find(reasoning)
    if not other.reasoning:
        raise DialectError(f"reasoning: dialect {reasoning!r} has no reasoning markers")
    return find(name).with_reasoning(other)


def get_dialect(name: str, reasoning: str | None = None) -> Dialect:
    """Return the dialect called ``name``, optionally with the reasoning markers of another.

    Args:
        name: a name or alias, in any case.
        reasoning: the dialect whose ``reasoning`` is used instead; policies remain those of ``name``.

    Raises:
        UnknownDialect: there is no dialect of a name.
        DialectError: ``reasoning`` has no reasoning markers.
        TypeError: a name is not a string.
    """
    check("name", name, str, "the name of a dialect")
    check("reasoning", reasoning, (str, type(None)), "the name of a dialect or None")
    return find(name) if reasoning is None else _combined(name.lower(), reasoning.lower())


def as_dialect(dialect: object) -> Dialect:
    """Return a `Dialect` that is given as one or by its name.

    Raises:
        UnknownDialect: there is no dialect of the name.
        TypeError: it is neither.
    """
    if isinstance(dialect, str):
        return find(dialect)
    if isinstance(dialect, Dialect):
        return dialect
    raise wrong_type("dialect", dialect, "the name of a dialect or a Dialect")


def list_dialects() -> list[Dialect]:
    """Every dialect, shipped and from entry points, sorted by name."""
    shipped = {_load(p).name: _load(p) for p in _files().values()}
    extra = {d.name: d for d in map(_load_entry_point, _entry_points())}
    return [d for _, d in sorted((extra | shipped).items())]
