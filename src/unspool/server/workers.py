"""Several processes on one port: a parent starts workers, restarts those that end, and shuts all of them down.

Workers run the same command, and inherit the listening socket and one end of a socket pair. Through the pair, a
worker reports that it is ready, and notices when the parent is gone. Each worker serves its counts on a socket in a
shared folder, so that any worker can report the counts of all.
"""

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ..engines.local import Address

log = logging.getLogger("unspool.server")

VARIABLE: Final = "UNSPOOL_WORKER"  # the environment variable that makes a process a worker
_READY: Final = b"ready"
_ASKED: Final = 2.0  # seconds for a sibling's counts
_TICK: Final = 0.2  # seconds between two checks of the workers
_STEADY: Final = 30.0  # seconds after which a worker is restarted without an increasing delay
_LONGEST_PAUSE: Final = 30.0
_MOST: Final = 64 * 1024 * 1024  # the largest size of a sibling's counts, in bytes


class ServerWorker(msgspec.Struct, frozen=True):
    """A worker's view of its parent and siblings."""

    number: int  # its number, from 0
    # listener, parent: the file descriptors of the listening socket, and of its end of the pair.
    listener: int
    parent: int
    folder: str  # the folder with the sockets of all workers
    engines: dict[str, Address] = {}  # the processes of llama.cpp that all workers share, by the models' names

    @classmethod
    def here(cls) -> "ServerWorker | None":
        """This process as a worker, from its environment; ``None`` if it is not a worker."""
        variable = os.environ.pop(VARIABLE, None)
        return None if variable is None else msgspec.json.decode(variable, type=cls)

    def listening(self) -> socket.socket:
        return socket.socket(fileno=self.listener)

    @contextlib.asynccontextmanager
    async def serving(self, counts: Callable[[], str], orphaned: Callable[[], None]) -> AsyncIterator[None]:
        """A context in which the worker is ready, sends its counts to siblings, and calls ``orphaned`` if it is."""
        loop = asyncio.get_running_loop()
        path = Path(self.folder) / f"{self.number}.sock"
        path.unlink(missing_ok=True)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                writer.write(counts().encode())
                await writer.drain()
            writer.close()

        parent = socket.socket(fileno=os.dup(self.parent))
        parent.setblocking(False)

        def heard() -> None:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                if parent.recv(64):
                    return
            loop.remove_reader(parent)
            orphaned()

        server = await asyncio.start_unix_server(answer, path)
        loop.add_reader(parent, heard)
        try:
            with contextlib.suppress(ConnectionError):  # the parent is gone, which is heard too
                parent.send(_READY)
            yield
        finally:
            loop.remove_reader(parent)
            parent.close()
            server.close()
            path.unlink(missing_ok=True)

    async def counts(self) -> list[str]:
        """The counts of all workers that answer, including this one."""
        found = await asyncio.gather(*(_counts(path) for path in sorted(Path(self.folder).glob("*.sock"))))
        return [text for text in found if text is not None]


async def _counts(path: Path) -> str | None:
    try:
        async with asyncio.timeout(_ASKED):
            reader, writer = await asyncio.open_unix_connection(path, limit=_MOST)
            try:
                return (await reader.read()).decode()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        log.warning("worker %s does not report its counts: %s", path.stem, error or type(error).__name__)
        return None


# -- the parent --------------------------------------------------------------------------------------------------------


class _WorkerProcess(NamedTuple):
    process: "subprocess.Popen[bytes]"
    pair: socket.socket
    began: float


class _Parent:
    def __init__(
        self, words: Sequence[str], listener: socket.socket, folder: str, engines: Mapping[str, Address]
    ) -> None:
        self._words = words
        self._listener = listener
        self._folder = folder
        self._engines = dict(engines)
        self._ending = 0  # the signal
        self._children: dict[int, _WorkerProcess] = {}
        self._due: dict[int, float] = {}
        self._pause = 0.5

    def run(self, number: int) -> int:
        """Serve with this many workers until a signal ends them; return the exit code."""
        for wanted in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wanted, self._end)
        self._start(0)
        failed = self._until_ready(0)  # the others would fail too
        if failed is not None:
            return failed
        for other in range(1, number):
            self._start(other)
        while self._children or (self._due and not self._ending):
            time.sleep(_TICK)
            self._look()
        return self._ended()

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        worker = ServerWorker(number, self._listener.fileno(), theirs.fileno(), self._folder, self._engines)
        # In its own session, so that Ctrl-C reaches only the parent, which then ends all workers in the same way.
        process = subprocess.Popen(
            [sys.executable, "-m", "unspool", *self._words],
            env={**os.environ, VARIABLE: msgspec.json.encode(worker).decode()},
            pass_fds=(self._listener.fileno(), theirs.fileno()),
            start_new_session=True,
        )
        theirs.close()
        self._children[number] = _WorkerProcess(process, ours, time.monotonic())
        if self._ending:
            process.send_signal(signal.SIGTERM)

    def _until_ready(self, number: int) -> int | None:
        """Wait until a worker is ready; return its exit code if it ended instead."""
        child = self._children[number]
        while True:
            ready, _, _ = select.select([child.pair], [], [], _TICK)
            if ready and child.pair.recv(64):
                return None
            if child.process.poll() is not None:
                code = child.process.returncode
                return self._ended() if self._ending else code if code > 0 else 1

    def _look(self) -> None:
        """Record workers that have ended, and restart those that are due."""
        now = time.monotonic()
        for number, child in list(self._children.items()):
            code = child.process.poll()
            if code is None:
                continue
            child.pair.close()
            del self._children[number]
            if self._ending:
                continue
            steady = now - child.began > _STEADY
            self._pause = 0.5 if steady else min(2 * self._pause, _LONGEST_PAUSE)
            log.error("worker %d ended with %d; the next one starts in %g s", number, code, self._pause)
            self._due[number] = now + self._pause
        for number, due in list(self._due.items()):
            if now >= due and not self._ending:
                del self._due[number]
                self._start(number)

    def _ended(self) -> int:
        return 130 if self._ending == signal.SIGINT else 0

    def _end(self, number: int, frame: Any) -> None:
        """End all workers, which drain first."""
        # uvicorn ends at once on SIGINT if it is already ending.
        signum = signal.SIGINT if self._ending else signal.SIGTERM
        self._ending = self._ending or number
        for child in list(self._children.values()):
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(signum)


def supervise(words: Sequence[str], listener: socket.socket, number: int, engines: Mapping[str, Address]) -> int:
    """Serve with several processes on one socket until SIGTERM or SIGINT, and return the exit code. ``words`` are the
    command line of a worker, from the command's name on."""
    os.set_inheritable(listener.fileno(), True)
    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        return _Parent(words, listener, folder, engines).run(number)
