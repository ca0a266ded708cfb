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
        # 5 fills the zero at the end of 20; 3 does not continue 2.
        if number and part and number % 10 ** len(str(part)) == 0:
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
    number = lexicon.numbers("time.counting").get(words)
    if number is None:
        said = ["1" if word in ("a", "an") else word for word in re.split("[ -]", words)]
        number = int(read_numbers(said)[0])
    return Amount(number, number, True)


def number_in(words: str) -> int:
    """The number of a day or an hour: ``5``, ``5-го``, ``9th``, ``пятого``, ``двадцять першого``.

    Raises:
        ValueError: There is none.
    """
    digits = re.match(r"\d+", words)
    if digits is not None:
        return int(digits[0])
    return int(read_numbers(re.split("[ -]", words), ordinals=True)[0])


def key_in(words: str, *groups: str) -> str | None:
    """The key under which the first of some tables lists what was said; None: none does."""
    return next(filter(None, (lexicon.key_of(group, words) for group in groups)), None)


def unit_of(word: str) -> Unit:
    """The unit of time that a word names; Ukrainian ``година`` is an hour."""
    return cast(Unit, key_in(word, "time.unit", "time.unit_one", "time.unit_short"))


def which_of(words: str) -> Which:
    """What "this", "last", "next" and their like say."""
    return cast(Which, lexicon.key_of("time.which", words) or "this")


def day_offset(words: str) -> int | None:
    """How many days after today a word names: -1 is yesterday; None: it names none."""
    return lexicon.numbers("time.day").get(words)


def month_number(words: str) -> int:
    """1 to 12 for the name of a month, also cut short."""
    return int(key_in(words.removesuffix("."), "time.month", "time.month_short") or 0)


def weekday_number(words: str) -> int | None:
    """0 for a form of Monday, in any of the ways to name it; None: no weekday."""
    number = key_in(
        words, "time.weekday", "time.weekday_short", "time.weekdays_many",
        "time.weekday_each_more",
    )  # fmt: skip
    return None if number is None else int(number)


# Whole calendar days: a day, a week from its Monday, a month, a season, a year.

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
DECEMBER = 12
YEAR_DIGITS = 4
LAST_CENTURY = 69  # years of two digits from here on belong to it, as POSIX has it


class Days(NamedTuple):
    """Whole days: from the first to the one before ``after``."""

    first: date
    after: date


def around(moment: date, unit: Unit) -> Days:
    """The calendar unit that a day lies in; the day itself for hours and minutes."""
    match unit:
        case "week":
            first = moment - DAY * moment.weekday()
            return Days(first, first + WEEK)
        case "month":
            first = moment.replace(day=1)
            return Days(first, months_later(first, 1))
        case "year":
            return Days(date(moment.year, 1, 1), date(moment.year + 1, 1, 1))
    return Days(moment, moment + DAY)


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
