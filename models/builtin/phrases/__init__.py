"""The phrases of the training examples: the TOML files of this folder, merged.

Lists under the same key are joined. The program fills in words in braces, from its own values or from a list in
``fills``. The fills of a file are only for its own phrases; those of ``base.toml`` are for all. An empty phrase says
nothing.
"""

import random
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PHRASES: Final[dict[str, Any]] = {}
"""The tables of the files, except for ``fills``."""

FILLS: Final[dict[str, list[str]]] = {}
"""The fills, by name."""


class _Filled(dict[str, str]):
    """Values by name. A missing name gets one of its fills."""

    def __init__(self, rng: random.Random, slots: Mapping[str, str]) -> None:
        super().__init__(slots)
        self._rng = rng

    def __missing__(self, name: str) -> str:
        return self._rng.choice(FILLS[name])


def filled(rng: random.Random, phrase: str, slots: Mapping[str, str] | None = None, **more: str) -> str:
    """Fill in the braces of a phrase.

    Raises:
        KeyError: neither the slots nor the fills have a name.
    """
    return phrase.format_map(_Filled(rng, {**(slots or {}), **more})) if "{" in phrase else phrase


def _merge(table: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, list):
            table[key] = table.get(key, []) + value
        elif isinstance(value, dict):
            _merge(table.setdefault(key, {}), value)
        else:
            table[key] = value


def _own(value: Any, names: Mapping[str, str]) -> Any:
    """Rename the fills in a value, so that a file's own fills have names that no other file has."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda m: "{" + names.get(m[1], m[1]) + "}", value)
    if isinstance(value, list):
        return [_own(v, names) for v in value]
    return {k: _own(v, names) for k, v in value.items()} if isinstance(value, dict) else value


for _path in sorted(Path(__file__).parent.glob("*.toml")):
    _table = tomllib.loads(_path.read_text(encoding="utf-8"))
    _fills = _table.pop("fills", {})
    _names = {name: name if _path.stem == "base" else f"{_path.stem}_{name}" for name in _fills}
    FILLS.update({_names[name]: options for name, options in _fills.items()})
    _merge(PHRASES, _own(_table, _names))
