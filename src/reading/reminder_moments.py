"""Meaning of the times in a request: one moment, or a recurrence and its first time.

Conventions for ambiguous times:

- "7:30" is on the 24-hour clock in every language; "at 3:30 pm" is 15:30.
- A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one is on the 24-hour
  clock ("в 9" is 9:00): reminders are for the time that people are awake.
- A part of the day without an hour has the hour of ``PART_HOURS``. The parts are the day periods
  of the CLDR (morning until 12, afternoon until 18), the hour in each is our own choice: the
  beginning of a working day, after lunch, after work, before midnight.
- Midnight ends the named day: "завтра в полночь" is the end of tomorrow.
- English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.
- A day without an hour is at nine in the morning; "today" without one is too vague.
- "Через неделю" and "in three days" keep the current time of day; hours and minutes are elapsed
  time, also when the clocks change. Of "5-10 минут" the earlier one counts, because a late
  reminder is worth nothing; "несколько" is three.
- "On Monday at six", said on a Monday, is today, if six is still to come, and the next one
  otherwise, or without an hour.
- "Сегодня в 8", said at ten in the morning, is in the evening. Without a day, a time that has
  passed is tomorrow's.
- "Until Friday" and "по пятницу" include Friday, "before Friday" does not; "until March" ends with
  February, "through March" with March. "Every two hours until six" ends today, "from nine to six"
  comes in these hours of every day. An end or an exception that cannot be told sets nothing.
- "Every month", "раз в неделю" and the like without a day start today. "Every N hours" starts
  now, if N divides a day evenly.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from src.base.zones import DAY, first_moment, local_time
from src.reading import lexicon, times
from src.reading.recurrences import DAY_HOURS, ORDINALS, Recurrence, last_of, next_after
from src.reading.time_expressions import Days, around, days_of, months_later, shifted
from src.reading.times import (
    HOUR,
    NOON,
    PART_ENDS,
    PART_HOURS,
    WEEKEND,
    WORKDAYS,
    Length,
    Part,
    Span,
    TimeOfDay,
    day_part,
    period_of,
    read_clock,
)
from src.reading.words import mended

Problem = Literal[
    "no_time", "no_day", "unclear", "past", "no_text", "no_zone", "too_often", "too_far"
]  # fmt: skip
MAX_YEARS = 10
# Length of a postponement at the end of a text: "на час", "two days earlier".
SHIFT = lexicon.Expression(
    r"(?<!\S)(?P<to><move.to> )?<shape.of.length>"
    r"(?P<way> (?:<move.later>|(?P<earlier><move.earlier>)))?(?(way)|(?(to)|(?!)))$"
)


@dataclass(frozen=True)
class ReminderRequest:
    """Request for a reminder.

    Attributes:
        what: Text in the user's own words, without the order and the time; may be empty.
        when: First time, in UTC, after now; None: see ``problem``.
        repeats: Recurrence; None for a single reminder.
        problem: Reason why it cannot be set. ``no_time``: no time, or an unclear one; ``no_day``:
            so many days before a day that is not told; ``past``: the time has passed;
            ``unclear``: an end or an exception that cannot be held; ``too_far``: more than ten
            years away; ``too_often``: more than once an hour; ``no_text``: no text; ``no_zone``:
            the named zone is unknown.
        time_zone: Zone named for this reminder; empty for the user's own.
    """

    what: str
    when: datetime | None = None
    repeats: Recurrence | None = None
    problem: Problem | None = None
    time_zone: str = ""


class _ProblemError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


SECOND = timedelta(seconds=1)
MAX_TIMES = 1000  # of a recurrence that comes so many times
EARLY = 7  # o'clock
MAX_EARLIER = 2 * HOUR  # minutes before EARLY to which a reminder of the day may move
DEFAULT = TimeOfDay(PART_HOURS["morning"] * HOUR)


@dataclass(frozen=True)
class _Request:
    """Spans of a request by slot, and the time of the request (local, naive)."""

    spans: Sequence[Span]
    now: datetime
    time_zone: str
    due: datetime | None = None  # of a rescheduled reminder; a day alone keeps its hour

    def slot(self, slot: str) -> list[Span]:
        return [span for span in self.spans if span.slot == slot]

    @property
    def minutes(self) -> int:
        return self.now.hour * HOUR + self.now.minute

    @property
    def parts(self) -> list[Part]:
        """Named parts of the day, those of habits last."""
        spans = [*self.slot("part"), *self.slot("every")]
        named = ("part", "also_part", "word")
        parts = (span.words.get(name, "") for span in spans for name in named)
        return [part for part in map(day_part, parts) if part is not None]

    @property
    def part(self) -> Part | None:
        return next(iter(self.parts), None)

    @property
    def clocks(self) -> list[TimeOfDay]:
        """Named times of day.

        Raises:
            _ProblemError: One of them is invalid ("25:99").
        """
        named = []
        for span in self.slot("clock"):
            also = [{"hour": hour} for hour in re.findall(r"\d+", span.words.get("also", ""))]
            named += [read_clock(span.kind, words, self.part) for words in (span.words, *also)]
        if None in named:
            raise _ProblemError("no_time")
        return [self._near_due(clock) for clock in named if clock]

    def _near_due(self, clock: TimeOfDay) -> TimeOfDay:
        """Move a time of a rescheduled reminder to the nearer half of the day: "make it 7".

        A time far into the night must be named as such.
        """
        if clock.half_day or self.due is None or self.slot("date"):
            return clock
        before, half = self.due.hour * HOUR + self.due.minute, NOON * HOUR
        is_day = before >= EARLY * HOUR
        earliest = min(EARLY * HOUR, before - MAX_EARLIER) if is_day else 0
        minutes = clock.minutes % half
        halves = (at for at in (minutes, minutes + half) if at >= earliest)
        return replace(clock, minutes=min(halves, key=lambda at: abs(at - before)))

    @property
    def clock(self) -> TimeOfDay | None:
        """First named time, or that of a part of the day, or that of the rescheduled reminder."""
        of_part = [TimeOfDay(PART_HOURS[self.part] * HOUR)] if self.part is not None else []
        current = [] if self.due is None else [TimeOfDay(self.due.hour * HOUR + self.due.minute)]
        return next(iter([*self.clocks, *of_part, *current]), None)


def read_new_time(
    text: str, due: datetime, now: datetime, time_zone: str
) -> ReminderRequest | None:
    """Return a reminder's new time: "friday", "10:30", "an hour later"; None if there is none.

    A day alone keeps the hour, an hour alone keeps the day.

    Args:
        text: The new time, in words.
        due: The current time of the reminder (aware).
        now: The current time (aware).
        time_zone: The user's time zone.
    """
    folded = times.fold(mended(text))
    if (shift := SHIFT.fullmatch(folded)) is None:
        spans = times.find_reminder_spans(folded)
        return read_timing("", spans, now, time_zone, due=due) if spans else None
    words = {name: word for name, word in shift.groupdict().items() if word}
    later = read_timing("", [Span(0, 0, "after", words, "after")], due, time_zone)
    if later.when is None or "earlier" not in words:
        return later
    return replace(later, when=due - (later.when - due))


def read_timing(
    what: str, spans: Sequence[Span], now: datetime, time_zone: str, *, due: datetime | None = None
) -> ReminderRequest:
    """Return the request for a reminder at the time of the given spans.

    Args:
        what: Text of the reminder.
        pieces: Spans that belong together, in text order.
        now: The current time (aware); the reminder is later.
        time_zone: The user's time zone, a name of the tz database.
        due: The current time (aware) of a reminder that is rescheduled.
    """
    local_times = [at and local_time(at, time_zone).replace(tzinfo=None) for at in (now, due)]
    request = _Request(spans, local_times[0] or now, time_zone, local_times[1])
    try:
        repeats, when = (
            _repeated(request, now) if request.slot("every") else (None, _single(request, now))
        )
        when = _apply_lead_time(_check_range(when, now), repeats, request, now)
        return ReminderRequest(what, when.astimezone(UTC), repeats)
    except _ProblemError as error:
        return ReminderRequest(what, problem=error.problem)
    except (OverflowError, ValueError):
        return ReminderRequest(what, problem="too_far")


def _single(request: _Request, now: datetime) -> datetime:
    waits, dates = request.slot("after"), request.slot("date")
    leads = [times.length_of(span.words).duration for span in request.slot("before")]
    if any(lead >= DAY for lead in leads) and not (waits or dates):
        raise _ProblemError("no_day")  # "two days before gran's birthday"
    if waits:
        return _moment_after(times.length_of(waits[0].words), request, now)
    clock = request.clock
    if any("also" in span.words for span in request.slot("clock")):
        raise _ProblemError("no_time")  # "at 9 and 18"
    between = [span.slot for span in request.spans if span.slot in ("clock", "date", "part")]
    if between.count("clock") > 1 and between[-2:] == ["date", "clock"]:
        raise _ProblemError("no_time")  # "tonight at 11 and tomorrow at 7"
    if dates:
        return _on_day(_resolve_day(dates, request), clock, request)
    if request.due is not None:
        return _on_day(request.due.date(), clock, request)
    if clock is None:
        raise _ProblemError("no_time")
    today = request.now.date()
    # Midnight belongs to the day before, so yesterday is tried too.
    moments = (_moment_at(today + DAY * days, clock, request.time_zone) for days in range(-1, 3))
    return next(moment for moment in moments if moment > now)


def _on_day(day: date, clock: TimeOfDay | None, request: _Request) -> datetime:
    today = request.now.date()
    if day < today:
        raise _ProblemError("past")
    if day == today:
        if clock is None:
            raise _ProblemError("no_time")
        clock = _later_today(clock, request)
    return _moment_at(day, clock or DEFAULT, request.time_zone)


def _later_today(clock: TimeOfDay, request: _Request) -> TimeOfDay:
    """Resolve a time of today that has passed to the later one that was meant."""
    if clock.minutes > request.minutes:
        return clock
    if not request.clocks and request.part is not None:
        following = (request.now.hour + 1) * HOUR
        return TimeOfDay(following) if following < PART_ENDS[request.part] * HOUR else clock
    if clock.in_night:
        return TimeOfDay(clock.minutes + DAY_HOURS * HOUR)
    evening = clock.minutes + NOON * HOUR
    return TimeOfDay(evening) if not clock.half_day and evening > request.minutes else clock


def _moment_after(length: Length, request: _Request, now: datetime) -> datetime:
    is_split_day = length.unit in ("day", "week") and length.number != int(length.number)
    if is_split_day or length.unit in ("second", "minute", "hour"):
        return now + length.duration
    day = shifted(request.now, length.unit, length.number)
    clock = request.clock
    if request.slot("date"):
        raise _ProblemError("no_time")
    if clock is not None:
        return _moment_at(day, clock, request.time_zone)
    return first_moment(datetime.combine(day, request.now.time()), request.time_zone)


def _check_range(moment: datetime, now: datetime) -> datetime:
    if moment <= now:
        raise _ProblemError("past")
    last = datetime.combine(months_later(now.date(), MAX_YEARS * 12), time.max, now.tzinfo)
    if moment > last:
        raise _ProblemError("too_far")
    return moment


def _apply_lead_time(
    moment: datetime, repeats: Recurrence | None, request: _Request, now: datetime
) -> datetime:
    """Apply "за час до" to a moment; a problem if no hour is named."""
    if not (lead_times := request.slot("before")):
        return moment
    length = times.length_of(lead_times[0].words).duration
    if repeats is not None or not (length >= DAY or request.slot("clock")):
        raise _ProblemError("no_time")
    return _check_range(moment - length, now)


def _resolve_day(dates: Sequence[Span], request: _Request) -> date:
    """Return the named day.

    Raises:
        _ProblemError: There is no such day, or several are named ("tomorrow and on Friday").
    """
    if any(span.kind == "ago" for span in dates):
        raise _ProblemError("past")
    found = [days_of(span.exactly(), request.now, past=False) for span in dates]
    firsts = {days.first for days in found if days is not None}
    is_vague = times.EDGE.fullmatch(dates[0].preposition) is not None  # "в конце месяца"
    days, today = found[0], request.now.date()
    if days is None or is_vague or len(firsts) > 1:
        raise _ProblemError("no_time")
    if _is_still_today(dates[0], request):
        return today
    if days.first < today < days.after and days.after - days.first > DAY:
        if "weekend" in dates[0].words:
            return today
        raise _ProblemError("no_time")
    return days.first


def _is_still_today(span: Span, request: _Request) -> bool:
    """Return True if a weekday is that of today and its named hour is still to come."""
    is_plain = "weekday" in span.words and span.within is None and span.kind == "named"
    if not is_plain or span.which not in (None, "this", "coming"):
        return False
    is_today = times.weekday_number(span.words["weekday"]) == request.now.weekday()
    has_hour = bool(request.slot("clock")) or request.part is not None
    return is_today and has_hour and (request.clock or DEFAULT).minutes > request.minutes


def _moment_at(day: date, clock: TimeOfDay, time_zone: str) -> datetime:
    """Return the moment of a time on a day; the minutes may reach into the next day."""
    moment = datetime.combine(day, time()) + timedelta(minutes=clock.minutes)
    return first_moment(moment, time_zone)


def _repeated(request: _Request, now: datetime) -> tuple[Recurrence, datetime]:
    habits, limits = request.slot("every"), request.slot("limit")
    is_unclear = any(span.kind in ("unclear", "perhaps") for span in (*habits, *limits))
    if is_unclear or [habit.kind for habit in habits] == ["last day alone"]:
        raise _ProblemError("unclear")
    lengths = [period_of(habit) for habit in habits]
    multiples = [length for length in lengths if length.number != 1]
    period = min(multiples[:1] or lengths, key=lambda length: length.duration)
    by_weekday = any("weekday" in span.words for span in request.slot("date"))
    if by_weekday and habits[0].is_row:  # "for three weeks on Monday"
        period = Length.of(1, "week")
    if period.duration < timedelta(hours=1):
        raise _ProblemError("too_often")
    if period.unit == "minute":
        period = Length.of(period.number / HOUR, "hour")
    is_uneven = period.unit == "hour" and DAY_HOURS % max(1, period.number)
    if period.number != int(period.number) or period.unit == "second" or is_uneven:
        raise _ProblemError("no_time")
    days = _days_of_habit(request)
    first = max(request.now.date(), days.first)
    midnight = first_moment(datetime.combine(first, time()), request.time_zone)
    begin = max(now, midnight - timedelta(seconds=1))
    repeats = _recurrence(habits, period, first, request)
    when = next_after(repeats, begin, request.time_zone)
    return _with_end(repeats, when, days.after, request), when


def _days_of_habit(request: _Request) -> Days:
    """Return the days in which a habit may come: from a named day on, or in a named period."""
    today, habits = request.now.date(), request.slot("every")
    for span in (*request.slot("limit"), *habits):
        if span.kind == "days" and (days := days_of(span, request.now, past=False)) is not None:
            return days
    dates = [span for span in request.slot("date") if span.kind != "nth weekday"]
    if not dates:
        return Days(today, date.max)
    days = None if len(dates) > 1 else days_of(dates[0], request.now, past=False)
    by_hours = any(period_of(habit).unit in ("hour", "minute") for habit in habits)
    if days is None or days.after <= today or dates[0].starts:
        return Days(_resolve_day(dates, request), date.max)
    if days.after - days.first == DAY and not by_hours:  # "every hour today" ends today
        return Days(_resolve_day(dates, request), date.max)
    return days


def _with_end(repeats: Recurrence, first: datetime, after: date, request: _Request) -> Recurrence:
    """Return the recurrence until the earliest of its named ends.

    Args:
        repeats: The recurrence.
        first: Its first time.
        after: The day after the period in which it comes; the last of all if none is named.
        request: The request with its limits.

    Raises:
        _ProblemError: An end cannot be told, or it is over before it begins.
    """
    local = local_time(first, request.time_zone).replace(tzinfo=None)
    rows = [span for span in request.slot("every") if span.is_row]
    ends = [_end_of(span, repeats, local, request) for span in (*request.slot("limit"), *rows)]
    ends += [None if after == date.max else _end_before(after)]
    named = [end for end in ends if end is not None]
    if not named:
        return repeats
    if min(named) < local:
        raise _ProblemError("unclear")
    return replace(repeats, until=min(named))


def _end_of(
    span: Span, repeats: Recurrence, first: datetime, request: _Request
) -> datetime | None:
    """Return the last possible time (local) by one limit; None for a limit that is no end."""
    match span.kind:
        case "except" | "only" | "hours" | "all" | "days":
            return None
        case "count":
            return _nth_time(span, repeats, first, request)
        case "length" | "bare length" | "length beside":
            length = times.length_of(span.words)
            if length.unit in ("second", "minute", "hour"):
                return request.now + length.duration
            return _end_before(shifted(first, length.unit, length.number))
        case "time":
            return _end_hour(span, first, request)
        case "rest":
            return _end_before(around(request.now.date(), times.unit_of(span.words["unit"])).after)
        case "new year":
            return _end_before(date(first.year + 1, 1, 1))
    return _end_day(span, request)


def _end_before(day: date) -> datetime:
    return datetime.combine(day, time()) - SECOND


def _end_hour(span: Span, first: datetime, request: _Request) -> datetime:
    """Return the end of "every two hours until 6 pm".

    Raises:
        _ProblemError: The habit comes once a day, or on certain days.
    """
    habits = request.slot("every")
    if len(habits) > 1 or period_of(habits[0]).unit not in ("hour", "minute"):
        raise _ProblemError("unclear")
    end = datetime.combine(first, time()) + timedelta(minutes=_end_clock(span.words))
    return end if end >= first else end + DAY


def _end_day(span: Span, request: _Request) -> datetime:
    """Return the end of "until Friday": Friday's own; "until March" ends before March.

    Raises:
        _ProblemError: The calendar has no such day.
    """
    days = days_of(span, request.now, past=False)
    if days is None:
        raise _ProblemError("unclear")
    is_day = days.after - days.first == DAY
    before = span.preposition in lexicon.words("limit.before")
    whole = span.preposition in lexicon.words("limit.through")
    inclusive = is_day or whole or times.EDGE.fullmatch(span.preposition) is not None
    return _end_before(days.after if inclusive and not before else days.first)


def _end_clock(words: Mapping[str, str], name: str = "") -> int:
    """Return the minutes of an hour that ends a habit, or of one of two.

    Raises:
        _ProblemError: There is no such hour.
    """
    if "midnight" in words or "noon" in words:
        return (DAY_HOURS if "midnight" in words else NOON) * HOUR
    parts = ("hour", "minute", "half_day")
    own = {part: words[part + name] for part in parts if part + name in words}
    clock = read_clock("digital" if "minute" in own else "hour", own, None)
    if clock is None:
        raise _ProblemError("no_time")
    return clock.minutes


def _nth_time(
    span: Span, repeats: Recurrence, first: datetime, request: _Request
) -> datetime | None:
    """Return the last of so many times; as many as there are hours in a day is no end."""
    number = int(times.number_of(span.words["n"]))
    if repeats.frequency == "daily" and number == len(repeats.hours):
        return None
    if repeats.frequency == "daily" or not 1 <= number <= MAX_TIMES:
        raise _ProblemError("unclear")
    return last_of(repeats, first_moment(first, request.time_zone), number, request.time_zone)


def _recurrence(
    habits: Sequence[Span], period: Length, first: date, request: _Request
) -> Recurrence:
    interval = int(period.number)
    nth, weekdays = _nth_weekday(habits, period, request)
    weekdays = weekdays or _weekdays_of_habit(habits, period, request)
    clocks = request.clocks if period.unit == "hour" else _clocks_of_habit(habits, request)
    minutes = clocks[0].minutes if clocks else request.minutes
    date = _day_of_habit(habits, first)
    if len({clock.minutes % HOUR for clock in clocks}) > 1:
        raise _ProblemError("no_time")  # "at 8:30 and 20:00": one recurrence holds one of them
    hours = [clock.minutes // HOUR % DAY_HOURS for clock in clocks]
    if period.unit == "hour":
        hours, minutes = _hours_of_day(interval, minutes, request)
    elif any(span.kind == "hours" for span in request.slot("limit")):
        raise _ProblemError("unclear")
    if interval > 1 and period.unit != "hour":
        first = _first_counted_day(first, weekdays, clocks, request)
    moment = datetime.combine(first, time(*divmod(minutes % (DAY_HOURS * HOUR), HOUR)))
    if nth:
        start = first if interval > 1 else None
        return Recurrence(
            "monthly", tuple(sorted(set(hours))), moment.minute, weekdays=tuple(weekdays), nth=nth,
            interval=interval, start=start,
        )  # fmt: skip
    return Recurrence.of(
        period.unit, moment, interval=interval, hours=hours, weekdays=weekdays, date=date,
    )  # fmt: skip


def _hours_of_day(interval: int, minutes: int, request: _Request) -> tuple[list[int], int]:
    """Return the hours of "every two hours from 9 to 18", all of them without such limits."""
    for span in request.slot("limit"):
        if span.kind == "hours":
            begin, end = _end_clock(span.words), _end_clock(span.words, "2")
            if begin >= end:
                raise _ProblemError("unclear")
            named = range(begin, min(end, DAY_HOURS * HOUR - 1) + 1, interval * HOUR)
            return [minute // HOUR for minute in named], begin
    return list(range(minutes // HOUR % interval, DAY_HOURS, interval)), minutes


def _weekdays_of_habit(habits: Sequence[Span], period: Length, request: _Request) -> set[int]:
    """Return the weekdays of a habit without its exceptions; none if it names none.

    Raises:
        _ProblemError: No day is left, or the exception does not fit the period.
    """
    weekdays = {day for habit in habits for day in _weekdays_of(habit)}
    if habits[0].kind == "except":
        weekdays = set(range(7)) - weekdays
    limits = [span for span in request.slot("limit") if span.kind in ("except", "only")]
    if not limits:
        return weekdays
    left = weekdays or set(range(7))
    for span in limits:
        days = set(_weekdays_of(span))
        left = left - days if span.kind == "except" else left & days
    fits = period.unit == "hour" or (period.unit in ("day", "week") and period.number == 1)
    if not left or not fits:
        raise _ProblemError("unclear")
    return left


def _nth_weekday(
    habits: Sequence[Span], period: Length, request: _Request
) -> tuple[tuple[int, ...], set[int]]:
    """Return the ordinals and the weekday of "the first Monday of every month"; else nothing.

    Raises:
        _ProblemError: "Every third Friday" counts weeks or months; of "every month on Friday" it
            is unknown which one; the exceptions of such a habit cannot be held.
    """
    dates = request.slot("date") if period.unit == "month" else []
    named = [span for span in (*habits, *dates) if span.kind.startswith("nth")]
    if period.unit == "year" and any(span.kind == "nth weekday" for span in request.slot("date")):
        raise _ProblemError("unclear")
    if not named:
        if any("weekday" in span.words for span in dates):
            raise _ProblemError("no_time")
        return (), set()
    nth = times.ordinals_in(named[0].words["nth"])
    is_weeks = named[0].kind == "nth alone" and not {1, -1}.issuperset(nth)
    if is_weeks or any(span.kind in ("except", "only") for span in request.slot("limit")):
        raise _ProblemError("unclear")
    ordinals = tuple(number for number in ORDINALS if number in nth)
    return ordinals, {times.weekday_number(named[0].words["weekday"]) or 0}


def _first_counted_day(
    first: date, weekdays: Collection[int], clocks: Sequence[TimeOfDay], request: _Request
) -> date:
    last = max(clock.minutes for clock in clocks)
    passed = first == request.now.date() and last <= request.minutes
    if not weekdays:
        return first + DAY * passed
    days = (first + DAY * number for number in range(passed, 9))
    return next(day for day in days if day.weekday() in weekdays)


def _clocks_of_habit(habits: Sequence[Span], request: _Request) -> list[TimeOfDay]:
    clocks = request.clocks
    count = max(_times_per_period(habit) for habit in habits)
    days = {day for habit in habits for day in _weekdays_of(habit)}
    if count > 1 and count not in (len(clocks), len(days)):
        raise _ProblemError("no_time")  # "twice a day"
    parts = request.parts if len(request.parts) > 1 else []
    return (
        clocks
        or [TimeOfDay(PART_HOURS[part] * HOUR) for part in parts]
        or [request.clock or DEFAULT]
    )


def _times_per_period(habit: Span) -> int:
    words = habit.words
    often = lexicon.key_of("reminder.often", words.get("often", ""))
    return int(often or times.number_of(words.get("times") or words.get("n_times") or "1"))


def _weekdays_of(span: Span) -> tuple[int, ...]:
    if span.kind == "workdays":
        return WORKDAYS
    if span.kind == "weekends":
        return WEEKEND
    return times.weekdays_in(span.words.get("days", ""))


def _day_of_habit(habits: Sequence[Span], first: date) -> tuple[int, int]:
    """Return (day of the month, month) that the habits name, or else those of ``first``."""
    for habit in habits:
        if habit.kind.startswith("last day"):
            return 31, first.month
        if "day" in habit.words:
            day, month = times.number_in(habit.words["day"]), habit.words.get("month")
            return day, times.month_number(month) if month else first.month
    return first.day, first.month
