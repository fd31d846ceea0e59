"""All tool servers of a process: gives their tools unique names, tracks failed servers, and opens common sessions."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from ..engines.threads import retrieve
from .base import Approval, ServerTool, ToolLimits, ToolResult, ToolServer, ToolServerError, ToolState, log, refused
from .config import read_config, read_list

_REST: Final = 10.0  # seconds for which a server that failed to list its tools is not asked again
_BETWEEN: Final = "__"  # what is between a server's label and a tool's own name
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")  # the tool names that every dialect can write


class Listing(msgspec.Struct, frozen=True):
    """The tools of all servers at one time, under names that do not clash, and the faults of servers that are down or
    list wrong tools, by label."""

    tools: tuple[ServerTool, ...] = ()
    failures: dict[str, str] = msgspec.field(default_factory=dict)

    def beside(self, taken: Collection[str]) -> tuple[ServerTool, ...]:
        """The tools next to a client's own. A tool whose name is taken gets its server's label before its name."""
        labels = {*self.failures, *(tool.server for tool in self.tools)}
        return _without_clashes(self.tools, labels, frozenset(taken))


class Tools:
    """Several tool servers as one.

    Args:
        servers: tool servers with different labels.
        approval: which calls a person must allow, besides those that their server marks.

    Raises:
        ValueError: two servers have the same label, or labels with which two tools could have the same name.
    """

    def __init__(self, servers: Sequence[ToolServer], approval: Approval | None = None) -> None:
        self.servers: Final = {server.label: server for server in servers}
        self._approval = approval or Approval()
        self._failed: dict[str, str] = {}
        self._asked: dict[str, asyncio.Task[Sequence[ServerTool]]] = {}
        self._rests: dict[str, float] = {}
        if len(self.servers) < len(servers):
            label = Counter(server.label for server in servers).most_common(1)[0][0]
            raise ValueError(f"two tool servers have the label {label!r}")
        for label in self.servers:
            longer = next((other for other in self.servers if other.startswith(f"{label}{_BETWEEN}")), None)
            if longer is not None:
                why = f"tools of both may be called {longer}{_BETWEEN}…: rename one"
                raise ValueError(f"the labels {label!r} and {longer!r} of tool servers clash: {why}")

    @classmethod
    def from_flags(
        cls,
        tool_server: str | None = None,
        mcp_config: Path | None = None,
        *,
        approval: Approval | None = None,
        limits: ToolLimits | None = None,
        python: bool = True,
        hosts: Sequence[str] = (),
        private: bool = False,
        search: str | None = None,
    ) -> "Tools":
        """The servers that the command line names. None is connected to yet.

        Args:
            tool_server: MCP servers (see `config.read_list`) or ``demo``, separated by commas.
            mcp_config: a file that lists MCP servers, see `config.read_config`.
            approval: which calls a person must allow.
            limits: the limits on tools.
            python: whether ``demo`` offers Python.
            hosts: the hosts that the browser of ``demo`` may read, see `fetch.Fetcher`. Without hosts and without a
                search provider, there is no browser.
            private: whether these hosts may have addresses that are not public.
            search: the URL of a search provider with SearXNG's API.

        Raises:
            ValueError: a value is wrong; the message says which, and what is allowed.
            OSError: the file cannot be read.
            ImportError: an extra is not installed.
        """
        limits = limits or ToolLimits()
        servers: list[ToolServer] = []
        entries = [] if tool_server is None else list(filter(None, map(str.strip, tool_server.split(","))))
        if "demo" in entries:
            from .demo import DemoToolServer
            from .fetch import Fetcher

            fetcher = None
            if hosts or search is not None:
                fetcher = Fetcher(hosts, private=private, time=limits.time, size=limits.message)
            servers.append(DemoToolServer(fetcher, python=python, search=search, limits=limits))
            entries = [entry for entry in entries if entry != "demo"]
        if entries or (tool_server is not None and not servers):
            servers += read_list(",".join(entries), limits)
        if mcp_config is not None:
            servers += read_config(mcp_config, limits)
        return cls(servers, approval)

    async def list_tools(self, labels: Collection[str] | None = None) -> Listing:
        """The tools of all servers, or of those with these labels. A server that is down is left out.

        The servers are asked concurrently, but the order and the names of the tools do not depend on their speed.
        """
        asked = [server for label, server in self.servers.items() if labels is None or label in labels]
        found = await asyncio.gather(*(self._list(server) for server in asked), return_exceptions=True)
        tools: list[ServerTool] = []
        failures: dict[str, str] = {}
        for server, listed in zip(asked, found, strict=True):
            if isinstance(listed, ToolServerError):
                failures[server.label] = str(listed)
            elif isinstance(listed, BaseException):
                raise listed
            else:
                tools += (self._with_approval(tool) for tool in listed)
                self._failed.pop(server.label, None)
        for label, text in failures.items():
            if self._failed.get(label) != text:  # each change is logged once
                self._failed[label] = text
                log.warning("tool server %s: %s", label, text)
        return Listing(_without_clashes(tools, self.servers), failures)

    async def _list(self, server: ToolServer) -> Sequence[ServerTool]:
        """The tools of one server. Concurrent callers share one request, and a server that failed is left alone for a
        while."""
        label = server.label
        task = self._asked.get(label)
        if task is None or (task.done() and monotonic() >= self._rests.get(label, 0.0)):
            task = self._asked[label] = asyncio.ensure_future(server.list_tools())
            task.add_done_callback(retrieve)
        try:
            listed = await asyncio.shield(task)
        except ToolServerError as error:
            if self._asked.get(label) is task and monotonic() >= self._rests.get(label, 0.0):
                self._rests[label] = monotonic() + _REST
            raise ToolServerError(str(error)) from None
        self._rests.pop(label, None)  # its own cache decides how long the list is fresh
        return listed

    def session(self) -> "ToolsSession":
        """A session over all servers, for one response."""
        return ToolsSession(self)

    async def aclose(self) -> None:
        """End all servers. A fault of one is logged, and does not prevent the others from ending."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        ended = await asyncio.gather(*(server.aclose() for server in self.servers.values()), return_exceptions=True)
        _log_faults("tool server", list(self.servers), ended)

    def _with_approval(self, tool: ServerTool) -> ServerTool:
        needed = self._approval.needed(tool.original, f"{tool.server}{_BETWEEN}{tool.original}")
        return msgspec.structs.replace(tool, approval=True) if needed else tool


class ToolsSession:
    """The state of all servers for one response. A server's session starts when a call needs it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._sessions: dict[str, ToolState] = {}
        self._closed = False

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        """See `ToolState.call`. The tool's server runs it."""
        if self._closed:
            raise RuntimeError("the session is closed")
        session = self._sessions.get(tool.server)
        if session is None:
            server = self._tools.servers.get(tool.server)
            if server is None:
                return refused(f"There is no tool server {tool.server!r}.")
            session = self._sessions[tool.server] = server.session()
        return await session.call(tool, arguments)

    async def aclose(self) -> None:
        """End the sessions of all servers. A fault of one is logged, and does not prevent the others from ending."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        ended = await asyncio.gather(*(session.aclose() for session in sessions.values()), return_exceptions=True)
        _log_faults("session of tool server", list(sessions), ended)


def _log_faults(what: str, labels: Sequence[str], ended: Sequence[BaseException | None]) -> None:
    for label, fault in zip(labels, ended, strict=True):
        if isinstance(fault, Exception):
            log.error("%s %s did not end cleanly", what, label, exc_info=fault)


def _owner(tool: ServerTool, labels: Collection[str]) -> str:
    """The label of the server with which a tool's own name begins, by default that of its own server."""
    return next((label for label in labels if tool.original.startswith(f"{label}{_BETWEEN}")), tool.server)


def _without_clashes(
    tools: Sequence[ServerTool], labels: Collection[str], taken: Collection[str] = ()
) -> tuple[ServerTool, ...]:
    """The tools under unique names, which a client's tools may have ``taken``. A tool whose name still clashes or
    cannot be written is left out, and so is one whose own name begins with another server's label: it would get calls
    of that server's tools."""
    owners = [_owner(tool, labels) for tool in tools]
    often = Counter(tool.name for tool, owner in zip(tools, owners, strict=True) if owner == tool.server)
    found: dict[str, ServerTool] = {}
    for tool, owner in zip(tools, owners, strict=True):
        clashes = tool.name in taken or often[tool.name] > 1
        named = tool.renamed(f"{tool.server}{_BETWEEN}{tool.original}") if clashes else tool
        if owner != tool.server:
            fault = f"its name is one of the server {owner}"
        elif named.name in taken or named.name in found or (clashes and named.name in often):
            fault = "its name is taken"
        elif not _NAME.fullmatch(named.name):
            fault = "its name cannot be written"
        else:
            found[named.name] = named
            continue
        log.warning("tool %r of server %s is left out: %s", named.name[:200], tool.server, fault)
    return tuple(found.values())
