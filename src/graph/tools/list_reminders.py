"""Tools: the reminders that wait, and one of them cancelled."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.facts.fact import fact_number
from src.graph.conversation_state import TurnContext
from src.graph.tools.set_reminder import asking_of
from src.reminders.reminder_service import REMINDER_UID, ReminderService, reminder_uid
from src.storage.reminder_repo import MAX_WAITING
from src.texts.visible import shortened

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
        found = [
            {
                "id": reminder_uid(one),
                "text": shortened(one.text, MAX_SHOWN),
                "time": asking.describe(one),
            }
            for one in await reminders.list_waiting(context.owner, limit=MAX_WAITING)
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
