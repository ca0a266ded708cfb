"""All servers of the file, and what they offer at the moment.

The protocol's sessions are made of cancel scopes, which have to be left in the task in which they
were entered. So each server has one task that opens its session, looks after it, closes it, and
opens another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from src.base import mcp_file as limits
from src.base.errors import ToolCallError
from src.base.mcp_file import McpServer
from src.base.metrics import Metrics

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from src.outside.sessions import Session

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerState:
    """How a server is.

    Attributes:
        name: Its name.
        is_ready: Whether its tools can be called.
        tools: The name of each that is offered; empty for one that no plain name has.
        left_out: How many of its tools are not offered: odd ones, or too many.
        cause: Why it is away; empty while it is there, or not known yet.
    """

    name: str
    is_ready: bool
    tools: tuple[str, ...] = ()
    left_out: int = 0
    cause: str = ""


class Link:
    """One server.

    Attributes:
        tools: What it offers now.
        settled: Set when the first attempt has ended, this way or that.
    """

    def __init__(self, server: McpServer, metrics: Metrics) -> None:
        """Nothing is opened before ``run``."""
        self.tools: tuple[BaseTool, ...] = ()
        self.settled = asyncio.Event()
        self._server = server
        self._metrics = metrics
        self._left_out = 0
        self._cause = ""
        self._session: Session | None = None

    @property
    def state(self) -> ServerState:
        """How it is now."""
        tools = tuple((tool.metadata or {}).get("plain_name", "") for tool in self.tools)
        is_ready = self._session is not None and not self._session.over.is_set()
        return ServerState(self._server.name, is_ready, tools, self._left_out, self._cause)

    async def run(self) -> None:
        """Keep a session open, until cancelled."""
        await asyncio.to_thread(import_module, "src.outside.sessions")  # it takes a second
        pause = limits.FIRST_PAUSE
        while True:
            start = time.monotonic()
            await self._serve()
            if time.monotonic() - start > limits.MAX_PAUSE:
                pause = limits.FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(limits.MAX_PAUSE, pause * 2)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool by its own name.

        Raises:
            ToolCallError: It did not answer in time, or with nonsense, or is away.
        """
        result = "cancelled"
        try:
            if self._session is None:
                raise ToolCallError("away", "is away now")
            answer = await self._session.call(tool, arguments, self._server.timeout)
            result = "error" if answer.isError else "ok"
            return answer
        except ToolCallError as error:
            result = error.result
            if result != "error":
                ids = {"server": self._server.name, "result": result}
                logger.warning("a call of a server's tool failed", extra=ids)
            raise
        finally:
            self._metrics.tool_calls.labels(self._server.name, result).inc()

    async def _serve(self) -> None:
        """Open one session, and return when it is over."""
        from src.outside.sessions import ENDED, describe, open_session

        cause = ""
        try:
            async with (
                asyncio.timeout(limits.CONNECT_SECONDS) as limit,
                open_session(self._server) as session,
            ):
                await session.initialize()
                await self._list(session)
                limit.reschedule(None)
                self._session, self._cause = session, ""
                self.settled.set()
                self._tell("a server's tools are there")
                await self._watch(session)
            cause = ENDED
        except Exception as error:  # noqa: BLE001  (the edge of a link: another attempt follows)
            cause = describe(error)
        finally:
            self._leave(cause)

    async def _watch(self, session: Session) -> None:
        """List its tools again when they changed, ask for signs of life; return at its end."""
        while not session.over.is_set():
            await _wait(session.wake, limits.PING_SECONDS)
            session.wake.clear()
            if session.has_changed:
                session.has_changed = False
                async with asyncio.timeout(limits.CONNECT_SECONDS):
                    await self._list(session)
                self._tell("the tools of a server changed")
                await _wait(session.over, limits.RELIST_SECONDS)  # it may say so all the time
            elif not session.running:  # some servers do one thing at a time
                async with asyncio.timeout(limits.ANSWER_SECONDS):
                    await session.ping()

    async def _list(self, session: Session) -> None:
        from src.outside.tools import usable_tools

        listed = await session.listed()
        tools, refused = await asyncio.to_thread(
            usable_tools, self._server, listed[: limits.MAX_LISTED], session, self.call
        )
        self.tools = tools
        self._left_out = refused + max(0, len(listed) - limits.MAX_LISTED)

    def _tell(self, event: str) -> None:
        ids = {"server": self._server.name, "tools": len(self.tools), "left_out": self._left_out}
        logger.info(event, extra=ids)

    def _leave(self, cause: str) -> None:
        """Its tools are gone; a cause is said once, until there is another."""
        if cause and cause != self._cause:
            ids = {"server": self._server.name, "cause": cause}
            logger.warning("a server's tools are away", extra=ids)
        self._cause, self._session = cause, None
        self.tools, self._left_out = (), 0
        self.settled.set()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until it is set, for some seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class McpServers:
    """Looks after the servers, each in a task of its own; none of them is ever waited for."""

    def __init__(self, servers: Sequence[McpServer], metrics: Metrics) -> None:
        """Nothing starts yet, and nothing of the protocol is imported."""
        self._links = [Link(server, metrics) for server in servers]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to look after them; the event loop runs."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(link.run()) for link in self._links]

    async def close(self) -> None:
        """End the sessions and the processes."""
        tasks, self._tasks = self._tasks, []
        for _ in range(2):  # the second time, what is waited for in ending is given up too
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=limits.END_SECONDS * 3)

    def tools(self) -> tuple[BaseTool, ...]:
        """What is there now, by server and name."""
        every = (tool for link in self._links for tool in link.tools)
        return tuple(islice(every, limits.MAX_ALL_TOOLS))

    def states(self) -> list[ServerState]:
        """How each server is, by name."""
        return [link.state for link in self._links]

    async def settled(self) -> None:
        """Return once each has arrived or failed, at the latest when that has taken too long."""
        self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.CONNECT_SECONDS + 2 * limits.END_SECONDS):
                for link in self._links:
                    await link.settled.wait()
