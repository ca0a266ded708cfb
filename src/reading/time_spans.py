"""Where a text speaks of time: spans, found by one regular expression per way of saying it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Generic, Literal, NamedTuple, TypeVar

from src.reading import lexicon
from src.reading import times as w
from src.reading.times import unit_of

Label = TypeVar("Label")
NAME = re.compile(r"\(\?P<\w+>")


class Found(NamedTuple, Generic[Label]):
    """A match of a rule.

    Attributes:
        label: Of the rule.
        match: Where it matches.
        words: Its parts by name, as they stand there.
    """

    label: Label
    match: re.Match[str]
    words: dict[str, str]


class RuleScanner(Generic[Label]):
    """Finds the first place where any rule matches; of rules that match there, the first."""

    def __init__(self, rules: Iterable[tuple[Label, str]], *, begins: str) -> None:
        """Compile the rules, with the groups of the lexicon in them.

        Args:
            rules: Each with its label, in the order of trial.
            begins: An expression that must match where a rule begins.
        """
        sources = [(label, lexicon.expanded(source)) for label, source in rules]
        nameless = (NAME.sub("(?:", source) for _, source in sources)
        either = "|".join(f"(?P<r{n}>(?:{source})(?!\\w))" for n, source in enumerate(nameless))
        self._either = re.compile(f"{begins}(?:{either})")
        self._rules = [(label, re.compile(rf"(?:{source})(?!\w)")) for label, source in sources]

    def first(self, text: str, position: int) -> Found[Label] | None:
        """The first match at or behind a place of a folded text; None: there is none."""
        hit = self._either.search(text, position)
        if hit is None:
            return None
        label, rule = self._rules[int((hit.lastgroup or "r0")[1:])]
        match = rule.match(text, hit.start())
        return None if match is None else Found(label, match, words_of(match))


def words_of(match: re.Match[str]) -> dict[str, str]:
    """The named parts of a match that say something."""
    return {name: word for name, word in match.groupdict().items() if word}


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

# Expressions with groups of the lexicon in them.
AFTER_PREPOSITION = "(?P<prep><time.edge>|<time.preposition>)(?: the)?[ -]"
P = f"(?:{AFTER_PREPOSITION})?(?:the )?"

# What a number counts cannot be a date: "за 2000 рублей", "May 5 people".
COUNTED = r"(?! ?(?:[%€$₽₴]|<time.counted>(?!\w)))"
MODAL_MAY = r"(?! <time.after_may>\b)"

DAY_NUMBER = "(?:3[01]|[12][0-9]|0?[1-9])"
DAY = rf"(?:{DAY_NUMBER}(?:-?<time.day_endings>\b|(?!\w))|{w.ORDINAL})"
DAY_AFTER_MONTH = rf"(?:(?:the )?{DAY}(?![:%]|[./][0-9]|,[0-9](?![0-9]{{3}}\b)){COUNTED})"
DIGIT_DATE = (
    r"(?<![\w.,:/+-])(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}-|\.[0-9]{2}\.|/[0-9]{2}/)[0-9]{2}"
    r"|[0-9]{1,2}(?:-[0-9]{1,2}-|\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2}"
    r"|[0-9]{2}\.[0-9]{2}\.[0-9]{2})(?![\w/+-]|[.,:][0-9])"
)
IN_YEAR = rf"(?P<year>{w.YEAR})(?:-?<time.number_of_year>\b)?(?: <time.year_noun>)?"
YEAR_TAIL = f"(?:(?:, ?| ){IN_YEAR})?"
MONTH_ANY = r"(?:<time.month>|<time.month_short>[.]?)(?!\w)"
DAY_OF_MONTH = rf"(?:the )?(?P<day>{DAY}) (?:of )?(?P<month>{MONTH_ANY})(?:(?<!may)|{MODAL_MAY})"
MONTH_AND_DAY = rf"(?P<month><time.month_first>(?!\w)) (?P<day>{DAY_AFTER_MONTH})"
TO = "(?P<link> ?- ?| <time.to> )"
PART = "(?:,? (?:in the |at )?(?P<part><time.part_english>|<time.part>))?"
DAY_WORD = "(?:<time.day>|<time.day_adjective>)"
NOUN = "(?:(?P<weekday><time.weekday>)|(?P<month><time.month>)|(?P<season><time.season>))"
WHICH_NOUN = (
    rf"(?P<which><time.which>) (?:(?P<unit><time.unit_one>)|(?P<weekend><time.weekend>)|{NOUN})"
    r"(?! of\b)"
)
MONTH_OF_YEAR = f"(?P<month>{MONTH_ANY}),? (?:of )?{IN_YEAR}"
NUMBER_OF_UNITS = f"(?P<n>{w.NUMBER}) (?P<unit><time.unit>)"
SOME_UNITS = f"(?:(?P<n>{w.NUMBER}) )?(?:(?P<half><time.half_year>)|(?P<unit><time.unit>))"

RULES: tuple[tuple[Kind, str], ...] = (
    (
        "habit",
        rf"<time.each>(?: (?:<time.other>|{w.NUMBER}))? (?:<time.unit>|<time.weekday>"
        "|<time.season>|<time.weekend>|<time.month>|<time.part_noun>)",
    ),
    ("habit", "<time.habit>"),
    ("narrated", "<time.narrated>"),
    ("someday", "<time.someday>"),
    ("recent", "<time.recent>"),
    ("week of", rf"{P}<time.week> <time.week_from> (?P<number>{DIGIT_DATE})"),
    ("week of", rf"{P}<time.week> <time.week_from> {DAY_OF_MONTH}{YEAR_TAIL}"),
    (
        "days",
        rf"{P}(?P<day>{DAY}){TO}(?P<last_day>{DAY}) (?:of )?(?P<month>{MONTH_ANY}){YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<month><time.month_first>(?!\w)) (?P<day>{DAY}){TO}"
        rf"(?P<last_day>{DAY_AFTER_MONTH}){YEAR_TAIL}",
    ),
    ("date", rf"{P}(?:<time.weekday>,? )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{P}(?:<time.weekday>,? (?:the )?)?{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{P}(?:<time.weekday>,? )?{MONTH_AND_DAY}{YEAR_TAIL}"),
    (
        "month day",
        rf"(?:(?P<prep><time.since>|<time.until>|<time.to_day>|<time.between>) )?"
        rf"(?P<day>{DAY_NUMBER}(?:-?<time.day_endings>)?) <time.day_of_month>",
    ),
    (
        "month day",
        rf"(?P<prep>on|since|until|by|from) the (?P<day>{DAY_NUMBER}(?:st|nd|rd|th))"
        "(?= of (?:this|last|next) month|[,.;!?]|$)",
    ),
    (
        "ago",
        f"(?:(?P<hedge><time.hedge>) )?(?:(?P<prep><time.roughly>) )?{SOME_UNITS} <time.ago>",
    ),
    (
        "ahead",
        rf"<time.ahead> (?:(?P<prep><time.roughly>) )?{SOME_UNITS}(?! <time.later>)",
    ),
    (
        "ahead",
        rf"in (?:(?P<prep><time.roughly>) )?(?:{NUMBER_OF_UNITS}|(?P<half><time.half_year>))"
        "(?:'s?)?(?: time)?(?! (?:of|after|from))",
    ),
    ("ahead", f"{NUMBER_OF_UNITS} from (?:now|today)"),
    ("lasting", f"{P}(?P<side><time.last_or_next>) {NUMBER_OF_UNITS}"),
    ("lasting", f"{P}(?P<side><time.latest>) (?P<unit><time.unit_one>)"),
    ("day", f"{P}(?P<word>{DAY_WORD})(?: (?P<noun><time.day_noun>))?{PART}"),
    ("named", rf"{P}{WHICH_NOUN}{PART}"),
    ("named", "(?P<prep><time.edge>) (?:the )?(?P<unit><time.unit_one>)"),
    (
        "named",
        rf"{P}(?P<season><time.season>),? (?:of )?(?P<year>{w.YEAR})(?:-(?P<year_to>{w.YEAR}))?"
        "(?: (?:<time.year_noun>|<time.years_noun>))?",
    ),
    ("named", rf"{P}{MONTH_OF_YEAR}"),
    ("named", rf"{AFTER_PREPOSITION}(?:(?P<weekend><time.weekend>)|{NOUN}){PART}"),
    ("named", "(?P<season><time.season_adverb>)"),
    ("named", f"(?P<weekday><time.weekday_alone>){PART}"),
    ("year", "(?P<year_word><time.year_word>)"),
    ("year", rf"{P}(?<![.,:/+-])(?P<year>{w.YEAR})(?: ?<time.year_noun>|-<time.year_endings>)"),
    ("year", f"(?:in )?(?:the )?year (?P<year>{w.YEAR})"),
    ("year", rf"{AFTER_PREPOSITION}(?P<year>{w.YEAR})(?![:/]|[.,-][0-9]){COUNTED}"),
)

# What may stand before "до 5 мая" or "before 5 May": it moves the day.
OFFSET = rf"(?:<time.offset_before> )?(?:the )?{SOME_UNITS} $"
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
    ("year", rf"{TO}(?P<year>{w.YEAR})(?: <time.year_noun>)?"),
)

DIGIT_HINT = r"\d(?:\d{3}|\d?[./-]\d|\d?(?:st|nd|rd|th)\b)"


def beginning_with(*groups: str) -> re.Pattern[str]:
    """A quick expression for words that begin as groups list: first letters are compared once."""
    beginnings = sorted(frozenset[str]().union(*map(lexicon.words, groups)))
    letters = groupby(beginnings, key=lambda word: word[0])
    parts = (f"{first}(?:{'|'.join(word[1:] for word in words)})" for first, words in letters)
    return re.compile(rf"\b(?:{'|'.join(parts)}|{DIGIT_HINT})")


# A span says which words stand there, not what they mean on a given day: ``calendar_days`` does.
# Ways of saying that name no time ("every Monday", "через день") are found too, so that nothing in
# them is taken for a date. No expression repeats a repetition, so all of them are quick on any
# text.

MAX_TEXT = 2000  # characters that are read; nobody dates anything in more

Role = Literal["at", "since", "after", "until"]

FOLDED = str.maketrans("ё’ʼ‘`´–—−‑‐", "е'''''-----")
RANGE_GROUPS = ("time.since", "time.between")  # what begins a range
ONWARDS = lexicon.Expression(" <time.onwards>")
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
        roles: tuple[Role, ...] = ("since", "after", "until")
        return next((role for role in roles if first in lexicon.words(f"time.{role}")), "at")


def tidy(text: str) -> str:
    """The beginning of a text, composed (NFC), with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text[:MAX_TEXT]).split())


def fold(text: str) -> str:
    """The text as the expressions want it, character by character (so that offsets hold)."""
    return text.replace("İ", "I").lower().translate(FOLDED)


def may_name_time(text: str) -> bool:
    """Whether a folded or lower-case text has any word of time; quick, for every turn."""
    return _hint().search(text) is not None


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
    position = 0
    while (found := _scanner().first(text, position)) is not None:
        span = _span(found.label, found.match)
        span = _with_offset(_with_end_of_range(span, text), text, position)
        position = (span.to or span).end
        yield span


def _span(kind: Kind, match: re.Match[str]) -> Span:
    return Span(match.start(), match.end(), kind, words_of(match))


def _with_end_of_range(span: Span, text: str) -> Span:
    """The span with what follows it in "from March to May" or "5 мая - 8 мая"."""
    first = span.preposition.partition(" ")[0]
    if span.kind != "date" and not any(first in lexicon.words(group) for group in RANGE_GROUPS):
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
    said = outer.words.get("unit") if outer.kind in ("named", "ago") else None
    unit = unit_of(said) if said else None
    if outer.kind == "year" or unit == "year":
        return inner.kind in ("date", "days") or not inner.words.keys().isdisjoint(
            ("month", "season")
        )
    if unit == "week":
        return "weekday" in inner.words
    return inner.kind == "month day" and unit == "month"


@cache
def _scanner() -> RuleScanner[Kind]:
    return RuleScanner(RULES, begins=r"\b(?<!')")


@cache
def _hint() -> re.Pattern[str]:
    return beginning_with("time.hints")


@cache
def _offset_rule() -> re.Pattern[str]:
    return re.compile(lexicon.expanded(rf"\b{OFFSET}"))


@cache
def _linked_rules() -> list[tuple[Kind, re.Pattern[str]]]:
    return [
        (kind, re.compile(lexicon.expanded(rf"(?:{pattern})(?!\w)")))
        for kind, pattern in LINKED_RULES
    ]
