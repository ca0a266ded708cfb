"""Text normalization: invisible characters, typography, case, punctuation."""

import re
import unicodedata
from collections.abc import Sequence

# ``plain`` keeps punctuation, to match quotes; ``normalise`` drops it, to compare facts.

# Default-ignorable code points of Unicode 15 (soft hyphen, zero-width and bidi controls,
# fillers, variation selectors, tags), noncharacters, controls other than whitespace, and blank
# glyphs: the blank Braille pattern, the musical null notehead.
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
TYPOGRAPHY = str.maketrans(
    dict.fromkeys("’ʼ‘‛`´′ʹ＇", "'")
    | dict.fromkeys("«»„“”‟″‹›＂", '"')
    | dict.fromkeys("‐‑‒–—―−⁃﹣－", "-")
)

CUT = "[…]"  # replaces a forgotten part of a message
# Signs other than letters, of which some are significant: an address, a number, an apostrophe
# inside a word, C++ and C#. The bounds and look-behinds keep the search linear.
SIGN = re.compile(
    r"(?P<address>(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{0,250}\w)"
    r"|(?P<number>(?:(?<![\w-])-)?(?<!\w)\d+(?:[.,:]\d+)*)"
    r"|(?P<inside>(?<=[^\W\d_])'(?=[^\W\d_])|(?<=[a-z])(?:\+\+|\#)(?!\w))|[^\w\s]"
)


def plain(text: str) -> str:
    """Return a text in NFC and lower case, with one kind of apostrophe, quote, dash and space."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(visible.casefold().translate(TYPOGRAPHY).split())


def flat(text: str) -> str:
    """Return ``plain`` text with ``е`` for ``ё``."""
    return without_yo(plain(text))


def without_yo(text: str) -> str:
    """Replace ``ё`` by ``е``: most people do not write it."""
    return text.replace("ё", "е")


def blank(match: re.Match[str]) -> str:
    """Return as many spaces as were matched, which keeps the offsets of the other words."""
    return " " * len(match.group())


def normalise(text: str) -> str:
    """Return the words, numbers and symbols of a text, separated by single spaces.

    NFKC, lower case, ``е`` for ``ё``. Punctuation is dropped except where it distinguishes facts:
    the sign and the fraction of a number (``15:00`` becomes ``15.00``), an e-mail address, C++,
    C#. Emoji and currency signs are symbols and stay.
    """
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    folded = without_yo(unicodedata.normalize("NFKC", visible).translate(TYPOGRAPHY))
    return " ".join(SIGN.sub(_significant_part, folded).split())


def _significant_part(match: re.Match[str]) -> str:
    sign = match.group()
    if match.lastgroup == "number":
        return f" {sign.replace(',', '.').replace(':', '.')} "
    if match.lastgroup is not None:
        return sign
    category = unicodedata.category(sign)
    if category.startswith("M"):
        return sign
    return f" {sign} " if category in ("Sc", "Sm", "So") or sign == "%" else " "


def between(text: str, cuts: Sequence[tuple[int, int]]) -> list[str]:
    """Return the pieces of a text outside the spans ``cuts``."""
    ends = [0, *(end for _, end in cuts)]
    starts = [*(start for start, _ in cuts), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def single_spaced(text: str) -> str:
    """Collapse whitespace between words to one space or one line break."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


# Controls, formats, surrogates, separators, and combining marks: Telegram treats a message that
# consists of these as empty. Unassigned characters (Cn) may be emoji newer than Python's data.
UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Mc", "Me", "Mn"})


def is_visible(text: str) -> bool:
    """Return True if at least one character of the text is visible."""
    return any(
        unicodedata.category(char) not in UNSEEN_CATEGORIES and ord(char) & 0xFFFE != 0xFFFE
        for char in INVISIBLE.sub("", text)  # the last two of every plane are noncharacters
    )


def shortened(text: str, limit: int) -> str:
    """Return at most ``limit`` characters, cut after a sentence or a word."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    cut = text[:limit]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? ", "… "))
    return cut[: end + 1] if end > limit // 2 else f"{cut.rpartition(' ')[0] or cut}…"
