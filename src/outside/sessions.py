"""A bounded session with one MCP server, on the official SDK, over stdio or HTTP.

Every message, stream and wait has a limit. Only this module and ``tools`` import the protocol's
packages.
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

CLIENT = types.Implementation(name="pomni", version="1")
GUARD = Path(__file__).with_name("guard.py")
TOO_LONG = -32_001  # our own JSON-RPC code, within the range for implementation-defined errors
CHUNK = 65_536  # bytes
STREAM_SECONDS = 86_400.0  # read timeout of the stream for unsolicited messages
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
# JSON-RPC codes by which the SDK reports the end of a session: a closed connection, or a session
# that the server has forgotten.
SESSION_OVER = (types.CONNECTION_CLOSED, 32600, -32600)
CLOSED_STREAM = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
ENDED = "it ended"
# Causes of a session's end by type of error; the first match counts.
CAUSES: tuple[tuple[Any, str], ...] = (
    (TimeoutError, "it does not answer"),
    (OSError, "its process cannot be started ({})"),
    (httpx.ConnectError, "nobody listens at its address"),
    ((McpError, *CLOSED_STREAM), ENDED),
)
UNUSABLE = "it cannot be used ({})"

ANSWERS = (types.JSONRPCResponse, types.JSONRPCError)

Fail = Callable[..., None]  # ``McpSession.fail``


class _ToolsPage(BaseModel):
    tools: list[Any]
    nextCursor: str | None = None


class McpSession(ClientSession):
    """The SDK's session; calls may come from any task, and all of them end with it.

    Attributes:
        over: Set at the end of the session.
        wake: Set when the watching task has something to do.
        has_changed: True if the server has announced a change of its tools.
        running: Number of pending calls.
    """

    def __init__(self, read: Any, write: Any) -> None:
        """Use the streams ``read`` and ``write`` of a transport."""
        super().__init__(read, write, message_handler=self._handle_unsolicited, client_info=CLIENT)
        self.over, self.wake = asyncio.Event(), asyncio.Event()
        self.has_changed = False
        self.running = 0
        self._notices: set[asyncio.Task[None]] = set()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float
    ) -> types.CallToolResult:
        """Call a tool; on a timeout or a cancel the server is told to give up.

        Raises:
            ToolCallError: No answer within ``seconds``, an invalid one, or the session is over.
        """
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = types.ClientRequest(types.CallToolRequest(params=params))
        request_id = self._request_id  # the id that ``send_request`` takes next
        self.running += 1
        try:
            async with asyncio.timeout(seconds):
                return await self.send_request(request, types.CallToolResult)
        except TimeoutError:
            self._start_cancellation(request_id)
            self.wake.set()  # have the server pinged
            problem = f"did not answer within {seconds:g} seconds"
            raise ToolCallError("timeout", problem) from None
        except asyncio.CancelledError:
            self._start_cancellation(request_id)
            raise
        except ValidationError:
            raise ToolCallError("error", "answered with nonsense") from None
        except McpError as error:
            raise self._to_call_error(error.error.code) from None
        except CLOSED_STREAM:
            raise self._to_call_error(types.CONNECTION_CLOSED) from None
        finally:
            self.running -= 1

    def _to_call_error(self, code: int) -> ToolCallError:
        """Also mark the session as over if it is."""
        if code == TOO_LONG:
            return ToolCallError("error", "answered too much")
        if code not in SESSION_OVER:
            return ToolCallError("error", f"refused the call (code {code})")
        self.end()
        return ToolCallError("away", "is away now")

    async def ping(self) -> None:
        """Send a ping; an error that says that pings are not supported is a sign of life, too.

        Raises:
            McpError: The session is over; one of ``CLOSED_STREAM`` may be raised as well.
        """
        try:
            await self.send_ping()
        except McpError as error:
            if error.error.code in SESSION_OVER:
                raise

    async def fetch_tools(self) -> list[Any]:
        """Fetch the server's list of tools, without validating its entries."""
        tools: list[Any] = []
        cursor: str | None = None
        for _ in range(limits.MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            page = await self.send_request(request, _ToolsPage)
            tools += page.tools
            cursor = page.nextCursor
            if not cursor or len(tools) > limits.MAX_LISTED:
                break
        return tools

    def fail(self, code: int, request_id: int | None = None) -> None:
        """Fail one pending request, or all of them, with a JSON-RPC code."""
        failed: list[Any] = [request_id]
        if request_id is None:
            failed = list(self._response_streams)
        for id_ in failed:
            stream = self._response_streams.pop(id_, None)
            if stream is not None:
                error = types.ErrorData(code=code, message="")
                stream.send_nowait(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))

    def end(self) -> None:
        """Mark the session as over."""
        self.over.set()
        self.wake.set()

    async def forward(self, read: Any, inbox_writer: Any) -> None:
        """Pass on the messages of a transport until they end, and the session with them."""
        with suppress(*CLOSED_STREAM):
            async for message in read:
                await inbox_writer.send(message)
        inbox_writer.close()
        self.end()

    async def _handle_unsolicited(self, message: Any) -> None:
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ToolListChangedNotification):
            self.has_changed = True
            self.wake.set()

    def _start_cancellation(self, request_id: int) -> None:
        notice = asyncio.create_task(self._notify_cancelled(request_id))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _notify_cancelled(self, request_id: int) -> None:
        params = types.CancelledNotificationParams(requestId=request_id, reason="nobody waits")
        notification = types.CancelledNotification(params=params)
        with suppress(*CLOSED_STREAM, TimeoutError):
            async with asyncio.timeout(limits.ANSWER_SECONDS):
                await self.send_notification(types.ClientNotification(notification))


@asynccontextmanager
async def open_session(server: limits.McpServer) -> AsyncIterator[McpSession]:
    """Open a session with a server; the caller initializes it.

    Raises:
        ToolServerError: The server's process cannot be started.
    """

    def fail(code: int, request_id: int | None = None) -> None:
        session.fail(code, request_id)

    open_transport = _open_process if server.transport == "stdio" else _open_http
    inbox_writer, inbox = anyio.create_memory_object_stream[Any](0)
    async with (
        inbox_writer,
        inbox,
        open_transport(server, fail) as (read, write, *_),
        read,
        McpSession(inbox, write) as session,
    ):
        forwarding = asyncio.create_task(session.forward(read, inbox_writer))
        try:
            yield session
        finally:
            forwarding.cancel()
            session.end()
            session.fail(types.CONNECTION_CLOSED)


@asynccontextmanager
async def _open_process(server: limits.McpServer, fail: Fail) -> AsyncIterator[Any]:
    """Start a server and bound each message to ``MAX_MESSAGE``; kill it at the end."""
    path = str(Path(server.cwd, server.command)) if "/" in server.command else server.command
    if not which(path, path=server.env.get("PATH")):
        raise ToolServerError("its command is not found")
    unset = "" if "LC_CTYPE" in server.env else "LC_CTYPE"  # Python adds it to the environment
    guard = [sys.executable, "-I", "-S", str(GUARD), str(limits.END_SECONDS), unset]
    process = await asyncio.create_subprocess_exec(
        *guard,
        server.command,
        *server.args,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the server's log may quote users
        env=server.env,
        cwd=server.cwd or None,
        limit=limits.MAX_MESSAGE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    inbox_writer, inbox = anyio.create_memory_object_stream[Any](0)
    outbox, outbox_reader = anyio.create_memory_object_stream[Any](0)
    tasks = (
        asyncio.create_task(_read_messages(process, process.stdout, inbox_writer, fail)),
        asyncio.create_task(_write_messages(process.stdin, outbox_reader)),
    )
    try:
        yield inbox, outbox
    finally:
        process.stdin.close()  # the guard ends the server in ``END_SECONDS``
        for task in tasks:
            task.cancel()
        try:
            with anyio.CancelScope(shield=True):  # unread output would keep the pipe open
                await asyncio.wait(tasks)
                for stream in (inbox_writer, inbox, outbox, outbox_reader):
                    stream.close()
                while await process.stdout.read(CHUNK):
                    pass
                await process.wait()
        finally:  # kills what is left, also when the wait above is cancelled
            process._transport.close()  # type: ignore[attr-defined]


async def _read_messages(
    process: Process, stdout: asyncio.StreamReader, inbox_writer: Any, fail: Fail
) -> None:
    """Forward the server's messages until it ends or has sent too much unasked."""
    unasked = 0
    with suppress(*CLOSED_STREAM):
        async with inbox_writer:
            while unasked <= limits.MAX_UNASKED:
                try:
                    line = await stdout.readline()
                except ValueError:  # too long to parse, so the request that it answers is unknown
                    fail(TOO_LONG)
                    unasked += limits.MAX_MESSAGE
                    continue
                if not line:
                    break
                message = _parse_message(line)
                if message is None or not isinstance(message.root, ANSWERS):
                    unasked += len(line)
                if message is not None:
                    await inbox_writer.send(SessionMessage(message))
    with suppress(ProcessLookupError):
        process.kill()


def _parse_message(line: bytes) -> types.JSONRPCMessage | None:
    try:
        return types.JSONRPCMessage.model_validate_json(line.decode("utf-8", "replace"))
    except ValidationError:
        return None


async def _write_messages(stdin: asyncio.StreamWriter, outbox_reader: Any) -> None:
    with suppress(ConnectionError):
        async with outbox_reader:
            async for message in outbox_reader:
                text = message.message.model_dump_json(by_alias=True, exclude_none=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


@asynccontextmanager
async def _open_http(server: limits.McpServer, fail: Fail) -> AsyncIterator[Any]:
    """Connect over HTTP, with messages bounded to ``MAX_MESSAGE`` and a timeout by method."""
    waits = {"POST": server.timeout + limits.ANSWER_SECONDS, "DELETE": limits.ANSWER_SECONDS}

    async def bound_wait(request: httpx.Request) -> None:
        if request.method in waits:
            request.extensions["timeout"] |= {"read": waits[request.method]}

    async def bound_body(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Its decompressed length is unknown.
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
    """Response body that fails when it, or one event of an endless one, is too long."""

    def __init__(self, response: httpx.Response, fail: Fail) -> None:
        """Wrap the body of ``response``; ``fail`` ends its request if the body fails."""
        self._stream = cast("httpx.AsyncByteStream", response.stream)
        self._request, self._fail = response.request, fail
        self._is_endless = self._request.method == "GET"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces.

        Raises:
            httpx.ReadError: The body is too long, or the connection broke.
        """
        length = 0
        try:
            async for piece in self._stream:
                if self._is_endless and any(end in piece for end in EVENT_ENDS):
                    length = 0
                length += len(piece)
                if length > limits.MAX_MESSAGE:
                    self._fail_request(TOO_LONG)
                    raise httpx.ReadError("the response is too long")
                yield piece
        except httpx.HTTPError:  # the SDK would retry for long from the last event's id
            self._fail_request(types.CONNECTION_CLOSED)
            raise

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()

    def _fail_request(self, code: int) -> None:
        if not self._is_endless:
            self._fail(code, json.loads(self._request.content or b"{}").get("id", -1))


def describe(error: BaseException) -> str:
    """Return the cause of a session's end, without any words of the server."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolServerError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answers with HTTP {error.response.status_code}"
    if isinstance(error, McpError) and error.error.code not in SESSION_OVER:
        return "it refuses the session"
    cause = next((cause for kinds, cause in CAUSES if isinstance(error, kinds)), UNUSABLE)
    return cause.format(type(error).__name__)
