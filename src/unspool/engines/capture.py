"""Recordings of raw outputs: writes them, reads them, and captures the output of any engine.

A file has JSON lines. Each recording begins with the request, followed by the pieces of the output::

    {"type": "request", "dialect": "…", "prompt": "…", "tools": […], "tool_choice": "auto"}
    {"type": "chunk", "at": 0.031, "text": "Let me"}
    {"type": "chunk", "at": 0.052, "text": " see", "finish_reason": "stop", "usage": {"completion_tokens": 2}}

``at`` is the time in seconds since the request. An output that failed ends with ``{"type": "error", "at": …,
"message": …, "status": …}``, one that was cancelled with ``{"type": "cancelled", "at": …}``. Every field except
``type`` is optional, so recordings are easy to write by hand. Texts are escaped to ASCII, so lone surrogates survive.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from ..check import load_dialect
from ..dialect.file import Dialect
from ..dialect.loader import parse_dialect
from ..dialect.registry import find_base, get_dialect
from ..events import Event, Stage
from ..message import Message
from ..parser import Parser
from ..policy import Policy
from .base import Delta, Engine, EngineError, Request
from .media import Medium, PlacedMedium

log = logging.getLogger("unspool.engines")


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a recording: the request, and what is needed to parse the output again."""

    id: str = ""
    model: str = ""
    # dialect, reasoning: the arguments of `unspool.get_dialect`; ``dialect`` may also be the path of a file.
    dialect: str = ""
    reasoning: str | None = None
    toml: str = ""  # the text of the dialect's file, if it is not a shipped one
    policy: Policy = Policy()  # the policies that the server's configuration overrides
    # For replay: this recording answers requests whose last message or prompt contains this text.
    match: str | None = None
    # prompt, stage, messages, tools, tool_choice: see `Request`. ``tools`` is ``None`` if they are unknown.
    prompt: str | list[int] | None = None
    media: list[PlacedMedium] = []  # the media of the prompt in order; the messages name them by their digests
    stage: Stage | None = None
    messages: list[Any] = []
    tools: list[Any] | None = None
    tool_choice: Any = "auto"
    choice: int = 0


class Recording(msgspec.Struct, frozen=True):
    """One recorded output.

    Attributes:
        asked: the request.
        pieces: the pieces, each with its time in seconds since the request.
        error: the engine's failure after the last piece, if any, with its time.
        where: the file and line, for messages.
    """

    asked: Asked
    pieces: tuple[tuple[float, Delta], ...]
    error: tuple[float, str, int] | None = None
    where: str = ""

    @property
    def text(self) -> str:
        """The whole raw output."""
        return "".join(delta.text for _, delta in self.pieces)

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that the recording names; ``None`` if it names none.

        Raises:
            UnknownDialect, DialectError: there is no such dialect.
        """
        name, reasoning, toml = self.asked.dialect, self.asked.reasoning, self.asked.toml
        if not name and not toml:
            return None
        dialect = parse_dialect(toml, name or "toml", find_base) if toml else _named(name)
        return dialect if reasoning is None else dialect.with_reasoning(_named(reasoning))

    def parser(self, dialect: str | Dialect | None = None) -> Parser:
        """Make a parser that reads the output as it was read when it was recorded.

        Args:
            dialect: a dialect instead of the recording's own.

        Raises:
            UnknownDialect, DialectError: there is no such dialect.
            ValueError: neither the recording nor the argument names one.
        """
        asked = self.asked
        chosen = dialect or self.dialect
        if chosen is None:
            raise ValueError(f"dialect: {self.where or 'the recording'} names none; pass one")
        return Parser(
            chosen,
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            stage=asked.stage,
            prompt=asked.prompt if isinstance(asked.prompt, str) else None,
            policy=asked.policy,
        )

    def play(self, parser: Parser, finish_reason: str | None = None) -> Iterator[list[Event]]:
        """Feed the recorded pieces to a parser and close it, and yield the events of each.

        Args:
            parser: a new one, such as `parser` makes.
            finish_reason: a finish reason instead of the engine's.
        """
        for _, delta in self.pieces:
            yield parser.feed(delta.text, delta.stage)
        reasons = [delta.finish_reason for _, delta in self.pieces if delta.finish_reason]
        yield parser.close(finish_reason or (reasons[-1] if reasons else None))

    def parse(self, dialect: str | Dialect | None = None) -> Message:
        """Parse the output with the recorded cuts; see `parser`."""
        parser = self.parser(dialect)
        for _ in self.play(parser):
            pass
        return parser.message

    def staged(self, dialect: str | Dialect | None = None) -> "Recording":
        """The recording with its stage in the first piece, for readers that do not know the recorded prompt."""
        asked = self.asked
        if not self.pieces or (asked.stage is None and not isinstance(asked.prompt, str)):
            return self
        at, first = self.pieces[0]
        if first.stage is None:
            first = msgspec.structs.replace(first, stage=self.parser(dialect).stage)
        return msgspec.structs.replace(self, pieces=((at, first), *self.pieces[1:]))


def _named(name: str) -> Dialect:
    return load_dialect(name) if name.endswith(".toml") else get_dialect(name)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_recordings(path: str | Path) -> list[Recording]:
    """Read all recordings of a file, or of a folder's ``*.jsonl`` files, in the order of their names.

    Raises:
        OSError: a file cannot be read.
        ValueError: names the file, the line and what is wrong; or there is no recording.
    """
    root = Path(path)
    files = sorted(root.glob("*.jsonl")) if root.is_dir() else [root]
    found: list[Recording] = []
    for file in files:
        with file.open(encoding="utf-8") as lines:
            found += read_lines(str(file), lines)
    if not found:
        raise ValueError(f"{path}: contains no recording")
    return found


def read_lines(source: str, lines: Iterable[str]) -> Iterator[Recording]:
    """Read recordings from lines of JSON. A `ValueError` names the source, the line and what is wrong."""
    asked: Asked | None = None
    pieces: list[tuple[float, Delta]] = []
    error: tuple[float, str, int] | None = None
    begun = ""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        where = f"{source}:{number}"
        try:
            line = json.loads(text)  # msgspec refuses escapes of lone surrogates
        except (ValueError, RecursionError) as wrong:
            raise ValueError(f"{where}: not JSON: {wrong}") from None
        if not isinstance(line, dict):
            raise ValueError(f"{where}: must be a JSON object")
        kind = line.pop("type", None)
        if kind == "request":
            if asked is not None:
                yield Recording(asked, tuple(pieces), error, begun)
            asked, pieces, error, begun = _convert(where, line, Asked), [], None, where
            continue
        if asked is None:
            raise ValueError(f"{where}: the first line must be of the type request, not {kind!r}")
        at = line.pop("at", 0.0)
        if isinstance(at, bool) or not isinstance(at, int | float) or at < 0:
            raise ValueError(f"{where}: at: must be a number of seconds")
        if kind == "chunk":
            pieces.append((at, _convert(where, line, Delta)))
        elif kind == "error":
            error = at, str(line.get("message", "the engine failed")), int(line.get("status", 500))
        elif kind != "cancelled":
            raise ValueError(f"{where}: type: {kind!r} is not one of request, chunk, error, cancelled")
    if asked is not None:
        yield Recording(asked, tuple(pieces), error, begun)


_T = TypeVar("_T")


def _convert(where: str, line: dict[str, Any], kind: type[_T]) -> _T:
    try:
        return msgspec.convert(line, kind)
    except ValueError as wrong:
        raise ValueError(f"{where}: {wrong}") from None


# -- writing -----------------------------------------------------------------------------------------------------------


class Capture:
    """An engine that records the outputs of another one: one file each, written as the pieces come.

    Args:
        engine: the engine that generates.
        folder: the folder for recordings, made if it does not exist. Only its owner can read it and the files,
            because they contain what users wrote.
        dialect, reasoning, policy, toml: how the server parses outputs; see `Asked`.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(
        self,
        engine: Engine,
        folder: str | Path,
        *,
        dialect: str,
        reasoning: str | None = None,
        policy: Policy | None = None,
        toml: str = "",
    ) -> None:
        self._engine = engine
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._asked = partial(asked_of, dialect=dialect, reasoning=reasoning, toml=toml, policy=policy)
        self._count = 0
        self._failing = False

    @property
    def tokenizer(self) -> Any:
        return self._engine.tokenizer

    def __getattr__(self, name: str) -> Any:
        """What only some engines have, such as ``media`` and ``context``."""
        return getattr(self._engine, name)

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Yield the engine's pieces unchanged; each is on disk before it is passed on, as long as that has room."""
        began = time.monotonic()
        stream = self._engine.generate(request)
        with contextlib.closing(_File(self._path(request), self._written)) as file:
            try:
                self._keep(request.media)
                file.write(self._asked(request))
                async for delta in stream:
                    file.write({"type": "chunk", "at": _since(began), **msgspec.to_builtins(delta)})
                    yield delta
            except EngineError as error:
                file.write({"type": "error", "at": _since(began), "message": str(error), "status": error.status})
                raise
            except BaseException:  # anything else that ends it: a cancellation, or closing the iterator
                file.write({"type": "cancelled", "at": _since(began)})
                raise
            finally:
                await stream.aclose()

    async def health(self) -> None:
        await self._engine.health()

    async def close(self) -> None:
        await self._engine.close()

    def _keep(self, media: Sequence[Medium]) -> None:
        """Write the bytes of media beside the recordings, each once."""
        for medium in media:
            path = self._folder / medium.placed.path
            if path.exists():
                continue
            new = path.with_name(f"{path.name}.{os.getpid()}.new")
            try:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                    file.write(medium.data)
                new.replace(path)  # other processes never see a part of it
            except OSError as fault:
                self._written(fault)

    def _written(self, fault: OSError | None) -> None:
        """Log when recordings cannot be written any more, and when they can again."""
        if fault is None and self._failing:
            log.warning("outputs are recorded again")
        elif fault is not None and not self._failing:
            log.error("outputs are not recorded: %s: %s", self._folder, fault.strerror)
        self._failing = fault is not None

    def _path(self, request: Request) -> Path:
        """The path of a new file; names sort in the order of requests, also after a restart."""
        self._count += 1
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in request.id)[:80]
        return self._folder / f"{time.time_ns():020d}-{self._count:06d}-{safe}-{request.choice}.jsonl"


class _File:
    """The file of one recording. If it cannot be written, it is removed: the answer matters more. ``report`` takes the
    fault then, or ``None`` when the file was written to its end."""

    def __init__(self, path: Path, report: Callable[[OSError | None], None]) -> None:
        self._path = path
        self._report = report
        self._file: IO[str] | None = None
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as fault:
            report(fault)
        else:
            self._file = os.fdopen(opened, "w", encoding="ascii")

    def write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            _write(self._file, line)
        except OSError as fault:
            self._give_up(fault)

    def close(self) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as fault:
            self._give_up(fault)
        else:
            self._report(None)

    def _give_up(self, fault: OSError) -> None:
        assert self._file is not None, "it was being written"
        with contextlib.suppress(OSError):  # closing writes what is left
            self._file.close()
        self._file = None
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._report(fault)


def asked_of(
    request: Request, dialect: str, reasoning: str | None = None, toml: str = "", policy: Policy | None = None
) -> dict[str, Any]:
    """Make the first line of a recording; the arguments are those of `Capture`."""
    asked = Asked(
        id=request.id,
        model=request.model,
        dialect=dialect,
        reasoning=reasoning,
        toml=toml,
        policy=policy or Policy(),
        prompt=request.prompt if isinstance(request.prompt, str | None) else list(request.prompt),
        media=[medium.placed for medium in request.media],
        stage=request.stage,
        messages=list(request.messages),
        tools=list(request.tools),
        tool_choice=request.tool_choice,
        choice=request.choice,
    )
    built: dict[str, Any] = msgspec.to_builtins(asked)
    built["policy"] = {field: value for field, value in built.get("policy", {}).items() if value is not None}
    return {"type": "request", **built}


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)


def _write(file: IO[str], line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def write_recording(path: str | Path, asked: Asked, chunks: Iterable[str], finish_reason: str = "stop") -> None:
    """Write a recording from an output's chunks, without times.

    Raises:
        OSError: the file cannot be written.
    """
    with Path(path).open("w", encoding="ascii") as file:
        _write(file, {"type": "request", **msgspec.to_builtins(asked)})
        for chunk in chunks:
            _write(file, {"type": "chunk", "text": chunk})
        _write(file, {"type": "chunk", "finish_reason": finish_reason})
