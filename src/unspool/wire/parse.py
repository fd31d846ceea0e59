"""The answer of ``POST /parse``: a message, or events, as JSON that reads back into the same objects."""

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
    """``{"events": […]}``: each event's fields, and its name in ``type``."""
    return encode(_Events(emitted))


def part(emitted: Sequence[Event]) -> bytes:
    """Some events, for `joined`: as bytes they take a fraction of the memory."""
    return encode(emitted)[1:-1]


def joined(parts: Sequence[bytes]) -> bytes:
    """The bytes that `events` writes of the events of all parts in turn."""
    return b'{"events":[' + b",".join(p for p in parts if p) + b"]}"


def read_message(data: bytes) -> Message:
    """Read what `message` wrote.

    Raises:
        msgspec.DecodeError: something else.
    """
    return _read_message(data).message


def read_events(data: bytes) -> list[Event]:
    """Read what `events` wrote.

    Raises:
        msgspec.DecodeError: something else.
    """
    return list(_read_events(data).events)
