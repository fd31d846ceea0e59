"""The answers of ``POST /parse``: a message or events, as JSON from which the same objects can be read."""

from collections.abc import Sequence
from typing import Final

import msgspec

from ..events import Event
from ..message import Message
from .chat import error_body
from .encoding import encode

__all__ = ["error_body", "events", "joined", "message", "part", "read_events", "read_message"]


class _Message(msgspec.Struct):
    message: Message


class _Events(msgspec.Struct):
    events: Sequence[Event]


_read_message: Final = msgspec.json.Decoder(_Message).decode
_read_events: Final = msgspec.json.Decoder(_Events).decode


def message(read: Message) -> bytes:
    """``{"message": …}``: every field of a `Message`, with its segments and notices."""
    return encode(_Message(read))


def events(emitted: Sequence[Event]) -> bytes:
    """``{"events": […]}``: the fields of each event, with its name in ``type``."""
    return encode(_Events(emitted))


def part(emitted: Sequence[Event]) -> bytes:
    """Encode some events, for `joined`: as bytes they need a fraction of the memory."""
    return encode(emitted)[1:-1]


def joined(parts: Sequence[bytes]) -> bytes:
    """Join parts: the same bytes that `events` writes for all their events."""
    return b'{"events":[' + b",".join(p for p in parts if p) + b"]}"


def read_message(data: bytes) -> Message:
    """Read the bytes of `message`.

    Raises:
        msgspec.DecodeError: something else.
    """
    return _read_message(data).message


def read_events(data: bytes) -> list[Event]:
    """Read the bytes of `events`.

    Raises:
        msgspec.DecodeError: something else.
    """
    return list(_read_events(data).events)
