"""A well-behaved MCP server on the official SDK: on stdio, or at [PORT [TRANSPORT]].

The transport ``resumable`` is streamable-http with event ids.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.streamable_http import EventStore
from mcp.types import EmbeddedResource, TextResourceContents


class Store(EventStore):
    """Event store that numbers events and replays none."""

    async def store_event(self, stream_id: str, message: Any) -> str:
        return os.urandom(4).hex()

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> None:
        return None


server = FastMCP(
    "good", host="127.0.0.1", port=int(sys.argv[1]) if sys.argv[1:] else 8000,
    event_store=Store() if "resumable" in sys.argv else None,
)  # fmt: skip
running: set[str] = set()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


@server.tool()
async def wait(ctx: Context) -> str:
    """Wait for ever."""
    running.add("wait")
    try:
        await asyncio.Event().wait()
    finally:
        running.discard("wait")
    return "never"


@server.tool()
async def die(ctx: Context) -> str:
    """Die with the answer begun."""
    await ctx.info("dying")
    await asyncio.sleep(0.3)
    os._exit(1)


@server.tool()
async def meet(name: str) -> str:
    """Answer when another one is here too."""
    running.add(name)
    async with asyncio.timeout(10):
        while len(running) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return f"met {name}"


@server.tool()
def huge() -> str:
    """Say too much."""
    return "x" * 20_000_000


@server.tool(structured_output=False)
def show() -> list[Any]:
    """Show everything."""
    resource = TextResourceContents(uri="file:///a", text="a text")
    return [
        "words", Image(data=base64.b64decode("iVBORw0KGgo="), format="png"),
        EmbeddedResource(type="resource", resource=resource),
    ]  # fmt: skip


@server.tool()
async def grow(ctx: Context) -> str:
    """Get another tool."""
    server.add_tool(lambda: "new", name="newcomer", description="New.")
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    transport: Any = ["stdio", "streamable-http", *sys.argv[2:]][len(sys.argv) - 1]
    server.run("streamable-http" if transport == "resumable" else transport)
