"""`Local`: an engine that runs a GGUF with llama.cpp in a child process."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from signal import SIGINT, SIGKILL, SIGTERM
from typing import Final

import msgspec

from ...checkpoints.gguf import Gguf
from ...errors import ConstraintError
from ...grammar import Constraint
from ..base import Delta, EngineError, Request
from ..cache import Cache
from ..media import MEDIA
from ..upstream import Upstream
from ..upstream.client import Unavailable
from .grammars import Grammars
from .process import Address, LlamaProcess, Status
from .vocabulary import Vocabulary

log = logging.getLogger("unspool.engines")

_PATIENCE: Final = 600.0  # how long an output waits for the model to be loaded, in seconds
_TICK: Final = 0.1
_NOTICED: Final = 2.0  # how long it may take until the end of the process is noticed, in seconds
_FROM_OUTSIDE: Final = (0, SIGINT, SIGTERM, SIGKILL)
"""Signals by which others end a process. A program that crashes gets another one."""
_REFUSED: Final = 1024
_SCHEMA: Final = "response_format.json_schema.schema"  # the field of a grammar without tools
_FAILED: Final = "llg error"  # what llama.cpp logs if it drops a grammar, and goes on without


class Local:
    """Generates with llama.cpp. It waits while the model is loaded.

    An output that runs when the process ends fails. One that has not begun is tried once more, and later ones wait
    until the process is started again. A grammar that ended it is refused from then on.

    Args:
        gguf: the model, read with its vocabulary.
        markers: special tokens that the text must show.
        ends: special tokens that end outputs, besides those that the file names.
        process: the process, if it belongs to the engine, which then ends it.
    """

    def __init__(
        self,
        address: Address,
        gguf: Gguf,
        *,
        markers: Sequence[str] = (),
        ends: Sequence[str] = (),
        process: LlamaProcess | None = None,
    ) -> None:
        self._address = address
        self._process = process
        self.tokenizer: Final = Vocabulary(gguf, address)
        self.title: Final = gguf.text("general.name")
        self._ends = sorted({*ends, *(gguf.token(role) for role in ("eos", "eot", "eom"))})
        self._grammars = Grammars(self.tokenizer)
        self._suspects = _Suspects()
        self._upstream = Upstream(
            address.url,
            kind="llama.cpp-llguidance",
            api_key=address.key,
            markers=markers,
            first_timeout=_PATIENCE,
            next_timeout=_PATIENCE,
        )

    media = MEDIA
    """llama.cpp itself says whether it has a projector for them."""
    provider = "llama.cpp"

    @property
    def context(self) -> int | None:
        """The largest number of tokens of a prompt and its output, once llama.cpp has told it."""
        return self._upstream.context

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output; an `EngineError` with 400 if the grammar is too large, or has ended a process."""
        field = "tools" if request.tools and request.tool_choice != "none" else _SCHEMA
        constraint = await self._checked(request.constraint, field)
        request = msgspec.structs.replace(request, constraint=constraint)
        key = b"" if constraint is None else hashlib.sha256(constraint.lark_spaced.encode()).digest()
        deadline = time.monotonic() + _PATIENCE
        again = True
        while True:
            self._suspects.check(key, field)
            before = await self._ready(deadline)
            stream = self._attempt(request, key, before)
            try:
                async for delta in stream:
                    yield delta
                return
            except _NotBegun as error:
                self._suspects.check(key, field)
                if time.monotonic() > deadline or not (again or error.status == 503):
                    raise EngineError(str(error), error.status) from None
                again = again and error.status == 503
                await asyncio.sleep(_TICK)
            finally:
                await stream.aclose()

    async def _checked(self, given: Constraint | None, field: str) -> Constraint | None:
        """A constraint for llama.cpp, or a less strict one if it cannot be compiled and that is allowed."""
        while given is not None:
            constraint = given.ending(self._ends)
            try:
                await self._grammars.check(constraint, field)
                return constraint
            except (ConstraintError, EngineError) as error:
                if given.looser is None or getattr(error, "status", 400) != 400:
                    if given.answer is not None:
                        await self._checked(await asyncio.to_thread(given.answer), _SCHEMA)
                    raise error if isinstance(error, EngineError) else EngineError(str(error), 400) from None
                log.warning("calls are less constrained than by the server's level: %s", error)
            given = await asyncio.to_thread(given.looser)
        return None

    async def _attempt(self, request: Request, key: bytes, before: Status) -> AsyncGenerator[Delta, None]:
        """Generate one output with the process as it is now; `_NotBegun` if it ended (502) or was just being started
        again (503) before there was any output."""
        begun, written = False, self._address.logged()
        output: list[str] = []
        stream = self._upstream.generate(request)
        with self._suspects.running(key):
            try:
                async for delta in stream:
                    begun = True
                    if request.constraint is not None:
                        output.append(delta.text)
                        if delta.finish_reason is not None and self._address.may_have_logged(_FAILED, written):
                            await self._check(request.constraint, "".join(output), delta.finish_reason == "stop")
                    yield delta
            except Unavailable as error:
                if error.status == 503 and not begun:
                    raise _NotBegun(str(error), 503) from None
                ended = await self._ended(before)
                if ended is None:
                    raise
                self._suspects.died(key, ended)
                kind = EngineError if begun else _NotBegun
                raise kind(ended.fault or "llama.cpp ended while it generated", 502) from None
            finally:
                await stream.aclose()
        self._suspects.finished(key)

    async def _check(self, constraint: Constraint, output: str, ended: bool) -> None:
        """Check an output after llama.cpp has, or may have, logged that it dropped a grammar, perhaps another's."""
        given: Constraint | None = constraint
        while given is not None and not await self._grammars.follows(given, output, ended):
            if given is constraint:
                self._grammars.refuse(given)
            if given.looser is None:
                text = "llama.cpp dropped the grammar of the request, so its output cannot be trusted"
                raise EngineError(text, 500)
            looser = await asyncio.to_thread(given.looser)
            given = None if looser is None else looser.ending(self._ends)
        if given is not constraint:
            log.warning("calls are less constrained than by the server's level: llama.cpp dropped the grammar")

    async def health(self) -> None:
        """Return if the model is loaded; an `EngineError` says why it is not."""
        status = self._address.status()
        if status.state != "ready":
            raise EngineError(status.fault, 503)
        await self._upstream.health()

    async def close(self) -> None:
        """End the process, if it belongs to the engine; running outputs fail."""
        await self._upstream.close()
        self._grammars.close()
        if self._process is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._process.close)

    async def _ready(self, deadline: float) -> Status:
        while (status := self._address.status()).state != "ready":
            if status.state == "failed" or time.monotonic() > deadline:
                raise EngineError(status.fault, 503)
            await asyncio.sleep(_TICK)
        return status

    async def _ended(self, before: Status) -> Status | None:
        """The status after the process has ended; ``None`` if it has not."""
        deadline = time.monotonic() + _NOTICED
        while (status := self._address.status()).deaths == before.deaths:
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(_TICK)
        return status


class _NotBegun(EngineError):
    """An output has not begun, so it can be generated anew."""


class _Suspects:
    """Finds the grammars that end the process, by their digests; an empty digest stands for none."""

    def __init__(self) -> None:
        self._running: Counter[bytes] = Counter()
        self._struck: Cache[int] = Cache(_REFUSED, _REFUSED)
        self._refused: Cache[bool] = Cache(_REFUSED, _REFUSED)
        self._at_death: tuple[int, frozenset[bytes]] = (0, frozenset())
        self._counted: set[bytes] = set()  # those that were struck at this death

    def check(self, key: bytes, field: str) -> None:
        """Refuse a grammar of a field that has ended the process."""
        if key and self._refused.get(key):
            raise EngineError("the grammar of these schemas ended llama.cpp, so it is refused", 400, param=field)

    @contextlib.contextmanager
    def running(self, key: bytes) -> Iterator[None]:
        """A context in which an output is generated under the grammar."""
        self._running[key] += 1
        try:
            yield
        finally:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    def finished(self, key: bytes) -> None:
        """An output under the grammar is complete, so the grammar did not end the process."""
        if self._struck.get(key):
            self._struck.put(key, 0, 1, anew=True)

    def died(self, key: bytes, status: Status) -> None:
        """The process ended while an output was generated under the grammar.

        A grammar is refused at once if it was alone when the process crashed, and else if that happens twice.
        """
        if self._at_death[0] != status.deaths:  # the first that notices, while the others still run
            self._at_death, self._counted = (status.deaths, frozenset(self._running) - {b""}), {b""}
        if key in self._counted:  # by another output, since many have the grammar of the same tools
            return
        self._counted.add(key)
        count = (self._struck.get(key) or 0) + 1
        self._struck.put(key, count, 1, anew=True)
        if count > 1 or (self._at_death[1] == {key} and status.signal not in _FROM_OUTSIDE):
            self._refused.put(key, True, 1)
