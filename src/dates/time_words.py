"""What the words of time say; the words themselves stand in the lexicon, under ``[time]``.

Everything here is for text as ``time_spans.fold`` leaves it: lower case, ``е`` for ``ё``, one
kind of apostrophe and of dash, single spaces.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from src.language import lexicon

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
