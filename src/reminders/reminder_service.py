"""Reminders set, listed, moved and cancelled, and when they come, as people say it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from babel.dates import format_date
from babel.lists import format_list
from babel.units import format_unit

from src.base.owners import Owner
from src.base.zones import DAY, is_shown_twice, local_time, place_of_zone
from src.pg.client import PgClient, storable
from src.reading import lexicon
from src.reading.recurrences import Recurrence, next_after
from src.reading.reminder_moments import DAY_HOURS, WEEKEND, WORKDAYS, Problem, ReminderRequest
from src.reading.reminder_phrases import read_reminder
from src.reminders.reminder_repo import NewReminder, Reminder, ReminderRepository
from src.reminders.rules import MAX_TEXT
from src.texts import Language, say

FEW_TIMES = 4  # of a day that are listed; more are "every three hours"
LAST_DAY = 31
PERIODS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
ENGLISH_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def describe_reminder_time(
    when: datetime,
    repeats: Recurrence | None,
    *,
    language: Language,
    time_zone: str,
    now: datetime,
) -> str:
    """``завтра, 24 ноября, в 09:00``; ``every Monday at 08:00 (next: 30 November)``.

    The offset of the zone is told only where the clock shows that time twice, in autumn.

    Args:
        when: The next time (aware).
        repeats: How it comes again, if it does.
        language: Of the words.
        time_zone: Of the user, a name of the tz database.
        now: Aware; it decides what is today, and whether the year is told.
    """
    local, today = local_time(when, time_zone), local_time(now, time_zone)
    clock, date = _clock(local, time_zone), _date(local, today, language)
    if repeats is None:
        day = _day(local, today, date, language)
        text = say("reminder_once", language, day=day, time=clock)
    else:
        if len(repeats.hours) > 1:
            date = say("reminder_date_time", language, date=date, time=clock)
        text = say("reminder_repeated", language, habit=_habit(repeats, language), next=date)
    # Before a vowel the Ukrainian preposition is another: "об одинадцятій".
    return text.replace(" о 11:", " об 11:") if language == "uk" else text


def _clock(local: datetime, time_zone: str) -> str:
    if not is_shown_twice(local, time_zone):
        return f"{local:%H:%M}"
    offset = f"{local:%z}"
    return f"{local:%H:%M} (UTC{offset[:3]}:{offset[3:5]})"


def _day(local: datetime, today: datetime, date: str, language: Language) -> str:
    """``завтра, 24 ноября``, ``в пятницу, 27 ноября``."""
    days = (local.date() - today.date()) // DAY
    if days in (0, 1):
        return say("reminder_tomorrow" if days else "reminder_today", language, date=date)
    number = local.weekday()
    return say("reminder_on_day", language, day=say(f"on_weekday_{number}", language), date=date)


def _date(local: datetime, today: datetime, language: Language) -> str:
    """``24 ноября``, with the year unless it is this one."""
    date = str(format_date(local, "d MMMM", locale=language))
    if local.year == today.year:
        return date
    return say("date_of_year", language, date=date, year=local.year)


def _habit(repeats: Recurrence, language: Language) -> str:
    """``каждый понедельник в 08:00``, ``every 3 hours``."""
    step = _step(repeats)
    if step == 1:
        return say("every_hour", language)
    if step is not None:
        return say("every_so_often", language, period=_period(step, "hour", language))
    times = [f"{hour:02}:{repeats.minute:02}" for hour in repeats.hours]
    days = _days(repeats, language)
    return say("habit_at", language, days=days, times=_listed(times, language))


def _step(repeats: Recurrence) -> int | None:
    """How many hours lie between two times; None when a day has few, or no even ones."""
    hours = repeats.hours
    if repeats.frequency != "daily" or repeats.interval > 1 or len(hours) <= FEW_TIMES:
        return None
    step = DAY_HOURS // len(hours)
    return step if hours == tuple(range(hours[0], DAY_HOURS, step)) else None


def _days(repeats: Recurrence, language: Language) -> str:
    """``каждый понедельник``, ``раз в 2 недели, по понедельникам``."""
    often = _often(repeats, language)
    match repeats.frequency:
        case "daily":
            return often
        case "weekly" if repeats.interval == 1:
            return _weekdays(repeats.weekdays, language)
        case "weekly":
            where = _listed([say(f"on_weekday_{n}", language) for n in repeats.weekdays], language)
        case "monthly":
            where = _day_of_month(repeats.day, language)
        case _:
            day = datetime(2024, repeats.month, repeats.day)  # noqa: DTZ001  a leap year's day
            date = str(format_date(day, "d MMMM", locale=language))
            where = say("on_date", language, date=date)
    return say("often_where", language, often=often, where=where)


def _often(repeats: Recurrence, language: Language) -> str:
    unit = PERIODS[repeats.frequency]
    if repeats.interval == 1:
        return say(f"every_{unit}", language)
    return say("every_so_often", language, period=_period(repeats.interval, unit, language))


def _period(number: int, unit: str, language: Language) -> str:
    """``2 дня``, ``21 неделю``: in the accusative, which Babel has not."""
    words = str(format_unit(number, f"duration-{unit}", locale=language))
    return words.replace("неделя", "неделю").replace("година", "годину")


def _weekdays(weekdays: tuple[int, ...], language: Language) -> str:
    if weekdays == WORKDAYS:
        return say("every_workday", language)
    if weekdays == WEEKEND:
        return say("every_weekend", language)
    if len(weekdays) == 1:
        return say(f"every_weekday_{weekdays[0]}", language)
    names = [say(f"in_weekday_{number}", language) for number in weekdays]
    return say("in_weekdays", language, days=_listed(names, language))


def _day_of_month(day: int, language: Language) -> str:
    if day == LAST_DAY:
        return say("on_last_day", language)
    ending = ENGLISH_ENDINGS.get(day, "th") if language == "en" else ""
    return say("on_day_of_month", language, day=f"{day}{ending}")


def _listed(names: list[str], language: Language) -> str:
    return str(format_list(names, locale=language))


Refusal = Problem | Literal["too_many", "not_own"]

MAX_DAYS = 3654  # ten years, as the readers of phrases have it, and their last day
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Asking:
    """Who asks for a reminder.

    Attributes:
        owner: Whose it is, and where it is sent.
        moment: When he asks (aware): "in ten minutes" counts from it.
        time_zone: The owner's, a tz database name.
        language: Of the confirmation, and of the reminder unless the owner chose another.
        asker_id: In a group, who asks.
        message_id: The message that asks, if it is stored.
    """

    owner: Owner
    moment: datetime
    time_zone: str
    language: Language
    asker_id: int | None = None
    message_id: int | None = None

    def describe(self, reminder: Reminder) -> str:
        """When a reminder comes, in words; by another clock than the owner's, also by which."""
        own = reminder.repeats.zone if reminder.repeats else ""
        zone = own or reminder.time_zone
        time = describe_reminder_time(
            reminder.due_at, reminder.repeats, language=self.language, time_zone=zone,
            now=self.moment,
        )  # fmt: skip
        return time if zone == self.time_zone else f"{time} ({place_of_zone(zone, self.language)})"


@dataclass(frozen=True)
class Asked:
    """What came of a request: a reminder, or why there is none."""

    reminder: Reminder | None = None
    refusal: Refusal | None = None


class ReminderService:
    """The reminders of all owners; their delivery is ``src/telegram/tasks.py``."""

    def __init__(self, client: PgClient, repository: ReminderRepository) -> None:
        """Store in ``repository``."""
        self._client = client
        self._repository = repository

    async def set(
        self,
        asking: Asking,
        text: str,
        when: datetime | None,
        repeats: Recurrence | None = None,
        *,
        own_zone: str = "",
    ) -> Asked:
        """Set a reminder.

        Args:
            asking: Who asks.
            text: Of what.
            when: The first time (aware); of what recurs, the first time is not before it.
            repeats: How it comes again.
            own_zone: The zone that was named for this one; it stays when the owner moves.

        Raises:
            StorageError: The database is away; a second attempt sets nothing twice.
        """
        text = storable(text).strip()[:MAX_TEXT].strip()
        if repeats is not None and own_zone:
            repeats = replace(repeats, zone=own_zone)
        due = _first_time(asking, when, repeats)
        refusal = _refusal(asking, text, due)
        if due is None or refusal is not None:
            return Asked(refusal=refusal)
        new = NewReminder(
            text, due, repeats, own_zone or asking.time_zone, asking.language, asking.asker_id,
            asking.message_id,
        )  # fmt: skip
        now = datetime.now(UTC)
        reminder = await self._client.run(self._repository.add, asking.owner, new, now=now)
        return Asked(reminder, None if reminder is not None else "too_many")

    async def set_by_words(self, asking: Asking, words: str) -> Asked:
        """Set what a phrase asks for, with "remind me" in it or without; no model is asked."""
        request = _read(words, asking)
        if request is None or request.problem is not None:
            return Asked(refusal="no_time" if request is None else request.problem)
        return await self.set(
            asking, request.what, request.when, request.repeats, own_zone=request.time_zone
        )

    async def count(self, owner: Owner) -> int:
        """How many wait."""
        return await self._client.run(self._repository.count, owner)

    async def list_waiting(self, owner: Owner, *, limit: int, offset: int = 0) -> list[Reminder]:
        """Those that wait, the next one first."""
        listed = self._repository.list_waiting
        return await self._client.run(listed, owner, limit=limit, offset=offset)

    async def find(self, owner: Owner, number: int) -> Reminder | None:
        """One of the owner's, waiting or not."""
        return await self._client.run(self._repository.find, owner, number)

    async def cancel(self, owner: Owner, number: int) -> bool:
        """Let one come no more; False when it does not wait."""
        return await self._client.run(self._repository.cancel, owner, number)

    async def finish(self, reminder: Reminder) -> None:
        """It is done: what recurs goes on, but what was put off of it comes no more."""
        repository = self._repository
        cancel = repository.cancel if reminder.repeats is None else repository.cancel_snoozed
        await self._client.run(cancel, reminder.owner, reminder.id)

    async def snooze(
        self, reminder: Reminder, due_at: datetime, *, time_zone: str, now: datetime
    ) -> Reminder | None:
        """Let it come again, or later; None when it was cancelled.

        What recurs goes on as it was: this time of it comes as a reminder of its own.
        """
        return await self._client.run(
            self._repository.snooze, reminder.owner, reminder.id,
            due_at.replace(microsecond=0), time_zone=time_zone, now=now,
        )  # fmt: skip

    async def change_zone(
        self, owner: Owner, time_zone: str, *, now: datetime | None = None
    ) -> int:
        """The owner lives by another clock: what recurs comes at its hour there.

        What comes once stays at its moment. It may be called again. In a group it concerns all
        topics, as the setting does.

        Args:
            owner: Who changed his zone.
            time_zone: A name of the tz database.
            now: Aware; by default the present.

        Returns:
            How many reminders moved.
        """
        change = self._repository.change_zone
        moment = now or datetime.now(UTC)
        return await self._client.run(change, owner.telegram_user_id, time_zone, now=moment)

    async def plan(self, now: datetime) -> int:
        """Make jobs for what is due soon; returns how many."""
        planned = 0
        while found := await self._client.run(self._repository.defer_soon, now):
            planned += found
        return planned


def confirmation(asked: Asked, asking: Asking) -> str:
    """What a request is answered with where no model words it."""
    if asked.reminder is None:
        refusal = asked.refusal or "no_time"
        return say(f"reminder_{refusal}", asking.language)
    text, time = asked.reminder.text, asking.describe(asked.reminder)
    return say("reminder_set", asking.language, text=text, time=time)


def _first_time(
    asking: Asking, when: datetime | None, repeats: Recurrence | None
) -> datetime | None:
    """A whole second, in UTC; of what recurs, its first time from ``when`` on."""
    if when is None:
        return None
    due = when.astimezone(UTC).replace(microsecond=0)
    if repeats is None:
        return due
    try:
        return next_after(repeats, max(due - SECOND, asking.moment), asking.time_zone)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _refusal(asking: Asking, text: str, due: datetime | None) -> Refusal | None:
    if not text:
        return "no_text"
    if due is None:
        return "no_time"
    if due <= asking.moment:
        return "past"
    return "too_far" if due > asking.moment + timedelta(days=MAX_DAYS) else None


def _read(words: str, asking: Asking) -> ReminderRequest | None:
    """The request in a phrase: as it is, or as what would stand behind an order."""
    words = words.strip()
    found = read_reminder(words, asking.moment, asking.time_zone)
    if found is not None:
        return found
    # What makes a request of a phrase that only says what and when, as people write after /remind.
    for order in (order for _, orders in lexicon.by_language("cancel.remind") for order in orders):
        request = read_reminder(f"{order}{words}", asking.moment, asking.time_zone)
        if request is not None and request.problem is None:
            return request
        found = found or request
    return found
