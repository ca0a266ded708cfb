"""Text without what only looks different: invisible characters, kinds of quotes, case."""

import re
import unicodedata
from collections.abc import Sequence

# ``plain`` keeps punctuation (was the quote said?), ``normalise`` drops it (are two facts the
# same?).

# Default-ignorable code points of Unicode 15 (soft hyphen, zero-width and bidi controls,
# fillers, variation selectors, tags), noncharacters, controls that are no space, and what is drawn
# as nothing: the blank Braille pattern, the musical null notehead.
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

CUT = "[…]"  # stands in a message in the place of what was forgotten
# What means something although it is no letter: an address, a number, an apostrophe inside a
# word, C++ and C#. The bounds and the look-behinds keep the search linear.
SIGN = re.compile(
    r"(?P<address>(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{0,250}\w)"
    r"|(?P<number>(?:(?<![\w-])-)?(?<!\w)\d+(?:[.,:]\d+)*)"
    r"|(?P<inside>(?<=[^\W\d_])'(?=[^\W\d_])|(?<=[a-z])(?:\+\+|\#)(?!\w))|[^\w\s]"
)


def plain(text: str) -> str:
    """The text in NFC and lower case, with one kind of apostrophe, quote, dash and space."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(visible.casefold().translate(TYPOGRAPHY).split())


def flat(text: str) -> str:
    """The same, with ``е`` for ``ё``."""
    return without_yo(plain(text))


def without_yo(text: str) -> str:
    """The text with ``е`` for ``ё``, which most people do not write."""
    return text.replace("ё", "е")


def blank(match: re.Match[str]) -> str:
    """As many spaces as was matched, so that the places of the other words stay."""
    return " " * len(match.group())


def normalise(text: str) -> str:
    """The words, numbers and symbols of a text, one space between each two.

    NFKC, lower case, ``е`` for ``ё``; punctuation goes, except what tells two facts apart: the
    sign and the fraction of a number (``15:00`` becomes ``15.00``), an e-mail address, C++, C#.
    Emoji and currency signs are symbols and stay.
    """
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    folded = without_yo(unicodedata.normalize("NFKC", visible).translate(TYPOGRAPHY))
    return " ".join(SIGN.sub(_meaning, folded).split())


def _meaning(match: re.Match[str]) -> str:
    """What is left of a sign, a number or an address."""
    found = match.group()
    if match.lastgroup == "number":
        return f" {found.replace(',', '.').replace(':', '.')} "
    if match.lastgroup is not None:
        return found
    category = unicodedata.category(found)
    if category.startswith("M"):
        return found
    return f" {found} " if category in ("Sc", "Sm", "So") or found == "%" else " "


def between(text: str, cuts: Sequence[tuple[int, int]]) -> list[str]:
    """What is left of a text without some places, in pieces."""
    ends = [0, *(end for _, end in cuts)]
    starts = [*(start for start, _ in cuts), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def single_spaced(text: str) -> str:
    """The text with one space or one line break between each two words."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


# Controls, formats, halves of pairs, separators, and marks that need a letter to stand on:
# Telegram takes a message of nothing else for an empty one. What Python does not know yet (Cn)
# may well be next year's emoji.
UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Mc", "Me", "Mn"})


def is_visible(text: str) -> bool:
    """Whether at least one character of the text can be seen."""
    return any(
        unicodedata.category(one) not in UNSEEN_CATEGORIES and ord(one) & 0xFFFE != 0xFFFE
        for one in INVISIBLE.sub("", text)  # the last two of every plane are noncharacters
    )


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut at the end of a sentence or a word."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    cut = text[:limit]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? ", "… "))
    return cut[: end + 1] if end > limit // 2 else f"{cut.rpartition(' ')[0] or cut}…"
