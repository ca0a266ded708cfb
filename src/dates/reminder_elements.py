"""The pieces of time in a request for a reminder: a day, a clock, a wait, a habit.

Each piece is found by one expression, built of the words and the patterns that dates in facts and
in questions are read by. No expression repeats a repetition, so all are quick on any text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from src.dates import time_patterns as p
from src.dates import time_words as w
from src.dates.clock_phrases import clock_rules
from src.dates.rule_scanner import RuleScanner
from src.language import lexicon

Slot = Literal["date", "clock", "part", "after", "before", "every"]

MAX_ELEMENTS = 60  # of a text that are looked at
# Expressions with groups of the lexicon in them.
ONE_NUMBER = "(?:<numbers.cardinals>|<numbers.scales>|<time.counting>)"
NUMBER = (
    r"(?:\d{1,18}(?:[.,]\d{1,2})?(?:\^\d{1,4})?(?:-\d{1,4})?|<time.vague>"
    rf"|{ONE_NUMBER}(?:[ -]{ONE_NUMBER}){{0,2}})"
)
UNIT = r"(?:<time.unit>|<time.unit_short>)(?!\w)"
MINUTES = "(?:<clock.minute_noun>|<reminder.minutes>)"


def _length(unit: str = UNIT, *, counted: bool = True) -> str:
    """An expression for a length of time, with a number or not."""
    number = rf"(?P<n>{NUMBER})(?: (?P<and_half><reminder.and_a_half>))? ?"
    return (
        rf"(?:(?P<half><reminder.half_period>)(?!\w)|(?:{number}){'' if counted else '?'}"
        rf"(?P<unit>{unit})(?: (?P<half_more><reminder.and_a_half>))?(?:-<reminder.or_so>)?"
        rf"(?:,? (?:<reminder.and> )?(?P<n2>{NUMBER}) ?(?P<unit2>{MINUTES})(?!\w))?)"
    )


LENGTH, COUNTED_LENGTH = _length(counted=False), _length()
WEEKDAY = r"(?:<time.weekday>|<time.weekday_short>)(?!\w)"
THROUGH = " <reminder.through> "
JOINT = f"(?:,? (?:<reminder.joint> )?|, ?| ?- ?|{THROUGH})"
WEEKDAYS = rf"{WEEKDAY}(?:{JOINT}{WEEKDAY}){{0,6}}"
EVERY = "<reminder.every>"
OTHER = "(?: (?P<other><reminder.other>))?"
TIMES = (
    rf"(?:(?:(?P<times>{NUMBER}) )?<reminder.times>|(?P<once>once)|(?P<twice><reminder.twice>)"
    r"|(?P<n_times>three|four|five|\d) times)"
)
EVERY_RULES: tuple[tuple[str, str], ...] = (
    (
        "month day",
        rf"{EVERY} (?P<day>{p.DAY_NUMBER})(?:st|nd|rd|th)"
        r"(?=$|[,.!]| (?:at|to|about|remind|that)\b)",
    ),
    (
        "month day",
        rf"{EVERY} (?P<day>{p.DAY_NUMBER})(?:-?<time.day_endings>)? <reminder.day_number>",
    ),
    ("month day", rf"(?:on |every |each )?(?:the )?(?P<day>{p.DAY}) <reminder.of_every_month>"),
    ("last day", "<reminder.last_day>"),
    ("year day", f"{EVERY} {p.DAY_OF_MONTH}"),
    ("year day", f"{p.DAY_OF_MONTH} <reminder.of_every_year>"),
    ("year day", f"{EVERY} {p.MONTH_AND_DAY}"),
    ("unit", f"{EVERY} (?P<half><reminder.every_half>)"),
    ("workdays", f"{EVERY} <reminder.workday>|<reminder.at_workdays>"),
    ("weekends", f"{EVERY} <time.weekend>(?: day)?|<reminder.at_weekends>"),
    ("weekdays", f"{EVERY}{OTHER} (?P<days>{WEEKDAYS})(?P<nth> <reminder.nth>)?"),
    ("unit", rf"{EVERY}{OTHER}(?: (?P<n>{NUMBER}))? (?P<unit>{UNIT})"),
    ("part", rf"{EVERY} (?:(?P<days>{WEEKDAYS}) )?(?P<part><reminder.every_part>)"),
    ("weekdays", rf"(?P<days><time.weekday_each>(?:{JOINT}<time.weekday_each_more>){{0,6}})"),
    ("weekdays", rf"(?:<reminder.from> )?(?P<days>{WEEKDAY}{THROUGH}{WEEKDAY})"),
    (
        "weekdays",
        "<reminder.on_every> "
        rf"(?P<days><time.weekdays_many>(?:{JOINT}<time.weekdays_many>){{0,6}})",
    ),
    ("weekdays", "(?P<days><reminder.weekdays_alone>)"),
    ("part", "<reminder.on_every> (?P<part><reminder.parts_many>)"),
    ("adverb", "(?P<word><reminder.adverb>|<reminder.part_adverb>)"),
    ("unit", rf"{TIMES} <reminder.per>(?: (?P<n>{NUMBER}))? (?P<unit>{UNIT})"),
    ("other day", "<reminder.other_day>"),
)
DAY_MONTH_DIGITS = (
    rf"(?<![\w.,:/+-])(?P<day>{p.DAY_NUMBER})[.](?P<month_number>0[1-9]|1[0-2])(?![\w:/]|[.,]\d)"
    rf"{p.COUNTED}"
)
TO_DAY = "(?:<reminder.on_day> )?(?:the )?"
IN_YEAR = rf"(?P<year>{w.YEAR})(?: <time.year_noun>)?"
DATE_RULES: tuple[tuple[str, str], ...] = (
    ("date", rf"{TO_DAY}(?:<time.weekday>,? )?(?P<number>{p.DIGIT_DATE})"),
    ("date", rf"{TO_DAY}(?:<time.weekday>,? (?:the )?)?{p.DAY_OF_MONTH}{p.YEAR_TAIL}"),
    ("date", rf"{TO_DAY}(?:<time.weekday>,? )?{p.MONTH_AND_DAY}{p.YEAR_TAIL}"),
    ("digits", rf"(?:<reminder.for_date> )?{DAY_MONTH_DIGITS}"),
    ("month day", rf"(?:<reminder.for_date> )?(?P<day>{p.DAY}) <reminder.month_day>"),
    ("month day", rf"(?:on )?the (?P<day>{p.DAY_NUMBER}(?:st|nd|rd|th))(?! (?:of|time|floor))"),
    (
        "day",
        rf"{TO_DAY}(?!<reminder.part_of_today>\b)(?P<word><time.day>)(?: <time.day_noun>)?(?!')",
    ),
    ("named", rf"(?:<reminder.on_weekday> )?{p.WHICH_NOUN}"),
    ("named", rf"<reminder.on_weekday> (?:the )?(?P<weekday>{WEEKDAY})(?!')"),
    ("named", "<reminder.on_weekend> (?:the )?(?P<weekend><time.weekend>)"),
    ("named", r"(?P<weekday><time.weekday_alone>)(?!')"),
    ("named", rf"<reminder.in_year> (?P<month><time.month>)(?: {IN_YEAR})?"),
    ("year", rf"<reminder.in_year> {IN_YEAR}(?![:.\d])"),
)
AFTER_RULES: tuple[tuple[str, str], ...] = (
    ("after", rf"<reminder.after> (?:<time.roughly> )?{LENGTH}"),
    (
        "after",
        rf"<reminder.after_counted> (?:<time.roughly> )?{COUNTED_LENGTH}(?:'s?)?(?: time)?",
    ),
    ("after", rf"(?P<unit>{UNIT}) <reminder.after_number> (?P<n>{NUMBER})"),
    (
        "after",
        rf"<reminder.within> {_length('<reminder.within_length>')}(?! <reminder.before_that>)",
    ),
    (
        "after",
        r"<reminder.within> (?P<unit><reminder.within_unit>)(?= (?!<reminder.before_that> )\w)",
    ),
)
BEFORE_RULES: tuple[tuple[str, str], ...] = (
    ("before", rf"<reminder.by> {LENGTH} <reminder.before_that>"),
    ("earlier", rf"<reminder.by> {LENGTH}(?=[ .!]*$)"),
)
# A length tells by its end what it is; one rule for all, since it costs most to look for.
COUNTED_RULE = (
    rf"{COUNTED_LENGTH} (?:(?P<ago><time.ago>)|(?P<after><reminder.from_now>)"
    r"|(?P<before><reminder.before_it>)(?= \w)|(?P<earlier><reminder.earlier>)(?=[ .!]*$))"
)
COUNTED_SLOTS: dict[str, Slot] = {
    "ago": "date", "after": "after", "before": "before", "earlier": "before",
}  # fmt: skip


def _rules() -> Iterator[tuple[tuple[Slot, str], str]]:
    """Every piece of time: what it says and in which way, and an expression; in order."""
    tables: tuple[tuple[Slot, Iterable[tuple[str, str]]], ...] = (
        ("every", EVERY_RULES), ("date", DATE_RULES), ("after", AFTER_RULES),
        ("clock", clock_rules()), ("date", [("counted", COUNTED_RULE)]), ("before", BEFORE_RULES),
        ("part", _parts("clock.part", "")), ("part", _parts("clock.bare_part", "bare ")),
    )  # fmt: skip
    for slot, rules in tables:
        for rule, source in rules:
            yield (slot, rule), source


def _parts(group: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The parts of a day by their names."""
    found = lexicon.rules(group, {})
    return ((f"{prefix}{part}", "|".join(sources)) for part, sources in found.items())


@dataclass(frozen=True)
class Element:
    """A piece of time at ``[start, end)`` of a folded text.

    Attributes:
        start: Where it begins, its preposition included.
        end: Where it ends.
        slot: What it says of a time.
        rule: The way of saying it.
        words: Its parts by name, as they stand there.
        text: All of it.
    """

    start: int
    end: int
    slot: Slot
    rule: str
    words: Mapping[str, str]
    text: str


def find_elements(folded: str) -> list[Element]:
    """The pieces of time in a folded text, in order, not overlapping; the first 60 of them."""
    found: list[Element] = []
    position = 0
    while len(found) < MAX_ELEMENTS:
        hit = _scanner().first(folded, position)
        if hit is None:
            break
        (slot, rule), match, words = hit
        if rule == "counted":
            rule = next(name for name in COUNTED_SLOTS if name in words)
            slot = COUNTED_SLOTS[rule]
        found.append(Element(match.start(), match.end(), slot, rule, words, match[0]))
        position = match.end()
    return found


@cache
def _scanner() -> RuleScanner[tuple[Slot, str]]:
    return RuleScanner(_rules(), begins=r"(?<![\w'])")
