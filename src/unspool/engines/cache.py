"""A bounded cache of values that take a while to compute."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Cache(Generic[_T]):
    """A thread-safe cache of at most this many values and about this many bytes, from which the least recently used
    values are dropped first. A larger value is kept as the only one."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._most = size
        self._size = 0
        self._found: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _T | None:
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def put(self, key: Hashable, thing: _T, size: int, *, anew: bool = False) -> None:
        """Keep a value of about this many bytes; a value that the key already has stays, unless ``anew``."""
        with self._lock:
            if key in self._found:
                if not anew:
                    return
                self._size -= self._found.pop(key)[1]
            self._found[key] = thing, size
            self._size += size
            while len(self._found) > self._count or (self._size > self._most and len(self._found) > 1):
                _, (_, gone) = self._found.popitem(last=False)
                self._size -= gone
