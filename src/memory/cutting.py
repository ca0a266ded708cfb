"""Redaction of forgotten parts of messages; ``[…]`` takes their place."""

from collections.abc import Iterable, Sequence

from src.reading import lexicon
from src.reading.words import content_words
from src.texts.plain_text import CUT, NFC, plain_with_offsets, quote_pattern

# Separator of clauses.
CLAUSE_END = lexicon.AnyCase(
    r"[.!?;,:\n]+\s*|\s+[—–-]\s+|\s+(?=<find.clause>\s)|(?<=\d)\s+(?=[^\W\d_]{3,}\s\d)"
)
# Rest of a sentence from which all content was redacted.
NOTHING = lexicon.AnyCase(r"[\W\d_]*(?:<find.left_over>[\W_]*)*")

Span = tuple[int, int]


def spans(text: str, quote: str) -> list[Span]:
    """Return the spans of a quote in a text; both are folded as by ``plain``.

    Like the gate, it matches whole words only.

    Args:
        text: The message; spans are counted in ``NFC(text)``.
        quote: The words; without letters or digits they match nothing.
    """
    folded, indexes = plain_with_offsets(text)
    found = quote_pattern(quote).finditer(folded)
    return [(indexes[match.start()], indexes[match.end() - 1] + 1) for match in found]


def clauses(text: str, within: Span | None = None) -> list[Span]:
    """Return the clauses of a text, or of a part of it, without the separators."""
    start, end = within or (0, len(text))
    found: list[Span] = []
    for match in CLAUSE_END.finditer(text, start, end):
        found.append((start, match.start()))
        start = match.end()
    return [(a, b) for a, b in (*found, (start, end)) if text[a:b].strip()]


def clauses_that_say(text: str, lemmas: frozenset[str], within: Span | None = None) -> list[Span]:
    """Return the clauses that contain one of these lemmas in any form."""
    return [
        (start, end)
        for start, end in clauses(text, within)
        if any(word.lemmas & lemmas for word in content_words(text[start:end]))
    ]


def cut(text: str, parts: Iterable[Span]) -> str:
    """Return the text with ``[…]`` in place of these parts; empty if nothing else is left."""
    text = NFC(text)
    pieces: list[str] = []
    at = 0
    for start, end in sorted(parts):
        if start > at or not pieces:  # parts may overlap
            pieces.append(text[at:start])
        at = max(at, end)
    pieces.append(text[at:])
    return "" if all(map(NOTHING.fullmatch, pieces)) else CUT.join(pieces)


def without(parts: Sequence[Span], excluded: Sequence[Span]) -> list[Span]:
    """Return the parts that do not overlap with ``excluded``."""
    return [
        (start, end)
        for start, end in parts
        if not any(start < until and begin < end for begin, until in excluded)
    ]
