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
from itertools import islice

import pytz
from pytz.tzinfo import BaseTzInfo

from src.dates.calendar_days import Days
from src.dates.span_days import days_of
from src.dates.time_patterns import DIGIT_HINT, HINTS, beginning_with
from src.dates.time_spans import MAX_TEXT, Span, find_spans, fold, tidy

MAX_PERIODS = 8  # that one text names
EARLIEST = date(1900, 1, 1)  # where "before March" begins

HISTORY = re.compile(
    r"\b(?:раньше|ранее|прежде|прежн\w+|бывш\w+|когда-то|некогда|изначально|до (?:этого|того)"
    r"|в прошлом|прошл\w{2,3}|предыдущ\w+|истори\w+|больше не|(?:по|из)?менял\w*|изменил\w*"
    r"|раніше|колись|колишн\w+|давніше|до цього|(?:в|у) минулому|минул\w{1,3}|попередн\w+"
    r"|історі\w+|більше не|змін(?:ив|юв|ил)\w*"
    r"|before|previous(?:ly)?|former(?:ly)?|earlier|originally|in the past|back then|history"
    r"|no longer|any ?more|changed|(?<!am )(?<!'m )(?<!is )(?<!are )(?<!get )used to)\b"
)
WHEN = re.compile(
    r"\b(?:когда(?!-)|с каких пор|как давно|какого (?:числа|года)|какое (?:было )?число|какая дата"
    r"|в (?:каком (?:году|месяце)|какой день|какие дни|какое время года)"
    r"|сколько (?:времени|лет|дней|недель|месяцев) (?:тому )?назад"
    r"|коли(?!-)|відколи|з яких пір|як давно|якого (?:числа|дня|року|місяця)|яка дата"
    r"|[ву] (?:якому (?:році|місяці)|який день)|скільки (?:часу|років|днів|тижнів|місяців) тому"
    r"|when|(?:what|which) (?:date|day|month|year|week)|what(?:'s| is| was) the date"
    r"|how long ago|since when|how many (?:days|weeks|months|years) ago)\b"
)
FUTURE = re.compile(
    r"\b(?:буд(?:у|ет|ешь|ем|ете|ут|е|емо|уть|еш)|предстоит|предстоящ\w+|планы|запланирован\w*"
    r"|плани|заплановано|will|going to|upcoming|plans)\b"
)
# What is said "for Friday" is said of the coming one.
FORWARD = frozenset({"на", "к", "ко", "for", "by"})
AT_WEEKENDS = frozenset({"выходных", "вихідних"})  # "на выходных" has been

# How the words begin without which neither of the first two matches.
QUESTION_HINTS = """
раньше ранее прежд прежн бывш когда некогда изначально этого того прошл предыд истори больше
менял поменя измен раніше колись колишн давніше цього минул поперед історі більше змін before
previous former earlier originally past back history long any changed used пор пір давно числ
какая какое коли відколи дата when date since
"""
QUERY_HINT = beginning_with(HINTS + QUESTION_HINTS, DIGIT_HINT)


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
    if QUERY_HINT.search(text.lower()) is None:
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
    day = "weekday" in words or words.get("weekend", "выходных") not in AT_WEEKENDS
    return day and span.preposition in FORWARD


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
