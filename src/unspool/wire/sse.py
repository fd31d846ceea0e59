"""Server-sent events: the framing of all streams.

Frames end with two line feeds and never contain a carriage return: AG-UI's client splits on exactly that.
"""

from typing import Final

from .encoding import on_one_line

MEDIA_TYPE: Final = "text/event-stream"

HEADERS: Final = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Headers that keep caches from storing a stream, and proxies from collecting it."""

DONE: Final = b"data: [DONE]\n\n"
"""The end of a stream of chat completions. No other protocol has it, and AG-UI's client fails on it."""

KEEP_ALIVE: Final = b": keep-alive\n\n"  # a comment, which every client skips


def data(payload: bytes) -> bytes:
    """A frame of JSON."""
    return b"data: %b\n\n" % on_one_line(payload)


def event(name: bytes, payload: bytes) -> bytes:
    """A frame of JSON with the event's name, which clients of Anthropic's API and the Responses API use."""
    return b"event: %b\ndata: %b\n\n" % (name, on_one_line(payload))
