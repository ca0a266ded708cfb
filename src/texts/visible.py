"""Whether there is anything to see in a text."""

from __future__ import annotations

import unicodedata

# Unicode's Default_Ignorable_Code_Point, the noncharacters, and letters and symbols that are drawn
# as nothing: Hangul fillers, the empty Braille pattern, the musical null notehead. Telegram takes
# a message of nothing else for an empty one.
BLANK_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFDD0, 0xFDEF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1D159, 0x1D159),
    (0xE0000, 0xE0FFF),
)
BLANKS = frozenset(code for first, last in BLANK_RANGES for code in range(first, last + 1))
# Controls, formats, halves of pairs, separators, and marks that need a letter to stand on. What
# Python does not know yet (Cn) may well be next year's emoji.
UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Mc", "Me", "Mn"})


def is_visible(text: str) -> bool:
    """Whether at least one character of the text can be seen."""
    return any(map(_is_seen, text))


def _is_seen(character: str) -> bool:
    code = ord(character)
    if code in BLANKS or code & 0xFFFE == 0xFFFE:  # the last two of every plane are noncharacters
        return False
    return unicodedata.category(character) not in UNSEEN_CATEGORIES


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut at the end of a sentence or a word."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    cut = text[:limit]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? ", "… "))
    return cut[: end + 1] if end > limit // 2 else f"{cut.rpartition(' ')[0] or cut}…"
