"""Reminder commands, their list with buttons, and the messages that deliver reminders."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from src.base.owners import Caller
from src.base.zones import DAY, day_text, first_moment, local_time
from src.reminders.briefs import BriefScreens
from src.reminders.follow_ups import FollowUpService
from src.reminders.reminder_repo import DueReminder, Reminder
from src.reminders.reminder_service import (
    ReminderService,
    describe_time,
    format_result,
    time_marks,
)
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, Rows, Times, in_rows, pager_row

PAGE = 8  # reminders per page; with MAX_LINE, half of a Telegram message
PER_ROW = 4  # numbered buttons per row
MAX_LINE = 160  # characters of a reminder in a list
LATE = timedelta(minutes=10)  # delay from which on a reminder apologizes
MAX_EPOCH = 2**33  # seconds since 1970, the latest time accepted from a button: the year 2242
IN_ANSWER = 0  # instead of a page number: the button belongs to an answer

# Snoozes by the number in their button: (now, the reminder's time, zone) → new time.
SNOOZES: dict[int, Callable[[datetime, datetime, str], datetime]] = {
    0: lambda now, _due, _zone: now + timedelta(minutes=10),
    1: lambda now, _due, _zone: now + timedelta(hours=1),
    2: lambda now, due, zone: _tomorrow(now, due, zone),
}


class ReminderScreens:
    """Replies to ``/remind``, ``/reminders`` and the buttons of reminders.

    Attributes:
        briefs: Replies to ``/today`` and ``/brief``.
        follow_ups: Questions how something went.
    """

    def __init__(
        self, reminders: ReminderService, briefs: BriefScreens, follow_ups: FollowUpService
    ) -> None:
        """Use ``reminders``."""
        self._reminders, self.briefs, self.follow_ups = reminders, briefs, follow_ups
        self._run, self._rows = reminders.run, reminders.rows

    async def remind(self, caller: Caller) -> Reply:
        """Answer ``/remind tomorrow at 9 to call mum``: set it, or say what is missing."""
        if not caller.argument:
            return Reply(say("remind_usage", caller.language))
        asked = await self._reminders.set_by_words(caller, caller.argument)
        text = format_result(asked, caller)
        if asked.reminder is None:
            return Reply(text)
        rows: Rows = ((cancel_button(asked.reminder.id, caller.language),),)
        return Reply(text, rows, times=time_marks(asked.reminder, caller))

    async def page(self, caller: Caller, number: int = 1, *, note: str = "") -> Reply:
        """Return a page of the pending reminders, the next one first.

        Args:
            caller: The caller.
            number: Page number from 1; limited to the last page.
            note: Text about the last action, shown above.
        """
        language = caller.language
        total = await self._run(self._rows.count, caller.owner)
        if not total:
            text = say("reminders_empty", language)
            return Reply(f"{note}\n\n{text}".strip(), is_screen=True)
        last = -(-total // PAGE)
        number = max(1, min(number, last))
        offset = (number - 1) * PAGE
        waiting = self._rows.list_waiting
        listed = await self._run(waiting, caller.owner, limit=PAGE, offset=offset)
        lines = [note, say("reminders_title", language, count=total)]
        buttons: list[Button] = []
        times: Times = ()
        for place, one in enumerate(listed, start=offset + 1):
            lines.append(f"{place}. {shortened(one.text, MAX_LINE)}\n{describe_time(one, caller)}")
            times += time_marks(one, caller)
            buttons.append(Button(f"✖ {place}", Action("unremind", (one.id, number))))
        rows = in_rows(buttons, PER_ROW) + pager_row(number, last, "reminders")
        text = "\n\n".join(filter(None, lines))
        hint = say("reminders_hint", language)
        return Reply(text, rows, hint, is_screen=True, times=times)

    async def cancel(self, caller: Caller, number: int, page: int) -> Reply:
        """Cancel a reminder, by a button of a page or of the answer that set it."""
        found = await self._find(caller, number)
        if found is None and page != IN_ANSWER:
            return await self.page(caller, page, note=say("reminder_gone", caller.language))
        if found is None or not found.may_be_changed_by(caller.asker):
            return _refusal(found, caller)
        is_done = await self._run(self._rows.cancel, caller.owner, number, asker=caller.asker)
        text, note = shortened(found.text, MAX_LINE), say("reminder_gone", caller.language)
        if is_done or found.is_cancelled:
            note = say("reminder_cancelled", caller.language, text=text)
        if page != IN_ANSWER:
            return await self.page(caller, page, note=note)
        return Reply(note) if is_done else Reply.closing_note(note)

    async def snooze(self, caller: Caller, number: int, choice: int, due: int) -> Reply:
        """Snooze a reminder, also a past one; of several taps the last one counts.

        Args:
            caller: The caller.
            number: Id of the reminder.
            choice: Key of SNOOZES.
            due: Time for which it was delivered, in seconds since 1970; "tomorrow" keeps its
                hour.
        """
        found = await self._find(caller, number)
        if found is None or not found.may_be_changed_by(caller.asker):
            return _refusal(found, caller)
        now = caller.moment.astimezone(UTC)
        due_at = datetime.fromtimestamp(due, UTC) if 0 < due < MAX_EPOCH else now
        later = SNOOZES.get(choice, SNOOZES[0])(now, due_at, caller.time_zone)
        snoozed = await self._run(
            self._rows.snooze, caller.owner, number, later, time_zone=caller.time_zone, now=now
        )
        if snoozed is None:
            return _refusal(None, caller)
        language = caller.language
        time = describe_time(snoozed, caller)
        text = f"⏰ {found.text}\n\n{say('reminder_snoozed', language, time=time)}"
        rows: Rows = ((_done_button(snoozed.id, language),),)
        if found.repeats is not None and found.is_waiting:
            rows = (*rows, (_stop_button(found.id, language),))
        return Reply(text, rows, is_screen=True, times=time_marks(snoozed, caller))

    async def finish(self, caller: Caller, number: int) -> Reply:
        """Finish a reminder; a recurring one shows its next time."""
        found = await self._find(caller, number)
        if found is None or not found.may_be_changed_by(caller.asker):
            return _refusal(found, caller)
        await self._run(self._rows.finish, caller.owner, number)
        text = f"✅ {found.text}"
        if found.repeats is None or not found.is_waiting:
            return Reply(text, is_screen=True)
        time = describe_time(found, caller)
        text = f"{text}\n\n{say('reminder_goes_on', caller.language, time=time)}"
        rows: Rows = ((_stop_button(number, caller.language),),)
        return Reply(text, rows, is_screen=True, times=time_marks(found, caller))

    async def stop(self, caller: Caller, number: int) -> Reply:
        """Cancel a recurring reminder; a second tap gives the same reply."""
        found = await self._find(caller, number)
        if found is None or not found.may_be_changed_by(caller.asker):
            return _refusal(found, caller)
        await self._run(self._rows.cancel, caller.owner, number, asker=caller.asker)
        text = f"⏰ {found.text}\n\n{say('reminder_stopped', caller.language)}"
        return Reply(text, is_screen=True)

    async def _find(self, caller: Caller, number: int) -> Reminder | None:
        return await self._run(self._rows.find, caller.owner, number)


def arrival(due: DueReminder, now: datetime, known: str = "") -> Reply:
    """Return the message that delivers a reminder, with an apology if it is late.

    Args:
        due: The reminder.
        now: The current time, aware.
        known: What is known about its subject, or "".
    """
    reminder, language = due.reminder, due.language
    text = f"⏰ {reminder.text}"
    times: Times = ()
    if now - reminder.due_at > LATE:
        time = _planned_time(reminder, language, now)
        text = f"{text}\n\n{say('reminder_late', language, time=time)}"
        times = ((time, reminder.due_at),)
    if known:
        text = f"{text}\n\n{known}"
    epoch = int(reminder.due_at.timestamp())
    labels = [say("later_minutes", language), say("later_hour", language)]
    labels.append(say("later_tomorrow", language))
    actions = [Action("later", (reminder.id, choice, epoch)) for choice in SNOOZES]
    later = tuple(map(Button, labels, actions))
    end = [_done_button(reminder.id, language)]
    if reminder.repeats is not None:
        end.append(_stop_button(reminder.id, language))
    return Reply(text, (later, tuple(end)), times=times)


def cancel_button(number: int, language: Language) -> Button:
    """Return the button that cancels a reminder, for the answer that set it."""
    return Button(say("reminder_cancel_button", language), Action("unremind", (number, IN_ANSWER)))


def _planned_time(reminder: Reminder, language: Language, now: datetime) -> str:
    zone = reminder.time_zone
    local = local_time(reminder.due_at, zone)
    time = f"{local:%H:%M}"
    if local.date() != local_time(now, zone).date():
        day = day_text(reminder.due_at, now, language, zone)
        time = say("reminder_late_day", language, day=day, time=time)
    return time


def _refusal(found: Reminder | None, caller: Caller) -> Reply:
    """Return why a reminder cannot be changed: it is gone, or another member's."""
    if found is None:
        return Reply.closing_note(say("reminder_gone", caller.language))
    return Reply.note(say("reminder_not_yours", caller.language))


def _done_button(number: int, language: Language) -> Button:
    return Button(say("reminder_done_button", language), Action("done", (number,)))


def _stop_button(number: int, language: Language) -> Button:
    return Button(say("reminder_stop_button", language), Action("norepeat", (number,)))


def _tomorrow(now: datetime, due: datetime, time_zone: str) -> datetime:
    day = local_time(now, time_zone).date() + DAY
    hour = local_time(due, time_zone).time().replace(tzinfo=None)
    return first_moment(datetime.combine(day, hour), time_zone)
