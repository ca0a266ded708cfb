"""Tools: remind the user of something later, list the reminders that wait, cancel one."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from pydantic import Field

from src.base.owners import Called
from src.history.new_messages import new_messages, own_words
from src.history.turn_repo import Changes
from src.llm.quoting import Form
from src.llm.tool_forms import NoArguments, form_tool
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.reminders.reminder_service import ReminderResult, ReminderService, record
from src.reminders.rules import ReminderOrder
from src.texts import detect_language
from src.texts.plain_text import shortened

SET = """\
Remind at a time, only when they ask. Tell the time it returns, or why \
not: no_time (ask when), past, too_far, too_many, not_own."""
LIST = "List the user's reminders, the next one first."
CANCEL = "Cancel a reminder, when the user asks; false: there is none, or it is another's."


def build_set_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``set_reminder``; its arguments are a ``ReminderOrder``."""

    async def set_reminder(
        runtime: ToolRuntime[Any, Any], order: ReminderOrder
    ) -> tuple[str, Finding]:
        context: TurnContext = runtime.context
        called = called_in(context)
        if not _asks_himself(runtime):
            return _told(ReminderResult(refusal="not_own"), called), NOTHING
        asked = await reminders.take(called, order, message_id=context.message_id)
        ids = () if asked.reminder is None else (asked.reminder.id,)
        return _told(asked, called), Finding(changes=Changes(reminders=ids))

    return form_tool(set_reminder, ReminderOrder, SET)


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

    async def list_reminders(runtime: ToolRuntime[Any, Any], _: NoArguments) -> str:
        context: TurnContext = runtime.context
        called = called_in(context)
        found = [
            {**one, "text": shortened(one["text"], MAX_SHOWN)}
            for one in await reminders.list_records(called)
        ]
        return json.dumps({"reminders": found}, ensure_ascii=False)

    return form_tool(list_reminders, NoArguments, LIST, with_finding=False)


class CancelOrder(Form):
    """Which reminder is to be cancelled."""

    id: str = Field(description="such as reminder-12")


def build_cancel_reminder(reminders: ReminderService) -> BaseTool:
    """The tool ``cancel_reminder``."""

    async def cancel_reminder(runtime: ToolRuntime[Any, Any], order: CancelOrder) -> str:
        known = await reminders.cancel(called_in(runtime.context), order.id)
        found = {"cancelled": True, "text": known.text} if known else {"cancelled": False}
        return json.dumps(found, ensure_ascii=False)

    return form_tool(cancel_reminder, CancelOrder, CANCEL, with_finding=False)
