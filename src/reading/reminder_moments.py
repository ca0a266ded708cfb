"""What the pieces of time in a request mean: one moment, or a recurrence and its first time.

The conventions, where people differ (those of hours are in ``reminder_elements``):

- A day without an hour is at nine in the morning; "today" without one is not said well enough.
- "Через неделю" and "in three days" keep the time of day at which they are said; hours and
  minutes pass on any clock, also when it is changed. Of "5-10 минут" the earlier one counts, a
  reminder that is late is worth nothing; "несколько" are three.
- "On Monday", said on a Monday, is the next one.
- "Сегодня в 8", said at ten in the morning, is in the evening. Without a day, a time that has
  passed is tomorrow's.
- "Every month", "раз в неделю" and their like without a day begin on today's day. What comes
  every few hours does so from now on, when its hours fill a day evenly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, cast

from src.base.zones import first_moment, local_time
from src.reading import lexicon
from src.reading.recurrences import Recurrence, next_after
from src.reading.reminder_elements import (
    DAY_HOURS,
    HOUR,
    PART_ENDS,
    PART_HOURS,
    THROUGH,
    Clock,
    Element,
    Part,
    part_of,
    read_clock,
)
from src.reading.time_expressions import days_of
from src.reading.time_spans import Span
from src.reading.times import (
    DAY,
    Unit,
    day_number,
    month_number,
    months_later,
    read_numbers,
    unit_of,
    weekday_number,
)

Problem = Literal["no_time", "past", "no_text", "too_often", "too_far"]

FARTHEST = 10  # years
TOO_MANY = 10**6  # of any unit is too far, or no number
ALL_WEEK = tuple(range(7))
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)
SECONDS: dict[Unit, int] = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800,
    "month": 2_629_746, "year": 31_556_952,
}  # fmt: skip
FREQUENCIES: dict[Unit, Literal["daily", "weekly", "monthly", "yearly"]] = {
    "day": "daily", "week": "weekly", "month": "monthly", "year": "yearly",
}  # fmt: skip
MANY_DAYS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
RANGE_OF_DAYS = lexicon.Expression(f" ?- ?|{THROUGH}")
DEFAULT = Clock(PART_HOURS["morning"] * HOUR)


@dataclass(frozen=True)
class Timing:
    """When to remind.

    Attributes:
        when: The first time, in UTC; None: see ``problem``.
        repeats: How it comes again.
        problem: Why there is no time.
    """

    when: datetime | None = None
    repeats: Recurrence | None = None
    problem: Problem | None = None


class _ProblemError(Exception):
    """There is no such time to remind at."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class _Length:
    """So many units; ``number`` may have a fraction."""

    number: float
    unit: Unit

    @property
    def passing(self) -> timedelta:
        """As time that passes, on average for months and years."""
        return timedelta(seconds=round(self.number * SECONDS[self.unit]))


@dataclass(frozen=True)
class _Request:
    """The pieces of a request by what they say, and when it is made (local, naive)."""

    elements: Sequence[Element]
    now: datetime
    time_zone: str

    def of(self, slot: str) -> list[Element]:
        return [element for element in self.elements if element.slot == slot]

    @property
    def part(self) -> Part | None:
        rules = [element.rule.removeprefix("bare ") for element in self.of("part")]
        habits = [e.words.get("part") or e.words.get("word", "") for e in self.of("every")]
        named = [part_of(rule) for rule in rules] + [_part_of_habit(word) for word in habits]
        return next(filter(None, named), None)

    @property
    def clocks(self) -> list[Clock]:
        """The times of day that are said.

        Raises:
            _ProblemError: One of them is none ("25:99").
        """
        found = []
        for element in self.of("clock"):
            hours = [dict(element.words)]
            if "also" in element.words:
                hours.append({"hour": element.words["also"]})
            found += [read_clock(element.rule, words, self.part) for words in hours]
        if None in found:
            raise _ProblemError("no_time")
        return [clock for clock in found if clock is not None]


def read_timing(elements: Sequence[Element], now: datetime, time_zone: str) -> Timing:
    """When the pieces of time in a request say to remind.

    Args:
        elements: Those that belong together, in their order.
        now: Aware; the time is after it.
        time_zone: Of the user, a name of the tz database.
    """
    request = _Request(elements, local_time(now, time_zone).replace(tzinfo=None), time_zone)
    try:
        timing = _recurring(request, now) if request.of("every") else _once(request, now)
        return _moved(timing, request, now)
    except _ProblemError as found:
        return Timing(problem=found.problem)
    except (OverflowError, ValueError):
        return Timing(problem="too_far")


def _once(request: _Request, now: datetime) -> Timing:
    waits = request.of("after")
    if waits:
        return _checked(_after(_length(waits[0].words), request, now), now)
    clocks, dates = request.clocks, request.of("date")
    if dates:
        return _checked(_on_day(_day(dates, request), request, clocks), now)
    if not clocks and request.part is None:
        raise _ProblemError("no_time")
    clock = clocks[0] if clocks else Clock(PART_HOURS[request.part or "morning"] * HOUR)
    today = request.now.date()
    moments = (_at(today + DAY * days, clock, request.time_zone) for days in range(-1, 3))
    # A midnight ends the day before.
    return _checked(next(moment for moment in moments if moment > now), now)


def _on_day(day: date, request: _Request, clocks: Sequence[Clock]) -> datetime:
    """The moment on a day that is said."""
    today = request.now.date()
    clock = clocks[0] if clocks else None
    if clock is None and request.part is not None:
        clock = Clock(PART_HOURS[request.part] * HOUR)
        if day == today:
            clock = _later_in_part(clock, request.part, request.now)
    if day < today:
        raise _ProblemError("past")
    if clock is None and day == today:
        raise _ProblemError("no_time")
    minutes = request.now.hour * HOUR + request.now.minute
    if clock is not None and day == today and clock.minutes <= minutes:
        clock = _later_today(clock, minutes)
    return _at(day, clock or DEFAULT, request.time_zone)


def _later_today(clock: Clock, minutes: int) -> Clock:
    """A time that has passed today, as it must have been meant."""
    if clock.in_night:
        return Clock(clock.minutes + DAY_HOURS * HOUR)
    evening = clock.minutes + DAY_HOURS // 2 * HOUR
    return Clock(evening) if not clock.half_day and evening > minutes else clock


def _later_in_part(clock: Clock, part: Part, now: datetime) -> Clock:
    """The hour of a part of the day, or the next full one when it has begun long ago."""
    following = (now.hour + 1) * HOUR
    late = clock.minutes <= now.hour * HOUR + now.minute
    return Clock(following) if late and following < PART_ENDS[part] * HOUR else clock


def _after(length: _Length, request: _Request, now: datetime) -> datetime:
    whole = length.number == int(length.number)
    if length.unit in ("second", "minute", "hour") or (
        not whole and length.unit in ("day", "week")
    ):
        return now + length.passing
    months = {"month": 1, "year": 12}.get(length.unit, 0)
    today = request.now.date()
    day = months_later(today, round(length.number * months)) if months else None
    if day is None:
        day = today + DAY * round(length.number * (7 if length.unit == "week" else 1))
    clocks = request.clocks
    if request.of("date"):
        day = _weekday_near(day, request)
    if clocks or request.part is not None:
        clock = clocks[0] if clocks else Clock(PART_HOURS[request.part or "morning"] * HOUR)
        return _at(day, clock, request.time_zone)
    return first_moment(datetime.combine(day, request.now.time()), request.time_zone)


def _weekday_near(day: date, request: _Request) -> date:
    """The weekday in the week of a day: "через неделю в пятницу"; another day is unclear."""
    said = request.of("date")[0].words.get("weekday")
    if said is None:
        raise _ProblemError("no_time")
    return day + DAY * ((weekday_number(said) or 0) - day.weekday())


def _checked(moment: datetime, now: datetime) -> Timing:
    if moment <= now:
        raise _ProblemError("past")
    if moment > _horizon(now):
        raise _ProblemError("too_far")
    return Timing(moment.astimezone(UTC))


def _horizon(now: datetime) -> datetime:
    """The last moment that is not too far."""
    return datetime.combine(months_later(now.date(), FARTHEST * 12), time.max, now.tzinfo)


def _moved(timing: Timing, request: _Request, now: datetime) -> Timing:
    """The time, moved forward by "за час до"; of what has no hour nobody can tell when that is."""
    earlier = request.of("before")
    if not earlier or timing.when is None:
        return timing
    length = _length(earlier[0].words).passing
    by_days = length >= DAY and request.of("date")
    if timing.repeats is not None or not (by_days or request.of("clock")):
        raise _ProblemError("no_time")
    return _checked(timing.when - length, now)


def _day(dates: Sequence[Element], request: _Request) -> date:
    """The day that is said, in one piece or in two ("на следующей неделе в пятницу")."""
    spans = [_span(element) for element in dates]
    inner = next((span for span in spans if "weekday" in span.words), spans[0])
    weeks = [span for span in spans if "unit" in span.words and span is not inner]
    if weeks:
        inner = replace(inner, within=weeks[0])
    found = days_of(inner, request.now, past=False)
    if found is None:
        raise _ProblemError("no_time")
    today = request.now.date()
    if found.first < today < found.after and found.after - found.first > DAY:
        if "weekend" in inner.words:
            return today
        raise _ProblemError("no_time")
    return found.first


def _span(element: Element) -> Span:
    """A piece as the calendar reads it."""
    kinds = {"digits": "date"}
    if element.rule == "ago":
        raise _ProblemError("past")
    return Span(element.start, element.end, kinds.get(element.rule, element.rule), element.words)  # type: ignore[arg-type]


def _at(day: date, clock: Clock, time_zone: str) -> datetime:
    """The moment of a time on a day; the minutes may reach into the next one."""
    return first_moment(
        datetime.combine(day, time()) + timedelta(minutes=clock.minutes), time_zone
    )


def _recurring(request: _Request, now: datetime) -> Timing:
    habits = request.of("every")
    period = _period(habits)
    if period.passing < timedelta(hours=1):
        raise _ProblemError("too_often")
    if period.passing > timedelta(days=366 * FARTHEST):
        raise _ProblemError("too_far")
    if period.unit == "minute":
        period = _Length(period.number / HOUR, "hour")
    if period.number != int(period.number) or period.unit == "second":
        raise _ProblemError("no_time")
    begin, first = now, request.now.date()
    dates = request.of("date")
    if dates:
        first = _day(dates, request)
        midnight = first_moment(datetime.combine(first, time()), request.time_zone)
        begin = max(now, midnight - timedelta(seconds=1))
    repeats = _recurrence(habits, period, first, request)
    return replace(_checked(next_after(repeats, begin, request.time_zone), now), repeats=repeats)


def _period(habits: Sequence[Element]) -> _Length:
    """How much time passes from one to the next."""
    found = [_period_of(habit) for habit in habits]
    counted = [length for length in found if length.number != 1]
    return counted[0] if counted else min(found, key=lambda length: length.passing)


def _period_of(habit: Element) -> _Length:
    words = habit.words
    if "half" in words:
        return _length(words)
    number = 2.0 if "other" in words else 1.0
    if habit.rule == "unit":
        length = _length(words)
        return replace(length, number=length.number * number)
    if habit.rule == "adverb":
        unit = lexicon.values("reminder.adverb").get(words["word"], "day")
        return _Length(1, cast(Unit, unit))
    units: dict[str, Unit] = {
        "month day": "month", "last day": "month", "year day": "year", "part": "day",
    }  # fmt: skip
    if habit.rule == "other day":
        return _Length(2, "day")
    return _Length(number, units.get(habit.rule, "week"))


def _recurrence(
    habits: Sequence[Element], period: _Length, first: date, request: _Request
) -> Recurrence:
    """The recurrence of habits, counted from a day where they say none."""
    interval = int(period.number)
    by_weekday = any("weekday" in date.words for date in request.of("date"))
    if any("nth" in habit.words for habit in habits) or (period.unit == "month" and by_weekday):
        raise _ProblemError("no_time")  # "the second Friday of the month"
    if period.unit == "hour":
        return _hourly(interval, request)
    clocks = _clocks_of_habit(habits, request)
    minute = clocks[0].minutes % HOUR
    hours = tuple(
        sorted({c.minutes // HOUR % DAY_HOURS for c in clocks if c.minutes % HOUR == minute})
    )
    weekdays = tuple(sorted({day for habit in habits for day in _weekdays_of(habit)}))
    unit: Unit = "week" if weekdays and period.unit == "day" else period.unit
    if unit == "week" and not weekdays:
        weekdays = (first.weekday(),)
    if unit == "week" and weekdays == ALL_WEEK:
        unit, weekdays = "day", ()
    day, month = _day_of_habit(habits, first)
    return Recurrence(
        FREQUENCIES[unit],
        hours,
        minute,
        weekdays=weekdays if unit == "week" else (),
        day=day if unit in ("month", "year") else 0,
        month=month if unit == "year" else 0,
        interval=interval,
        start=_start(first, weekdays, clocks, request) if interval > 1 else None,
    )


def _start(
    first: date, weekdays: Sequence[int], clocks: Sequence[Clock], request: _Request
) -> date:
    """The first day that counts: the coming weekday, or tomorrow when the time has passed."""
    last = max(clock.minutes for clock in clocks)
    passed = first == request.now.date() and last <= request.now.hour * HOUR + request.now.minute
    if not weekdays:
        return first + DAY * passed
    days = (first + DAY * number for number in range(passed, 9))
    return next(day for day in days if day.weekday() in weekdays)


def _clocks_of_habit(habits: Sequence[Element], request: _Request) -> list[Clock]:
    clocks = request.clocks
    times = max((_times(habit) for habit in habits), default=1)
    if times > 1 and len(clocks) != times:
        raise _ProblemError("no_time")  # "twice a day"
    if clocks:
        return clocks
    return [Clock(PART_HOURS[request.part] * HOUR) if request.part else DEFAULT]


def _times(habit: Element) -> int:
    words = habit.words
    if "twice" in words:
        return 2
    said = words.get("times") or words.get("n_times")
    return int(_number(said)) if said else 1


def _hourly(interval: int, request: _Request) -> Recurrence:
    """Every few hours: the hours of a day, which they must fill evenly."""
    if DAY_HOURS % interval:
        raise _ProblemError("no_time")
    clocks = request.clocks
    minutes = clocks[0].minutes if clocks else request.now.hour * HOUR + request.now.minute
    hours = range(minutes // HOUR % interval, DAY_HOURS, interval)
    return Recurrence("daily", tuple(hours), minutes % HOUR)


def _weekdays_of(habit: Element) -> tuple[int, ...]:
    if habit.rule == "workdays":
        return WORKDAYS
    if habit.rule == "weekends":
        return WEEKEND
    said = habit.words.get("days", "")
    if not said:
        return ()
    named = map(weekday_number, MANY_DAYS.findall(said))
    days = [number for number in named if number is not None]
    if RANGE_OF_DAYS.search(said) and len(days) == 2 and days[0] < days[1]:
        return tuple(range(days[0], days[1] + 1))
    return tuple(days)


def _day_of_habit(habits: Sequence[Element], first: date) -> tuple[int, int]:
    """The day of the month, and the month, that habits name, or those of a day."""
    for habit in habits:
        if habit.rule == "last day":
            return 31, first.month
        if "day" in habit.words:
            month = month_number(habit.words["month"]) if "month" in habit.words else first.month
            return day_number(habit.words["day"]), month
    return first.day, first.month


def _part_of_habit(words: str) -> Part | None:
    tables = ("reminder.part_adverb", "reminder.parts_many", "reminder.every_part")
    found = (lexicon.key_of(table, words) for table in tables)
    return cast("Part | None", next(filter(None, found), None))


def _length(words: Mapping[str, str]) -> _Length:
    """The length that the words of a piece say."""
    half = words.get("half", "")
    if half:
        amount, _, unit = (lexicon.key_of("reminder.half_means", half) or "").partition(" ")
        return _Length(int(amount), cast(Unit, unit))
    number = _number(words["n"]) if "n" in words else 1.0
    if "and_half" in words or "half_more" in words:
        number += 0.5
    length = _Length(number, unit_of(words["unit"]))
    if "n2" not in words:
        return length
    seconds = length.passing.total_seconds() + _number(words["n2"]) * SECONDS["minute"]
    return _Length(seconds / SECONDS["minute"], "minute")


def _number(words: str) -> float:
    """The number that digits or words say; of two the smaller.

    Raises:
        OverflowError: It counts too many of anything.
    """
    vague = lexicon.values("time.vague").get(words)
    if vague is not None:
        low, high = map(int, vague.split("-"))
        return 1.5 if (low, high) == (1, 2) else (low + high) // 2
    if "^" in words:
        raise OverflowError("too many")
    if words[0].isdigit():
        number = float(words.partition("-")[0].replace(",", "."))
    else:
        said = ["1" if word in ("a", "an") else word for word in re.split("[ -]", words)]
        read = read_numbers(said)
        number = float(read[0]) if read and read[0].isdecimal() else 1.0
    if number > TOO_MANY:
        raise OverflowError("too many")
    return number
