"""A server at an address: LangChain's adapter opens the session, we bound what comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import httpx
from langchain_mcp_adapters.sessions import Connection, create_session
from mcp import ClientSession

from src.mcp_file import McpServer
from src.mcp_servers.limits import ANSWER_SECONDS, CONNECT_SECONDS, MAX_MESSAGE

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
