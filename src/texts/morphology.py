"""Words of a text: index terms, lemmas and parts of speech."""

import re
import threading
from functools import cache, lru_cache
from typing import Any

import snowballstemmer

from src.reading import lexicon
from src.texts import CYRILLIC, Language
from src.texts.plain_text import plain, without_yo

# Terms of the lexical index.
#
# English words are stemmed (Snowball). Cyrillic words are cut to their first four letters, shared
# by inflected forms, and often by Russian and Ukrainian ("город", "города"; "подруга" in both).

MAX_TEXT = 20_000  # indexed characters of a text
MAX_TERM = 40  # letters of a term
PREFIX = 4  # letters of a Cyrillic word
WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
STRAIGHT = str.maketrans("’ʼ", "''")
# Positions where a Ukrainian word may lack its apostrophe: "обєктив".
MISSING_APOSTROPHE = re.compile(r"(?<=[бпвмфкр])(?=[яюєї])")

_stemmer = snowballstemmer.stemmer("english")
_stemmer_lock = threading.Lock()  # the stemmer keeps state in its attributes


def terms(text: str) -> list[str]:
    """Return the search terms of a text, in order and with repetitions."""
    words = WORD.findall(plain(text[:MAX_TEXT]))
    return [term for word in words if (term := _term(word))]


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """Return the term of a lower-case word; empty for a stop word."""
    if word in lexicon.words("search.stop_words"):
        return ""
    if CYRILLIC.search(word):
        return word.replace("'", "")[:PREFIX]
    return stem_english(word.removesuffix("'s"))[:MAX_TERM]


def stem_english(word: str) -> str:
    """Return the Snowball stem of an English word."""
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))


# Lemmas and parts of speech, for comparing the subjects of two texts.
#
# Russian and Ukrainian use pymorphy3's dictionaries (40 MB from the first Cyrillic word on),
# English the Snowball stemmer and a table of irregular forms. Each word is looked up in both
# dictionaries: the language of many short texts is uncertain.

DICTIONARIES: tuple[Language, ...] = ("ru", "uk")  # of the dictionaries
MIN_SHOWING = 2  # words that show a language
HYPHENATED_WORD = re.compile(r"[^\W_]+(?:['-][^\W\d_]+)*")
MAX_WORDS = 400  # analyzed words of a text
NAMES = frozenset({"Name", "Surn", "Patr", "Geox"})  # as OpenCorpora tags them
# Case endings of names that are in no dictionary: "Кеша", "Кешу", "Кешей".
ENDING = lexicon.Expression("<forms.name_endings>$")


def words(text: str) -> list[str]:
    """Return the first MAX_WORDS words of a text, as written."""
    return [match[0] for match in HYPHENATED_WORD.finditer(text.translate(STRAIGHT))][:MAX_WORDS]


@lru_cache(maxsize=20_000)
def lemmas(word: str) -> frozenset[str]:
    """Return the possible lemmas of a word; a name also yields its stem, marked with ``~``.

    Two words denote the same thing if they share a lemma.
    """
    lower = plain(word)
    if not CYRILLIC.search(lower):
        base = lower.removesuffix("'s")
        return frozenset({stem_english(lexicon.pairs("forms.irregular").get(base, base))})
    aspects = lexicon.pairs("forms.aspects")
    forms = {aspects.get(form, form) for form in dictionary_forms(lower)}
    if not forms or word[:1].isupper():
        forms.add("~" + (ENDING.sub("", lower) if len(lower) > 3 else lower))
    return frozenset(forms)


@lru_cache(maxsize=20_000)
def dictionary_forms(lower: str) -> frozenset[str]:
    """Return the lemmas of a lower-case Russian or Ukrainian word; none if it is unknown."""
    forms = frozenset(without_yo(parse.normal_form) for parse in _parses(lower))
    return forms - {"быть"} if "бывший" in forms else forms  # "бывший" is a noun here: an ex


def inflections(word: str) -> frozenset[str]:
    """Return all forms of a lower-case word in its dictionary form; the word itself if unknown.

    Those of nouns, if it can be one: "мати" is a mother, not "to have".
    """
    found = [parse for parse in _parses(word) if without_yo(parse.normal_form) == word]
    nouns = [parse for parse in found if "NOUN" in parse.tag]
    forms = (without_yo(form.word) for parse in nouns or found for form in parse.lexeme)
    return frozenset({word, *forms})


@lru_cache(maxsize=20_000)
def noun_forms(word: str) -> frozenset[str]:
    """Return the lemmas of a word that may be a noun: "маю" is a verb, no form of "мать"."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return lemmas(word)
    nouns = (parse for parse in _parses(lower) if "NOUN" in parse.tag or "ADJF" in parse.tag)
    return frozenset(without_yo(parse.normal_form) for parse in nouns)


@lru_cache(maxsize=20_000)
def nominatives(lower: str) -> frozenset[str]:
    """Return the nominatives of the names of people and places that a word may be a form of."""
    names = set()
    for parse in _parses(lower):
        if NAMES & parse.tag.grammemes and "Fixd" not in parse.tag:
            form = parse.inflect({"nomn"})
            names.add(without_yo((form or parse).word))
    return frozenset(names)


def name_forms(lower: str) -> frozenset[str]:
    """Return the lemmas of a word, also of one that is no name on its own: "нижнем"."""
    return nominatives(lower) | dictionary_forms(lower)


@lru_cache(maxsize=20_000)
def parts_of_speech(word: str) -> frozenset[str]:
    """Return the grammemes that a Russian or Ukrainian word may have: VERB, NOUN, 1per, ….

    They are OpenCorpora's. Empty for unknown and for English words.
    """
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return frozenset()
    return frozenset(str(grammeme) for parse in _parses(lower) for grammeme in parse.tag.grammemes)


def is_action_verb(word: str) -> bool:
    """Return True if a Russian or Ukrainian word is a verb in the past or the first person."""
    tags = parts_of_speech(word)
    return "VERB" in tags and "Name" not in tags and not tags.isdisjoint({"past", "1per"})


def is_first_person_verb(word: str) -> bool:
    """Return True if a Russian or Ukrainian word is a first person singular verb: "беру"."""
    return parts_of_speech(word) >= {"VERB", "1per", "sing"}


def dictionary_language(text: str, least: int = MIN_SHOWING) -> Language | None:
    """Return the language in whose dictionary alone words of a text stand, or None.

    It takes so many of them, and none of the other language.
    """
    shown: list[Language] = []
    for word in WORD.findall(text[:MAX_TEXT].lower()):
        pairs = zip(DICTIONARIES, load_dictionaries(), strict=True)
        known = [language for language, analyzer in pairs if analyzer.parse(word)]
        shown += known if len(known) == 1 else []
    return shown[0] if len(shown) >= least and len(set(shown)) == 1 else None


def _parses(lower: str) -> list[Any]:
    parses = [parse for analyzer in load_dictionaries() for parse in analyzer.parse(lower)]
    if not parses and MISSING_APOSTROPHE.search(lower):
        return _parses(MISSING_APOSTROPHE.sub("'", lower))
    return parses


@cache
def load_dictionaries() -> tuple[Any, ...]:
    """Return the analyzers of the languages with a dictionary; the first call takes 0.1 s."""
    from pymorphy3 import MorphAnalyzer, units

    analyzers = []
    for language in DICTIONARIES:
        # All parses of a word count alike, and guesses of unknown words are unwanted: their tables
        # would take memory of their own.
        analyzer = MorphAnalyzer(
            lang=language, units=[[units.DictionaryAnalyzer()]], probability_estimator_cls=None
        )
        analyzer.dictionary.prediction_suffixes_dawgs.clear()
        analyzers.append(analyzer)
    return tuple(analyzers)
