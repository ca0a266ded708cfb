"""Dates of facts: beside each relative day its date, and until when a fact holds.

A fact is read years later, so it keeps its words, and the date stands beside each expression that
is relative to the day on which it was said: "завтра (23 ноября 2026) экзамен". Dates, plain months
and seasons, habits ("every Friday", "с понедельника по пятницу") and vague words ("на днях",
"около года назад") stay alone, and so does a day that its own clause leaves open:

- a negated day ("not on Friday") is none;
- "on Friday" is the last one if the nearest verb of its clause is in the past tense, the coming
  one otherwise; if the verb only plans ("договорились встретиться в пятницу"), or the clause has
  no verb and another one is in the past, it is neither.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal, Self

from babel.dates import format_date

from src.base.zones import DAY, locale_of
from src.reading import lexicon, time_expressions, times
from src.reading.time_expressions import FUTURE, Days
from src.reading.times import Span
from src.texts import CYRILLIC, Language, detect_language
from src.texts.morphology import HYPHENATED_WORD, parts_of_speech

Tense = Literal["past", "future"]

PAST = lexicon.Expression(r"\b<time.past>\b")
HABIT = lexicon.Expression(r"\b<time.habitual>\b")
YEARLY = lexicon.Expression(r"\b<time.yearly>")
NEGATED = lexicon.Expression(r"(?:\b<time.negated>|n't) $")
PLANNING = lexicon.Expression(r"\b<time.planning>\b")
PRESENT = lexicon.Expression(r"\b<time.present>\b|'s\b")
CLAUSE_END = lexicon.Expression(r"[,;:.!?()—] | - | (?=<time.joint> )")
TIMELESS_KINDS = frozenset({"some", "recent", "weekdays"})
DATE_KINDS = frozenset({*times.SHORT_KINDS, "date", "days", "month day"})
COUNTED_KINDS = frozenset({"ago", "ahead", "lasting"})
AFTER_DID = lexicon.Expression(r"\b<time.did> $")  # "didn't come" is in the past
MAX_DID = 10  # characters of it
DATED = re.compile(r"(?:'s)?,? \([^)]{0,20}\d")  # the date is already there
FAR_UNITS = ("month", "year")  # of which only the month or the year is told


@dataclass(frozen=True)
class Validity:
    """Time in which a fact holds: from ``start`` until just before ``end`` (aware)."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True)
class _Fact:
    """Fact whose dates are being resolved: as written, folded, and the time it was said."""

    source: str
    folded: str
    said_at: datetime  # local, naive
    is_note: bool = False

    @classmethod
    def read(cls, text: str, said_at: datetime, *, is_note: bool = False) -> Self:
        """Return a fact or note that was said at a local time (aware)."""
        source = times.tidy(text)
        return cls(source, times.fold(source), said_at.replace(tzinfo=None), is_note)

    def tense_at(self, span: Span) -> Tense | None:
        """Return the tense of the clause around an expression, None if it is uncertain."""
        if span.preposition in lexicon.words("time.planned"):
            return "future"  # "booked for Friday"
        ends = [0, *(m.end() for m in CLAUSE_END.finditer(self.folded)), len(self.folded)]
        start = max(end for end in ends if end <= span.start)
        end = min(end for end in ends if end >= span.end)
        clause = self.folded[start:end]
        if FUTURE.search(clause):
            return "future"
        tenses = [
            (max(span.start - at, at - span.end), tense)
            for at, tense in _verbs(self.folded, start, end)
            if not span.start <= at < span.end  # "on sat"
        ]
        if any(tense == "past" for _, tense in tenses) and PLANNING.search(clause):
            return None
        if tenses:
            return min(tenses)[1]
        beside = self.folded[:start] + self.folded[end:]
        return None if has_past_verb(beside) else "future"

    def meant_tense(self, span: Span) -> Tense | None:
        """Return the tense where an expression means another day in the past than in the future.

        Any other expression is in the future.
        """
        words = span.words
        if "year" in words or "number" in words or span.within is not None:
            return "future"
        named = span.kind == "named" and words.keys().isdisjoint(("which", "unit"))
        if named or span.kind in DATE_KINDS:
            return self.tense_at(span)
        return "future"

    def names_time(self, span: Span) -> bool:
        """Return True if an expression is a time of its own, which may depend on the present."""
        if span.kind in TIMELESS_KINDS or _is_schedule(span):
            return False
        begins = self.folded.startswith("in ", span.start)
        if span.kind == "ahead" and begins and self.tense_at(span) != "future":
            return False  # the time that something took: "I learned it in three days"
        if NEGATED.search(self.folded[: span.start]):
            return False
        if not _is_plain(span):
            return True
        # A plain weekday may be a habit, or "my favourite day is Friday".
        has_time = times.CLOCK.match(self.folded, span.end) is not None
        is_dated = "prep" in span.words or "part" in span.words or has_time
        return (is_dated or self.is_note) and HABIT.search(self.folded) is None

    def is_relative(self, span: Span) -> bool:
        """Return True for an exact expression that depends on the day on which it was said."""
        words = span.words
        if not self.names_time(span):
            return False
        if span.kind in COUNTED_KINDS:
            return times.length_of(words).exact and not words.keys() & {"hedge", "rough"}
        if span.kind == "day" or _is_plain(span):
            return True
        if span.within is not None:
            return self.is_relative(span.within)
        if span.kind == "named":
            return not words.keys().isdisjoint(("which", "unit", "weekday"))
        return "year_word" in words

    def parts(self) -> Iterator[Span]:
        """Yield the spans, both ends of a range, and of "two days before Friday" Friday."""
        for span in times.find_spans(self.folded):
            if span.kind == "offset" and span.within is not None:
                yield span.within
            elif span.to is not None:
                if not _is_schedule(span):
                    yield from (replace(span, to=None), span.to)
            else:
                yield span


def _verbs(folded: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Tense]]:
    """Yield the verbs of a part of a text: where each stands, and whether it is in the past."""
    for match in HYPHENATED_WORD.finditer(folded, start, len(folded) if end is None else end):
        word, tags = match[0], parts_of_speech(match[0])
        if tags:
            is_past = {"VERB", "past"} <= tags and word not in lexicon.words("time.not_past")
            may_be_noun = "NOUN" in tags and "1per" not in tags  # "печь", unlike "иду"
            is_verb = bool(tags & {"VERB", "INFN", "infn"}) and not may_be_noun
        else:  # the expression sees the word before: "is closed"
            is_past = PAST.behind(folded, match.start()) == match.end()
            is_verb = PRESENT.fullmatch(word) is not None
            is_verb = is_verb and not AFTER_DID.search(folded[: match.start()][-MAX_DID:])
        if is_past or is_verb:
            yield match.start(), "past" if is_past else "future"


def has_past_verb(text: str) -> bool:
    """Return True if a folded text has a verb in the past tense."""
    return any(tense == "past" for _, tense in _verbs(text))


def resolve_dates(text: str, said_at: datetime, spoken: Language = "ru") -> str:
    """Return the fact with the date beside each relative day that is certain.

    Args:
        text: The fact; one longer than 2,000 characters stays as it is.
        said_at: The local time (aware) at which it was said.
        spoken: Language of the dates if the text can be of several.
    """
    dates = list(_dates(text, said_at, spoken))
    if not dates:
        return text
    source = times.tidy(text)
    for end, phrase in reversed(dates):
        source = f"{source[:end]} ({phrase}){source[end:]}"
    return source


def resolved_dates(text: str, said_at: datetime) -> list[str]:
    """Return the dates that ``resolve_dates`` puts beside the words."""
    return [phrase for _, phrase in _dates(text, said_at)]


def when_valid(text: str, said_at: datetime, *, is_event: bool, is_note: bool = False) -> Validity:
    """Return when a fact holds, as far as its words say it for certain.

    An event holds in the first day or period that it names; what comes every year, and what has
    begun ("с марта"), has no end. Any other fact ends only with "until Friday" or "from 3 to 5
    May".

    Args:
        text: The fact, with its dates or without.
        said_at: The local time (aware) at which it was said.
        is_event: Whether it is an event.
        is_note: Whether its day is to be shown once, as one would guess it: "30.11 dentist",
            "dinner Friday", "got tickets for 6 May"; what comes every year ends as well.
    """
    if len(text) > times.MAX_TEXT:
        return Validity()
    fact = _Fact.read(text, said_at, is_note=is_note)
    spans = filter(fact.names_time, times.find_spans(fact.folded, with_short=is_note))
    named: Iterable[tuple[Span, time_expressions.Period | None]]
    named = ((span, _period_of(fact, span, said_at)) for span in spans)
    if is_note:  # "was at the dentist yesterday, next time on 14 December"
        named = sorted(named, key=lambda one: one[1] is None or one[1].end <= said_at)
    span, period = next(iter(named), (None, None))
    if span is None or period is None:
        return Validity()
    is_open = span.role == "since" and span.to is None
    is_bounded = span.role == "until" or span.to is not None or span.kind == "days"
    if is_open or not (is_event or is_bounded):
        return Validity(period.start if is_event else None)
    end = None if YEARLY.search(fact.folded) and not is_note else period.end
    return Validity(period.start if is_event else None, end)


def _period_of(fact: _Fact, span: Span, said_at: datetime) -> time_expressions.Period | None:
    """Return the period that an expression surely means, or None."""
    if span.kind in COUNTED_KINDS and not times.length_of(span.words).exact:
        return None
    tense = fact.meant_tense(span)
    if fact.is_note:
        tense, span = tense or "future", _exactly(span)
    found = time_expressions.named_periods([span], said_at, past=tense == "past")
    if tense is None or not found:
        return None
    return found[0][1]


def days_words(days: Days, language: Language) -> str:
    """Return ``23 ноября 2026``, ``23–29 November 2026``, ``листопад 2026`` or ``2026``."""
    first, last = days.first, days.after - DAY
    if first == last:
        return _words(first, "d MMMM y", language)
    if first.day == days.after.day == 1:
        if (first.month, last.month, first.year) == (1, 12, last.year):
            return str(first.year)
        month = _words(last, "LLLL y", language)
        if first.month == last.month and first.year == last.year:
            return month
        pattern = "LLLL" if first.year == last.year else "LLLL y"
        return f"{_words(first, pattern, language)} – {month}"
    end = _words(last, "d MMMM y", language)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{end}"
    pattern = "d MMMM" if first.year == last.year else "d MMMM y"
    return f"{_words(first, pattern, language)} – {end}"


def _words(day: date, pattern: str, language: Language) -> str:
    return str(format_date(day, pattern, locale=locale_of(language)))


def _dates(text: str, said_at: datetime, spoken: Language = "ru") -> Iterator[tuple[int, str]]:
    """Yield the end of each relative expression, and its date in words."""
    if len(text) > times.MAX_TEXT:
        return
    fact = _Fact.read(text, said_at)
    for span in fact.parts():
        if not fact.is_relative(span) or DATED.match(fact.folded, span.end):
            continue
        tense = fact.meant_tense(span)
        if tense is None:
            continue
        days = time_expressions.days_of(_exactly(span), fact.said_at, past=tense == "past")
        if days is not None:
            end = span.end + 2 * fact.folded.startswith("'s", span.end)
            language: Language = "en"
            if CYRILLIC.search(fact.folded, span.start, span.end):
                language = detect_language(fact.source, spoken)
            yield end, days_words(days, language)


def _exactly(span: Span) -> Span:
    """Return a span that counts days or weeks as the day that it ends on."""
    if span.kind in ("ago", "ahead") and times.length_of(span.words).unit not in FAR_UNITS:
        return span.exactly()
    return span


def _is_schedule(span: Span) -> bool:
    """Return True for a range of weekdays: "с понедельника по пятницу" is every week."""
    return span.to is not None and _is_plain(span) and _is_plain(span.to)


def _is_plain(span: Span) -> bool:
    """Return True for a weekday or a weekend without "this", "last" or the like."""
    named = not span.words.keys().isdisjoint(("weekday", "weekend"))
    return span.kind == "named" and named and "which" not in span.words and span.within is None
