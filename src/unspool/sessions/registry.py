"""`Sessions`: all sessions of a server. Those in use are in memory, all are in the store."""

import asyncio
import logging
import secrets
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ..engines import EngineError
from ..regex import Regex
from ..request.fields import BadRequest
from ..store import ReadTransaction, Record, RecordExists, Store, StoreError, WriteTransaction, owner_of
from ..store.records import Key
from .examine import Examined, examine
from .records import BLOB, CALL, OWNER, ROUNDS, SESSION, About, Model, Remembered, SessionLimits, StoredCall, put_about
from .session import Session, SessionRefused, note_lost

log = logging.getLogger("unspool.sessions")

_KEY: Final = "session_key"
_PAGE: Final = 1000
_ID: Final = Regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_AGAIN: Final = 5.0  # after how many seconds a full store is tried again
_MOST: Final = 256 * 1024 * 1024  # the bytes of idle sessions that stay in memory


class Sessions:
    """Makes and finds sessions, in a store that no other process uses for them: each knows only the calls that it
    recorded.

    Attributes:
        PREFIX: the prefix of sessions' keys, by which an unknown key is recognized.
    """

    PREFIX: Final = "unspool-session-"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._claim = store.claim("sessions")
        self._began = time.time()
        try:
            if not self._claim.complete:
                store.write(_note_lost).result()
            self._claim.begin()
        except (OSError, StoreError) as error:
            log.warning("the store takes nothing now: %s", error)
        self._by_key: dict[str, str] = {}
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._alive: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._opening: dict[str, asyncio.Task[Session | None]] = {}
        self._examining: dict[str, asyncio.Task[Examined]] = {}
        self._examined: dict[str, Examined] = {}

    # -- sessions --------------------------------------------------------------------------------------------------

    async def create(
        self, id: str | None, sampling: Mapping[str, Any], limits: SessionLimits, metadata: Mapping[str, Any]
    ) -> Session:
        """Make a session; see `About`. `BadRequest` if the id has another form, or (409) if there is such a session."""
        if id is not None and not _ID.fullmatch(id):
            raise BadRequest("id", "must have 1 to 128 letters, digits and . _ -, and begin with a letter or a digit")
        about = About(
            id=id or f"session-{secrets.token_hex(12)}",
            key=self.PREFIX + secrets.token_urlsafe(24),
            secret=secrets.token_bytes(32),
            created=time.time(),
            sampling=dict(sampling),
            limits=limits,
            metadata=dict(metadata),
        )

        def write(w: WriteTransaction) -> None:
            w.put(OWNER, SESSION, about.id, msgspec.msgpack.encode(about), new=True, pinned=True)
            w.put(OWNER, _KEY, about.key, b"", parent=(SESSION, about.id), new=True)

        try:
            await self._store.writing(write)
        except RecordExists:
            raise BadRequest("id", f"there is a session {about.id!r} already", 409) from None
        return self._opened(Session(about, self._store, self._claim))

    async def get(self, id: str) -> Session | None:
        """A session by its id; ``None`` if there is none."""
        found = self._open.get(id)
        if found is not None:
            self._open.move_to_end(id)
            return found
        found = self._alive.get(id)
        if found is not None:
            return self._opened(found)
        if not _ID.fullmatch(id):
            return None
        if id not in self._opening:  # all that wait get the same object
            self._opening[id] = asyncio.ensure_future(self._load(id))
            self._opening[id].add_done_callback(lambda _: self._opening.pop(id))
        return await asyncio.shield(self._opening[id])

    async def by_key(self, key: str) -> Session | None:
        """The session of an API key; ``None`` if there is none."""
        if not key.startswith(self.PREFIX):
            return None
        id = self._by_key.get(key) or await self.id_of(key)
        found = None if id is None else await self.get(id)
        return found if found is not None and found.about.key == key else None  # an id may be used again

    async def id_of(self, key: str) -> str | None:
        """The id of the stored session of an API key, which may be damaged; ``None`` if there is none."""
        path = await self._store.reading(lambda r: r.path(OWNER, _KEY, key))
        return path[0].id if path else None

    async def all(self, after: int | None = None, limit: int = 100) -> list[tuple[int, About]]:
        """Sessions, in the order in which they were made, each with its place in that order, from a place on. Of
        one that cannot be read, only its problem is known."""

        def read(r: ReadTransaction) -> list[tuple[int, About]]:
            return [(one.at, _about_or_problem(one)) for one in r.children(OWNER, SESSION, after=after, limit=limit)]

        return await self._store.reading(read)

    async def delete(self, id: str) -> bool:
        """Forget a session, even a damaged one, with all its calls, and what is stored under its key; return whether
        there was one. `SessionRefused` (409) if a request is in flight."""
        try:
            session = await self.get(id)
        except StoreError:
            session = None
        if session is not None:
            if session.running:
                raise SessionRefused(f"the session {id} has requests in flight; finish it first", 409)
            session.deleted = True  # no request begins meanwhile

        def delete(w: WriteTransaction) -> bool:
            for key in w.children(OWNER, _KEY, (SESSION, id)):
                w.delete_all(owner_of(key.id.encode()))
            return w.delete(OWNER, SESSION, id, below=True)

        try:
            existed = await self._store.writing(delete)
        except Exception:  # of the store: it is still there
            if session is not None:
                session.deleted = False
            raise
        if session is not None:
            self._open.pop(id, None)
            self._alive.pop(id, None)
            self._by_key.pop(session.about.key, None)
            self._claim.stored(id)
        return existed or session is not None

    async def store_again(self) -> None:
        """Write what the store could not take before, as far as it can now."""
        for session in list(self._open.values()):
            await session.store_again()

    async def keep_storing(self) -> None:
        """Write what the store could not take before, again and again."""
        while True:
            await asyncio.sleep(_AGAIN)
            await self.store_again()

    async def _load(self, id: str) -> Session | None:

        def read(r: ReadTransaction) -> Session | None:
            record = r.get(OWNER, SESSION, id)
            if record is None:
                return None
            blobs = {bytes.fromhex(one.id.rpartition("/")[2]): one.data for one in _every(r, BLOB, (SESSION, id))}
            about = _about(record)
            if not self._claim.complete and about.created < self._began:
                note_lost(about)
            session = Session(about, self._store, self._claim, blobs)
            known: set[tuple[str, str]] = set()
            for one in _every(r, CALL, (SESSION, id)):
                stored = msgspec.msgpack.decode(one.data, type=StoredCall)
                name, call = stored.model, stored.call
                known.add((name, one.id))
                if call.id != one.id or (call.follows and (name, call.parent) not in known):
                    raise msgspec.ValidationError(f"the call {one.id} has another id, or follows an unknown one")
                session.load(name, call)
            for one in _every(r, ROUNDS, (SESSION, id)):
                session.load_rounds(msgspec.msgpack.decode(one.data, type=Remembered))
            return session

        found = await self._store.reading(read)
        return None if found is None else self._opened(found)

    def _opened(self, session: Session) -> Session:
        """Keep a session in memory, and let go of those that were not used for the longest time. Where a request still
        holds one of these, it is found again: there is never another one beside it."""
        self._open[session.about.id] = self._alive[session.about.id] = session
        self._by_key[session.about.key] = session.about.id
        size = sum(one.size for one in self._open.values())
        for id, one in list(self._open.items()):
            if size <= _MOST:
                break
            if one.idle and one is not session:
                size -= one.size
                del self._open[id], self._by_key[one.about.key]
        return session

    # -- engines ---------------------------------------------------------------------------------------------------

    async def examine(self, model: Model) -> Examined:
        """What a model's engine reports; it is asked once.

        If it cannot generate now, that is the problem, and it is asked again later.
        """
        name = model.settings.model
        if name in self._examined:
            return self._examined[name]
        if name not in self._examining:
            self._examining[name] = asyncio.ensure_future(self._examine(model))
            self._examining[name].add_done_callback(lambda _: self._examining.pop(name))
        return await asyncio.shield(self._examining[name])

    async def _examine(self, model: Model) -> Examined:
        name = model.settings.model
        try:
            found = await examine(model.engine, model.prompts, name)
        except EngineError as error:
            log.warning("sessions of model %s are not exact yet: the engine could not be examined: %s", name, error)
            return Examined(problems=(f"the engine could not be examined: {error}",), failed=True)
        self._examined[name] = found
        for problem in found.problems:
            log.warning("sessions of model %s are not exact: %s", name, problem)
        for advice in found.advice:
            log.info("sessions of model %s: %s", name, advice)
        if not found.problems:
            log.info("sessions of model %s are exact, with %s log-probabilities", name, found.logprobs or "unnamed")
        return found


def _note_lost(writing: WriteTransaction) -> None:
    """Note in all open sessions that they may have lost calls: the others had everything stored when they finished."""
    for record in _every(writing, SESSION):
        try:
            about = _about(record)
        except msgspec.DecodeError as error:
            log.error("session %s cannot be read: %s", record.id, error)
            continue
        if note_lost(about):
            put_about(writing, about)


def _about(record: Record) -> About:
    return msgspec.msgpack.decode(record.data, type=About)


def _about_or_problem(record: Record) -> About:
    try:
        return _about(record)
    except msgspec.DecodeError as error:
        problem = f"the session cannot be read: {error}"
        return About(id=record.id, key="", secret=b"", created=0.0, status="damaged", problems=[problem])


def _every(reading: ReadTransaction, kind: str, parent: Key | None = None) -> Iterator[Record]:
    """All records of a kind, directly below another one if that is given."""
    after: int | None = None
    while page := reading.children(OWNER, kind, parent, after=after, limit=_PAGE):
        yield from page
        after = page[-1].at
