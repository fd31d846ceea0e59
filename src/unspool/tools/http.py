"""The HTTP client for MCP. Replies are bounded, and servers that a request names must have public addresses."""

import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import Any, Final

import httpx2

from .addresses import Refused, resolve

__all__ = ["client"]

_STREAM: Final = 16
"""The most bytes of an event stream, as a multiple of one message's."""


@cache
def _certificates() -> ssl.SSLContext:
    """The system's certificates, read once, since reading them takes milliseconds."""
    return ssl.create_default_context()


class _Bounded(httpx2.AsyncByteStream):
    """A reply's body, which fails once it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._left = limit
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.ReadError(f"the reply has more than {self._limit:,} bytes")
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncBaseTransport):
    """Connects to the checked address; ignores redirects and proxies from the environment."""

    def __init__(self, message: int, public: bool) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=_certificates(), trust_env=False)
        self._message = message
        self._public = public

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._public:
            host = request.url.host
            try:
                if request.url.scheme != "https":
                    raise Refused("only https is allowed")
                address = (await resolve(host, request.url.port or 443))[0]
            except Refused as refused:
                raise httpx2.ConnectError(str(refused), request=request) from None
            # The `Host` header and the certificate check use the name; the connection uses the checked address.
            request.extensions = {**request.extensions, "sni_hostname": host}
            request.url = request.url.copy_with(host=address)
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("the reply is compressed, though that was not asked for", request=request)
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._message * (_STREAM if streamed else 1))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(headers: Mapping[str, str], message: int, *, public: bool, **settings: Any) -> httpx2.AsyncClient:
    """A client for one tool server.

    Args:
        headers: sent with each request.
        message: the most bytes of one reply; compressed replies are refused, since they hide their length.
        public: whether a request named the server: then only https and public addresses are allowed.
        settings: further arguments of `httpx2.AsyncClient`.
    """
    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        transport=_Transport(message, public),
        follow_redirects=False,
        trust_env=False,
        **settings,
    )
