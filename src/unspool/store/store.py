"""`Store`: the connections to SQLite, and the thread that writes."""

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from .claim import Claim
from .records import StoreError, StoreFull
from .transactions import SCHEMA, ReadTransaction, WriteTransaction

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_VERSION: Final = 1
_APPLICATION: Final = 0x756E7370
_PATIENCE: Final = 10.0  # seconds to wait for another process
_TOGETHER: Final = 256  # how many writes that wait are committed together
_T = TypeVar("_T")


class _WriteJob(NamedTuple):
    work: Callable[[WriteTransaction], Any]
    done: "Future[Any]"


class Store:
    """Records in memory, or in a file. It is thread-safe, and several processes of a machine may use one file.

    Once a write is done, it survives the end of the process (and of the machine, if ``durable``). A write that fails
    leaves nothing.

    Args:
        file: the SQLite file, which is made if needed, readable for its owner alone; ``None`` means memory.
        size: how many bytes all records may have, with what it costs to keep them.
        days: the days after its last write after which a tree expires.
        durable: whether a write is done only when the disk has it.
        clock: gives the time in seconds.

    Attributes:
        secret: 32 random bytes, the same for all that use the file.

    Raises:
        StoreError: the file is not a store, was written by a newer version, or cannot be opened.
    """

    def __init__(
        self,
        file: "str | os.PathLike[str] | None" = None,
        *,
        size: int = 512 * 1024 * 1024,
        days: float = 30.0,
        durable: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = None if file is None else os.fspath(file)
        self._size = size
        self._age = days * 86400.0
        self._clock = clock
        self._lock = self._reader_lock = threading.Lock()
        try:
            self._db = self._reader = self._opened(durable)
            if self._name is not None:  # a reader does not wait for the disk, nor for other processes that write
                self._reader, self._reader_lock = _connected(self._name), threading.Lock()
            state = self._db.execute("SELECT secret FROM state").fetchone()
            if state is None or not isinstance(state[0], bytes):
                raise sqlite3.DatabaseError("it is damaged: its secret is lost")
            self.secret: bytes = state[0]
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or error
            raise StoreError(f"{self._name}: the store cannot be opened: {why}") from None
        self._claims: dict[str, Claim] = {}
        self._closed = threading.Event()
        self._jobs: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="unspool-store", daemon=True)
        self._thread.start()

    def read(self, work: Callable[[ReadTransaction], _T]) -> _T:
        """Read in one transaction, and return what ``work`` returns. It may wait for the disk."""
        with self._reader_lock, _clear(), _transaction(self._reader, "BEGIN"):
            return work(ReadTransaction(self._reader, self._clock() - self._age))

    def write(self, work: Callable[[WriteTransaction], _T]) -> "Future[_T]":
        """Write in one transaction: all of it or nothing.

        ``work`` runs in the store's thread, maybe twice, and should do nothing else. The future has what it returned,
        or its error, or a `StoreError`, once everything is written.
        """
        done: Future[_T] = Future()
        if self._closed.is_set():
            raise StoreError("the store is closed")
        self._jobs.put(_WriteJob(work, done))
        return done

    async def reading(self, work: Callable[[ReadTransaction], _T]) -> _T:
        """`read` without blocking the event loop."""
        return await asyncio.to_thread(self.read, work)

    async def writing(self, work: Callable[[WriteTransaction], _T]) -> _T:
        """`write` without blocking the event loop. Cancelled, it may be done or not."""
        return await asyncio.wrap_future(self.write(work))

    def claim(self, use: str) -> Claim:
        """Be the only one that uses the file for something, until the store is closed or the process ends; `StoreError`
        if somebody else is. Windows has no such locks: there nobody is kept away."""
        if use not in self._claims:
            self._claims[use] = Claim() if self._name is None else self._claimed(self._name, use)
        return self._claims[use]

    def _claimed(self, name: str, use: str) -> Claim:
        path = f"{name}-{use}"
        new = not os.path.exists(path)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise StoreError(f"{name}: another process keeps its {use} there; give each its own file") from None
        return Claim(file, complete=new or os.fstat(file).st_size > 0)

    def close(self) -> None:
        """Finish all writes, and close the file."""
        if self._closed.is_set():
            return
        self._jobs.put(None)
        self._thread.join()
        for db in {self._db, self._reader}:
            db.close()
        for claim in self._claims.values():
            claim.close()

    # -- opening ---------------------------------------------------------------------------------------------------

    def _opened(self, durable: bool) -> sqlite3.Connection:
        if self._name is None:
            db = _connected(":memory:")
        else:
            os.close(os.open(self._name, os.O_RDWR | os.O_CREAT, 0o600))
            db = _connected(self._name)
            _to_wal(db)
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        db.execute("PRAGMA foreign_keys = ON")
        with _transaction(db, "BEGIN IMMEDIATE"):
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (application,) = db.execute("PRAGMA application_id").fetchone()
            (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not tables:
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
            elif application != _APPLICATION or version < 1:
                raise StoreError(f"{self._name}: is an SQLite file, but not a store of unspool")
            elif version > _VERSION:
                raise StoreError(
                    f"{self._name}: was written by a newer unspool (version {version} of the schema; this one knows "
                    f"{_VERSION}); update unspool, or give another file"
                )
        return db

    # -- writing ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Commit writes, those that wait together, until the store closes."""
        while not self._closed.is_set():
            jobs = [self._jobs.get()]
            with suppress(queue.Empty):
                while len(jobs) < _TOGETHER:
                    jobs.append(self._jobs.get_nowait())
            if None in jobs:
                self._closed.set()
            self._commit([job for job in jobs if job is not None and job.done.set_running_or_notify_cancel()])

    def _commit(self, jobs: Sequence[_WriteJob]) -> None:
        """Commit writes in one transaction, or each in its own if that fails."""
        try:
            with self._lock, _clear(), _transaction(self._db, "BEGIN IMMEDIATE"):
                now = self._clock()
                writing = WriteTransaction(self._db, now - self._age, now, self._size)
                results = [job.work(writing) for job in jobs]
                writing.finish()
        except BaseException as error:
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
                return
            for job in jobs:
                self._commit([job])
        else:
            for job, result in zip(jobs, results, strict=True):
                job.done.set_result(result)


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)


def _to_wal(db: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, for which SQLite does not wait until other processes are ready."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise sqlite3.OperationalError(f"its file system allows no write-ahead log, only {mode!r}")
        return


@contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def _clear() -> Iterator[None]:
    """Turn SQLite's errors, and those of who reads damaged data, into those of the store."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"the store is damaged: {error}") from error
    except sqlite3.Error as error:
        full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
        raise (StoreFull if full else StoreError)(f"the store cannot be used: {error}") from error
