"""Orders as typed on a phone: with a slip ("remid me"), or in Latin letters ("napomni")."""

from functools import cache, lru_cache

from src.reading import lexicon
from src.reading.words import in_latin
from src.texts.morphology import WORD, parts_of_speech

MAX_TEXT = 300  # characters; a longer message is no order
MIN_LETTERS = 5  # of a word that may be misspelt
LANGUAGES = ("ru", "uk")  # that are typed in Latin letters


@lru_cache(maxsize=256)
def mend_orders(text: str) -> str:
    """Return a message with the misspelt words of orders as they are written.

    A message in Latin letters that begins with a Russian or Ukrainian order is written in Cyrillic
    ones. Words that a dictionary knows are no slips.
    """
    if len(text) > MAX_TEXT:
        return text
    found = [match[0] for match in WORD.finditer(text)]
    first = in_latin(found[0].lower()) if found and found[0].isascii() else ""
    for language in LANGUAGES:
        if order := _latin_orders(language).get(first):
            return order + _in_cyrillic(text.partition(found[0])[2], language)
    for word in found:
        if meant := _meant(word.lower()):
            text = text.replace(word, meant, 1)
    return text


@lru_cache(maxsize=4_000)
def _meant(word: str) -> str | None:
    """Return the word of an order that a word is a slip of, or None."""
    orders = lexicon.words("slips.orders")
    if len(word) < MIN_LETTERS or word in orders or parts_of_speech(word):
        return None
    return next((order for order in sorted(orders) if _is_slip(word, order)), None)


def _is_slip(word: str, order: str) -> bool:
    """Return True if a word differs by one letter that is missing, doubled, swapped or wrong.

    A wrong letter makes another English word too easily ("rewind"), and so does a missing last
    letter ("forge"); no dictionary tells them.
    """
    same = 0
    while same < min(len(word), len(order)) and word[same] == order[same]:
        same += 1
    rest, right = word[same:], order[same:]
    is_english = word.isascii()
    if not same or not rest:
        return False
    if rest == right[1:]:
        return True
    if rest[1:] == right:
        return rest[0] == word[same - 1] or not is_english
    if rest[2:] == right[2:] and rest[:2] == right[1::-1]:
        return True
    return rest[1:] == right[1:] and not is_english


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
