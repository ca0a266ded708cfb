"""Tools: remind the user of something later, list the reminders that wait, cancel one."""

from collections.abc import Mapping
from typing import Any

from src.base.owners import Called
from src.history.new_messages import last_answer, new_messages, own_words
from src.history.turn_repo import Changes
from src.llm.quoting import NoArguments, Runtime
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.reminders.reminder_repo import MAX_WAITING
from src.reminders.reminder_service import ReminderResult, ReminderService, records, told
from src.reminders.rules import CancelOrder, ReminderOrder
from src.texts import detect_language
from src.texts.plain_text import shortened

SET = """\
Remind at a time, only when they ask. Tell the time returned, or why not. Without \
list_reminders none waits."""
LIST = "List the user's reminders, the next one first."
MAX_SHOWN = 200  # characters of each
Told = Mapping[str, Any]
CANCEL = "Cancel a reminder, when the user asks; false: there is none, or it is another's."


async def set_reminder(
    reminders: ReminderService, runtime: Runtime, order: ReminderOrder
) -> tuple[Told, Finding]:
    """Set a reminder, if the user asks for it themselves."""
    context: TurnContext = runtime.context
    called = called_in(context)
    if not _asks_himself(runtime):
        return _written(told(ReminderResult(refusal="not_own"), called)), NOTHING
    said_before = last_answer(runtime.state.get("history") or ())
    asked = await reminders.take(
        called, order, said_before=said_before, message_id=context.message_id
    )
    ids = () if asked.reminder is None else (asked.reminder.id,)
    return _written(told(asked, called)), Finding(changes=Changes(reminders=ids))


def called_in(context: TurnContext) -> Called:
    """Who asks in a turn; they are answered in the language that they write."""
    language = detect_language(context.text, context.language)
    zone, speaker = context.time_zone, context.speaker_id
    return Called(context.owner, language, context.moment, zone, member=speaker)


def _asks_himself(runtime: Runtime) -> bool:
    """Whether the user typed anything of what is answered: forwarded words ask for nothing."""
    history = runtime.state.get("history") or ()
    words = own_words(new_messages(history))
    return not history or any(one["is_asked"] and one["text"].strip() for one in words)


def _written(found: Told) -> Told:
    listed = found.get("reminders", ())
    short = [{**one, "text": shortened(one["text"], MAX_SHOWN)} for one in listed]
    return {**found, "reminders": short} if "reminders" in found else found


async def list_reminders(reminders: ReminderService, runtime: Runtime, _: NoArguments) -> Told:
    """The reminders that wait, the next one first."""
    context: TurnContext = runtime.context
    waiting = await reminders.run(reminders.rows.list_waiting, context.owner, limit=MAX_WAITING)
    return _written({"reminders": records(waiting, called_in(context))})


async def cancel_reminder(
    reminders: ReminderService, runtime: Runtime, order: CancelOrder
) -> Told:
    """Cancel the reminder that is meant, or say which may be."""
    called, history = called_in(runtime.context), runtime.state.get("history") or ()
    asked = await reminders.take(called, order, said_before=last_answer(history))
    return _written(told(asked, called))
