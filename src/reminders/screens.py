"""Reminder commands, their list with buttons, the messages that deliver reminders, and the brief.

The brief of the day is shown by ``/today``; ``/brief`` sends it every morning.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product

from src.base.owners import Caller
from src.base.zones import DAY, day_text, first_moment, local_time
from src.pg.client import PgClient
from src.reading import lexicon
from src.reading.recurrences import Recurrence, next_after
from src.reading.requests import ASKING
from src.reading.times import fold, weekdays_in
from src.reminders.day import DayService, title_of
from src.reminders.follow_ups import FollowUpService
from src.reminders.reminder_repo import DueReminder, NewReminder, Reminder
from src.reminders.reminder_service import (
    ReminderService,
    describe_time,
    format_result,
    time_marks,
)
from src.reminders.rules import read_words
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, Rows, Times, in_rows, pager_row

PAGE = 8  # reminders per page; with MAX_LINE, half of a Telegram message
PER_ROW = 4  # numbered buttons per row
MAX_LINE = 160  # characters of a reminder in a list
LATE = timedelta(minutes=10)  # delay from which on a reminder apologizes
MAX_EPOCH = 2**33  # seconds since 1970, the latest time accepted from a button: the year 2242
IN_ANSWER = 0  # instead of a page number: the button belongs to an answer

BRIEF = "brief"  # text of the row, and the subject of a request
HOURS = range(5, 23)  # on the user's clock, in which a brief may come
LATEST = timedelta(hours=3)  # a later one is left out
MAX_ORDER = 80  # characters of an order in words
LAST_TIME = re.compile(r"(?<![\d:.])(\d{1,2})(?:\.(\d\d))?$")
BEFORE_TIME = ("", "on ", "at ", "по ")  # what people leave out: "tue and thu 8"
WORDS = lexicon.AnyCase(r"(?<![\w-])<day.brief>(?![\w-])")
SENDS = lexicon.AnyCase(r"(?<![\w-])<day.send>(?![\w-])")
BESIDE = lexicon.AnyCase(
    r"(?<![\w-])(?:<day.brief>|<day.send>|<day.beside>|<reminder.greeting>)(?![\w-])"
    r"|[:—–,.!]\s|[.!?]$"
)
OFF = lexicon.AnyCase(r"\W*(?:(?:<day.off>|<answers.no>|<cancel.surely>|<move.it>)(?!\w)\W*){1,8}")


@dataclass(frozen=True)
class BriefOrder:
    """Order to send the brief at certain times, or no more (``repeats`` is None).

    ``is_habit`` is False if the words only name an hour.
    """

    repeats: Recurrence | None
    is_habit: bool = True


def read_times(words: str, caller: Caller) -> BriefOrder | None:
    """Return the order in the words behind ``/brief``, or None.

    Args:
        words: "8:00", "every weekday at 8", "off".
        caller: The caller, whose clock counts.
    """
    words = " ".join(BESIDE.sub(" ", ASKING.sub("", words)).split())
    if not words or len(words) > MAX_ORDER:
        return None
    if OFF.fullmatch(words):
        return BriefOrder(None)
    bare = LAST_TIME.sub(lambda time: f"{time[1]}:{time[2] or '00'}", words)
    for lead, written in product(BEFORE_TIME, (bare, words)):
        request = read_words(f"{lead}{written} {BRIEF}", caller.moment, caller.time_zone)
        if request is not None and request.when is not None and request.what == BRIEF:
            zone = request.time_zone or caller.time_zone
            first, days = local_time(request.when, zone), weekdays_in(words)
            daily = Recurrence.of("day", first, weekdays=days)
            return BriefOrder(request.repeats or daily, request.repeats is not None)
    return None


def read_order(text: str, caller: Caller) -> BriefOrder | None:
    """Return the order of a message about the brief, or None for any other message.

    It says nothing else, and names a habit, the sending or the end: "brief every weekday at 8",
    "присылай сводку в 8", "no more briefs".
    """
    if len(text) > MAX_ORDER or WORDS.search(text) is None:
        return None
    order = read_times(text, caller)
    if order is None or order.is_habit or SENDS.search(text):
        return order
    return None


class BriefScreens:
    """Replies to ``/today`` and ``/brief``, and the brief itself."""

    def __init__(self, client: PgClient, day: DayService) -> None:
        """Tell of the days that ``day`` describes."""
        self._run, self._day = client.run, day

    async def today(self, caller: Caller, days: Sequence[date] = ()) -> Reply:
        """Return the page of the day (``/today``), or of later ones."""
        if caller.owner.is_group:
            return Reply(say("day_in_private", caller.language), is_personal=True)
        page = await self._day.describe(caller, days)
        if page is not None:
            return page
        if list(days) in ([], [caller.now.date()]):
            return Reply(say("day_empty", caller.language))
        edges = dict.fromkeys((days[0], days[-1]))
        title = " – ".join(title_of(day, caller.language) for day in edges)
        return Reply(say("day_empty_then", caller.language, day=title))

    async def brief(self, caller: Caller) -> Reply:
        """Switch the brief on or off, or move it (``/brief 8:00``); alone, tell when it comes."""
        if caller.owner.is_group:
            return Reply(say("day_in_private", caller.language), is_personal=True)
        if caller.argument:
            order = read_times(fold(caller.argument), caller)
            if order is not None:
                return await self.obey(caller, order)
        found = await self._run(self._day.rows.find_brief, caller.owner)
        if found is None or caller.argument:
            return Reply(say("brief_usage", caller.language))
        time = describe_time(found, caller)
        return Reply(say("brief_is_on", caller.language, time=time))

    async def obey(self, caller: Caller, order: BriefOrder) -> Reply:
        """Carry out an order; a brief that is on has a button that switches it off."""
        rows, repeats, language = self._day.rows, order.repeats, caller.language
        if repeats is None:
            return await self.stop(caller)
        if len(repeats.hours) > 1 or repeats.hours[0] not in HOURS:
            return Reply(say("brief_hours", language))
        due = next_after(repeats, caller.moment, caller.time_zone)
        new = NewReminder(BRIEF, due, repeats, caller.time_zone, language)
        brief = await self._run(rows.set_brief, caller.owner, new, now=datetime.now(UTC))
        button = Button(say("brief_off_button", language), Action("nobrief"))
        return Reply(say("brief_on", language, time=describe_time(brief, caller)), ((button,),))

    async def stop(self, caller: Caller) -> Reply:
        """Switch the brief off."""
        await self._run(self._day.rows.stop_brief, caller.owner)
        return Reply(say("brief_off", caller.language), is_screen=True)

    async def compose(self, brief: Reminder, caller: Caller) -> Reply | None:
        """Return the brief that is due; None on an empty day, at night, or hours too late."""
        now, zone = caller.moment, brief.time_zone
        is_late = brief.repeats is None or next_after(brief.repeats, now - LATEST, zone) > now
        if is_late or local_time(now, caller.time_zone).hour not in HOURS:
            return None
        return await self._day.describe(caller)


# Labels of the snoozes, by the number in their button.
SNOOZES = ("later_minutes", "later_hour", "later_tomorrow")


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
        waiting = await self._run(self._rows.list_waiting, caller.owner)
        if not waiting:
            text = say("reminders_empty", language)
            return Reply(f"{note}\n\n{text}".strip(), is_screen=True)
        last = -(-len(waiting) // PAGE)
        number = max(1, min(number, last))
        begin = (number - 1) * PAGE
        lines = [note, say("reminders_title", language, count=len(waiting))]
        buttons: list[Button] = []
        times: Times = ()
        for place, one in enumerate(waiting[begin : begin + PAGE], start=begin + 1):
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
            choice: Number in SNOOZES.
            due: Time for which it was delivered, in seconds since 1970; "tomorrow" keeps its
                hour.
        """
        found = await self._find(caller, number)
        if found is None or not found.may_be_changed_by(caller.asker):
            return _refusal(found, caller)
        now, zone = caller.moment.astimezone(UTC), caller.time_zone
        later = now + timedelta(minutes=10)
        if choice == SNOOZES.index("later_hour"):
            later = now + timedelta(hours=1)
        elif choice == SNOOZES.index("later_tomorrow"):
            due_at = datetime.fromtimestamp(due, UTC) if 0 < due < MAX_EPOCH else now
            hour = local_time(due_at, zone).time().replace(tzinfo=None)
            later = first_moment(datetime.combine(caller.now.date() + DAY, hour), zone)
        snoozed = await self._run(
            self._rows.snooze, caller.owner, number, later, time_zone=zone, now=now
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
        zone = reminder.time_zone
        local = local_time(reminder.due_at, zone)
        time = f"{local:%H:%M}"
        if local.date() != local_time(now, zone).date():
            day = day_text(reminder.due_at, now, language, zone)
            time = say("reminder_late_day", language, day=day, time=time)
        text = f"{text}\n\n{say('reminder_late', language, time=time)}"
        times = ((time, reminder.due_at),)
    if known:
        text = f"{text}\n\n{known}"
    epoch = int(reminder.due_at.timestamp())
    later = tuple(
        Button(say(key, language), Action("later", (reminder.id, choice, epoch)))
        for choice, key in enumerate(SNOOZES)
    )
    end = [_done_button(reminder.id, language)]
    if reminder.repeats is not None:
        end.append(_stop_button(reminder.id, language))
    return Reply(text, (later, tuple(end)), times=times)


def cancel_button(number: int, language: Language) -> Button:
    """Return the button that cancels a reminder, for the answer that set it."""
    return Button(say("reminder_cancel_button", language), Action("unremind", (number, IN_ANSWER)))


def _refusal(found: Reminder | None, caller: Caller) -> Reply:
    """Return why a reminder cannot be changed: it is gone, or another member's."""
    if found is None:
        return Reply.closing_note(say("reminder_gone", caller.language))
    return Reply.note(say("reminder_not_yours", caller.language))


def _done_button(number: int, language: Language) -> Button:
    return Button(say("reminder_done_button", language), Action("done", (number,)))


def _stop_button(number: int, language: Language) -> Button:
    return Button(say("reminder_stop_button", language), Action("norepeat", (number,)))
