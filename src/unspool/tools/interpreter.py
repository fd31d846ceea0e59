"""Runs Python that models write, in monty (PyPI ``pydantic-monty``): an interpreter without files or network.

It runs in a child process, within limits. Each response has its own.
"""

import asyncio
import importlib.util
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from .base import ToolLimits, ToolResult, refused, shortened

DESCRIPTION: Final = "a Python interpreter with a part of the standard library (such as math, re, json, datetime)"
"""What the interpreter is, for the model."""
_STARTING: Final = 30.0  # seconds in which an interpreter must be ready
_GRACE: Final = 1.0  # extra seconds after a cell's time, in which the child may end the cell itself
_ESCAPED: Final = 6  # bytes of JSON that one character of output may take
_LOST: Final = "\n[The interpreter was ended. What earlier code defined is lost.]"


class InterpreterError(Exception):
    """The interpreter cannot be started; the message says why, and what would help."""


class _CellAnswer(msgspec.Struct):
    cell: str = ""
    text: str = ""
    error: bool = False
    ended: bool = False
    ready: bool = False


def monty(limits: ToolLimits) -> Sequence[str]:
    """The command that starts monty; `InterpreterError` if it is not installed."""
    if importlib.util.find_spec("pydantic_monty") is None:
        raise InterpreterError("pydantic_monty is missing; in a clone of unspool: pip install '.[python-tool]'")
    numbers = (str(limits.time), str(limits.memory), str(limits.output))
    return (sys.executable, "-I", str(Path(__file__).with_name("monty_driver.py")), *numbers)


class Interpreter:
    """A child process that runs cells in one namespace. The first cell starts it, as does the first after its end. It
    reads cells and writes answers line by line (see `monty_driver`). An answer that is not the cell's own ends it,
    since those after it would be wrong too."""

    def __init__(self, command: Sequence[str], limits: ToolLimits) -> None:
        self._command = command
        self._time = limits.time
        self._output = limits.output
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The process id of the child, if there is one."""
        return None if self._process is None else self._process.pid

    async def run(self, code: str) -> ToolResult:
        """Run a cell after those that arrived before it. Cancelling it ends the child."""
        async with self._turn:
            try:
                return await self._run(code)
            except BaseException:
                await self._end()
                raise

    async def aclose(self) -> None:
        async with self._turn:
            await self._end()

    async def _run(self, code: str) -> ToolResult:
        try:
            process = await self._started()
        except InterpreterError as error:
            return refused(f"Python cannot be run: {error}")
        assert process.stdin is not None
        cell = secrets.token_hex(16)  # no code can forge an answer to a later cell
        try:
            async with asyncio.timeout(self._time + _GRACE):
                plain = code.encode(errors="replace").decode()  # without halves of surrogate pairs
                process.stdin.write(msgspec.json.encode({"cell": cell, "code": plain}) + b"\n")
                await process.stdin.drain()
                answer = await self._answer(process)
        except TimeoutError:
            await self._end()
            return refused(f"The code did not end within {self._time:g} seconds.{_LOST}")
        except (OSError, ValueError):
            answer = None
        if answer is None or answer.cell != cell:
            await self._end()
            return refused(f"The interpreter ended: too much memory or output, or a crash.{_LOST}")
        text = shortened(answer.text, self._output)
        if answer.ended:
            await self._end()
            text += _LOST
        return ToolResult(text=text, error=answer.error)

    async def _answer(self, process: asyncio.subprocess.Process) -> _CellAnswer | None:
        """The next line of the child; ``None`` if there is none, or if it is malformed."""
        assert process.stdout is not None
        line = await process.stdout.readline()
        try:
            return msgspec.json.decode(line, type=_CellAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._end()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  # the child keeps it open
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                cwd="/",
                limit=_ESCAPED * self._output * 2 + 65_536,
                start_new_session=True,
            )
            async with asyncio.timeout(_STARTING):
                answer = await self._answer(process)
        except (OSError, TimeoutError, ValueError) as error:
            await self._end()
            raise InterpreterError(f"it does not start: {error or f'not within {_STARTING:g} s'}") from None
        finally:
            errors.seek(0)
            output = errors.read(4_000).decode(errors="replace").strip()
            errors.close()
        if answer is None or not answer.ready:
            await self._end()
            raise InterpreterError(f"it does not start: {output[-500:] or 'it ended without output'}")
        return process

    async def _end(self) -> None:
        """Kill the child and its process group, and wait for it, even if the wait is cancelled."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(asyncio.ensure_future(_reap(process)))


async def _reap(process: asyncio.subprocess.Process) -> None:
    # Close the pipes first: the wait also waits for them, and nobody reads them any more.
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()
