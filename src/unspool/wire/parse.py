"""The answers of ``POST /parse``: a message or events, as JSON from which msgspec reads the same objects."""

from collections.abc import Sequence

from ..events import Event
from ..message import Message
from .chat import error_body
from .encoding import encode

__all__ = ["error_body", "joined", "message", "part"]


def message(read: Message) -> bytes:
    """``{"message": …}``: every field of a `Message`, with its segments and notices."""
    return encode({"message": read})


def part(emitted: Sequence[Event]) -> bytes:
    """Encode some events, for `joined`: as bytes they need a fraction of the memory."""
    return encode(emitted)[1:-1]


def joined(parts: Sequence[bytes]) -> bytes:
    """``{"events": […]}``: the fields of each event, with its name in ``type``, from parts."""
    return b'{"events":[' + b",".join(p for p in parts if p) + b"]}"
