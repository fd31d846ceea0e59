"""`Reserve`: room on the disk for the calls of sessions, which is set aside before they begin."""

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from struct import Struct
from typing import Final
from weakref import finalize
from zlib import crc32

log = logging.getLogger("unspool.sessions")

_STEP: Final = 4 * 1024 * 1024  # by how many bytes the file grows
_MOST: Final = 64 * 1024 * 1024  # how many bytes may wait for the store
_HEADER: Final = Struct("<II")  # before each entry: its length and checksum; zeros end the entries


class Reserve:
    """A file that has room for all calls in flight. What the store cannot take is written there, and survives the end
    of the process; `entries` has it at the next start. Without a file it only counts."""

    def __init__(self, file: str | None) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()  # which the event loop does not wait for
        self._fd = None if file is None else os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._size = 0
        if self._fd is not None:
            self._size = os.fstat(self._fd).st_size
            finalize(self, os.close, self._fd)
        self._used = 0
        self._held = 0
        self._waiting: dict[str, Callable[[], Future[None]]] = {}

    def entries(self) -> Iterator[bytes]:
        """What a process that was killed has left."""
        if self._fd is None:
            return
        with open(self._fd, "rb", closefd=False) as file:
            while len(header := file.read(_HEADER.size)) == _HEADER.size:
                length, checksum = _HEADER.unpack(header)
                entry = file.read(length)
                if not length or len(entry) != length or crc32(entry) != checksum:
                    return
                yield entry

    async def hold(self, size: int) -> bool:
        """Set room aside, until `free`; ``False`` if there is none."""
        if self._held_more(size):
            return True
        if not self._waiting:
            return False
        await asyncio.wait([asyncio.wrap_future(again()) for again in [*self._waiting.values()]])
        return self._held_more(size)

    def free(self, size: int) -> None:
        """Give room back."""
        with self._lock:
            self._held -= size
            self._shrink()

    def has(self, id: str) -> bool:
        """Whether something of a session waits for the store."""
        return id in self._waiting

    def keep(self, id: str, entry: bytes, again: Callable[[], "Future[None]"]) -> None:
        """Keep something of a session until `done`. ``again`` tries to store all that waits of the session. `OSError`
        if it cannot be written."""
        with self._writing:
            with self._lock:
                self._waiting[id] = again
            if self._fd is not None:
                self._write(self._used, _HEADER.pack(len(entry), crc32(entry)) + entry + bytes(_HEADER.size))
                os.fsync(self._fd)
            with self._lock:
                self._used += _HEADER.size + len(entry)

    def done(self, id: str) -> None:
        """The store has everything of a session."""
        if id not in self._waiting:
            return
        with self._writing:
            del self._waiting[id]
            if not self._waiting:
                with suppress(OSError):  # then they are stored once more at the next start
                    self.clear()
                with self._lock:
                    self._used = 0
                    self._shrink()

    def clear(self) -> None:
        """Forget all entries."""
        if self._fd is not None and self._size:
            self._write(0, bytes(_HEADER.size))

    # -- the file --------------------------------------------------------------------------------------------------

    def _held_more(self, size: int) -> bool:
        """Hold so many bytes, if there is room, maybe after the file has grown."""
        with self._lock:
            if self._used > _MOST:
                return False
            wanted = self._used + self._held + size + _HEADER.size
            if self._fd is not None and wanted > self._size:
                try:
                    self._grow(self._fd, -(-wanted // _STEP) * _STEP)
                except OSError:
                    try:
                        self._grow(self._fd, wanted)
                    except OSError as error:
                        log.error("no room can be set aside for calls of sessions: %s", error)
                        return False
            self._held += size
            return True

    def _grow(self, fd: int, size: int) -> None:
        more = size - self._size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, self._size, more)
        elif not hasattr(os, "pwrite"):  # Windows
            os.ftruncate(fd, size)
        elif os.pwrite(fd, bytes(more), self._size) < more:  # macOS
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size = size

    def _shrink(self) -> None:
        if self._fd is not None and not self._held and not self._waiting and self._size > _STEP:
            with suppress(OSError):
                os.ftruncate(self._fd, _STEP)
                self._size = _STEP

    def _write(self, at: int, data: bytes) -> None:
        assert self._fd is not None
        os.lseek(self._fd, at, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]
