"""What the local embedding model is given of a text.

The engine writes the expansion of each character into memory of a fixed size, and U+FDFA, which
becomes 18, overflows it. What is expanded here already has nothing left to expand: of all
characters in form NFKC none takes more room in the engine than it takes as UTF-8.
"""

from __future__ import annotations

import unicodedata

# Characters read of a text, for each that the model may get: text in form NFD becomes shorter.
READ_FACTOR = 2
# In a row; no script writes as many on one letter, and putting n in order takes n * n steps.
MAX_MARKS = 8
# Surrogates, private, unassigned: no text that anybody embeds.
MEANINGLESS = frozenset({"Cs", "Co", "Cn"})


def clean_start(text: str, limit: int) -> str:
    """The start of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[: READ_FACTOR * limit])[:limit]


def clean_end(text: str, limit: int) -> str:
    """The end of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[-READ_FACTOR * limit :])[-limit:]


def _clean(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category[0] == "M" else 0
        if category in MEANINGLESS or character.isspace():
            kept.append(" ")
        elif category != "Cc" and marks <= MAX_MARKS:
            kept.append(character)
    return unicodedata.normalize("NFKC", "".join(kept))
