"""The configuration file of ``serve``: TOML with the command line's options as keys, and a table for each model.

A key is the name of an argument without its dashes. The command line takes precedence over the file, and a model's
table over the top level. The keys and their types come from the command line's own parser.
"""

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..validation import described, json_shown, near
from .common import Misuse, blaming

Add = Callable[[argparse.ArgumentParser], None]  # adds arguments to a parser
_MODELS: Final = "models"
_LEFT_OUT: Final = frozenset({"help", "config"})
_LIMITS: Final = "limits"
_LIMIT: Final = "max-"  # the table ``[limits]`` contains the arguments with this prefix, without the prefix
_KINDS: Final[dict[Any, str]] = {int: "an integer", float: "a number"}
MOST: Final = 1024 * 1024  # the most bytes of a file


class Key(NamedTuple):
    """A key of the file, its argument, and whether a model's table may contain it."""

    name: str
    action: argparse.Action
    model: bool

    @property
    def takes(self) -> str:
        """The kind of value that it takes, in words."""
        if self.action.nargs == 0:
            return "true or false"
        kind = _KINDS.get(self.action.type, "a string")
        if _is_table(self.action):
            return "a table"
        return f"{kind}, or a list of them" if _repeatable(self.action) else kind


def keys(server: Add, model: Add) -> dict[str, Key]:
    """All keys, by name, of the arguments that the command has, and of those that each model has."""
    of_model = _named(_parser(model)).keys() - {"model"}  # the table's name is the model's name
    found = {name: action for name, action in _named(_parser(server)).items() if name not in _LEFT_OUT}
    return {name: Key(name, action, name in of_model) for name, action in found.items()}


def configured(words: Sequence[str], path: str, server: Add, model: Add) -> dict[str, argparse.Namespace]:
    """The arguments of each model in a file, by its name (``""`` without models). The command line takes precedence."""
    data = _read(path)
    known = keys(server, model)
    models = data.pop(_MODELS, {})
    if not isinstance(models, dict) or not all(isinstance(table, dict) for table in models.values()):
        raise Misuse(f"--config: {path}: {_MODELS}: must be tables, as [{_MODELS}.NAME]")
    parser = _parser(server)
    defaults = vars(parser.parse_args([]))
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    given = vars(parser.parse_args(list(words)))
    given.pop("config", None)
    limits = data.pop(_LIMITS) if isinstance(data.get(_LIMITS), dict) else {}
    of_limits = {name.removeprefix(_LIMIT): key for name, key in known.items() if name.startswith(_LIMIT)}
    shared = defaults | _values(path, "", data, known) | _values(path, f"{_LIMITS}.", limits, of_limits)
    if models and ("model" in given or "model" in data):
        raise Misuse(f"--model: {path} names its models itself; leave it out")
    if not models:
        return {"": argparse.Namespace(**shared | given)}
    of_models = {name: key for name, key in known.items() if key.model}
    found = {}
    for name, table in models.items():
        if not name:
            raise Misuse(f"--config: {path}: {_MODELS}: a name is empty")
        where = f"{_MODELS}.{json_shown(name)}."
        for key in table:
            if key in known and key not in of_models:
                raise Misuse(f"--config: {path}: {where}{key}: is the same for all models; write it at the top level")
        own = _values(path, where, table, of_models)
        found[name] = argparse.Namespace(**shared | own | given | {"model": name})
    return found


def _parser(add: Add) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add(parser)
    return parser


def _named(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The arguments by their long names, without dashes; positional ones have none."""
    return {max(a.option_strings, key=len).lstrip("-"): a for a in parser._actions if a.option_strings}


def _read(path: str) -> dict[str, Any]:
    with blaming("--config", path):
        with Path(path).open("rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            raise Misuse(f"--config: {path}: is larger than {MOST:,} bytes")
        text = data.decode()
    # A `ValueError` is also a number of more digits than Python reads.
    with blaming(f"--config: {path}: not TOML", None, ValueError, RecursionError):
        return tomllib.loads(text)


def _repeatable(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)


def _is_table(action: argparse.Action) -> bool:
    """Whether the values are pairs of a field and its value, which the file may write as a table."""
    return str(action.metavar).startswith("FIELD=")


def _values(path: str, where: str, table: Mapping[str, Any], known: Mapping[str, Key]) -> dict[str, Any]:
    """The fields of a parsed command line that a table gives, and their values."""
    found = {}
    for name, value in table.items():
        try:
            if name not in known:
                meant = name.removeprefix(_LIMIT) if where == f"{_LIMITS}." else name
                raise ValueError(f"unknown key{near(meant, known)}")
            action = known[name].action
            found[action.dest] = _value(action, value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise Misuse(f"--config: {path}: {where}{name}: {error}") from None
    return found


def _value(action: argparse.Action, value: Any) -> Any:
    """The value in the form of a parsed command line; `ValueError` or `ArgumentTypeError` if that cannot be."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {described(value)}")
        return value
    if not _repeatable(action):
        return _converted(action, value)
    if isinstance(value, dict) and _is_table(action):
        return [f"{field}={str(one).lower()}" for field, one in value.items()]
    return [_converted(action, one) for one in (value if isinstance(value, list) else [value])]


def _converted(action: argparse.Action, value: Any) -> Any:
    if action.type in (int, float):
        if isinstance(value, bool) or not isinstance(value, int if action.type is int else int | float):
            raise ValueError(f"must be {_KINDS[action.type]}, not {described(value)}")
        return action.type(value)
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {described(value)}")
    return action.type(value) if callable(action.type) else value
