"""Tools that the server runs: over MCP, in an interpreter, or in a browser; see docs/en/tools.md."""

from .base import (
    Approval,
    ServerTool,
    Source,
    ToolLimits,
    ToolMedium,
    ToolResult,
    ToolServer,
    ToolServerError,
    ToolState,
)
from .collection import Listing, Tools, ToolsSession

__all__ = [
    "Approval",
    "Listing",
    "ServerTool",
    "Source",
    "ToolLimits",
    "ToolMedium",
    "ToolResult",
    "ToolServer",
    "ToolServerError",
    "ToolState",
    "Tools",
    "ToolsSession",
]
