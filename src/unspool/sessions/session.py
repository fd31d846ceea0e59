"""`Session`: one agent's run, from its first request to the rows for training."""

import asyncio
import logging
import secrets
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np

from .. import engines
from ..errors import ConstraintError
from ..request.chat_request import Attempt, ChatRequest
from ..request.continuation import Continued, Written
from ..request.fields import BadRequest
from ..request.prepared import Prepared
from ..rl.rollouts import BROKEN, RETRY, Call, Link, Rollout, rows_of
from ..store import Claim, NoRecord, Store, StoreError, StoreFull, WriteTransaction
from ..wire.encoding import clean, cleaned, encode
from .capture import OutputCapture, SampledOutput
from .examine import Examined
from .kinds import TokenKinds
from .records import About, Model, Node, Recorded, Remembered, ids_of, packed, put_about, put_call, put_rounds
from .tree import Tree

log = logging.getLogger("unspool.sessions")

_SMALLEST: Final = 4096  # about how many bytes a session without calls takes
_WAITING: Final = 64 * 1024 * 1024  # about the bytes of all sessions' calls that may wait for a full store
SAMPLING: Final = tuple(name for name in engines.Sampling.__struct_fields__ if name != "logprobs")
"""The fields that say how tokens are chosen, of sessions and of requests."""
_WANTED: Final = (*SAMPLING, "max_tokens", "max_completion_tokens", "max_output_tokens")
"""Those of requests, with the bounds of an answer's length."""

_LOST: Final = "a call could not be recorded; the server's log says why"
_DROPPED: Final = "calls are lost: the store is full, and no more may wait for it"
_UNKEPT: Final = "calls are not in the store yet, and are lost if the server ends now; the server's log says why"

_GONE: Final = "calls may be lost: the server ended while the store could not take them"

_Request = TypeVar("_Request", bound=ChatRequest)


class SessionRefused(BadRequest):
    """A session takes no request now."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(None, message, status)


class Session:
    """An agent's run. ``claim`` is that of all sessions to the store; ``blobs`` are tools, grammars and templates'
    variables, by their digests.

    Attributes:
        running: the number of requests in flight.
        size: about how many bytes it takes in memory.
    """

    def __init__(self, about: About, store: Store, claim: Claim, blobs: dict[bytes, bytes] | None = None) -> None:
        self.about = about
        self._store = store
        self._claim = claim
        self.blobs = blobs or {}
        self._records: list[tuple[str, Recorded]] = []
        self._rounds: list[Remembered] = []
        self._keeping: Future[Any] | None = None
        self._unkept: dict[
            Callable[[WriteTransaction], None], int
        ] = {}  # what the store does not have yet, in order; its bytes
        self._failing = False  # the store could not take something
        self._trees: dict[str, Tree] = {}
        self._lock = threading.Lock()  # a thread may be the first that needs a tree
        self._idle = asyncio.Event()
        self._idle.set()
        self.running = 0
        self.tokens = 0
        self._held: list[int] = []  # the tokens that each running generation may still make
        self._freed = asyncio.Event()
        self.size = _SMALLEST + len(msgspec.msgpack.encode(about)) + sum(map(len, self.blobs.values()))
        self.deleted = False

    @property
    def calls(self) -> int:
        return len(self._records)

    def tree(self, model: Model) -> Tree:
        name = model.settings.model
        with self._lock:
            if name not in self._trees:
                made = self._trees[name] = Tree(
                    model,
                    self.about.secret,
                    self.blobs,
                    lambda keys, rounds: self._remember(Remembered(name, [*keys], rounds)),
                )
                for of, record in self._records:
                    if of == name:
                        made.add(record)
                for one in self._rounds:
                    if one.model == name:
                        made.add_rounds(one.keys, one.rounds)
            return self._trees[name]

    def load(self, model: str, record: Recorded) -> None:
        """Take a call that was stored, before there is a tree."""
        self._records.append((model, record))
        self._count(record)

    def load_rounds(self, found: Remembered) -> None:
        """Take an answer of several rounds that was stored, before there is a tree."""
        self._rounds.append(found)
        self.size += len(msgspec.msgpack.encode(found))

    def _count(self, record: Recorded) -> None:
        self.tokens += len(record.output_ids) // 4
        self.size += _size(record)

    # -- requests --------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a request; `SessionRefused`: 409 if the session is finished, 403 if a limit is reached."""
        if self.about.status != "open":
            raise SessionRefused(f"the session {self.about.id} is {self.about.status}", 409)
        self._check()
        self.running += 1
        self._idle.clear()

    def _check(self) -> None:
        about, limits = self.about, self.about.limits
        if self.deleted:
            raise SessionRefused(f"the session {about.id} was deleted", 404)
        reached = {
            "calls": limits.calls is not None and self.calls + len(self._held) >= limits.calls,
            "tokens": limits.tokens is not None and self.tokens >= limits.tokens,
            "seconds": limits.seconds is not None and time.time() >= about.created + limits.seconds,
        }
        for name, over in reached.items():
            if over:
                raise SessionRefused(
                    f"limits.{name}: the session {about.id} has used up {getattr(limits, name):,}", 403
                )

    async def hold(self, most: int | None) -> int | None:
        """Begin a generation of at most this many tokens (``None``: as many as are left), and return how many it may
        make; `free` ends it. One that could pass the limit waits for others that may need less than they hold.
        `SessionRefused` (403) if a limit is reached."""
        limit = self.about.limits.tokens
        while True:
            self._check()
            if limit is not None:
                most = min(limit - self.tokens, limit if most is None else most)
            if limit is None or self.tokens + sum(self._held) + (most or 0) <= limit:
                self._held.append(most or 0)
                return most
            self._freed.clear()
            await self._freed.wait()

    def free(self, held: int | None) -> None:
        """End a generation that holds so many tokens."""
        self._held.remove(held or 0)
        self._freed.set()

    def leave(self) -> None:
        self.running -= 1
        if not self.running:
            self._idle.set()

    def adapted(self, request: _Request, edges: Sequence[tuple[str, str]], attempt: Attempt) -> _Request:
        """A request with the session's own sampling, within its limit of tokens, with these edges and this attempt.

        Raises:
            Refused: 403 if its choices are more calls than are left.
        """
        most_calls = self.about.limits.calls
        if most_calls is not None and self.calls + len(self._held) + request.n > most_calls:
            raise SessionRefused(
                f"limits.calls: {request.n} choices are more than the session has left of {most_calls:,}", 403
            )
        fields = {name: value for name, value in self.about.sampling.items() if name != "max_tokens"}
        most = [n for n in (self.about.sampling.get("max_tokens"), request.max_tokens) if n is not None][:1]
        if self.about.limits.tokens is not None:
            most = [min([*most, max(1, self.about.limits.tokens - self.tokens)])]
        return msgspec.structs.replace(
            request,
            sampling=msgspec.structs.replace(request.sampling, **fields),
            max_tokens=most[0] if most else None,
            edges=tuple(edges),
            attempt=attempt,
        )

    async def finish(self, seconds: float | None = None, **outcome: Any) -> None:
        """Take no more requests, wait for those in flight, and change the status and these fields. Until then, and
        after a `TimeoutError`, the session is ``finishing``, and has these fields already."""
        changes = {**outcome, "status": "finished"}
        if not self.idle:
            self._set({**outcome, "status": "finishing"})
            written = self._write(lambda w: put_about(w, self.about))
            async with asyncio.timeout(seconds):
                await self._idle.wait()
                await asyncio.wait([asyncio.wrap_future(self._write() if self._unkept else written)])
            changes = {"status": "finished"}
        if any(getattr(self.about, name) != value for name, value in changes.items()):
            await self.change(**changes)

    async def change(self, **fields: Any) -> None:
        """Change what is known of the run, also in the store; `SessionRefused` (404) if it is deleted."""
        if self.deleted:
            raise SessionRefused(f"the session {self.about.id} is deleted", 404)
        before = {name: getattr(self.about, name) for name in fields}
        self._set(fields)
        try:
            await self._store.writing(lambda w: put_about(w, self.about))
        except BaseException as error:
            self._set(before)
            if isinstance(error, NoRecord):
                raise SessionRefused(f"{error}", 404) from None
            raise

    def _set(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self.about, name, value)

    # -- recording -------------------------------------------------------------------------------------------------

    def recording(
        self, model: Model, prepared: Prepared, asked: engines.Request, examined: Examined
    ) -> "GenerationRecording":
        return GenerationRecording(self, model, prepared, asked, examined)

    def record(self, model: str, record: Recorded, blobs: Mapping[bytes, bytes]) -> "Future[Any]":
        """Add a call; see `_write` for what this returns. `StoreFull` if too much waits for the store already."""
        new = {digest: data for digest, data in blobs.items() if digest not in self.blobs}
        added = sum(map(len, new.values()))
        size = added + _size(record)
        if not self._has_room(size):
            raise StoreFull(f"calls of {self._claim.waiting:,} bytes wait for the store already")
        self.blobs |= new
        self.size += added
        self._records.append((model, record))
        self._trees[model].add(record)
        self._count(record)
        return self._write(lambda w: put_call(w, self.about.id, model, record, new), size)

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes may wait for the store."""
        return not self._failing or self._claim.waiting + size <= _WAITING

    def _write(self, work: Callable[[WriteTransaction], None] | None = None, size: int = 0) -> "Future[None]":
        """Write something of so many bytes to the store, after all that it does not have yet: a call comes after its
        parent. What this returns never fails: what the store cannot take now is tried again with what comes next, or by
        `store_again`."""
        if work is not None:
            self._unkept[work] = size
        settled: Future[None] = Future()
        taken: dict[Callable[[WriteTransaction], None], int] = {}

        def write(writing: WriteTransaction) -> None:
            nonlocal taken
            taken = self._unkept.copy()
            for work in taken:
                work(writing)

        def written(error: BaseException | None) -> None:
            if isinstance(error, NoRecord):  # the run made room for others, or was too old: its calls go with it
                log.error("%s: %s", self.about.id, error)
                self.deleted, error = True, None
            failed, self._failing = self._failing, error is not None
            if error is None:
                for work in taken:
                    self._unkept.pop(work, None)
                self._claim.stored(self.about.id)
            else:
                if not failed:
                    log.error("%s: a call could not be stored yet: %s", self.about.id, error)
                try:
                    self._claim.wait(self.about.id, sum(self._unkept.copy().values()))
                except OSError as failure:
                    log.error("%s: the next start will not know whether calls were lost: %s", self.about.id, failure)
            settled.set_result(None)

        try:
            self._store.write(write).add_done_callback(lambda done: written(done.exception()))
        except StoreError as error:
            written(error)
        return settled

    async def store_again(self) -> None:
        """Write what the store could not take before."""
        if self._failing and not self.deleted:
            await asyncio.wait([asyncio.wrap_future(self._write())])

    def _remember(self, found: Remembered) -> None:
        """Keep an answer of several rounds in the form in which the agent will send it back."""
        size = len(msgspec.msgpack.encode(found))
        if not self._has_room(size):
            return  # what continues it will be a fork
        self.load_rounds(found)
        self._trees[found.model].add_rounds(found.keys, found.rounds)
        self._keeping = self._write(lambda w: put_rounds(w, self.about.id, found), size)

    async def settled(self) -> None:
        """Wait until all that is remembered of answers is kept."""
        if self._keeping is not None:
            await asyncio.wait([asyncio.wrap_future(self._keeping)])

    def failed(self, error: Exception) -> None:
        """Note that a call could not be recorded."""
        problem = _DROPPED if isinstance(error, StoreFull) else _LOST
        if self.note([problem]) or problem == _LOST:
            log.error("%s: a call could not be recorded", self.about.id, exc_info=error)

    def note(self, problems: Iterable[str]) -> bool:
        """Keep problems of all that is recorded; return whether one of them is new."""
        new = [problem for problem in problems if problem not in self.about.problems]
        if new:
            self.about.problems += new
            self._write(lambda w: put_about(w, self.about))
        return bool(new)

    @property
    def problems(self) -> list[str]:
        """What went wrong in recording, and what the engines did not report."""
        return [*self.about.problems, *([_UNKEPT] if self._failing else ())]

    @property
    def idle(self) -> bool:
        """Whether no request is in flight, and the store has everything."""
        return not self.running and not self._unkept

    # -- what was recorded -----------------------------------------------------------------------------------------

    def rollout(self, models: Mapping[str, Model]) -> Rollout:
        """Everything that was recorded. It computes the kinds of tokens, which takes a while. ``models`` are by their
        names."""
        links: list[Link] = []
        problems: dict[str, None] = dict.fromkeys(self.problems)
        kinds: dict[str, TokenKinds] = {}
        records = list(self._records)
        edges = _edges([record for _, record in records])
        for name, record in records:
            model = models.get(name)
            if model is None:
                problems[f"the model {name!r} is no longer served"] = None
                continue
            if name not in kinds:
                kinds[name] = TokenKinds(model, self.blobs)
            link = _link(name, self.tree(model).nodes[record.id], kinds[name])
            link.call.edges = edges[record.id]
            links.append(link)
        rows = rows_of(links)
        about = self.about
        return Rollout(
            id=about.id,
            status=about.status,
            reward=about.reward,
            metadata=about.metadata,
            exact=not problems and all(link.call.exact for link in links),
            problems=list(problems),
            calls=[link.call for link in links],
            rows=rows,
        )


def note_lost(about: About) -> bool:
    """Note in a session that it may have lost calls, if it is open; return whether this is new."""
    new = about.status != "finished" and _GONE not in about.problems
    if new:
        about.problems.append(_GONE)
    return new


def _size(record: Recorded) -> int:
    """About how many bytes a call takes in memory."""
    texts = 2 * (len(record.prompt_text) + len(record.output_text))
    numbers = len(record.prompt_ids) + len(record.output_ids) + len(record.logprobs)
    return texts + numbers + len(record.experts) + 2048


def _edges(records: Sequence[Recorded]) -> dict[str, list[tuple[str, str]]]:
    """The edges of calls, which are listed with parents before children: those that the agent declares, to calls
    instead of answers, and `RETRY` to the attempts before. An answer that was broken off replaces none."""
    answers: dict[str, list[str]] = {}  # the last calls of each answer: it may have several choices
    above = {record.id: record.parent for record in records}
    for record in records:
        calls = answers.setdefault(record.answer, [])
        if record.parent in calls:
            calls.remove(record.parent)
        calls.append(record.id)

    def named(record: Recorded, id: str) -> list[str]:
        """The calls of an answer that a prompt continues, or else all."""
        calls = answers.get(id, [id])
        at = record.id
        while len(calls) > 1 and (at := above.get(at, "")):
            calls = [at] if at in calls else calls
        return calls

    broken = {record.answer for record in records if record.finish_reason in BROKEN}
    first: dict[str, Recorded] = {}
    for record in sorted(records, key=lambda record: record.started):
        first.setdefault(record.answer, record)
    attempts: dict[bytes, list[list[str]]] = {}  # the answers to each request that no retry has replaced
    before: dict[str, list[str]] = {}
    for answer, record in first.items():
        if not record.attempt:
            continue
        requests = attempts.setdefault(record.attempt, [])
        earlier: list[str] = []
        if record.again and requests:
            earlier = max(reversed(requests), key=lambda tried: tried[-1] in broken)
            requests.remove(earlier)
        if answer not in broken:
            before[answer], earlier = earlier, []
        requests.append([*earlier, answer])
    found = {}
    for record in records:
        edges = [(kind, call) for kind, id in record.edges for call in named(record, id)]
        retried = before.get(record.answer, ())
        found[record.id] = edges + [(RETRY, call) for answer in retried for call in answers[answer]]
    return found


def _link(model: str, node: Node, kinds: TokenKinds) -> Link:
    record = node.record
    logprobs = array("d")
    logprobs.frombytes(record.logprobs)
    problems = list(record.problems)
    output_codes = kinds.of_output(node, problems)
    call = Call(
        id=record.id,
        parent=record.parent or None,
        fork=record.fork or None,
        answer=record.answer,
        model=model,
        prompt_ids=node.prompt_ids.tolist(),
        output_ids=ids_of(record.output_ids).tolist(),
        logprobs=[None if p != p else p for p in logprobs],
        logprobs_kind=record.logprobs_kind or None,
        finish_reason=record.finish_reason,
        stop=record.stop,
        sampling=record.sampling,
        requested=record.requested,
        weight_version=record.versions[-1][0] if record.versions else None,
        weight_versions=record.versions,
        experts=record.experts,
        tools=record.tool_count,
        tool_calls=record.calls,
        exact=not record.problems,
        problems=problems,
        started=record.started,
        seconds=record.seconds,
    )
    added = np.array(ids_of(record.prompt_ids), np.int64)
    return Link(
        call=call,
        follows=record.follows,
        added=added,
        added_codes=kinds.of_prompt(record),
        output_codes=output_codes,
    )


class GenerationRecording:
    """Records one generation. A failure of its own is noted in the session, and never reaches the agent's answer."""

    def __init__(
        self, session: Session, model: Model, prepared: Prepared, asked: engines.Request, examined: Examined
    ) -> None:
        self._session = session
        self._tree = session.tree(model)
        self._model = model
        self._request = prepared.request
        self._prompt = prepared.continued or _written_by_client(asked)
        self._asked = asked
        self._examined = examined
        self._capture = OutputCapture()
        self._started = time.time()
        self._began = time.monotonic()
        self._holds = False
        self._most: int | None = None
        self.take = self._capture.take

    async def begin(self, context: int | None) -> engines.Request:
        """The request with the tokens that the session has for it; see `Session.hold`. An output has at most
        ``context`` tokens."""
        asked = self._asked
        self._most = await self._session.hold(context if asked.max_tokens is None else asked.max_tokens)
        self._holds = True
        if self._session.about.limits.tokens is not None:
            self._asked = msgspec.structs.replace(asked, max_tokens=self._most)
        return self._asked

    async def done(self, written: Written, stop: str | None = None) -> Written:
        """Record the call, and return the turn with all of its tokens once the call is kept.

        Args:
            written: the turn.
            stop: the stop string that ended it, if any.
        """
        try:
            written, kept = self._kept(written, stop, None)
            await asyncio.wait([asyncio.wrap_future(kept)])  # which goes on if this is cancelled
        except Exception as error:
            self._session.failed(error)
        return written

    def broken(self, written: Written, reason: Literal["abort", "error"]) -> None:
        """Record a call that was broken off, unless it was recorded."""
        if not self._holds:
            return
        try:
            self._kept(written, None, reason)
        except Exception as error:
            self._session.failed(error)

    def _kept(self, written: Written, stop: str | None, reason: str | None) -> "tuple[Written, Future[Any]]":
        try:
            output = self._capture.output(self._model.engine.tokenizer)
            record, blobs = self._record(output, written, stop, reason)
            if not self._examined.failed:
                self._session.note(self._examined.problems)
            kept = self._session.record(self._model.settings.model, record, blobs)
        finally:  # in the same turn of the loop, so that nothing is counted twice
            self._holds = False
            self._session.free(self._most)
        return (
            msgspec.structs.replace(written, text=output.text, ids=output.ids or None, cut=False, call=record.id),
            kept,
        )

    def _doubts(self, output: SampledOutput) -> Iterator[str]:
        """Why the prompt's tokens may not be those that the engine read."""
        ids, media = self._prompt.ids, self._request.media
        if ids is None:
            yield "the prompt's tokens are the engine's own, not the session's"
        elif not media and output.prompt_ids is not None and list(output.prompt_ids) != ids:
            yield "the engine read other tokens than it was sent"
        if media:  # whatever the engine reports: some do so late, or never
            yield "media have one placeholder each here, where the engine read other tokens"

    def _record(
        self, output: SampledOutput, written: Written, stop: str | None, reason: str | None
    ) -> tuple[Recorded, dict[bytes, bytes]]:
        prompt, asked, request = self._prompt, self._asked, self._request
        problems = [*(self._examined.problems if self._examined.failed else ()), *output.problems]
        problems += self._doubts(output)
        parent = self._tree.nodes[prompt.parent] if prompt.parent else None
        ids = list(output.prompt_ids or ()) if prompt.ids is None else prompt.ids
        follows = prompt.follows and parent is not None
        at, characters = (parent.length, parent.characters) if follows and parent is not None else (0, 0)
        known = any(p == p for p in output.logprobs)
        kind = self._examined.logprobs if known else ""
        record = Recorded(
            id=f"call_{secrets.token_hex(12)}",
            parent=prompt.parent,
            fork=prompt.fork,
            follows=follows,
            answer=asked.id,
            edges=list(request.edges),
            attempt=request.attempt.key,
            again=request.attempt.again,
            prompt_text=prompt.prompt[characters:],
            prompt_ids=packed(ids[at:]),
            results=_results(prompt.prompt[characters:], request),
            output_text=output.text,
            output_ids=packed(output.ids),
            logprobs=output.logprobs.tobytes(),
            logprobs_kind="constrained" if kind == "processed" and asked.constraint is not None else kind,
            finish_reason=reason or written.message.finish_reason,
            stop=stop,
            sampling=_sampling(asked),
            requested=_requested(request.body),
            versions=list(output.versions),
            experts=output.experts,
            problems=problems,
            calls=[(clean(call.name), call.status) for call in written.message.tool_calls],
            tool_count=len(request.toolset.callable),
            tool_choice=cleaned(request.toolset.choice),
            started=self._started,
            seconds=round(time.monotonic() - self._began, 6),
        )
        self._tree.identify(record, request, prompt, written)
        blobs: dict[bytes, bytes] = {}
        if record.tools:
            blobs[record.tools] = encode(request.tools)
        if record.variables:
            blobs[record.variables] = encode(request.template)
        if asked.constraint is not None:
            try:
                lark = asked.constraint.lark.encode()
            except ConstraintError as error:
                problems.append(f"nobody knows which tokens the grammar forced: {error}")
            else:
                record.grammar = sha256(lark).digest()[:16]
                blobs[record.grammar] = lark
        return record, blobs


def _written_by_client(asked: engines.Request) -> Continued:
    """The prompt of a raw completion, which belongs to nothing."""
    prompt = asked.needed_prompt()
    text, ids = (prompt, asked.prompt_ids) if isinstance(prompt, str) else ("", prompt)
    return Continued(text, None if ids is None else list(ids), None)


def _results(text: str, request: ChatRequest) -> list[tuple[int, int]]:
    """The ranges of a prompt that tools wrote, as far as the template writes their texts unchanged."""
    found: list[tuple[int, int]] = []
    end = len(text)
    for message in reversed(request.messages):  # from the end, since only the last part of a prompt may be new
        if message["role"] not in ("tool", "function"):
            continue
        content = message.get("content")
        if not isinstance(content, str) or not content:
            continue
        at = text.rfind(content, 0, end)
        if at < 0:
            break
        found.append((at, at + len(content)))
        end = at
    return found[::-1]


def _requested(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says of how tokens are chosen, in the names of any protocol: only its own are checked."""
    found = {name: body.get(name) for name in _WANTED}
    return {name: n for name, n in found.items() if isinstance(n, int | float) and abs(n) < 2**63}


def _sampling(asked: engines.Request) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.structs.asdict(asked.sampling) | {"max_tokens": asked.max_tokens}
    return {name: value for name, value in fields.items() if value is not None and name != "logprobs"}
