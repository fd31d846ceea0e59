"""Events for tools that the server runs, in addition to the parser's.

A loop runs the model, its calls, and the model again. All of it is one stream: `ServerCallStart` replaces
`ToolCallStart`, pieces of arguments and the end of the call follow as for any call, and `ServerCallResult` comes when
the tool has run. The indexes of calls continue over all rounds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ..events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart

Form = Literal["mcp", "code_interpreter", "web_search"]
"""The form of a tool for clients, by the names of Responses, which has a type of item for each."""

TOOL_LIMIT = "tool_limit"  # the finish reason of an answer that ended because of a limit on the server's tools


class ToolsListed(msgspec.Struct, frozen=True):
    """The tools of a tool server, sent before anything else."""

    server: str  # the server's label
    tools: tuple[Mapping[str, Any], ...] = ()  # the ``name``, ``description`` and ``input_schema`` of each tool
    error: str | None = None  # why there are no tools


class ServerCallStart(msgspec.Struct, frozen=True):
    """A call that the server runs, or for which it asks approval."""

    # index, id: as for any call.
    index: int
    id: str
    name: str  # the tool's name on its server
    server: str  # the label of its server; empty if no server has such a tool
    form: Form = "mcp"  # its form for the client
    asks: bool = False  # whether it needs approval first
    approval: str = ""  # the id of the request that was approved, if there was one; the call itself was sent before
    called: str = ""  # the model's name for it if that is different; no other tool of the request has that name


class ServerCallResult(msgspec.Struct, frozen=True):
    """The result of a call that the server ran."""

    index: int  # the index of the call
    text: str  # the text for the model
    error: bool = False  # whether the call was refused, timed out or failed
    urls: tuple[str, ...] = ()  # the pages from which the text comes
    # The result as the model gets it, if that is more than the text, for protocols whose results have media: texts, and
    # the kind and the type of media, and their bytes in base64.
    parts: tuple[str | tuple[str, str, str], ...] = ()


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A complete call waits for approval; the answer ends without its result. Repeats the approval's id."""

    index: int
    id: str


ServerEvent = ToolsListed | ServerCallStart | ServerCallResult | ApprovalAsked  # any event of the server's tools
AnyEvent = Event | ServerEvent  # the events that a writer takes


class Clients:
    """One choice for a client without the server's tools: only its own calls, numbered from 0."""

    def __init__(self) -> None:
        self._indexes: dict[int, int] = {}
        self._calls: dict[int, tuple[ServerCallStart, list[str]]] = {}  # each with the pieces of its arguments
        self.results: list[dict[str, Any]] = []  # the server's calls that have ended, in the order of their results

    def take(self, events: Iterable[AnyEvent]) -> list[Event]:
        """Select the events for the client."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, ServerCallStart):
                self._calls[event.index] = event, []
            elif isinstance(event, ServerCallResult):
                self._result(event)
            elif isinstance(event, ToolsListed | ApprovalAsked):
                continue
            elif isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd):
                own = self._own(event)
                if own is not None:
                    found.append(own)
            else:
                found.append(event)
        return found

    def _own(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> Event | None:
        if event.index in self._calls:
            if isinstance(event, ToolCallDelta):
                self._calls[event.index][1].append(event.arguments)
            return None
        index = self._indexes.setdefault(event.index, len(self._indexes))
        return event if index == event.index else msgspec.structs.replace(event, index=index)

    def _result(self, event: ServerCallResult) -> None:
        call, arguments = self._calls[event.index]
        entry = {"index": len(self.results), "id": call.id, "name": call.name, "server": call.server}
        content = {"arguments": "".join(arguments), "content": event.text, "is_error": event.error}
        self.results.append({**entry, **content})
