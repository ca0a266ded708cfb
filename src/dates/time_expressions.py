"""Times in questions: "what did I buy last week?" names a period and is about the purchase.

No model is asked: this runs in every turn, and gives the same answer each time. The rules, where
people differ: weeks begin on Monday; "N weeks (months, years) ago" is the calendar week (month,
year) of that day; "on Monday" and "in March" are the last ones, unless the question is put in the
future tense; a range that has begun and does not end, ends now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cache
from itertools import islice

import pytz
from pytz.tzinfo import BaseTzInfo

from src.dates.calendar_days import Days
from src.dates.span_days import days_of
from src.dates.time_patterns import beginning_with
from src.dates.time_spans import MAX_TEXT, Span, find_spans, fold, tidy
from src.language import lexicon

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
    text = text[:MAX_TEXT]
    if _hint().search(text.lower()) is None:
        return TimeQuery((), text, wants_history=False, asks_when=False)
    source = tidy(text)
    folded = fold(source)
    past = FUTURE.search(folded) is None
    found = named_periods(find_spans(folded), now, past=past)
    content = _without([span for span, _ in found], source)
    rest = fold(content)
    until_past = any(span.role == "until" and period.end <= now for span, period in found)
    return TimeQuery(
        periods=tuple(dict.fromkeys(period for _, period in found)),
        content=content,
        wants_history=until_past or HISTORY.search(rest) is not None,
        asks_when=WHEN.search(folded) is not None,
    )


@cache
def _hint() -> re.Pattern[str]:
    """Quick, for every turn: without one of these nothing names or asks for a time."""
    return beginning_with("time.hints", "time.question_hints")


def named_periods(
    spans: Iterable[Span], now: datetime, *, past: bool
) -> list[tuple[Span, Period]]:
    """The spans that name a period, with it; at most ``MAX_PERIODS``.

    Args:
        spans: Time expressions.
        now: The local time (aware).
        past: Whether what recurs ("on Monday") is the last or the coming one.
    """
    found = ((span, _period(span, now, past)) for span in islice(spans, MAX_PERIODS))
    return [(span, period) for span, period in found if period is not None]


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
    zone = now.tzinfo
    naive = datetime.combine(day, time.min)
    if not isinstance(zone, BaseTzInfo):
        return naive.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    try:
        return zone.localize(naive, is_dst=None)
    except pytz.AmbiguousTimeError:
        return zone.localize(naive, is_dst=True)
    except pytz.NonExistentTimeError:
        return zone.normalize(zone.localize(naive, is_dst=False))


def _without(spans: Sequence[Span], source: str) -> str:
    """The text without these spans, with the spaces and commas put right; empty without words."""
    kept, position = [], 0
    for span in spans:
        kept.append(source[position : span.start])
        end = (span.to or span).end
        position = end + 2 * (source[end : end + 2] in ("'s", "’s"))
    rest = " ".join(" ".join([*kept, source[position:]]).split())
    rest = re.sub(r" +([?!.,;:])", r"\1", rest).strip(" ,;:-–—")
    return rest if re.search(r"\w", rest) else ""
