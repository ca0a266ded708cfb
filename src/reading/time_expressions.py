"""Time in questions: named periods ("what did I buy last week?") and calendar arithmetic."""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import NamedTuple

from dateutil.relativedelta import relativedelta

from src.base.zones import DAY, first_moment
from src.reading import lexicon, times
from src.reading.times import Span, Unit, Which, number_in, which_of
from src.reading.words import mended
from src.texts.plain_text import between

WEEK = timedelta(days=7)
DECEMBER = 12
YEAR_DIGITS = 4
LAST_CENTURY = 69  # two-digit years from here on are 19xx, as in POSIX
RECENT = timedelta(days=14)  # range of "recently" and "the other day"
REACH = 8  # years; the longest time to the next 29 February
OFFSETS: dict[Which, int] = {"before last": -2, "last": -1, "this": 0, "coming": 1, "next": 1}


class Days(NamedTuple):
    """Whole days from ``first`` until just before ``after``."""

    first: date
    after: date


def around(moment: date, unit: Unit) -> Days:
    """Return the calendar unit around a day; the day itself for hours and minutes."""
    match unit:
        case "week":
            first = moment - DAY * moment.weekday()
            return Days(first, first + WEEK)
        case "month":
            first = moment.replace(day=1)
            return Days(first, months_later(first, 1))
        case "year":
            return Days(date(moment.year, 1, 1), date(moment.year + 1, 1, 1))
    return Days(moment, moment + DAY)


def shifted(now: datetime, unit: Unit, number: float) -> date:
    """Return the day that lies a number of units after (negative: before) a moment.

    Raises:
        ValueError, OverflowError: The day is outside the calendar.
    """
    if unit in ("month", "year"):
        return months_later(now.date(), round(number * (12 if unit == "year" else 1)))
    return (now + timedelta(**{f"{unit}s": number})).date()


def months_later(moment: date, number: int) -> date:
    """Return the same day in another month, or that month's last day."""
    later: date = moment + relativedelta(months=number)
    return later


def digit_date(text: str) -> date:
    """Return the date of ``05.03.2026``, ``5/3/2026``, ``05.03.26`` or ``2026-03-05``.

    The day precedes the month unless only the other order is valid: ``03/15/2026``.

    Raises:
        ValueError: There is no such day in the calendar.
    """
    numbers = re.split("[-./]", text)
    if len(numbers[0]) != YEAR_DIGITS:
        numbers.reverse()
    year, month, number = map(int, numbers)
    if len(numbers[0]) != YEAR_DIGITS:
        year += 1900 if year >= LAST_CENTURY else 2000
    if month > DECEMBER:
        month, number = number, month
    return date(year, month, number)


def days_of(span: Span, now: datetime, *, past: bool) -> Days | None:
    """Return the days that a span means.

    Args:
        span: The expression; its preposition and the other end of a range are ignored.
        now: The local time, naive.
        past: Whether "on Monday" and "in March" mean the last one or the coming one.

    Returns:
        None if there are no such days ("31 июня", "9999 лет назад") or the span names none.
    """
    return _Calendar(now, past).days_of(span)


@dataclass(frozen=True)
class _Calendar:
    """Days that expressions mean at a time; the arguments are those of ``days_of``."""

    now: datetime
    past: bool

    def days_of(self, span: Span) -> Days | None:
        reader = READERS.get(span.kind)
        try:
            return None if reader is None else reader(self, span)
        except (ValueError, OverflowError):
            return None

    def of_date(self, span: Span) -> Days | None:
        words = span.words
        if "number" in words:
            return around(digit_date(words["number"]), "day")
        first, last = number_in(words["day"]), number_in(words.get("last_day", words["day"]))
        month = int(words.get("month_number", 0)) or times.month_number(words["month"])
        if first > last:
            return None
        return self.in_some_year(
            lambda year: Days(date(year, month, first), date(year, month, last) + DAY), span
        )

    def month_day(self, span: Span) -> Days | None:
        number, today = number_in(span.words["day"]), self.now.date()
        if span.within is not None:
            month = self.days_of(span.within)
            return around(month.first.replace(day=number), "day") if month is not None else None
        for n in range(13):
            first = months_later(today.replace(day=1), -n if self.past else n)
            if number > monthrange(first.year, first.month)[1]:
                continue
            day = first.replace(day=number)
            if day <= today if self.past else day >= today:
                return around(day, "day")
        return None

    def counted(self, span: Span) -> Days:
        """Return the calendar unit that lies so many units away, or an exact day."""
        length = times.length_of(span.words)
        unit: Unit = "day" if "exact" in span.words else length.unit
        ends = (length.low, length.high)
        if span.kind == "ago":
            ends = (-length.high, -length.low)
        first, last = (around(shifted(self.now, length.unit, number), unit) for number in ends)
        return Days(first.first, last.after)

    def offset(self, span: Span) -> Days | None:
        length = times.length_of(span.words)
        if span.within is None or not length.exact:
            return None
        outer = self.days_of(span.within)
        if outer is None:
            return None
        unit: Unit = "day" if "exact" in span.words else length.unit
        edge, number = outer.after - DAY, length.low
        if span.within.role == "until":
            edge, number = outer.first, -length.low
        return around(shifted(datetime.combine(edge, time.min), length.unit, number), unit)

    def lasting(self, span: Span) -> Days:
        length = times.length_of(span.words)
        today = self.now.date()
        if which_of(span.words["side"]) in ("coming", "next"):
            return Days(today, shifted(self.now, length.unit, length.high) + DAY)
        return Days(shifted(self.now, length.unit, -length.high), today + DAY)

    def vague(self, _span: Span) -> Days:
        today = self.now.date()
        if self.past:
            return Days(today - RECENT, today + DAY)
        return Days(today, today + RECENT)

    def day(self, span: Span) -> Days:
        word = span.words["word"]
        offset = times.day_offset(word)
        if offset is None:
            offset = int(lexicon.key_of("time.day_adjective", word) or 0)
        return around(self.now.date() + DAY * offset, "day")

    def year(self, span: Span) -> Days:
        words = span.words
        if "year" in words:
            return around(date(int(words["year"]), 1, 1), "year")
        offset = int(lexicon.key_of("time.year_word", words["year_word"]) or 0)
        return around(date(self.now.year + offset, 1, 1), "year")

    def named(self, span: Span) -> Days | None:
        words = span.words
        if "unit" in words:
            return self.unit(span)
        if "weekday" in words:
            return self.weekday(span)
        if "weekend" in words:
            return self.weekend(span)
        if "season" in words:
            return self.season(span)
        month = times.month_number(words["month"])
        return self.in_some_year(lambda year: around(date(year, month, 1), "month"), span)

    def unit(self, span: Span) -> Days:
        """Return "last week", "next month" and the like."""
        unit = times.unit_of(span.words["unit"])
        return around(shifted(self.now, unit, OFFSETS[span.which or "this"]), unit)

    def season(self, span: Span) -> Days | None:
        words, month = span.words, int(lexicon.key_of("time.season", span.words["season"]) or 0)
        # "The winter of 2026" lies mostly in 2026; "зима 2025-2026" names the year it begins.
        of_one_year = ("year" in words or span.within is not None) and "year_to" not in words
        earlier = 1 if month == DECEMBER and of_one_year else 0

        def in_year(year: int) -> Days:
            first = date(year - earlier, month, 1)
            return Days(first, months_later(first, 3))

        return self.in_some_year(in_year, span)

    def weekday(self, span: Span) -> Days | None:
        today, number = self.now.date(), times.weekday_number(span.words["weekday"]) or 0
        days_back, days_ahead = (today.weekday() - number) % 7, (number - today.weekday()) % 7
        if span.within is not None:
            week = self.days_of(span.within)
            return around(week.first + DAY * number, "day") if week is not None else None
        match span.which:
            case "next":
                day = around(today + WEEK, "week").first + DAY * number
            case "this":
                day = today - DAY * days_back if self.past else today + DAY * days_ahead
            case None | "coming" if span.which or not self.past:
                to_come = DAY * days_ahead or WEEK
                day = today + to_come
            case _:
                passed = DAY * days_back or WEEK
                last = today - passed
                day = last - WEEK if span.which == "before last" else last
        return around(day, "day")

    def nth_weekday(self, span: Span) -> Days | None:
        """Return "the first Monday of December"; None without a month or a year."""
        words, nth = span.words, times.ordinals_in(span.words["nth"])[0]
        weekday = times.weekday_number(words["weekday"]) or 0

        def inside(days: Days) -> Days | None:
            edge = days.first if nth > 0 else days.after - WEEK
            first = edge + DAY * ((weekday - edge.weekday()) % 7)
            return around(first + WEEK * (nth - 1 if nth > 0 else 0), "day")

        if "unit" in words:
            return inside(self.unit(span))
        if "month" not in words:
            last = replace(span, words={**words, "which": "last"})
            return self.weekday(last) if nth < 0 else None
        month = times.month_number(words["month"])
        return self.in_some_year(lambda y: inside(around(date(y, month, 1), "month")), span)

    def weekdays(self, span: Span) -> Days | None:
        """Return "from Monday to Friday"."""
        numbers = times.weekdays_in(span.words["days"])
        today, ahead = self.now.date(), (numbers[0] - self.now.weekday()) % 7
        first = today + DAY * (ahead - 7 if self.past else ahead or 7)
        return Days(first, first + DAY * ((numbers[-1] - numbers[0]) % 7 + 1))

    def weekend(self, span: Span) -> Days:
        today = self.now.date()
        saturday = around(today, "week").first + DAY * 5
        has_begun = saturday <= today
        weeks = -1 if self.past and not has_begun else 0
        if span.which is not None:
            weeks = 0 if span.which == "coming" and not has_begun else OFFSETS[span.which]
        first = saturday + WEEK * weeks
        return Days(first, first + DAY * 2)

    def in_some_year(self, in_year: Callable[[int], Days | None], span: Span) -> Days | None:
        """Return a yearly period in the year that is named, or else the nearest that fits."""
        if "year" in span.words:
            return in_year(int(span.words["year"]))
        if span.within is not None:
            outer = self.days_of(span.within)
            return in_year(outer.first.year) if outer is not None else None
        today, which = self.now.date(), span.which or "this"
        backwards = which in ("before last", "last") or (which == "this" and self.past)
        # The current winter may have begun last year.
        years = range(today.year - 1, today.year + REACH + 1)
        if backwards:
            years = range(today.year, today.year - REACH - 2, -1)
        for year in years:
            found = None
            with suppress(ValueError):  # 29 February
                found = in_year(year)
            if found is None:
                continue
            if which == "this":
                fits = found.first <= today if self.past else found.after > today
            else:
                fits = found.after <= today if backwards else found.first > today
            if fits:
                return in_year(found.first.year - 1) if which == "before last" else found
        return None


READERS: dict[str, Callable[[_Calendar, Span], Days | None]] = {
    "recent": _Calendar.vague,
    "days": _Calendar.of_date,
    "date": _Calendar.of_date,
    "short date": _Calendar.of_date,
    "short day": _Calendar.month_day,
    "month day": _Calendar.month_day,
    "ago": _Calendar.counted,
    "ahead": _Calendar.counted,
    "lasting": _Calendar.lasting,
    "day": _Calendar.day,
    "named": _Calendar.named,
    "weekdays": _Calendar.weekdays,
    "nth weekday": _Calendar.nth_weekday,
    "year": _Calendar.year,
    "offset": _Calendar.offset,
}


# This runs in every turn and needs no model, so that the result is deterministic. Conventions:
# weeks begin on Monday; "N weeks (months, years) ago" is the calendar week (month, year) of that
# day; "on Monday" and "in March" are the last ones, unless the question is in the future tense;
# an open range that has begun ends now.

MAX_PERIODS = 8  # per text
EARLIEST = date(1900, 1, 1)  # start of "before March"

HISTORY, WHEN, FUTURE = (
    lexicon.Expression(rf"\b<time.{group}>\b") for group in ("history", "when", "future")
)


@dataclass(frozen=True)
class Period:
    """Time from ``start`` (aware) until just before ``end`` (aware)."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class TimeQuery:
    """Result of reading the times in a text.

    Attributes:
        periods: The named periods, in text order.
        content: The text without the words of the periods (its first 2,000 characters).
        wants_history: True if retired facts are relevant ("used to").
        asks_when: True if the text asks for a time.
        now: The local time at which it was read.
    """

    periods: tuple[Period, ...]
    content: str
    wants_history: bool
    asks_when: bool
    now: datetime


def read_time(text: str, now: datetime, *, ahead: bool = False) -> TimeQuery:
    """Return the time that a text names or asks for.

    Args:
        text: A question or any other text; only its first 2,000 characters are read.
        now: The local time of the user (aware); periods are in its zone.
        ahead: Whether "on Monday" is the coming one in any text, and "30.11" a date.
    """
    text = mended(text[: times.MAX_TEXT])
    source = times.tidy(text)
    folded = times.fold(source)
    past = not ahead and FUTURE.search(folded) is None
    found = named_periods(times.find_spans(folded, with_short=ahead), now, past=past)
    content = text
    if found:
        cuts = []
        for span, _ in found:
            end = (span.to or span).end
            if source.startswith(("'s", "’s"), end):
                end += 2
            cuts.append((span.start, end))
        content = " ".join(" ".join(between(source, cuts)).split())
        content = re.sub(r" +([?!.,;:])", r"\1", content).strip(" ,;:-–—")
        if re.search(r"\w", content) is None:
            content = ""
    rest = times.fold(content)
    until_past = any(span.role == "until" and period.end <= now for span, period in found)
    return TimeQuery(
        periods=tuple(dict.fromkeys(period for _, period in found)),
        content=content,
        wants_history=until_past or HISTORY.search(rest) is not None,
        asks_when=WHEN.search(folded) is not None,
        now=now,
    )


def named_periods(
    spans: Iterable[Span], now: datetime, *, past: bool
) -> list[tuple[Span, Period]]:
    """Return the spans that name a period, each with its period; at most ``MAX_PERIODS``.

    Args:
        spans: Time expressions.
        now: The local time (aware).
        past: Whether a recurring time ("on Monday") is the last or the coming one.
    """
    found = []
    for span in islice(spans, MAX_PERIODS):
        with suppress(OverflowError):  # at an end of the calendar
            if (period := _period(span, now, past)) is not None:
                found.append((span, period))
    return found


def _period(span: Span, now: datetime, past: bool) -> Period | None:
    if span.to is not None:
        return _range(span, span.to, now, past)
    weekend = span.words.get("weekend", "")
    is_weekend = weekend and weekend not in lexicon.words("time.at_weekends")
    is_forward = span.preposition in lexicon.words("time.forward")
    if is_forward and ("weekday" in span.words or is_weekend):
        past = False  # "что у меня на пятницу"
    days = days_of(span, now.replace(tzinfo=None), past=past)
    if days is None:
        return None
    period = Period(_midnight(days.first, now), _midnight(days.after, now))
    has_begun = period.start <= now
    if span.role == "until" and period.end <= now:
        return Period(_midnight(EARLIEST, now), period.start)
    if span.role == "until":
        return Period(_midnight(now.date(), now), period.end)
    if span.role == "after" and period.end <= now:
        return Period(period.end, now)
    return Period(period.start, now) if span.role == "since" and has_begun else period


def _range(first: Span, last: Span, now: datetime, past: bool) -> Period | None:
    """Return the period of a range; its end follows its beginning ("с ноября по март")."""
    local = now.replace(tzinfo=None)
    begin = days_of(first, local, past=past)
    if begin is None:
        return None
    counted_from_now = last.kind == "day" or "which" in last.words
    base = local if counted_from_now else datetime.combine(begin.first, time.min)
    end = days_of(last, base, past=False)
    if end is None or end.after <= begin.first:
        return None
    return Period(_midnight(begin.first, now), _midnight(end.after, now))


def _midnight(day: date, now: datetime) -> datetime:
    """Return the first moment of a day in the zone of ``now``, even in a gap at midnight."""
    zone = now.tzinfo or UTC
    return first_moment(datetime.combine(day, time.min), zone).astimezone(zone)
