"""Numbers that are written as words."""

from __future__ import annotations

from collections.abc import Iterable

from src.language import lexicon

MAX_ENDING = 4  # letters of an ordinal after its beginning ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number counts no thousands
# What a scale may grow to: of 2,000,003 thousand only the 3 is multiplied.
CEILINGS = {100: 1_000, 1_000: 10**6, 10**6: 10**9}


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """The words, with numbers in digits: "двадцать пять тысяч" and "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Read "первое" and "fifth" as well.
    """
    read: list[str] = []
    number: int | None = None
    scales = lexicon.numbers("numbers.scales")
    for word in words:
        if word in scales:
            if number is None and read and read[-1].isdecimal() and len(read[-1]) <= MAX_DIGITS:
                number = int(read.pop())
            number = _scaled(number or 1, scales[word])
            continue
        part = _value(word, ordinals=ordinals)
        if number is not None and part is not None and _continues(number, part):
            number += part
            continue
        if number is not None:
            read.append(str(number))
        number = part
        if part is None:
            read.append(word)
    return read if number is None else [*read, str(number)]


def _value(word: str, *, ordinals: bool) -> int | None:
    """The number that a word says by itself."""
    value = lexicon.numbers("numbers.cardinals").get(word)
    if value is not None or not ordinals:
        return value
    known = lexicon.numbers("numbers.ordinals")
    ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
    return next((known[word[:end]] for end in ends if word[:end] in known), None)


def _continues(number: int, part: int) -> bool:
    """Whether ``part`` fills the zeros at the end of ``number``: 20 and 5, but not 2 and 3."""
    return number > 0 and part > 0 and number % 10 ** len(str(part)) == 0


def _scaled(number: int, scale: int) -> int:
    """2 thousand; in 2,000,003 thousand the 3 alone is multiplied."""
    above, below = divmod(number, CEILINGS[scale])
    return above * CEILINGS[scale] + (below or 1) * scale
