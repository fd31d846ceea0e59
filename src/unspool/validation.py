"""Checks of arguments, whose errors have the same form everywhere: the argument, what it is, and what is allowed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_SHOWN: Final = 60  # how many characters of a wrong value an error repeats
_LONGEST: Final = 100  # the longest word, in characters, that gets a suggestion


def described(value: object) -> str:
    """Describe the type of a value, for an error."""
    return "None" if value is None else type(value).__name__


def json_kind(value: object) -> str:
    """JSON's name for the type of a value, or Python's if JSON has none."""
    for kind, name in _JSON_KINDS:
        if isinstance(value, kind):
            return name
    return described(value)


_JSON_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int | float, "a number"),
    (str, "a string"),
    (Mapping, "an object"),
    (list | tuple, "a list"),
)


def json_shown(value: object) -> str:
    """A wrong JSON value, shortened for an error."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = f"{described(value)} {value!r}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a JSON text is, as Python reads it; ``None`` if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def refuse_constant(name: str) -> Any:
    """What decoders of JSON call for ``NaN`` and ``Infinity``, which only Python reads."""
    raise ValueError(f"{name} is not a JSON number")


def wrong_type(argument: str, value: object, allowed: str) -> TypeError:
    """Make the error for an argument of the wrong type."""
    return TypeError(f"{argument}: must be {allowed}, not {described(value)}")


def check(argument: str, value: object, kind: type | tuple[type, ...], allowed: str) -> None:
    """Refuse a value of another type, with a `TypeError` that names the argument, what it is, and what is allowed."""
    if not isinstance(value, kind):
        raise wrong_type(argument, value, allowed)


def check_prompt(prompt: object) -> None:
    """Refuse anything but text and token ids; `TypeError` if it is something else."""
    if isinstance(prompt, str):
        return
    if isinstance(prompt, bytes | bytearray) or not isinstance(prompt, Sequence) or not all(map(_is_id, prompt)):
        hint = "; render messages with the model's chat template" if isinstance(prompt, list | tuple | dict) else ""
        inner = next((x for x in prompt if not _is_id(x)), None) if isinstance(prompt, list | tuple) else None
        got = described(prompt) if inner is None else f"{described(prompt)} of {described(inner)}"
        raise TypeError(f"prompt: must be the rendered prompt, its text or its token ids, not {got}{hint}")


def check_tokenizer(tokenizer: object) -> None:
    """Refuse anything that cannot decode token ids, except ``None``; `TypeError` if it has no ``decode``."""
    if tokenizer is not None and (isinstance(tokenizer, bytes | bytearray) or not hasattr(tokenizer, "decode")):
        raise wrong_type("tokenizer", tokenizer, "a tokenizer (an object with a `decode` method), or None")


def check_ids(argument: str, ids: Sequence[Any]) -> None:
    """Refuse anything but token ids: `TypeError` if one is not an integer, `ValueError` if one is negative."""
    if set(map(type, ids)) <= {int} and min(ids, default=0) >= 0:
        return  # the usual case; the loop below checks one after the other
    for i, token in enumerate(ids):
        if not _is_id(token):
            raise wrong_type(f"{argument}[{i}]", token, "a token id, an integer")
        if token < 0:
            raise ValueError(f"{argument}[{i}]: {token} is not a token id; ids are not negative")


def _is_id(value: object) -> bool:
    # Integers of numpy are ids too; a float, or True, is a mistake.
    return type(value) is int or (hasattr(value, "__index__") and not isinstance(value, bool))


def near(word: str, known: Iterable[str], most: int = 1) -> str:
    """A suggestion for a misspelt word, to append to an error; empty if nothing is close."""
    if len(word) > _LONGEST:  # comparing takes quadratic time
        return ""
    import difflib  # only needed for errors

    found = difflib.get_close_matches(word.lower(), list(known), n=most, cutoff=0.75)
    return f"; did you mean {' or '.join(found)}?" if found else ""
