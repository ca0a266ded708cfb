"""Tool: remind the user of something later."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.graph.findings import NOTHING, Finding
from src.graph.new_messages import new_messages, own_words
from src.llm.prompts.reminder_order import ReminderOrder
from src.reminders.reminder_service import Asked, Asking, ReminderService, reminder_uid
from src.storage.turn_repo import Changes
from src.texts import detect_language

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
        when = order.moment(asking.moment, asking.time_zone)
        repeats = None if when is None else order.recurrence(when, asking.time_zone)
        asked = await reminders.set(asking, order.text, when, repeats)
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
    reminder = asked.reminder
    if reminder is None:
        return json.dumps({"set": False, "reason": asked.refusal})
    found = {
        "set": True,
        "id": reminder_uid(reminder),
        "text": reminder.text,
        "time": asking.describe(reminder),
    }
    return json.dumps(found, ensure_ascii=False)
