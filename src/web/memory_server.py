"""MCP server at ``/mcp``: a person's memory for other assistants, by a token of ``/connect``.

Each request stands alone (the SDK's stateless mode, answers in JSON), so any process serves it,
and a revoked token ends with the next request.
"""

import json
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolResult, TextContent, Tool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from src.base.errors import AppError
from src.base.owners import Caller, Owner
from src.core import Core
from src.outside.connection_repo import Connection, ConnectionRepository
from src.web.app_gate import Allowance
from src.web.memory_tools import (
    INSTRUCTIONS,
    REMEMBER,
    TOOLS,
    Json,
    LentCall,
    MemoryTools,
    ToolRefusedError,
)

logger = logging.getLogger(__name__)

PATH = "/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"  # RFC 9728
BURST, PER_SECOND = 60.0, 1.0  # requests of a token at once; regained in a second
MAX_BODY = 65_536  # bytes
SCHEME = "bearer "


class MemoryServer:
    """ASGI app of ``/mcp``."""

    def __init__(
        self, core: Core, permits: Callable[[int], bool], allowance: Allowance | None = None
    ) -> None:
        """Lend the memories of ``core`` to connections of users whom ``permits`` admits.

        Args:
            core: Owner of the data.
            permits: Returns True if a Telegram id may use the bot.
            allowance: Requests that a token may make; by default BURST and PER_SECOND.
        """
        self._core = core
        self._permits = permits
        self._allowance = allowance or Allowance(BURST, PER_SECOND)
        self._connections = ConnectionRepository(core.client)
        self._tools = MemoryTools(core)
        self._server: Server[Any, Request] = Server("pomni", instructions=INSTRUCTIONS)
        self._server.list_tools()(self._list_tools)  # type: ignore[no-untyped-call]
        self._server.call_tool()(self._call_tool)
        self._sessions = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=MAX_BODY
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return the context within which requests are served; it can be entered once."""
        return self._sessions.run()

    def routes(self) -> list[Route]:
        """List the routes: the server, and what OAuth clients ask about it."""
        return [
            Route(PATH, self, methods=["POST"]),
            Route(METADATA_PATH, self.describe, methods=["GET"]),
            Route(f"{METADATA_PATH}{PATH}", self.describe, methods=["GET"]),
        ]

    async def describe(self, request: Request) -> Response:
        """Return the metadata of the resource; there is no authorization server to name."""
        metadata = {
            "resource": f"{self._base(request)}{PATH}",
            "resource_name": "Pomni",
            "scopes_supported": ["read", "remember"],
            "bearer_methods_supported": ["header"],
        }
        return JSONResponse(metadata)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request of a connection, or refuse it."""
        request = Request(scope, receive)
        try:
            refusal = await self._admit(request)
        except AppError as error:
            logger.warning("the memory server could not admit a request", exc_info=error)
            refusal = _refusal(503, "temporarily_unavailable")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._sessions.handle_request(scope, receive, send)

    async def _admit(self, request: Request) -> Response | None:
        """Identify the caller, kept in the request's state; return the answer to all others."""
        origin = request.headers.get("origin")
        if origin is not None and origin != _origin_of(self._base(request)):
            return _refusal(403, "forbidden_origin")
        headers = request.headers.getlist("authorization")
        found = None
        if len(headers) == 1 and headers[0][: len(SCHEME)].lower() == SCHEME:
            token = headers[0][len(SCHEME) :]
            found = await self._core.client.run(self._connections.find_caller, token)
        if found is None:
            refusal = _refusal(401, "invalid_token")
            metadata = f"{self._base(request)}{METADATA_PATH}"
            challenge = f'Bearer error="invalid_token", resource_metadata="{metadata}"'
            refusal.headers["WWW-Authenticate"] = challenge
            return refusal
        user_id, connection = found
        chosen = await self._core.client.run(self._core.user_settings.get, user_id)
        if chosen.is_blocked or not self._permits(user_id):
            return _refusal(403, "access_denied")
        if not await self._allowance.take(connection.id):
            refusal = _refusal(429, "too_many_requests")
            refusal.headers["Retry-After"] = "10"
            return refusal
        owner = Owner(user_id)
        await self._core.client.run(self._connections.mark_used, owner, connection.id)
        request.state.caller = self._core.caller(owner, chosen, member=user_id)
        request.state.connection = connection
        return None

    def _base(self, request: Request) -> str:
        """Return the public address of the HTTP port; without one, that of the request."""
        return self._core.settings.public_url or str(request.base_url).rstrip("/")

    async def _list_tools(self) -> list[Tool]:
        _, connection = self._identify()
        return [tool for tool in TOOLS if connection.may_remember or tool.name != REMEMBER]

    async def _call_tool(self, name: str, arguments: Json) -> Any:
        """Call a tool; its result is JSON as text and as an object, an error is a sentence."""
        caller, connection = self._identify()
        ids = {"connection": connection.id, "user_id": caller.owner.telegram_user_id}
        try:
            result = await self._tools.call(name, LentCall(caller, connection, arguments))
        except ToolRefusedError as error:
            logger.info("a lent tool was refused", extra={**ids, "tool": name[:40]})
            return _error(str(error))
        except AppError as error:
            logger.warning("a lent tool failed", extra={**ids, "tool": name}, exc_info=error)
            return _error("the memory is unavailable, try again later")
        logger.info("a lent tool was called", extra={**ids, "tool": name})
        text = json.dumps(result, ensure_ascii=False)
        return [TextContent(type="text", text=text)], result

    def _identify(self) -> tuple[Caller, Connection]:
        """Return who calls; ``_admit`` has noted it in the request."""
        request = self._server.request_context.request
        assert request is not None, "over HTTP there is always a request"
        return request.state.caller, request.state.connection


def _origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def _refusal(status: int, error: str) -> Response:
    return JSONResponse({"error": error}, status, headers={"Cache-Control": "no-store"})


def _error(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], isError=True)
