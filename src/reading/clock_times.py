"""Times of the day as people say them: "half past eight", "в 9 вечера", "о пів на восьму"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from src.reading import lexicon, times
from src.reading.recurrences import DAY_HOURS

Part = Literal["morning", "afternoon", "evening", "night"]

PART_HOURS: dict[Part, int] = {"morning": 9, "afternoon": 13, "evening": 19, "night": 23}
# End of each part, in hours: "сегодня вечером", said at eight, is later this evening.
PART_ENDS: dict[Part, int] = {"morning": 12, "afternoon": 18, "evening": 24, "night": 24}
PARTS = (
    "clock.part",
    "clock.half_day",
    "clock.bare_part",
    "reminder.part_adverb",
    "reminder.parts_many",
    "reminder.every_part",
)
NOON = 12
CLOCK_HOURS = {"midnight": DAY_HOURS, "noon": NOON, "lunch": PART_HOURS["afternoon"]}
LAST_AFTERNOON = 6  # last bare hour that is read as pm
LATE = 10  # "в 10 ночи" is before midnight, "в 5 ночи" after it
HOUR = 60  # minutes


@dataclass(frozen=True)
class TimeOfDay:
    """Time of day.

    Attributes:
        minutes: Minutes since the day began; 1440 is the midnight that ends it.
        half_day: False if the time may be 12 hours later: a bare hour without "am" or "pm".
        in_night: After midnight, and called a night: "сегодня в 2 ночи" is before tomorrow.
    """

    minutes: int
    half_day: bool = True
    in_night: bool = False


def read_clock(kind: str, words: Mapping[str, str], part: Part | None) -> TimeOfDay | None:
    """Return the time of day that words name, or None if there is no such time.

    Args:
        kind: Kind of the span.
        words: Its words.
        part: Part of the day that is named elsewhere, if any.
    """
    if kind in CLOCK_HOURS:
        return TimeOfDay(CLOCK_HOURS[kind] * HOUR)
    hour = 1 if words["hour"] in lexicon.words("clock.one") else times.number_in(words["hour"])
    minute = _minute_of(kind, words)
    if hour > DAY_HOURS or minute >= HOUR:
        return None
    if kind in ("to", "half to", "of"):
        # The named hour is the one that ends.
        minute, hour = (HOUR - minute if kind == "to" else minute), (hour - 1) % DAY_HOURS or 12
    minutes = hour * HOUR + minute
    part = day_part(words.get("half_day", "")) or part
    is_digital = kind == "digital"
    if minutes > DAY_HOURS * HOUR or (part and hour == 0 and not is_digital):
        return None
    if hour > NOON or hour == 0:
        return TimeOfDay(minutes)
    if part is not None:
        return _resolve_half_day(minutes, part, words)
    if not is_digital and hour <= LAST_AFTERNOON:
        return TimeOfDay(minutes + NOON * HOUR, half_day=False)
    return TimeOfDay(minutes, half_day=is_digital)


def _resolve_half_day(minutes: int, part: Part, words: Mapping[str, str]) -> TimeOfDay:
    hour, half, half_day = minutes // HOUR, NOON * HOUR, words.get("half_day", "")
    past_12 = minutes % half  # minutes since noon or midnight
    match part:
        case "morning":
            return TimeOfDay(past_12 if half_day.startswith("a") else minutes)
        case "afternoon":
            is_pm = hour < LATE or half_day.startswith("p") or words["hour"] == "12"
            return TimeOfDay(past_12 + half if is_pm else minutes)
        case "evening":
            return TimeOfDay(past_12 + half * (2 if hour == NOON else 1))
    is_late = hour >= LATE and hour != NOON
    is_english = "at night" in half_day and hour > LAST_AFTERNOON
    return (
        TimeOfDay(past_12 + half) if is_late or is_english else TimeOfDay(past_12, in_night=True)
    )


def _minute_of(kind: str, words: Mapping[str, str]) -> int:
    word = words.get("minute", "")
    if kind.startswith("half"):
        return HOUR // 2
    if "quarter" in words or word in lexicon.words("clock.quarter"):
        return HOUR // 4
    return times.number_in(word or "0")


def day_part(words: str) -> Part | None:
    """Return the part of the day that words name, in any form, or None."""
    return cast("Part | None", times.key_in(words, *PARTS))
