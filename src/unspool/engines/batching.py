"""Continuous batching: generates many outputs of one model at once, one token at a time.

One thread computes. Outputs join and leave between any two tokens. If a slot is free, the thread takes the next
request and reads a part of its prompt; then it computes one token for each output whose consumer keeps up. A consumer
that does not pull stops its own output after a few pieces, and keeps its slot. The event loop and the thread never
wait for each other.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import ConstraintError
from ..grammar import Constraint, Llguidance, Matcher
from ..tokens import Detokenizer
from ..wire.common import Usage
from .base import Delta, EngineError, Request, Sampling
from .budget import Budget
from .grammars import Grammars
from .model import Model, check_length, prefill_parts, prompt_tokens
from .outputs import Output, wake
from .sampling import Sampler, filled, forbidden_at, logprob_entry
from .threads import Threads

__all__ = ["Batching", "Model"]

log = logging.getLogger("unspool.engines")
_LONG: Final = 64 * 1024
"""The length of a prompt, in characters or tokens, from which on it has its own thread, so that it delays no short
one."""


class Batching:
    """An engine for a `Model`.

    Args:
        model: the model.
        slots: how many outputs are generated at once; further ones wait in order.
        ahead: how many pieces may wait for their consumer before an output stops.
        sampling: the defaults for requests.

    Raises:
        ValueError: ``slots`` or ``ahead`` is less than 1.
    """

    def __init__(self, model: Model, *, slots: int = 8, ahead: int = 16, sampling: Sampling | None = None) -> None:
        for name, value in (("slots", slots), ("ahead", ahead)):
            if value < 1:
                raise ValueError(f"{name}: must be at least 1, not {value}")
        self._model = model
        self._slots = slots
        self._ahead = ahead
        self._sampling = sampling or Sampling()
        own = getattr(model.tokenizer, "eos_token_id", None)
        self._silent = model.eos if own is None else model.eos & {own}
        self._preparing = threading.Lock()
        self._grammars: Grammars | None = None
        self._short = Threads(2, "prompts")
        self._long = Threads(1, "long-prompts")
        self._latest: tuple[str | Sequence[int], list[int]] | None = None
        # Guards everything below, and the state that outputs share with the other thread.
        self._changed = threading.Condition()
        self._waiting: deque[Output] = deque()
        self._running: list[Output] = []
        self._thread: threading.Thread | None = None
        self._just_joined = False
        self._filling: Output | None = None  # the output whose prompt is being read
        self._parts: Iterator[tuple[Any, NDArray[np.float32]] | None] = iter(())
        self._closed: str | None = None

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self._model.tokenizer

    @property
    def context(self) -> int:
        """The largest number of tokens of a prompt and its output together."""
        return self._model.context

    @property
    def running(self) -> int:
        """How many slots are in use."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiting)

    # -- in the event loop -----------------------------------------------------------------------------------------

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output, a piece for each token.

        The text of the last token is left out if it is the tokenizer's own end of a sequence; other tokens that end
        an output, such as ``<|call|>``, are included.

        Raises:
            EngineError: 400 if the request has no prompt, if the prompt leaves no room, or if the request cannot be
                served; 500 if the model fails; 503 if the engine is closed.
        """
        await self.health()
        output = await self._prepare(request)
        output.loop = asyncio.get_running_loop()
        self._join(output)
        in_a_row = 0
        try:
            while True:
                piece, waiter = self._pull(output)
                if waiter is not None:
                    await waiter
                    in_a_row = 0
                    continue
                if isinstance(piece, EngineError):
                    raise piece
                assert piece is not None
                yield piece
                if piece.finish_reason is not None:
                    return
                in_a_row += 1
                if in_a_row >= self._ahead:  # a model that is faster than its consumer must not block the loop
                    await asyncio.sleep(0)
                    in_a_row = 0
        finally:
            self._leave(output)

    async def health(self) -> None:
        """Return if the engine can generate.

        Raises:
            EngineError: 503 if it is closed, or if its thread has died.
        """
        if self._closed is not None:
            raise EngineError(self._closed, 503)

    async def close(self) -> None:
        """End the thread after the current token; running outputs fail."""
        self._end("the engine is closed")
        for threads in (self._short, self._long):
            threads.close()
        if self._grammars is not None:
            await asyncio.to_thread(self._grammars.close)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _join(self, output: Output) -> None:
        with self._changed:
            if self._closed is not None:
                raise EngineError(self._closed, 503)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="unspool-model", daemon=True)
                self._thread.start()
            self._waiting.append(output)
            self._changed.notify()

    def _pull(self, output: Output) -> tuple[Delta | EngineError | None, asyncio.Future[None] | None]:
        """The next piece, or a future to wait for."""
        with self._changed:
            if not output.pieces:
                assert output.loop is not None
                output.waiter = output.loop.create_future()
                return None, output.waiter
            piece = output.pieces.popleft()
            # A stopped output resumes only for several pieces: leaving a batch and returning to it costs models time.
            if output.stopped and len(output.pieces) <= self._ahead // 2:
                output.stopped = False
                self._changed.notify()
            return piece, None

    def _leave(self, output: Output) -> None:
        with self._changed:
            output.over = True
            if output in self._waiting:
                self._waiting.remove(output)
            self._changed.notify()

    async def _prepare(self, request: Request) -> Output:
        """Check a request, and prepare its output, in threads, so that short requests do not wait for long ones.

        Raises:
            EngineError: 400.
        """
        prompt = request.needed_prompt() if request.prompt_ids is None else request.prompt_ids
        check_length(self._model, prompt)
        if request.max_tokens is not None and request.max_tokens < 1:
            raise EngineError(f"max_tokens: must be at least 1, not {request.max_tokens}", 400)
        matcher = None if request.constraint is None else await self._matcher(request.constraint)
        threads = self._short if len(prompt) < _LONG else self._long
        return await threads.run(lambda _: self._output(request, self._tokens(prompt), matcher))

    async def _matcher(self, constraint: Constraint) -> Matcher:
        try:
            if self._grammars is None:
                await self._short.run(lambda _: self._make_grammars())
            assert self._grammars is not None
            matcher: Matcher = await self._grammars.matcher(constraint)
            return matcher
        except ImportError:
            raise EngineError("constraints need llguidance: install the extra `constrain`", 400) from None
        except ConstraintError as error:
            raise EngineError(str(error), 400) from None

    # -- in any thread ---------------------------------------------------------------------------------------------

    def _make_grammars(self) -> None:
        with self._preparing:
            if self._grammars is None:
                model = self._model
                # Only the first end counts.
                ends = sorted(model.eos, key=lambda token: (token not in self._silent, token))
                self._grammars = Grammars(Llguidance(model.tokenizer, eos=ends or None, vocab_size=model.vocab_size))

    def _tokens(self, prompt: str | Sequence[int]) -> list[int]:
        """The tokens of a prompt, which several choices share."""
        latest = self._latest
        if isinstance(prompt, str) and latest is not None and latest[0] == prompt:
            return latest[1]
        tokens = prompt_tokens(self._model, prompt)
        self._latest = (prompt, tokens)
        return tokens

    def _output(self, request: Request, prompt: list[int], matcher: Matcher | None) -> Output:
        """Make the state of one output.

        Raises:
            EngineError: 400.
        """
        model = self._model
        room = model.context - len(prompt)
        if room < 1:
            raise EngineError(f"prompt: {len(prompt):,} tokens leave no room in a context of {model.context:,}", 400)
        sampling = filled(request.sampling, self._sampling)
        return Output(
            id=request.id,
            prompt=prompt,
            limit=room if request.max_tokens is None else min(room, request.max_tokens),
            logprobs=sampling.logprobs,
            explain=request.explain,
            sampler=Sampler(sampling, prompt, model.vocab_size),
            detokenizer=Detokenizer(model.tokenizer),
            matcher=matcher,
            budget=None if request.thinking is None else Budget(request.thinking, model.tokenizer),
        )

    def _end(self, why: str, status: int = 503) -> None:
        """Accept no more requests, and fail the current ones."""
        with self._changed:
            self._closed = self._closed or why
            self._fail([*self._running, *self._waiting], EngineError(why, status))
            self._waiting.clear()
            self._changed.notify()

    def _fail(self, outputs: Sequence[Output], error: EngineError) -> None:
        for output in outputs:
            output.put(error)
        wake(outputs)

    # -- in the model's thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while True:
                joined, ready = self._boundary()
                if joined is not None:
                    self._prefill(joined)
                elif ready:
                    self._step(ready)
                else:
                    return
        except BaseException:  # any error: nothing above would handle it, and consumers would wait forever
            log.exception("the thread of the model ends")
            self._end("the engine has failed", 500)
        finally:
            self._running = []

    def _boundary(self) -> tuple[Output | None, list[Output]]:
        """Between two tokens: remove outputs that ended, and find those whose prompt or next token is computed.

        Between two parts of a prompt, the other outputs get a token. Nothing is computed if the engine is closed.
        """
        with self._changed:
            while self._closed is None:
                ready = []
                running = []
                for output in self._running:
                    if output.over:
                        output.state = None
                        if output is self._filling:
                            self._filling = None
                        continue
                    running.append(output)
                    if output is self._filling:
                        continue
                    output.stopped = output.stopped or len(output.pieces) >= self._ahead
                    if not output.stopped:
                        ready.append(output)
                self._running = running
                if not (ready and self._just_joined):
                    if self._filling is None and self._waiting and len(self._running) < self._slots:
                        self._filling = self._waiting.popleft()
                        self._parts = prefill_parts(self._model, self._filling.prompt)
                        self._running.append(self._filling)
                    if self._filling is not None:
                        self._just_joined = True
                        return self._filling, []
                self._just_joined = False
                if ready:
                    return None, ready
                self._changed.wait()
            return None, []

    def _prefill(self, output: Output) -> None:
        """Read a part of a prompt."""
        try:
            filled = next(self._parts)
        except Exception:  # a model may fail in any way; its other outputs go on
            self._filling = None
            self._failed([output])
            return
        if filled is not None:
            self._filling = None
            output.state, logits = filled
            self._advance([output], logits[None])

    def _step(self, outputs: list[Output]) -> None:
        try:
            logits = self._model.step([o.state for o in outputs], [o.token for o in outputs])
        except Exception:  # as above
            self._failed(outputs)
            return
        self._advance(outputs, logits)

    def _failed(self, outputs: Sequence[Output]) -> None:
        """End these outputs with the current exception. The engine continues."""
        log.exception("%s: the model failed", ", ".join(o.id for o in outputs))
        with self._changed:
            self._fail(outputs, EngineError("the model failed", 500))

    def _advance(self, outputs: Sequence[Output], logits: NDArray[np.float32]) -> None:
        """Choose the next token of each output, and pass it on."""
        made: list[tuple[Output, Delta | EngineError]] = []
        for output, row in zip(outputs, logits, strict=True):
            try:
                made.append((output, self._next(output, row)))
            except (ConstraintError, ValueError) as error:
                log.warning("%s: no token: %.200s", output.id, error)
                made.append((output, EngineError("no token could be chosen under the request's grammar", 500)))
        with self._changed:
            for output, piece in made:
                output.put(piece)
            wake(outputs)

    def _next(self, output: Output, logits: NDArray[np.float32]) -> Delta:
        matcher = output.matcher
        mask = None if matcher is None else matcher.mask()
        due = None if output.budget is None else output.budget.due
        if due is not None and (mask is None or mask[due]):
            token = due
        else:
            token = output.sampler.choose(logits, mask)
        forbidden = None
        if output.explain and mask is not None:
            forbidden = forbidden_at(self._model.tokenizer, logits, mask)
        if matcher is not None and not matcher.accept(token):
            raise ValueError(f"the constraint rejects the token {token} that it had allowed")
        output.token = token
        output.count += 1
        silent = token in self._silent
        reason = None
        usage = output.count == 1  # in the first and the last piece; in between, a consumer can count
        if token in self._model.eos or (matcher is not None and matcher.is_done()):
            reason = "stop"
        elif output.count == output.limit:
            reason = "length"
        text = "" if silent else "".join(output.detokenizer.push(token))
        if output.budget is not None:
            output.budget.took(token, text)
        if reason is not None:
            text += output.detokenizer.flush()[0]
        top = output.logprobs
        reported = top is not None and not silent
        return Delta(
            text=text,
            token_ids=() if silent else (token,),
            finish_reason=reason,
            usage=Usage(prompt_tokens=len(output.prompt), completion_tokens=output.count) if reason or usage else None,
            logprobs=(logprob_entry(self._model.tokenizer, logits, token, top or 0),) if reported else (),
            forbidden=forbidden,
        )
