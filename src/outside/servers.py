"""All servers of the file, and what they offer at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from src.base.mcp_file import CONNECT_SECONDS, END_SECONDS, MAX_ALL_TOOLS, McpServer
from src.base.metrics import Metrics

if TYPE_CHECKING:
    from src.outside.link import Link


@dataclass(frozen=True)
class ServerState:
    """How a server is.

    Attributes:
        name: Its name.
        is_ready: Whether its tools can be called.
        tools: Name and short description of each that is offered, as people may read them.
        left_out: How many of its tools are not offered: odd ones, or too many.
        cause: Why it is away; empty while it is there, or not known yet.
    """

    name: str
    is_ready: bool
    tools: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
    cause: str = ""


class McpServers:
    """Looks after the servers, each in a task of its own; none of them is ever waited for."""

    def __init__(self, servers: Sequence[McpServer], metrics: Metrics) -> None:
        """Nothing starts yet, and nothing of the protocol is imported."""
        self._servers = servers
        self._metrics = metrics
        self._links: list[Link] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._offered: tuple[tuple[BaseTool, ...], ...] = ()
        self._all: tuple[BaseTool, ...] = ()
        self._begun = asyncio.Event()

    def start(self) -> None:
        """Begin to look after them; the event loop runs."""
        if self._servers and not self._tasks:
            self._tasks = [asyncio.create_task(self._begin())]

    async def close(self) -> None:
        """End the sessions and the processes."""
        tasks, self._tasks = self._tasks, []
        for _ in range(2):  # the second time, what is waited for in ending is given up too
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=END_SECONDS * 2)

    def tools(self) -> tuple[BaseTool, ...]:
        """What is there now, by server and name; the same object as long as it is the same."""
        offered = tuple(link.tools for link in self._links)
        if len(offered) != len(self._offered) or any(
            now is not before for now, before in zip(offered, self._offered, strict=True)
        ):
            self._offered = offered
            every = (tool for tools in offered for tool in tools)
            self._all = tuple(islice(every, MAX_ALL_TOOLS))
        return self._all

    def states(self) -> list[ServerState]:
        """How each server is, by name."""
        if not self._links:
            return [ServerState(server.name, is_ready=False) for server in self._servers]
        return [_state(link) for link in self._links]

    async def settled(self) -> None:
        """Return once each has arrived or failed, at the latest when that has taken too long."""
        if not self._servers:
            return
        self.start()
        await self._begun.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS + END_SECONDS):
                for link in self._links:
                    await link.settled.wait()

    async def _begin(self) -> None:
        """Import the protocol beside the loop, and look after each server."""
        link_type = await asyncio.to_thread(_import)
        self._links = [link_type(server, self._metrics) for server in self._servers]
        self._begun.set()
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(link.run())


def _import() -> type[Link]:
    """The class, whose packages take a second to import."""
    from src.outside.link import Link

    return Link


def _state(link: Link) -> ServerState:
    prefix = f"{link.server.name}__"
    tools = tuple(
        (tool.name.removeprefix(prefix), str((tool.metadata or {}).get("title", "")))
        for tool in link.tools
    )
    return ServerState(link.server.name, link.is_ready, tools, link.left_out, link.cause)
