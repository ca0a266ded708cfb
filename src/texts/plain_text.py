"""Plain text: encodings, invisible characters, typography, case, punctuation."""

import codecs
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from charset_normalizer import from_bytes

NFC = partial(unicodedata.normalize, "NFC")
NFKC = partial(unicodedata.normalize, "NFKC")

# One folding for quotes, search and the gate: ``plain`` keeps punctuation, ``normalise`` drops it.

# Default-ignorable code points of Unicode 15 (soft hyphen, zero-width and bidi controls,
# fillers, variation selectors, tags), noncharacters, controls other than whitespace, blank
# glyphs (the blank Braille pattern, the musical null notehead), and the stress on a vowel, where
# NFC leaves it apart.
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u0301\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
TYPOGRAPHY = str.maketrans(
    dict.fromkeys("’ʼ‘‛`´′ʹ＇", "'")
    | dict.fromkeys("«»„“”‟″‹›＂", '"')
    | dict.fromkeys("‐‑‒–—―−⁃﹣－", "-")
)
LETTERS = TYPOGRAPHY | {ord("ё"): "е"}  # most people do not write the dots

# Letters that look alike in both scripts, in lower case or as capitals.
LATIN, CYRILLIC = "abcehikmoptxy", "авсенікмортху"
TO_CYRILLIC = str.maketrans(LATIN, CYRILLIC)
TO_LATIN = str.maketrans(CYRILLIC, LATIN)
LATIN_LETTER = re.compile("[a-z]")
CYRILLIC_LETTER = re.compile("[а-яіїєґ]")
LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")  # those of ``str.splitlines``


def to_one_script(match: re.Match[str]) -> str:
    """Return a word of look-alikes in one script: that of its other letters, or of most.

    A word with letters that only one script has, of both, stays: "wifiшный".
    """
    word = match.group()
    latin, cyrillic = LATIN_LETTER.findall(word), CYRILLIC_LETTER.findall(word)
    only_latin, only_cyrillic = set(latin) - set(LATIN), set(cyrillic) - set(CYRILLIC)
    if not latin or not cyrillic or (only_latin and only_cyrillic):
        return word
    if only_latin or (not only_cyrillic and len(latin) > len(cyrillic)):
        return word.translate(TO_LATIN)
    return word.translate(TO_CYRILLIC)


def to_one_space(match: re.Match[str]) -> str:
    """Return one space or line break."""
    return " " if LINE_ENDS.isdisjoint(match.group()) else "\n"


# Steps after the letters are folded one by one: № and "No.", dots, typed apostrophes ("сім*я"),
# spaces, scripts.
STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<!\w)n(?:o\.?\s*)?(?=\d)"), lambda _match: "no "),
    (re.compile(r"(?<!\s)[^\S\n]+\.{2,}|\.{2,}"), lambda _match: "..."),
    (re.compile(r"(?<=[бпвмфркгґхджзнсчшщ])[\"*](?=[яюєї])"), lambda _match: "'"),
    (re.compile(r"\s{2,}|[^\S \n]"), to_one_space),
    (re.compile(r"[^\W_]+"), to_one_script),
)
# Without it no word has letters of both scripts, so the last step changes nothing.
MIXED = re.compile(r"[a-z]\d{0,9}[а-яіїєґ]|[а-яіїєґ]\d{0,9}[a-z]")


LONG_NUMBER = re.compile(r"\d(?:[ ().,'-]{0,2}\d){6,20}")  # phones, cards, millions
THOUSANDS = re.compile(r"(?<=\d)[ .,'](?=\d{3}(?!\d))")
CUT = "[…]"  # replaces a forgotten part of a message
# Signs other than letters, of which some are significant: an address, a number, an apostrophe
# inside a word, C++ and C#. The bounds and look-behinds keep the search linear.
SIGN = re.compile(
    r"(?P<address>(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{0,250}\w)"
    r"|(?P<number>(?:(?<![\w-])-)?(?<!\w)\d+(?!\d)(?![^\W\d_](?!\w))(?:[.,:]\d+)*)"
    r"|(?P<inside>(?<=[^\W\d_])'(?=[^\W\d_])|(?<=[a-z])(?:\+\+|\#)(?!\w))|[^\w\s]"
)


@lru_cache(maxsize=10_000)
def fold_letter(letter: str) -> str:
    """Return a letter folded by itself; nothing for an invisible one."""
    return NFKC(INVISIBLE.sub("", NFKC(letter)).casefold()).translate(LETTERS)


def plain(text: str) -> str:
    """Return a folded text: lower case, one kind of letter, apostrophe, quote, dash and space.

    NFKC ("m²" is "m2", full-width letters are plain), "е" for "ё", "no 5" for "№5" and "N5", three
    dots for "…", and each word in one script: a Latin "i" in "кiт" is Cyrillic.
    """
    folded = "".join(map(fold_letter, NFC(text)))
    for pattern, change in STEPS if MIXED.search(folded) else STEPS[:-1]:
        folded = pattern.sub(change, folded)
    return NFC(" ".join(folded.split()))


def plain_with_offsets(text: str) -> tuple[str, list[int]]:
    """Return a text as ``plain`` folds it, with its line breaks, and each character's origin.

    The origins are offsets in ``text`` in NFC.
    """
    letters = [*map(fold_letter, NFC(text))]
    folded = "".join(letters)
    offsets = [offset for offset, letter in enumerate(letters) for _ in letter]
    for pattern, change in STEPS if MIXED.search(folded) else STEPS[:-1]:
        pieces: list[str] = []
        origins: list[int] = []
        end = 0
        for match in pattern.finditer(folded):
            new, start = change(match), match.start()
            if new == match.group():
                continue
            pieces += [folded[end:start], new]
            last = match.end() - 1
            origins += offsets[end:start]
            origins += [offsets[min(start + n, last)] for n in range(len(new))]
            end = match.end()
        folded = "".join([*pieces, folded[end:]])
        offsets = [*origins, *offsets[end:]]
    return folded, offsets


def quote_pattern(quote: str) -> re.Pattern[str]:
    """Return an expression for the words of a quote in a folded text, whatever signs are between.

    Models drop and change punctuation, and write "80 кг" for "80кг" and "120000" for "120 000".
    Within a number only what groups its digits may differ: "15" is not in "1,5".
    """
    whole = LONG_NUMBER.sub(lambda number: re.sub(r"\D", "", number[0]), plain(quote))
    sought, before = "", ""
    for token in re.findall(r"\d+|[^\W\d_]+", THOUSANDS.sub("", whole)):
        if before:
            sought += r"[\W_]+" if before.isdigit() == token.isdigit() else r"[\W_]*"
        sought += _number_pattern(token) if token.isdigit() else token
        before = token
    return re.compile(rf"(?<![^\W_]){sought or '(?!)'}(?![^\W_])")


def _number_pattern(digits: str) -> str:
    """Return an expression for a number with or without signs between groups of its digits."""
    if LONG_NUMBER.fullmatch(digits):
        return "[ ().,'-]{0,2}".join(digits)
    return re.sub(r"(?<=\d)(?=(?:\d{3})+\Z)", "[ .,']?", digits)


def without_yo(text: str) -> str:
    """Replace ``ё`` by ``е``: most people do not write it."""
    return text.replace("ё", "е")


def blank(match: re.Match[str]) -> str:
    """Return as many spaces as were matched, which keeps the offsets of the other words."""
    return " " * len(match.group())


def normalise(text: str) -> str:
    """Return the words, numbers and symbols of a text, separated by single spaces.

    The text is ``plain``, and punctuation is dropped except where it distinguishes facts: the sign
    and the fraction of a number (``15:00`` becomes ``15.00``), a house number ("12а"), an e-mail
    address, C++, C#. Emoji and currency signs are symbols and stay.
    """
    return " ".join(SIGN.sub(_significant_part, plain(text)).split())


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


# Encodings of the languages of our users.

SAMPLE = 1 << 16  # bytes for detecting the encoding
# Legacy encodings of our languages. Among all encodings that it knows, the detector mistakes half
# of the texts in cp866; restricted to these, it is right for all texts of 100 letters and more.
LEGACY = ["cp1251", "koi8_u", "cp866", "iso8859_5", "cp1252", "utf_16_le", "utf_16_be"]
MARKS = {  # byte order marks; UTF-32's before UTF-16's, which is a prefix of it
    codecs.BOM_UTF8: "utf_8_sig",
    codecs.BOM_UTF32_LE: "utf_32",
    codecs.BOM_UTF32_BE: "utf_32",
    codecs.BOM_UTF16_LE: "utf_16",
    codecs.BOM_UTF16_BE: "utf_16",
}


def detect_legacy(data: bytes) -> str:
    """Return the legacy encoding of a text that is not UTF-8, by its beginning."""
    sample = data[: min(len(data), SAMPLE) // 2 * 2]  # whole units of UTF-16
    best = from_bytes(sample or data, cp_isolation=LEGACY).best()
    return best.encoding if best else LEGACY[0]  # a few words with foreign bytes


def find_mark(data: bytes) -> str | None:
    """Return the encoding that a byte order mark names, or None."""
    return next((name for mark, name in MARKS.items() if data.startswith(mark)), None)


def detect_encoding(data: bytes) -> str:
    """Return the encoding of a text by its beginning, which may end within a character."""
    marked = find_mark(data)
    if marked is not None:
        return marked
    try:
        codecs.getincrementaldecoder("utf_8")().decode(data)
    except UnicodeDecodeError:
        return detect_legacy(data)
    return "utf_8"
