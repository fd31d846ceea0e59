"""Events are read whole, however their bytes are cut, and no stream makes the reader buffer without limit."""

import time

import pytest

from unspool.engines.upstream import sse
from unspool.engines.upstream.sse import Events

STREAM = (
    ": a comment\n\n"
    'data: {"text": "héllo 🌍"}\n\n'
    'data:{"no": "space"}\r\n\r\n'
    "event: message\nid: 3\nretry: 5\ndata: two\ndata: lines\n\n"
    "\n\n\n"
    "data:  a space is kept\n\n"
    "data\n\n"
    "data: [DONE]\n\n"
    "data: cut"
).encode()
EVENTS = ['{"text": "héllo 🌍"}'.encode(), b'{"no": "space"}', b"two\nlines", b" a space is kept", b"[DONE]"]


def test_events_are_the_same_however_their_bytes_are_cut() -> None:
    cuts = [[STREAM[:at], STREAM[at:]] for at in range(len(STREAM) + 1)]
    cuts += [[STREAM[at : at + size] for at in range(0, len(STREAM), size)] for size in (1, 2, 3, 7)]
    for pieces in cuts:
        events = Events()
        assert [event for piece in pieces for event in events.feed(piece)] == EVENTS, pieces


@pytest.mark.parametrize("piece", [b"x", b"data: x\n", b"data:\n", b"data: " + b"x" * 50, b"\r", b"data: x\r"])
def test_endless_events_are_an_error_and_not_held(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    events = Events()

    def feed() -> None:
        for _ in range(1002):
            events.feed(piece)

    with pytest.raises(ValueError, match="larger than 1,000 bytes"):
        feed()


def test_endless_comments_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    events = Events()
    for _ in range(10_000):
        assert events.feed(b": keep-alive\n\n") == []


def test_long_events_in_small_pieces_take_linear_time() -> None:
    def seconds(size: int) -> float:
        best = 9.0
        for _ in range(5):
            events = Events()
            begun = time.process_time()
            for _ in range(size):
                events.feed(b"x" * 10)
            events.feed(b"\n\n")
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(80_000) < 8 * seconds(20_000)
