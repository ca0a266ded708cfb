"""Connections to all configured MCP servers and the tools that they offer now.

The SDK's sessions consist of cancel scopes, which must be left in the task that entered them. So
each server has one task that opens its session, watches it, closes it and opens the next one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from src.base import mcp_file as limits
from src.base.errors import ToolCallError
from src.base.metrics import Metrics

if TYPE_CHECKING:
    from mcp import ClientSession

    from src.outside.sessions import ToolReply

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerState:
    """State of one server.

    Attributes:
        name: Name of the server.
        is_ready: True if its tools can be called.
        tools: Plain names of the offered tools; "" for a tool whose name had to be changed.
        left_out: Number of its tools that are not offered: invalid ones, or too many.
        cause: Why it is unavailable; empty while it is ready or not known yet.
    """

    name: str
    is_ready: bool
    tools: tuple[str, ...] = ()
    left_out: int = 0
    cause: str = ""


class ServerConnection:
    """Connection to one server, kept open until cancelled.

    Attributes:
        tools: Tools that the server offers now.
        settled: Set when the first attempt to connect has succeeded or failed.
    """

    def __init__(self, server: limits.McpServer, metrics: Metrics) -> None:
        """Open nothing before ``run``."""
        self.tools: tuple[BaseTool, ...] = ()
        self.settled = asyncio.Event()
        self._server = server
        self._metrics = metrics
        self._left_out = 0
        self._cause = ""
        self._session: ClientSession | None = None
        self._calls = 0  # running ones
        self._over = asyncio.Event()  # the session has ended
        self._wake = asyncio.Event()  # there is something to do for the watching task
        self._has_changed = False

    @property
    def state(self) -> ServerState:
        """Current state of the server."""
        tools = tuple((tool.metadata or {}).get("plain_name", "") for tool in self.tools)
        is_ready = self._session is not None
        return ServerState(self._server.name, is_ready, tools, self._left_out, self._cause)

    async def run(self) -> None:
        """Keep a session open until cancelled; reconnect with growing pauses."""
        await asyncio.to_thread(import_module, "src.outside.sessions")  # takes a second
        pause = limits.FIRST_PAUSE
        while True:
            start = time.monotonic()
            await self._run_session()
            if time.monotonic() - start > limits.MAX_PAUSE:
                pause = limits.FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(limits.MAX_PAUSE, pause * 2)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool by the server's name for it.

        Raises:
            ToolCallError: The server is unavailable or timed out.
        """
        result = "cancelled"
        self._calls += 1
        try:
            reply = await self._call(tool, arguments)
            result = "ok"
            if reply.isError:
                result = "error"
            return reply
        except ToolCallError as error:
            result = error.result
            ids = {"server": self._server.name, "result": result}
            logger.warning("a call of a server's tool failed", extra=ids)
            raise
        finally:
            self._calls -= 1
            self._metrics.tool_calls.labels(self._server.name, result).inc()

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Wait for the reply, the end of the session or the time-out, whichever comes first."""
        if self._session is None:
            raise ToolCallError("away")
        from src.outside.sessions import call_tool

        seconds = self._server.timeout
        reply = asyncio.ensure_future(call_tool(self._session, tool, arguments))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((reply, over), timeout=seconds, return_when="FIRST_COMPLETED")
            if reply.done():
                return reply.result()
        except ToolCallError as error:
            if error.result == "away":
                self._end()
            raise
        finally:
            reply.cancel()
            over.cancel()
        if self._over.is_set():
            raise ToolCallError("away")
        self._wake.set()  # have the server pinged
        raise ToolCallError("timeout", f"did not answer within {seconds:g} seconds")

    def _end(self) -> None:
        self._session = None
        self._over.set()
        self._wake.set()

    async def _run_session(self) -> None:
        from src.outside.sessions import ENDED, describe, open_session

        cause = ""
        self._over = asyncio.Event()

        def note_change() -> None:
            self._has_changed = True
            self._wake.set()

        try:
            async with (
                asyncio.timeout(limits.CONNECT_SECONDS) as limit,
                open_session(self._server, on_change=note_change, on_break=self._end) as session,
            ):
                await self._load_tools(session)
                limit.reschedule(None)
                self._session, self._cause = session, ""
                self.settled.set()
                self._log_tools("a server's tools are there")
                await self._watch_session(session)
            cause = ENDED
        except Exception as error:  # noqa: BLE001  (``run`` makes another attempt)
            cause = describe(error)
        finally:
            if cause and cause != self._cause:  # log a cause once until it changes
                ids = {"server": self._server.name, "cause": cause}
                logger.warning("a server's tools are away", extra=ids)
            self._end()
            self._cause, self.tools, self._left_out = cause, (), 0
            self.settled.set()

    async def _watch_session(self, session: ClientSession) -> None:
        """Reload the tools when they change and ping an idle server, until the session ends."""
        from src.outside.sessions import ping

        while not self._over.is_set():
            await _wait_for(self._wake, limits.PING_SECONDS)
            self._wake.clear()
            if self._has_changed:
                self._has_changed = False
                async with asyncio.timeout(limits.CONNECT_SECONDS):
                    await self._load_tools(session)
                self._log_tools("the tools of a server changed")
                await _wait_for(self._over, limits.RELIST_SECONDS)  # limits the reloads
            elif not self._calls:  # some servers handle one request at a time
                async with asyncio.timeout(limits.ANSWER_SECONDS):
                    await ping(session)

    async def _load_tools(self, session: ClientSession) -> None:
        from src.outside.sessions import fetch_tools
        from src.outside.tools import adapt_tools

        entries = await fetch_tools(session)
        tools, unusable = await asyncio.to_thread(
            adapt_tools, self._server, entries[: limits.MAX_LISTED], session, self.call
        )
        self.tools = tools
        self._left_out = unusable + max(0, len(entries) - limits.MAX_LISTED)

    def _log_tools(self, event: str) -> None:
        ids = {"server": self._server.name, "tools": len(self.tools), "left_out": self._left_out}
        logger.info(event, extra=ids)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class McpServers:
    """All configured servers, each served by a task of its own; no caller waits for them."""

    def __init__(self, servers: Sequence[limits.McpServer], metrics: Metrics) -> None:
        """Start nothing yet, and import nothing of the protocol."""
        self._connections = [ServerConnection(server, metrics) for server in servers]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks; needs a running event loop."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(one.run()) for one in self._connections]

    async def close(self) -> None:
        """End the sessions and the processes."""
        tasks, self._tasks = self._tasks, []
        for _ in range(2):  # the second cancel also ends waits within the cleanup
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=limits.END_SECONDS * 3)

    def tools(self) -> tuple[BaseTool, ...]:
        """Return the tools available now, ordered by server and name."""
        tools = (tool for connection in self._connections for tool in connection.tools)
        return tuple(tools)[: limits.MAX_ALL_TOOLS]

    def states(self) -> list[ServerState]:
        """Return the state of each server, ordered by name."""
        return [connection.state for connection in self._connections]

    async def wait_until_connected(self) -> None:
        """Wait until each server has connected or failed, or the time for that is over."""
        self.start()
        seconds = limits.CONNECT_SECONDS + 2 * limits.END_SECONDS
        await asyncio.gather(*(_wait_for(one.settled, seconds) for one in self._connections))
