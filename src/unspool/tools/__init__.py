"""Tools that the server runs: over MCP, in an interpreter, or in a browser; see docs/en/tools.md."""

from .base import Approval, ServerTool, Session, Source, ToolLimits, ToolMedium, ToolResult, ToolServer, ToolServerError
from .collection import Listing, Tools, ToolsSession

__all__ = [
    "Approval",
    "Listing",
    "ServerTool",
    "Session",
    "Source",
    "ToolLimits",
    "ToolMedium",
    "ToolResult",
    "ToolServer",
    "ToolServerError",
    "Tools",
    "ToolsSession",
]
