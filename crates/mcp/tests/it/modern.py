"""A server made with PyPI `mcp`, which speaks the stateless protocol too: `modern.py stdio|streamable-http`."""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fails() -> str:
    """Always fails."""
    raise ToolError("out of stock")


def later() -> str:
    """Comes later."""
    return "here"


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool."""
    server.add_tool(later)
    await context.notify_tools_changed()
    return "grown"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=0)
