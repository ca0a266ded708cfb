"""Sessions with a server: at an address, or with a program that we start."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from shutil import which
from typing import Any, cast

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from langchain_mcp_adapters.sessions import Connection, create_session
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp.types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
)
from pydantic import ValidationError

from src.base.errors import ToolServerError
from src.base.mcp_file import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    END_SECONDS,
    MAX_MESSAGE,
    MAX_UNASKED,
    McpServer,
)

STREAM_SECONDS = 86_400.0  # without a word from the stream in which a server may speak by itself
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def open_http(
    server: McpServer, session_options: Mapping[str, Any]
) -> AbstractAsyncContextManager[ClientSession]:
    """A session with the server; ``session_options`` are those of ``ClientSession``."""

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            timeout=timeout,
            auth=auth,
            transport=BoundedTransport(server.timeout),
            trust_env=False,
        )

    connection = {
        "transport": "streamable_http" if server.transport == "http" else "sse",
        "url": server.url,
        "headers": dict(server.headers),
        "timeout": CONNECT_SECONDS,
        "sse_read_timeout": STREAM_SECONDS,
        "session_kwargs": dict(session_options),
        "httpx_client_factory": make_client,
    }
    return create_session(cast("Connection", connection))


class BoundedTransport(httpx.AsyncBaseTransport):
    """HTTP in which no message is longer than ``MAX_MESSAGE``, and no wait longer than is due."""

    def __init__(self, call_seconds: float) -> None:
        """``call_seconds`` are what a call may take."""
        self._inner = httpx.AsyncHTTPTransport(retries=0)
        self._call_seconds = call_seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the response raises when it is too long.

        Raises:
            httpx.RequestError: The server is away, or its response is compressed: nobody knows
                how long that is.
        """
        timeout = dict(request.extensions.get("timeout") or {})
        if request.method == "POST":
            timeout["read"] = self._call_seconds + ANSWER_SECONDS
        elif request.method == "DELETE":
            timeout["read"] = ANSWER_SECONDS
        request.extensions["timeout"] = timeout
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx.DecodingError("the response is compressed", request=request)
        is_endless = request.method == "GET"
        body = BoundedBody(cast("httpx.AsyncByteStream", response.stream), in_events=is_endless)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=body,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class BoundedBody(httpx.AsyncByteStream):
    """A body that is cut with an error where it gets too long, or one event of it."""

    def __init__(self, stream: httpx.AsyncByteStream, *, in_events: bool) -> None:
        """With ``in_events`` an event is bounded, and the whole is not."""
        self._stream = stream
        self._in_events = in_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces.

        Raises:
            httpx.ReadError: It is too long.
        """
        length = 0
        async for piece in self._stream:
            is_end = self._in_events and any(end in piece for end in EVENT_ENDS)
            length = len(piece) if is_end else length + len(piece)
            if length > MAX_MESSAGE:
                raise httpx.ReadError("the response is too long")
            yield piece

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


# A server as a process of ours: started, spoken to line by line, ended with all that it started.
#
# The SDK's own transport reads lines of any length, gives the server our stderr, and leaves it
# alone when this process is killed. Here a shell stands beside each server, in one group with it;
# its only work is to wait for the end of a pipe that we hold, and then to kill the group. The pipe
# ends when we close it and when we die, however that happens.

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

# Descriptor 2 is the reading end of our pipe, 4 keeps it; 3 keeps the server's stdin, since what a
# shell starts beside itself gets none. What the server says on stderr may quote users: it is lost.
GUARD = """
exec 3<&0 4<&2 2>/dev/null
"$@" <&3 3<&- 4<&- &
exec 3<&- </dev/null >/dev/null
read -r end <&4
kill -KILL 0
"""
CHUNK = 65_536  # bytes
TOO_LONG = -32_001  # a JSON-RPC code of our own, within the range for such
ID = re.compile(rb'"id"\s*:\s*(\d{1,9})\s*[,}]')
LOOKED_AT = 200  # bytes at both ends of a line in which its id is looked for


@asynccontextmanager
async def open_process(server: McpServer, over: asyncio.Event) -> AsyncIterator[Streams]:
    """Start the process; the streams are those of an MCP session. ``over`` is set at its end.

    Raises:
        ToolServerError: It cannot be started.
    """
    # Cancelled in the middle of it, asyncio would kill the guard and leave the server alone.
    starting = asyncio.ensure_future(_start(server))
    try:
        process, pipe = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(ToolServerError):
            await _end(*await starting)
        raise
    try:
        incoming, read = anyio.create_memory_object_stream[Incoming](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        reading = asyncio.create_task(_read(process, incoming, over))
        writing = asyncio.create_task(_write(process, outgoing))
        try:
            yield read, write
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.wait((reading, writing))
            for stream in (incoming, read, write, outgoing):
                stream.close()
    finally:
        await _end(process, pipe)


async def _start(server: McpServer) -> tuple[asyncio.subprocess.Process, int]:
    """The process, and our end of the pipe for whose end its guard waits."""
    program = server.command[0]
    if "/" not in program and not which(program, path=server.environment.get("PATH")):
        raise ToolServerError("its command is not found")
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            GUARD,
            "sh",
            *server.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=theirs,
            cwd=server.folder,
            env=dict(server.environment),
            start_new_session=True,
            limit=CHUNK,
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise ToolServerError(f"its process cannot be started ({type(error).__name__})") from None
    finally:
        os.close(theirs)
    return process, ours


async def _end(process: asyncio.subprocess.Process, pipe: int) -> None:
    """Close its stdin, give it a moment to end, and have its guard kill what is left."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        await _drain(process)
    finally:
        os.close(pipe)
        await asyncio.shield(_reap(process))


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what it still says, until it has ended, for a moment and some megabytes at most."""
    assert process.stdout is not None
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(END_SECONDS):
            for _ in range(MAX_MESSAGE // CHUNK):
                if not await process.stdout.read(CHUNK):
                    break


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed.

    asyncio learns of it only when its stdout has been read to the end; something that has left the
    group may still hold that.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await _drain(process)
            await process.wait()


async def _read(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[Incoming],
    over: asyncio.Event,
) -> None:
    """Hand its messages on, until it ends or says too much unasked."""
    assert process.stdout is not None
    lines = Lines()
    try:
        while (chunk := await process.stdout.read(CHUNK)) and lines.unasked <= MAX_UNASKED:
            for message in lines.feed(chunk):
                await incoming.send(SessionMessage(message))
    except (OSError, anyio.BrokenResourceError):
        pass
    over.set()
    incoming.close()


async def _write(
    process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        async for message in outgoing:
            line = message.message.model_dump_json(by_alias=True, exclude_none=True)
            process.stdin.write(f"{line}\n".encode())
            await process.stdin.drain()
    outgoing.close()


class Lines:
    """Takes what a server prints, and gives its messages.

    Of a line that is too long only its ends are looked at: where it answers a request, that gets
    an error. What is no message is passed over.

    Attributes:
        unasked: Bytes so far that answered nothing.
    """

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.unasked = 0
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_long = False

    def feed(self, chunk: bytes) -> list[JSONRPCMessage]:
        """The messages that end in the next piece."""
        *ends, rest = chunk.split(b"\n")
        found = [self._line(end) for end in ends]
        self._keep(rest)
        return [message for message in found if message is not None]

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > MAX_MESSAGE:
            line = b"".join(self._pieces)
            self._pieces = [line[:LOOKED_AT], line[-LOOKED_AT:]]
            self.unasked += len(line) - 2 * LOOKED_AT
            self._is_long = True
            self._length = MAX_MESSAGE  # each further piece is dropped at once

    def _line(self, end: bytes) -> JSONRPCMessage | None:
        self._keep(end)
        line, is_long = b"".join(self._pieces), self._is_long
        self._pieces, self._length, self._is_long = [], 0, False
        if is_long:
            return _refusal(line)
        try:
            message = JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            self.unasked += len(line)
            return None
        if isinstance(message.root, JSONRPCRequest | JSONRPCNotification):
            self.unasked += len(line)
        return message


def _refusal(line: bytes) -> JSONRPCMessage | None:
    """In place of an answer that is too long, by its two ends: that it is."""
    found = ID.search(line[:LOOKED_AT]) or ID.search(line[-LOOKED_AT:])
    if found is None:
        return None
    error = ErrorData(code=TOO_LONG, message="the answer is too long")
    return JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
