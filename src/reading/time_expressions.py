"""Times in questions: "what did I buy last week?" names a period and is about the purchase."""

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
from src.texts.plain_text import between

WEEK = timedelta(days=7)
DECEMBER = 12
YEAR_DIGITS = 4
LAST_CENTURY = 69  # years of two digits from here on belong to it, as POSIX has it
RECENT = timedelta(days=14)  # what "recently" and "the other day" reach to
REACH = 8  # years to the next 29 February, at most
OFFSETS: dict[Which, int] = {"before last": -2, "last": -1, "this": 0, "coming": 1, "next": 1}


class Days(NamedTuple):
    """Whole days: from the first to the one before ``after``."""

    first: date
    after: date


def around(moment: date, unit: Unit) -> Days:
    """The calendar unit that a day lies in; the day itself for hours and minutes."""
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
    """The day that lies a number of units after (or, if negative, before) a moment.

    Raises:
        ValueError, OverflowError: There is no such day in the calendar.
    """
    if unit in ("month", "year"):
        return months_later(now.date(), round(number * (12 if unit == "year" else 1)))
    return (now + timedelta(**{f"{unit}s": number})).date()


def months_later(moment: date, number: int) -> date:
    """The same day of another month, or the last one that this month has."""
    later: date = moment + relativedelta(months=number)
    return later


def digit_date(text: str) -> date:
    """The date of ``05.03.2026``, ``5/3/2026``, ``05.03.26`` or ``2026-03-05``.

    The day stands before the month, unless only the other way round makes sense: ``03/15/2026``.

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
    """The days that a span means.

    Args:
        span: The expression; its preposition and its other end are not looked at.
        now: The local time, naive.
        past: Whether "on Monday" and "in March" mean the last one or the coming one.

    Returns:
        None when there are no such days ("31 июня", "9999 лет назад") or the span names none.
    """
    reader = READERS.get(span.kind)
    try:
        return None if reader is None else reader(span, now, past)
    except (ValueError, OverflowError):
        return None


def counted_day(span: Span, now: datetime) -> date:
    """The very day that "N units ago" or "in N units" counts to.

    Raises:
        ValueError, OverflowError: It is out of the calendar.
    """
    amount, unit = amount_in(span)
    return shifted(now, unit, -amount.low if span.kind == "ago" else amount.low)


def amount_in(span: Span) -> tuple[times.Amount, Unit]:
    """How many of which unit a span counts ("три недели", "a couple of days", "полгода")."""
    if "half" in span.words:
        return times.Amount(6, 6, True), "month"
    return times.amount_of(span.words.get("n")), times.unit_of(span.words["unit"])


def _date(span: Span, now: datetime, past: bool) -> Days | None:
    words = span.words
    if "number" in words:
        return around(digit_date(words["number"]), "day")
    first, last = number_in(words["day"]), number_in(words.get("last_day", words["day"]))
    month = int(words.get("month_number", 0)) or times.month_number(words["month"])

    def in_year(year: int) -> Days | None:
        return Days(date(year, month, first), date(year, month, last) + DAY)

    return _of_some_year(in_year, span, now, past) if first <= last else None


def _week_from(span: Span, now: datetime, past: bool) -> Days | None:
    found = _date(span, now, past)
    return around(found.first, "week") if found is not None else None


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
    found = (around(d, "day") for d in days if (d <= today if past else d >= today))
    return next(found, None)


def _counted(span: Span, now: datetime, _past: bool) -> Days:
    """The calendar units of "N units ago" or "in N units"."""
    amount, unit = amount_in(span)
    ends = (-amount.high, -amount.low) if span.kind == "ago" else (amount.low, amount.high)
    first, last = (around(shifted(now, unit, number), unit) for number in ends)
    return Days(first.first, last.after)


def _offset(span: Span, now: datetime, past: bool) -> Days | None:
    amount, unit = amount_in(span)
    outer = days_of(span.within, now, past=past) if span.within is not None else None
    if outer is None or span.within is None or not amount.exact:
        return None
    before = span.within.role == "until"
    edge = outer.first if before else outer.after - DAY
    moment = datetime.combine(edge, time.min)
    return around(shifted(moment, unit, -amount.low if before else amount.low), unit)


def _lasting(span: Span, now: datetime, _past: bool) -> Days:
    amount, unit = amount_in(span)
    today = now.date()
    if which_of(span.words["side"]) in ("coming", "next"):
        return Days(today, shifted(now, unit, amount.high) + DAY)
    return Days(shifted(now, unit, -amount.high), today + DAY)


def _roughly(span: Span, now: datetime, past: bool) -> Days:
    """What "recently" and "the other day" reach to."""
    today = now.date()
    if span.kind == "recent" or past:
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
    return _of_some_year(lambda year: around(date(year, month, 1), "month"), span, now, past)


def _named_season(span: Span, now: datetime, past: bool) -> Days | None:
    month = int(lexicon.key_of("time.season", span.words["season"]) or 0)
    # "The winter of 2026" lies mostly in 2026; "зима 2025-2026" says in which year it begins.
    of_one_year = ("year" in span.words or span.within is not None) and "year_to" not in span.words
    earlier = 1 if month == DECEMBER and of_one_year else 0

    def in_year(year: int) -> Days:
        first = date(year - earlier, month, 1)
        return Days(first, months_later(first, 3))

    return _of_some_year(in_year, span, now, past)


def _named_weekday(span: Span, now: datetime, past: bool) -> Days | None:
    today, number = now.date(), times.weekday_number(span.words["weekday"]) or 0
    back, ahead = (today.weekday() - number) % 7, (number - today.weekday()) % 7
    if span.within is not None:
        week = days_of(span.within, now, past=past)
        return around(week.first + DAY * number, "day") if week is not None else None
    match span.which:
        case "next":
            found = around(today + WEEK, "week").first + DAY * number
        case "this":
            found = today - DAY * back if past else today + DAY * ahead
        case None | "coming" if span.which or not past:
            found = today + DAY * (ahead or 7)
        case _:
            found = today - DAY * (back or 7) - WEEK * (span.which == "before last")
    return around(found, "day")


def _named_weekend(span: Span, now: datetime, past: bool) -> Days:
    today = now.date()
    saturday = around(today, "week").first + DAY * 5
    begun = saturday <= today
    weeks = -1 if past and not begun else 0
    if span.which is not None:
        weeks = 0 if span.which == "coming" and not begun else OFFSETS[span.which]
    first = saturday + WEEK * weeks
    return Days(first, first + DAY * 2)


def _of_some_year(
    in_year: Callable[[int], Days | None], span: Span, now: datetime, past: bool
) -> Days | None:
    """What recurs each year, in the year that is named, or the nearest that fits."""
    if "year" in span.words:
        return in_year(int(span.words["year"]))
    if span.within is not None:
        outer = days_of(span.within, now, past=past)
        return in_year(outer.first.year) if outer is not None else None
    today, which = now.date(), span.which or "this"
    backwards = which in ("before last", "last") or (which == "this" and past)
    # A coming winter may have begun last year.
    years = range(today.year - 1, today.year + REACH + 1)
    if backwards:
        years = range(today.year, today.year - REACH - 2, -1)
    for found in _valid(in_year, years):
        if which == "this":
            fits = found.first <= today if past else found.after > today
        else:
            fits = found.after <= today if backwards else found.first > today
        if fits:
            return in_year(found.first.year - 1) if which == "before last" else found
    return None


def _valid(in_year: Callable[[int], Days | None], years: Iterable[int]) -> Iterator[Days]:
    for year in years:
        with suppress(ValueError):  # 29 February
            if (found := in_year(year)) is not None:
                yield found


READERS: dict[str, Callable[[Span, datetime, bool], Days | None]] = {
    "someday": _roughly,
    "recent": _roughly,
    "week of": _week_from,
    "days": _date,
    "date": _date,
    "month day": _month_day,
    "ago": _counted,
    "ahead": _counted,
    "lasting": _lasting,
    "day": _day,
    "named": _named,
    "year": _year,
    "offset": _offset,
}


# No model is asked: this runs in every turn, and gives the same answer each time. The rules, where
# people differ: weeks begin on Monday; "N weeks (months, years) ago" is the calendar week (month,
# year) of that day; "on Monday" and "in March" are the last ones, unless the question is put in
# the future tense; a range that has begun and does not end, ends now.

MAX_PERIODS = 8  # that one text names
EARLIEST = date(1900, 1, 1)  # where "before March" begins

HISTORY, WHEN, FUTURE = (
    lexicon.Expression(rf"\b<time.{group}>\b") for group in ("history", "when", "future")
)


@dataclass(frozen=True)
class Period:
    """From ``start`` (aware) until just before ``end`` (aware)."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class TimeQuery:
    """What a text says of time.

    Attributes:
        periods: Those that it names, in its order.
        content: The text without the words that name them (its first 2,000 characters).
        wants_history: It asks for what used to hold, so retired facts are of interest.
        asks_when: It asks for a time.
    """

    periods: tuple[Period, ...]
    content: str
    wants_history: bool
    asks_when: bool


def read_time(text: str, now: datetime) -> TimeQuery:
    """The time that a text names or asks for.

    Args:
        text: A question, or any text; only its first 2,000 characters are read.
        now: The local time of the user (aware, in the user's zone); periods are in this zone.
    """
    text = text[: times.MAX_TEXT]
    # Quick, for every turn: without one of these nothing names or asks for a time.
    if times.QUESTION_HINT.search(text.lower()) is None:
        return TimeQuery((), text, wants_history=False, asks_when=False)
    source = times.tidy(text)
    folded = times.fold(source)
    past = FUTURE.search(folded) is None
    found = named_periods(times.find_spans(folded), now, past=past)
    content = _without([span for span, _ in found], source)
    rest = times.fold(content)
    until_past = any(span.role == "until" and period.end <= now for span, period in found)
    return TimeQuery(
        periods=tuple(dict.fromkeys(period for _, period in found)),
        content=content,
        wants_history=until_past or HISTORY.search(rest) is not None,
        asks_when=WHEN.search(folded) is not None,
    )


def named_periods(
    spans: Iterable[Span], now: datetime, *, past: bool
) -> list[tuple[Span, Period]]:
    """The spans that name a period, with it; at most ``MAX_PERIODS``.

    Args:
        spans: Time expressions.
        now: The local time (aware).
        past: Whether what recurs ("on Monday") is the last or the coming one.
    """
    found = []
    for span in islice(spans, MAX_PERIODS):
        with suppress(OverflowError):  # at an end of the calendar
            if (period := _period(span, now, past)) is not None:
                found.append((span, period))
    return found


def _period(span: Span, now: datetime, past: bool) -> Period | None:
    """The period of a span with its preposition: "since March", "before 2024", "from … to …"."""
    if span.to is not None:
        return _range(span, span.to, now, past)
    days = days_of(span, now.replace(tzinfo=None), past=past and not _looks_ahead(span))
    if days is None:
        return None
    period = _of_days(days, now)
    began = period.start <= now
    if span.role == "until" and period.end <= now:
        return Period(_midnight(EARLIEST, now), period.start)
    if span.role == "until":
        return Period(_midnight(now.date(), now), period.end)
    if span.role == "after" and period.end <= now:
        return Period(period.end, now)
    return Period(period.start, now) if span.role == "since" and began else period


def _looks_ahead(span: Span) -> bool:
    """Whether the preposition speaks of the coming one: "что у меня на пятницу"."""
    words = span.words
    weekend = words.get("weekend")
    day = "weekday" in words or (weekend and weekend not in lexicon.words("time.at_weekends"))
    return bool(day) and span.preposition in lexicon.words("time.forward")


def _range(first: Span, last: Span, now: datetime, past: bool) -> Period | None:
    """From the first through the last; the last follows the first ("с ноября по март")."""
    local = now.replace(tzinfo=None)
    begin = days_of(first, local, past=past)
    if begin is None:
        return None
    counted_from_now = last.kind == "day" or "which" in last.words
    base = local if counted_from_now else datetime.combine(begin.first, time.min)
    end = days_of(last, base, past=False)
    if end is not None and "year" in last.words and "year" not in first.words:
        begin = _just_before(first, end, local)
    if begin is None or end is None or end.after <= begin.first:
        return None
    return _of_days(Days(begin.first, end.after), now)


def _just_before(first: Span, end: Days, local: datetime) -> Days | None:
    """The beginning of a range of which only the end has a year: "с ноября по март 2025"."""
    for year in (end.first.year, end.first.year - 1):
        begin = days_of(replace(first, words={**first.words, "year": str(year)}), local, past=True)
        if begin is not None and begin.first <= end.first:
            return begin
    return None


def _of_days(days: Days, now: datetime) -> Period:
    return Period(_midnight(days.first, now), _midnight(days.after, now))


def _midnight(day: date, now: datetime) -> datetime:
    """The first moment of a day in the zone of ``now``, also when clocks change at midnight."""
    zone = now.tzinfo or UTC
    return first_moment(datetime.combine(day, time.min), zone).astimezone(zone)


def _without(spans: Sequence[Span], source: str) -> str:
    """The text without these spans, with the spaces and commas put right; empty without words."""
    ends = [(span.to or span).end for span in spans]
    behind = [end + 2 * (source[end : end + 2] in ("'s", "’s")) for end in ends]
    cuts = [(span.start, end) for span, end in zip(spans, behind, strict=True)]
    rest = " ".join(" ".join(between(source, cuts)).split())
    rest = re.sub(r" +([?!.,;:])", r"\1", rest).strip(" ,;:-–—")
    return rest if re.search(r"\w", rest) else ""
