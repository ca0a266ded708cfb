"""Sessions with MCP servers, on the official SDK, over stdio or HTTP, with bounded messages.

Only this module and ``tools`` import the protocol's packages.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any, TextIO, cast

import anyio
import httpx
from mcp import ClientSession, McpError, types
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import McpHttpClientFactory
from pydantic import BaseModel

from src.base import mcp_file as limits
from src.base.errors import ToolCallError, ToolServerError

CLIENT = types.Implementation(name="pomni", version="1")
GUARD = Path(__file__).with_name("guard.py")
STREAM_SECONDS = 86_400.0  # read timeout of the stream for unsolicited messages
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
# Messages with which the SDK reports the end of a session: a closed connection, or HTTP 404, by
# which a server says that it has forgotten the session. Servers use the same codes for others.
SESSION_OVER = ("Connection closed", "Session terminated")
CLOSED_STREAM = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
ENDED = "it ended"
# Causes of a session's end by type of error; the first match counts.
CAUSES: tuple[tuple[Any, str], ...] = (
    (TimeoutError, "it does not answer"),
    (OSError, "its process cannot be started ({})"),
    (httpx.ConnectError, "its address does not answer (name, port or certificate)"),
    ((McpError, *CLOSED_STREAM), ENDED),
    (Exception, "it cannot be used ({})"),
)


class ToolsPage(BaseModel):
    """Page of a server's list of tools, whose entries are not validated."""

    tools: list[Any]
    nextCursor: str | None = None


class ToolReply(BaseModel):
    """Result of a call as a server sends it, not validated: few servers keep to the schema."""

    content: Any = None
    structuredContent: Any = None
    isError: Any = False


@asynccontextmanager
async def open_session(
    server: limits.McpServer, *, on_change: Callable[[], None], on_break: Callable[[], None]
) -> AsyncIterator[ClientSession]:
    """Open a session with a server.

    Args:
        server: The server.
        on_change: Called when it announces other tools.
        on_break: Called when an HTTP connection breaks, which the SDK would only log.

    Raises:
        ToolServerError: The server's process cannot be started.
    """

    async def handle(message: Any) -> None:
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            on_change()

    if server.transport == "stdio":
        transport = _open_process(server)
    else:
        transport = _open_http(server, on_break)
    async with (
        transport as (read, write, *_),
        ClientSession(read, write, message_handler=handle, client_info=CLIENT) as session,
    ):
        await session.initialize()
        yield session


def _open_process(server: limits.McpServer) -> AbstractAsyncContextManager[Any]:
    path = str(Path(server.cwd, server.command)) if "/" in server.command else server.command
    if not which(path, path=server.env.get("PATH")):
        raise ToolServerError("its command is not found")
    bounds = [str(limits.MAX_MESSAGE), str(limits.MAX_UNASKED)]
    guard = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", str(GUARD), *bounds, server.command, *server.args],
        env=server.env,
        cwd=server.cwd or None,
    )
    return stdio_client(guard, errlog=cast("TextIO", subprocess.DEVNULL))


@asynccontextmanager
async def _open_http(server: limits.McpServer, on_break: Callable[[], None]) -> AsyncIterator[Any]:
    """Connect over HTTP, with messages bounded to ``MAX_MESSAGE`` and a timeout by method."""
    waits = {"POST": server.timeout + limits.ANSWER_SECONDS, "DELETE": limits.ANSWER_SECONDS}

    async def bound_wait(request: httpx.Request) -> None:
        if request.method in waits:
            request.extensions["timeout"] |= {"read": waits[request.method]}

    async def bound_body(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Its decompressed length is unknown.
            raise httpx.DecodingError("the response is compressed", request=response.request)
        response.stream = BoundedBody(response, on_break)

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

    def __init__(self, response: httpx.Response, on_break: Callable[[], None]) -> None:
        """Wrap the body of ``response``; ``on_break`` is called when it fails."""
        self._stream = cast("httpx.AsyncByteStream", response.stream)
        self._is_endless = response.request.method == "GET"
        self._on_break = on_break

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
                    raise httpx.ReadError("the response is too long")
                yield piece
        except httpx.HTTPError:
            self._on_break()
            raise

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()


async def fetch_tools(session: ClientSession) -> list[Any]:
    """Fetch the server's list of tools, without validating its entries."""
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(limits.MAX_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor)
        request = types.ClientRequest(types.ListToolsRequest(params=params))
        page = await session.send_request(request, ToolsPage)
        tools += page.tools
        cursor = page.nextCursor
        if not cursor or len(tools) > limits.MAX_LISTED:
            break
    return tools


async def call_tool(session: ClientSession, tool: str, arguments: Mapping[str, Any]) -> ToolReply:
    """Call a tool, for as long as the caller waits; a refusal tells the model what is wrong.

    Raises:
        ToolCallError: The session is over.
    """
    params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
    request = types.ClientRequest(types.CallToolRequest(params=params))
    try:
        return await session.send_request(request, ToolReply)
    except McpError as error:
        if error.error.message not in SESSION_OVER:
            return ToolReply(content=error.error.message, isError=True)
    except CLOSED_STREAM:
        pass
    raise ToolCallError("away")


async def ping(session: ClientSession) -> None:
    """Send a ping; an error that says that pings are not supported is a sign of life, too.

    Raises:
        McpError: The session is over; one of ``CLOSED_STREAM`` may be raised as well.
    """
    try:
        await session.send_ping()
    except McpError as error:
        if error.error.message in SESSION_OVER:
            raise


def describe(error: BaseException) -> str:
    """Return the cause of a session's end, without any words of the server."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolServerError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answers with HTTP {error.response.status_code}"
    if isinstance(error, McpError) and error.error.message not in SESSION_OVER:
        return "it refuses the session"
    cause = next(cause for kinds, cause in CAUSES if isinstance(error, kinds))
    return cause.format(type(error).__name__)
