"""Tools that set, list and cancel reminders."""

from collections.abc import Mapping
from typing import Any

from src.history import new_messages, turn_repo
from src.llm.quoting import NoArguments, Runtime
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.reminders.reminder_service import ReminderResult, ReminderService, payload, payloads
from src.reminders.rules import CancelOrder, ReminderOrder, words_beside_cancel
from src.texts import plain_text

SET = """\
Set a reminder, or move one, only when the user asks to be reminded. Then tell them the time that \
it returns, or why nothing was set. If you have no tool list_reminders, no reminder is waiting."""
LIST = "List the user's waiting reminders, the next one first."
MAX_SHOWN = 200  # characters of each reminder
Payload = Mapping[str, Any]
CANCEL = """\
Cancel a waiting reminder, or leave out a day of a recurring one, when the user asks. It returns \
false if there is no such reminder, or if it is another member's."""


async def set_reminder(
    reminders: ReminderService, runtime: Runtime, order: ReminderOrder
) -> tuple[Payload, Finding]:
    """Set a reminder, if the user asks for it themselves."""
    context: TurnContext = runtime.context
    caller = context.caller
    history = runtime.state.get("history") or ()
    words = new_messages.own_words(new_messages.new_messages(history))
    # The user must have typed some of the new messages: forwarded words ask for nothing.
    if history and not any(one["is_asked"] and one["text"].strip() for one in words):
        return _shorten(payload(ReminderResult(refusal="not_own"), caller)), NOTHING
    said_before = new_messages.last_answer(history)
    order = order.by_words(context.text, caller.moment, caller.time_zone)
    asked = await reminders.apply_order(
        caller, order, said_before=said_before, message_id=context.message_id
    )
    ids = () if asked.reminder is None else (asked.reminder.id,)
    changes = turn_repo.Changes(reminders=ids)
    return _shorten(payload(asked, caller)), Finding(changes=changes, asks=question_of(asked))


def question_of(result: ReminderResult) -> turn_repo.Asks | None:
    """Return what the answer asks about a reminder; "reminder" if one was set or moved."""
    if result.refusal in ("no_time", "no_day"):
        return "reminder_time"
    if result.refusal == "which":
        return "reminder_which"
    is_waiting = result.reminder is not None and result.done != "cancelled"
    return "reminder" if is_waiting else None


def _shorten(found: Payload) -> Payload:
    listed = found.get("reminders", ())
    short = [{**one, "text": plain_text.shortened(one["text"], MAX_SHOWN)} for one in listed]
    return {**found, "reminders": short} if "reminders" in found else found


async def list_reminders(
    reminders: ReminderService, runtime: Runtime, _: NoArguments
) -> tuple[Payload, Finding]:
    """The reminders that wait, the next one first."""
    context: TurnContext = runtime.context
    waiting = await reminders.run(reminders.rows.list_waiting, context.owner)
    found = _shorten({"reminders": payloads(waiting, context.caller)})
    return found, Finding(asks="reminder" if waiting else None)


async def cancel_reminder(
    reminders: ReminderService, runtime: Runtime, order: CancelOrder
) -> tuple[Payload, Finding]:
    """Cancel the reminder that is meant, or say which may be."""
    context: TurnContext = runtime.context
    caller, history = context.caller, runtime.state.get("history") or ()
    said_before, reason = new_messages.last_answer(history), words_beside_cancel(context.text)
    asked = await reminders.apply_order(caller, order, said_before=said_before, reason=reason)
    return _shorten(payload(asked, caller)), Finding(asks=question_of(asked))
