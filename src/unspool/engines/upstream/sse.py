"""Reads streams from bytes, however they are cut: server-sent events, and lines of JSON."""

from typing import Final

MAX_EVENT: Final = 4 * 1024 * 1024  # the largest incomplete event, in bytes


class Lines:
    """Reads one stream of lines of bounded size, each an event; what comes after the last line feed is none. Each byte
    is read a constant number of times, and held data is bounded."""

    WHAT = "a line"

    def __init__(self) -> None:
        self._cut = bytearray()  # the incomplete line
        self._size = 0  # the other bytes of an incomplete event

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes; `ValueError` if one is too long."""
        found: list[bytes] = []
        if b"\n" not in chunk:
            self._cut += chunk
        else:
            if self._cut:
                chunk = bytes(self._cut) + chunk
                self._cut.clear()
            *lines, rest = chunk.split(b"\n")
            self._cut += rest
            found = self._events(lines)
        if len(self._cut) + self._size > MAX_EVENT:
            raise ValueError(f"{self.WHAT} is larger than {MAX_EVENT:,} bytes")
        return found

    def _events(self, lines: list[bytes]) -> list[bytes]:
        return [line for line in lines if line.strip()]


class Events(Lines):
    """Reads one stream of server-sent events.

    Lines end with a line feed, with or without a carriage return before it. Only ``data`` lines count: all others are
    skipped, and so is a byte order mark at the beginning. What comes after the last blank line is not an event.
    """

    WHAT = "an event"

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[bytes] = []  # the data of the incomplete event
        self._begun = False

    def _events(self, lines: list[bytes]) -> list[bytes]:
        found = []
        for line in lines:
            if not self._begun:
                self._begun = True
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"data:"):
                self._lines.append(line[6:] if line[5:6] == b" " else line[5:])
                self._size += len(line)
            elif not line and self._lines:
                found.append(self._lines[0] if len(self._lines) == 1 else b"\n".join(self._lines))
                self._lines.clear()
                self._size = 0
        return found
