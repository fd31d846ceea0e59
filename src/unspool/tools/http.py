"""The HTTP client for MCP. Replies are bounded, and servers that a request names must have public addresses."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import httpx2
from opentelemetry.propagate import inject  # which the SDK of MCP brings

from .addresses import AddressRefused, resolve
from .listed import TooMany, sifted

_STREAM: Final = 16  # the most bytes of an event stream, as a multiple of one message's
_HEAD: Final = 256 * 1024  # the most bytes that are read up to the end of a reply's head
_PIECE: Final = 16 * 1024  # how many of them are read at once
_left: Final = ContextVar[int | None]("_left", default=None)
"""How many bytes may still be read up to the end of the head; ``None`` once it was read."""


async def _connected(event: str, info: Any) -> None:
    """Bound what each connection reads before a reply's head ends: interim responses (1xx) may come without an end."""
    if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
        return
    stream = info["return_value"]
    read = stream.read

    async def bounded(most: int, timeout: float | None = None) -> bytes:
        left = _left.get()
        if left is None:
            return await read(most, timeout)  # type: ignore[no-any-return]
        data: bytes = await read(min(most, _PIECE), timeout)
        if len(data) > left:
            raise httpx2.ReadError(f"the head of the reply has more than {_HEAD:,} bytes")
        _left.set(left - len(data))
        return data

    stream.read = bounded


@cache
def _certificates() -> ssl.SSLContext:
    """The system's certificates, read once, since reading them takes milliseconds."""
    return ssl.create_default_context()


class _Bounded(httpx2.AsyncByteStream):
    """A reply's body, which fails once it is longer than ``limit`` bytes, without tools that cannot be read. If it
    consists of events (``streamed``), their messages are read line by line."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, streamed: bool, server: str) -> None:
        self._stream = stream
        self._left = limit
        self._limit = limit
        self._streamed = streamed
        self._server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []  # a line, or the whole body, as far as it has arrived
        async for data in self._stream:
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.ReadError(f"the reply has more than {self._limit:,} bytes")
            whole, end, rest = data.rpartition(b"\n") if self._streamed else (b"", b"", data)
            if end:
                lines = b"".join((*held, whole)).split(b"\n")
                held.clear()
                yield b"".join(self._line(line) + end for line in lines)
            held.append(rest)
        last = b"".join(held)
        yield last if self._streamed else self._sifted(last)

    def _line(self, line: bytes) -> bytes:
        """A line of events; the JSON of a message is one, after ``data:``."""
        field, colon, message = line.partition(b":")
        return line if field != b"data" else field + colon + b" " + self._sifted(message.strip())

    def _sifted(self, message: bytes) -> bytes:
        try:
            return sifted(message, self._server)
        except TooMany as fault:
            raise httpx2.ReadError(f"the server {fault}") from None

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncBaseTransport):
    """Connects to the checked address; ignores redirects and proxies from the environment."""

    def __init__(self, server: str, message: int, public: bool) -> None:
        self._server = server
        self._inner = httpx2.AsyncHTTPTransport(verify=_certificates(), trust_env=False)
        self._message = message
        self._public = public

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._public:
            host = request.url.host
            try:
                if request.url.scheme != "https":
                    raise AddressRefused("only https is allowed")
                address = (await resolve(host, request.url.port or 443))[0]
            except AddressRefused as refused:
                raise httpx2.ConnectError(str(refused), request=request) from None
            # The `Host` header and the certificate check use the name; the connection uses the checked address.
            request.extensions = {**request.extensions, "sni_hostname": host}
            request.url = request.url.copy_with(host=address)
        inject(request.headers)  # the trace of the call, whose context the SDK passes on
        request.extensions = {**request.extensions, "trace": _connected}
        _left.set(_HEAD)
        try:
            response = await self._inner.handle_async_request(request)
        finally:
            _left.set(None)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("the reply is compressed, though that was not asked for", request=request)
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        limit = self._message * (_STREAM if streamed else 1)
        response.stream = _Bounded(response.stream, limit, streamed, self._server)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(
    server: str, headers: Mapping[str, str], message: int, *, public: bool, **settings: Any
) -> httpx2.AsyncClient:
    """A client for one tool server. Replies of more than ``message`` bytes are refused, and so are compressed ones,
    which hide their length. If a request named the server (``public``), only https and public addresses are allowed."""
    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        transport=_Transport(server, message, public),
        follow_redirects=False,
        trust_env=False,
        **settings,
    )
