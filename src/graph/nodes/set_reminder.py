"""Strict mode: remind the user of something."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.reminders.reminder_service import Asking, ReminderService, confirmation
from src.storage.turn_repo import Changes


async def set_reminder(
    state: ConversationState,  # noqa: ARG001  (LangGraph passes the state first)
    runtime: Runtime[TurnContext],
    *,
    reminders: ReminderService,
) -> ConversationState:
    """Set what the message asks for, read by rule; where no time can be read, ask for it.

    Reads: nothing.
    Updates: ``answer``, ``references``.
    Side effects: a reminder is stored.
    """
    context = runtime.context
    asking = Asking(
        context.owner, context.moment, context.time_zone, context.language, context.speaker_id,
        context.message_id,
    )  # fmt: skip
    asked = await reminders.set_by_words(asking, context.text)
    if asked.reminder is not None:
        context.on_change(Changes(reminders=(asked.reminder.id,)))
    return {"answer": confirmation(asked, asking), "references": []}
