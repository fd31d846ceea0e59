"""`Claim`: a use of a store's file by one process alone, and whether the store has all that it acknowledged."""

import os
import threading
from contextlib import suppress
from typing import Final

_COMPLETE: Final = b"complete\n"


class Claim:
    """A use of a store's file by one process alone.

    A small file beside it says that the store has everything. It is emptied before the process acknowledges anything
    else, for which a full disk has room, too. So the next process knows that something was lost.

    Attributes:
        complete: whether it is known, and noted where something is missing, what the processes before this one lost.
        waiting: the bytes that are acknowledged, and that the store does not have yet.
    """

    def __init__(self, file: int | None = None, *, complete: bool = True) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}  # the bytes that wait, by what they are
        self._emptied = False
        self.complete = complete
        self.waiting = 0

    def begin(self) -> None:
        """Say that the store has everything, or names what was lost; `OSError` if there is no room for that."""
        self.complete = True
        if self._file is not None:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, _COMPLETE)
            os.fsync(self._file)
        self._emptied = False

    def wait(self, what: str, size: int) -> None:
        """Note that something is acknowledged, of so many bytes, which the store does not have yet; `OSError` if that
        cannot be noted."""
        with self._lock:
            self.waiting += size - self._sizes.get(what, 0)
            self._sizes[what] = size
            if self._file is not None and not self._emptied:
                os.ftruncate(self._file, 0)
                os.fsync(self._file)
            self._emptied = True

    def stored(self, what: str) -> None:
        """Note that the store has it now. If there is no room for that, the next process presumes that it was lost, as
        it does where what was lost before is not noted yet."""
        if what in self._sizes:
            with self._lock:
                self.waiting -= self._sizes.pop(what, 0)  # another thread may have noted it meanwhile
                if self.complete and not self._sizes:
                    with suppress(OSError):
                        self.begin()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
