"""Meaning of the times in a request: one moment, or a recurrence and its first time.

Conventions for ambiguous times:

- "7:30" is on the 24-hour clock in every language; "at 3:30 pm" is 15:30.
- A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one is on the 24-hour
  clock ("в 9" is 9:00): reminders are for the time that people are awake. What wakes them is for
  the morning.
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
from typing import Literal, Self

from src.base.zones import DAY, SECOND, first_moment, local_time
from src.reading import lexicon, times
from src.reading.recurrences import DAY_HOURS, ORDINALS, Recurrence, last_of, next_after
from src.reading.time_expressions import Days, around, days_of, months_later, shifted
from src.reading.times import HOUR, NOON, PART_HOURS, Length, Part, Span, TimeOfDay
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


MAX_TIMES = 1000  # of a recurrence that comes so many times
EARLY = 7  # o'clock
MAX_EARLIER = 2 * HOUR  # minutes before EARLY to which a reminder of the day may move
WAKING = lexicon.Expression(r"(?<!\w)<reminder.waking>(?!\w)")  # what is for the morning
DEFAULT = TimeOfDay(PART_HOURS["morning"] * HOUR)


@dataclass(frozen=True)
class _Request:
    """Spans of a request by slot, and the time at which it is made.

    Attributes:
        spans: Its times, in text order.
        moment: When it is made (aware).
        now: The same on the user's clock, naive.
        time_zone: The user's zone.
        due: Time of a rescheduled reminder (local, naive); a day alone keeps its hour.
        what: Text of the reminder.
    """

    spans: Sequence[Span]
    moment: datetime
    now: datetime
    time_zone: str
    due: datetime | None = None
    what: str = ""

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
        return [part for part in map(times.day_part, parts) if part is not None]

    @property
    def part(self) -> Part | None:
        return next(iter(self.parts), None)

    @property
    def clocks(self) -> list[TimeOfDay]:
        """Named times of day.

        Raises:
            _ProblemError: One of them is invalid ("25:99").
        """
        named, part = [], self.part
        if part is None and WAKING.search(times.fold(self.what)):
            part = "morning"
        for span in self.slot("clock"):
            also = [{"hour": hour} for hour in re.findall(r"\d+", span.words.get("also", ""))]
            named += [times.read_clock(span.kind, words, part) for words in (span.words, *also)]
        if None in named:
            raise _ProblemError("no_time")
        return [self.near_due(clock) for clock in named if clock]

    def near_due(self, clock: TimeOfDay) -> TimeOfDay:
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

    def single(self) -> datetime:
        """Return the moment of a reminder that comes once."""
        waits, dates = self.slot("after"), self.slot("date")
        leads = [times.length_of(span.words).duration for span in self.slot("before")]
        if any(lead >= DAY for lead in leads) and not (waits or dates):
            raise _ProblemError("no_day")  # "two days before gran's birthday"
        if waits:
            return self.moment_after(times.length_of(waits[0].words))
        clock = self.clock
        if any("also" in span.words for span in self.slot("clock")):
            raise _ProblemError("no_time")  # "at 9 and 18"
        between = [span.slot for span in self.spans if span.slot in ("clock", "date", "part")]
        if between.count("clock") > 1 and between[-2:] == ["date", "clock"]:
            raise _ProblemError("no_time")  # "tonight at 11 and tomorrow at 7"
        if dates:
            return self.on_day(self.named_day(dates), clock)
        if self.due is not None:
            return self.on_day(self.due.date(), clock)
        if clock is None:
            raise _ProblemError("no_time")
        today = self.now.date()
        # Midnight belongs to the day before, so yesterday is tried too.
        moments = (self.moment_at(today + DAY * days, clock) for days in range(-1, 3))
        return next(moment for moment in moments if moment > self.moment)

    def on_day(self, day: date, clock: TimeOfDay | None) -> datetime:
        """Return the moment of a time on a day, later than now."""
        today = self.now.date()
        if day < today:
            raise _ProblemError("past")
        if day == today:
            if clock is None:
                raise _ProblemError("no_time")
            clock = self.later_today(clock)
        return self.moment_at(day, clock or DEFAULT)

    def later_today(self, clock: TimeOfDay) -> TimeOfDay:
        """Resolve a time of today that has passed to the later one that was meant."""
        if clock.minutes > self.minutes:
            return clock
        if not self.clocks and self.part is not None:
            following = (self.now.hour + 1) * HOUR
            return TimeOfDay(following) if following < times.PART_ENDS[self.part] * HOUR else clock
        if clock.in_night:
            return TimeOfDay(clock.minutes + DAY_HOURS * HOUR)
        evening = clock.minutes + NOON * HOUR
        return TimeOfDay(evening) if not clock.half_day and evening > self.minutes else clock

    def moment_after(self, length: Length) -> datetime:
        """Return the moment of "in three days", at the named hour or at this time of the day."""
        is_split_day = length.unit in ("day", "week") and length.number != int(length.number)
        if is_split_day or length.unit in ("second", "minute", "hour"):
            return self.moment + length.duration
        day = shifted(self.now, length.unit, length.number)
        clock = self.clock
        if self.slot("date"):
            raise _ProblemError("no_time")
        if clock is not None:
            return self.moment_at(day, clock)
        return first_moment(datetime.combine(day, self.now.time()), self.time_zone)

    def moment_at(self, day: date, clock: TimeOfDay) -> datetime:
        """Return the moment of a time on a day; the minutes may reach into the next day."""
        moment = datetime.combine(day, time()) + timedelta(minutes=clock.minutes)
        return first_moment(moment, self.time_zone)

    def named_day(self, dates: Sequence[Span]) -> date:
        """Return the named day.

        Raises:
            _ProblemError: There is no such day, or several are named ("tomorrow and on Friday").
        """
        if any(span.kind == "ago" for span in dates):
            raise _ProblemError("past")
        found = [days_of(span.exactly(), self.now, past=False) for span in dates]
        firsts = {days.first for days in found if days is not None}
        is_vague = times.EDGE.fullmatch(dates[0].preposition) is not None  # "в конце месяца"
        days, today = found[0], self.now.date()
        if days is None or is_vague or len(firsts) > 1:
            raise _ProblemError("no_time")
        if self.is_still_today(dates[0]):
            return today
        if days.first < today < days.after and days.after - days.first > DAY:
            if "weekend" in dates[0].words:
                return today
            raise _ProblemError("no_time")
        return days.first

    def is_still_today(self, span: Span) -> bool:
        """Return True if a weekday is that of today and its named hour is still to come."""
        is_plain = "weekday" in span.words and span.within is None and span.kind == "named"
        if not is_plain or span.which not in (None, "this", "coming"):
            return False
        is_today = times.weekday_number(span.words["weekday"]) == self.now.weekday()
        has_hour = bool(self.slot("clock")) or self.part is not None
        return is_today and has_hour and (self.clock or DEFAULT).minutes > self.minutes

    def in_range(self, moment: datetime) -> datetime:
        """Return a moment that is to come, within ten years.

        Raises:
            _ProblemError: It is over, or too far away.
        """
        if moment <= self.moment:
            raise _ProblemError("past")
        last = months_later(self.moment.date(), MAX_YEARS * 12)
        if moment > datetime.combine(last, time.max, self.moment.tzinfo):
            raise _ProblemError("too_far")
        return moment


@dataclass(frozen=True)
class _Habit:
    """Recurring times of a request.

    Attributes:
        request: The request.
        spans: Its habits; at least one.
        limits: Their ends and exceptions.
        period: Time from one occurrence to the next.
    """

    request: _Request
    spans: Sequence[Span]
    limits: Sequence[Span]
    period: Length

    @classmethod
    def read(cls, request: _Request) -> Self:
        """Return the habit of a request.

        Raises:
            _ProblemError: It is unclear, comes too often, or at uneven times.
        """
        habits, limits = request.slot("every"), request.slot("limit")
        is_unclear = any(span.kind in ("unclear", "perhaps") for span in (*habits, *limits))
        if is_unclear or [habit.kind for habit in habits] == ["last day alone"]:
            raise _ProblemError("unclear")
        lengths = [times.period_of(habit) for habit in habits]
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
        return cls(request, habits, limits, period)

    def resolve(self) -> tuple[Recurrence, datetime]:
        """Return the recurrence with its end, and its first time."""
        request, days = self.request, self.days()
        first = max(request.now.date(), days.first)
        midnight = first_moment(datetime.combine(first, time()), request.time_zone)
        repeats = self.recurrence(first)
        begin = max(request.moment, midnight - SECOND)
        when = next_after(repeats, begin, request.time_zone)
        local = local_time(when, request.time_zone).replace(tzinfo=None)
        rows = [span for span in self.spans if span.is_row]
        ends = [self.end_of(span, repeats, local) for span in (*self.limits, *rows)]
        ends += [None if days.after == date.max else _end_before(days.after)]
        named = [end for end in ends if end is not None]
        if named and min(named) < local:
            raise _ProblemError("unclear")
        return replace(repeats, until=min(named, default=None)), when

    def days(self) -> Days:
        """Return the days in which it may come: from a named day on, or in a named period."""
        request = self.request
        for span in (*self.limits, *self.spans):
            if span.kind == "days":
                days = days_of(span, request.now, past=False)
                if days is not None:
                    return days
        dates = [span for span in request.slot("date") if span.kind != "nth weekday"]
        if not dates:
            return Days(request.now.date(), date.max)
        days = None if len(dates) > 1 else days_of(dates[0], request.now, past=False)
        by_hours = any(times.period_of(habit).unit in ("hour", "minute") for habit in self.spans)
        if days is None or days.after <= request.now.date() or dates[0].starts:
            return Days(request.named_day(dates), date.max)
        if days.after - days.first == DAY and not by_hours:  # "every hour today" ends today
            return Days(request.named_day(dates), date.max)
        return days

    def end_of(self, span: Span, repeats: Recurrence, first: datetime) -> datetime | None:
        """Return the last possible time (local) by one limit; None for a limit that is no end."""
        now = self.request.now
        match span.kind:
            case "except" | "only" | "hours" | "all" | "days":
                return None
            case "count":
                return self.nth_time(span, repeats, first)
            case "length" | "bare length" | "length beside":
                length = times.length_of(span.words)
                if length.unit in ("second", "minute", "hour"):
                    return now + length.duration
                return _end_before(shifted(first, length.unit, length.number))
            case "time":
                return self.end_hour(span, first)
            case "rest":
                return _end_before(around(now.date(), times.unit_of(span.words["unit"])).after)
            case "new year":
                return _end_before(date(first.year + 1, 1, 1))
        return self.end_day(span)

    def end_hour(self, span: Span, first: datetime) -> datetime:
        """Return the end of "every two hours until 6 pm".

        Raises:
            _ProblemError: The habit comes once a day, or on certain days.
        """
        if len(self.spans) > 1 or times.period_of(self.spans[0]).unit not in ("hour", "minute"):
            raise _ProblemError("unclear")
        end = datetime.combine(first, time()) + timedelta(minutes=_end_clock(span.words))
        return end if end >= first else end + DAY

    def end_day(self, span: Span) -> datetime:
        """Return the end of "until Friday": Friday's own; "until March" ends before March.

        Raises:
            _ProblemError: The calendar has no such day.
        """
        days = days_of(span, self.request.now, past=False)
        if days is None:
            raise _ProblemError("unclear")
        is_day = days.after - days.first == DAY
        before = span.preposition in lexicon.words("limit.before")
        whole = span.preposition in lexicon.words("limit.through")
        inclusive = is_day or whole or times.EDGE.fullmatch(span.preposition) is not None
        return _end_before(days.after if inclusive and not before else days.first)

    def nth_time(self, span: Span, repeats: Recurrence, first: datetime) -> datetime | None:
        """Return the last of so many times; as many as there are hours in a day is no end."""
        number, zone = int(times.number_of(span.words["n"])), self.request.time_zone
        if repeats.frequency == "daily" and number == len(repeats.hours):
            return None
        if repeats.frequency == "daily" or not 1 <= number <= MAX_TIMES:
            raise _ProblemError("unclear")
        return last_of(repeats, first_moment(first, zone), number, zone)

    def recurrence(self, first: date) -> Recurrence:
        """Return the recurrence from a day on, without its end."""
        request, period, interval = self.request, self.period, int(self.period.number)
        nth, weekdays = self.nth_weekday()
        weekdays = weekdays or self.weekdays()
        clocks = request.clocks if period.unit == "hour" else self.clocks()
        minutes = clocks[0].minutes if clocks else request.minutes
        date = self.day(first)
        if len({clock.minutes % HOUR for clock in clocks}) > 1:
            raise _ProblemError("no_time")  # "at 8:30 and 20:00": one recurrence holds one of them
        hours = [clock.minutes // HOUR % DAY_HOURS for clock in clocks]
        if period.unit == "hour":
            hours, minutes = self.hours_of_day(minutes)
        elif any(span.kind == "hours" for span in self.limits):
            raise _ProblemError("unclear")
        elif interval > 1:
            first = self.first_counted_day(first, weekdays, clocks)
        moment = datetime.combine(first, time(*divmod(minutes % (DAY_HOURS * HOUR), HOUR)))
        if nth:
            start = first if interval > 1 else None
            return Recurrence(
                "monthly", tuple(sorted(set(hours))), moment.minute, weekdays=tuple(weekdays),
                nth=nth, interval=interval, start=start,
            )  # fmt: skip
        return Recurrence.of(
            period.unit, moment, interval=interval, hours=hours, weekdays=weekdays, date=date,
        )  # fmt: skip

    def hours_of_day(self, minutes: int) -> tuple[list[int], int]:
        """Return the hours of "every two hours from 9 to 18", all of them without such limits."""
        interval = int(self.period.number)
        for span in self.limits:
            if span.kind == "hours":
                begin, end = _end_clock(span.words), _end_clock(span.words, "2")
                if begin >= end:
                    raise _ProblemError("unclear")
                named = range(begin, min(end, DAY_HOURS * HOUR - 1) + 1, interval * HOUR)
                return [minute // HOUR for minute in named], begin
        return list(range(minutes // HOUR % interval, DAY_HOURS, interval)), minutes

    def weekdays(self) -> set[int]:
        """Return the weekdays without the exceptions; none if none is named.

        Raises:
            _ProblemError: No day is left, or the exception does not fit the period.
        """
        weekdays = {day for habit in self.spans for day in habit.weekdays}
        if self.spans[0].kind == "except":
            weekdays = set(range(7)) - weekdays
        limits = [span for span in self.limits if span.kind in ("except", "only")]
        if not limits:
            return weekdays
        left = weekdays or set(range(7))
        for span in limits:
            days = set(span.weekdays)
            left = left - days if span.kind == "except" else left & days
        unit, number = self.period.unit, self.period.number
        fits = unit == "hour" or (unit in ("day", "week") and number == 1)
        if not left or not fits:
            raise _ProblemError("unclear")
        return left

    def nth_weekday(self) -> tuple[tuple[int, ...], set[int]]:
        """Return the ordinals and the weekday of "the first Monday of every month"; else nothing.

        Raises:
            _ProblemError: "Every third Friday" counts weeks or months; of "every month on Friday"
                it is unknown which one; the exceptions of such a habit cannot be held.
        """
        all_dates, unit = self.request.slot("date"), self.period.unit
        dates = all_dates if unit == "month" else []
        named = [span for span in (*self.spans, *dates) if span.kind.startswith("nth")]
        if unit == "year" and any(span.kind == "nth weekday" for span in all_dates):
            raise _ProblemError("unclear")
        if not named:
            if any("weekday" in span.words for span in dates):
                raise _ProblemError("no_time")
            return (), set()
        nth = times.ordinals_in(named[0].words["nth"])
        is_weeks = named[0].kind == "nth alone" and not {1, -1}.issuperset(nth)
        if is_weeks or any(span.kind in ("except", "only") for span in self.limits):
            raise _ProblemError("unclear")
        ordinals = tuple(number for number in ORDINALS if number in nth)
        return ordinals, {times.weekday_number(named[0].words["weekday"]) or 0}

    def first_counted_day(
        self, first: date, weekdays: Collection[int], clocks: Sequence[TimeOfDay]
    ) -> date:
        """Return the day from which "every two weeks" counts."""
        last = max(clock.minutes for clock in clocks)
        passed = first == self.request.now.date() and last <= self.request.minutes
        if not weekdays:
            return first + DAY * passed
        days = (first + DAY * number for number in range(passed, 9))
        return next(day for day in days if day.weekday() in weekdays)

    def clocks(self) -> list[TimeOfDay]:
        """Return the times of a day.

        Raises:
            _ProblemError: They are fewer than it says ("twice a day").
        """
        request, counts = self.request, [1]
        for words in (habit.words for habit in self.spans):
            often = lexicon.key_of("reminder.often", words.get("often", ""))
            number = words.get("times") or words.get("n_times") or "1"
            counts.append(int(often or times.number_of(number)))
        clocks, count = request.clocks, max(counts)
        days = {day for habit in self.spans for day in habit.weekdays}
        if count > 1 and count not in (len(clocks), len(days)):
            raise _ProblemError("no_time")
        parts = request.parts if len(request.parts) > 1 else []
        of_parts = [TimeOfDay(PART_HOURS[part] * HOUR) for part in parts]
        return clocks or of_parts or [request.clock or DEFAULT]

    def day(self, first: date) -> tuple[int, int]:
        """Return (day of the month, month) that it names, or else those of ``first``."""
        for habit in self.spans:
            if habit.kind.startswith("last day"):
                return 31, first.month
            if "day" in habit.words:
                day, month = times.number_in(habit.words["day"]), habit.words.get("month")
                return day, times.month_number(month) if month else first.month
        return first.day, first.month


def _end_before(day: date) -> datetime:
    return datetime.combine(day, time()) - SECOND


def _end_clock(words: Mapping[str, str], name: str = "") -> int:
    """Return the minutes of an hour that ends a habit, or of one of two.

    Raises:
        _ProblemError: There is no such hour.
    """
    if "midnight" in words or "noon" in words:
        return (DAY_HOURS if "midnight" in words else NOON) * HOUR
    parts = ("hour", "minute", "half_day")
    own = {part: words[part + name] for part in parts if part + name in words}
    clock = times.read_clock("digital" if "minute" in own else "hour", own, None)
    if clock is None:
        raise _ProblemError("no_time")
    return clock.minutes


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
        spans: Spans that belong together, in text order.
        now: The current time (aware); the reminder is later.
        time_zone: The user's time zone, a name of the tz database.
        due: The current time (aware) of a reminder that is rescheduled.
    """
    local_times = [at and local_time(at, time_zone).replace(tzinfo=None) for at in (now, due)]
    request = _Request(spans, now, local_times[0] or now, time_zone, local_times[1], what)
    repeats: Recurrence | None = None
    try:
        if request.slot("every"):
            repeats, when = _Habit.read(request).resolve()
        else:
            when = request.single()
        when = request.in_range(when)
        for span in request.slot("before")[:1]:  # "за час до"
            lead = times.length_of(span.words).duration
            if repeats is not None or not (lead >= DAY or request.slot("clock")):
                raise _ProblemError("no_time")
            when = request.in_range(when - lead)
        return ReminderRequest(what, when.astimezone(UTC), repeats)
    except _ProblemError as error:
        return ReminderRequest(what, problem=error.problem)
    except (OverflowError, ValueError):
        return ReminderRequest(what, problem="too_far")
