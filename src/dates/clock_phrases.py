"""Times of day: "в 9", "без четверти девять", "half past eight".

Everything here is for text as ``time_spans.fold`` leaves it, with the digits 0 to 9. The
conventions, where people differ:

- "7:30" is what a clock of 24 hours shows, in every language; "at 3:30 pm" is 15:30.
- A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one as the clock of 24
  hours has it ("в 9" is 9:00): a reminder is for the time that people are awake.
- A part of the day without an hour has the hour of ``PART_HOURS``. The parts are those of the
  CLDR's day periods (morning until 12, afternoon until 18), the hour in each is our own choice:
  the beginning of a working day, after lunch, after work, before midnight.
- Midnight ends the day that is named: "завтра в полночь" is the moment in which tomorrow ends.
- English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from src.language import lexicon
from src.language.number_words import read_numbers

Part = Literal["morning", "afternoon", "evening", "night"]

PART_HOURS: dict[Part, int] = {"morning": 9, "afternoon": 13, "evening": 19, "night": 23}
# Until when a part goes on: "сегодня вечером", said at eight, is later this evening.
PART_ENDS: dict[Part, int] = {"morning": 12, "afternoon": 18, "evening": 24, "night": 24}
DAY_HOURS = 24
NOON = 12
LAST_AFTERNOON = 6  # the last bare hour that is taken for one in the afternoon
FIRST_EVENING = 4  # "в 4 вечера"; at "3 вечера" nobody agrees
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
