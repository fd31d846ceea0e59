"""`Claim`: a use of a store's file by one process alone, and whether the store has all that it acknowledged."""

import os
import threading
from typing import Final

_COMPLETE: Final = b"complete\n"


class Claim:
    """A use of a store's file by one process alone.

    A small file beside it says that the store has everything. It is emptied before the process acknowledges anything
    else, for which a full disk has room, too. So the next process knows that something was lost.

    Attributes:
        complete: whether the process before this one lost nothing that it had acknowledged.
    """

    def __init__(self, file: int | None = None, *, complete: bool = True) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self.complete = complete

    def begin(self) -> None:
        """Say that the store has everything; `OSError` if there is no room for that."""
        if self._file is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, _COMPLETE)
            os.fsync(self._file)

    def wait(self, what: str) -> None:
        """Note that something is acknowledged, which the store does not have yet; `OSError` if that cannot be noted."""
        with self._lock:
            if self._file is not None and not self._waiting:
                os.ftruncate(self._file, 0)
                os.fsync(self._file)
            self._waiting.add(what)

    def stored(self, what: str) -> None:
        """Note that the store has it now; `OSError` as for `begin`."""
        if what in self._waiting:
            with self._lock:
                self._waiting.discard(what)
                if not self._waiting:
                    self.begin()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
