"""Texts that cause exponential backtracking in regular expressions.

If ``(?:so |so so )*`` is followed by a mismatch, all combinations of choices are tried, so a short
message of "so so so so …" takes practically for ever. ``(?>…)`` keeps the first choice.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import src
from src.reading.lexicon import Expression

REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
MANY = 4  # repetitions; fewer cannot take long
PLACES = (5, 10, 15, 20)  # each step multiplies an exponential time by 32
LONG = 20  # milliseconds of CPU time; linear expressions take a hundredth of one
CATEGORY = {
    op.CATEGORY_SPACE: " ", op.CATEGORY_NOT_WORD: " ",
    op.CATEGORY_DIGIT: "1", op.CATEGORY_WORD: "w",
}  # fmt: skip
OTHER = "w 1.\n"  # candidates for a member of a negated set


def expressions() -> dict[str, re.Pattern[str]]:
    """Return all compiled patterns of the bot's modules by their source."""
    found: list[Any] = []
    for module in pkgutil.walk_packages(src.__path__, "src."):
        found.extend(vars(importlib.import_module(module.name)).values())
    gc.unfreeze()  # frozen objects are not listed
    patterns = [value for value in found if isinstance(value, re.Pattern)]
    kinds = {Expression, *Expression.__subclasses__()}
    patterns += [value.compiled for value in gc.get_objects() if type(value) in kinds]
    return {one.pattern: one for one in patterns if isinstance(one.pattern, str)}


def slow_text(pattern: re.Pattern[str]) -> str | None:
    """Return a short text for which a pattern is slow, or None."""
    for beginning, choice in _repeated_parts(parser.parse(pattern.pattern, pattern.flags), ""):
        for places in PLACES:
            text = f"{beginning}{choice * places}\0"
            start = time.thread_time()
            pattern.search(text)
            pattern.fullmatch(text)
            if 1000 * (time.thread_time() - start) > LONG:
                return text
    return None


def _repeated_parts(tokens: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield (text before, text) for each text that a repeated part of a pattern matches."""
    for name, value in tokens:
        if name in REPEATS and value[1] > MANY:
            yield from ((before, text) for text in _texts_of_sequence(value[2]))
        for inner in _subpatterns(name, value):
            yield from _repeated_parts(inner, before)
        before += _texts_of_part(name, value, many=False)[0]


def _subpatterns(name: Any, value: Any) -> list[Any]:
    if name is op.BRANCH:
        return list(value[1])
    if name in (*REPEATS, op.POSSESSIVE_REPEAT):
        return [value[2]]
    if name is op.SUBPATTERN:
        return [value[3]]
    return [value] if name is op.ATOMIC_GROUP else []


def _texts_of_sequence(tokens: Any, *, many: bool = True) -> list[str]:
    """Return texts that a sequence matches: all texts of each part, with the others' first."""
    parts = [_texts_of_part(name, value, many=many) for name, value in tokens]
    firsts = [part[0] for part in parts]
    if not many:
        return ["".join(firsts)]
    varied = (
        "".join([*firsts[:at], text, *firsts[at + 1 :]])
        for at, part in enumerate(parts)
        for text in part
    )
    return list(dict.fromkeys(varied))


def _texts_of_part(name: Any, value: Any, *, many: bool = True) -> list[str]:
    """Return texts that a part of a pattern matches, or only the first; never an empty list."""
    if name is op.LITERAL:
        return [chr(value)]
    if name is op.NOT_LITERAL:
        return [next(sign for sign in OTHER if ord(sign) != value)]
    if name is op.ANY:
        return ["w"]
    if name is op.IN:
        return [_member_of(value)]
    if name in (*REPEATS, op.POSSESSIVE_REPEAT):
        least, _, inner = value
        texts = _texts_of_sequence(inner, many=many) or [""]
        return [text * max(least, 1) for text in texts] + ([""] if least == 0 else [])
    inner = [
        text
        for sequence in _subpatterns(name, value)[: None if many else 1]
        for text in _texts_of_sequence(sequence, many=many) or [""]
    ]
    return inner or [""]


def _member_of(members: Any) -> str:
    """Return a character that a set matches."""
    if members[0][0] is op.NEGATE:
        excluded = {chr(value) for name, value in members if name is op.LITERAL}
        kinds = {CATEGORY.get(value) for name, value in members if name is op.CATEGORY}
        return next(sign for sign in f"{OTHER}-" if sign not in excluded | kinds)
    name, value = members[0]
    if name is op.LITERAL:
        return chr(value)
    if name is op.RANGE:
        return chr(value[0])
    return CATEGORY.get(value, "w")
