"""MCP over the standard streams of a child process, with limits on its environment and lines.

The SDK's own transport of this kind keeps lines of any length in memory, and gives the child its default environment.
"""

import asyncio
import os
import signal
from contextlib import suppress
from types import TracebackType
from typing import Final

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from .base import ToolServerError, log
from .listed import TooMany, sifted
from .targets import Program

INHERITED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""The environment variables that a child inherits from the server; all others must be in its configuration."""
_GRACE: Final = 2.0  # seconds that a child has to end after its input's end, and again after SIGTERM
_STEP: Final = 0.01
_LENGTH: Final = 500  # the most characters of one line of the child's standard error that are logged
_UNASKED: Final = 4  # how many messages of the largest size a child may send without a request

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Child:
    """A transport of the SDK. Entering it starts the program; leaving it ends the child and its whole process group.
    ``message``: the most bytes of a message."""

    def __init__(self, label: str, program: Program, message: int) -> None:
        self._label = label
        self._program = program
        self._limit = message
        self._unasked = 0
        self.process: asyncio.subprocess.Process | None = None
        self.fault = ""
        """Why the child was ended, or the last line of its standard error."""

    async def __aenter__(self) -> Streams:
        pipe = asyncio.subprocess.PIPE
        try:
            self.process = await asyncio.create_subprocess_exec(
                *(self._program.command, *self._program.args),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={key: os.environ[key] for key in INHERITED if key in os.environ} | dict(self._program.env),
                cwd=self._program.cwd,
                limit=self._limit,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolServerError(f"{error.filename or self._program.command}: {error.strerror}") from None
        self._to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (received, sent)
        self._tasks = [
            asyncio.ensure_future(work(self.process)) for work in (self._read, self._write, self._read_errors)
        ]
        return self._streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The task that waits for the child may be cancelled, but the child is still ended.
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        process = self.process
        assert process is not None
        for stream in (*self._streams, self._to_session, self._from_session):
            stream.close()
        if process.stdin is not None:
            process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await _exited(process, _GRACE):
                break
            _signal(process.pid, number)
        _signal(process.pid, signal.SIGKILL)  # ends processes that it left in its group
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Close the pipes first: `wait` also waits for them, and a process that left the group may hold them open.
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._give_up(f"sent a message of more than {self._limit:,} bytes")
                    return
                if not line:
                    return
                self._unasked += len(line)
                if self._unasked > _UNASKED * self._limit:
                    self._give_up(f"sent {self._unasked:,} bytes without any request")
                    return
                try:
                    read = sifted(line, self._label)
                except TooMany as fault:
                    self._give_up(str(fault))
                    return
                with suppress(ValueError):  # the specification defines no answer to a line that is not a message
                    await self._to_session.send(
                        SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(read, by_name=False))
                    )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session has ended
        finally:
            self._to_session.close()

    def _give_up(self, fault: str) -> None:
        self.fault = fault
        log.warning("tool server %s %s: it is ended", self._label, fault)
        assert self.process is not None
        _signal(self.process.pid, signal.SIGKILL)

    async def _write(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        try:
            async for message in self._from_session:
                self._unasked = 0
                process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
        except (OSError, anyio.ClosedResourceError):
            self._to_session.close()  # the session sees the end instead of waiting

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = b""
        while data := await process.stderr.read(8192):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-_LENGTH:]
            for line in lines:
                text = line[:_LENGTH].decode(errors="replace").rstrip()
                if text and not self.fault.startswith("sent"):
                    self.fault = text
                    log.debug("tool server %s: %s", self._label, text)


async def _exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether a child ends in time. `Process.wait` would also wait for its pipes, which may never be read."""
    for _ in range(round(seconds / _STEP)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(_STEP)
    return process.returncode is not None


def _signal(pid: int, number: int) -> None:
    """Send a signal to the child's process group, which the child leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
