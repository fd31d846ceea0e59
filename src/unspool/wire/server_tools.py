"""Tools that the server runs, as the wires write them: events beside those of the parser.

A loop runs the model, its calls, and the model again. All of it is one stream: `ServerCallStart` is in the
place of `ToolCallStart`, pieces of arguments and the call's end follow as for any call, and `ServerCallResult` comes
once the tool has run. Indexes of calls go on over all rounds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ..events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart

Form = Literal["mcp", "code_interpreter", "web_search"]
"""A tool as a client knows it, by the words of Responses, which has a kind of item for each."""

TOOL_LIMIT = "tool_limit"
"""The finish reason of an answer that a limit on the server's tools ended before the model did."""


class ToolsListed(msgspec.Struct, frozen=True):
    """What a tool server lists, sent before anything else.

    Attributes:
        server: its label.
        tools: for each the ``name``, the ``description`` and the ``input_schema``.
        error: why there are none.
    """

    server: str
    tools: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None


class ServerCallStart(msgspec.Struct, frozen=True):
    """A call that the server runs, or asks somebody to allow.

    Attributes:
        index, id: as of any call.
        name: the tool's, as its server calls it.
        server: the label of its server; empty where no server has such a tool.
        form: what the client knows it as.
        asks: whether somebody must allow it first.
        approval: the id of the request that allowed it, where it had to be; the call itself was sent then.
        called: what the model calls it, where that is another name: no other tool of the request has it.
    """

    index: int
    id: str
    name: str
    server: str
    form: Form = "mcp"
    asks: bool = False
    approval: str = ""
    called: str = ""


class ServerCallResult(msgspec.Struct, frozen=True):
    """The result of a call of the server.

    Attributes:
        index: the call's.
        text: what the model reads.
        error: whether it was refused, timed out or failed.
        urls: the pages that the text is from.
    """

    index: int
    text: str
    error: bool = False
    urls: tuple[str, ...] = ()


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A complete call waits for somebody to allow it; the answer ends without its result.

    Attributes:
        index: the call's.
        id: of the request, by which it is answered.
    """

    index: int
    id: str


ServerEvent = ToolsListed | ServerCallStart | ServerCallResult | ApprovalAsked
"""Any of them."""
AnyEvent = Event | ServerEvent
"""The events that a writer takes."""


class Clients:
    """One choice as a client sees it that knows nothing of the server's tools: its own calls alone, counted anew.

    Attributes:
        results: the server's calls that are over, in order of their results.
    """

    def __init__(self) -> None:
        self._indexes: dict[int, int] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self.results: list[dict[str, Any]] = []

    def take(self, events: Iterable[AnyEvent]) -> list[Event]:
        """The client's events among some."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, ServerCallStart):
                self._calls[event.index] = {"id": event.id, "name": event.name, "server": event.server}
                self._arguments[event.index] = []
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
                self._arguments[event.index].append(event.arguments)
            return None
        index = self._indexes.setdefault(event.index, len(self._indexes))
        return event if index == event.index else msgspec.structs.replace(event, index=index)

    def _result(self, event: ServerCallResult) -> None:
        call = self._calls[event.index]
        arguments = "".join(self._arguments.pop(event.index, ()))
        entry = {"index": len(self.results), **call, "arguments": arguments, "content": event.text}
        self.results.append({**entry, "is_error": event.error})
