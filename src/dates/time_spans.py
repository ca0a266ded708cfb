"""Where a text speaks of time: spans, found by one regular expression per way of saying it.

A span says which words stand there, not what they mean on a given day: ``calendar_days`` does.
Ways of saying that name no time ("every Monday", "через день") are found too, so that nothing in
them is taken for a date. No expression repeats a repetition, so all of them are quick on any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from src.dates.rule_scanner import RuleScanner, words_of
from src.dates.time_patterns import (
    LINKED_RULES,
    OFFSET,
    OFFSET_LENGTH,
    RULES,
    Kind,
    beginning_with,
)
from src.dates.time_words import unit_of
from src.language import lexicon

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
