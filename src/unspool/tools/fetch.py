"""Fetches pages for the browser from allowed hosts and checked addresses, within limits."""

import asyncio
import errno
import socket
import zlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urljoin

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from .. import __version__
from ..engines.upstream.interim import BoundedResponse
from .addresses import AddressRefused, is_public, read_host, resolve

_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_DECODERS: Final = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_MOVED: Final = (301, 302, 303, 307, 308)


class Fetched(msgspec.Struct, frozen=True):
    """A page as the server sent it: its address after redirects, its media type in lower case, the declared charset, or
    ``""``, and the whole body."""

    url: str
    kind: str
    charset: str
    body: bytes


class _Checked(AbstractResolver):
    """Resolves a name to allowed addresses; aiohttp connects to exactly these."""

    def __init__(self, private: bool) -> None:
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            addresses = await resolve(host, port, private=self._private)
        except AddressRefused as refused:
            raise OSError(errno.EACCES, str(refused)) from None
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def connection(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """The socket for a connection. It checks the address again, since a literal one is not resolved."""
        family, kind, protocol, _, place = address
        if not self._private and not is_public(str(place[0])):
            raise OSError(errno.EACCES, f"{place[0]} is not a public address")
        return socket.socket(family, kind, protocol)


class Fetcher:
    """Fetches pages.

    Args:
        hosts: the allowed hosts: ``example.com``, ``*.example.com`` (its subdomains), ``localhost:8000``, or ``*`` for
            any. Without a port, 80 and 443 are allowed. A `ValueError` names one that is none of these.
        private: whether these hosts may have addresses that are not public.
        time: seconds for one page, redirects included.
        size: the most bytes of a page, after decompression.
    """

    def __init__(self, hosts: Sequence[str], *, private: bool, time: float, size: int) -> None:
        self._hosts = {host: read_host(host) for host in hosts}
        self._private = private
        self._time = time
        self._size = size
        self._clients: dict[bool, aiohttp.ClientSession] = {}
        """The HTTP sessions, by whether the operator named the URL."""

    async def fetch(self, url: str, *, trusted: bool = False) -> Fetched:
        """Fetch a page; `AddressRefused` says why it is not allowed or cannot be fetched. If the operator named the URL
        (``trusted``), any host and address is allowed, but no redirect."""
        try:
            async with asyncio.timeout(self._time):
                for _ in range(_REDIRECTS + 1):
                    found = await self._once(self._checked(url, trusted), trusted)
                    if isinstance(found, Fetched):
                        return found
                    if trusted:
                        raise AddressRefused(f"{url} redirects")
                    url = urljoin(url, found.strip())
                raise AddressRefused(f"more than {_REDIRECTS} redirects")
        except TimeoutError:
            raise AddressRefused(f"{url} does not answer within {self._time:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AddressRefused(f"{url} cannot be fetched: {error}") from None

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    def _checked(self, url: str, trusted: bool) -> URL:
        """The URL to request, without credentials and fragment."""
        try:
            asked = URL(url.strip()).with_user(None).with_fragment(None)  # from here on, names have one spelling
            host, port = (asked.raw_host or "").rstrip("."), asked.port or 0
            asked = asked.with_host(host)  # checks the characters of the name
        except ValueError:
            raise AddressRefused(f"{url!r} is not a URL of http or https") from None
        if asked.scheme not in _PORTS:
            raise AddressRefused(f"{url!r} is not a URL of http or https")
        if not trusted and not self.allows(host, port):
            allowed = ", ".join(self._hosts) or "none"
            raise AddressRefused(f"{host}:{port} is not among the hosts that may be read ({allowed})")
        literal = ":" in host or host.replace(".", "").isdigit()
        if literal and not (self._private or trusted or is_public(host)):
            raise AddressRefused(f"{host} is not a public address")
        return asked

    def admits(self, url: str) -> bool:
        """Whether a URL may be fetched, as far as it says itself."""
        try:
            self._checked(url, False)
        except AddressRefused:
            return False
        return True

    def allows(self, host: str, port: int) -> bool:
        """Whether pages of a host may be fetched."""
        host = host.lower()
        for name, number in self._hosts.values():
            if (str(port) == number if number else port in _PORTS.values()) and (
                name == "*" or host == name or (name.startswith("*.") and host.endswith(name[1:]))
            ):
                return True
        return False

    async def _once(self, url: URL, trusted: bool) -> Fetched | str:
        """The page, or the target of a redirect."""
        async with self._session(trusted).get(url, allow_redirects=False) as reply:
            if reply.status in _MOVED and "location" in reply.headers:
                return reply.headers["location"]
            if reply.status != 200:
                raise AddressRefused(f"{url} answers {reply.status} {reply.reason or ''}".rstrip())
            return Fetched(str(reply.url), reply.content_type.lower(), reply.charset or "", await self._body(reply))

    async def _body(self, reply: aiohttp.ClientResponse) -> bytes:
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity" and encoding not in _DECODERS:
            raise AddressRefused(f"{reply.url} is compressed as {encoding!r}")
        decoder = zlib.decompressobj(_DECODERS[encoding]) if encoding in _DECODERS else None
        body = bytearray()
        async for data in reply.content.iter_any():
            try:
                body += data if decoder is None else decoder.decompress(data, self._size + 1 - len(body))
            except zlib.error as error:
                raise AddressRefused(f"{reply.url} is not compressed as it says: {error}") from None
            if len(body) > self._size:
                raise AddressRefused(f"{reply.url} has more than {self._size:,} bytes")
        return bytes(body)

    def _session(self, trusted: bool) -> aiohttp.ClientSession:
        if trusted not in self._clients:
            self._clients[trusted] = self._made(private=trusted or self._private)
        return self._clients[trusted]

    def _made(self, private: bool) -> aiohttp.ClientSession:
        checked = _Checked(private)
        connector = aiohttp.TCPConnector(
            resolver=checked, socket_factory=checked.connection, use_dns_cache=False, force_close=True
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._time),
            headers={"User-Agent": f"unspool/{__version__}", "Accept-Encoding": "gzip, deflate"},
            auto_decompress=False,
            response_class=BoundedResponse,
            trust_env=False,
            max_line_size=16_384,
            max_field_size=16_384,
        )
