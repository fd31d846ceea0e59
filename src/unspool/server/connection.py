"""`Connection`: uvicorn's HTTP connection with limits on the size of headers and on slow clients.

A single task lets all connections `look` from time to time, so requests need no timers of their own.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..request.settings import Limits

log = logging.getLogger("unspool.server")

_MOST: Final = 256  # how many headers a request may have
_CHUNKS: Final = 65_536  # in how many chunks a body may come; each takes time, even if it has one byte


class Connection(HttpToolsProtocol):
    """A client's connection. `limits` is set by `limited`."""

    limits: Limits

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._bare = 0  # bytes of an incomplete head, or since a body's last byte: those around chunks
        self._chunks = 0
        self._upgrades = False  # whether the head asks for another protocol
        self._reading = "head"  # what must arrive before the deadline
        self._deadline: float | None = None
        self._refused = False
        self._unsent = 0
        self._unsent_since: float | None = None

    # -- uvicorn's own steps ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await("head", self.limits.head)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._reading == "next":
            self._await("head", self.limits.head)
        if self._reading in ("head", "body"):
            self._bare += len(data)
        self._feed(data)
        if self._reading in ("head", "body") and self._bare > self.limits.headers:
            self._refuse(431, f"the headers are larger than {self.limits.headers:,} bytes")

    def _feed(self, data: bytes) -> None:
        """Feed data to the parser as uvicorn does, but ignore `Upgrade` requests, as HTTP allows."""
        self._unset_keepalive_if_required()
        left = memoryview(data)
        try:
            while True:
                try:
                    self.parser.feed_data(left)
                    return
                except httptools.HttpParserUpgrade as error:
                    if self._refused:
                        return
                    if not self._upgrades:
                        raise httptools.HttpParserError from error
                    left = left[error.args[0] :]
                    self._repeat_head()
        except httptools.HttpParserError:
            message = "Invalid HTTP request received."
            self.logger.warning(message)
            self.send_400_response(message)

    def _repeat_head(self) -> None:
        """Feed a head to a new parser without its `Upgrade` header, after which the old one would stop."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        self._upgrades = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")

    def on_message_begin(self) -> None:
        if not self._refused:
            super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading != "body":  # nobody reads those after a body
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        self._bare = self._chunks = 0
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.headers:
            self._refuse(431, f"the headers are larger than {self.limits.headers:,} bytes")
        elif len(self.headers) > _MOST:
            self._refuse(431, f"{len(self.headers):,} headers; allowed are {_MOST}")
        elif self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._upgrades = True
        else:
            self._await("body", self.limits.receive)
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > _CHUNKS and not self._refused:
            self._refuse(413, f"the body has more than {_CHUNKS:,} chunks")

    def on_body(self, body: bytes) -> None:
        self._bare = 0
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused and not self._upgrades:
            self._await("next", None)
            super().on_message_complete()

    # -- limits ----------------------------------------------------------------------------------------------------

    def _await(self, what: str, seconds: float | None) -> None:
        self._reading = what
        self._deadline = None if seconds is None else self.loop.time() + seconds

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request that cannot be read, unless an answer has begun, and close the connection."""
        self._refused = True
        self._await("nothing", None)
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = message.encode()
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()

    def look(self, now: float) -> None:
        """Disconnect a client that sends too slowly or reads nothing."""
        late = self._deadline is not None and now > self._deadline
        if late and not self.flow.read_paused:  # while reading is paused, the client is not to blame
            if self._reading == "head" and not self._bare:
                self.transport.abort()  # it has sent nothing
            else:
                what = "headers" if self._reading == "head" else "body"
                self._refuse(408, f"the {what} took too long to arrive")
        unsent = self.transport.get_write_buffer_size()
        # Nothing is written meanwhile, so a buffer that does not shrink is not being read.
        still = self.flow.write_paused or self.transport.is_closing() or (self.cycle and self.cycle.response_complete)
        if not unsent or not still or unsent != self._unsent or self._unsent_since is None:
            self._unsent_since = now
        elif now - self._unsent_since > self.limits.stall:
            log.warning("a client read nothing for %g s; it is disconnected", self.limits.stall)
            self.transport.abort()
        self._unsent = unsent


def limited(limits: Limits) -> type[Connection]:
    """Make the class of connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})
