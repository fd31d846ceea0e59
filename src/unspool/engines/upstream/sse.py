"""Reads streams from bytes, however they are cut: server-sent events, and lines of JSON."""

from typing import Final

MAX_EVENT: Final = 4 * 1024 * 1024  # the largest incomplete event, in bytes


class Lines:
    """Reads one stream of lines of bounded size, each an event; what comes after the last line feed is none."""

    __slots__ = ("_cut", "_limit")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._cut = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes; `ValueError` if one is too long."""
        head, found, rest = chunk.rpartition(b"\n")
        whole = bytes(self._cut) + head if found else b""
        if found:
            self._cut.clear()
        self._cut += rest
        if len(self._cut) > self._limit:
            raise ValueError(f"a line is larger than {self._limit:,} bytes")
        return [line for line in whole.split(b"\n") if line.strip()]


class Events:
    """Reads one stream. Each byte is read a constant number of times, and held data is bounded by ``limit``.

    Lines end with a line feed, with or without a carriage return before it. Only ``data`` lines count: all others are
    skipped, and so is a byte order mark at the beginning. What comes after the last blank line is not an event.
    """

    __slots__ = ("_begun", "_cut", "_limit", "_lines", "_size")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._cut = bytearray()  # the incomplete line
        self._lines: list[bytes] = []  # the data of the incomplete event
        self._size = 0
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes; `ValueError` if one is too long."""
        if b"\n" not in chunk:
            self._cut += chunk
            self._check()
            return []
        if self._cut:
            chunk = bytes(self._cut) + chunk
            self._cut.clear()
        *lines, rest = chunk.split(b"\n")
        self._cut += rest
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
        self._check()
        return found

    def _check(self) -> None:
        if len(self._cut) + self._size > self._limit:
            raise ValueError(f"an event is larger than {self._limit:,} bytes")
