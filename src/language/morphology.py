"""Dictionary forms and parts of speech, for telling whether two texts speak of the same thing.

Russian and Ukrainian by pymorphy3's dictionaries (36 MB for both, loaded when a Cyrillic word is
first looked at), English by the Snowball stemmer and a table of irregular forms. Each word is
looked up in both dictionaries: many short texts are neither surely the one nor the other.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from src.language import lexicon
from src.language.terms import stem_english

WORD = re.compile(r"[^\W_]+(?:['-][^\W\d_]+)*")
MAX_WORDS = 400  # of a text that are looked at
NAMES = frozenset({"Name", "Surn", "Patr", "Geox"})  # as OpenCorpora tags them
CYRILLIC = re.compile(r"[а-яёіїєґ]")
# What a name that no dictionary knows may end with: "Кеша", "Кешу", "Кешей".
ENDING = lexicon.Expression("<forms.name_endings>$")


def words(text: str) -> list[str]:
    """The words of a text as written, the first MAX_WORDS of them."""
    straight = text.replace("’", "'").replace("ʼ", "'")
    return [match[0] for match in WORD.finditer(straight)][:MAX_WORDS]


@lru_cache(maxsize=20_000)
def lemmas(word: str) -> frozenset[str]:
    """The dictionary forms that a word may have; of a name also what is left without its ending.

    Two words speak of the same thing when they share one.
    """
    lower = word.lower().replace("ё", "е")
    if not CYRILLIC.search(lower):
        bare = lower.removesuffix("'s")
        return frozenset({stem_english(lexicon.values("forms.irregular").get(bare, bare))})
    forms = set(dictionary_forms(lower))
    if not forms or word[:1].isupper():
        forms.add("~" + (ENDING.sub("", lower) if len(lower) > 3 else lower))
    return frozenset(forms)


@lru_cache(maxsize=20_000)
def dictionary_forms(lower: str) -> frozenset[str]:
    """The dictionary forms of a Russian or Ukrainian word in lower case; none of unknown words."""
    return frozenset(parse.normal_form.replace("ё", "е") for parse in _parses(lower))


@lru_cache(maxsize=20_000)
def noun_forms(word: str) -> frozenset[str]:
    """The dictionary forms of a word that may be a noun: "маю" is a verb, and no mother."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return lemmas(word)
    nouns = (parse for parse in _parses(lower) if "NOUN" in parse.tag or "ADJF" in parse.tag)
    return frozenset(parse.normal_form.replace("ё", "е") for parse in nouns)


@lru_cache(maxsize=20_000)
def nominatives(lower: str) -> frozenset[str]:
    """The names of people and places of which a word may be a form, each in the nominative."""
    found = set()
    for parse in _parses(lower):
        if NAMES & parse.tag.grammemes and "Fixd" not in parse.tag:
            form = parse.inflect({"nomn"})
            found.add((form or parse).word.replace("ё", "е"))
    return frozenset(found)


@lru_cache(maxsize=20_000)
def parts_of_speech(word: str) -> frozenset[str]:
    """What a Russian or Ukrainian word may be, in OpenCorpora's terms: VERB, NOUN, 1per and such.

    Empty for words that no dictionary knows, and for English.
    """
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return frozenset()
    return frozenset(str(grammeme) for parse in _parses(lower) for grammeme in parse.tag.grammemes)


@lru_cache(maxsize=20_000)
def best_parts(word: str) -> frozenset[str]:
    """The likeliest part of speech of a word in each language that knows it; empty: none does."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return frozenset()
    found = (analyzer.parse(lower) for analyzer in _analyzers())
    return frozenset(str(parses[0].tag.POS or "") for parses in found if parses)


def _parses(lower: str) -> list[Any]:
    return [parse for analyzer in _analyzers() for parse in analyzer.parse(lower)]


@cache
def _analyzers() -> tuple[Any, ...]:
    from pymorphy3 import MorphAnalyzer, units

    found = []
    for language in ("ru", "uk"):
        analyzer = MorphAnalyzer(lang=language, units=[[units.DictionaryAnalyzer()]])
        # Guessing unknown words is not wanted, and takes a quarter of the memory.
        analyzer.dictionary.prediction_suffixes_dawgs.clear()
        found.append(analyzer)
    return tuple(found)
