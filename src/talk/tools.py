"""Tools of the model: their list, the running and recording of calls, the tools for the time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytz
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Command
from pydantic import Field, ValidationError

from src.base import errors, zones
from src.history import timeline_repo, turn_repo
from src.llm.quoting import Form, NoArguments, Runtime, form_tool
from src.llm.text_calls import UNREADABLE
from src.media.attachments import LOOK, LOOK_TIMEOUT, AttachmentService, look_at_picture
from src.memory import tools as memory_tools
from src.memory.memories import Memories
from src.memory.turn_context import NOTHING, Finding, TurnContext, get_finding
from src.pg.client import PgClient
from src.reading.gate import holds_secret
from src.reminders import tools as reminder_tools
from src.reminders.reminder_service import ReminderService
from src.talk.forget_screens import undo_last
from src.talk.settings import ZoneService

logger = logging.getLogger(__name__)

TOOL_TIMEOUT = 30.0  # seconds
MAX_AT_ONCE = 20  # calls of one reply that run
NOT_RUN = "not run"  # artifact of the result of a call that was not run
WAIT = f"Only {MAX_AT_ONCE} tools run at once; this call was not one of them. Call it again alone."
NO_JSON = (
    "The tool refused its arguments: they are no JSON object, or too long. Correct them and try "
    "again."
)

ToolReply = ToolMessage | Command[Any]
Execute = Callable[[ToolCallRequest], Awaitable[ToolReply]]


class CurrentTimeArguments(Form):
    """Arguments of ``current_time``."""

    time_zone: str = ""


CURRENT_TIME = "Tell the current time and weekday."


async def current_time(runtime: Runtime, order: CurrentTimeArguments) -> str:
    """Return the time and the weekday in a zone, by default the user's."""
    context: TurnContext = runtime.context
    place = order.time_zone
    name = zones.find_time_zone(place) if place.strip() else context.time_zone
    if name is None:
        raise ValueError(f"{place[:60]!r} is no time zone; write Area/City, such as Europe/Kyiv")
    zone = pytz.timezone(name)
    now = datetime.now(UTC).astimezone(zone)
    return f"{now:%Y-%m-%d %H:%M, %A} ({zone.zone}, UTC{now:%z})"


class SetTimeZoneArguments(Form):
    """Arguments of ``set_time_zone``."""

    place: str = Field(max_length=200)


SET_ZONE = "Set the user's own time zone, when they say where, or by which clock, they live."


async def set_time_zone(
    service: ZoneService, runtime: Runtime, arguments: SetTimeZoneArguments
) -> tuple[dict[str, Any], Finding]:
    """Store the zone of a place as the user's own, or return why it could not be set."""
    place = arguments.place
    context: TurnContext = runtime.context
    found = await asyncio.to_thread(zones.find_time_zones, place)
    if context.owner.is_group:
        return {"set": False, "reason": "group"}, NOTHING
    if not found:
        return {"set": False, "reason": "unknown"}, NOTHING
    if len(found) > 1:
        return {"set": False, "reason": "several"}, Finding(
            changes=turn_repo.Changes(zones=tuple(found))
        )
    [zone] = found
    moved = await service.keep(context.owner, zone)
    now = f"{zones.local_time(context.moment, zone):%Y-%m-%d %H:%M}"
    result = {"set": True, "zone": zones.name_of_zone(zone), "time": now, "moved": moved}
    return {**result, "note": "name this zone to set_reminder in this turn"}, NOTHING


UNDO = "Take back the last change."


async def undo_change(
    memories: Memories, reminders: ReminderService, runtime: Runtime, _: NoArguments
) -> tuple[dict[str, str], Finding]:
    """Take back the last change: of a reminder, or what was replaced or forgotten."""
    context: TurnContext = runtime.context
    await memories.keep_private(context.owner, context.message_id)  # the order is no note
    said, finding = await undo_last(memories, reminders, context.caller)
    return {"said": said}, finding


# A tool is a function of its services, the turn's runtime and a form of arguments (``form_tool``).
# If it finds or changes something, it returns a ``Finding`` beside its text.


def build_tools(
    memories: Memories,
    reminders: ReminderService,
    zones: ZoneService,
    attachments: AttachmentService,
    *,
    for_notebook: bool = False,
) -> list[BaseTool]:
    """Build every tool, in the order in which the model sees them.

    Args:
        memories: The memory.
        reminders: The reminders.
        zones: The owners' time zones.
        attachments: Attachments; they tell whether a model sees pictures.
        for_notebook: Whether no model is connected: "undo that" is a tool, beside /undo.
    """
    tools = [
        form_tool(current_time, CURRENT_TIME),
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
        look = form_tool(look_at_picture, LOOK, attachments)
        look.metadata = {"timeout": LOOK_TIMEOUT}
        tools.append(look)
    if for_notebook:
        tools.append(form_tool(undo_change, UNDO, memories, reminders))
    return tools


# Tools that could only refuse while the memory is off; everything may still be erased.
MEMORY_TOOLS = frozenset({"save_user_fact", "search_memory", "forget_fact", "keep_private"})
REMINDER_TOOLS = frozenset({"list_reminders", "cancel_reminder"})  # of pending reminders
FILE_TOOLS = frozenset({"look_at_picture"})


def useless_tools(*, memory_on: bool, has_reminders: bool, has_files: bool) -> frozenset[str]:
    """Return the names of the tools that a turn has no use for."""
    uses = ((MEMORY_TOOLS, memory_on), (REMINDER_TOOLS, has_reminders), (FILE_TOOLS, has_files))
    return frozenset[str]().union(*(names for names, is_used in uses if not is_used))


class ToolHistoryService:
    """Running of tool calls; the newest of each conversation are stored in ``tool_results``."""

    def __init__(self, client: PgClient) -> None:
        """Store with ``client``."""
        self._client = client
        self._results = timeline_repo.ToolResultRepository(client)

    async def run(self, request: ToolCallRequest, execute: Execute) -> ToolReply:
        """Run a call of a reply, unless it exceeds ``MAX_AT_ONCE`` or is unreadable.

        Its changes are reported at once: another call of the reply may take long, and be stopped.

        Args:
            request: The call.
            execute: Runs it.
        """
        call = request.tool_call
        context: Any = request.runtime.context  # LangGraph types it as None
        if request.tool is None:
            lent = request.state.get("lent_tools") or ()
            found: Any = next((tool for tool in lent if tool.name == call["name"]), None)
            request = request.override(tool=found)  # None: ToolNode reports it
            context.on_change(turn_repo.NO_CHANGES)  # it may do anything, but not twice
        ids = [other["id"] for other in request.state["messages"][-1].tool_calls]
        if ids.index(call["id"]) >= MAX_AT_ONCE:
            return _failure(call, WAIT, artifact=NOT_RUN)
        if UNREADABLE in call["args"]:
            return _failure(call, NO_JSON, artifact=NOT_RUN)
        reply = await self._run_recorded(request, execute, context)
        changes = get_finding(reply).changes
        if changes != turn_repo.NO_CHANGES:
            context.on_change(changes)
        return reply

    async def _run_recorded(
        self, request: ToolCallRequest, execute: Execute, context: TurnContext
    ) -> ToolReply:
        """Run a tool within its timeout, and store the call; a failure becomes text for the model.

        A failure to store never fails the turn.
        """
        call, start = request.tool_call, time.perf_counter()
        text, failure = "", None
        metadata = (request.tool and request.tool.metadata) or {}
        try:
            async with asyncio.timeout(metadata.get("timeout", TOOL_TIMEOUT)):
                reply = await execute(request)
        except TimeoutError as error:  # other errors are told by ToolNode
            failure = "TimeoutError"
            logger.warning("tool failed", extra={"tool": call["name"]}, exc_info=error)
            reply = _failure(call, describe_tool_error(error))
        if isinstance(reply, ToolMessage):
            text = str(reply.text)
            if reply.status == "error":
                failure = failure or "ToolError"
        milliseconds = round((time.perf_counter() - start) * 1000)
        arguments = dict(call["args"])
        if any(holds_secret(str(value)) for value in (*arguments.values(), text)):
            arguments, text = {}, ""  # only the message itself may hold the secret
        result = timeline_repo.ToolResult(call["name"], arguments, text, milliseconds, failure)
        try:
            await self._client.run(
                self._results.add, context.conversation_id, context.message_id, result
            )
        except errors.StorageError as error:
            logger.warning("tool call not recorded", extra={"tool": result.name}, exc_info=error)
        return reply


def _failure(call: ToolCall, text: str, *, artifact: str | None = None) -> ToolMessage:
    name, id_ = call["name"], call["id"] or ""
    return ToolMessage(text, name=name, tool_call_id=id_, status="error", artifact=artifact)


def describe_tool_error(error: Exception) -> str:
    """Describe a tool's failure to the model: enough to correct its call, nothing internal."""
    problem = ""
    if isinstance(error, ValueError):
        problem = str(error)
    if isinstance(error, ToolInvocationError | ValidationError):  # a schema mismatch
        found = error.filtered_errors if isinstance(error, ToolInvocationError) else error.errors()
        fields: Any = found or []
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fields)
    if isinstance(error, errors.ToolServerError):
        return f"The tool failed: {error}. Answer without it, and say so."
    if problem:
        return f"The tool refused its arguments: {problem[:500]}. Correct them and try again."
    return f"The tool failed ({type(error).__name__}). Answer without it, and say so."
