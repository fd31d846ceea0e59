"""A tool server in this process with the tools that tests need, and a model that calls them on request."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from unspool.engines import Replay
from unspool.tools import ServerTool, ToolResult, ToolServerError
from unspool.tools.base import Source, ToolKind

from .support import recorded

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
        properties = {key: {"type": type_} for key, type_ in parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(parameters)}
        function = {"name": name, "description": f"The tool {name}.", "parameters": schema}
        return ServerTool(
            name=name,
            original=name,
            server=self.label,
            kind=kind,
            approval=name == "guarded",
            definition={"type": "function", "function": function},
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
        if name == "crash":
            raise RuntimeError("the tool's own fault")
        if name == "hang":
            await asyncio.Event().wait()
        if name.startswith("browser"):
            source = Source(cursor=0, url="https://example.org/page", title="Page")
            return ToolResult(text="page=text", sources=(source,))
        results: dict[str, Callable[[], str]] = {
            "add": lambda: f"sum={given['a'] + given['b']}",
            "flood": lambda: "flood " * 100_000,
            "spell": lambda: str(given["text"]),
            "guarded": lambda: f"guarded={given['a']}",
            "python": lambda: "printed=42",
        }
        if name in results:
            return ToolResult(text=results[name]())
        return ToolResult(text="failed=yes", error=True)

    async def aclose(self) -> None:
        self.closed += 1


def call(name: str, **arguments: Any) -> str:
    """A call in the format of the model of these tests."""
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{written}\n</tool_call>"


def model(**answers: str) -> Replay:
    """A model that answers by the words of the last message; underscores are spaces. The longest matches come first."""
    found = sorted(answers.items(), key=lambda item: -len(item[0]))
    cut = [([raw[i : i + 7] for i in range(0, len(raw), 7)], words.replace("_", " ")) for words, raw in found]
    return Replay([recorded(pieces, words) for pieces, words in cut], speed=0)
