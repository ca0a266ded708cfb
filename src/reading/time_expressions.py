"""Time in questions: named periods ("what did I buy last week?") and calendar arithmetic."""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    reader = READERS.get(span.kind)
    try:
        return None if reader is None else reader(span, now, past)
    except (ValueError, OverflowError):
        return None


def _date(span: Span, now: datetime, past: bool) -> Days | None:
    words = span.words
    if "number" in words:
        return around(digit_date(words["number"]), "day")
    first, last = number_in(words["day"]), number_in(words.get("last_day", words["day"]))
    month = int(words.get("month_number", 0)) or times.month_number(words["month"])

    def in_year(year: int) -> Days | None:
        return Days(date(year, month, first), date(year, month, last) + DAY)

    return _in_some_year(in_year, span, now, past) if first <= last else None


def _month_day(span: Span, now: datetime, past: bool) -> Days | None:
    number, today = number_in(span.words["day"]), now.date()
    if span.within is not None:
        month = days_of(span.within, now, past=past)
        return around(month.first.replace(day=number), "day") if month is not None else None
    months = (months_later(today.replace(day=1), -n if past else n) for n in range(13))
    days = (
        first.replace(day=number)
        for first in months
        if number <= monthrange(first.year, first.month)[1]
    )
    found = (around(day, "day") for day in days if (day <= today if past else day >= today))
    return next(found, None)


def _counted(span: Span, now: datetime, _past: bool) -> Days:
    """Return the calendar unit that lies so many units away, or the day, if it is to be exact."""
    length = times.length_of(span.words)
    unit: Unit = "day" if "exact" in span.words else length.unit
    ends = (length.low, length.high)
    if span.kind == "ago":
        ends = (-length.high, -length.low)
    first, last = (around(shifted(now, length.unit, number), unit) for number in ends)
    return Days(first.first, last.after)


def _offset(span: Span, now: datetime, past: bool) -> Days | None:
    length = times.length_of(span.words)
    if span.within is None or not length.exact:
        return None
    outer = days_of(span.within, now, past=past)
    if outer is None:
        return None
    unit: Unit = "day" if "exact" in span.words else length.unit
    edge, number = outer.after - DAY, length.low
    if span.within.role == "until":
        edge, number = outer.first, -length.low
    return around(shifted(datetime.combine(edge, time.min), length.unit, number), unit)


def _lasting(span: Span, now: datetime, _past: bool) -> Days:
    length = times.length_of(span.words)
    today = now.date()
    if which_of(span.words["side"]) in ("coming", "next"):
        return Days(today, shifted(now, length.unit, length.high) + DAY)
    return Days(shifted(now, length.unit, -length.high), today + DAY)


def _vague(_span: Span, now: datetime, past: bool) -> Days:
    today = now.date()
    if past:
        return Days(today - RECENT, today + DAY)
    return Days(today, today + RECENT)


def _day(span: Span, now: datetime, _past: bool) -> Days:
    word = span.words["word"]
    offset = times.day_offset(word)
    if offset is None:
        offset = int(lexicon.key_of("time.day_adjective", word) or 0)
    return around(now.date() + DAY * offset, "day")


def _year(span: Span, now: datetime, _past: bool) -> Days:
    words = span.words
    if "year" in words:
        return around(date(int(words["year"]), 1, 1), "year")
    offset = int(lexicon.key_of("time.year_word", words["year_word"]) or 0)
    return around(date(now.year + offset, 1, 1), "year")


def _named(span: Span, now: datetime, past: bool) -> Days | None:
    words = span.words
    if "unit" in words:
        unit = times.unit_of(words["unit"])
        return around(shifted(now, unit, OFFSETS[span.which or "this"]), unit)
    if "weekday" in words:
        return _named_weekday(span, now, past)
    if "weekend" in words:
        return _named_weekend(span, now, past)
    if "season" in words:
        return _named_season(span, now, past)
    month = times.month_number(words["month"])
    return _in_some_year(lambda year: around(date(year, month, 1), "month"), span, now, past)


def _named_season(span: Span, now: datetime, past: bool) -> Days | None:
    month = int(lexicon.key_of("time.season", span.words["season"]) or 0)
    # "The winter of 2026" lies mostly in 2026; "зима 2025-2026" names the year it begins.
    of_one_year = ("year" in span.words or span.within is not None) and "year_to" not in span.words
    earlier = 1 if month == DECEMBER and of_one_year else 0

    def in_year(year: int) -> Days:
        first = date(year - earlier, month, 1)
        return Days(first, months_later(first, 3))

    return _in_some_year(in_year, span, now, past)


def _named_weekday(span: Span, now: datetime, past: bool) -> Days | None:
    today, number = now.date(), times.weekday_number(span.words["weekday"]) or 0
    days_back, days_ahead = (today.weekday() - number) % 7, (number - today.weekday()) % 7
    if span.within is not None:
        week = days_of(span.within, now, past=past)
        return around(week.first + DAY * number, "day") if week is not None else None
    match span.which:
        case "next":
            day = around(today + WEEK, "week").first + DAY * number
        case "this":
            day = today - DAY * days_back if past else today + DAY * days_ahead
        case None | "coming" if span.which or not past:
            to_come = DAY * days_ahead or WEEK
            day = today + to_come
        case _:
            passed = DAY * days_back or WEEK
            last = today - passed
            day = last - WEEK if span.which == "before last" else last
    return around(day, "day")


def _nth_weekday(span: Span, now: datetime, past: bool) -> Days | None:
    """Return "the first Monday of December"; None without a month or a year."""
    words, nth = span.words, times.ordinals_in(span.words["nth"])[0]
    weekday = times.weekday_number(words["weekday"]) or 0

    def inside(days: Days) -> Days | None:
        edge = days.first if nth > 0 else days.after - WEEK
        first = edge + DAY * ((weekday - edge.weekday()) % 7)
        return around(first + WEEK * (nth - 1 if nth > 0 else 0), "day")

    if "unit" in words:
        unit = times.unit_of(words["unit"])
        return inside(around(shifted(now, unit, OFFSETS[span.which or "this"]), unit))
    if "month" not in words:
        last = replace(span, words={**words, "which": "last"})
        return _named_weekday(last, now, past) if nth < 0 else None
    month = times.month_number(words["month"])
    return _in_some_year(lambda y: inside(around(date(y, month, 1), "month")), span, now, past)


def _weekdays(span: Span, now: datetime, past: bool) -> Days | None:
    """Return "from Monday to Friday"."""
    numbers = times.weekdays_in(span.words["days"])
    today, ahead = now.date(), (numbers[0] - now.weekday()) % 7
    first = today + DAY * (ahead - 7 if past else ahead or 7)
    return Days(first, first + DAY * ((numbers[-1] - numbers[0]) % 7 + 1))


def _named_weekend(span: Span, now: datetime, past: bool) -> Days:
    today = now.date()
    saturday = around(today, "week").first + DAY * 5
    has_begun = saturday <= today
    weeks = -1 if past and not has_begun else 0
    if span.which is not None:
        weeks = 0 if span.which == "coming" and not has_begun else OFFSETS[span.which]
    first = saturday + WEEK * weeks
    return Days(first, first + DAY * 2)


def _in_some_year(
    in_year: Callable[[int], Days | None], span: Span, now: datetime, past: bool
) -> Days | None:
    """Return a yearly period in the year that is named, or else the nearest that fits."""
    if "year" in span.words:
        return in_year(int(span.words["year"]))
    if span.within is not None:
        outer = days_of(span.within, now, past=past)
        return in_year(outer.first.year) if outer is not None else None
    today, which = now.date(), span.which or "this"
    backwards = which in ("before last", "last") or (which == "this" and past)
    # The current winter may have begun last year.
    years = range(today.year - 1, today.year + REACH + 1)
    if backwards:
        years = range(today.year, today.year - REACH - 2, -1)
    for found in _valid_years(in_year, years):
        if which == "this":
            fits = found.first <= today if past else found.after > today
        else:
            fits = found.after <= today if backwards else found.first > today
        if fits:
            return in_year(found.first.year - 1) if which == "before last" else found
    return None


def _valid_years(in_year: Callable[[int], Days | None], years: Iterable[int]) -> Iterator[Days]:
    for year in years:
        with suppress(ValueError):  # 29 February
            if (found := in_year(year)) is not None:
                yield found


READERS: dict[str, Callable[[Span, datetime, bool], Days | None]] = {
    "recent": _vague,
    "days": _date,
    "date": _date,
    "short date": _date,
    "short day": _month_day,
    "month day": _month_day,
    "ago": _counted,
    "ahead": _counted,
    "lasting": _lasting,
    "day": _day,
    "named": _named,
    "weekdays": _weekdays,
    "nth weekday": _nth_weekday,
    "year": _year,
    "offset": _offset,
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
        ahead: Whether "on Monday" is the coming one in any text.
    """
    text = mended(text[: times.MAX_TEXT])
    source = times.tidy(text)
    folded = times.fold(source)
    past = not ahead and FUTURE.search(folded) is None
    found = named_periods(times.find_spans(folded), now, past=past)
    content = _remove_spans([span for span, _ in found], source) if found else text
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
    days = days_of(span, now.replace(tzinfo=None), past=past and not _looks_ahead(span))
    if days is None:
        return None
    period = _as_period(days, now)
    has_begun = period.start <= now
    if span.role == "until" and period.end <= now:
        return Period(_midnight(EARLIEST, now), period.start)
    if span.role == "until":
        return Period(_midnight(now.date(), now), period.end)
    if span.role == "after" and period.end <= now:
        return Period(period.end, now)
    return Period(period.start, now) if span.role == "since" and has_begun else period


def _looks_ahead(span: Span) -> bool:
    """Return True if the preposition points to the coming day: "что у меня на пятницу"."""
    words = span.words
    weekend = words.get("weekend")
    day = "weekday" in words or (weekend and weekend not in lexicon.words("time.at_weekends"))
    return bool(day) and span.preposition in lexicon.words("time.forward")


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
    return _as_period(Days(begin.first, end.after), now)


def _as_period(days: Days, now: datetime) -> Period:
    return Period(_midnight(days.first, now), _midnight(days.after, now))


def _midnight(day: date, now: datetime) -> datetime:
    """Return the first moment of a day in the zone of ``now``, even in a gap at midnight."""
    zone = now.tzinfo or UTC
    return first_moment(datetime.combine(day, time.min), zone).astimezone(zone)


def _remove_spans(spans: Sequence[Span], source: str) -> str:
    """Remove the spans and repair spaces and commas; return "" if no words are left."""
    ends = [(span.to or span).end for span in spans]
    cut_ends = [end + 2 if source[end : end + 2] in ("'s", "’s") else end for end in ends]
    cuts = [(span.start, end) for span, end in zip(spans, cut_ends, strict=True)]
    rest = " ".join(" ".join(between(source, cuts)).split())
    rest = re.sub(r" +([?!.,;:])", r"\1", rest).strip(" ,;:-–—")
    return rest if re.search(r"\w", rest) else ""
