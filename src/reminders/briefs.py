"""The brief of the day: ``/today``, and ``/brief`` that sends it every morning."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from src.base.owners import Caller
from src.base.zones import DAY, SECOND, local_time
from src.pg.client import PgClient
from src.reading import lexicon
from src.reading.recurrences import Recurrence, next_after
from src.reading.time_expressions import read_time
from src.reading.times import fold, weekdays_in
from src.reminders.day import DayService, title_of
from src.reminders.reminder_repo import NewReminder, Reminder
from src.reminders.reminder_service import describe_time
from src.reminders.rules import read_words
from src.texts import say
from src.texts.reply import Action, Button, Reply

BRIEF = "brief"  # text of the row, and the subject of a request
HOURS = range(5, 23)  # on the user's clock, in which a brief may come
LATEST = timedelta(hours=3)  # a later one is left out
MAX_ORDER = 80  # characters of an order in words
LAST_TIME = re.compile(r"(?<![\d:.])(\d{1,2})(?:\.(\d\d))?$")
WORDS = lexicon.AnyCase(r"(?<![\w-])<day.brief>(?![\w-])")
SENDS = lexicon.AnyCase(r"(?<![\w-])<day.send>(?![\w-])")
BESIDE = lexicon.AnyCase(
    r"(?<![\w-])(?:<day.brief>|<day.send>|<day.beside>)(?![\w-])|[:—–,.!]\s|[.!]$"
)
_LEAD = r"\W*(?:(?>(?:<lines.question_and>|<lines.ask_me>)(?!\w))\W+)*"
ASKS = lexicon.AnyCase(rf"{_LEAD}<day.asks>(?>(?: <lines.question_end>)(?!\w))*\W*")
# "And on Friday?" behind such a question, without its day.
ASKS_ON = lexicon.AnyCase(rf"{_LEAD}(?:<day.asks>|<lines.question_and>)?\W*")
MAX_DAYS = 7  # that are shown together
OFF = lexicon.AnyCase(r"\W*(?:<day.off>\W*)+")


@dataclass(frozen=True)
class BriefOrder:
    """Order to send the brief at certain times, or no more (``repeats`` is None)."""

    repeats: Recurrence | None


def read_times(words: str, caller: Caller) -> BriefOrder | None:
    """Return the order in the words behind ``/brief``, or None.

    Args:
        words: "8:00", "every weekday at 8", "off".
        caller: The caller, whose clock counts.
    """
    words = " ".join(BESIDE.sub(" ", words).split())
    if not words or len(words) > MAX_ORDER:
        return None
    if OFF.fullmatch(words):
        return BriefOrder(None)
    for written in (LAST_TIME.sub(lambda time: f"{time[1]}:{time[2] or '00'}", words), words):
        request = read_words(f"{written} {BRIEF}", caller.moment, caller.time_zone)
        if request is not None and request.when is not None and request.what == BRIEF:
            zone = request.time_zone or caller.time_zone
            first, days = local_time(request.when, zone), weekdays_in(words)
            return BriefOrder(request.repeats or Recurrence.of("day", first, weekdays=days))
    return None


def read_order(text: str, caller: Caller) -> BriefOrder | None:
    """Return the order of a message about the brief, or None for any other message.

    It says nothing else, and names a habit, the sending or the end: "brief every weekday at 8",
    "присылай сводку в 8", "no more briefs".
    """
    if len(text) > MAX_ORDER or WORDS.search(text) is None:
        return None
    order = read_times(text, caller)
    if order is None or order.repeats is None or SENDS.search(text):
        return order
    request = read_words(f"{BESIDE.sub(' ', text)} {BRIEF}", caller.moment, caller.time_zone)
    if request is None or request.repeats is None:
        return None
    return order


def read_days(text: str, caller: Caller, before: Sequence[str] = ()) -> list[date]:
    """Return the days of a question what is on ("что у меня завтра?"); none for other texts.

    A weekday or a date is the coming one, and a week begins today.

    Args:
        text: The message.
        caller: The caller, whose clock counts.
        before: The user's messages before it; behind such a question "and on Friday?" is one.
    """
    if len(text) > MAX_ORDER:
        return []
    now = caller.now
    found = read_time(text, now, ahead=True)
    content = fold(found.content)
    if len(found.periods) != 1:
        return []
    if ASKS.fullmatch(content) is None:
        asked_before = read_days(before[-1], caller, before[:-1]) if before else []
        if not asked_before or ASKS_ON.fullmatch(content) is None:
            return []
    [period] = found.periods
    first, last = period.start.date(), (period.end - SECOND).date()
    days = [first + DAY * number for number in range((last - first).days + 1)]
    return [day for day in days if day >= now.date()] if len(days) <= MAX_DAYS else []


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
        usage = say("brief_usage", caller.language)
        if found is None or caller.argument:
            return Reply(usage)
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
        now = datetime.now(UTC)
        brief = await self._run(rows.set_brief, caller.owner, new, now=now)
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
