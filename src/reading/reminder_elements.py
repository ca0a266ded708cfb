"""The pieces of time in a request for a reminder: a day, a clock, a wait, a habit.

Times of day are read in Russian, Ukrainian and English: "в 9", "без четверти девять", "half past
eight".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from src.reading import lexicon
from src.reading import time_spans as p
from src.reading import times as w
from src.reading.time_spans import RuleScanner
from src.reading.times import read_numbers

# Times of day: "в 9", "без четверти девять", "half past eight".
#
# Everything here is for text as ``time_spans.fold`` leaves it, with the digits 0 to 9. The
# conventions, where people differ:
#
# - "7:30" is what a clock of 24 hours shows, in every language; "at 3:30 pm" is 15:30.
# - A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one as the clock of 24
#   hours has it ("в 9" is 9:00): a reminder is for the time that people are awake.
# - A part of the day without an hour has the hour of ``PART_HOURS``. The parts are those of the
#   CLDR's day periods (morning until 12, afternoon until 18), the hour in each is our own choice:
#   the beginning of a working day, after lunch, after work, before midnight.
# - Midnight ends the day that is named: "завтра в полночь" is the moment in which tomorrow ends.
# - English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.

Part = Literal["morning", "afternoon", "evening", "night"]

PART_HOURS: dict[Part, int] = {"morning": 9, "afternoon": 13, "evening": 19, "night": 23}
# Until when a part goes on: "сегодня вечером", said at eight, is later this evening.
PART_ENDS: dict[Part, int] = {"morning": 12, "afternoon": 18, "evening": 24, "night": 24}
DAY_HOURS = 24
NOON = 12
LAST_AFTERNOON = 6  # the last bare hour that is taken for one in the afternoon
LATE = 10  # "в 10 ночи" is before midnight, "в 5 ночи" after it
HOUR = 60  # minutes

# Expressions with groups of the lexicon in them.
NUMBER = (
    r"(?:\d{1,2}|<numbers.cardinals:20-50>[ -]<numbers.cardinals:1-9>|<numbers.cardinals:0-59>)"
    r"(?:(?!\w)|(?=[ap][.]?m\b))"
)
STEM = "(?:<time.counting:20-20> )?<numbers.ordinals:1-24>"
HALF_DAY = r"(?P<half_day><clock.half_day>)(?![\w'])"
# With a bare number in front, "дня" counts days.
HALF_DAY_OF_NUMBER = rf"(?!<clock.counts_days>(?!\w)){HALF_DAY}"
PREPOSITION = "(?:<clock.hours_before> )?(?:<clock.preposition>|@)"
ANY_PREPOSITION = f"(?:{PREPOSITION}|<clock.preposition_too>)"
AT = f"(?:{ANY_PREPOSITION} )?"
# What is counted cannot be a time: "в 5 магазинах", "at 3 shops".
COUNTED = r"(?! ?(?:[%€$₽₴]|<clock.counted>)|[.,/]\d)"
BARE_HOUR = (
    rf"(?P<hour>{NUMBER}|<clock.one_alone>|{STEM}<clock.at_endings>(?!\w)"
    r"|\d{1,2}-?<clock.digit_endings>(?!\w))"
)
# What the rules of the languages are made of.
PIECES = {
    "at": AT, "half": HALF_DAY, "number": NUMBER,
    "minute": f"(?:{NUMBER}|<clock.quarter>)",
    "hour_or_one": f"(?:{NUMBER}|<clock.one>)",
    "of_hour": rf"(?:{STEM}<clock.of_endings>|\d{{1,2}}(?:-?<clock.number_of_endings>)?)(?!\w)",
    "some_hour": rf"(?:{STEM}\w{{1,3}}|\d{{1,2}}(?:-?\w{{1,2}})?)(?!\w)",
    "till_hour": f"(?:{STEM}<clock.till_endings>)",
    "at_hour": f"(?:{STEM}<clock.at_endings>)",
    "to_hour": f"(?:{STEM}<clock.to_endings>)",
    "until_hour": f"(?:{STEM}<clock.until_endings>)",
}  # fmt: skip
# The ways of saying it by how their parts are put together, in the order of trial.
KINDS = (
    "midnight",
    "noon",
    "lunch",
    "to",
    "half to",
    "half past",
    "of",
    "past",
    "digital",
    "hour",
)
SHARED_RULES: tuple[tuple[str, str], ...] = (
    ("midnight", f"{AT}<clock.midnight>"),
    ("noon", f"{AT}<clock.noon>"),
    ("lunch", "<clock.lunch>"),
    (
        "digital",
        rf"(?:{AT})(?<![\d:.,/+-])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?!:?\d)"
        rf"(?: ?{HALF_DAY})?",
    ),
    (
        "digital",
        rf"{PREPOSITION} (?P<hour>\d{{1,2}})[.](?P<minute>\d{{2}})(?![\d:]|[.,]\d){COUNTED}"
        rf"(?: ?{HALF_DAY})?",
    ),
    (
        "hour",
        rf"{ANY_PREPOSITION} {BARE_HOUR}(?: <clock.hour_noun>)?"
        rf"(?: (?:<reminder.and> )?(?P<minute>{NUMBER}) <clock.minute_noun>)(?: {HALF_DAY})?",
    ),
    (
        "hour",
        rf"{ANY_PREPOSITION} {BARE_HOUR}(?: <clock.hour_noun>)?"
        rf" (?P<minute>[0-5]\d|<clock.minutes>(?:[ -]<clock.five>)?)(?![\w:.,]){COUNTED}"
        rf"(?: ?{HALF_DAY})?",
    ),
    ("hour", rf"{ANY_PREPOSITION} {BARE_HOUR}(?: <clock.hour_noun>)? ?{HALF_DAY}"),
    (
        "hour",
        rf"{PREPOSITION} {BARE_HOUR}(?: <clock.hour_noun>(?!\w))?(?!:\d|[/%^]|-\d){COUNTED}"
        rf"(?: <reminder.and> (?P<also>\d{{1,2}})(?![:\w]|[.,]\d){COUNTED})?",
    ),
    (
        "hour",
        rf"(?<![\w:.,-])(?P<hour>{NUMBER})(?: <clock.hour_noun>)? ?{HALF_DAY_OF_NUMBER}",
    ),
)


def clock_rules() -> list[tuple[str, str]]:
    """Every way of saying a time of day, by its name, as an expression."""
    found = lexicon.rules("clock.rules", PIECES)
    for kind, source in SHARED_RULES:
        found.setdefault(kind, []).append(lexicon.expanded(source))
    return [(kind, source) for kind in KINDS for source in found.get(kind, ())]


@dataclass(frozen=True)
class Clock:
    """A time of day.

    Attributes:
        minutes: Since the day began; 1440 is the midnight that ends it.
        half_day: The half of the day was said, or the clock has 24 hours: it is not 12 hours off.
        in_night: After midnight, and called a night: "сегодня в 2 ночи" is before tomorrow.
    """

    minutes: int
    half_day: bool = True
    in_night: bool = False


def read_clock(rule: str, words: dict[str, str], part: Part | None = None) -> Clock | None:
    """The time that a match of a rule of ``CLOCK_RULES`` says; None: there is no such time.

    Args:
        rule: Its name.
        words: The named groups that matched.
        part: The part of the day that is said elsewhere: "вечером … в 8".
    """
    fixed = {"midnight": DAY_HOURS, "noon": NOON, "lunch": PART_HOURS["afternoon"]}
    if rule in fixed:
        return Clock(fixed[rule] * HOUR)
    is_one = words["hour"] in lexicon.words("clock.one")
    hour = 1 if is_one else _number(words["hour"])
    minute = _minute(words)
    if rule in ("half to", "half past"):
        minute = HOUR // 2
    if hour > DAY_HOURS or minute >= HOUR:
        return None
    if rule in ("to", "half to", "of"):
        # The hour that is named is the one that ends.
        minute, hour = (HOUR - minute if rule == "to" else minute), (hour - 1) % DAY_HOURS or 12
    named = part_of(words.get("half_day", "")) or part
    return _of_half_day(hour, minute, named, is_digital=rule == "digital", words=words)


def part_of(words: str) -> Part | None:
    """The part of the day that words name."""
    tables = ("clock.half_day", "clock.part", "clock.bare_part")
    found = (lexicon.key_of(table, words) for table in tables)
    return cast("Part | None", next(filter(None, found), None))


def _of_half_day(
    hour: int, minute: int, part: Part | None, *, is_digital: bool, words: dict[str, str]
) -> Clock | None:
    """A time in the half of the day that was said, or in the likelier one."""
    minutes = hour * HOUR + minute
    if minutes > DAY_HOURS * HOUR or (part and hour == 0 and not is_digital):
        return None
    if hour > NOON or hour == 0:
        return Clock(minutes)
    half = NOON * HOUR
    noon = minutes % half  # what the hour 12 is, counted from noon or midnight
    if part == "morning":
        return Clock(noon if words.get("half_day", "").startswith("a") else minutes)
    if part == "afternoon" or (part == "evening" and hour != NOON):
        return Clock(noon + half if hour < LATE or _is_pm(words) or part == "evening" else minutes)
    if part == "evening":
        return Clock(noon + 2 * half)
    if part == "night":
        late = hour >= LATE and hour != NOON
        english = "at night" in words.get("half_day", "") and hour > LAST_AFTERNOON
        return Clock(noon + half) if late or english else Clock(noon, in_night=True)
    if not is_digital and hour <= LAST_AFTERNOON:
        return Clock(minutes + half, half_day=False)
    return Clock(minutes, half_day=is_digital)


def _is_pm(words: dict[str, str]) -> bool:
    return words.get("half_day", "").startswith("p") or words["hour"] in ("12",)


def _minute(words: dict[str, str]) -> int:
    said = words.get("minute", "")
    if "quarter" in words or said in lexicon.words("clock.quarter"):
        return HOUR // 4
    return _number(said) if said else 0


def _number(words: str) -> int:
    """The number that digits or words say: ``9``, ``9-й``, ``двадцять першій``."""
    digits = re.match(r"\d+", words)
    if digits is not None:
        return int(digits[0])
    read = read_numbers(re.split("[ -]", words), ordinals=True)
    return int(read[0]) if read and read[0].isdecimal() else DAY_HOURS * HOUR


# Each piece is found by one expression, built of the words and the patterns that dates in facts
# and in questions are read by. No expression repeats a repetition, so all are quick on any text.

Slot = Literal["date", "clock", "part", "after", "before", "every"]

MAX_ELEMENTS = 60  # of a text that are looked at
# Expressions with groups of the lexicon in them.
ONE_NUMBER = "(?:<numbers.cardinals>|<numbers.scales>|<time.counting>)"
COUNT = (
    r"(?:\d{1,18}(?:[.,]\d{1,2})?(?:\^\d{1,4})?(?:-\d{1,4})?|<time.vague>"
    rf"|{ONE_NUMBER}(?:[ -]{ONE_NUMBER}){{0,2}})"
)
UNIT = r"(?:<time.unit>|<time.unit_short>)(?!\w)"
MINUTES = "(?:<clock.minute_noun>|<reminder.minutes>)"


def _length(unit: str = UNIT, *, counted: bool = True) -> str:
    """An expression for a length of time, with a number or not."""
    number = rf"(?P<n>{COUNT})(?: (?P<and_half><reminder.and_a_half>))? ?"
    return (
        rf"(?:(?P<half><reminder.half_period>)(?!\w)|(?:{number}){'' if counted else '?'}"
        rf"(?P<unit>{unit})(?: (?P<half_more><reminder.and_a_half>))?(?:-<reminder.or_so>)?"
        rf"(?:,? (?:<reminder.and> )?(?P<n2>{COUNT}) ?(?P<unit2>{MINUTES})(?!\w))?)"
    )


LENGTH, COUNTED_LENGTH = _length(counted=False), _length()
WEEKDAY = r"(?:<time.weekday>|<time.weekday_short>)(?!\w)"
THROUGH = " <reminder.through> "
JOINT = f"(?:,? (?:<reminder.joint> )?|, ?| ?- ?|{THROUGH})"
WEEKDAYS = rf"{WEEKDAY}(?:{JOINT}{WEEKDAY}){{0,6}}"
EVERY = "<reminder.every>"
OTHER = "(?: (?P<other><reminder.other>))?"
TIMES = (
    rf"(?:(?:(?P<times>{COUNT}) )?<reminder.times>|(?P<once>once)|(?P<twice><reminder.twice>)"
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
    ("unit", rf"{EVERY}{OTHER}(?: (?P<n>{COUNT}))? (?P<unit>{UNIT})"),
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
    ("unit", rf"{TIMES} <reminder.per>(?: (?P<n>{COUNT}))? (?P<unit>{UNIT})"),
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
    ("after", rf"(?P<unit>{UNIT}) <reminder.after_number> (?P<n>{COUNT})"),
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
