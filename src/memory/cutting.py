"""Cutting what is forgotten out of what was said: ``[…]`` stands in its place."""

import unicodedata
from collections.abc import Iterable, Sequence

from src.reading import lexicon
from src.reading.words import content_words
from src.texts.plain_text import CUT, INVISIBLE, TYPOGRAPHY, without_yo

EDGES = " \"'.,;:!?()-…"  # around a quote, where models add and drop signs
# Between the clauses of a sentence.
CLAUSE_END = lexicon.AnyCase(r"[.!?;,:\n]+\s*|\s+[—–-]\s+|\s+(?=<find.clause>\s)")
# What is left of a sentence when all it said was cut out.
NOTHING = lexicon.AnyCase(r"[\W\d_]*(?:<find.left_over>[\W_]*)*")

Span = tuple[int, int]


def composed(text: str) -> str:
    """The text in NFC, as all places in it are counted."""
    return unicodedata.normalize("NFC", text)


def spans(text: str, quote: str) -> list[Span]:
    """Where a quote stands in a text, in any case, spacing and kind of quotation marks.

    Like the gate, it takes only places that begin and end where words do.

    Args:
        text: What was said; places are counted in ``composed(text)``.
        quote: The words; without letters or digits they stand nowhere.
    """
    flat, places = _normalised(composed(text))
    wanted, _ = _normalised(composed(quote))
    wanted = wanted.strip(EDGES)
    found: list[Span] = []
    start = flat.find(wanted) if any(map(str.isalnum, wanted)) else -1
    while start >= 0:
        end = start + len(wanted)
        cut_before = start > 0 and flat[start - 1].isalnum() and wanted[0].isalnum()
        cut_after = flat[end : end + 1].isalnum() and wanted[-1].isalnum()
        if not cut_before and not cut_after:
            found.append((places[start], places[end - 1] + 1))
        start = flat.find(wanted, start + 1)
    return _merged(found)


def clauses(text: str, within: Span | None = None) -> list[Span]:
    """The clauses of a text, or of a part of it, without the signs between them."""
    start, end = within or (0, len(text))
    found: list[Span] = []
    for match in CLAUSE_END.finditer(text, start, end):
        found.append((start, match.start()))
        start = match.end()
    return [(a, b) for a, b in (*found, (start, end)) if text[a:b].strip()]


def clauses_that_say(text: str, lemmas: frozenset[str], within: Span | None = None) -> list[Span]:
    """The clauses in which one of these words stands, in whatever form."""
    return [
        (start, end)
        for start, end in clauses(text, within)
        if any(word.lemmas & lemmas for word in content_words(text[start:end]))
    ]


def cut(text: str, parts: Iterable[Span]) -> str:
    """The text with ``[…]`` in place of these parts; nothing when it says nothing else."""
    text = composed(text)
    at, pieces = 0, []
    for start, end in _merged(sorted(parts)):
        pieces.append(text[at:start])
        at = end
    pieces.append(text[at:])
    return "" if all(map(NOTHING.fullmatch, pieces)) else CUT.join(pieces)


def without(parts: Sequence[Span], kept: Sequence[Span]) -> list[Span]:
    """The parts that do not overlap with ``kept``."""
    return [
        (start, end)
        for start, end in parts
        if not any(start < until and begin < end for begin, until in kept)
    ]


def _normalised(text: str) -> tuple[str, list[int]]:
    """The text normalised for comparison, and the original place of each letter."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if INVISIBLE.match(character):
            continue
        if character.isspace():
            if letters and letters[-1] != " ":
                letters.append(" ")
                places.append(place)
            continue
        for letter in without_yo(character.casefold().translate(TYPOGRAPHY)):
            letters.append(letter)
            places.append(place)
    return "".join(letters), places


def _merged(parts: Sequence[Span]) -> list[Span]:
    """Overlapping parts merged."""
    result: list[Span] = []
    for start, end in parts:
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
