"""What a time expression means on a given day."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta

from src.dates.calendar_days import (
    DAY,
    WEEK,
    WINTER,
    Days,
    around,
    day,
    digit_date,
    month_of,
    months_later,
    season_of,
    shifted,
    week_of,
    year_of,
)
from src.dates.time_spans import Span
from src.dates.time_words import (
    Amount,
    Unit,
    Which,
    amount_of,
    day_number,
    day_offset,
    month_number,
    unit_of,
    weekday_number,
    which_of,
)
from src.language import lexicon

RECENT = timedelta(days=14)  # what "recently" and "the other day" reach to
REACH = 8  # years to the next 29 February, at most
OFFSETS: dict[Which, int] = {"before last": -2, "last": -1, "this": 0, "coming": 1, "next": 1}


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


def amount_in(span: Span) -> tuple[Amount, Unit]:
    """How many of which unit a span counts ("три недели", "a couple of days", "полгода")."""
    if "half" in span.words:
        return Amount(6, 6, True), "month"
    return amount_of(span.words.get("n")), unit_of(span.words["unit"])


def _date(span: Span, now: datetime, past: bool) -> Days | None:
    words = span.words
    if "number" in words:
        return day(digit_date(words["number"]))
    number = day_number(words["day"])
    month = int(words.get("month_number", 0)) or month_number(words["month"])
    return _of_some_year(lambda year: day(date(year, month, number)), span, now, past)


def _days(span: Span, now: datetime, past: bool) -> Days | None:
    first, last = day_number(span.words["day"]), day_number(span.words["last_day"])
    month = month_number(span.words["month"])

    def in_year(year: int) -> Days | None:
        return Days(date(year, month, first), date(year, month, last) + DAY)

    return _of_some_year(in_year, span, now, past) if first <= last else None


def _week_from(span: Span, now: datetime, past: bool) -> Days | None:
    found = _date(span, now, past)
    return week_of(found.first) if found is not None else None


def _month_day(span: Span, now: datetime, past: bool) -> Days | None:
    number, today = day_number(span.words["day"]), now.date()
    if span.within is not None:
        month = days_of(span.within, now, past=past)
        return day(month.first.replace(day=number)) if month is not None else None
    months = (months_later(today.replace(day=1), -n if past else n) for n in range(13))
    days = (
        first.replace(day=number)
        for first in months
        if number <= monthrange(first.year, first.month)[1]
    )
    return next((day(d) for d in days if (d <= today if past else d >= today)), None)


def _ago(span: Span, now: datetime, _past: bool) -> Days:
    amount, unit = amount_in(span)
    first = around(shifted(now, unit, -amount.high), unit)
    return Days(first.first, around(shifted(now, unit, -amount.low), unit).after)


def _ahead(span: Span, now: datetime, _past: bool) -> Days:
    amount, unit = amount_in(span)
    first = around(shifted(now, unit, amount.low), unit)
    return Days(first.first, around(shifted(now, unit, amount.high), unit).after)


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


def _recent(_span: Span, now: datetime, _past: bool) -> Days:
    return Days((now - RECENT).date(), now.date() + DAY)


def _someday(_span: Span, now: datetime, past: bool) -> Days:
    today = now.date()
    return Days(today - RECENT, today + DAY) if past else Days(today, today + RECENT)


def _day(span: Span, now: datetime, _past: bool) -> Days:
    word = span.words["word"]
    offset = day_offset(word)
    if offset is None:
        offset = int(lexicon.key_of("time.day_adjective", word) or 0)
    return day(now.date() + DAY * offset)


def _year(span: Span, now: datetime, _past: bool) -> Days:
    if "year" in span.words:
        return year_of(int(span.words["year"]))
    return year_of(now.year + int(lexicon.key_of("time.year_word", span.words["year_word"]) or 0))


def _named(span: Span, now: datetime, past: bool) -> Days | None:
    words = span.words
    if "unit" in words:
        return _named_unit(span, now)
    if "weekday" in words:
        return _named_weekday(span, now, past)
    if "weekend" in words:
        return _named_weekend(span, now, past)
    if "season" in words:
        return _named_season(span, now, past)
    month = month_number(words["month"])
    return _of_some_year(lambda year: month_of(date(year, month, 1)), span, now, past)


def _named_unit(span: Span, now: datetime) -> Days:
    which = which_of(span.words.get("which", "this"))
    unit = unit_of(span.words["unit"])
    return around(shifted(now, unit, OFFSETS[which]), unit)


def _named_season(span: Span, now: datetime, past: bool) -> Days | None:
    month = int(lexicon.key_of("time.season", span.words["season"]) or 0)
    # "The winter of 2026" lies mostly in 2026; "зима 2025-2026" says in which year it begins.
    of_one_year = ("year" in span.words or span.within is not None) and "year_to" not in span.words
    earlier = 1 if month == WINTER and of_one_year else 0
    return _of_some_year(lambda year: season_of(year - earlier, month), span, now, past)


def _named_weekday(span: Span, now: datetime, past: bool) -> Days | None:
    today, number = now.date(), weekday_number(span.words["weekday"]) or 0
    if span.within is not None:
        week = days_of(span.within, now, past=past)
        return day(week.first + DAY * number) if week is not None else None
    which = which_of(span.words["which"]) if "which" in span.words else None
    if which == "next":
        return day(week_of(today + WEEK).first + DAY * number)
    back, ahead = (today.weekday() - number) % 7, (number - today.weekday()) % 7
    if which == "this":
        return day(today - DAY * back if past else today + DAY * ahead)
    if which == "coming" or (which is None and not past):
        return day(today + DAY * (ahead or 7))
    last = today - DAY * (back or 7)
    return day(last - WEEK if which == "before last" else last)


def _named_weekend(span: Span, now: datetime, past: bool) -> Days:
    today = now.date()
    saturday = week_of(today).first + DAY * 5
    which = which_of(span.words["which"]) if "which" in span.words else None
    begun = saturday <= today
    if which is None:
        weeks = -1 if past and not begun else 0
    else:
        weeks = 0 if which == "coming" and not begun else OFFSETS[which]
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
    which = which_of(span.words["which"]) if "which" in span.words else "this"
    return _nearest(in_year, now.date(), which, past=past)


def _nearest(
    in_year: Callable[[int], Days | None], today: date, which: str, *, past: bool
) -> Days | None:
    backwards = which in ("before last", "last") or (which == "this" and past)
    # A coming winter may have begun last year.
    years = range(today.year, today.year - REACH - 2, -1)
    if not backwards:
        years = range(today.year - 1, today.year + REACH + 1)
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
        try:
            found = in_year(year)
        except ValueError:  # 29 February
            continue
        if found is not None:
            yield found


READERS: dict[str, Callable[[Span, datetime, bool], Days | None]] = {
    "someday": _someday,
    "recent": _recent,
    "week of": _week_from,
    "days": _days,
    "date": _date,
    "month day": _month_day,
    "ago": _ago,
    "ahead": _ahead,
    "lasting": _lasting,
    "day": _day,
    "named": _named,
    "year": _year,
    "offset": _offset,
}
