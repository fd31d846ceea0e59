"""Sessions over HTTP: which one a request belongs to, and what can be asked of one.

* ``POST /sessions`` makes one, and answers with its ``id``, ``url`` and ``key``.
* A request of a model belongs to a session by its API key; else by its path, ``/sessions/{id}/v1/…``; else by the
  header ``X-Session-ID``. One that names an unknown session is refused.
* ``GET /sessions`` and ``/sessions/{id}``, ``GET /sessions/{id}/trajectory``, ``POST /sessions/{id}/reward`` and
  ``/finish``, ``DELETE /sessions/{id}``.

The server's key is good for all sessions, a session's key for its own. If the server has no key, none is needed where
it is reached by a loopback address.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from ..generation.service import Service
from ..request.common import sampling
from ..request.fields import MOST, BadRequest, Fields, read_object
from ..rl import exports
from ..sessions import About, Session, SessionLimits, SessionRefused, Sessions
from ..sessions.session import SAMPLING
from ..wire.common import Failure
from ..wire.encoding import cleaned, encode
from .endpoint import SESSION, failure_of, has_key, integer_of, keys_of, query_of, read_body
from .guards import unsupported
from .replies import ErrorBody, Reply, failed, header

_ROOT: Final = "/sessions"
_HEADER: Final = b"x-session-id"
_LIMIT: Final = 1024 * 1024  # the bytes of a request about a session
_WAIT: Final = 600.0
_SECRET: Final = "the key of the session, or of the server, is missing or wrong; send it as Authorization: Bearer KEY"
_AT_ONCE: Final = 100
_PLACES: Final = 10**12 - 1
_SHOWN: Final = ("id", "status", "reward", "created", "sampling", "limits", "metadata", "problems")


class SessionRoutes:
    """Routes the requests of sessions, and passes those of models to the application."""

    def __init__(
        self, service: Service, sessions: Sessions, error_body: Callable[[str], ErrorBody], app: ASGIApp
    ) -> None:
        self._service = service
        self._sessions = sessions
        self._error_body = error_body
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whether it belongs to a session or not."""
        path = scope["path"]
        id, below = _named(path)
        error_body = self._error_body("/" + below if below else path)
        try:
            of_model = below.startswith("v1/") or below == "ag-ui"
            if path == _ROOT or (id and not of_model):
                reply = await self._about(scope, receive, id, below)
                await reply.send(send)
                return
            session = await self._session(scope, id)
        except ClientDisconnect:
            return
        except Exception as error:
            await failed(error_body, failure_of(error, scope), close=True).send(send)
            return
        if session is not None:
            scope = {**scope, SESSION: session}
            if id:
                scope["path"] = "/ag-ui" if below.endswith("ag-ui") else f"/{below}"
                scope["raw_path"] = scope["path"].encode()
        await self._app(scope, receive, send)

    # -- which session -----------------------------------------------------------------------------------------------

    async def _session(self, scope: Scope, id: str) -> Session | None:
        """The session of a model's request, if it has one. `SessionRefused` if it is unknown, or needs its key."""
        for key in keys_of(scope):
            found = await self._sessions.by_key(key.decode("latin-1"))
            if found is not None:
                if id and id != found.about.id:
                    raise SessionRefused(f"the key belongs to another session than {id!r}", 404)
                return found
            if key.startswith(self._sessions.PREFIX.encode()):
                raise SessionRefused("the key is that of no session, or of one that was deleted", 401)
        named = id or header(scope, _HEADER)
        return None if named is None else await self._admitted(scope, named)

    async def _admitted(self, scope: Scope, id: str) -> Session:
        """A session that the client may use; `SessionRefused`: 401 without a key for it, 404 if there is none."""
        found = await self._sessions.get(id)
        if found is not None and has_key(scope, found.about.key):
            return found
        if not self._is_server(scope):
            raise SessionRefused(_SECRET, 401)
        if found is None:
            raise SessionRefused(f"there is no session {id!r}", 404)
        return found

    def _is_server(self, scope: Scope) -> bool:
        """Whether a client may do everything: it has the server's key, or needs none."""
        key = self._service.settings.api_key
        if key is not None:
            return has_key(scope, key)
        prefix = self._sessions.PREFIX.encode()
        return _on_loopback(scope) and not any(given.startswith(prefix) for given in keys_of(scope))

    # -- about sessions ----------------------------------------------------------------------------------------------

    async def _about(self, scope: Scope, receive: Receive, id: str, below: str) -> Reply:
        method = scope["method"]
        if not id:
            if not self._is_server(scope):
                raise SessionRefused(_SECRET, 401)
            if method == "POST":
                _query(scope)
                return await self._create(scope, await self._fields(scope, receive))
            if method == "GET":
                return await self._list(scope)
            return self._not_allowed(scope, "GET, POST")
        if (method, below) == ("DELETE", ""):
            return await self._delete(scope, id)
        session = await self._admitted(scope, id)
        work = self._ROUTES.get((method, below))
        if work is None:
            allowed = ", ".join(sorted(method for method, path in (*self._ROUTES, ("DELETE", "")) if path == below))
            if allowed:
                return self._not_allowed(scope, allowed)
            raise SessionRefused(f"{method} {scope['path']}: there is no such request of a session", 404)
        _query(scope, *(("format", "encoding", "model") if below == "trajectory" else ()))
        fields = await self._fields(scope, receive) if method == "POST" else Fields({})
        return await work(self, session, scope, fields)

    def _not_allowed(self, scope: Scope, allowed: str) -> Reply:
        failure = Failure(f"{scope['method']} {scope['path']}: allowed is {allowed}", 405, allow=allowed)
        return failed(self._error_body(scope["path"]), failure, close=True)

    async def _fields(self, scope: Scope, receive: Receive) -> Fields:
        wrong = unsupported(scope)
        if wrong is not None:
            raise SessionRefused(wrong.message, wrong.status)
        with self._service.holding() as hold:
            body = await read_body(scope, receive, _LIMIT, hold)
        return read_object(body if body.strip() else b"{}")

    async def _create(self, scope: Scope, fields: Fields) -> Reply:
        fields.only(("id", "sampling", "limits", "metadata"))
        given = fields.object("sampling")
        given.only((*SAMPLING, "max_tokens"))
        chosen = {**msgspec.structs.asdict(sampling(given)), "max_tokens": given.integer("max_tokens", 1)}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        session = await self._sessions.create(
            fields.text("id", None), chosen, _limits(fields.object("limits")), _metadata(fields, {})
        )
        examined = [await self._sessions.examine(model) for model in self._service.models]
        problems = [problem for one in examined for problem in one.problems]
        about = session.about
        url = f"{_base(scope)}{_ROOT}/{about.id}/v1"
        answer = {"id": about.id, "url": url, "key": about.key, "exact": not problems, "problems": problems}
        return Reply(encode(answer), 201)

    async def _list(self, scope: Scope) -> Reply:
        query = _query(scope, "after", "limit")
        after = integer_of(query, "after", 0, _PLACES, None)
        found = await self._sessions.all(after, min(integer_of(query, "limit", 0, _PLACES, 0) or _AT_ONCE, 1000))
        listed = [{**_described(about), "place": place} for place, about in found]
        return Reply(encode({"object": "list", "data": listed}))

    async def _get(self, session: Session, scope: Scope, fields: Fields) -> Reply:
        counts = {"calls": session.calls, "tokens": session.tokens, "in_flight": session.running}
        return Reply(encode({**_described(session.about), "problems": session.problems, **counts}))

    async def _delete(self, scope: Scope, id: str) -> Reply:
        """Delete a session; the key of one that is damaged is known to the store."""
        _query(scope)
        keys = (key.decode("latin-1") for key in keys_of(scope))
        if not self._is_server(scope) and id not in [await self._sessions.id_of(key) for key in keys]:
            raise SessionRefused(_SECRET, 401)
        if not await self._sessions.delete(id):
            raise SessionRefused(f"there is no session {id!r}", 404)
        return Reply(encode({"id": id, "deleted": True}))

    async def _reward(self, session: Session, scope: Scope, fields: Fields) -> Reply:
        fields.only(("reward", "metadata"))
        if "reward" not in fields.raw:
            raise fields.wrong("reward", "is required")
        await session.change(**_outcome(session, fields))
        return Reply(encode(_described(session.about)))

    async def _finish(self, session: Session, scope: Scope, fields: Fields) -> Reply:
        fields.only(("reward", "metadata", "timeout"))
        given = fields.number("timeout", 0, _WAIT)
        seconds = _WAIT if given is None else given
        try:
            await session.finish(seconds, **_outcome(session, fields))
        except TimeoutError:
            raise SessionRefused(f"{session.running} requests are still in flight after {seconds:g} s", 504) from None
        return Reply(encode(_described(session.about)))

    async def _trajectory(self, session: Session, scope: Scope, fields: Fields) -> Reply:
        query = query_of(scope)
        form = query.get("format", "json")
        encoding = query.get("encoding", "json")
        if form not in exports.FORMATS:
            raise BadRequest("format", f"{form!r} is not one of {', '.join(exports.FORMATS)}")
        if encoding not in exports.ENCODINGS:
            raise BadRequest("encoding", f"{encoding!r} is not one of {', '.join(exports.ENCODINGS)}")
        models = {model.settings.model: model for model in self._service.models}
        name = query.get("model")
        if name is not None and name not in models:
            raise BadRequest("model", f"{name!r} is not one of {', '.join(models)}")

        def written(_: object) -> tuple[bytes, str]:
            found = session.rollout(models)
            return exports.written([found if name is None else found.of_model(name)], form, encoding)

        try:
            body, media_type = await self._service.aside(session.size, written)
        except ImportError as error:
            raise BadRequest("encoding", f"needs a package that is not installed: {error.name}", 501) from None
        except ValueError as error:
            raise BadRequest("format", str(error), 409) from None
        return Reply(body, media_type=media_type)

    _ROUTES: Final[dict[tuple[str, str], Callable[["SessionRoutes", Session, Scope, Fields], Awaitable[Reply]]]] = {
        ("GET", ""): _get,
        ("GET", "trajectory"): _trajectory,
        ("POST", "reward"): _reward,
        ("POST", "finish"): _finish,
    }


def _named(path: str) -> tuple[str, str]:
    """The session that a path names, and what is below it."""
    if not path.startswith(f"{_ROOT}/"):
        return "", ""
    id, _, below = path[len(_ROOT) + 1 :].partition("/")
    return id, below


def _query(scope: Scope, *allowed: str) -> dict[str, str]:
    """The query of a request, which has no other fields than these."""
    query = query_of(scope)
    Fields(query).only(allowed)
    return query


def _on_loopback(scope: Scope) -> bool:
    """Whether the client has reached the server by a loopback address."""
    server = scope.get("server")
    try:
        return server is not None and ip_address(server[0]).is_loopback
    except ValueError:
        return False


def _base(scope: Scope) -> str:
    """The server's own URL, as the client knows it."""
    host = header(scope, b"host") or "{}:{}".format(*(scope.get("server") or ("127.0.0.1", 80)))
    return f"{scope['scheme']}://{host}"


def _limits(fields: Fields) -> SessionLimits:
    fields.only(SessionLimits.__struct_fields__)
    return SessionLimits(
        calls=fields.integer("calls", 1),
        tokens=fields.integer("tokens", 1),
        seconds=fields.number("seconds", 1e-6, MOST),
    )


def _outcome(session: Session, fields: Fields) -> dict[str, Any]:
    """The reward and the metadata that a request gives. No reward (``null``) is not 0."""
    found: dict[str, Any] = {}
    if "reward" in fields.raw:
        found["reward"] = fields.number("reward", -sys.float_info.max, sys.float_info.max)
    if fields.has("metadata"):
        found["metadata"] = _metadata(fields, session.about.metadata)
    return found


def _metadata(fields: Fields, before: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a request, added to what the session has."""
    found = cleaned({**before, **fields.object("metadata").raw})
    try:
        size = len(msgspec.msgpack.encode(found))
    except OverflowError:
        raise fields.wrong("metadata", "has an integer of more than 64 bits") from None
    if size > _LIMIT:
        raise fields.wrong("metadata", f"has {size:,} bytes in all; allowed are {_LIMIT:,}")
    return dict(found)


def _described(about: About) -> dict[str, Any]:
    """A session as answers show it, without its key."""
    return {name: getattr(about, name) for name in _SHOWN}
