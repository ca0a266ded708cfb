"""Text without what only looks different: invisible characters, kinds of quotes, case.

Three degrees, from mild to strong: ``plain`` keeps punctuation (was the quote said?),
``normalise`` drops it (are two facts the same?), ``readings`` undoes disguises (is it an order?).
"""

from __future__ import annotations

import re
import unicodedata

# Default-ignorable code points of Unicode 15 (soft hyphen, zero-width and bidi controls,
# fillers, variation selectors, tags), the blank Braille pattern, and controls that are no space.
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
TYPOGRAPHY = str.maketrans(
    dict.fromkeys("’ʼ‘‛`´′ʹ＇", "'")
    | dict.fromkeys("«»„“”‟″‹›＂", '"')
    | dict.fromkeys("‐‑‒–—―−⁃﹣－", "-")
)

# What means something although it is no letter: an address, a number, an apostrophe inside a
# word, C++ and C#. The bounds and the look-behinds keep the search linear.
SIGN = re.compile(
    r"(?P<address>(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{0,250}\w)"
    r"|(?P<number>(?:(?<![\w-])-)?(?<!\w)\d+(?:[.,:]\d+)*)"
    r"|(?P<inside>(?<=[^\W\d_])'(?=[^\W\d_])|(?<=[a-z])(?:\+\+|\#)(?!\w))"
    r"|[^\w\s]"
)

COMBINING = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
# "i g n o r e", "в-с-е-г-д-а": at least five single letters with one sign between each two.
SPACED_LETTERS = re.compile(r"(?<!\w)[^\W\d](?:[ .*_-][^\W\d]){4,}(?!\w)")
# Letters that look alike in the two alphabets, and digits that stand for letters.
TO_CYRILLIC = str.maketrans("ABCEHIKMOPTXYaceiopxy03", "АВСЕНІКМОРТХУасеіорхуоз")
TO_LATIN = str.maketrans("АВСЕНІКМОРТХУасеіорхукмт013457@$", "ABCEHIKMOPTXYaceiopxykmtoieastas")


def plain(text: str) -> str:
    """The text in NFC and lower case, with one kind of apostrophe, quote, dash and space."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(visible.casefold().translate(TYPOGRAPHY).split())


def normalise(text: str) -> str:
    """The words, numbers and symbols of a text, one space between each two.

    NFKC, lower case, ``е`` for ``ё``; punctuation goes, except what tells two facts apart: the
    sign and the fraction of a number (``15:00`` becomes ``15.00``), an e-mail address, C++, C#.
    Emoji and currency signs are symbols and stay.
    """
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    folded = unicodedata.normalize("NFKC", visible).translate(TYPOGRAPHY).replace("ё", "е")
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


def word_set(*lines: str) -> frozenset[str]:
    """The words of the lines, for tables of words."""
    return frozenset(word for line in lines for word in line.split())


def fold_marks(text: str) -> str:
    """The text in NFKD without marks above and below letters: ``и`` for ``й``, ``і`` for ``ї``."""
    return COMBINING.sub("", unicodedata.normalize("NFKD", text))


def single_spaced(text: str) -> str:
    """The text with one space or one line break between each two words."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def readings(text: str) -> set[str]:
    """The ways in which a disguised text may be read, in lower case, without empty lines.

    Invisible characters are taken out or read as spaces, marks and other alphabets' look-alikes
    become plain letters, "i g n o r e" becomes a word. At most six readings.
    """
    found = set()
    for gap in ("", " "):
        bare = fold_marks(INVISIBLE.sub(gap, text)).translate(TYPOGRAPHY)
        joined = SPACED_LETTERS.sub(_joined, bare)
        for alphabet in ({}, TO_CYRILLIC, TO_LATIN):
            found.add(single_spaced(joined.translate(alphabet).casefold()))
    return found


def _joined(match: re.Match[str]) -> str:
    """The letters without the signs between them."""
    return match.group()[::2]
