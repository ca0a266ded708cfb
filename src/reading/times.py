"""The words of time and of numbers in Russian, Ukrainian and English, and whole calendar days."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple, cast

from src.reading import lexicon

MAX_ENDING = 4  # letters of an ordinal after its beginning ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number counts no thousands
# What a scale may grow to: of 2,000,003 thousand only the 3 is multiplied.
CEILINGS = {100: 1_000, 1_000: 10**6, 10**6: 10**9}


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """The words, with numbers in digits: "двадцать пять тысяч" and "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Read "первое" and "fifth" as well.
    """
    read: list[str] = []
    number: int | None = None
    scales = lexicon.numbers("numbers.scales")
    for word in words:
        if word in scales:
            if number is None and read and read[-1].isdecimal() and len(read[-1]) <= MAX_DIGITS:
                number = int(read.pop())
            number = _scaled(number or 1, scales[word])
            continue
        part = _value(word, ordinals=ordinals)
        if number is not None and part is not None and _continues(number, part):
            number += part
            continue
        if number is not None:
            read.append(str(number))
        number = part
        if part is None:
            read.append(word)
    return read if number is None else [*read, str(number)]


def _value(word: str, *, ordinals: bool) -> int | None:
    """The number that a word says by itself."""
    value = lexicon.numbers("numbers.cardinals").get(word)
    if value is not None or not ordinals:
        return value
    known = lexicon.numbers("numbers.ordinals")
    ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
    return next((known[word[:end]] for end in ends if word[:end] in known), None)


def _continues(number: int, part: int) -> bool:
    """Whether ``part`` fills the zeros at the end of ``number``: 20 and 5, but not 2 and 3."""
    return number > 0 and part > 0 and number % 10 ** len(str(part)) == 0


def _scaled(number: int, scale: int) -> int:
    """2 thousand; in 2,000,003 thousand the 3 alone is multiplied."""
    above, below = divmod(number, CEILINGS[scale])
    return above * CEILINGS[scale] + (below or 1) * scale


# What the words of time say; the words themselves stand in the lexicon, under ``[time]``.
#
# Everything here is for text as ``time_spans.fold`` leaves it: lower case, ``е`` for ``ё``, one
# kind of apostrophe and of dash, single spaces.

Unit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
Which = Literal["before last", "last", "this", "coming", "next"]

# Expressions with groups of the lexicon in them.
YEAR = r"(?:19|20)\d\d(?!\d)"
NUMBER = r"(?:\d{1,4}(?:-\d{1,4})?|<time.vague>|<time.counting>(?:[ -]<time.counting>)?)"
# Ordinals of days ("пятого марта", "двадцять першого травня", "the fifth of March").
ORDINAL = r"(?:<time.counting:20-30>[ -])?<numbers.ordinals:1-30><time.ordinal_endings>?\b"
ORDINAL_ENDING = lexicon.Expression("<time.ordinal_endings>$")
UNIT_TABLES = ("time.unit", "time.unit_one", "time.unit_short")


class Amount(NamedTuple):
    """How many units: the least, the most, and whether it is meant exactly."""

    low: int
    high: int
    exact: bool


def amount_of(words: str | None) -> Amount:
    """The amount that a match of ``NUMBER`` says; without one ("через неделю") it is one."""
    if words is None:
        return Amount(1, 1, True)
    vague = lexicon.values("time.vague").get(words)
    if vague is not None:
        low, high = map(int, vague.split("-"))
        return Amount(low, high, False)
    if words[0].isdigit():
        first, _, last = words.partition("-")
        return Amount(int(first), int(last or first), not last)
    counting = lexicon.numbers("time.counting")
    number = sum(counting[word] for word in re.split("[ -]", words))
    return Amount(number, number, True)


def unit_of(word: str) -> Unit:
    """The unit of time that a word names; Ukrainian ``година`` is an hour."""
    found = (lexicon.key_of(table, word) for table in UNIT_TABLES)
    return cast(Unit, next(filter(None, found)))


def which_of(words: str) -> Which:
    """What "this", "last", "next" and their like say."""
    return cast(Which, lexicon.key_of("time.which", words) or "this")


def day_offset(words: str) -> int | None:
    """How many days after today a word names: -1 is yesterday; None: it names none."""
    return lexicon.numbers("time.day").get(words)


def month_number(words: str) -> int:
    """1 to 12 for the name of a month, also cut short."""
    bare = words.removesuffix(".")
    return int(lexicon.key_of("time.month", bare) or lexicon.key_of("time.month_short", bare) or 0)


def weekday_number(words: str) -> int | None:
    """0 for a form of Monday, in any of the ways to name it; None: no weekday."""
    names = ("weekday", "weekday_short", "weekdays_many", "weekday_each_more")
    found = (lexicon.key_of(f"time.{name}", words) for name in names)
    number = next(filter(None, found), None)
    return None if number is None else int(number)


def day_number(words: str) -> int:
    """The day of a month: ``5``, ``5-го``, ``5th``, ``пятого``, ``двадцять першого``."""
    digits = re.match(r"\d+", words)
    if digits is not None:
        return int(digits[0])
    ordinals, counting = lexicon.numbers("numbers.ordinals"), lexicon.numbers("time.counting")
    *tens, last = re.split("[ -]", words)
    stem = ORDINAL_ENDING.sub("", last)
    return sum(counting[word] for word in tens) + ordinals.get(last, ordinals.get(stem, 0))


# Whole calendar days: a day, a week from its Monday, a month, a season, a year.
#
# Spring is March to May, and a winter begins in December.

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
