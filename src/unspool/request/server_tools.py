"""Decides which of the server's tools a request may use, from the forms in which protocols name them."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from ..tools import Approval, Listing, ServerTool
from ..validation import json_shown
from ..wire.server_tools import Form, ToolsListed
from .approvals import Approvals
from .fields import MOST, BadRequest, Fields

log = logging.getLogger("unspool.server")
WORDS: Final[dict[str, tuple[str, Form]]] = {
    "code_interpreter": ("python", "code_interpreter"),
    "web_search": ("browser", "web_search"),
    "web_search_2025_08_26": ("browser", "web_search"),
    "web_search_preview": ("browser", "web_search"),
    "web_search_preview_2025_03_11": ("browser", "web_search"),
}
"""The tool types of Responses that a server may run itself, with the kind of tool and the form it is shown in."""
SERVED: Final = ("mcp", *WORDS)


class OwnServer(msgspec.Struct, frozen=True):
    """A tool server that the request itself names, with the headers to send, and the request's field, for errors."""

    label: str
    url: str
    headers: dict[str, str]
    field: str


class Offer(msgspec.Struct, frozen=True):
    """The server's tools for one request: of the operator's servers, and of those that the request names itself."""

    listing: Listing = Listing()
    # own, servers: the labels of the request's own servers, and of the operator's, including those that are down.
    own: Collection[str] = ()
    servers: Collection[str] = ()
    approvals: Approvals = Approvals(b"")  # makes and checks the ids of approvals
    betas: frozenset[str] = frozenset()  # the betas of Anthropic's protocol that the client named
    caller: bytes = b""  # the client's API key; empty if it sent none

    def name_of(self, server: str, original: str) -> str:
        """The model's name for a tool (after `beside_client`, one that differs from the client's tools). A tool that
        no longer exists keeps its own name."""
        return next((t.name for t in self.listing.tools if t.server == server and t.original == original), original)

    def beside_client(self, taken: Collection[str]) -> "Offer":
        """The same offer, with names that differ from the client's tools."""
        return msgspec.structs.replace(self, listing=Listing(self.listing.beside(taken), self.listing.failures))


NOTHING: Final = Offer()


class ServedTool(msgspec.Struct, frozen=True):
    """A tool that the server runs for a request, in its form for the client; ``asks``: its calls need approval."""

    tool: ServerTool
    form: Form = "mcp"
    asks: bool = False


class Pending(msgspec.Struct, frozen=True):
    """A call of the history that was approved or refused, whose result is sent before anything is generated."""

    id: str  # the call's id, which the message with its empty result has too
    name: str  # the model's name for the tool
    arguments: str
    approval: str  # the id of the approval request
    refusal: str = ""  # the result of a refused call; empty if the call was approved and must be run


class Bounds(msgspec.Struct, frozen=True):
    """A request's limits on the server's tools in one answer, as `LIMITS` describes them; ``None``: the server's."""

    rounds: int | None = None
    calls: int | None = None
    results: int | None = None
    tooltime: float | None = None


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the server runs for a request, by the model's names."""

    tools: dict[str, ServedTool]
    approvals: Approvals  # makes the ids of approvals
    clients: bool  # whether the client has tools of its own
    listed: tuple[ToolsListed, ...] = ()  # the events that list servers' tools to the client
    bounds: Bounds = Bounds()
    pending: tuple[Pending, ...] = ()  # the calls that were approved or refused, which come first

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The tools in the form of chat completions."""
        return [served.tool.definition for served in self.tools.values()]

    def answers(self, name: str) -> bool:
        """Whether the server answers a call. If the client has no tools, the server answers every call."""
        return name in self.tools or not self.clients

    def form_of(self, name: str) -> Form:
        return self.tools[name].form if name in self.tools else "mcp"


def names_of(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of tools in the form of chat completions."""
    return [tool["function"]["name"] for tool in tools]


def read_bounds(fields: Fields) -> Bounds:
    """Read ``max_tool_calls``, and the extension ``tool_limits``, which may lower the server's limits."""
    given = fields.object("tool_limits")
    given.only(Bounds.__struct_fields__)
    calls = [fields.integer("max_tool_calls", 0), given.integer("calls", 0)]
    return Bounds(
        rounds=given.integer("rounds", 0),
        calls=min((count for count in calls if count is not None), default=None),
        results=given.integer("results", 0),
        tooltime=given.number("tooltime", 0, MOST),
    )


def offered(fields: Fields, offer: Offer, taken: Collection[str], *, approvals: bool = False) -> ServerTools | None:
    """The server's tools in a protocol without a field for them: all, or those that ``server_tools`` names: true,
    false, or a list of names of tools and labels of servers. Without ``approvals``, those that need one are not."""
    bounds = read_bounds(fields)
    tools = offer.listing.beside(taken)
    asked = fields.raw.get("server_tools")
    if isinstance(asked, list):
        known = {n for tool in tools for n in (tool.name, tool.original, tool.server)}
        for i, name in enumerate(asked):
            if not isinstance(name, str) or name not in known:
                allowed = ", ".join(sorted(known)[:8]) or "none: the server has no tools"
                raise fields.wrong(f"server_tools[{i}]", f"{json_shown(name)} is unknown; allowed are {allowed}")
        servers = {tool.server for tool in tools}.intersection(asked)  # a label is no other server's tool of that name
        names = set(asked) - servers
        tools = tuple(t for t in tools if t.server in servers or not names.isdisjoint((t.name, t.original)))
    elif not fields.flag("server_tools", True):
        return None
    found = {t.name: ServedTool(t, "mcp", t.approval) for t in tools if approvals or not t.approval}
    if not found:
        return None
    return ServerTools(tools=found, approvals=offer.approvals, clients=bool(taken), bounds=bounds)


class Named:
    """Collects the server's tools that a request names one by one, beside the client's, whose names are ``taken``."""

    def __init__(self, offer: Offer, taken: Collection[str]) -> None:
        self._offer = offer
        self._taken = taken
        self._tools = offer.listing.beside(taken)
        self._found: dict[str, ServedTool] = {}
        self._listed: list[ToolsListed] = []

    def word(self, kind: str) -> None:
        """Take a kind of tool that clients name, such as an interpreter, if the server has it."""
        of_kind, form = WORDS.get(kind, ("", "mcp"))
        tools = [tool for tool in self._tools if tool.kind == of_kind and not tool.approval]
        self._found |= {tool.name: ServedTool(tool, form) for tool in tools}

    def server(
        self,
        label: str,
        approval: Approval | None = None,
        allowed: Collection[str] | None = None,
        *,
        approvals: bool = True,
        show: bool = False,
    ) -> bool:
        """Take the tools of one server, those that are ``allowed`` by their own names, or all, and ``show`` the client
        their list. Returns whether there is such a server, even if it is down. The operator's rule for approvals
        applies besides the request's; tools that need one are left out where the protocol cannot ask."""
        rule = approval or Approval()
        listed = []
        for tool in self._tools:
            if tool.server != label or (allowed is not None and tool.original not in allowed):
                continue
            asks = tool.approval or rule.needed(tool.original)
            if asks and not approvals:
                continue
            self._found[tool.name] = ServedTool(tool, "mcp", asks)
            function = tool.definition["function"]
            schema = function.get("parameters") or {"type": "object"}
            listed.append({"name": tool.original, "description": function.get("description"), "input_schema": schema})
        if show:
            self._listed.append(ToolsListed(label, tuple(listed), self._offer.listing.failures.get(label)))
        return label in self._offer.servers or label in self._offer.own

    def all(self, bounds: Bounds) -> ServerTools | None:
        """The tools that were taken; ``None`` if there are none, and no list of a server's tools is to be sent."""
        if not self._found and not self._listed:
            return None
        return ServerTools(
            tools=self._found,
            approvals=self._offer.approvals,
            clients=bool(self._taken),
            listed=tuple(self._listed),
            bounds=bounds,
        )

    def unknown(self, fields: Fields, field: str, label: str) -> BadRequest:
        """The error for a server that does not exist."""
        allowed = ", ".join(self._offer.servers) or "none: the server has no tools"
        return fields.wrong(field, f"{json_shown(label)} is not a tool server of this server; allowed are {allowed}")
