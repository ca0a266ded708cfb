"""Messages typed on a phone: with slips ("remid", "зватра"), or in Latin letters ("napomni")."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from src.reading import lexicon
from src.reading.words import in_latin
from src.texts.morphology import parts_of_speech

MAX_TEXT = 1_000  # characters; a longer message is no order
# A word long enough for a slip in it to be clear.
LETTERS = re.compile(r"(?=[^\W\d_]['’ʼ\w]{3})[^\W\d_]{1,15}(?:['’ʼ][^\W\d_]{2,10})?")
TIMES = ("time.weekday", "time.weekdays_many", "time.month", "time.day", "time.mended")
MIN_LATIN, MIN_CYRILLIC = 6, 5  # letters of a mended word
LANGUAGES = ("ru", "uk")  # that are typed in Latin letters


@lru_cache(maxsize=256)
def mend_orders(text: str) -> str:
    """Return a message without slips in the words of orders and times.

    A message in Latin letters that begins with a Russian or Ukrainian order is written in Cyrillic
    ones.
    """
    if len(text) > MAX_TEXT:
        return text
    first = next((match[0] for match in LETTERS.finditer(text) if match[0].isascii()), "")
    latin = in_latin(first.lower())
    for language in LANGUAGES:
        if order := _latin_orders(language).get(latin):
            return mended(order + _in_cyrillic(text.partition(first)[2], language))
    return mended(text)


def mended(text: str) -> str:
    """Return the text with slips of one letter mended in its orders, weekdays, months and days.

    Only words in no dictionary are mended, and no names: "зватра", "four o'clock on firday".
    """
    return LETTERS.sub(_mend, text)


def _mend(match: re.Match[str]) -> str:
    word = match[0]
    is_name = word[0].isupper() and not word.isascii() and match.start() > 0
    return word if is_name else _meant(word.lower().replace("ё", "е")) or word


@lru_cache(maxsize=4_000)
def _meant(word: str) -> str | None:
    """Return the word that a lower-case word is a slip of, or None."""
    nearest = (_near_forms().get(near) for near in (word, *_deletions(word)))
    meant = next((form for form in nearest if form and _is_slip(word, form)), None)
    if meant is None or word in _forms() or word in lexicon.words("time.no_typo"):
        return None
    return None if parts_of_speech(word) else meant


def _is_slip(word: str, form: str) -> bool:
    """Return True if a word near to another one can be a slip of it.

    In an English order, a wrong letter makes another word too easily ("rewind"), and so does a
    change of the last one ("forge", "cancels"); no dictionary tells them.
    """
    if word[0] != form[0] or abs(len(word) - len(form)) > 1:
        return False
    if not word.isascii() or form not in lexicon.words("slips.orders"):
        return True
    return (len(word) != len(form) and word[-1] == form[-1]) or sorted(word) == sorted(form)


@cache
def _forms() -> frozenset[str]:
    """Return the words in which slips are mended, in all their forms."""
    entries = (form for group in ("slips.orders", *TIMES) for form in lexicon.forms(group))
    forms = {form for entry in entries for form in (entry, entry.replace("'", ""))}
    return frozenset(f for f in forms if len(f) >= (MIN_LATIN if f.isascii() else MIN_CYRILLIC))


@cache
def _near_forms() -> dict[str, str]:
    """Return the same words by themselves and with any letter left out."""
    return {near: form for form in sorted(_forms()) for near in (form, *_deletions(form))}


def _deletions(word: str) -> Iterator[str]:
    return (word[:i] + word[i + 1 :] for i in range(len(word)))


@cache
def _latin_orders(language: str) -> dict[str, str]:
    """Return the words of orders by their spelling in Latin letters."""
    orders: list[str] = lexicon.of_language("slips.orders", language)
    return {in_latin(order): order for order in orders}


def _in_cyrillic(text: str, language: str) -> str:
    """Return a text in the letters of a language; what is no Latin letter stays."""
    letters = lexicon.pairs("slips.latin", language)
    written, at = "", 0
    lower = text.lower()
    while at < len(text):
        size = next((n for n in (4, 3, 2, 1) if lower[at : at + n] in letters), 0)
        written += letters[lower[at : at + size]] if size else text[at]
        at += size or 1
    return written
