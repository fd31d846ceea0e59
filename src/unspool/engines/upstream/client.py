"""The HTTP client for upstream servers: requests and streams, with every failure as an `EngineError`."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ...wire.decoding import decode
from ..base import EngineError
from ..threads import Threads
from .answers import complaint, failure
from .pool import Backend

if TYPE_CHECKING:
    import aiohttp

_T = TypeVar("_T")
LONG: Final = 64 * 1024  # from how many bytes, characters or tokens on JSON is read and written in a thread
MAX_ANSWER: Final = 4 * 1024 * 1024  # the largest answer that is not a stream, in bytes, besides the ids of a prompt
_MAX_RETRY: Final = 24 * 3600
_MAX_COMPLAINT: Final = 64 * 1024  # how many bytes of an error are read


class Unavailable(EngineError):
    """A backend is down, or accepts no request; another one may."""


class Slow(EngineError):
    """An answer, or its next piece, did not come in time."""


class Client:
    """Sends requests; ``connect`` is the time-out in seconds for a connection, and for answers that are not streams."""

    def __init__(self, key: str | None, connect: float) -> None:
        self._key = key
        self._connect = connect
        self._http: aiohttp.ClientSession | None = None
        self._closed = False
        self._threads = Threads(1, "upstream-json")
        with contextlib.suppress(ImportError):  # where it is missing, the first request says so
            from . import interim  # noqa: F401 - now, since it takes long, and requests hold up the event loop

    async def close(self) -> None:
        self._closed = True
        self._threads.close()
        if self._http is not None:
            await self._http.close()

    def hidden(self, text: str) -> str:
        """Remove the key from a text."""
        return text if self._key is None else text.replace(self._key, "…")

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Read or write long JSON in a single thread: msgspec holds the interpreter's lock throughout a list, so the
        event loop waits for one long list at most."""
        return await self._threads.run(lambda _: work())

    async def ask(
        self, backend: Backend, path: str, question: dict[str, Any] | None = None, most: int = MAX_ANSWER
    ) -> Any:
        """Send a request (a POST if there is a question), and return the JSON of the answer, which has at most this
        many bytes; ``None`` if it is not JSON. `EngineError` if there is no answer, or it is an error."""
        deadline = time.monotonic() + self._connect
        data = bytearray()
        try:
            sent = None if question is None else written(question)
            async with self.open(backend, path, sent, deadline) as response:
                while chunk := await self.read(backend, response, deadline):
                    data += chunk
                    if len(data) > most:
                        raise EngineError(f"the engine's answer to {path} is larger than {most:,} bytes", 502)
        except Slow as error:
            backend.out(f"{path} is not answered in time")
            raise Unavailable(str(error), error.status) from None
        return _read(data) if len(data) < LONG else await self.aside(lambda: _read(data))

    @contextlib.asynccontextmanager
    async def open(
        self,
        backend: Backend,
        path: str,
        body: bytes | None,
        deadline: float,
        headers: Mapping[str, str] | None = None,
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        """A context for a streamed answer with a good status; its connection is closed at the end. Headers that are
        empty are not sent. `EngineError` if there is no such answer by the deadline of the monotonic clock;
        `Unavailable` if another backend may have one."""
        import aiohttp

        sent = {name: value for name, value in (headers or {}).items() if value}
        if body is not None:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                response = await self._session().request(
                    "GET" if body is None else "POST",
                    backend.url + path,
                    data=body if body is None or len(body) < LONG else _pieces(body),
                    headers=sent,
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise _fault(backend, error) from None
        try:
            if response.status != 200:
                await self._refused(backend, response, deadline)
            yield response
        finally:
            response.close()

    async def read(self, backend: Backend, response: "aiohttp.ClientResponse", deadline: float) -> bytes:
        """Return the bytes that have arrived, or the next ones; none at the end."""
        import aiohttp

        try:
            if time.monotonic() > deadline:  # also if it always has something ready
                raise TimeoutError
            if data := response.content.read_nowait():
                return data
            async with asyncio.timeout(deadline - time.monotonic()):
                return await response.content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise _fault(backend, error) from None

    async def _refused(self, backend: Backend, response: "aiohttp.ClientResponse", deadline: float) -> None:
        data = bytearray()
        while len(data) < _MAX_COMPLAINT and (chunk := await self.read(backend, response, deadline)):
            data += chunk
        try:
            answer: Any = json.loads(data)
        except (ValueError, RecursionError):
            answer = data.decode("utf-8", "replace") if response.content_type == "text/plain" else ""
        message, _ = complaint(answer)
        error = failure(self.hidden(message), response.status, _seconds(response.headers.get("Retry-After")))
        if response.status == 404:
            backend.served = None  # by now, it may serve another model
        if response.status not in (429, 502, 503, 504):
            raise error
        if response.status != 429:
            backend.out(str(error))
        raise Unavailable(str(error), error.status, error.retry_after, error.detail)

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp

        from .interim import BoundedResponse

        if self._closed:
            raise EngineError("the engine is closed", 503)
        if self._http is None:
            # Connections are not reused: servers close idle ones at any time, and a retry would not be safe.
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect),
                auto_decompress=False,
                response_class=BoundedResponse,
                headers={
                    "Accept-Encoding": "identity",
                    **({} if self._key is None else {"Authorization": f"Bearer {self._key}"}),
                },
            )
        return self._http


def _seconds(header: str | None) -> int | None:
    """The seconds of ``Retry-After``; dates are ignored."""
    if header is None or not (header.isascii() and header.isdigit()):
        return None
    return min(int(header[:20]), _MAX_RETRY)


def _fault(backend: Backend, error: Exception) -> Exception:
    """Turn a failure of the connection into an `EngineError`; return any other error unchanged."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        backend.out(f"no connection ({why_unconnected(error)})")
        return Unavailable("the engine cannot be reached", 503)
    if isinstance(error, aiohttp.ServerTimeoutError):
        backend.out("no connection in time")
        return Unavailable("the engine cannot be reached", 503)
    if isinstance(error, TimeoutError):
        return Slow("the engine timed out", 504)
    if isinstance(error, aiohttp.ClientError | OSError) or str(error) in _CLOSED:
        backend.out(type(error).__name__)
        return Unavailable("the connection to the engine broke", 502)
    return error


def why_unconnected(error: "aiohttp.ClientConnectorError") -> str:
    """The system's reason, as ``Connection refused``; asyncio's texts name the address in its place."""
    number = error.os_error.errno or 0
    if number > 0:
        return os.strerror(number)
    return error.os_error.strerror or str(error.os_error)  # a name that is not known, or several addresses


_CLOSED: Final = ("Connection closed.", "Session is closed")
"""The messages of aiohttp's `RuntimeError` if this side has closed the connection."""


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A long body, of which aiohttp would make copies."""
    for at in range(0, len(body), LONG):
        yield body[at : at + LONG]


def _read(data: bytes | bytearray) -> Any:
    try:
        return decode(data)
    except (ValueError, RecursionError):
        return None


def written(asked: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(asked)
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(asked).encode()
