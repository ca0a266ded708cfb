"""The expressions for each way of naming a time, in the order in which they are tried."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Literal

from src.dates import time_words as w
from src.language import lexicon

Kind = Literal[
    "habit",  # каждую пятницу: no time at all
    "narrated",  # на следующий день: a time, but not one counted from now
    "someday",  # на днях, the other day: a day that nobody can tell
    "recent",  # недавно
    "week of",  # на неделе с 23 ноября
    "days",  # с 5 по 8 мая
    "date",  # 5 марта, 2026-03-05
    "month day",  # 5 числа, on the 5th
    "ago",  # два дня назад
    "ahead",  # через два дня
    "lasting",  # последние два дня
    "day",  # вчера вечером
    "named",  # в марте, прошлым летом, next week, on Monday
    "year",  # в 2024 году
    "offset",  # за два дня до 5 мая
]

# Expressions with groups of the lexicon in them.
AFTER_PREPOSITION = "(?P<prep><time.edge>|<time.preposition>)(?: the)?[ -]"
P = f"(?:{AFTER_PREPOSITION})?(?:the )?"

# What a number counts cannot be a date: "за 2000 рублей", "May 5 people".
COUNTED = r"(?! ?(?:[%€$₽₴]|<time.counted>(?!\w)))"
MODAL_MAY = r"(?! <time.after_may>\b)"

DAY_NUMBER = "(?:3[01]|[12][0-9]|0?[1-9])"
DAY = rf"(?:{DAY_NUMBER}(?:-?<time.day_endings>\b|(?!\w))|{w.ORDINAL})"
DAY_AFTER_MONTH = rf"(?:(?:the )?{DAY}(?![:%]|[./][0-9]|,[0-9](?![0-9]{{3}}\b)){COUNTED})"
DIGIT_DATE = (
    r"(?<![\w.,:/+-])(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}-|\.[0-9]{2}\.|/[0-9]{2}/)[0-9]{2}"
    r"|[0-9]{1,2}(?:-[0-9]{1,2}-|\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2}"
    r"|[0-9]{2}\.[0-9]{2}\.[0-9]{2})(?![\w/+-]|[.,:][0-9])"
)
IN_YEAR = rf"(?P<year>{w.YEAR})(?:-?<time.number_of_year>\b)?(?: <time.year_noun>)?"
YEAR_TAIL = f"(?:(?:, ?| ){IN_YEAR})?"
MONTH_ANY = r"(?:<time.month>|<time.month_short>[.]?)(?!\w)"
DAY_OF_MONTH = rf"(?:the )?(?P<day>{DAY}) (?:of )?(?P<month>{MONTH_ANY})(?:(?<!may)|{MODAL_MAY})"
MONTH_AND_DAY = rf"(?P<month><time.month_first>(?!\w)) (?P<day>{DAY_AFTER_MONTH})"
TO = "(?P<link> ?- ?| <time.to> )"
PART = "(?:,? (?:in the |at )?(?P<part><time.part_english>|<time.part>))?"
DAY_WORD = "(?:<time.day>|<time.day_adjective>)"
NOUN = "(?:(?P<weekday><time.weekday>)|(?P<month><time.month>)|(?P<season><time.season>))"
WHICH_NOUN = (
    rf"(?P<which><time.which>) (?:(?P<unit><time.unit_one>)|(?P<weekend><time.weekend>)|{NOUN})"
    r"(?! of\b)"
)
MONTH_OF_YEAR = f"(?P<month>{MONTH_ANY}),? (?:of )?{IN_YEAR}"
NUMBER_OF_UNITS = f"(?P<n>{w.NUMBER}) (?P<unit><time.unit>)"
SOME_UNITS = f"(?:(?P<n>{w.NUMBER}) )?(?:(?P<half><time.half_year>)|(?P<unit><time.unit>))"

RULES: tuple[tuple[Kind, str], ...] = (
    (
        "habit",
        rf"<time.each>(?: (?:<time.other>|{w.NUMBER}))? (?:<time.unit>|<time.weekday>"
        "|<time.season>|<time.weekend>|<time.month>|<time.part_noun>)",
    ),
    ("habit", "<time.habit>"),
    ("narrated", "<time.narrated>"),
    ("someday", "<time.someday>"),
    ("recent", "<time.recent>"),
    ("week of", rf"{P}<time.week> <time.week_from> (?P<number>{DIGIT_DATE})"),
    ("week of", rf"{P}<time.week> <time.week_from> {DAY_OF_MONTH}{YEAR_TAIL}"),
    (
        "days",
        rf"{P}(?P<day>{DAY}){TO}(?P<last_day>{DAY}) (?:of )?(?P<month>{MONTH_ANY}){YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<month><time.month_first>(?!\w)) (?P<day>{DAY}){TO}"
        rf"(?P<last_day>{DAY_AFTER_MONTH}){YEAR_TAIL}",
    ),
    ("date", rf"{P}(?:<time.weekday>,? )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{P}(?:<time.weekday>,? (?:the )?)?{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{P}(?:<time.weekday>,? )?{MONTH_AND_DAY}{YEAR_TAIL}"),
    (
        "month day",
        rf"(?:(?P<prep><time.since>|<time.until>|<time.to_day>|<time.between>) )?"
        rf"(?P<day>{DAY_NUMBER}(?:-?<time.day_endings>)?) <time.day_of_month>",
    ),
    (
        "month day",
        rf"(?P<prep>on|since|until|by|from) the (?P<day>{DAY_NUMBER}(?:st|nd|rd|th))"
        "(?= of (?:this|last|next) month|[,.;!?]|$)",
    ),
    (
        "ago",
        f"(?:(?P<hedge><time.hedge>) )?(?:(?P<prep><time.roughly>) )?{SOME_UNITS} <time.ago>",
    ),
    (
        "ahead",
        rf"<time.ahead> (?:(?P<prep><time.roughly>) )?{SOME_UNITS}(?! <time.later>)",
    ),
    (
        "ahead",
        rf"in (?:(?P<prep><time.roughly>) )?(?:{NUMBER_OF_UNITS}|(?P<half><time.half_year>))"
        "(?:'s?)?(?: time)?(?! (?:of|after|from))",
    ),
    ("ahead", f"{NUMBER_OF_UNITS} from (?:now|today)"),
    ("lasting", f"{P}(?P<side><time.last_or_next>) {NUMBER_OF_UNITS}"),
    ("lasting", f"{P}(?P<side><time.latest>) (?P<unit><time.unit_one>)"),
    ("day", f"{P}(?P<word>{DAY_WORD})(?: (?P<noun><time.day_noun>))?{PART}"),
    ("named", rf"{P}{WHICH_NOUN}{PART}"),
    ("named", "(?P<prep><time.edge>) (?:the )?(?P<unit><time.unit_one>)"),
    (
        "named",
        rf"{P}(?P<season><time.season>),? (?:of )?(?P<year>{w.YEAR})(?:-(?P<year_to>{w.YEAR}))?"
        "(?: (?:<time.year_noun>|<time.years_noun>))?",
    ),
    ("named", rf"{P}{MONTH_OF_YEAR}"),
    ("named", rf"{AFTER_PREPOSITION}(?:(?P<weekend><time.weekend>)|{NOUN}){PART}"),
    ("named", "(?P<season><time.season_adverb>)"),
    ("named", f"(?P<weekday><time.weekday_alone>){PART}"),
    ("year", "(?P<year_word><time.year_word>)"),
    ("year", rf"{P}(?<![.,:/+-])(?P<year>{w.YEAR})(?: ?<time.year_noun>|-<time.year_endings>)"),
    ("year", f"(?:in )?(?:the )?year (?P<year>{w.YEAR})"),
    ("year", rf"{AFTER_PREPOSITION}(?P<year>{w.YEAR})(?![:/]|[.,-][0-9]){COUNTED}"),
)

# What may stand before "до 5 мая" or "before 5 May": it moves the day.
OFFSET = rf"(?:<time.offset_before> )?(?:the )?{SOME_UNITS} $"
OFFSET_LENGTH = 40  # characters; none is longer

# What may end a range whose beginning was found: "from March | to May".
LINKED_RULES: tuple[tuple[Kind, str], ...] = (
    ("date", rf"{TO}(?:the )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{TO}{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{TO}{MONTH_AND_DAY}{YEAR_TAIL}"),
    ("day", rf"{TO}(?P<word>{DAY_WORD})"),
    ("named", rf"{TO}{WHICH_NOUN}"),
    ("named", rf"{TO}{MONTH_OF_YEAR}"),
    ("named", rf"{TO}{NOUN}"),
    ("year", rf"{TO}(?P<year>{w.YEAR})(?: <time.year_noun>)?"),
)

DIGIT_HINT = r"\d(?:\d{3}|\d?[./-]\d|\d?(?:st|nd|rd|th)\b)"


def beginning_with(*groups: str) -> re.Pattern[str]:
    """A quick expression for words that begin as groups list: first letters are compared once."""
    beginnings = sorted(frozenset[str]().union(*map(lexicon.words, groups)))
    letters = groupby(beginnings, key=lambda word: word[0])
    parts = (f"{first}(?:{'|'.join(word[1:] for word in words)})" for first, words in letters)
    return re.compile(rf"\b(?:{'|'.join(parts)}|{DIGIT_HINT})")
