"""A server made with the MCP SDK: ``python sdk_server.py stdio`` or ``… sse|streamable-http PORT``."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
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
def paint(colors: list[int]) -> list[str | Image]:
    """Small images in shades of gray, each after its name; a shade below zero is no image."""
    return [part for color in colors for part in (f"Shade {color}:", Image(data=image_of(color), format="png"))]


def image_of(color: int) -> bytes:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.media import png

    return png(color=color) if color >= 0 else b"no image"


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
