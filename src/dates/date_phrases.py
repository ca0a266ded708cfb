"""Absolute dates in words, to stand where a relative expression stood.

In Russian and Ukrainian the preposition and the noun of the expression stay, so that the case
stays right: "на прошлой неделе" becomes "на неделе с 9 ноября 2026", "с прошлого года" becomes
"с 2025 года". English says "on" or "in", or keeps what stood there: "since last month" becomes
"since October 2026".
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

from src.dates.calendar_days import DAY, WINTER, Days
from src.dates.time_spans import Span

Language = Literal["ru", "uk", "en"]
Precision = Literal["day", "days", "week", "weekend", "month", "season", "year"]
Case = Literal["nominative", "genitive", "dative", "locative"]

GENITIVE: dict[Language, str] = {
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "uk": "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
    "en": "January February March April May June July August September October November December",
}
NOMINATIVE: dict[Language, str] = {
    "ru": "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "uk": "січень лютий березень квітень травень червень липень серпень вересень жовтень "
    "листопад грудень",
}
# What the genitive ending becomes; Ukrainian ``лютого`` is an adjective of its own.
ENDINGS: dict[tuple[Language, Case], dict[str, str]] = {
    ("ru", "locative"): {"а": "е", "я": "е"},
    ("uk", "locative"): {"а": "і", "я": "і"},
    ("ru", "dative"): {"а": "у", "я": "ю"},
    ("uk", "dative"): {"а": "у", "я": "ю"},
}
CASES: dict[str, Case] = {
    **dict.fromkeys(("месяц", "місяць"), "nominative"),
    **dict.fromkeys(("месяца", "місяця"), "genitive"),
    **dict.fromkeys(("месяцу", "місяцю"), "dative"),
    **dict.fromkeys(("месяце", "місяці"), "locative"),
}
ROUGHLY_OF = frozenset({"около", "близько"})  # with the genitive; other adverbs rule no case
ENGLISH_OWN = frozenset({"", "in", "on", "at", "during", "over"})  # replaced by the right one

# Ukrainian names a time by the bare genitive ("минулого літа"); with a date it wants these.
UKRAINIAN_SEASONS = {3: "навесні", 6: "влітку", 9: "восени", 12: "взимку"}
ENGLISH_SEASONS = {3: "spring", 6: "summer", 9: "autumn", 12: "winter"}
ENGLISH_PARTS = {
    **dict.fromkeys(("tonight", "last evening", "this evening"), "evening"),
    **{"last night": "night", "this morning": "morning", "this afternoon": "afternoon"},
}
# Parts of a day that stand in one expression with the day; a night belongs to the day it ends on.
SLAVIC_PARTS = {
    "этим утром": ("утром", 0),
    "этим вечером": ("вечером", 0),
    "прошлой ночью": ("в ночь на", 1),
    "цього ранку": ("вранці", 0),
    "цього вечора": ("увечері", 0),
    "минулої ночі": ("у ніч на", 1),
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
    month = f"{GENITIVE[language].split()[now.month - 1]} {now.year}"
    past = span.kind == "ago"
    if language == "en":
        return f"{amount} {'before' if past else 'after'} {month}"
    if past:
        return f"за {amount} до {month}"
    return f"через {amount} {'после' if language == 'ru' else 'після'} {month}"


def date_words(day: date, language: Language) -> str:
    """``23 ноября 2026``, ``23 листопада 2026``, ``23 November 2026``."""
    return f"{day.day} {GENITIVE[language].split()[day.month - 1]} {day.year}"


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
            return "in", f"{GENITIVE['en'].split()[first.month - 1]} {first.year}"
        case "season":
            return "in", f"{ENGLISH_SEASONS[first.month]} {_season_years(first)}"
        case "year":
            return "in", str(first.year)
        case "weekend":
            return "on", f"the weekend of {_range_words(days, 'en')}"
    part = span.words.get("part") or ENGLISH_PARTS.get(span.words.get("word", ""))
    return "on", (f"the {part} of " if part else "") + date_words(first, "en")


def _slavic(span: Span, precision: Precision, days: Days, language: Language) -> str:
    prep = re.sub(r"\b(с|к)о$", r"\1", re.sub(r"\b(?:зі|із)$", "з", span.preposition))
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
            noun = span.words["weekend"]
            at = "на" if language == "uk" and not prep else prep
            return f"{at} {noun} {_range_words(days, language)}"
        case "days":
            return _from_to(days, language)
    return _slavic_day(span, prep, days.first, language)


def _slavic_day(span: Span, prep: str, day: date, language: Language) -> str:
    part, nights = SLAVIC_PARTS.get(span.words.get("word", ""), ("", 0))
    if part:
        return f"{part} {date_words(day + DAY * nights, language)}"
    at = "" if prep in ("в", "во", "у") else prep
    return f"{at} {date_words(day, language)}"


def _slavic_week(span: Span, prep: str, monday: date, language: Language) -> str:
    words = date_words(monday, language)
    if prep in ("с", "з", "до", "к"):
        return f"{prep} {words}"
    if language == "uk":
        return f"{prep} {span.words['unit']} з {words}" if prep else f"на тижні з {words}"
    return f"{prep} {span.words['unit']} с {words}"


def _slavic_month(span: Span, prep: str, first: date, language: Language) -> str:
    at = "в" if language == "ru" else "у"
    if span.kind in ("ago", "ahead"):
        if prep in ROUGHLY_OF:
            return f"{prep} {_month(first, 'genitive', language)} {first.year}"
        return f"{prep} {at} {_month(first, 'locative', language)} {first.year}"
    noun = span.words.get("unit", "")
    if language == "uk" and not prep and noun in ("місяця", ""):
        return f"{at} {_month(first, 'locative', language)} {first.year}"
    case = CASES.get(noun, "nominative")  # a unit of another language has no case here
    name = span.words.get("month") or _month(first, case, language)
    return f"{prep} {name} {first.year}"


def _slavic_season(span: Span, prep: str, first: date, language: Language) -> str:
    noun = span.words["season"]
    if language == "uk" and not prep:
        noun = UKRAINIAN_SEASONS[first.month]
    winter = first.month == WINTER
    if language == "uk":
        return f"{prep} {noun} {_season_years(first)} {'років' if winter else 'року'}"
    return f"{prep} {noun} {_season_years(first)} {'годов' if winter else 'года'}"


def _slavic_year(span: Span, prep: str, first: date, language: Language) -> str:
    noun = span.words.get("unit", "")
    if span.kind == "named":
        return f"{prep} {first.year} {noun}"
    if language == "uk":
        return f"{prep} {first.year} року"
    return f"{prep} {first.year} года" if prep in ROUGHLY_OF else f"{prep} в {first.year} году"


def _month(first: date, case: Case, language: Language) -> str:
    if case == "nominative":
        return NOMINATIVE[language].split()[first.month - 1]
    genitive = GENITIVE[language].split()[first.month - 1]
    if case == "genitive":
        return genitive
    if genitive.endswith("ого"):
        return genitive.removesuffix("ого") + "ому"
    return genitive[:-1] + ENDINGS[language, case][genitive[-1]]


def _season_years(first: date) -> str:
    return f"{first.year}–{first.year + 1}" if first.month == WINTER else str(first.year)


def _from_to(days: Days, language: Language) -> str:
    """``с 19 по 22 ноября 2026``, ``from 30 October 2026 to 2 November 2026``."""
    beginning, to = {"ru": ("с", "по"), "uk": ("з", "до"), "en": ("from", "to")}[language]
    first, last = days.first, days.after - DAY
    same_month = (first.year, first.month) == (last.year, last.month)
    first_words = str(first.day) if same_month else date_words(first, language)
    return f"{beginning} {first_words} {to} {date_words(last, language)}"


def _range_words(days: Days, language: Language) -> str:
    """``28–29 ноября 2026``, ``31 октября – 1 ноября 2026``."""
    first, last = days.first, days.after - DAY
    if first.month == last.month:
        return f"{first.day}–{date_words(last, language)}"
    beginning = date_words(first, language)
    if first.year == last.year:
        beginning = beginning.removesuffix(f" {first.year}")
    return f"{beginning} – {date_words(last, language)}"
