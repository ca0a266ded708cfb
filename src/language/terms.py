"""Search terms: the words of a text as the lexical index knows them.

English words are stemmed (Snowball), Cyrillic ones cut to their first four letters, in which
their forms, and often Russian and Ukrainian, meet ("город" and "города", "подруга" in both).
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache

import snowballstemmer

from src.language import lexicon

MAX_TEXT = 20_000  # characters of a text that are indexed
MAX_TERM = 40  # letters of one term
PREFIX = 4  # letters of a Cyrillic word
WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
CYRILLIC = re.compile(r"[а-яёіїєґ]")

_stemmer = snowballstemmer.stemmer("english")
_stemmer_lock = threading.Lock()  # the stemmer works on fields of its own


def terms(text: str) -> list[str]:
    """The search terms of a text, in order, each as often as it occurs."""
    words = WORD.findall(text[:MAX_TEXT].lower().replace("’", "'"))
    return [term for word in words if (term := _term(word))]


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """The term of one lower-case word; empty for a stop word."""
    if word in lexicon.words("search.stop_words"):
        return ""
    if CYRILLIC.search(word):
        return word.replace("ё", "е").replace("'", "")[:PREFIX]
    return stem_english(word.removesuffix("'s"))[:MAX_TERM]


def stem_english(word: str) -> str:
    """What the forms of an English word have in common, by Snowball."""
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))
