"""Tools: remind the user of something later, list the reminders that wait, cancel one."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import ToolRuntime

from src.base.owners import Called
from src.history.new_messages import new_messages, own_words
from src.history.turn_repo import Changes
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.reminders.reminder_service import ReminderResult, ReminderService, record
from src.reminders.rules import ReminderOrder
from src.texts import detect_language
from src.texts.plain_text import shortened

DESCRIPTION = """\
Remind the user of something at a time, once or again and again; the program sends it then. Only \
when they themselves ask for it; once for each reminder. Leave when empty where no time is named.

With moves, the id of a reminder, that one is moved instead.

Returns JSON: {"set": true, "id", "text", "time"}: tell them this time, as it stands. Or {"set": \
false, "reason"}: no_time (ask them when), past, too_far (ten years at most), too_many (200 wait; \
/reminders cancels some), not_own (no words of their own ask for it)."""


def build_set_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``set_reminder``; the schema of its arguments is ``ReminderOrder``."""

    async def set_reminder(runtime: ToolRuntime[Any, Any], **values: Any) -> tuple[str, Finding]:
        context: TurnContext = runtime.context
        called = called_in(context)
        if not _asks_himself(runtime):
            return _told(ReminderResult(refusal="not_own"), called), NOTHING
        order = ReminderOrder.model_validate(values)
        asked = await reminders.take(called, order, message_id=context.message_id)
        ids = () if asked.reminder is None else (asked.reminder.id,)
        return _told(asked, called), Finding(changes=Changes(reminders=ids))

    return StructuredTool.from_function(
        coroutine=set_reminder,
        name="set_reminder",
        description=DESCRIPTION,
        args_schema=ReminderOrder,
        response_format="content_and_artifact",
    )


def called_in(context: TurnContext) -> Called:
    """Who asks in a turn; they are answered in the language that they write."""
    language = detect_language(context.text, context.language)
    zone, speaker = context.time_zone, context.speaker_id
    return Called(context.owner, language, context.moment, zone, member=speaker)


def _asks_himself(runtime: ToolRuntime[Any, Any]) -> bool:
    """Whether the user typed anything of what is answered: forwarded words ask for nothing."""
    history = runtime.state.get("history") or ()
    words = own_words(new_messages(history))
    return not history or any(one["is_asked"] and one["text"].strip() for one in words)


def _told(asked: ReminderResult, called: Called) -> str:
    if asked.reminder is None:
        return json.dumps({"set": False, "reason": asked.refusal})
    done = {"set": True, "moved": True} if asked.is_moved else {"set": True}
    return json.dumps({**done, **record(asked.reminder, called)}, ensure_ascii=False)


MAX_SHOWN = 200  # characters of each


def build_list_reminders(reminders: ReminderService) -> BaseTool:
    """The tool ``list_reminders``."""

    @tool
    async def list_reminders(runtime: ToolRuntime[Any, Any]) -> str:
        """List the user's reminders that are still to come.

        Returns:
            JSON: {"reminders": [{"id", "text", "time", "when"}]}, the next one first.
        """
        context: TurnContext = runtime.context
        called = called_in(context)
        found = [
            {**one, "text": shortened(one["text"], MAX_SHOWN)}
            for one in await reminders.list_records(called)
        ]
        return json.dumps({"reminders": found}, ensure_ascii=False)

    return list_reminders


def build_cancel_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``cancel_reminder``."""

    @tool
    async def cancel_reminder(runtime: ToolRuntime[Any, Any], id: str) -> str:  # noqa: A002
        """Cancel one of the user's reminders. Only when they ask for it.

        Args:
            id: Of list_reminders or set_reminder, such as "reminder-12".

        Returns:
            JSON: {"cancelled": true, "text"}; false when there is none, or another member
            of the group asked for it.
        """
        known = await reminders.cancel(called_in(runtime.context), id)
        found = {"cancelled": True, "text": known.text} if known else {"cancelled": False}
        return json.dumps(found, ensure_ascii=False)

    return cancel_reminder
