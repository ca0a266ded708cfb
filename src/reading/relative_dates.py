"""Resolution of relative dates in facts: "tomorrow" is stored as a date in words."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal, Self, cast

from src.base.zones import DAY
from src.reading import lexicon, time_expressions, times
from src.reading.time_expressions import DECEMBER, FUTURE, Days, Period
from src.reading.times import Span
from src.texts import CYRILLIC, Language, detect_language

# Absolute dates in words, as replacements of relative expressions.
#
# Russian and Ukrainian keep the preposition and the noun of the expression, so that the case stays
# right: "на прошлой неделе" becomes "на неделе с 9 ноября 2026", "с прошлого года" becomes "с 2025
# года". English uses "on" or "in", or keeps its preposition: "since last month" becomes "since
# October 2026".

Precision = Literal["day", "days", "week", "weekend", "month", "season", "year"]
Case = Literal["nominative", "genitive", "dative", "locative"]


def absolute_phrase(span: Span, precision: Precision, days: Days, language: Language) -> str:
    """Return the absolute words for a relative span with their preposition, in lower case.

    Args:
        span: The span to replace.
        precision: Precision of the phrase.
        days: Days that the span means.
        language: Language of the phrase.
    """
    if precision == "days":
        return _from_to(days, language)
    if (templates := lexicon.of_language("dates.phrases", language)) is not None:
        return _fill_template(templates, span, precision, days, language)
    *others, last = span.preposition.split(" ")
    prep = " ".join([*others, lexicon.values("dates.before_digit").get(last, last)])
    return SLAVIC.get(precision, _slavic_day)(span, prep, days, language).strip()


def vague_phrase(span: Span, now: date, language: Language) -> str:
    """Anchor a vague amount to a month: ``a few years before November 2026``."""
    amount = f"{span.words['n']} {span.words['unit']}"
    month = f"{_month(now, 'genitive', language)} {now.year}"
    return _text("before" if span.kind == "ago" else "after", language, amount=amount, month=month)


def date_words(day: date, language: Language) -> str:
    """Return ``23 ноября 2026``, ``23 листопада 2026``, ``23 November 2026``."""
    return f"{day.day} {_month(day, 'genitive', language)} {day.year}"


def bare_english(phrase: str) -> str:
    """Return the phrase as a subject: "today is my birthday" takes no "on"."""
    return re.sub("^(?:in|on) ", "", phrase)


def _fill_template(
    templates: Mapping[str, str], span: Span, precision: Precision, days: Days, language: Language
) -> str:
    """Fill the template of a language without cases.

    A preposition with a meaning of its own replaces that of the template.
    """
    first, word = days.first, span.words.get("word", "")
    part = span.words.get("part") or lexicon.values("dates.part").get(word, "")
    kind = "part" if part and precision == "day" else precision
    filled = templates[kind].format(
        part=part, date=date_words(first, language), year=first.year,
        month=_month(first, "genitive", language), season=_bare_season(first, language),
        years=_season_years(first), range=_range_words(days, language),
    )  # fmt: skip
    preposition, _, phrase = filled.partition(" ")
    is_plain = span.preposition in {"", *lexicon.words("dates.plain_prepositions")}
    return f"{preposition if is_plain else span.preposition} {phrase}"


def _slavic_day(span: Span, prep: str, days: Days, language: Language) -> str:
    word = span.words.get("word", "")
    night, part = lexicon.values("dates.night").get(word), lexicon.values("dates.part").get(word)
    if night or part:
        return f"{night or part} {date_words(days.first + DAY * bool(night), language)}"
    preposition = "" if prep in lexicon.words("dates.dropped") else prep
    return f"{preposition} {date_words(days.first, language)}"


def _slavic_week(span: Span, prep: str, days: Days, language: Language) -> str:
    monday = date_words(days.first, language)
    if prep in lexicon.words("dates.before_day"):
        return f"{prep} {monday}"
    bare = "" if prep else _text("bare_week", language, date=monday)
    return bare or f"{prep} {_text('week', language, noun=span.words['unit'], date=monday)}"


def _slavic_weekend(span: Span, prep: str, days: Days, language: Language) -> str:
    preposition = prep or _text("bare_weekend", language)
    return f"{preposition} {span.words['weekend']} {_range_words(days, language)}"


def _slavic_month(span: Span, prep: str, days: Days, language: Language) -> str:
    first = days.first
    in_month = f"{_text('in_month', language)} {_month(first, 'locative', language)} {first.year}"
    if span.kind in ("ago", "ahead"):
        if prep in lexicon.words("dates.with_genitive"):
            return f"{prep} {_month(first, 'genitive', language)} {first.year}"
        return f"{prep} {in_month}"
    noun, bare = span.words.get("unit", ""), _text("bare_month", language)
    if bare and not prep and noun in (bare, ""):
        return in_month
    # A unit from another language has no case here.
    case = cast(Case, lexicon.values("dates.case").get(noun, "nominative"))
    name = span.words.get("month") or _month(first, case, language)
    return f"{prep} {name} {first.year}"


def _slavic_season(span: Span, prep: str, days: Days, language: Language) -> str:
    first = days.first
    noun = "" if prep else _bare_season(first, language)
    years = _text("winter_years" if first.month == DECEMBER else "season_year", language)
    return f"{prep} {noun or span.words['season']} {_season_years(first)} {years}"


def _slavic_year(span: Span, prep: str, days: Days, language: Language) -> str:
    year = days.first.year
    if span.kind == "named":
        return f"{prep} {year} {span.words.get('unit', '')}"
    roughly = prep in lexicon.words("dates.with_genitive")
    return f"{prep} {_text('roughly_year' if roughly else 'year', language, year=year)}"


SLAVIC: dict[Precision, Callable[[Span, str, Days, Language], str]] = {
    "week": _slavic_week,
    "weekend": _slavic_weekend,
    "month": _slavic_month,
    "season": _slavic_season,
    "year": _slavic_year,
}


def _month(first: date, case: Case, language: Language) -> str:
    return _text(case, language).split()[first.month - 1]


def _bare_season(first: date, language: Language) -> str:
    return str(lexicon.of_language("dates.bare_season", language, {}).get(str(first.month), ""))


def _text(name: str, language: Language, **values: object) -> str:
    """Return a phrase of a language with its fields filled in; "" if the language lacks it."""
    return str(lexicon.of_language(f"dates.{name}", language, "")).format(**values)


def _season_years(first: date) -> str:
    return f"{first.year}–{first.year + 1}" if first.month == DECEMBER else str(first.year)


def _from_to(days: Days, language: Language) -> str:
    """Return ``с 19 по 22 ноября 2026``, ``from 30 October 2026 to 2 November 2026``."""
    first, last = days.first, days.after - DAY
    same_month = (first.year, first.month) == (last.year, last.month)
    first_words = str(first.day) if same_month else date_words(first, language)
    return _text("from_to", language, first=first_words, last=date_words(last, language))


def _range_words(days: Days, language: Language) -> str:
    """Return ``28–29 ноября 2026``, ``31 октября – 1 ноября 2026``."""
    first, last = days.first, days.after - DAY
    if first.month == last.month:
        return f"{first.day}–{date_words(last, language)}"
    beginning = date_words(first, language)
    if first.year == last.year:
        beginning = beginning.removesuffix(f" {first.year}")
    return f"{beginning} – {date_words(last, language)}"


# Resolution of the relative expressions in facts.
#
# A fact is read years later, so each expression relative to the day on which it was said becomes a
# date, in the language of the fact. One that names an unknown day ("на днях", "in a few days",
# "через пару недель", "больше года назад") makes the fact unfit to be stored. Words that name no
# day ("скоро", "recently") stay, and so do dates, plain months and seasons ("в марте", "летом")
# and habits ("every Friday", "обычно в пятницу", "с понедельника по пятницу").
#
# "On Friday" is the coming Friday, or the last one if the fact has a verb in the past tense. Days
# and weeks are resolved to the day ("через неделю" is a date), months and years only to the month
# and the year ("a month ago" is "in October 2026").

# Verbs in the past tense; they decide only between the last and the coming Friday.
PAST = lexicon.Expression(r"\b(?!<time.not_past>\b)<time.past>\b")
HABIT = lexicon.Expression(r"\b<time.habitual>\b")
FEW_LETTERS = 4  # beside a day; too few for a verb
CLAUSE_END = re.compile(r"[,;.!?] ")
SENTENCE_START = re.compile(r"(?:^|[.!?;:] )[^\w ]{0,3}$")
PREDICATE = re.compile(r" (?:is|was|will|has|had)\b")

UNCERTAIN_KINDS = frozenset({"someday", "narrated"})
TIMELESS_KINDS = frozenset({"someday", "narrated", "habit", "recent"})
COUNTED_KINDS = frozenset({"ago", "ahead", "lasting"})


class _UncertainError(Exception):
    """A relative expression names an unknown day."""


@dataclass(frozen=True)
class _Fact:
    """Fact whose dates are being resolved: as written, folded, and the time it was said."""

    source: str
    folded: str
    said_at: datetime  # local, naive

    @classmethod
    def read(cls, text: str, said_at: datetime) -> Self:
        """Return a fact that was said at a local time (aware)."""
        source = times.tidy(text)
        return cls(source, times.fold(source), said_at.replace(tzinfo=None))

    def is_past_at(self, span: Span) -> bool:
        """Return True if the clause around an expression is in the past tense.

        If the clause has no other words, the whole text decides. "Booked for Friday" is future.
        """
        if "weekday" in span.words and span.preposition in lexicon.words("time.planned"):
            return False
        ends = [0, *(m.end() for m in CLAUSE_END.finditer(self.folded)), len(self.folded)]
        start = max(end for end in ends if end <= span.start)
        end = min(end for end in ends if end >= span.end)
        around = self.folded[start : span.start] + self.folded[span.end : end]
        clause = self.folded[start:end] if len(around.strip(" ,.")) > FEW_LETTERS else self.folded
        return PAST.search(clause) is not None and FUTURE.search(clause) is None

    def language(self, span: Span) -> Language:
        if not CYRILLIC.search(self.folded, span.start, span.end):
            return "en"
        return detect_language(self.source, "ru")


def resolve_dates(text: str, said_at: datetime) -> str | None:
    """Return the fact with dates in place of expressions relative to the day it was said.

    Args:
        text: The fact.
        said_at: The local time (aware) at which it was said.

    Returns:
        The same text if nothing in it is relative; None if a day in it cannot be determined, or if
        it names times and is longer than any fact (2,000 characters).
    """
    if not times.may_name_time(text):
        return text
    if len(text) > times.MAX_TEXT:
        return None
    fact = _Fact.read(text, said_at)
    if (changes := _find_changes(fact)) is None:
        return None
    source = fact.source
    for start, end, phrase in reversed(changes):
        source = source[:start] + phrase + source[end:]
    return source if changes else text


def resolved_dates(text: str, said_at: datetime) -> list[str]:
    """Return the dates that ``resolve_dates`` would insert, to be shown beside the original words.

    The list is empty if nothing would be replaced or a day cannot be determined.
    """
    if len(text) > times.MAX_TEXT or not times.may_name_time(text):
        return []
    phrases = [phrase for _, _, phrase in _find_changes(_Fact.read(text, said_at)) or ()]
    return [bare_english(phrase[:1].lower() + phrase[1:]) for phrase in phrases]


def _find_changes(fact: _Fact) -> list[tuple[int, int, str]] | None:
    """Return the replacements as (start, end, phrase); None if a day cannot be determined."""
    try:
        changes = [_change(span, fact) for span in _parts(times.find_spans(fact.folded), fact)]
    except (_UncertainError, ValueError, OverflowError):
        return None
    return [change for change in changes if change is not None]


def when_valid(text: str, said_at: datetime) -> Period | None:
    """Return the first day or period that a resolved fact names, in the zone of ``said_at``.

    A recurring time ("5 марта", "в субботу") is the next one, or the last one if the fact is in
    the past tense. Habits and vague words name no period. ``said_at`` is aware.
    """
    if not times.may_name_time(text):
        return None
    fact = _Fact.read(text, said_at)
    spans = [span for span in times.find_spans(fact.folded) if _names_time(span, fact)]
    past = bool(spans) and fact.is_past_at(spans[0])
    found = time_expressions.named_periods(spans, said_at, past=past)
    return found[0][1] if found else None


def _names_time(span: Span, fact: _Fact) -> bool:
    if span.kind in TIMELESS_KINDS or _is_schedule(span) or _is_duration(span, fact):
        return False
    return not _is_plain(span) or _is_dated(span, fact)


def _parts(spans: Sequence[Span], fact: _Fact) -> Iterator[Span]:
    """Yield the spans to resolve: both ends of a range; only the year of "марте прошлого года"."""
    for span in spans:
        if span.kind == "offset" and span.within is not None:
            yield span.within  # "two days before | last Friday"
        elif span.to is not None and not _is_schedule(span):
            link = span.to.words["link"]
            start = span.to.start + len(link) - len(link.lstrip())
            yield replace(span, to=None)
            yield replace(span.to, start=start, words={**span.to.words, "prep": link.strip()})
        elif span.within is not None and _precision(span.within) == "year":
            follows = fact.language(span) == "en" and span.within.start > span.start
            preposition = {"prep": "of"} if follows else {}  # "in March | of 2025"
            yield replace(span.within, words={**preposition, **span.within.words})
        elif span.to is None:
            yield span


def _is_schedule(span: Span) -> bool:
    """Return True for a range of weekdays: "с понедельника по пятницу" is every week."""
    return span.to is not None and _is_plain(span) and _is_plain(span.to)


def _is_duration(span: Span, fact: _Fact) -> bool:
    """Return True for the time that something took: "I learned it in three days"."""
    begins = fact.folded.startswith("in ", span.start)
    return span.kind == "ahead" and begins and fact.is_past_at(span)


def _is_dated(span: Span, fact: _Fact) -> bool:
    """Return True if a plain weekday is one day, not a habit or "my favourite day is Friday"."""
    words = span.words
    dated = (
        "prep" in words or "part" in words or times.CLOCK.match(fact.folded, span.end) is not None
    )
    return dated and HABIT.search(fact.folded) is None


def _is_plain(span: Span) -> bool:
    """Return True for a weekday or a weekend without "this", "last" or the like."""
    named = not span.words.keys().isdisjoint(("weekday", "weekend"))
    return span.kind == "named" and named and "which" not in span.words and span.within is None


def _change(span: Span, fact: _Fact) -> tuple[int, int, str] | None:
    """Return the replacement of a span; None to leave it.

    Raises:
        _UncertainError: The span names an unknown day.
    """
    if _is_uncertain(span, fact):
        raise _UncertainError
    if not _is_relative(span, fact):
        return None
    phrase, end = _build_phrase(span, fact)
    at_start = SENTENCE_START.search(fact.folded[: span.start]) is not None
    if at_start and not span.preposition and PREDICATE.match(fact.folded, end):
        phrase = bare_english(phrase)  # "Today is my birthday"
    if at_start and fact.source[span.start].isupper():
        phrase = phrase[0].upper() + phrase[1:]
    return span.start, end, phrase


def _build_phrase(span: Span, fact: _Fact) -> tuple[str, int]:
    """Return the absolute words for a relative span, and the end of the text they replace.

    Raises:
        _UncertainError: The calendar has no such days.
    """
    precision, language = _precision(span), fact.language(span)
    if not _is_exact(span):
        return vague_phrase(span, fact.said_at, language), span.end
    days = _resolved_days(span, precision, fact)
    if days is None:
        raise _UncertainError
    end = span.end
    if "part" in span.words and (language != "en" or precision != "day"):
        # Other languages keep the part of the day in its place: "завтра | вечером".
        end = len(fact.folded[: fact.folded.rindex(span.words["part"], 0, end)].rstrip(" ,"))
    return absolute_phrase(span, precision, days, language), end


def _is_uncertain(span: Span, fact: _Fact) -> bool:
    words = span.words
    if span.kind in UNCERTAIN_KINDS or "hedge" in words:
        return True
    if not _is_exact(span):
        has_qualifier = span.kind != "lasting" and "prep" in words
        return has_qualifier or times.length_of(span.words)[1] not in ("month", "year")
    if span.kind == "day" and times.day_offset(words["word"]) is None and "noun" not in words:
        return True  # adjective: "завтрашний экзамен"
    possessive = fact.folded.startswith("'s", span.end)  # "tomorrow's exam"
    return possessive and (span.kind == "day" or "which" in words)


def _is_exact(span: Span) -> bool:
    return span.kind not in COUNTED_KINDS or times.length_of(span.words)[0].exact


def _is_relative(span: Span, fact: _Fact) -> bool:
    words = span.words
    if span.kind == "lasting":
        return _is_exact(span)  # "the last few years" stay
    if span.kind in COUNTED_KINDS:
        return not _is_duration(span, fact)
    if _is_plain(span):
        return _is_dated(span, fact)
    if span.kind == "day":
        return True
    if span.kind == "named":
        return "which" in words or "unit" in words or "weekday" in words
    return "year_word" in words or (span.kind == "month day" and span.within is not None)


def _precision(span: Span) -> Precision:
    if span.kind == "lasting":
        return "days"
    if span.kind in ("ago", "ahead"):
        unit = times.length_of(span.words)[1]
        return unit if unit == "month" or unit == "year" else "day"
    if span.kind == "year":
        return "year"
    if span.kind != "named" or "weekday" in span.words:
        return "day"
    if "unit" in span.words:
        unit = times.unit_of(span.words["unit"])
        return unit if unit == "month" or unit == "year" else "week"
    if "month" in span.words:
        return "month"
    return "season" if "season" in span.words else "weekend"


def _resolved_days(span: Span, precision: Precision, fact: _Fact) -> Days | None:
    if span.kind in ("ago", "ahead") and precision == "day":
        return time_expressions.around(time_expressions.counted_day(span, fact.said_at), "day")
    return time_expressions.days_of(span, fact.said_at, past=fact.is_past_at(span))
