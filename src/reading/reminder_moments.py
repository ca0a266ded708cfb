"""What the pieces of time in a request mean: one moment, or a recurrence and its first time.

The conventions, where people differ:

- "7:30" is what a clock of 24 hours shows, in every language; "at 3:30 pm" is 15:30.
- A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one as the clock of 24
  hours has it ("в 9" is 9:00): a reminder is for the time that people are awake.
- A part of the day without an hour has the hour of ``PART_HOURS``. The parts are those of the
  CLDR's day periods (morning until 12, afternoon until 18), the hour in each is our own choice:
  the beginning of a working day, after lunch, after work, before midnight.
- Midnight ends the day that is named: "завтра в полночь" is the moment in which tomorrow ends.
- English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.
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

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, NamedTuple, cast

from src.base.zones import DAY, first_moment, local_time
from src.reading import lexicon, times
from src.reading.recurrences import DAY_HOURS, Recurrence, next_after
from src.reading.time_expressions import days_of, months_later, shifted
from src.reading.times import Span, Unit, month_number, number_in

Problem = Literal["no_time", "past", "no_text", "no_zone", "too_often", "too_far"]
Part = Literal["morning", "afternoon", "evening", "night"]

PART_HOURS: dict[Part, int] = {"morning": 9, "afternoon": 13, "evening": 19, "night": 23}
# Until when a part goes on: "сегодня вечером", said at eight, is later this evening.
PART_ENDS: dict[Part, int] = {"morning": 12, "afternoon": 18, "evening": 24, "night": 24}
NOON = 12
CLOCK_HOURS = {"midnight": DAY_HOURS, "noon": NOON, "lunch": PART_HOURS["afternoon"]}
LAST_AFTERNOON = 6  # the last bare hour that is taken for one in the afternoon
LATE = 10  # "в 10 ночи" is before midnight, "в 5 ночи" after it
HOUR = 60  # minutes
FARTHEST = 10  # years
TOO_MANY = 10**6  # of any unit is too far, or no number
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)
SECONDS: dict[Unit, int] = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800,
    "month": 2_629_746, "year": 31_556_952,
}  # fmt: skip
# A length of time by which a reminder moves, at the end of a text: "на час", "two days earlier".
SHIFT = lexicon.Expression(
    rf"(?<!\S)(?P<to><move.to> )?{times.LENGTH}"
    r"(?P<way> (?:<move.later>|(?P<earlier><move.earlier>)))?(?(way)|(?(to)|(?!)))$"
)
MANY_DAYS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
RANGE_OF_DAYS = lexicon.Expression(f" ?- ?|{times.THROUGH}")
PART_GROUPS = (
    "clock.half_day",
    "reminder.part_adverb",
    "reminder.parts_many",
    "reminder.every_part",
)


@dataclass(frozen=True)
class ReminderRequest:
    """A request for a reminder.

    Attributes:
        what: In the user's own words, without the order and the words for the time; may be empty.
        when: The first time, in UTC, after now; None: see ``problem``.
        repeats: How it comes again; None: once.
        problem: Why it cannot be set as it is. ``no_time``: none is said, or an unclear one;
            ``past``: it has passed; ``too_far``: it is more than ten years away; ``too_often``:
            it comes more than once an hour; ``no_text``: nothing is said to be reminded of;
            ``no_zone``: the zone that is named is unknown.
        time_zone: The zone that is named for this one; empty: the user's own.
    """

    what: str
    when: datetime | None = None
    repeats: Recurrence | None = None
    problem: Problem | None = None
    time_zone: str = ""


class _ProblemError(Exception):
    """There is no such time to remind at."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


class _Length(NamedTuple):
    """So many units; ``number`` may have a fraction."""

    number: float
    unit: Unit

    @property
    def passing(self) -> timedelta:
        """As time that passes, on average for months and years."""
        return timedelta(seconds=round(self.number * SECONDS[self.unit]))


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


EARLY = 7  # o'clock
A_LITTLE = 2 * HOUR  # by which it may be moved before that
DEFAULT = Clock(PART_HOURS["morning"] * HOUR)


@dataclass(frozen=True)
class _Request:
    """The pieces of a request by what they say, and when it is made (local, naive)."""

    pieces: Sequence[Span]
    now: datetime
    time_zone: str
    due: datetime | None = None  # of one that moves: a day alone keeps its hour

    def of(self, slot: str) -> list[Span]:
        return [piece for piece in self.pieces if piece.slot == slot]

    @property
    def minutes(self) -> int:
        """Of the day, as the clock shows them."""
        return self.now.hour * HOUR + self.now.minute

    @property
    def part(self) -> Part | None:
        parts = [cast(Part, piece.kind.removeprefix("bare ")) for piece in self.of("part")]
        habits = [
            habit.words.get("part") or habit.words.get("word", "") for habit in self.of("every")
        ]
        return next(filter(None, [*parts, *map(_part_of, habits)]), None)

    @property
    def clocks(self) -> list[Clock]:
        """The times of day that are said.

        Raises:
            _ProblemError: One of them is none ("25:99").
        """
        found = []
        for piece in self.of("clock"):
            found.append(_read_clock(piece.kind, piece.words, self.part))
            if "also" in piece.words:
                found.append(_read_clock(piece.kind, {"hour": piece.words["also"]}, self.part))
        return [self._near_due(clock) for clock in found]

    def _near_due(self, clock: Clock) -> Clock:
        """Of one that moves to another hour, in the half of the day that is nearer: "make it 7".

        Nobody moves a thing far into the night without saying so.
        """
        if clock.half_day or self.due is None or self.of("date"):
            return clock
        before, half = self.due.hour * HOUR + self.due.minute, NOON * HOUR
        is_day = before >= EARLY * HOUR
        earliest = min(EARLY * HOUR, before - A_LITTLE) if is_day else 0
        halves = [
            at for at in (clock.minutes % half, clock.minutes % half + half) if at >= earliest
        ]
        return replace(clock, minutes=min(halves, key=lambda at: abs(at - before)))

    @property
    def clock(self) -> Clock | None:
        """The first of them, or the time of a part of the day."""
        named = [Clock(PART_HOURS[self.part] * HOUR)] if self.part is not None else []
        kept = [] if self.due is None else [Clock(self.due.hour * HOUR + self.due.minute)]
        return next(iter([*self.clocks, *named, *kept]), None)


def read_new_time(
    said: str, due: datetime, now: datetime, time_zone: str
) -> ReminderRequest | None:
    """When a reminder shall come instead: "friday", "10:30", "an hour later"; None: no time.

    A day alone keeps its hour, an hour alone its day.

    Args:
        said: The new time, in words.
        due: When it would come (aware).
        now: Aware.
        time_zone: Of the user.
    """
    folded = times.fold(said)
    if (shift := SHIFT.fullmatch(folded)) is None:
        pieces = times.find_reminder_spans(folded)
        return read_timing("", pieces, now, time_zone, due=due) if pieces else None
    words = {name: word for name, word in shift.groupdict().items() if word}
    later = read_timing("", [Span(0, 0, "after", words, "after")], due, time_zone)
    if later.when is None or "earlier" not in words:
        return later
    return replace(later, when=due - (later.when - due))


def read_timing(
    what: str,
    pieces: Sequence[Span],
    now: datetime,
    time_zone: str,
    *,
    due: datetime | None = None,
) -> ReminderRequest:
    """The request for a reminder at the time that its pieces of time say.

    Args:
        what: What to remind of.
        pieces: Those that belong together, in their order.
        now: Aware; the time is after it.
        time_zone: Of the user, a name of the tz database.
        due: The time (aware) from which a reminder moves.
    """
    moments = [one and local_time(one, time_zone).replace(tzinfo=None) for one in (now, due)]
    request = _Request(pieces, moments[0] or now, time_zone, moments[1])
    try:
        repeats, when = (
            _recurring(request, now) if request.of("every") else (None, _once(request, now))
        )
        when = _moved(_checked(when, now), repeats, request, now)
        return ReminderRequest(what, when.astimezone(UTC), repeats)
    except _ProblemError as found:
        return ReminderRequest(what, problem=found.problem)
    except (OverflowError, ValueError):
        return ReminderRequest(what, problem="too_far")


def _read_clock(kind: str, words: Mapping[str, str], part: Part | None) -> Clock:
    """The time that the words of a clock say, its part of the day perhaps said elsewhere.

    Raises:
        _ProblemError: There is no such time.
    """
    if kind in CLOCK_HOURS:
        return Clock(CLOCK_HOURS[kind] * HOUR)
    hour = 1 if words["hour"] in lexicon.words("clock.one") else number_in(words["hour"])
    minute = HOUR // 2 if kind in ("half to", "half past") else _minute(words)
    if hour > DAY_HOURS or minute >= HOUR:
        raise _ProblemError("no_time")
    if kind in ("to", "half to", "of"):
        # The hour that is named is the one that ends.
        minute, hour = (HOUR - minute if kind == "to" else minute), (hour - 1) % DAY_HOURS or 12
    minutes = hour * HOUR + minute
    part = _part_of(words.get("half_day", "")) or part
    is_digital = kind == "digital"
    if minutes > DAY_HOURS * HOUR or (part and hour == 0 and not is_digital):
        raise _ProblemError("no_time")
    if hour > NOON or hour == 0:
        return Clock(minutes)
    if part is not None:
        return _in_part(minutes, part, words)
    if not is_digital and hour <= LAST_AFTERNOON:
        return Clock(minutes + NOON * HOUR, half_day=False)
    return Clock(minutes, half_day=is_digital)


def _in_part(minutes: int, part: Part, words: Mapping[str, str]) -> Clock:
    """A time on a clock of 12 hours in the half of the day that was said."""
    hour, half, said = minutes // HOUR, NOON * HOUR, words.get("half_day", "")
    noon = minutes % half  # what the hour 12 is, counted from noon or midnight
    match part:
        case "morning":
            return Clock(noon if said.startswith("a") else minutes)
        case "afternoon":
            is_pm = hour < LATE or said.startswith("p") or words["hour"] == "12"
            return Clock(noon + half if is_pm else minutes)
        case "evening":
            return Clock(noon + half * (2 if hour == NOON else 1))
    late = hour >= LATE and hour != NOON
    english = "at night" in said and hour > LAST_AFTERNOON
    return Clock(noon + half) if late or english else Clock(noon, in_night=True)


def _minute(words: Mapping[str, str]) -> int:
    said = words.get("minute", "")
    if "quarter" in words or said in lexicon.words("clock.quarter"):
        return HOUR // 4
    return number_in(said) if said else 0


def _part_of(words: str) -> Part | None:
    return cast("Part | None", times.key_in(words, *PART_GROUPS))


def _once(request: _Request, now: datetime) -> datetime:
    waits, dates = request.of("after"), request.of("date")
    if waits:
        return _after(_length(waits[0].words), request, now)
    clock = request.clock
    if dates:
        return _on_day(_day(dates, request), clock, request)
    if request.due is not None:
        return _on_day(request.due.date(), clock, request)
    if clock is None:
        raise _ProblemError("no_time")
    today = request.now.date()
    # A midnight ends the day before.
    moments = (_at(today + DAY * days, clock, request.time_zone) for days in range(-1, 3))
    return next(moment for moment in moments if moment > now)


def _on_day(day: date, clock: Clock | None, request: _Request) -> datetime:
    """The moment on a day that is said."""
    today = request.now.date()
    if day < today:
        raise _ProblemError("past")
    if day == today:
        if clock is None:
            raise _ProblemError("no_time")
        clock = _later_today(clock, request)
    return _at(day, clock or DEFAULT, request.time_zone)


def _later_today(clock: Clock, request: _Request) -> Clock:
    """A time of today as it must have been meant, when it has passed."""
    if clock.minutes > request.minutes:
        return clock
    if not request.clocks and request.part is not None:
        following = (request.now.hour + 1) * HOUR
        return Clock(following) if following < PART_ENDS[request.part] * HOUR else clock
    if clock.in_night:
        return Clock(clock.minutes + DAY_HOURS * HOUR)
    evening = clock.minutes + NOON * HOUR
    return Clock(evening) if not clock.half_day and evening > request.minutes else clock


def _after(length: _Length, request: _Request, now: datetime) -> datetime:
    whole = length.number == int(length.number)
    if length.unit in ("second", "minute", "hour") or (
        not whole and length.unit in ("day", "week")
    ):
        return now + length.passing
    day = shifted(request.now, length.unit, length.number)
    clock = request.clock
    if request.of("date"):
        day = _weekday_near(day, request)
    if clock is not None:
        return _at(day, clock, request.time_zone)
    return first_moment(datetime.combine(day, request.now.time()), request.time_zone)


def _weekday_near(day: date, request: _Request) -> date:
    """The weekday in the week of a day: "через неделю в пятницу"; another day is unclear."""
    said = request.of("date")[0].words.get("weekday")
    if said is None:
        raise _ProblemError("no_time")
    return day + DAY * ((times.weekday_number(said) or 0) - day.weekday())


def _checked(moment: datetime, now: datetime) -> datetime:
    """A moment that is neither past nor too far."""
    if moment <= now:
        raise _ProblemError("past")
    last = datetime.combine(months_later(now.date(), FARTHEST * 12), time.max, now.tzinfo)
    if moment > last:
        raise _ProblemError("too_far")
    return moment


def _moved(
    moment: datetime, repeats: Recurrence | None, request: _Request, now: datetime
) -> datetime:
    """The time, moved forward by "за час до"; impossible where no hour is said."""
    earlier = request.of("before")
    if not earlier:
        return moment
    length = _length(earlier[0].words).passing
    by_days = length >= DAY and request.of("date")
    if repeats is not None or not (by_days or request.of("clock")):
        raise _ProblemError("no_time")
    return _checked(moment - length, now)


def _day(dates: Sequence[Span], request: _Request) -> date:
    """The day that is said, in one piece or in two ("на следующей неделе в пятницу")."""
    if any(span.kind == "ago" for span in dates):
        raise _ProblemError("past")
    inner = next((span for span in dates if "weekday" in span.words), dates[0])
    weeks = [span for span in dates if "unit" in span.words and span is not inner]
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


def _at(day: date, clock: Clock, time_zone: str) -> datetime:
    """The moment of a time on a day; the minutes may reach into the next one."""
    return first_moment(
        datetime.combine(day, time()) + timedelta(minutes=clock.minutes), time_zone
    )


def _recurring(request: _Request, now: datetime) -> tuple[Recurrence, datetime]:
    habits = request.of("every")
    period = _period(habits)
    if period.passing < timedelta(hours=1):
        raise _ProblemError("too_often")
    if period.passing > timedelta(days=366 * FARTHEST):
        raise _ProblemError("too_far")
    if period.unit == "minute":
        period = _Length(period.number / HOUR, "hour")
    is_uneven = period.unit == "hour" and DAY_HOURS % max(1, period.number)
    if period.number != int(period.number) or period.unit == "second" or is_uneven:
        raise _ProblemError("no_time")
    begin, first = now, request.now.date()
    dates = request.of("date")
    if dates:
        first = _day(dates, request)
        midnight = first_moment(datetime.combine(first, time()), request.time_zone)
        begin = max(now, midnight - timedelta(seconds=1))
    repeats = _recurrence(habits, period, first, request)
    return repeats, next_after(repeats, begin, request.time_zone)


def _period(habits: Sequence[Span]) -> _Length:
    """How much time passes from one to the next."""
    found = [_period_of(habit) for habit in habits]
    counted = [length for length in found if length.number != 1]
    return counted[0] if counted else min(found, key=lambda length: length.passing)


def _period_of(habit: Span) -> _Length:
    words = habit.words
    if "half" in words:
        return _length(words)
    number = 2.0 if "other" in words or habit.kind == "other day" else 1.0
    if habit.kind == "unit":
        length = _length(words)
        return _Length(length.number * number, length.unit)
    if habit.kind == "adverb":
        unit = lexicon.values("reminder.adverb").get(words["word"], "day")
        return _Length(1, cast(Unit, unit))
    units: dict[str, Unit] = {
        "month day": "month", "last day": "month", "year day": "year", "part": "day",
        "other day": "day",
    }  # fmt: skip
    return _Length(number, units.get(habit.kind, "week"))


def _recurrence(
    habits: Sequence[Span], period: _Length, first: date, request: _Request
) -> Recurrence:
    """The recurrence of habits, counted from a day where they say none."""
    interval = int(period.number)
    by_weekday = any("weekday" in date.words for date in request.of("date"))
    if any("nth" in habit.words for habit in habits) or (period.unit == "month" and by_weekday):
        raise _ProblemError("no_time")  # "the second Friday of the month"
    clocks = request.clocks if period.unit == "hour" else _clocks_of_habit(habits, request)
    minutes = clocks[0].minutes if clocks else request.minutes
    weekdays = {day for habit in habits for day in _weekdays_of(habit)}
    date = _day_of_habit(habits, first)
    if interval > 1 and period.unit != "hour":
        first = _start(first, weekdays, clocks, request)
    moment = datetime.combine(first, time(*divmod(minutes % (DAY_HOURS * HOUR), HOUR)))
    same = (c.minutes // HOUR % DAY_HOURS for c in clocks if c.minutes % HOUR == moment.minute)
    return Recurrence.of(
        period.unit, moment, interval=interval, hours=same, weekdays=weekdays, date=date,
    )  # fmt: skip


def _start(
    first: date, weekdays: Collection[int], clocks: Sequence[Clock], request: _Request
) -> date:
    """The first day that counts: the coming weekday, or tomorrow when the time has passed."""
    last = max(clock.minutes for clock in clocks)
    passed = first == request.now.date() and last <= request.minutes
    if not weekdays:
        return first + DAY * passed
    days = (first + DAY * number for number in range(passed, 9))
    return next(day for day in days if day.weekday() in weekdays)


def _clocks_of_habit(habits: Sequence[Span], request: _Request) -> list[Clock]:
    clocks = request.clocks
    count = max((_times(habit) for habit in habits), default=1)
    if count > 1 and len(clocks) != count:
        raise _ProblemError("no_time")  # "twice a day"
    return clocks or [request.clock or DEFAULT]


def _times(habit: Span) -> int:
    words = habit.words
    if "twice" in words:
        return 2
    said = words.get("times") or words.get("n_times")
    return int(_number(said)) if said else 1


def _weekdays_of(habit: Span) -> tuple[int, ...]:
    if habit.kind == "workdays":
        return WORKDAYS
    if habit.kind == "weekends":
        return WEEKEND
    said = habit.words.get("days", "")
    if not said:
        return ()
    named = map(times.weekday_number, MANY_DAYS.findall(said))
    days = [number for number in named if number is not None]
    if RANGE_OF_DAYS.search(said) and len(days) == 2 and days[0] < days[1]:
        return tuple(range(days[0], days[1] + 1))
    return tuple(days)


def _day_of_habit(habits: Sequence[Span], first: date) -> tuple[int, int]:
    """The day of the month, and the month, that habits name, or those of a day."""
    for habit in habits:
        if habit.kind == "last day":
            return 31, first.month
        if "day" in habit.words:
            month = month_number(habit.words["month"]) if "month" in habit.words else first.month
            return number_in(habit.words["day"]), month
    return first.day, first.month


def _length(words: Mapping[str, str]) -> _Length:
    """The length that the words of a piece say."""
    half = words.get("half", "")
    if half:
        amount, _, unit = (lexicon.key_of("reminder.half_means", half) or "").partition(" ")
        return _Length(int(amount), cast(Unit, unit))
    number = _number(words["n"]) if "n" in words else 1.0
    if "and_half" in words or "half_more" in words:
        number += 0.5
    length = _Length(number, times.unit_of(words["unit"]))
    if "n2" not in words:
        return length
    seconds = length.passing.total_seconds() + _number(words["n2"]) * SECONDS["minute"]
    return _Length(seconds / SECONDS["minute"], "minute")


def _number(words: str) -> float:
    """The number that digits or words say; of two the smaller.

    Raises:
        OverflowError: It counts too many of anything.
    """
    if "^" in words:
        raise OverflowError("too many")
    if words[0].isdigit():
        number = float(words.partition("-")[0].replace(",", "."))
    else:
        low, high, is_exact = times.amount_of(words)
        number = low if is_exact else 1.5 if (low, high) == (1, 2) else (low + high) // 2
    if number > TOO_MANY:
        raise OverflowError("too many")
    return number
