"""A tool server in this process with the tools that tests need, and a model that calls them on request."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from unspool.engines import Delta, Recording, Replay
from unspool.engines.capture import Asked
from unspool.tools import ServerTool, ToolResult, ToolServerError
from unspool.tools.base import Source, ToolKind

from .support import USAGE

TOOLS: dict[str, tuple[ToolKind, dict[str, str]]] = {
    "add": ("mcp", {"a": "integer", "b": "integer"}),
    "fail": ("mcp", {}),
    "crash": ("mcp", {}),
    "hang": ("mcp", {}),
    "flood": ("mcp", {}),
    "spell": ("mcp", {"text": "string"}),
    "guarded": ("mcp", {"a": "integer"}),
    "python": ("python", {"code": "string"}),
    "browser.search": ("browser", {"query": "string"}),
    "browser.open": ("browser", {"id": "string"}),
}


class Workshop:
    """A tool server and its own session.

    Attributes:
        calls: the names and arguments of the calls.
        most: the highest number of calls that ran at once.
        cancelled: how many calls were cancelled.
        opened, closed: how many sessions were opened and closed.
        down: why it lists no tools; empty if it does.
    """

    def __init__(self, label: str = "workshop", tools: Sequence[str] = tuple(TOOLS)) -> None:
        self.label = label
        self.names = tools
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.running = self.most = self.cancelled = self.opened = self.closed = 0
        self.down = ""
        self.hanging = asyncio.Event()

    async def list_tools(self) -> list[ServerTool]:
        if self.down:
            raise ToolServerError(self.down)
        return [self._tool(name) for name in self.names]

    def _tool(self, name: str) -> ServerTool:
        kind, parameters = TOOLS[name]
        schema = {
            "type": "object",
            "properties": {key: {"type": type_} for key, type_ in parameters.items()},
            "required": list(parameters),
        }
        function = {"name": name, "description": f"The tool {name}.", "parameters": schema}
        definition = {"type": "function", "function": function}
        approval = name == "guarded"
        return ServerTool(
            name=name, server=self.label, original=name, kind=kind, definition=definition, approval=approval
        )

    def session(self) -> "Workshop":
        self.opened += 1
        return self

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        given = json.loads(arguments)
        self.calls.append((tool.original, given))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            return await self._done(tool.original, given)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _done(self, name: str, given: dict[str, Any]) -> ToolResult:
        if name == "add":
            return ToolResult(text=f"sum={given['a'] + given['b']}")
        if name == "crash":
            raise RuntimeError("the tool's own fault")
        if name == "hang":
            await asyncio.Event().wait()
        if name == "flood":
            return ToolResult(text="flood " * 100_000)
        if name == "spell":
            return ToolResult(text=given["text"])
        if name == "guarded":
            return ToolResult(text=f"guarded={given['a']}")
        if name == "python":
            return ToolResult(text="printed=42")
        if name.startswith("browser"):
            source = Source(cursor=0, url="https://example.org/page", title="Page")
            return ToolResult(text="page=text", sources=(source,))
        return ToolResult(text="failed=yes", error=True)

    async def aclose(self) -> None:
        self.closed += 1


def call(name: str, **arguments: Any) -> str:
    """A call in the format of the model of these tests."""
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{written}\n</tool_call>"


def model(**answers: str) -> Replay:
    """A model that answers by the words of the last message; underscores are spaces. The longest matches come first."""
    found = []
    for words, raw in sorted(answers.items(), key=lambda item: -len(item[0])):
        pieces = [Delta(text=raw[i : i + 7]) for i in range(0, len(raw), 7)]
        pieces.append(Delta(finish_reason="stop", usage=USAGE))
        found.append(Recording(Asked(match=words.replace("_", " ")), tuple((0.0, p) for p in pieces)))
    return Replay(found, speed=0)
