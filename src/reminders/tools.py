"""Tools: remind the user of something later, list the reminders that wait, cancel one."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import ToolRuntime

from src.history.new_messages import new_messages, own_words
from src.history.turn_repo import Changes
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.reading.facts import fact_number
from src.reminders.reminder_repo import MAX_WAITING, REMINDER_UID, Reminder
from src.reminders.reminder_service import Asked, Asking, ReminderService
from src.reminders.rules import ReminderOrder
from src.texts import detect_language
from src.texts.plain_text import shortened

DESCRIPTION = """\
Remind the user of something at a time, once or again and again; the program sends it then. Only \
when he himself asks for it; once for each reminder. Leave when empty where he names no time.

Returns JSON: {"set": true, "id", "text", "time"}: tell him this time, as it stands. Or {"set": \
false, "reason"}: no_time (ask him when), past, too_far (ten years at most), too_many (200 wait; \
/reminders cancels some), not_own (no words of his own ask for it)."""


def build_set_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``set_reminder``; the schema of its arguments is ``ReminderOrder``."""

    async def set_reminder(runtime: ToolRuntime[Any, Any], **values: Any) -> tuple[str, Finding]:
        context: TurnContext = runtime.context
        asking = asking_of(context)
        if not _asks_himself(runtime):
            return _told(Asked(refusal="not_own"), asking), NOTHING
        order = ReminderOrder.model_validate(values)
        own = order.own_zone()
        zone = own or asking.time_zone
        when = order.moment(asking.moment, zone)
        repeats = None if when is None else order.recurrence(when, zone)
        asked = await reminders.set(asking, order.text, when, repeats, own_zone=own)
        ids = () if asked.reminder is None else (asked.reminder.id,)
        return _told(asked, asking), Finding(changes=Changes(reminders=ids))

    return StructuredTool.from_function(
        coroutine=set_reminder,
        name="set_reminder",
        description=DESCRIPTION,
        args_schema=ReminderOrder,
        response_format="content_and_artifact",
    )


def asking_of(context: TurnContext) -> Asking:
    """Who asks in a turn; he is answered in the language that he writes."""
    return Asking(
        context.owner,
        context.moment,
        context.time_zone,
        detect_language(context.text, context.language),
        context.speaker_id,
        context.message_id,
    )


def _asks_himself(runtime: ToolRuntime[Any, Any]) -> bool:
    """Whether he typed anything in what is answered: forwarded words ask for nothing."""
    history = runtime.state.get("history") or ()
    words = own_words(new_messages(history))
    return not history or any(one["is_asked"] and one["text"].strip() for one in words)


def _told(asked: Asked, asking: Asking) -> str:
    if asked.reminder is None:
        return json.dumps({"set": False, "reason": asked.refusal})
    return json.dumps({"set": True, **_shown(asked.reminder, asking)}, ensure_ascii=False)


def _shown(reminder: Reminder, asking: Asking) -> dict[str, str]:
    return {"id": reminder.uid, "text": reminder.text, "time": asking.describe(reminder)}


MAX_SHOWN = 200  # characters of each


def build_list_reminders(reminders: ReminderService) -> BaseTool:
    """The tool ``list_reminders``."""

    @tool
    async def list_reminders(runtime: ToolRuntime[Any, Any]) -> str:
        """List the user's reminders that are still to come.

        Returns:
            JSON: {"reminders": [{"id", "text", "time"}]}, the next one first.
        """
        context: TurnContext = runtime.context
        asking = asking_of(context)
        waiting = await reminders.list_waiting(context.owner, limit=MAX_WAITING)
        found = [
            {**_shown(one, asking), "text": shortened(one.text, MAX_SHOWN)} for one in waiting
        ]
        return json.dumps({"reminders": found}, ensure_ascii=False)

    return list_reminders


def build_cancel_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``cancel_reminder``."""

    @tool
    async def cancel_reminder(runtime: ToolRuntime[Any, Any], id: str) -> str:  # noqa: A002
        """Cancel one of the user's reminders. Only when he asks for it.

        Args:
            id: Of list_reminders or set_reminder, such as "reminder-12".

        Returns:
            JSON: {"cancelled": true, "text"}; false when there is none, or another member
            of the group asked for it.
        """
        context: TurnContext = runtime.context
        number = fact_number(id, REMINDER_UID)
        known = None if number is None else await reminders.find(context.owner, number)
        done = known is not None and known.may_be_changed_by(context.speaker_id)
        if known is not None and done:
            done = await reminders.cancel(context.owner, known.id)
        text = {"text": known.text} if known is not None and done else {}
        return json.dumps({"cancelled": done, **text}, ensure_ascii=False)

    return cancel_reminder
