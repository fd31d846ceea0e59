"""Checks the grammars of requests under limits of time and memory, before llama.cpp compiles them."""

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from functools import partial
from hashlib import sha256
from typing import Any, Final

from ...grammar import Constraint
from ...grammar.matchers import LIMITS
from ..base import EngineError
from ..cache import Cache
from ..threads import Awaited, Threads
from . import judge
from .vocabulary import Vocabulary

log = logging.getLogger("unspool.engines")

MAX_TEXT: Final = 4 * 1024 * 1024  # the most characters of a grammar
SECONDS: Final = (0.5, 2.0)
"""Limits of processor time for one compilation, in seconds: in the lane for all, and in the lane for slow ones."""
MEMORY: Final = 512 * 1024 * 1024  # the most bytes of memory of a compilation
_OF_SCHEMA: Final = "failed to compile JSON schema: "
"""The prefix after which llguidance's messages are only about the schema."""
_KEPT: Final = 4096
_KEPT_BYTES: Final = 1024 * 1024


class Grammars:
    """Checks grammars for a model's vocabulary, and keeps the verdicts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._faults: Cache[str] = Cache(_KEPT, _KEPT_BYTES)  # by the grammars' digests; empty for what may be compiled
        # If no process can be forked, only the bounds on schemas protect the server.
        self._lanes = [
            (Threads(1, f"grammar-{i}"), _Judge(vocabulary) if hasattr(os, "fork") else None, seconds)
            for i, seconds in enumerate(SECONDS)
        ]

    async def check(self, constraint: Constraint, field: str) -> None:
        """Return if a grammar of a field compiles within the limits, else raise an `EngineError`, 400. Cancelling ends
        it."""
        for threads, trial, seconds in self._lanes:
            fault = await threads.run(partial(self._fault, constraint, trial, seconds))
            if fault is not None:
                break
        else:
            raise EngineError("the grammar process has exited", 500)
        if fault:
            raise EngineError(fault, 400, param=field)

    async def follows(self, constraint: Constraint, output: str, ended: bool) -> bool:
        """Whether an output, which has ended or was cut, follows a grammar, as far as a process can be asked."""
        threads, trial, seconds = self._lanes[-1]
        if trial is None:
            return False
        judge = partial(trial.judge, constraint.lark_spaced, seconds, output=output, ended=ended)
        return bool((await threads.run(judge)).get("follows"))

    def refuse(self, constraint: Constraint) -> None:
        """Refuse a grammar from now on, since llama.cpp has dropped it."""
        key = sha256(constraint.lark_spaced.encode()).digest()
        self._keep(key, "llama.cpp cannot follow the grammar of these schemas")

    def close(self) -> None:
        for threads, trial, _ in self._lanes:
            threads.close()
            if trial is not None:
                trial.close()

    def _fault(self, constraint: Constraint, trial: "_Judge | None", seconds: float, awaited: Awaited) -> str | None:
        """Why a grammar cannot be compiled, for the client; empty if it can; ``None`` if not within ``seconds``."""
        text = constraint.lark_spaced
        if len(text) > MAX_TEXT:
            return f"the grammar of these schemas has {len(text):,} characters; allowed are {MAX_TEXT:,}"
        key = sha256(text.encode()).digest()
        if (known := self._faults.get(key)) is not None:
            return known
        awaited.check()
        verdict = {} if trial is None else trial.judge(text, seconds, awaited)
        fault, over = "", verdict.get("over")
        if over == "time" and seconds < SECONDS[-1]:
            return None
        if over:
            limit = f"{seconds:g} s" if over == "time" else f"{MEMORY >> 20} MiB"
            fault = f"the grammar of these schemas takes more than {limit} to compile"
        elif verdict.get("error"):
            why = str(verdict["error"]).splitlines()[0]
            log.warning("a grammar cannot be compiled: %.300s", why)
            _, of_schema, detail = why.partition(_OF_SCHEMA)  # other errors are about the grammar, not the schema
            detail = f": {detail[:200]}" if of_schema else ""
            fault = f"the grammar engine does not support these schemas{detail}"
        self._keep(key, fault)
        return fault

    def _keep(self, key: bytes, fault: str) -> None:
        self._faults.put(key, fault, len(fault) + len(key), anew=True)


class _Judge:
    """The process of `unspool.engines.local.judge`, used by one thread. It starts with its first grammar."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._process: subprocess.Popen[bytes] | None = None
        self._stop: weakref.finalize[..., Any] | None = None
        self._cancel = -1
        self._lock = threading.Lock()  # for the attributes that other threads write
        self._closed = False

    def judge(
        self, text: str, seconds: float, awaited: Awaited, *, output: str = "", ended: bool = False
    ) -> dict[str, Any]:
        """The verdict on a grammar: its ``error``, or the limit it is ``over``, or else whether an output ``follows``
        it. `Abandoned` if nobody waits."""
        for _ in range(3):  # the process may have died, or been ended by the cancellation of the previous job
            try:
                verdict = self._ask(text, seconds, awaited, output, ended)
            except (OSError, ValueError) as error:
                log.warning("the process that judges grammars is started again: %s", error)
                self._end()
                verdict = {"over": "cancelled"}
            awaited.check()
            if verdict.get("over") != "cancelled":
                return verdict
        raise EngineError("the grammar process does not respond", 503)

    def _ask(self, text: str, seconds: float, awaited: Awaited, output: str, ended: bool) -> dict[str, Any]:
        process = self._started()
        data = text.encode()
        job = {"size": len(data), "seconds": seconds, "memory": MEMORY, "limits": LIMITS}
        job |= {"output": output, "ended": ended}
        assert process.stdin is not None
        assert process.stdout is not None
        awaited.on_leaving(self._leave)
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n" + data)
            process.stdin.flush()
            return _answer(process.stdout.fileno(), time.monotonic() + 20 * seconds + 20)
        finally:
            awaited.on_leaving(None)

    def _leave(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._cancel >= 0:
                os.write(self._cancel, b"x")

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise EngineError("the engine is closed", 503)
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        cancelled, self._cancel = os.pipe()
        try:
            self._process = subprocess.Popen(
                # The script's folder is not on the path, since its modules would shadow others.
                [sys.executable, "-P", judge.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[cancelled],
            )
        finally:
            os.close(cancelled)
        self._stop = weakref.finalize(self, _stop, self._process)  # also ends it if the engine is never closed
        described = self._vocabulary.described.encode()
        begin = {"tokenizer": len(described), "cancel": cancelled}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(begin).encode() + b"\n" + described)
        return self._process

    def close(self) -> None:
        """End the process. A running judgement fails."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        self._process = None
        if self._stop is not None:
            self._stop()
        with self._lock:
            cancel, self._cancel = self._cancel, -1
            if cancel >= 0:
                os.close(cancel)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # buffered input is lost
            if pipe is not None:
                pipe.close()


def _answer(pipe: int, deadline: float) -> dict[str, Any]:
    """Read the next line."""
    data = b""
    while not data.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise ValueError("it does not respond")
        more = os.read(pipe, 65_536)
        if not more:
            raise ValueError("it has exited")
        data += more
    found: dict[str, Any] = json.loads(data)
    return found
