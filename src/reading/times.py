"""Times in a text, read once for questions, facts and requests for reminders.

The shapes of times stand in the lexicon (``shapes.toml``): how the words of the languages stand
together, each with a kind. A ``Span`` holds the matched words, not their meaning on a given day.
``scan`` finds all of a line; ``find_spans`` keeps the days that a question or a fact names, and
``find_reminder_spans`` what a request for a reminder means by them, with hours, habits, their ends
and exceptions.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import Literal, NamedTuple, Self, cast

from src.reading import lexicon
from src.reading.recurrences import DAY_HOURS
from src.reading.words import read_numbers

MAX_TEXT = 2000  # characters; the rest is ignored
MAX_SPANS = 99  # per text

Slot = Literal["date", "clock", "part", "after", "before", "every", "limit"]
Unit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
Which = Literal["before last", "last", "this", "coming", "next"]
Role = Literal["at", "since", "after", "until"]

BEGINS = r"(?<![\w'])(?=['\w]|@ )"  # holds for every rule; skips a row of dots quickly
ROLES: dict[Role, lexicon.Expression] = {
    "since": lexicon.Expression(r"<time.since>\b"),
    "after": lexicon.Expression(r"<time.after>\b"),
    "until": lexicon.Expression(r"(?:<time.until>|<limit.until>)(?!\w)"),
}


@dataclass(frozen=True)
class Span:
    """Time expression at ``[start, end)`` of a folded text.

    Attributes:
        start: Start offset, including the preposition.
        end: End offset.
        kind: Kind of its rule.
        words: Matched parts by name (``prep``, ``which``, ``unit``, ``month`` …), as written.
        slot: Role in a request for a reminder.
        within: Enclosing time ("в понедельник | на прошлой неделе").
        to: Other end of a range ("с марта | по май").
    """

    start: int
    end: int
    kind: str
    words: Mapping[str, str] = field(default_factory=dict)
    slot: Slot = "date"
    within: "Span | None" = None
    to: "Span | None" = None

    @property
    def preposition(self) -> str:
        """Words before the time, without an article; may be empty."""
        return self.words.get("prep", "")

    @property
    def which(self) -> Which | None:
        """Meaning of "this", "last", "next" and the like; None without such a word."""
        return which_of(self.words["which"]) if "which" in self.words else None

    @property
    def role(self) -> Role:
        """Relation to the time that the preposition expresses."""
        if self.kind == "days":
            return "at"
        roles = (role for role, words in ROLES.items() if words.match(self.preposition))
        return next(roles, "at")

    @property
    def weekdays(self) -> tuple[int, ...]:
        """Weekdays, 0 to 6, of a habit or an exception; may be none."""
        if self.kind in ("workdays", "weekends"):
            return WORKDAYS if self.kind == "workdays" else WEEKEND
        return weekdays_in(self.words.get("days", ""))

    @property
    def starts(self) -> bool:
        """True behind "from", "starting" and the like."""
        return STARTING.fullmatch(self.preposition) is not None

    def exactly(self) -> Self:
        """Return the span as a day, where a length leads to it: not the week or month around."""
        return replace(self, words={**self.words, "exact": ""})

    @property
    def is_row(self) -> bool:
        """True for a length or an end that makes a habit of an hour: "at 9 for 5 days"."""
        return self.slot == "every" and self.kind in ROW_KINDS

    def without_preposition(self) -> "list[Span]":
        """Return a date without its preposition; nothing if it is no time without one."""
        words = self.words
        is_alone = (
            self.kind in (*SHORT_KINDS, "date", "days", "day")
            or "which" in words
            or words.get("weekday", "") in lexicon.forms("time.weekday_alone")
        )
        rest = {name: word for name, word in words.items() if name != "prep"}
        start = self.start + len(self.preposition) + 1
        return [replace(self, start=start, words=rest)] if is_alone else []

    def begins_range(self, last: "Span", gap: str) -> bool:
        """Return True for both ends of a range, as in "from March to May" or "5 мая - 8 мая"."""
        if last.kind not in ("date", "day", "named", "year"):
            return False
        begins = self.preposition.partition(" ")[0]
        is_begun = any(begins in lexicon.words(group) for group in RANGE_GROUPS)
        link = f"{gap.strip()} {last.preposition}".strip()
        if link == "-":
            return self.kind == "date" or is_begun
        return gap == " " and is_begun and link in lexicon.words("time.to")

    def lies_in(self, outer: "Span") -> bool:
        """Return True if ``outer`` names its week, month or year."""
        if "year" in self.words or "which" in self.words or self.within:
            return False
        word = outer.words.get("unit") if outer.kind in ("named", "ago") else None
        unit = unit_of(word) if word else None
        if outer.kind == "year" or unit == "year":
            return self.kind in ("date", "days") or bool(self.words.keys() & {"month", "season"})
        if unit == "week":
            return "weekday" in self.words
        return self.kind == "month day" and unit == "month"

    def is_beside(self, others: "Sequence[Span]", folded: str) -> bool:
        """Return True if nothing but a comma or the like stands between it and another time."""
        gaps = [folded[one.end : self.start] for one in others if one.end <= self.start]
        gaps += [folded[self.end : one.start] for one in others if one.start >= self.end]
        return any(NOTHING.fullmatch(gap) for gap in gaps)


# Slots of the shapes and the groups that list them, in the order of trial.
SHAPES: tuple[tuple[Slot, str], ...] = (
    ("every", "shape.habits"),
    ("date", "shape.dates"),
    ("clock", "clock.rules"),
    ("before", "shape.leads"),
    ("after", "shape.waits"),
    ("limit", "shape.ends"),
    ("clock", "shape.clocks"),
    ("limit", "shape.limits"),
    ("part", "shape.parts"),
)
# Clock time right after the weekday of a fact, which makes it one day ("Friday at 10:30").
DAY_SLOTS = frozenset[Slot]({"date", "after", "every"})  # of which a time names its day
CLOCK = re.compile(r",? (?:at (?:\d|half|quarter|noon)|\d{1,2}(?:[:.]\d\d| ?[ap]m)|half \d)")


class Rule(NamedTuple):
    """Shape of a time; its groups are the parts of the span."""

    slot: Slot
    kind: str
    pattern: re.Pattern[str]


@cache
def _rules() -> list[Rule]:
    """Return all shapes, in the order of trial.

    They are no alternatives of one expression: that takes three times as long to compile, and
    20 MB.
    """
    return [
        Rule(slot, kind, re.compile(lexicon.expanded(rf"{BEGINS}(?:{source})(?!\w)")))
        for slot, group in SHAPES
        for kind, source in lexicon.shapes(group)
    ]


FOLDED = str.maketrans("ё’ʼ‘`´–—−‑‐", "е'''''-----")
# Apostrophes of Ukrainian words as phones write them: п"ятниця, п*ятниця, "п ятниця".
APOSTROPHE = re.compile(r"(?<=[бпвмфр])[\"*″](?=[яюєї])|(?<=\bп) (?=ят)|(?<=\bдев) (?=ят)")
RANGE_GROUPS = ("time.since", "time.between")  # prepositions that begin a range
ADJACENT = re.compile(r",? ?")
SHORT_UNITS = ("second", "minute", "hour")
ENDLESS = 10.0**18  # of any unit: "10^9 years"
SECONDS: dict[Unit, int] = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800,
    "month": 2_629_746, "year": 31_556_952,
}  # fmt: skip
BEFORE_DAYS_OFF = lexicon.Expression(r"\b<reminder.between> $")
EDGE, SURELY_EXCEPT = lexicon.Expression("<time.edge>"), lexicon.Expression("<limit.except>")
SOME_TIME = lexicon.Expression("<time.habit>")
STARTING = lexicon.Expression("<limit.starting>")
SHORT_KINDS = ("short date", "short day")  # versions and prices in a question or a fact
DAY_KINDS = (*SHORT_KINDS, "date", "days", "month day", "day")
REMINDER_KINDS = (*DAY_KINDS, "nth weekday", "named", "year", "offset", "feast")
ROW_KINDS = ("length", "days", "date", "day", "named", "month day")
NOTHING, AT_END = re.compile(r"[ ,:-]*"), re.compile(r"[ .!?)]*")


def tidy(text: str) -> str:
    """Return the beginning of a text in NFC with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text[:MAX_TEXT]).split())


def fold(text: str) -> str:
    """Return the text as the grammar expects it; offsets stay valid."""
    return APOSTROPHE.sub("'", text.replace("İ", "I").lower().translate(FOLDED))


def scan(folded: str) -> list[Span]:
    """Return all times in a tidy, folded text, in order and without overlap; the first 99.

    Those that belong together are one: "on Monday | last week", "с марта | по май".
    """
    spans: list[Span] = []
    for rule, hit in islice(_matches(folded), MAX_SPANS):
        words = {name: word for name, word in hit.groupdict().items() if word}
        span = Span(*hit.span(), rule.kind, words, rule.slot)
        last = spans[-1] if spans and spans[-1].slot in ("date", "before") else None
        joined = _join(last, span, folded) if last and span.slot == "date" else None
        if joined is not None:
            spans[-1] = joined
        elif span.preposition in lexicon.words("time.joint_only"):
            spans += span.without_preposition()
        else:
            spans.append(span)
    return spans


def _matches(folded: str) -> Iterator[tuple[Rule, re.Match[str]]]:
    """Yield the leftmost matches without overlap; of those at one place the first rule's."""
    hits = [(rule, rule.pattern.search(folded)) for rule in _rules()]
    while found := [(rule, hit) for rule, hit in hits if hit]:
        first, match = min(found, key=lambda pair: pair[1].start())
        yield first, match
        end = match.end()
        hits = [
            (rule, hit if hit.start() >= end else rule.pattern.search(folded, end))
            for rule, hit in found
        ]


def _join(first: Span, second: Span, folded: str) -> Span | None:
    """Return two neighbours as one span if they are a range, or one lies in the other."""
    gap = folded[(first.to or first).end : second.start]
    if first.kind == "offset" and not first.within:
        is_day = length_of(first.words).unit not in SHORT_UNITS
        is_edge = second.role in ("until", "after") or second.starts
        moves = is_day and gap == " " and is_edge
        return replace(first, end=second.end, slot="date", within=second) if moves else None
    if first.to:
        return None
    if first.begins_range(second, gap):
        return replace(first, to=second)
    if ADJACENT.fullmatch(gap) is None or second.role != "at":
        return None
    if first.lies_in(second):
        return replace(first, end=second.end, within=second)
    if second.lies_in(first):
        return replace(second, start=first.start, within=first)
    return None


def find_spans(folded: str, *, with_short: bool = False) -> list[Span]:
    """Return the times in a tidy, folded question or fact, in order and without overlap.

    Args:
        folded: The text.
        with_short: Whether "30.11" is a date.
    """
    spans: list[Span] = []
    for span in scan(folded):
        if span.slot == "part" and spans and spans[-1].kind in ("day", "named"):
            last = spans[-1]
            if not last.to and folded[last.end : span.start] in (" ", ", "):
                spans[-1] = replace(last, end=span.end, words={**last.words, "part": ""})
            continue
        if SOME_TIME.fullmatch(folded, span.start, span.end):
            span = replace(span, kind="some")
        is_other = span.kind == "some" or "through" in span.words
        is_date = span.slot in ("date", "after")
        if is_other or (is_date and (with_short or span.kind not in SHORT_KINDS)):
            spans.append(span)
    return spans


def find_reminder_spans(folded: str) -> list[Span]:
    """Return the times in a folded request, in order and without overlap.

    Beside a habit they include its ends and exceptions, in the slot ``limit``. A length or an end
    beside an hour is a habit of its own: "at 9 for 5 days".
    """
    spans = [one for span in scan(folded) for one in _for_reminder(span, folded)]
    if not any(span.slot == "every" for span in spans):  # "only on weekdays" is a habit
        spans = [replace(s, slot="every") if s.kind == "only" else s for s in spans]
    if any(span.slot == "every" and not span.is_row for span in spans):
        spans = [replace(span, slot="limit") if span.is_row else span for span in spans]
        spans = _with_days_off(spans, folded)
        return [s for s in spans if s.slot != "limit" or _is_limit(s, spans, folded)]
    return [one for span in spans for one in _without_habit(span, spans, folded)]


def _for_reminder(span: Span, folded: str) -> list[Span]:
    """Return a time as a request for a reminder means it; nothing if it cannot mean it."""
    words, preposition = span.words, span.preposition
    if span.slot != "date" or span.kind == "ago":
        return [] if span.kind == "some" else [span]
    if span.to is not None:
        return [replace(span, to=None), replace(span.to, slot="limit")]
    if lexicon.key_of("clock.part", words.get("word", "")):
        return [replace(span, slot="part", words={"part": words["word"]})]
    if span.kind == "lasting" and which_of(words["side"]) in ("coming", "next"):
        is_sure = preposition in lexicon.words("limit.for")
        return [replace(span, kind="length" if is_sure else "length beside", slot="limit")]
    is_adjective = span.kind == "day" and "noun" not in words and day_offset(words["word"]) is None
    is_season = "season" in words and "which" not in words
    is_vague = span.kind == "offset" and span.within is None
    is_of_other = folded.startswith("'", span.end)  # "tomorrow's"
    if span.kind not in REMINDER_KINDS or is_adjective or is_season or is_vague or is_of_other:
        return []
    if span.role == "until" or span.kind == "days":
        return [replace(span, slot="limit")]
    is_edge = EDGE.fullmatch(preposition) is not None
    if not preposition or preposition in lexicon.words("reminder.on") or span.starts or is_edge:
        return [span]
    return span.without_preposition()


def _with_days_off(spans: Sequence[Span], folded: str) -> list[Span]:
    """Return the times of habits with exceptions such as "по воскресеньям | не надо" as one."""
    merged: list[Span] = []
    for span in spans:
        if span.kind == "off" and merged and span.is_beside(merged[-1:], folded):
            days = {"days": folded[merged[-1].start : merged[-1].end]}
            others = [s for s in spans if s.slot == "every" and s is not merged[-1]]
            if weekdays_in(days["days"]) and others:
                joint = BEFORE_DAYS_OFF.search(folded, 0, merged[-1].start)
                start = joint.start() if joint else merged[-1].start
                merged[-1] = Span(start, span.end, "except", days, "limit")
                continue
        merged.append(span)
    return merged


def _without_habit(span: Span, spans: Sequence[Span], folded: str) -> list[Span]:
    """Return what the end of a habit means where there is none, and any other time as it is."""
    if span.slot != "limit":
        return [span]
    is_moved = any(s.slot == "before" and s.end + 1 == span.start for s in spans)
    is_at = span.preposition in lexicon.words("clock.preposition_too") or is_moved
    if span.kind == "time" and is_at:
        named = {"midnight": "midnight", "noon": "noon", "minute": "digital"}
        kind = next((named[word] for word in named if word in span.words), "hour")
        return [replace(span, kind=kind, slot="clock")]  # "до 18:00", "an hour before 6pm"
    dates = [other for other in spans if other.slot == "date"]
    clocks = [other for other in spans if other.slot in ("clock", "part")]
    if span.kind == "days":
        return [replace(span, slot="every" if clocks else "date")]
    begins = [date for date in dates if date.starts]
    if span.kind == "except" and clocks and SURELY_EXCEPT.match(folded, span.start):
        return [replace(span, slot="every")]
    times = [*clocks, *begins, *(date for date in dates if "weekday" in date.words)]
    if "length" in span.kind:
        is_long = length_of(span.words).unit not in SHORT_UNITS
        is_row = is_long and all(date in times for date in dates)
    else:
        times = dates if span.preposition in lexicon.words("limit.through") else begins
        is_row = span.kind in ROW_KINDS
    is_row = is_row and bool(clocks) and span.is_beside(times, folded)
    return [replace(span, slot="every")] if is_row else []


def _is_limit(span: Span, spans: Sequence[Span], folded: str) -> bool:
    """Return True if an expression is an end or an exception, and not a part of the thing."""
    before = folded[: span.start].rstrip(" ,").rpartition(" ")[2]
    is_beside = span.is_beside([other for other in spans if other is not span], folded)
    period = min(period_of(habit).duration for habit in spans if habit.slot == "every")
    if "length" in span.kind:
        length = length_of(span.words)
        if length.duration <= period and (length.unit in SHORT_UNITS or not is_beside):
            return False  # "to meditate for ten minutes", "every Sunday cook for three days"
    match span.kind:
        case "time" | "hours":
            return is_beside or period < Length.of(1, "day").duration
        case "count":  # "… to pack the pads, 6 times"
            is_apart = folded[: span.start].rstrip().endswith((",", "-", "("))
            return is_beside or (is_apart and AT_END.fullmatch(folded, span.end) is not None)
        case "length beside" | "perhaps" | "off":
            return is_beside
        case "bare length":
            is_last = AT_END.fullmatch(folded, span.end) is not None
            is_sure = is_beside or is_last or not folded[span.start : span.end].isascii()
            return is_sure and before not in lexicon.words("limit.no_length_after")
    return True


# Values of the words in a span.
MANY_DAYS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)
WEEKENDS, WORKING = (lexicon.Expression(f"<limit.{days}>") for days in ("weekends", "workdays"))
RANGE_OF_DAYS = lexicon.Expression("<shape.of.through>")


class Length(NamedTuple):
    """Length of time: the fewest and the most units, and the number that a reminder takes."""

    low: float
    high: float
    number: float
    unit: Unit
    exact: bool = True

    @classmethod
    def of(cls, number: float, unit: Unit) -> Self:
        """Return an exact length."""
        return cls(number, number, number, unit)

    @property
    def duration(self) -> timedelta:
        """Elapsed time; months and years have their average length."""
        return timedelta(seconds=round(self.number * SECONDS[self.unit]))


def number_of(words: str) -> float:
    """Return the number that words count: ``2,5``, ``двадцать пять``, ``a``."""
    if "^" in words:
        return ENDLESS
    if words[0].isdigit():
        return float(words.partition("-")[0].replace(",", "."))
    articles = lexicon.words("time.article")
    parts = ["1" if word in articles else word for word in re.split("[ -]", words)]
    return int(read_numbers(parts)[0])


def length_of(words: Mapping[str, str]) -> Length:
    """Return the length of time in a span: "три недели", "a couple of days", "полгода"."""
    if half := words.get("half"):
        number_words, _, name = (lexicon.key_of("reminder.half_means", half) or "").partition(" ")
        return Length.of(int(number_words), cast(Unit, name))
    count = words.get("n", "1")
    unit: Unit = "minute"
    if "unit" in words:
        unit = unit_of(words["unit"])
    if vague := lexicon.values("time.vague").get(count):
        low, high = map(int, vague.split("-"))
        mean = (low + high) / 2
        return Length(low, high, mean if high <= 2 else int(mean), unit, exact=False)
    number = number_of(count)
    if number % 10 != 1 and words.get("unit") in lexicon.words("time.hours_cut"):
        unit = "hour"
    if "-" in count and count[0].isdigit():
        return Length(number, number_of(count.partition("-")[2]), number, unit, exact=False)
    if "and_half" in words or "half_more" in words:
        number += 0.5
    if "n2" not in words:
        return Length.of(number, unit)
    minutes = number * SECONDS[unit] / SECONDS["minute"] + number_of(words["n2"])
    return Length.of(minutes, "minute")


MONTHLY: tuple[float, Unit] = (1, "month")
# Time between two occurrences of the kinds of habits; a week for all others.
PERIODS: dict[str, tuple[float, Unit]] = {
    "fortnight": (2, "week"),
    "quarter": (3, "month"),
    "other day": (2, "day"),
    "part": (1, "day"),
    "adverb": (1, "day"),
    "year day": (1, "year"),
    **dict.fromkeys(("day of month", "last day", "last day alone", "nth", "nth alone"), MONTHLY),
}


def period_of(habit: Span) -> Length:
    """Return the time from one occurrence of a habit to the next."""
    words = habit.words
    if "half" in words or habit.kind == "unit":
        length = length_of(words)
        number, unit = length.number, length.unit
    else:
        number, unit = PERIODS.get(habit.kind, (1, "day" if habit.is_row else "week"))
    if adverb := lexicon.values("reminder.adverb").get(words.get("word", "")):
        unit = cast(Unit, adverb)
    return Length.of(number * 2 if "other" in words else number, unit)


def number_in(words: str) -> int:
    """Return the number of a day or an hour: ``5``, ``5-го``, ``9th``, ``пятого``.

    Raises:
        ValueError: There is none.
    """
    if digits := re.match(r"\d+", words):
        return int(digits[0])
    return int(read_numbers(re.split("[ -]", words), ordinals=True)[0])


def key_in(words: str, *groups: str) -> str | None:
    """Return the key that lists the words in the first table that has them."""
    return next(filter(None, (lexicon.key_of(group, words) for group in groups)), None)


def unit_of(word: str) -> Unit:
    """Return the unit of time that a word names; Ukrainian ``година`` is an hour."""
    return cast(
        Unit, key_in(word, "time.unit", "time.unit_one", "time.unit_short", "time.unit_letter")
    )


def which_of(words: str) -> Which:
    """Return the meaning of "this", "last", "next" and the like."""
    return cast(Which, lexicon.key_of("time.which", words) or "this")


def ordinals_in(words: str) -> tuple[int, ...]:
    """Return the numbers of a match of ``NTH_WEEKDAY``'s ordinals; -1 is the last."""
    keys = (lexicon.key_of("limit.nth", word.strip(",")) for word in words.split())
    return tuple(int(key) for key in keys if key is not None)


def day_offset(words: str) -> int | None:
    """Return the days from today that a word names (-1 is yesterday), or None."""
    return lexicon.numbers("time.day").get(words)


def month_number(words: str) -> int:
    """Return 1 to 12 for the name of a month or its abbreviation."""
    return int(key_in(words.removesuffix("."), "time.month", "time.month_short") or 0) + 1


def weekday_number(words: str) -> int | None:
    """Return 0 (Monday) to 6 for any form of a weekday's name, or None."""
    number = key_in(
        words, "time.weekday", "time.weekday_short", "time.weekdays_many", "time.weekday_each"
    )
    return None if number is None else int(number)


def weekdays_in(words: str) -> tuple[int, ...]:
    """Return the weekdays, 0 to 6, of a list or a range, which may hold "weekends"."""
    days: tuple[int, ...] = ()
    for word in MANY_DAYS.findall(words):
        number = weekday_number(word)
        if number is not None:
            days = (*days, number)
        elif WEEKENDS.fullmatch(word):
            days = (*days, *WEEKEND)
        elif WORKING.fullmatch(word):
            days = (*days, *WORKDAYS)
    if RANGE_OF_DAYS.search(words) and len(days) == 2 and days[0] < days[1]:
        return tuple(range(days[0], days[1] + 1))
    return days


# Times of the day as people say them: "half past eight", "в 9 вечера", "о пів на восьму".

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
    hour = 1 if words["hour"] in lexicon.words("clock.one") else number_in(words["hour"])
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
    return number_in(word or "0")


def day_part(words: str) -> Part | None:
    """Return the part of the day that words name, in any form, or None."""
    return cast("Part | None", key_in(words, *PARTS))
