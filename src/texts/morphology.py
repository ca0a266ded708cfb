"""Words of a text: the terms of the lexical index, dictionary forms and parts of speech."""

import re
import struct
import threading
from array import array
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from mmap import ACCESS_READ, mmap
from typing import Any, BinaryIO, Literal

from src.lean_imports import import_on_demand
from src.reading import lexicon
from src.texts import CYRILLIC
from src.texts.plain_text import without_yo

# Search terms: the words of a text as the lexical index knows them.
#
# English words are stemmed (Snowball), Cyrillic ones cut to their first four letters, in which
# their forms, and often Russian and Ukrainian, meet ("город" and "города", "подруга" in both).

MAX_TEXT = 20_000  # characters of a text that are indexed
MAX_TERM = 40  # letters of one term
PREFIX = 4  # letters of a Cyrillic word
WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
STRAIGHT = str.maketrans("’ʼ", "''")
# Where a Ukrainian word that is typed without its apostrophe may have one: "обєктив".
LEFT_OUT = re.compile(r"(?<=[бпвмфкр])(?=[яюєї])")

import_on_demand("snowballstemmer")  # it has 36 languages
_stemmer = import_module("snowballstemmer").EnglishStemmer()
_stemmer_lock = threading.Lock()  # the stemmer works on fields of its own


def terms(text: str) -> list[str]:
    """The search terms of a text, in order, each as often as it occurs."""
    words = WORD.findall(text[:MAX_TEXT].lower().translate(STRAIGHT))
    return [term for word in words if (term := _term(word))]


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """The term of one lower-case word; empty for a stop word."""
    if word in lexicon.words("search.stop_words"):
        return ""
    if CYRILLIC.search(word):
        return without_yo(word).replace("'", "")[:PREFIX]
    return stem_english(word.removesuffix("'s"))[:MAX_TERM]


def stem_english(word: str) -> str:
    """What the forms of an English word have in common, by Snowball."""
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))


# Dictionary forms and parts of speech, for telling whether two texts speak of the same thing.
#
# Russian and Ukrainian by pymorphy3's dictionaries (12 MB and what is looked at of their files,
# from the first Cyrillic word on), English by the Snowball stemmer and a table of irregular forms.
# Each word is looked up in both dictionaries: many short texts are neither surely the one nor the
# other.

HYPHENATED_WORD = re.compile(r"[^\W_]+(?:['-][^\W\d_]+)*")
MAX_WORDS = 400  # of a text that are looked at
NAMES = frozenset({"Name", "Surn", "Patr", "Geox"})  # as OpenCorpora tags them
# What a name that no dictionary knows may end with: "Кеша", "Кешу", "Кешей".
ENDING = lexicon.Expression("<forms.name_endings>$")


def words(text: str) -> list[str]:
    """The words of a text as written, the first MAX_WORDS of them."""
    return [match[0] for match in HYPHENATED_WORD.finditer(text.translate(STRAIGHT))][:MAX_WORDS]


@lru_cache(maxsize=20_000)
def lemmas(word: str) -> frozenset[str]:
    """The dictionary forms that a word may have; of a name also what is left without its ending.

    Two words speak of the same thing when they share one.
    """
    lower = without_yo(word.lower())
    if not CYRILLIC.search(lower):
        bare = lower.removesuffix("'s")
        return frozenset({stem_english(lexicon.values("forms.irregular").get(bare, bare))})
    pairs = lexicon.values("forms.aspects")
    forms = {pairs.get(form, form) for form in dictionary_forms(lower)}
    if not forms or word[:1].isupper():
        forms.add("~" + (ENDING.sub("", lower) if len(lower) > 3 else lower))
    return frozenset(forms)


@lru_cache(maxsize=20_000)
def dictionary_forms(lower: str) -> frozenset[str]:
    """The dictionary forms of a Russian or Ukrainian word in lower case; none of unknown words."""
    forms = frozenset(without_yo(parse.normal_form) for parse in _parses(lower))
    return forms - {"быть"} if "бывший" in forms else forms  # an ex is somebody


@lru_cache(maxsize=20_000)
def noun_forms(word: str) -> frozenset[str]:
    """The dictionary forms of a word that may be a noun: "маю" is a verb, and no mother."""
    lower = word.lower()
    if not CYRILLIC.search(lower):
        return lemmas(word)
    nouns = (parse for parse in _parses(lower) if "NOUN" in parse.tag or "ADJF" in parse.tag)
    return frozenset(without_yo(parse.normal_form) for parse in nouns)


@lru_cache(maxsize=20_000)
def nominatives(lower: str) -> frozenset[str]:
    """The names of people and places of which a word may be a form, each in the nominative."""
    found = set()
    for parse in _parses(lower):
        if NAMES & parse.tag.grammemes and "Fixd" not in parse.tag:
            form = parse.inflect({"nomn"})
            found.add(without_yo((form or parse).word))
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


def tells_deed(word: str) -> bool:
    """Whether a Russian or Ukrainian word says what was done, or what I do; no name does."""
    tags = parts_of_speech(word)
    return "VERB" in tags and "Name" not in tags and not tags.isdisjoint({"past", "1per"})


def says_i(word: str) -> bool:
    """Whether a Russian or Ukrainian word is a verb that "I" stands in: "беру"."""
    return parts_of_speech(word) >= {"VERB", "1per", "sing"}


def _parses(lower: str) -> list[Any]:
    found = [parse for analyzer in _analyzers() for parse in analyzer.parse(lower)]
    if not found and LEFT_OUT.search(lower):
        return _parses(LEFT_OUT.sub("'", lower))
    return found


@cache
def _analyzers() -> tuple[Any, ...]:
    from dawg_python.wrapper import Dictionary, Guide
    from pymorphy3 import MorphAnalyzer, units

    Dictionary.read, Guide.read = _mapped("I", 1), _mapped("B", 2)
    found = []
    for language in ("ru", "uk"):
        analyzer = MorphAnalyzer(lang=language, units=[[units.DictionaryAnalyzer()]])
        # Guessing unknown words is not wanted, and takes a quarter of the memory.
        analyzer.dictionary.prediction_suffixes_dawgs.clear()
        found.append(analyzer)
    return tuple(found)


def _mapped(kind: Literal["I", "B"], count: int) -> Callable[[Any, BinaryIO], None]:
    """``read`` of a part of a dictionary that maps the file: only what is looked at takes memory.

    Args:
        kind: Of the numbers in it, as ``array`` has it.
        count: How many of them make up one of the units that the part counts at its beginning.
    """

    def read(part: Any, file: BinaryIO) -> None:
        [size] = struct.unpack("=I", file.read(4))
        start, end = file.tell(), file.tell() + size * count * array(kind).itemsize
        whole = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
        part._units = whole[start:end].cast(kind)
        file.seek(end)

    return read
