"""A session with one server on the official SDK, over stdio or HTTP, of which nothing is endless.

Only this module and ``tools`` import the protocol's packages.
"""

import asyncio
import json
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import which
from typing import Any, cast

import anyio
import httpx
from mcp import ClientSession, McpError, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import McpHttpClientFactory
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ValidationError

from src.base import mcp_file as limits
from src.base.errors import ToolCallError, ToolServerError
from src.base.mcp_file import McpServer

CLIENT = types.Implementation(name="pomni", version="1")
GUARD = Path(__file__).with_name("guard.py")
TOO_LONG = -32_001  # a JSON-RPC code of our own, within the range for such
CHUNK = 65_536  # bytes
STREAM_SECONDS = 86_400.0  # without a word from the stream in which a server may speak by itself
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
# What the SDK says when the session is over: its end of the connection, a server that forgot it.
OVER_CODES = (types.CONNECTION_CLOSED, 32600, -32600)
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
ENDED = "it ended"
# Why a session ended; what is more than one of them is the first.
CAUSES: tuple[tuple[Any, str], ...] = (
    (TimeoutError, "it does not answer"),
    (OSError, "its process cannot be started ({})"),
    (httpx.ConnectError, "nobody listens at its address"),
    ((McpError, *GONE), ENDED),
)
UNUSABLE = "it cannot be used ({})"

ANSWERS = (types.JSONRPCResponse, types.JSONRPCError)

Fail = Callable[..., None]  # ``Session.fail``


class _Page(BaseModel):
    """A page of a list of tools, none of which is looked at yet."""

    tools: list[Any]
    nextCursor: str | None = None


class Session(ClientSession):
    """The SDK's session; its calls may come from any task, and none outlives it.

    Attributes:
        over: Set at its end.
        wake: Set when there is something to look at.
        has_changed: Whether the server has said that its tools changed.
        running: Calls that are waited for.
    """

    def __init__(self, read: Any, write: Any) -> None:
        """``read`` and ``write`` are the streams of a transport."""
        super().__init__(read, write, message_handler=self._hear, client_info=CLIENT)
        self.over, self.wake = asyncio.Event(), asyncio.Event()
        self.has_changed = False
        self.running = 0
        self._notices: set[asyncio.Task[None]] = set()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float
    ) -> types.CallToolResult:
        """Call a tool; the server is told when the answer is not waited for any more.

        Raises:
            ToolCallError: It did not answer within ``seconds``, or with nonsense, or is away.
        """
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = types.ClientRequest(types.CallToolRequest(params=params))
        number = self._request_id  # the one that it is about to take
        self.running += 1
        try:
            async with asyncio.timeout(seconds):
                return await self.send_request(request, types.CallToolResult)
        except TimeoutError:
            self._give_up(number)
            self.wake.set()  # is it there at all?
            problem = f"did not answer within {seconds:g} seconds"
            raise ToolCallError("timeout", problem) from None
        except asyncio.CancelledError:
            self._give_up(number)
            raise
        except ValidationError:
            raise ToolCallError("error", "answered with nonsense") from None
        except McpError as error:
            raise self._judge(error.error.code) from None
        except GONE:
            raise self._judge(types.CONNECTION_CLOSED) from None
        finally:
            self.running -= 1

    def _judge(self, code: int) -> ToolCallError:
        """What a code of JSON-RPC says of a call; the end of the session is noted."""
        if code == TOO_LONG:
            return ToolCallError("error", "answered too much")
        if code not in OVER_CODES:
            return ToolCallError("error", f"refused the call (code {code})")
        self.end()
        return ToolCallError("away", "is away now")

    async def ping(self) -> None:
        """Ask for a sign of life; that it knows no pings is one, too.

        Raises:
            McpError: The session is over; or another of ``GONE``.
        """
        try:
            await self.send_ping()
        except McpError as error:
            if error.error.code in OVER_CODES:
                raise

    async def listed(self) -> list[Any]:
        """What the server says of its tools, none of which is looked at yet."""
        listed: list[Any] = []
        cursor: str | None = None
        for _ in range(limits.MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            page = await self.send_request(request, _Page)
            listed += page.tools
            cursor = page.nextCursor
            if not cursor or len(listed) > limits.MAX_LISTED:
                break
        return listed

    def fail(self, code: int, number: int | None = None) -> None:
        """End a request that gets no answer, or every one, with a code of JSON-RPC."""
        for one in list(self._response_streams) if number is None else [number]:
            if stream := self._response_streams.pop(one, None):
                error = types.ErrorData(code=code, message="")
                stream.send_nowait(types.JSONRPCError(jsonrpc="2.0", id=one, error=error))

    def end(self) -> None:
        """Note that it is over."""
        self.over.set()
        self.wake.set()

    async def _receive_loop(self) -> None:
        try:
            await super()._receive_loop()
        finally:  # the SDK tells those who wait, unless it is cancelled
            self.end()
            for stream in self._response_streams.values():
                stream.close()

    async def _hear(self, message: Any) -> None:
        """What the server says unasked; of all that, only a change of its tools matters."""
        root = getattr(message, "root", None)
        if isinstance(root, types.ToolListChangedNotification):
            self.has_changed = True
            self.wake.set()

    def _give_up(self, number: int) -> None:
        """Tell the server, beside everything else, that a call is cancelled."""
        notice = asyncio.create_task(self._notify(number))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _notify(self, number: int) -> None:
        params = types.CancelledNotificationParams(requestId=number, reason="nobody waits")
        notification = types.CancelledNotification(params=params)
        with suppress(*GONE, TimeoutError):
            async with asyncio.timeout(limits.ANSWER_SECONDS):
                await self.send_notification(types.ClientNotification(notification))


@asynccontextmanager
async def open_session(server: McpServer) -> AsyncIterator[Session]:
    """A session with a server, not initialized yet.

    Raises:
        ToolServerError: Its process cannot be started.
    """

    def fail(code: int, number: int | None = None) -> None:
        session.fail(code, number)

    opened = (_open_process if server.transport == "stdio" else _open_http)(server, fail)
    async with opened as (read, write, *_), Session(read, write) as session:
        yield session


@asynccontextmanager
async def _open_process(server: McpServer, fail: Fail) -> AsyncIterator[Any]:
    """A process of which no message exceeds ``MAX_MESSAGE``; at the end it is gone."""
    path = str(Path(server.cwd, server.command)) if "/" in server.command else server.command
    if not which(path, path=server.env.get("PATH")):
        raise ToolServerError("its command is not found")
    unset = "" if "LC_CTYPE" in server.env else "LC_CTYPE"  # Python adds it
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(GUARD), str(limits.END_SECONDS), unset,
        server.command, *server.args,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what the server says there may quote users
        env=server.env, cwd=server.cwd or None, limit=limits.MAX_MESSAGE, start_new_session=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    heard, read = anyio.create_memory_object_stream[Any](0)
    write, said = anyio.create_memory_object_stream[Any](0)
    tasks = (
        asyncio.create_task(_hear(process, process.stdout, heard, fail)),
        asyncio.create_task(_say(process.stdin, said)),
    )
    try:
        yield read, write
    finally:
        process.stdin.close()  # the guard ends the server in ``END_SECONDS``
        for task in tasks:
            task.cancel()
        try:
            with anyio.CancelScope(shield=True):  # what is left in the pipe would keep it open
                await asyncio.wait(tasks)
                for stream in (heard, read, write, said):
                    stream.close()
                while await process.stdout.read(CHUNK):
                    pass
                await process.wait()
        finally:  # though even this is given up; it kills what is left
            process._transport.close()  # type: ignore[attr-defined]


async def _hear(process: Process, stdout: asyncio.StreamReader, heard: Any, fail: Fail) -> None:
    """Pass on a server's messages, until it ends, or has said too much unasked."""
    unasked = 0
    with suppress(*GONE):
        async with heard:
            while unasked <= limits.MAX_UNASKED:
                try:
                    line = await stdout.readline()
                except ValueError:  # which call it answers cannot be told
                    fail(TOO_LONG)
                    unasked += limits.MAX_MESSAGE
                    continue
                if not line:
                    break
                message = _as_message(line)
                if message is None or not isinstance(message.root, ANSWERS):
                    unasked += len(line)
                if message is not None:
                    await heard.send(SessionMessage(message))
    with suppress(ProcessLookupError):
        process.kill()


def _as_message(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.JSONRPCMessage.model_validate_json(line.decode("utf-8", "replace"))
    except ValidationError:
        return None


async def _say(stdin: asyncio.StreamWriter, said: Any) -> None:
    with suppress(ConnectionError):
        async with said:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_none=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


@asynccontextmanager
async def _open_http(server: McpServer, fail: Fail) -> AsyncIterator[Any]:
    """HTTP in which no message exceeds ``MAX_MESSAGE``, and no wait its due time."""
    waits = {"POST": server.timeout + limits.ANSWER_SECONDS, "DELETE": limits.ANSWER_SECONDS}

    async def bound_wait(request: httpx.Request) -> None:
        if wait := waits.get(request.method):
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": wait}

    async def bound_body(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Nobody knows how long it is.
            raise httpx.DecodingError("the response is compressed", request=response.request)
        response.stream = BoundedBody(response, fail)

    client = httpx.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx.Timeout(limits.CONNECT_SECONDS, read=STREAM_SECONDS),
        event_hooks={"request": [bound_wait], "response": [bound_body]},
        trust_env=False,
    )
    if server.transport == "sse":
        make_client = cast("McpHttpClientFactory", lambda **_: client)
        async with sse_client(server.url, httpx_client_factory=make_client) as streams:
            yield streams
    else:
        async with client, streamable_http_client(server.url, http_client=client) as streams:
            yield streams


class BoundedBody(httpx.AsyncByteStream):
    """A body that is cut with an error where it, or one event of an endless one, is too long."""

    def __init__(self, response: httpx.Response, fail: Fail) -> None:
        """The body of a response; ``fail`` ends its request where the body fails."""
        self._stream = cast("httpx.AsyncByteStream", response.stream)
        self._request, self._fail = response.request, fail
        self._is_endless = self._request.method == "GET"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces.

        Raises:
            httpx.ReadError: It is too long, or the connection broke.
        """
        length = 0
        try:
            async for piece in self._stream:
                is_end = self._is_endless and any(end in piece for end in EVENT_ENDS)
                length = len(piece) if is_end else length + len(piece)
                if length > limits.MAX_MESSAGE:
                    self._end(TOO_LONG)
                    raise httpx.ReadError("the response is too long")
                yield piece
        except httpx.HTTPError:  # the SDK would try for long to go on after the last event's id
            self._end(types.CONNECTION_CLOSED)
            raise

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def _end(self, code: int) -> None:
        if not self._is_endless:
            self._fail(code, json.loads(self._request.content or b"{}").get("id", -1))


def describe(error: BaseException) -> str:
    """Why a session ended, without a word of the server's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolServerError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answers with HTTP {error.response.status_code}"
    if isinstance(error, McpError) and error.error.code not in OVER_CODES:
        return "it refuses the session"
    said = next((said for kinds, said in CAUSES if isinstance(error, kinds)), UNUSABLE)
    return said.format(type(error).__name__)
