"""When a reminder comes, as people say it, in their language: dates by Babel, the rest in .po."""

from __future__ import annotations

from datetime import datetime

from babel.dates import format_date
from babel.lists import format_list
from babel.units import format_unit

from src.dates.calendar_days import DAY
from src.dates.recurrences import Recurrence
from src.texts import Language, say
from src.time_zones import is_shown_twice, local_time

DAY_HOURS = 24
FEW_TIMES = 4  # of a day that are listed; more are "every three hours"
LAST_DAY = 31
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)
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
    text = _described(
        local_time(when, time_zone), repeats, local_time(now, time_zone), language, time_zone
    )
    # Before a vowel the Ukrainian preposition is another: "об одинадцятій".
    return text.replace(" о 11:", " об 11:") if language == "uk" else text


def _described(
    local: datetime,
    repeats: Recurrence | None,
    today: datetime,
    language: Language,
    time_zone: str,
) -> str:
    clock = _clock(local, time_zone)
    date = _date(local, today, language)
    if repeats is None:
        return say("reminder_once", language, day=_day(local, today, language), time=clock)
    habit = _habit(repeats, language)
    if len(repeats.hours) > 1:
        date = say("reminder_date_time", language, date=date, time=clock)
    return say("reminder_repeated", language, habit=habit, next=date)


def _clock(local: datetime, time_zone: str) -> str:
    if not is_shown_twice(local, time_zone):
        return f"{local:%H:%M}"
    offset = f"{local:%z}"
    return f"{local:%H:%M} (UTC{offset[:3]}:{offset[3:5]})"


def _day(local: datetime, today: datetime, language: Language) -> str:
    """``завтра, 24 ноября``, ``в пятницу, 27 ноября``."""
    date = _date(local, today, language)
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
