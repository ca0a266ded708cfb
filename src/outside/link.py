"""The link to one server: opened, looked after, opened again, closed, all in one task.

The protocol's sessions are made of cancel scopes, which have to be left in the task in which they
were entered. So one task opens the session and stays in it; calls come from other tasks, and none
of them outlives the session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
from langchain_core.tools import BaseTool
from mcp import ClientSession, McpError, types
from pydantic import BaseModel, ValidationError

from src.base import mcp_file as limits
from src.base.errors import ToolServerError
from src.base.mcp_file import McpServer
from src.base.metrics import Metrics
from src.outside.sessions import TOO_LONG, open_process
from src.outside.tools import usable_tools

logger = logging.getLogger(__name__)

CLIENT = types.Implementation(name="pomni", version="1")
# What the SDK says when the session is over: its end of the connection, a server that forgot it.
OVER_CODES = (types.CONNECTION_CLOSED, 32600, -32600)
ENDED = "it ended"
SILENT = "it does not answer"


class _AwayError(Exception):
    """There is no session."""


GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
FAILURES = (TimeoutError, ValidationError, McpError, _AwayError, *GONE)


class _Page(BaseModel):
    """A page of a list of tools, none of which is looked at yet."""

    tools: list[Any]
    nextCursor: str | None = None


class Link:
    """One server.

    Attributes:
        tools: What it offers now.
        left_out: How many of its tools are not among them.
        cause: Why it is away; empty while it is there, and before the first attempt has ended.
    """

    def __init__(self, server: McpServer, metrics: Metrics) -> None:
        """Nothing is opened before ``run``."""
        self.server = server
        self.tools: tuple[BaseTool, ...] = ()
        self.left_out = 0
        self.cause = ""
        self.is_ready = False
        self.settled = asyncio.Event()  # the first attempt has ended, this way or that
        self._metrics = metrics
        self._session: ClientSession | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._running = 0  # calls that somebody waits for
        self._over = asyncio.Event()
        self._wake = asyncio.Event()
        self._has_changed = False

    async def run(self) -> None:
        """Keep the session open, until cancelled."""
        pause = limits.FIRST_PAUSE
        while True:
            start = time.monotonic()
            await self.serve()
            if time.monotonic() - start > limits.MAX_PAUSE:
                pause = limits.FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(limits.MAX_PAUSE, pause * 2)

    async def serve(self) -> None:
        """Open one session, and return when it is over; ``cause`` says why."""
        cause = ""
        try:
            await self._stay()
            cause = ENDED
        except Exception as error:  # noqa: BLE001  (the edge of a link: another attempt follows)
            cause = ENDED if self._over.is_set() else describe(error)
        finally:
            self._leave(cause)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool by its own name; the server is told when nobody waits any more.

        Raises:
            ToolServerError: It did not answer in time, or with nonsense, or is away.
        """
        result, over = "cancelled", self._over
        try:
            answer = await self._call(tool, arguments)
            result = "error" if answer.isError else "ok"
            return answer
        except FAILURES as error:
            result, problem = self._judge(error, over)
            if result != "error":
                ids = {"server": self.server.name, "result": result}
                logger.warning("a call of a server's tool failed", extra=ids)
            raise ToolServerError(f"the outside server {problem}") from None
        finally:
            self._metrics.tool_calls.labels(self.server.name, result).inc()

    def _judge(self, error: Exception, over: asyncio.Event) -> tuple[str, str]:
        """What became of a call, in a word and in words; the end of its session is noted."""
        match error:
            case TimeoutError():
                self._wake.set()  # is it there at all?
                return "timeout", f"did not answer within {self.server.timeout:g} seconds"
            case ValidationError():
                return "error", "answered with nonsense"
            case McpError() if error.error.code == TOO_LONG:
                return "error", "answered too much"
            case McpError() if error.error.code not in OVER_CODES:
                return "error", f"refused the call (code {error.error.code})"
        if not isinstance(error, _AwayError):
            over.set()
        return "away", "is away now"

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        session = self._session
        if session is None or self._over.is_set():
            raise _AwayError
        number = -1

        async def ask() -> types.CallToolResult:
            nonlocal number
            params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
            request = types.ClientRequest(types.CallToolRequest(params=params))
            number = session._request_id  # the one that it is about to take
            return await session.send_request(request, types.CallToolResult)

        task = self._track(ask())
        self._running += 1
        try:
            await asyncio.wait((task,), timeout=self.server.timeout)
            if not task.done():
                raise TimeoutError
            if task.cancelled():
                raise _AwayError
            answer: types.CallToolResult = task.result()
            return answer
        finally:
            self._running -= 1
            if not task.done():
                task.cancel()
                if number >= 0:
                    self._track(self._give_up(session, number))

    async def _give_up(self, session: ClientSession, number: int) -> None:
        """Tell the server that nobody waits for the answer to a request."""
        params = types.CancelledNotificationParams(requestId=number, reason="nobody waits")
        notification = types.CancelledNotification(params=params)
        with (
            suppress(*GONE),
            anyio.move_on_after(limits.ANSWER_SECONDS),
        ):
            await session.send_notification(types.ClientNotification(notification))

    def _track(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run it as a task that does not outlive the session."""
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _stay(self) -> None:
        self._over, self._wake, self._has_changed = asyncio.Event(), asyncio.Event(), False
        async with _within(limits.CONNECT_SECONDS) as scope, self._open() as session:
            await session.initialize()
            await self._list(session)
            scope.deadline = float("inf")
            self._arrive(session)
            while await self._wait():
                await self._look(session)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ClientSession]:
        options: dict[str, Any] = {"message_handler": self._hear, "client_info": CLIENT}
        if self.server.transport == "stdio":
            async with (
                open_process(self.server, self._over) as streams,
                ClientSession(*streams, **options) as session,
            ):
                yield session
            return
        from src.outside.sessions import open_http

        async with open_http(self.server, options) as session:
            yield session

    async def _hear(self, message: Any) -> None:
        """What the server says unasked; of all that, only a change of its tools matters."""
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self._has_changed = True
            self._wake.set()

    async def _list(self, session: ClientSession) -> None:
        listed: list[Any] = []
        cursor: str | None = None
        for _ in range(limits.MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            page = await session.send_request(request, _Page)
            listed += page.tools
            cursor = page.nextCursor
            if not cursor or len(listed) > limits.MAX_LISTED:
                break
        left_out = max(0, len(listed) - limits.MAX_LISTED)
        tools, refused = await asyncio.to_thread(
            usable_tools, self.server, listed[: limits.MAX_LISTED], session, self.call
        )
        self.tools, self.left_out = tools, refused + left_out

    async def _first(self, *events: asyncio.Event, seconds: float) -> None:
        """Until one of the events is set, or some seconds are over."""
        waits = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _wait(self) -> bool:
        """Until there is something to look at; False when the session is over."""
        if self._has_changed:  # lately; a server that says so all the time is not heard each time
            await self._first(self._over, seconds=limits.RELIST_SECONDS)
        await self._first(self._over, self._wake, seconds=limits.PING_SECONDS)
        return not self._over.is_set()

    async def _look(self, session: ClientSession) -> None:
        """List its tools again when it says that they changed, else ask for a sign of life."""
        self._wake.clear()
        if self._has_changed:
            self._has_changed = False
            async with _within(limits.CONNECT_SECONDS):
                await self._list(session)
            self._tell("the tools of a server changed")
            return
        if self._running:  # some servers do one thing at a time
            return
        try:
            async with _within(limits.ANSWER_SECONDS):
                await session.send_ping()
        except McpError as error:
            if error.error.code in OVER_CODES:
                raise ToolServerError(ENDED) from None

    def _arrive(self, session: ClientSession) -> None:
        self._session = session
        self.is_ready, self.cause = True, ""
        self.settled.set()
        self._tell("a server's tools are there")

    def _tell(self, event: str) -> None:
        logger.info(
            event,
            extra={
                "server": self.server.name, "tools": len(self.tools), "left_out": self.left_out,
            },
        )  # fmt: skip

    def _leave(self, cause: str) -> None:
        """Its tools are gone; a cause is said once, until there is another."""
        if cause and cause != self.cause:
            logger.warning(
                "a server's tools are away", extra={"server": self.server.name, "cause": cause}
            )
        self.cause, self.is_ready = cause, False
        self.tools, self.left_out, self._session = (), 0, None
        for task in self._calls:
            task.cancel()
        self.settled.set()


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[anyio.CancelScope]:
    """``anyio.fail_after`` with a sentence of ours.

    Raises:
        ToolServerError: It took longer.
    """
    try:
        with anyio.fail_after(seconds) as scope:
            yield scope
    except TimeoutError:
        raise ToolServerError(SILENT) from None


def describe(error: BaseException) -> str:
    """Why a session ended, without a word of the server's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolServerError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answers with HTTP {error.response.status_code}"
    if isinstance(error, httpx.ConnectError):
        return "nobody listens at its address"
    if isinstance(error, GONE):
        return ENDED
    if isinstance(error, McpError):
        return ENDED if error.error.code in OVER_CODES else "it refuses the session"
    return f"it cannot be used ({type(error).__name__})"
