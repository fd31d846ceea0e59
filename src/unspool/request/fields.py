"""Reads the fields of a request's JSON, with errors that name the field and what is allowed."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..validation import json_kind, json_shown, refuse_constant
from ..wire.decoding import decode

REQUIRED: Any = object()  # as a default, it means that the field is required
MOST = 2**31 - 1  # the largest count
_MANY = 1_000_000  # the most objects, lists and strings of a request
_SHOWN = 2000  # characters of an error's message, which may repeat what a request says; of its field, a quarter of them


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


class BadRequest(Exception):
    """A request is wrong.

    Args:
        param: the wrong field; ``None`` means the request as a whole.
        message: what is wrong with it, and what is allowed.
        status: the HTTP status; ``None`` means the protocol's own status for a wrong field.
        code: the protocol's word for what is wrong.
    """

    def __init__(self, param: str | None, message: str, status: int | None = None, code: str | None = None) -> None:
        self.param = param and _bounded(param, _SHOWN // 4)
        text = _bounded(message, _SHOWN)
        super().__init__(f"{self.param}: {text}" if param else text)
        self.status = status
        self.code = code


class NotFound(BadRequest):
    """What a request names does not exist, or belongs to somebody else."""

    def __init__(self, what: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(None, f"{what} not found.", 404, code)
        self.param = param


class Fields:
    """An object of a request. Unknown fields are ignored; ``null`` counts as missing. `BadRequest` if it is none.

    Args:
        where: the path of the object, for messages; empty for the request itself.
        earlier: how many of its ``input`` or ``items`` the request itself does not have. They have negative indexes.
    """

    __slots__ = ("_where", "earlier", "raw")

    def __init__(self, value: Any, where: str = "", earlier: int = 0) -> None:
        if not isinstance(value, dict):
            raise BadRequest(where or None, f"must be an object, not {json_kind(value)}")
        self.raw: dict[str, Any] = value
        self._where = where
        self.earlier = earlier

    def having(self, value: dict[str, Any]) -> "Fields":
        """Another object in the same place."""
        return Fields(value, self._where, self.earlier)

    def path(self, field: str) -> str:
        return f"{self._where}.{field}" if self._where else field

    def has(self, field: str) -> bool:
        """Whether the field exists and is not ``null``."""
        return self.raw.get(field) is not None

    def wrong(self, field: str, message: str) -> BadRequest:
        """Make the error for a field."""
        return BadRequest(self.path(field), message)

    def only(self, allowed: Collection[str]) -> None:
        """Refuse fields besides these."""
        for field in self.raw:
            if field not in allowed:
                raise self.wrong(field, f"is unknown; allowed are {', '.join(allowed) or 'none'}")

    def _get(self, field: str, default: Any) -> Any:
        value = self.raw.get(field)
        if value is not None:
            return value
        if default is REQUIRED:
            raise self.wrong(field, "is required; null is not allowed" if field in self.raw else "is required")
        return default

    def _typed(self, field: str, default: Any, kinds: Any, what: str) -> Any:
        """The value, or the default; only flags may be true or false."""
        value = self._get(field, default)
        if value is not default and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
            raise self.wrong(field, f"must be {what}, not {json_kind(value)}")
        return value

    def text(self, field: str, default: Any = REQUIRED) -> Any:
        return self._typed(field, default, str, "a string")

    def flag(self, field: str, default: Any = False) -> Any:
        return self._typed(field, default, bool, "true or false")

    def integer(self, field: str, low: int, high: int = MOST, default: Any = None) -> Any:
        """An integer between two bounds, inclusive; some clients write it as ``9.0``."""
        value = self.raw.get(field)
        if not isinstance(value, float) or not value.is_integer():
            value = self._typed(field, default, int, "an integer")
        if value is default:
            return value
        if not low <= value <= high:
            raise self.wrong(field, f"{value} is not between {low:,} and {high:,}")
        return int(value)

    def number(self, field: str, low: float, high: float) -> float | None:
        """A number between two bounds, inclusive."""
        value = self._typed(field, None, int | float, "a number")
        if value is not None and not low <= value <= high:
            raise self.wrong(field, f"{value} is not between {low:g} and {high:g}")
        return None if value is None else float(value)

    def one_of(self, field: str, allowed: Sequence[str], default: Any = REQUIRED) -> Any:
        value = self._get(field, default)
        if value is not default and (not isinstance(value, str) or value not in allowed):
            raise self.wrong(field, f"{json_shown(value)} is not one of {', '.join(allowed)}")
        return value

    def array(self, field: str, default: Any = REQUIRED) -> Any:
        return self._typed(field, default, list, "a list")

    def object(self, field: str) -> "Fields":
        """An object; empty if the field is missing."""
        value = self._get(field, None)
        return Fields({} if value is None else value, self.path(field))

    def lenient(self, field: str) -> "Fields":
        """An object; empty if the field is anything else."""
        value = self.raw.get(field)
        return Fields(value if isinstance(value, dict) else {}, self.path(field))

    def objects(self, field: str, default: Any = REQUIRED) -> "Iterator[Fields]":
        begin = -self.earlier if field in ("input", "items") else 0
        for i, value in enumerate(self.array(field, default), begin):
            yield Fields(value, f"{self.path(field)}[{i}]")

    def strings(self, field: str) -> list[str]:
        """A list of strings; empty if the field is missing."""
        listed: list[str] = self.array(field, [])
        for i, one in enumerate(listed):
            if not isinstance(one, str):
                raise self.wrong(f"{field}[{i}]", "must be a string")
        return listed

    def texts(self, field: str, most: int) -> tuple[str, ...]:
        """A string or a list of strings, none of them empty."""
        value = self._get(field, ())
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
            raise self.wrong(field, "must be a string or a list of strings")
        if len(values) > most:
            raise self.wrong(field, f"{len(values)} strings; allowed are {most}")
        if "" in values:
            raise self.wrong(field, "an empty string is not allowed")
        return tuple(values)


def read_object(body: bytes) -> Fields:
    """Decode the body of a request; an error if it is not a JSON object, or has too many values."""
    # A lower bound on the number of objects, lists and strings, each of which takes much more memory than its bytes.
    if len(body) > _MANY and body.count(b"{") + body.count(b"[") + body.count(b'"') // 2 > _MANY:
        raise BadRequest(None, f"the body has more than {_MANY:,} values", 413)
    try:
        return Fields(decode(body, refuse_constant))
    except RecursionError:
        raise BadRequest(None, "the body is nested too deeply", 400) from None
    except ValueError as error:
        raise BadRequest(None, f"the body is not JSON: {error}", 400) from None
