"""JSON of clients and engines, decoded such that other threads may run meanwhile."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

_SHORT: Final = 1_000_000  # up to how many bytes nothing takes long
_MANY: Final = 100_000  # the most commas outside and inside of strings, where numbers cannot take long


def _float(text: str) -> float:
    """`float` as a function of Python's, where the interpreter may switch to another thread."""
    return float(text)


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python limits what takes quadratic time
        raise ValueError(f"a number has {len(text.lstrip('-')):,} digits") from None


# msgspec itself needs 20 µs for a number such as ``1e300``, a minute for 16 MB of them, and no other thread runs
# meanwhile. Python reads it in a hundredth of that time.
_DECODER: Final = msgspec.json.Decoder(float_hook=_float)


def decode(data: bytes | bytearray, constant: Callable[[str], Any] | None = None) -> Any:
    """Decode JSON; a `ValueError` or `RecursionError` if that is impossible.

    Python's own decoder reads what msgspec refuses: lone surrogates, which clients send back if an engine cut a
    character, and a mark of the byte order; ``constant`` makes values of ``NaN`` and ``Infinity``. It also reads what
    may be very many integers, in which msgspec would not stop for another thread.
    """
    if len(data) <= _SHORT or data.count(b",") <= _MANY:
        try:
            return _DECODER.decode(data)
        except (ValueError, RecursionError):
            pass
    return json.loads(data, parse_float=_float, parse_int=_int, parse_constant=constant)
