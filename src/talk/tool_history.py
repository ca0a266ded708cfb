"""The history of tool calls: what was asked, what came back, how long it took."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from src.base.errors import StorageError
from src.history.timeline_repo import ToolResult, ToolResultRepository
from src.memory.turn_context import TurnContext
from src.pg.client import PgClient
from src.reading.gate import holds_secret
from src.talk.assistant import failed
from src.talk.main_graph import describe_tool_error

logger = logging.getLogger(__name__)

TOOL_TIMEOUT = 30.0  # seconds that a tool may take

ToolReply = ToolMessage | Command[Any]


def _seconds(request: ToolCallRequest) -> float:
    """How long a tool may take: a server's as long as its operator lets it."""
    metadata = request.tool.metadata if request.tool is not None else None
    return float((metadata or {}).get("timeout", TOOL_TIMEOUT))


class ToolHistoryService:
    """Keeps the newest tool calls of each conversation in ``tool_results``."""

    def __init__(self, client: PgClient) -> None:
        """Store with ``client``."""
        self._client = client
        self._results = ToolResultRepository(client)

    async def record(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[ToolReply]]
    ) -> ToolReply:
        """Run a tool within its time, and store the call; a failure becomes text for the model.

        A failure to store never fails the turn.
        """
        call = request.tool_call
        start = time.perf_counter()
        failure: str | None = None
        try:
            async with asyncio.timeout(_seconds(request)):
                reply = await execute(request)
        except GraphBubbleUp:  # no failure: the run is interrupted, to be continued
            raise
        except Exception as error:
            failure = type(error).__name__
            # The model may call a tool that there is none of, by any name: that is not logged.
            known = call["name"] if request.tool is not None else "unknown"
            logger.warning("tool failed", extra={"tool": known}, exc_info=error)
            reply = failed(request, describe_tool_error(error))
        text = str(reply.text) if isinstance(reply, ToolMessage) else ""
        if isinstance(reply, ToolMessage) and reply.status == "error":
            failure = failure or "ToolError"
        milliseconds = round((time.perf_counter() - start) * 1000)
        arguments = dict(call["args"])
        if any(holds_secret(str(value)) for value in (*arguments.values(), text)):
            arguments, text = {}, ""  # the message in which it was said is its only place
        result = ToolResult(call["name"], arguments, text, milliseconds, failure)
        context: Any = request.runtime.context  # LangGraph types it as None
        await self._store(context, result)
        return reply

    async def _store(self, context: TurnContext, result: ToolResult) -> None:
        try:
            await self._client.run(
                self._results.add, context.conversation_id, context.message_id, result
            )
        except StorageError as error:
            logger.warning("tool call not recorded", extra={"tool": result.name}, exc_info=error)
