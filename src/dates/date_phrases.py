"""Absolute dates in words, to stand where a relative expression stood.

In Russian and Ukrainian the preposition and the noun of the expression stay, so that the case
stays right: "на прошлой неделе" becomes "на неделе с 9 ноября 2026", "с прошлого года" becomes
"с 2025 года". English says "on" or "in", or keeps what stood there: "since last month" becomes
"since October 2026".
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal, cast

from src.dates.calendar_days import DAY, WINTER, Days
from src.dates.time_spans import Span
from src.language import lexicon

Language = Literal["ru", "uk", "en"]
Precision = Literal["day", "days", "week", "weekend", "month", "season", "year"]
Case = Literal["nominative", "genitive", "dative", "locative"]

ENGLISH_OWN = frozenset({"", "in", "on", "at", "during", "over"})  # replaced by the right one

ENGLISH_SEASONS = {3: "spring", 6: "summer", 9: "autumn", 12: "winter"}
ENGLISH_PARTS = {
    **dict.fromkeys(("tonight", "last evening", "this evening"), "evening"),
    **{"last night": "night", "this morning": "morning", "this afternoon": "afternoon"},
}


def absolute_phrase(span: Span, precision: Precision, days: Days, language: Language) -> str:
    """The absolute words for a relative span, its preposition included, without a capital.

    Args:
        span: What they replace.
        precision: How exactly to say it.
        days: What the span means.
        language: In which language.
    """
    if language == "en":
        return _english(span, precision, days)
    return _slavic(span, precision, days, language).strip()


def vague_phrase(span: Span, now: date, language: Language) -> str:
    """``A few years ago`` counted from a month: ``a few years before November 2026``."""
    amount = f"{span.words['n']} {span.words['unit']}"
    month = f"{_month(now, 'genitive', language)} {now.year}"
    return _said("before" if span.kind == "ago" else "after", language, amount=amount, month=month)


def date_words(day: date, language: Language) -> str:
    """``23 ноября 2026``, ``23 листопада 2026``, ``23 November 2026``."""
    return f"{day.day} {_month(day, 'genitive', language)} {day.year}"


def bare_english(phrase: str) -> str:
    """The phrase as a subject: "today is my birthday" wants no "on"."""
    return re.sub("^(?:in|on) ", "", phrase)


def _english(span: Span, precision: Precision, days: Days) -> str:
    if precision == "days":
        return _from_to(days, "en")
    own, phrase = _english_parts(span, precision, days)
    return f"{own if span.preposition in ENGLISH_OWN else span.preposition} {phrase}"


def _english_parts(span: Span, precision: Precision, days: Days) -> tuple[str, str]:
    """The preposition that belongs to a phrase, and the phrase."""
    first = days.first
    match precision:
        case "week":
            return "in", f"the week of {date_words(first, 'en')}"
        case "month":
            return "in", f"{_month(first, 'genitive', 'en')} {first.year}"
        case "season":
            return "in", f"{ENGLISH_SEASONS[first.month]} {_season_years(first)}"
        case "year":
            return "in", str(first.year)
        case "weekend":
            return "on", f"the weekend of {_range_words(days, 'en')}"
    part = span.words.get("part") or ENGLISH_PARTS.get(span.words.get("word", ""))
    return "on", (f"the {part} of " if part else "") + date_words(first, "en")


def _slavic(span: Span, precision: Precision, days: Days, language: Language) -> str:
    *others, last = span.preposition.split(" ")
    prep = " ".join([*others, lexicon.values("dates.before_digit").get(last, last)])
    match precision:
        case "week":
            return _slavic_week(span, prep, days.first, language)
        case "month":
            return _slavic_month(span, prep, days.first, language)
        case "season":
            return _slavic_season(span, prep, days.first, language)
        case "year":
            return _slavic_year(span, prep, days.first, language)
        case "weekend":
            at = prep or _find("bare_weekend", language)
            return f"{at} {span.words['weekend']} {_range_words(days, language)}"
        case "days":
            return _from_to(days, language)
    return _slavic_day(span, prep, days.first, language)


def _slavic_day(span: Span, prep: str, day: date, language: Language) -> str:
    word = span.words.get("word", "")
    night, part = lexicon.values("dates.night").get(word), lexicon.values("dates.part").get(word)
    if night or part:
        return f"{night or part} {date_words(day + DAY if night else day, language)}"
    at = "" if prep in lexicon.words("dates.dropped") else prep
    return f"{at} {date_words(day, language)}"


def _slavic_week(span: Span, prep: str, monday: date, language: Language) -> str:
    day = date_words(monday, language)
    if prep in lexicon.words("dates.before_day"):
        return f"{prep} {day}"
    bare = _find("bare_week", language)
    if bare and not prep:
        return bare.format(date=day)
    return f"{prep} {_said('week', language, noun=span.words['unit'], date=day)}"


def _slavic_month(span: Span, prep: str, first: date, language: Language) -> str:
    in_month = f"{_said('in_month', language)} {_month(first, 'locative', language)} {first.year}"
    if span.kind in ("ago", "ahead"):
        if prep in lexicon.words("dates.with_genitive"):
            return f"{prep} {_month(first, 'genitive', language)} {first.year}"
        return f"{prep} {in_month}"
    noun, bare = span.words.get("unit", ""), _find("bare_month", language)
    if bare and not prep and noun in (bare, ""):
        return in_month
    # A unit of another language has no case here.
    case = cast(Case, lexicon.values("dates.case").get(noun, "nominative"))
    name = span.words.get("month") or _month(first, case, language)
    return f"{prep} {name} {first.year}"


def _slavic_season(span: Span, prep: str, first: date, language: Language) -> str:
    noun = span.words["season"]
    bare: dict[str, str] = dict(lexicon.by_language("dates.bare_season")).get(language, {})
    if bare and not prep:
        noun = bare[str(first.month)]
    years = _said("winter_years" if first.month == WINTER else "season_year", language)
    return f"{prep} {noun} {_season_years(first)} {years}"


def _slavic_year(span: Span, prep: str, first: date, language: Language) -> str:
    if span.kind == "named":
        return f"{prep} {first.year} {span.words.get('unit', '')}"
    roughly = prep in lexicon.words("dates.with_genitive")
    return f"{prep} {_said('roughly_year' if roughly else 'year', language, year=first.year)}"


def _month(first: date, case: Case, language: Language) -> str:
    return _said(case, language).split()[first.month - 1]


def _said(name: str, language: Language, **values: object) -> str:
    """What a language says there, with its fields filled in."""
    return str(lexicon.of_language(f"dates.{name}", language)).format(**values)


def _find(name: str, language: Language) -> str:
    """The same, or nothing where only another language says something."""
    return str(dict(lexicon.by_language(f"dates.{name}")).get(language, ""))


def _season_years(first: date) -> str:
    return f"{first.year}–{first.year + 1}" if first.month == WINTER else str(first.year)


def _from_to(days: Days, language: Language) -> str:
    """``с 19 по 22 ноября 2026``, ``from 30 October 2026 to 2 November 2026``."""
    first, last = days.first, days.after - DAY
    same_month = (first.year, first.month) == (last.year, last.month)
    first_words = str(first.day) if same_month else date_words(first, language)
    return _said("from_to", language, first=first_words, last=date_words(last, language))


def _range_words(days: Days, language: Language) -> str:
    """``28–29 ноября 2026``, ``31 октября – 1 ноября 2026``."""
    first, last = days.first, days.after - DAY
    if first.month == last.month:
        return f"{first.day}–{date_words(last, language)}"
    beginning = date_words(first, language)
    if first.year == last.year:
        beginning = beginning.removesuffix(f" {first.year}")
    return f"{beginning} – {date_words(last, language)}"
