"""Whole calendar days: a day, a week from its Monday, a month, a season, a year.

Spring is March to May, and a winter begins in December.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import NamedTuple

from src.dates.time_words import Unit

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
DECEMBER = WINTER = 12  # a winter begins in it
YEAR_DIGITS = 4
LAST_CENTURY = 69  # years of two digits from here on belong to it, as POSIX has it


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
    if unit in ("second", "minute", "hour"):
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


def digit_date(text: str) -> date:
    """The date of ``05.03.2026``, ``5/3/2026``, ``05.03.26`` or ``2026-03-05``.

    The day stands before the month, unless only the other way round makes sense: ``03/15/2026``.

    Raises:
        ValueError: There is no such day in the calendar.
    """
    numbers = re.split("[-./]", text)
    if len(numbers[0]) != YEAR_DIGITS:
        numbers.reverse()
    year, month, number = map(int, numbers)
    if len(numbers[0]) != YEAR_DIGITS:
        year += 1900 if year >= LAST_CENTURY else 2000
    if month > DECEMBER:
        month, number = number, month
    return date(year, month, number)
