"""A server made with the MCP SDK: ``python sdk_server.py stdio`` or ``… sse|streamable-http PORT``."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("calculator")
calls = 0


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def count() -> int:
    """How often this process was asked."""
    global calls
    calls += 1
    return calls


@server.tool()
def environment() -> list[str]:
    """The names of the environment's variables."""
    return sorted(os.environ)


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def big(characters: int) -> str:
    """Much text."""
    return "x" * characters


@server.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
async def change(context: Context) -> str:
    """Have one tool more."""
    server.add_tool(lambda: "new", name="newcomer", description="New.")
    await context.session.send_tool_list_changed()
    return "changed"


if __name__ == "__main__":
    transport, *port = sys.argv[1:]
    if transport == "stdio":
        server.run("stdio")
    else:
        server.run(transport, port=int(port[0]))  # type: ignore[call-overload]
