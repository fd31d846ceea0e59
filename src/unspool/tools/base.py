"""The interface of tool servers: they list tools, and a session calls them.

A *server* lasts as long as the process, a *session* as long as one response. This module needs no extra.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

log: Final = logging.getLogger("unspool.tools")

ToolKind = Literal["mcp", "python", "browser"]  # the form in which a protocol shows a call


class ToolServerError(Exception):
    """A tool server cannot be reached, or violates its protocol. The message names the server and the fault."""


class ServerTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the server runs.

    Attributes:
        name: the name that the model sees: the server's own, with the label and ``__`` before it if names clash.
        server: the label of its tool server.
        original: the name that its server gave it.
        kind: the form in which a protocol shows its calls.
        definition: an OpenAI tool, ``{"type": "function", "function": {…}}``, with `name` as its name.
        approval: whether a person must allow each call.
    """

    name: str
    server: str
    original: str
    kind: ToolKind
    definition: Mapping[str, Any]
    approval: bool = False

    def renamed(self, name: str) -> "ServerTool":
        """The tool under another name."""
        function = {**self.definition["function"], "name": name}
        return msgspec.structs.replace(self, name=name, definition={**self.definition, "function": function})


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a browser showed: what a citation ``【cursor†L3-L5】`` refers to.

    Attributes:
        cursor: the number of the page for the model, within one session.
        url, title: the URL and the title of the page.
    """

    cursor: int
    url: str
    title: str


class ToolMedium(msgspec.Struct, frozen=True):
    """An image, a sound or a video in a result.

    Attributes:
        data: its bytes as the tool sent them: neither their type nor their size is checked.
        note: the words that stand for it in the result's text.
        start: where in the text they begin.
    """

    data: bytes
    note: str
    start: int = 0


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call. It is untrusted text; code that puts it into a prompt breaks up its special tokens.

    Attributes:
        text: the text for the model, of at most `ToolLimits.output` characters.
        error: whether the call was refused, timed out or failed; the text says why.
        media: its images, sounds and videos in order, for models that take them.
        sources: the pages that the text comes from.
    """

    text: str
    error: bool = False
    media: tuple[ToolMedium, ...] = ()
    sources: tuple[Source, ...] = ()


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a tool and its server.

    Attributes:
        time: seconds for one call.
        listing: seconds for connecting to a server and listing its tools.
        output: the most characters of one result.
        tools: the most tools that a server may list.
        schema: the most characters of one tool's definition as JSON.
        cache: seconds for which a listing is kept, unless its server says otherwise.
        memory: the most bytes of memory that an interpreter may use.
        message: the most bytes of one message of a tool server, or of one page.
        interpreters: the most interpreters that run at once.
    """

    time: float = 30.0
    listing: float = 10.0
    output: int = 65_536
    tools: int = 256
    schema: int = 65_536
    cache: float = 300.0
    memory: int = 268_435_456
    message: int = 4_194_304
    interpreters: int = 16

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if not getattr(self, field) > 0:
                raise ValueError(f"{field}: must be more than 0")


class Approval(msgspec.Struct, frozen=True):
    """Which calls a person must allow.

    Attributes:
        default: whether tools in neither list need approval.
        always, never: names of the tools that always need it, and of those that never do.
    """

    default: bool = False
    always: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()

    def needed(self, *names: str) -> bool:
        """Whether a call of a tool needs approval. A tool may have two names: its own, and the one with its server's
        label."""
        if not self.always.isdisjoint(names):
            return True
        return self.default and self.never.isdisjoint(names)

    @classmethod
    def read(cls, value: object) -> "Approval":
        """Read the rule from the form of ``require_approval`` in Responses.

        Args:
            value: ``"always"``, ``"never"``, or ``{"always": {"tool_names": […]}, "never": {"tool_names": […]}}``. With
                ``never``, tools in neither list need approval.

        Raises:
            ValueError: the value is wrong; the message says why, and what is allowed.
        """
        if value in ("always", "never"):
            return cls(value == "always")
        if not isinstance(value, Mapping) or not value or not set(value) <= {"always", "never"}:
            raise ValueError(
                'must be "always", "never", or {"always": {"tool_names": […]}, "never": {"tool_names": […]}}'
            )
        named: dict[str, frozenset[str]] = {}
        for key, listed in value.items():
            listed = listed.get("tool_names") if isinstance(listed, Mapping) else listed
            if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
                raise ValueError(f"{key}.tool_names: must be a list of names")
            named[key] = frozenset(listed)
        return cls("never" in named, named.get("always", frozenset()), named.get("never", frozenset()))


class ToolState(Protocol):
    """The state for one response, such as Python's variables or a browser's cursors."""

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        """Run a call to its end. Calls may run concurrently.

        A fault of the tool is a result, not an exception. Cancelling the call ends the work.

        Args:
            tool: a tool that the session's server lists.
            arguments: the JSON text of an object; for anything else the result is an error.
        """

    async def aclose(self) -> None:
        """End what the session holds. Further calls do nothing."""


class ToolServer(Protocol):
    """Runs tools: over MCP, in an interpreter, or in a browser."""

    @property
    def label(self) -> str:
        """The server's name, for the model and for clients."""

    async def list_tools(self) -> Sequence[ServerTool]:
        """The tools under their own names, from a cache while it is fresh.

        Raises:
            ToolServerError: the server cannot be reached or violates its protocol.
        """

    def session(self) -> ToolState:
        """A session for one response. It starts nothing before its first call."""

    async def aclose(self) -> None:
        """End the server's connections and children."""


def shortened(text: str, limit: int) -> str:
    """Shorten a text to ``limit`` characters (at least the note's), with a note that says what was left out."""
    if len(text) <= limit:
        return text
    note = f"\n[… {len(text):,} characters, cut at {limit:,} …]"
    return text[: max(0, limit - len(note))] + note


def own_tool(
    server: str, name: str, description: str, properties: Mapping[str, Any], required: list[str]
) -> ServerTool:
    """One of the built-in tools, ``python`` or those of the browser, such as ``browser.open``."""
    kind: ToolKind = "python" if name == "python" else "browser"
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    definition = {"type": "function", "function": function}
    return ServerTool(name=name, server=server, original=name, kind=kind, definition=definition)


def refused(text: str) -> ToolResult:
    """The result of a call that could not be run, or failed."""
    return ToolResult(text=text, error=True)


def read_arguments(arguments: str) -> dict[str, Any] | ToolResult:
    """The arguments of a call, or the result that says what is wrong with them."""
    try:
        found = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        return refused(f"The arguments are not JSON: {error}")
    if not isinstance(found, dict):
        return refused("The arguments must be a JSON object.")
    return found
