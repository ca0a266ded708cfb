"""Where a text speaks of time: spans, found by one regular expression per way of saying it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Literal

from src.reading import times as w

Kind = Literal[
    "habit",  # каждую пятницу: no time at all
    "narrated",  # на следующий день: a time, but not one counted from now
    "someday",  # на днях, the other day: a day that nobody can tell
    "recent",  # недавно
    "week of",  # на неделе с 23 ноября
    "days",  # с 5 по 8 мая
    "date",  # 5 марта, 2026-03-05
    "month day",  # 5 числа, on the 5th
    "ago",  # два дня назад
    "ahead",  # через два дня
    "lasting",  # последние два дня
    "day",  # вчера вечером
    "named",  # в марте, прошлым летом, next week, on Monday
    "year",  # в 2024 году
    "offset",  # за два дня до 5 мая
]

# Before a part of a month, a year …: "в начале", "until the end of".
EDGE = (
    "(?:(?:в|к|с|до|на|от) (?:самом |самого )?(?:начал[еау]|середин[еыу]|кон(?:це|ца|цу|ец))"
    "|(?:на|наприкінці|з|від|до|у|в|під) (?:поча(?:тку|ток)|середин[іиу]|кін(?:ці|ця|ець))"
    "|наприкінці|(?:(?:in|at|by|since|until|from|before|after) )?(?:the )?"
    "(?:(?:beginning|start|middle|end) of|early|mid|late))"
)
PREPOSITION = (
    f"(?:{EDGE}|начиная со?|починаючи (?:зі?|із)|в течение|протягом|[ву]продовж"
    "|около|примерно|приблизительно|где-то|близько|приблизно|десь|между|між|between|around|about"
    "|since|until|till|before|after|during|from|over|for|of|on|in|at|by"
    "|после|після|перед|со|от|во|до|на|за|ко|про|по|об|із|зі|від|в|с|к|у|з|о)"
)
AFTER_PREPOSITION = rf"(?P<prep>{PREPOSITION})(?: the)?[ -]"
P = f"(?:{AFTER_PREPOSITION})?(?:the )?"

# What a number counts cannot be a date: "за 2000 рублей", "May 5 people".
COUNTED = (
    r"(?! ?(?:%|€|\$|₽|₴|руб|р\b|грн|грив|дол|евро|євро|тыс|тис|км|кг|м\b|г\b|шт|раз|человек"
    "|людей|осіб|слов|слів|шаг|крок|кал|ккал|мл|метр|страниц|сторін|балл|балів|words|people"
    "|persons|km|kg|kilo|miles|meters|dollars|euros|bucks|rub|uah|steps|calories|kcal|pages"
    "|points|users|cats|dogs|times|more))"
)
MODAL_MAY = r"(?! (?:be|have|not|also|well|come|need|want|seem|still|take|go|get|help|i|we|you)\b)"

DAY_NUMBER = "(?:3[01]|[12][0-9]|0?[1-9])"
DAY = rf"(?:{DAY_NUMBER}(?:-?(?:го|ого|е|те)\b|st\b|nd\b|rd\b|th\b|(?!\w))|{w.ORDINAL})"
DAY_AFTER_MONTH = rf"(?:(?:the )?{DAY}(?![:%]|[./][0-9]|,[0-9](?![0-9]{{3}}\b)){COUNTED})"
DIGIT_DATE = (
    r"(?<![\w.,:/+-])(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}-|\.[0-9]{2}\.|/[0-9]{2}/)[0-9]{2}"
    r"|[0-9]{1,2}(?:-[0-9]{1,2}-|\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2}"
    r"|[0-9]{2}\.[0-9]{2}\.[0-9]{2})(?![\w/+-]|[.,:][0-9])"
)
YEAR_TAIL = rf"(?:(?:, ?| )(?P<year>{w.YEAR})(?:-?го\b)?(?: {w.YEAR_NOUN})?)?"
MONTH_ANY = rf"(?:{w.MONTH}|{w.MONTH_SHORT})(?!\w)"
MONTH_ENGLISH = rf"(?:{w.MONTH_ENGLISH}|{w.MONTH_SHORT_ENGLISH})(?!\w)"
DAY_OF_MONTH = rf"(?:the )?(?P<day>{DAY}) (?:of )?(?P<month>{MONTH_ANY})(?:(?<!may)|{MODAL_MAY})"
MONTH_AND_DAY = rf"(?P<month>{MONTH_ENGLISH}) (?P<day>{DAY_AFTER_MONTH})"
TO = "(?P<link> ?- ?| (?:по|до|и|та|і|й|to|till|until|through|and) )"
PART = rf"(?:,? (?:in the |at )?(?P<part>{w.PART}))?"
DAY_WORD = f"(?:{w.any_of(list(w.DAY_WORDS))}|{w.DAY_ADJECTIVE})"
NOUN = rf"(?:(?P<weekday>{w.WEEKDAY})|(?P<month>{w.MONTH})|(?P<season>{w.SEASON}))"
WHICH_NOUN = (
    rf"(?P<which>{w.WHICH}) (?:(?P<unit>{w.UNIT_ONE})|(?P<weekend>{w.WEEKEND})|{NOUN})(?! of\b)"
)
MONTH_OF_YEAR = (
    rf"(?P<month>{MONTH_ANY}),? (?:of )?(?P<year>{w.YEAR})(?:-?го\b)?(?: {w.YEAR_NOUN})?"
)
NUMBER_OF_UNITS = rf"(?P<n>{w.NUMBER}) (?P<unit>{w.UNIT})"
SOME_UNITS = rf"(?:(?P<n>{w.NUMBER}) )?(?:(?P<half>{w.HALF_YEAR})|(?P<unit>{w.UNIT}))"
HEDGE = (
    "больше|более|меньше|менее|почти|больш|більше|менше|понад|майже|almost|nearly|over"
    "|(?:more|less) than"
)
ROUGHLY = "около|примерно|приблизительно|где-то|близько|приблизно|десь|about|around|roughly"

RULES: tuple[tuple[Kind, str], ...] = (
    (
        "habit",
        r"(?:кажд[а-я]{2,3}|кожн[а-яії]{1,3}|every|each)(?: (?:other|second|друг[а-я]{2,3}"
        rf"|{w.NUMBER}))? (?:{w.UNIT}|{w.WEEKDAY}|{w.SEASON}|{w.WEEKEND}|{w.MONTH}"
        rf"|{w.PART_ENGLISH}|утро|вечер|ночь|ранок|вечір|ніч)",
    ),
    ("habit", f"через день|in a day|{w.WEEKDAY} (?:mornings|afternoons|evenings|nights)"),
    ("narrated", "на следующий день|наступного дня|(?:the )?following (?:day|week|month|year)"),
    ("narrated", "the next day"),
    (
        "someday",
        "на днях|цими днями|(?<!ими )днями(?! (?:й|і|и|та) )|(?:the )?other day"
        "|one of these days|в ближайшие дни|(?:у|в) найближчі дні|найближчими днями"
        "|in the (?:next|coming) days|(?:после){2,3}завтра|(?:після){2,3}завтра"
        "|(?:поза){2,3}вч[ео]ра|позапозавч[ео]ра",
    ),
    (
        "recent",
        "(?:совсем )?недавно|нещодавно|(?:в|за) последнее время|останнім часом|recently|lately",
    ),
    ("week of", rf"{P}(?:недел[яеюи]|тиж(?:день|ні|ня)) (?:с|з) (?P<number>{DIGIT_DATE})"),
    (
        "week of",
        rf"{P}(?:недел[яеюи]|тиж(?:день|ні|ня)|week) (?:с|з|of) {DAY_OF_MONTH}{YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<day>{DAY}){TO}(?P<last_day>{DAY}) (?:of )?(?P<month>{MONTH_ANY}){YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<month>{MONTH_ENGLISH}) (?P<day>{DAY}){TO}(?P<last_day>{DAY_AFTER_MONTH})"
        rf"{YEAR_TAIL}",
    ),
    ("date", rf"{P}(?:{w.WEEKDAY},? )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{P}(?:{w.WEEKDAY},? (?:the )?)?{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{P}(?:{w.WEEKDAY},? )?{MONTH_AND_DAY}{YEAR_TAIL}"),
    ("month day", rf"(?:(?P<prep>с|до|к|з|від) )?(?P<day>{DAY_NUMBER}(?:-?го)?) числа"),
    (
        "month day",
        rf"(?P<prep>on|since|until|by|from) the (?P<day>{DAY_NUMBER}(?:st|nd|rd|th))"
        "(?= of (?:this|last|next) month|[,.;!?]|$)",
    ),
    (
        "ago",
        rf"(?:(?P<hedge>{HEDGE}) )?(?:(?P<prep>{ROUGHLY}) )?{SOME_UNITS}"
        " (?:(?:тому )?назад|тому(?! що)|ago)",
    ),
    ("ahead", rf"через (?:(?P<prep>{ROUGHLY}) )?{SOME_UNITS}(?! (?:после|після|від))"),
    (
        "ahead",
        rf"in (?:(?P<prep>{ROUGHLY}) )?(?:{NUMBER_OF_UNITS}|(?P<half>{w.HALF_YEAR}))"
        "(?:'s?)?(?: time)?(?! (?:of|after|from))",
    ),
    ("ahead", f"{NUMBER_OF_UNITS} from (?:now|today)"),
    (
        "lasting",
        rf"{P}(?P<side>последн[а-я]{{2,3}}|останн[а-яії]{{1,3}}|прошл[а-я]{{2,3}}|минул[а-яії]{{1,3}}"
        rf"|ближайш[а-я]{{2,3}}|найближч[а-яії]{{1,3}}|следующ[а-я]{{2,3}}|наступн[а-яії]{{1,3}}"
        rf"|last|past|next|coming) {NUMBER_OF_UNITS}",
    ),
    (
        "lasting",
        rf"{P}(?P<side>последн(?:ий|его|юю|ей|яя)|останн(?:ій|ього|я|ю)|past)"
        rf" (?P<unit>{w.UNIT_ONE})",
    ),
    ("day", rf"{P}(?P<word>{DAY_WORD})(?: (?P<noun>день|дня|дню|дне|дні))?{PART}"),
    ("named", rf"{P}{WHICH_NOUN}{PART}"),
    (
        "named",
        rf"(?P<prep>{EDGE}) (?:the )?"
        "(?P<unit>недел[ияю]|месяца|года|тижня|місяця|року|week|month|year)",
    ),
    (
        "named",
        rf"{P}(?P<season>{w.SEASON}),? (?:of )?(?P<year>{w.YEAR})(?:-(?P<year_to>{w.YEAR}))?"
        rf"(?: (?:{w.YEAR_NOUN}|годов|років))?",
    ),
    ("named", rf"{P}{MONTH_OF_YEAR}"),
    ("named", rf"{AFTER_PREPOSITION}(?:(?P<weekend>{w.WEEKEND})|{NOUN}){PART}"),
    ("named", rf"(?P<season>{w.SEASON_ADVERB})"),
    ("named", rf"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day){PART}"),
    ("year", f"(?P<year_word>{w.any_of(list(w.YEAR_WORDS))})"),
    ("year", rf"{P}(?<![.,:/+-])(?P<year>{w.YEAR})(?: ?{w.YEAR_NOUN}|-(?:го|й|м))"),
    ("year", f"(?:in )?(?:the )?year (?P<year>{w.YEAR})"),
    ("year", rf"{AFTER_PREPOSITION}(?P<year>{w.YEAR})(?![:/]|[.,-][0-9]){COUNTED}"),
)

# What may stand before "до 5 мая" or "before 5 May": it moves the day.
OFFSET = rf"(?:(?:за|через|in) )?(?:the )?{SOME_UNITS} $"
OFFSET_LENGTH = 40  # characters; none is longer

# What may end a range whose beginning was found: "from March | to May".
LINKED_RULES: tuple[tuple[Kind, str], ...] = (
    ("date", rf"{TO}(?:the )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{TO}{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{TO}{MONTH_AND_DAY}{YEAR_TAIL}"),
    ("day", rf"{TO}(?P<word>{DAY_WORD})"),
    ("named", rf"{TO}{WHICH_NOUN}"),
    ("named", rf"{TO}{MONTH_OF_YEAR}"),
    ("named", rf"{TO}{NOUN}"),
    ("year", rf"{TO}(?P<year>{w.YEAR})(?: {w.YEAR_NOUN})?"),
)

# How the words begin without which no rule matches; history and questions are read elsewhere.
HINTS = """
сегодн вчера позавчер позапозавч завтр послезавтр послепосл недел месяц год лет полгода пів
день дня дне дни дні сут доб діб час минут хвилин годин янв фев мар апр май мая мае маю июн июл
авг сен окт ноя дек понед втор сред четв пятн субб воскр выходн недавно нещодавно последн
останн числа утр вечер ноч ранк веч зим весн весной осен летом днями днях следующ сьогодн вчор
учор позавч післязавт післяпісля тиж місяц рік рок роц торік цьогор позатор січ лют бер квіт
трав черв лип серп вер жовт лист груд вівтор серед п'ят п’ят пʼят субот неділ вихідн літ влітку
улітку взимку узимку навесні восени осін ноч ніч найближч
today tonight yesterday tomorrow last this next week month year day hour minute half jan feb
mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun summer winter spring autumn
fall recent lately other following
"""
DIGIT_HINT = r"\d(?:\d{3}|\d?[./-]\d|\d?(?:st|nd|rd|th)\b)"


def beginning_with(beginnings: str, also: str) -> re.Pattern[str]:
    """A quick expression for words with these beginnings: first letters are compared once."""
    letters = groupby(sorted(set(beginnings.split())), key=lambda word: word[0])
    groups = (f"{first}(?:{'|'.join(word[1:] for word in words)})" for first, words in letters)
    return re.compile(rf"\b(?:{'|'.join(groups)}|{also})")


TIME_HINT = beginning_with(HINTS, DIGIT_HINT)


# A span says which words stand there, not what they mean on a given day: ``calendar_days`` does.
# Ways of saying that name no time ("every Monday", "через день") are found too, so that nothing in
# them is taken for a date. No expression repeats a repetition, so all of them are quick on any
# text.

MAX_TEXT = 2000  # characters that are read; nobody dates anything in more

Role = Literal["at", "since", "after", "until"]

FOLDED = str.maketrans("ё’ʼ‘`´–—−‑‐", "е'''''-----")
SINCE_WORDS = frozenset({"с", "со", "з", "зі", "із", "since", "начиная", "починаючи"})
AFTER_WORDS = frozenset({"после", "після", "after"})
UNTIL_WORDS = frozenset({"до", "перед", "before", "until", "till"})
RANGE_WORDS = SINCE_WORDS | {"от", "від", "from", "between", "между", "між"}
ONWARDS = re.compile(r" (?:onwards?\b|on(?=[,.!?]|$))")
ADJACENT = re.compile(r",? ?")


@dataclass(frozen=True)
class Span:
    """A time expression at ``[start, end)`` of a folded text.

    Attributes:
        start: Where it begins, its preposition included.
        end: Where it ends.
        kind: The way of saying it.
        words: Its parts by name (``prep``, ``which``, ``unit``, ``month`` …), as they stand there.
        within: A wider time that it lies in ("в понедельник | на прошлой неделе").
        to: The other end of a range ("с марта | по май").
    """

    start: int
    end: int
    kind: Kind
    words: Mapping[str, str] = field(default_factory=dict)
    within: Span | None = None
    to: Span | None = None

    @property
    def preposition(self) -> str:
        """The words before the time, without an article; empty without any."""
        return self.words.get("prep", "")

    @property
    def role(self) -> Role:
        """What the preposition makes of the time."""
        first = self.preposition.partition(" ")[0] if self.kind != "days" else ""
        if first in SINCE_WORDS:
            return "since"
        if first in AFTER_WORDS:
            return "after"
        return "until" if first in UNTIL_WORDS else "at"


def tidy(text: str) -> str:
    """The beginning of a text, composed (NFC), with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text[:MAX_TEXT]).split())


def fold(text: str) -> str:
    """The text as the expressions want it, character by character (so that offsets hold)."""
    return text.replace("İ", "I").lower().translate(FOLDED)


def may_name_time(text: str) -> bool:
    """Whether a folded or lower-case text has any word of time; quick, for every turn."""
    return TIME_HINT.search(text) is not None


def find_spans(folded: str) -> list[Span]:
    """The time expressions of a tidy, folded text, in order, not overlapping."""
    spans: list[Span] = []
    for span in _scan(folded):
        merged = _merged(spans[-1], span, folded) if spans else None
        if merged is None:
            spans.append(span)
        else:
            spans[-1] = merged
    return spans


def _scan(text: str) -> Iterator[Span]:
    """The matches of the rules, from left to right."""
    scanner, rules = _scanner()
    position = 0
    while (found := scanner.search(text, position)) is not None:
        kind, pattern = rules[int((found.lastgroup or "r0")[1:])]
        match = pattern.match(text, found.start())
        if match is None:  # cannot be: it is the alternative that just matched here
            return
        span = _with_offset(_with_end_of_range(_span(kind, match), text), text, position)
        position = (span.to or span).end
        yield span


def _span(kind: Kind, match: re.Match[str]) -> Span:
    words = {name: word for name, word in match.groupdict().items() if word}
    return Span(match.start(), match.end(), kind, words)


def _with_end_of_range(span: Span, text: str) -> Span:
    """The span with what follows it in "from March to May" or "5 мая - 8 мая"."""
    if span.preposition.partition(" ")[0] not in RANGE_WORDS and span.kind != "date":
        return span
    for kind, pattern in _linked_rules():
        match = pattern.match(text, span.end)
        if match is not None and (span.preposition or "-" in match["link"]):
            return replace(span, to=_span(kind, match))
    onwards = ONWARDS.match(text, span.end) if span.preposition == "from" else None
    if onwards is not None:
        return replace(span, end=onwards.end(), words={**span.words, "prep": "since"})
    return span


def _with_offset(span: Span, text: str, position: int) -> Span:
    """The span with what moves it, in "two days | before 5 May"."""
    if span.to is not None or span.role not in ("until", "after"):
        return span
    before = text[max(position, span.start - OFFSET_LENGTH) : span.start]
    match = _offset_rule().search(before)
    if match is None:
        return span
    start = span.start - len(before) + match.start()
    return Span(start, span.end, "offset", _span("offset", match).words, within=span)


def _merged(first: Span, second: Span, text: str) -> Span | None:
    """Two neighbours as one span, if one lies in the other; else None."""
    gap = text[first.end : second.start]
    if first.to or ADJACENT.fullmatch(gap) is None or second.role != "at":
        return None
    if "weekend" in first.words and second.kind in ("date", "days"):
        return replace(second, start=first.start)  # "на выходных | 28-29 ноября"
    if second.to:
        return None
    if _lies_in(first, second):
        return replace(first, end=second.end, within=second)
    if _lies_in(second, first):
        return replace(second, start=first.start, within=first)
    return None


def _lies_in(inner: Span, outer: Span) -> bool:
    """Whether ``outer`` says which week, month or year ``inner`` is of."""
    if "year" in inner.words or "which" in inner.words or inner.within:
        return False
    unit = outer.words.get("unit", "") if outer.kind in ("named", "ago") else ""
    if outer.kind == "year" or unit.startswith(("год", "рік", "рок", "роц", "year")):
        return inner.kind in ("date", "days") or not inner.words.keys().isdisjoint(
            ("month", "season")
        )
    if unit.startswith(("нед", "тиж", "week")):
        return "weekday" in inner.words
    return inner.kind == "month day" and unit.startswith(("мес", "міс", "month"))


@cache
def _scanner() -> tuple[re.Pattern[str], list[tuple[Kind, re.Pattern[str]]]]:
    """One expression that finds where any rule begins, and the rules themselves."""
    nameless = (re.sub(r"\(\?P<\w+>", "(?:", pattern) for _, pattern in RULES)
    rules = "|".join(f"(?P<r{number}>{pattern})" for number, pattern in enumerate(nameless))
    return re.compile(rf"\b(?<!')(?:{rules})(?!\w)"), [
        (kind, re.compile(rf"(?:{pattern})(?!\w)")) for kind, pattern in RULES
    ]


@cache
def _offset_rule() -> re.Pattern[str]:
    return re.compile(rf"\b{OFFSET}")


@cache
def _linked_rules() -> list[tuple[Kind, re.Pattern[str]]]:
    return [(kind, re.compile(rf"(?:{pattern})(?!\w)")) for kind, pattern in LINKED_RULES]
