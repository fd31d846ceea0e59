"""Tool servers that speak MCP (https://modelcontextprotocol.io): streamable HTTP, SSE of old servers, child processes.

All responses share a child, since starting one takes seconds. Over HTTP each response has its own connection, because
a server may keep one user's data with the connection.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

import mcp_types
import msgspec
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .. import __version__
from ..engines.threads import retrieve
from ..schema import MAX_NESTING, nests_deeper
from .base import (
    Approval,
    ServerTool,
    ToolLimits,
    ToolMedium,
    ToolResult,
    ToolServerError,
    ToolState,
    log,
    read_arguments,
    refused,
    shortened,
)
from .http import client as http_client
from .stdio import Child
from .targets import Program, Target

_DESCRIPTION: Final = 8_192  # the most characters of a tool's description that the model reads
_LENGTH: Final = 1_000  # the most characters of an error that are passed on
_PAGES: Final = 100  # the most pages of one listing
_BURST: Final = 1.0  # the least seconds for which a listing is kept, whatever its server says
_CLOSING: Final = 8.0  # seconds for closing a connection in good order; a child is killed well before
_T = TypeVar("_T")
_ME: Final = mcp_types.Implementation(name="unspool", version=__version__)


class MCPToolServer:
    """A tool server that speaks MCP, at an address or as a program to start. ``approval`` says which of its calls a
    person must allow, ``allowed`` which tools are offered (``None``: all). `Tools` lists it once at a time."""

    def __init__(
        self,
        label: str,
        target: Target | Program,
        *,
        limits: ToolLimits | None = None,
        approval: Approval | None = None,
        allowed: frozenset[str] | None = None,
    ) -> None:
        self.label: Final = label
        self.target: Final = target
        self.limits: Final = limits or ToolLimits()
        self._approval = approval or Approval()
        self._allowed = allowed
        self._listed: tuple[ServerTool, ...] = ()
        self._until = 0.0
        self._shared = _Shared(self.connect)
        self._answers = 0
        """The index in `Target.tries` of the one that answered last."""

    async def list_tools(self) -> Sequence[ServerTool]:
        if monotonic() >= self._until:
            self._until = 0.0
            listed, seconds = await self._bounded(self._list())
            self._listed = self._offered(listed)
            self._until = monotonic() + seconds
        return self._listed

    def session(self) -> ToolState:
        return _McpState(self, self._connections())

    async def aclose(self) -> None:
        await self._shared.aclose()

    def _connections(self) -> "_Shared":
        """The child that all share, or connections of one's own."""
        return self._shared if isinstance(self.target, Program) else _Shared(self.connect)

    async def left(self, shared: "_Shared") -> None:
        """Close connections of one's own."""
        if shared is not self._shared:
            await shared.aclose()

    def changed(self) -> None:
        """Forget the listing: the server's tools have changed."""
        self._until = 0.0

    async def connect(self) -> "_SdkConnection":
        """A new connection; `ToolServerError` if the server cannot be reached."""
        return await self._bounded(self._connect())

    async def _bounded(self, work: Awaitable[_T]) -> _T:
        """Wait for a result within the time for listing. Every fault becomes a `ToolServerError`."""
        try:
            async with asyncio.timeout(self.limits.listing):
                return await work
        except TimeoutError:
            raise ToolServerError(f"does not answer within {self.limits.listing:g} s") from None
        except ToolServerError:
            raise
        except Exception as error:
            raise ToolServerError(_message(error)) from error

    async def _connect(self) -> "_SdkConnection":
        target = self.target
        if isinstance(target, Program):
            child = Child(self.label, target, self.limits.message)
            return await _SdkConnection.opened(child, self.changed, child)
        faults = []
        order = [*range(len(target.tries))]
        for i in order[self._answers :] + order[: self._answers]:
            kind, url = target.tries[i]
            try:
                found = await _SdkConnection.opened(self._transport(kind, url), self.changed)
            except Exception as error:
                faults.append(f"{url}: {_message(error)}")
            else:
                self._answers = i
                return found
        raise ToolServerError("; ".join(faults))

    def _transport(self, kind: str, url: str) -> Any:
        assert isinstance(self.target, Target)
        make = partial(http_client, self.label, self.target.headers, self.limits.message, public=self.target.public)
        if kind == "sse":

            def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
                return make(timeout=timeout)

            # Nothing is sent between two calls, and each call has its own time limit.
            return sse_client(url, timeout=self.limits.listing, sse_read_timeout=86_400, httpx_client_factory=made)
        return _streamable(make(timeout=max(self.limits.time, self.limits.listing) + 5), url, self.limits.message)

    async def _list(self) -> tuple[list[mcp_types.Tool], float]:
        """The tools of all pages, and the seconds for which they are fresh."""
        shared = self._connections()
        try:
            client = (await shared.connection()).client
            tools: list[mcp_types.Tool] = []
            seconds = self.limits.cache
            cursor: str | None = None
            seen: set[str | None] = set()
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            while cursor not in seen and len(seen) < _PAGES:
                seen.add(cursor)
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                if len(tools) > self.limits.tools:
                    raise ToolServerError(f"lists more than {self.limits.tools:,} tools")
                if modern:  # older servers cannot say for how long
                    seconds = min(seconds, max(_BURST, page.ttl_ms / 1000))
                cursor = page.next_cursor
                if not cursor:
                    return tools, seconds
            raise ToolServerError("lists pages without an end")
        except MCPError:
            shared.doubt()
            raise
        finally:
            await self.left(shared)

    def _offered(self, listed: Sequence[mcp_types.Tool]) -> tuple[ServerTool, ...]:
        """The tools for the model. A tool with a fault is left out and logged."""
        found: dict[str, ServerTool] = {}
        for tool in listed:
            name = tool.name
            if self._allowed is not None and name not in self._allowed:
                continue
            fault = "it is listed twice" if name in found else _fault(tool.input_schema, self.limits.schema)
            if fault:
                log.warning("tool %r of server %s is left out: %s", name[:200], self.label, fault)
                continue
            function = {
                "name": name,
                "description": shortened(tool.description or tool.title or "", _DESCRIPTION),
                "parameters": {"type": "object", **tool.input_schema},
            }
            found[name] = ServerTool(
                name=name,
                server=self.label,
                original=name,
                kind="mcp",
                definition={"type": "function", "function": function},
                approval=self._approval.needed(name),
            )
        return tuple(found.values())


@asynccontextmanager
async def _streamable(client: Any, url: str, message: int) -> AsyncIterator[Any]:
    """Streamable HTTP together with the client that it uses."""
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=message) as streams:
        yield streams


class _SdkConnection:
    """A connection in its own task, since the task that enters the SDK's contexts must also leave them."""

    def __init__(self, transport: Any, changed: Callable[[], None], child: Child | None) -> None:
        self._child = child
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.ensure_future(self._own(transport, changed))

    @classmethod
    async def opened(cls, transport: Any, changed: Callable[[], None], child: Child | None = None) -> "_SdkConnection":
        """Open a connection over a transport of the SDK. The SDK's errors are raised as they are."""
        found = cls(transport, changed, child)
        try:
            await asyncio.shield(found._ready)
        except BaseException as error:
            await found.aclose()
            if found._ready.done():
                retrieve(found._ready)
            if child is not None and child.fault and isinstance(error, Exception):
                raise ToolServerError(f"{_message(error)}; it said: {child.fault}") from error
            raise
        return found

    @property
    def client(self) -> Client:
        return self._ready.result()

    @property
    def broken(self) -> bool:
        process = None if self._child is None else self._child.process
        return self._owner.done() or (process is not None and process.returncode is not None)

    async def aclose(self) -> None:
        """Close the connection; if that takes too long, cancel it."""
        self._stop.set()
        if not self._ready.done() or self._ready.cancelled() or self._ready.exception() is not None:
            self._owner.cancel()
        # The task that closes may be cancelled, but the owning task still ends.
        done, _ = await asyncio.shield(asyncio.ensure_future(asyncio.wait([self._owner], timeout=_CLOSING)))
        if not done:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=_CLOSING)

    async def _own(self, transport: Any, changed: Callable[[], None]) -> None:
        async def heard(message: object) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                changed()

        try:
            async with Client(transport, client_info=_ME, message_handler=heard, cache=None) as client:
                if not self._ready.done():
                    self._ready.set_result(client)
                await self._stop.wait()
        except asyncio.CancelledError:
            if not self._ready.done():
                self._ready.cancel()
        except Exception as error:
            if self._ready.done():
                log.debug("a connection ended: %s", _message(error))
            else:
                self._ready.set_exception(error)


class _Shared:
    """A connection that is opened on demand, and again after it broke."""

    def __init__(self, connect: Callable[[], Awaitable[_SdkConnection]]) -> None:
        self._connect = connect
        self._lock = asyncio.Lock()
        self._found: _SdkConnection | None = None
        self._doubted = False
        self._closed = False

    async def connection(self) -> _SdkConnection:
        """The open connection; `ToolServerError` if the server cannot be reached."""
        async with self._lock:
            if self._closed:
                raise ToolServerError("is closed")
            if self._found is not None and (self._found.broken or (self._doubted and not await self._answers())):
                await self._found.aclose()
                self._found = None
            self._doubted = False
            if self._found is None:
                self._found = await self._connect()
            return self._found

    def doubt(self) -> None:
        """Check before the next call that the server still answers: one timed out or failed below the protocol."""
        self._doubted = True

    async def aclose(self) -> None:
        async with self._lock:
            self._closed = True
            if self._found is not None:
                await self._found.aclose()
                self._found = None

    async def _answers(self) -> bool:
        assert self._found is not None
        try:
            async with asyncio.timeout(2.0):
                await self._found.client.list_tools()
        except Exception:
            return False
        return True


class _McpState:
    def __init__(self, server: MCPToolServer, shared: _Shared) -> None:
        self._server = server
        self._shared = shared

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        read = read_arguments(arguments)
        if isinstance(read, ToolResult):
            return read
        seconds = self._server.limits.time
        try:
            client = (await self._shared.connection()).client
            async with asyncio.timeout(seconds):
                result = await client.call_tool(tool.original, read)
        except TimeoutError:
            self._shared.doubt()
            return refused(f"The tool did not answer within {seconds:g} seconds.")
        except ToolServerError as error:
            return refused(f"The tool server {self._server.label} {error}")
        except MCPError as error:
            self._shared.doubt()
            self._server.changed()  # it may have other tools now
            return refused(shortened(f"The call failed: {error}", self._server.limits.output))
        except Exception as error:
            self._shared.doubt()
            log.warning("tool server %s: %s", self._server.label, _message(error))
            return refused(shortened(f"The call failed: {_message(error)}", self._server.limits.output))
        return _result(result, self._server.limits.output)

    async def aclose(self) -> None:
        await self._server.left(self._shared)


def _result(result: mcp_types.CallToolResult, limit: int) -> ToolResult:
    """The text of all parts, with notes in place of media, or else the structured value."""
    media: list[ToolMedium] = []
    text = ""
    for part in result.content:
        text += "\n" if text else ""
        found = _read(part)
        if isinstance(found, ToolMedium):
            media.append(msgspec.structs.replace(found, start=len(text)))
            found = found.note
        text += found
    if not result.content and result.structured_content is not None:
        text = msgspec.json.encode(result.structured_content).decode()
    return ToolResult(text=shortened(text, limit), error=bool(result.is_error), media=tuple(media))


def _read(part: mcp_types.ContentBlock) -> str | ToolMedium:
    """A part of a result. https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result"""
    if isinstance(part, mcp_types.TextContent):
        return part.text
    if isinstance(part, mcp_types.ResourceLink):
        return f"[{part.name}]({part.uri})"
    if isinstance(part, mcp_types.EmbeddedResource):
        inner = part.resource
        if isinstance(inner, mcp_types.TextResourceContents):
            return inner.text
        kind, type, encoded = f"resource {inner.uri}", inner.mime_type or "data", inner.blob
    else:
        kind, type, encoded = part.type, part.mime_type, part.data
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        return f"[{kind} left out: its base64 is malformed]"
    return ToolMedium(data, f"[{kind} left out: {type}, {len(data):,} bytes]")


def _fault(schema: object, limit: int) -> str:
    """The problem with the schema of a tool's arguments; ``""`` if there is none."""
    if not isinstance(schema, dict):
        return "its schema is not an object"
    if schema.get("type", "object") != "object":
        return f"its arguments must be an object, not {str(schema['type'])[:100]!r}"
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its schema is not JSON: {error}"
    if len(text) > limit:
        return f"its schema has {len(text):,} characters; allowed are {limit:,}"
    if nests_deeper(schema, MAX_NESTING - 1):
        return f"its schema is deeper than {MAX_NESTING}"
    return ""


def _message(error: BaseException) -> str:
    """The message of an error, or of the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:_LENGTH] or type(error).__name__
