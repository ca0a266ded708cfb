"""Whole calendar days: a day, a week from its Monday, a month, a season, a year.

Spring is March to May, and a winter begins in December. ``dateparser`` reads the written dates,
in all formats and abbreviations of the three languages; what is counted is counted here.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

from src.dates.time_words import Unit

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
WINTER = 12  # the month in which it begins


class Days(NamedTuple):
    """Whole days: from the first to the one before ``after``."""

    first: date
    after: date


def day(first: date) -> Days:
    """One day."""
    return Days(first, first + DAY)


def week_of(moment: date) -> Days:
    """The week that a day lies in."""
    monday = moment - DAY * moment.weekday()
    return Days(monday, monday + WEEK)


def month_of(moment: date) -> Days:
    """The month that a day lies in."""
    first = moment.replace(day=1)
    return Days(first, months_later(first, 1))


def season_of(year: int, month: int) -> Days:
    """The season that begins in a month."""
    first = date(year, month, 1)
    return Days(first, months_later(first, 3))


def year_of(year: int) -> Days:
    """A calendar year."""
    return Days(date(year, 1, 1), date(year + 1, 1, 1))


def around(moment: date, unit: Unit) -> Days:
    """The calendar unit that a day lies in; the day itself for hours and minutes."""
    if unit == "week":
        return week_of(moment)
    if unit == "month":
        return month_of(moment)
    return year_of(moment.year) if unit == "year" else day(moment)


def shifted(now: datetime, unit: Unit, number: int) -> date:
    """The day that lies a number of units after (or, if negative, before) a moment.

    Raises:
        ValueError, OverflowError: There is no such day in the calendar.
    """
    if unit in ("minute", "hour"):
        return (now + timedelta(**{f"{unit}s": number})).date()
    if unit in ("day", "week"):
        return now.date() + (DAY if unit == "day" else WEEK) * number
    return months_later(now.date(), number * (12 if unit == "year" else 1))


def months_later(moment: date, number: int) -> date:
    """The same day of another month, or the last one that this month has."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + number, 12)
    # ``date`` is asked first: it knows which years there are.
    last = monthrange(date(year, month + 1, 1).year, month + 1)[1]
    return date(year, month + 1, min(moment.day, last))


@lru_cache(maxsize=1024)
def written_date(text: str) -> date | None:
    """The date of ``05.03.2026``, ``5 березня 2026`` …; None if there is no such day."""
    found: datetime | None = _date_parser().get_date_data(text).date_obj
    return found.date() if found is not None else None


@cache
def _date_parser() -> Any:
    """The parser of written dates, loaded when the first date is met; safe for threads."""
    from dateparser.date import DateDataParser

    settings = {
        "DATE_ORDER": "DMY",
        "PREFER_LOCALE_DATE_ORDER": False,
        "PARSERS": ["absolute-time"],
        "REQUIRE_PARTS": ["day", "month", "year"],
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    return DateDataParser(languages=["ru", "uk", "en"], settings=settings)
