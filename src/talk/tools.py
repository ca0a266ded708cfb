"""The tools that the model may call: their list, how they run, and the one that tells the time.

What was asked of a tool, what came back and how long it took is kept in ``tool_results``.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytz
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Command
from pydantic import Field, ValidationError

from src.base.errors import StorageError, ToolServerError
from src.base.zone_names import find_time_zone
from src.history.timeline_repo import ToolResult, ToolResultRepository
from src.history.turn_repo import NO_CHANGES
from src.llm.quoting import Form, Runtime, form_tool
from src.llm.reply import UNREADABLE
from src.media import tools as media_tools
from src.media.attachments import AttachmentService
from src.memory import tools as memory_tools
from src.memory.memories import Memories
from src.memory.turn_context import TurnContext, finding_of
from src.pg.client import PgClient
from src.reading.gate import holds_secret
from src.reminders import tools as reminder_tools
from src.reminders.reminder_service import ReminderService
from src.talk.turn_state import ConversationState
from src.talk.zones import SET_ZONE, ZoneService, set_time_zone

logger = logging.getLogger(__name__)

TOOL_TIMEOUT = 30.0  # seconds that a tool may take
MAX_AT_ONCE = 8  # calls of one reply that run
NOT_RUN = "not run"  # the artifact of a result that no tool gave
WAIT = f"Only {MAX_AT_ONCE} tools run at once; this call was not one of them. Call it again alone."
NO_JSON = (
    "The tool refused its arguments: they are no JSON object, or too long. Correct them and try "
    "again."
)

ToolReply = ToolMessage | Command[Any]
Execute = Callable[[ToolCallRequest], Awaitable[ToolReply]]


class ClockOrder(Form):
    """Whose clock is read."""

    time_zone: str = Field(default="", description="or city; empty: theirs")


CLOCK = "The time and weekday now."


async def current_time(runtime: Runtime, order: ClockOrder) -> str:
    """The time and the weekday in a zone, by default the user's."""
    context: TurnContext = runtime.context
    wanted = order.time_zone
    name = find_time_zone(wanted) if wanted.strip() else context.time_zone
    if name is None:
        raise ValueError(f"{wanted[:60]!r} is no time zone; write Area/City, such as Europe/Kyiv")
    zone = pytz.timezone(name)
    now = datetime.now(UTC).astimezone(zone)
    return f"{now:%Y-%m-%d %H:%M, %A} ({zone.zone}, UTC{now:%z})"


# A tool is a function of what it works with, the turn's runtime and a form of arguments
# (``form_tool``). One that finds or changes something returns a ``Finding`` beside its text.


def build_tools(
    memories: Memories,
    reminders: ReminderService,
    zones: ZoneService,
    attachments: AttachmentService,
) -> list[BaseTool]:
    """Every tool, in the order in which the model is told of them.

    Args:
        memories: What they remember.
        reminders: What they remind of.
        zones: Whose clock they read.
        attachments: Whether a model sees pictures.
    """
    tools = [
        form_tool(current_time, CLOCK),
        form_tool(set_time_zone, SET_ZONE, zones),
        form_tool(memory_tools.save_user_fact, memory_tools.SAVE, memories),
        form_tool(memory_tools.search_memory, memory_tools.SEARCH, memories),
        form_tool(memory_tools.forget_fact, memory_tools.FORGET, memories),
        form_tool(memory_tools.forget_everything, memory_tools.FORGET_ALL),
        form_tool(memory_tools.keep_private, memory_tools.KEEP_PRIVATE, memories),
        form_tool(reminder_tools.set_reminder, reminder_tools.SET, reminders),
        form_tool(reminder_tools.list_reminders, reminder_tools.LIST, reminders),
        form_tool(reminder_tools.cancel_reminder, reminder_tools.CANCEL, reminders),
    ]
    if attachments.vision is not None:
        look = form_tool(media_tools.look_at_picture, media_tools.LOOK, attachments)
        look.metadata = {"timeout": media_tools.TIMEOUT}
        tools.append(look)
    return tools


# While the memory is off these could only refuse; all may still be erased.
OF_THE_MEMORY = frozenset({"save_user_fact", "search_memory", "forget_fact", "keep_private"})
OF_REMINDERS = frozenset({"list_reminders", "cancel_reminder"})  # which wait


def useless_tools(*, memory_on: bool, has_reminders: bool, has_files: bool) -> frozenset[str]:
    """Names of those that a turn has no use for."""
    useless = frozenset() if memory_on else OF_THE_MEMORY
    useless = useless if has_reminders else useless | OF_REMINDERS
    return useless if has_files else useless | {"look_at_picture"}


class ToolHistoryService:
    """Runs tool calls, and keeps the newest of each conversation in ``tool_results``."""

    def __init__(self, client: PgClient) -> None:
        """Store with ``client``."""
        self._client = client
        self._results = ToolResultRepository(client)

    async def run(self, request: ToolCallRequest, execute: Execute) -> ToolReply:
        """Run one call of a reply, unless it is beyond ``MAX_AT_ONCE`` or nobody can read it.

        What it stored is told at once: another call of the reply may take long, and be stopped.

        Args:
            request: The call.
            execute: Runs it.
        """
        call = request.tool_call
        if request.tool is None:
            lent: Any = _lent_tool(request.state, call["name"])  # or None: ToolNode says so
            request = request.override(tool=lent)
        ids = [other["id"] for other in request.state["messages"][-1].tool_calls]
        if ids.index(call["id"]) >= MAX_AT_ONCE:
            return _failed(request, WAIT, artifact=NOT_RUN)
        if UNREADABLE in call["args"]:
            return _failed(request, NO_JSON, artifact=NOT_RUN)
        context: Any = request.runtime.context  # LangGraph types it as None
        reply = await self._recorded(request, execute, context)
        if (changes := finding_of(reply).changes) != NO_CHANGES:
            context.on_change(changes)
        return reply

    async def _recorded(
        self, request: ToolCallRequest, execute: Execute, context: TurnContext
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
            reply = _failed(request, describe_tool_error(error))
        text = str(reply.text) if isinstance(reply, ToolMessage) else ""
        if isinstance(reply, ToolMessage) and reply.status == "error":
            failure = failure or "ToolError"
        milliseconds = round((time.perf_counter() - start) * 1000)
        arguments = dict(call["args"])
        if any(holds_secret(str(value)) for value in (*arguments.values(), text)):
            arguments, text = {}, ""  # the message in which it was said is its only place
        result = ToolResult(call["name"], arguments, text, milliseconds, failure)
        await self._store(context, result)
        return reply

    async def _store(self, context: TurnContext, result: ToolResult) -> None:
        try:
            await self._client.run(
                self._results.add, context.conversation_id, context.message_id, result
            )
        except StorageError as error:
            logger.warning("tool call not recorded", extra={"tool": result.name}, exc_info=error)


def _seconds(request: ToolCallRequest) -> float:
    """How long a tool may take: a server's as long as its operator lets it."""
    metadata = request.tool.metadata if request.tool is not None else None
    return float((metadata or {}).get("timeout", TOOL_TIMEOUT))


def _lent_tool(state: ConversationState, name: str) -> BaseTool | None:
    """The tool of a server that the model was offered under this name."""
    return next((tool for tool in state.get("lent_tools") or () if tool.name == name), None)


def _failed(request: ToolCallRequest, text: str, *, artifact: str | None = None) -> ToolMessage:
    """What the model is told in place of a result."""
    name, id_ = request.tool_call["name"], request.tool_call["id"] or ""
    return ToolMessage(text, name=name, tool_call_id=id_, status="error", artifact=artifact)


def describe_tool_error(error: Exception) -> str:
    """What the model is told when a tool fails: enough to mend its call, nothing internal."""
    problem = str(error) if isinstance(error, ValueError) else ""
    if isinstance(error, ToolInvocationError | ValidationError):  # they do not fit the schema
        found = error.filtered_errors if isinstance(error, ToolInvocationError) else error.errors()
        fields: Any = found or []
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fields)
    if isinstance(error, ToolServerError):
        return f"The tool failed: {error}. Answer without it, and say so."
    if problem:
        return f"The tool refused its arguments: {problem[:500]}. Correct them and try again."
    return f"The tool failed ({type(error).__name__}). Answer without it, and say so."
