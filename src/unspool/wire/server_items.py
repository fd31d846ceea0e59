"""Items of Responses for the server's tools: MCP calls, calls of the interpreter, calls of the browser."""

from typing import Any, Final

from ..validation import json_object
from .server_tools import Form, ServerCallResult, ServerCallStart

_KINDS: Final[dict[Form, tuple[str, str]]] = {
    "mcp": ("mcp_call", ""),
    "code_interpreter": ("code_interpreter_call", "interpreting"),
    "web_search": ("web_search_call", "searching"),
}
"""For each form: the item's type, and the event of a running call."""


class ServerItem:
    """One call, from its start to its result.

    Attributes:
        start: the event that opened it.
        kind: the item's type, which gives its events their names.
        runs: the last word of the event of a running call.
        streams: whether its arguments are sent as they come; otherwise the item opens with all of them.
        arguments: the pieces of its arguments.
        at, id: the item's index and id, once it is open.
    """

    __slots__ = ("arguments", "at", "id", "kind", "runs", "start", "streams")

    def __init__(self, start: ServerCallStart) -> None:
        self.start = start
        self.kind, self.runs = _KINDS[start.form]
        self.streams = start.form == "mcp" and not start.asks
        self.arguments: list[str] = []
        self.at = -1
        self.id = ""

    @property
    def text(self) -> str:
        return "".join(self.arguments)

    @property
    def code(self) -> str:
        """The code of an interpreter call, whatever the argument's name."""
        values = [v for v in self._values().values() if isinstance(v, str)]
        return values[0] if len(values) == 1 else self.text

    def item(self, status: str, result: ServerCallResult | None = None) -> dict[str, Any]:
        """The item with a status in the protocol's words, and with the result once the call has ended."""
        fields: dict[str, Any] = {"type": self.kind, "id": self.id, "status": status}
        if self.start.form == "code_interpreter":
            logs = None if result is None else [{"type": "logs", "logs": result.text}]
            return {**fields, "code": self.code, "container_id": f"cntr_{self.id}", "outputs": logs}
        if self.start.form == "web_search":
            return {**fields, "action": self._action(result)}
        fields |= {"server_label": self.start.server, "name": self.start.name, "arguments": self.text}
        fields |= {"approval_request_id": self.start.approval or None, "output": None, "error": None}
        if result is not None and result.error:
            fields["error"] = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result.text}]}
        elif result is not None:
            fields["output"] = result.text
        return fields

    def _action(self, result: ServerCallResult | None) -> dict[str, Any]:
        """The browser's action, by the last word of the tool's name."""
        given = self._values()
        texts = [v for v in given.values() if isinstance(v, str)]
        urls = result.urls if result is not None else ()
        if self.start.name.endswith("find"):
            pattern = given.get("pattern", texts[0] if texts else "")
            return {"type": "find_in_page", "pattern": str(pattern), "url": urls[0] if urls else ""}
        if self.start.name.endswith("open"):
            asked = next((t for t in texts if "://" in t), None)
            return {"type": "open_page", "url": urls[0] if urls else asked}
        query = str(given.get("query", texts[0] if texts else ""))
        sources = [{"type": "url", "url": url} for url in urls]
        return {"type": "search", "query": query, "queries": [query], **({"sources": sources} if sources else {})}

    def _values(self) -> dict[str, Any]:
        return json_object(self.text) or {}  # the tool refuses what is none, and its result says so
