"""Words by their lemmas: whether two texts speak of the same thing, in three languages.

The search cuts words to four letters, which finds more; whoever decides what is deleted or does
not hold any more needs to know that "карате" is no "карандаш". Cyrillic words are looked up in
the dictionaries of Russian and of Ukrainian, and count as equal when they share a lemma in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from src.language import lexicon
from src.language.kin import people
from src.language.morphology import dictionary_forms
from src.language.plain_text import plain
from src.language.relation_table import BY_NAME
from src.language.terms import CYRILLIC, WORD, stem_english

MIN_STEM = 3  # letters of a name without its case ending
# A root whose vowel goes in other cases, which the dictionaries of the other language miss.
CASE_ENDING = lexicon.Expression("<forms.case_endings>$")


@dataclass(frozen=True)
class Word:
    """A word of a text that says something.

    Attributes:
        text: As it was written, in lower case.
        lemmas: The words of which it may be a form; for kin also ``@mother``, in any language.
        is_name: Whether it was written with a capital letter, not only to begin a sentence.
        start: Where it begins in the text.
        end: Where it ends.
    """

    text: str
    lemmas: frozenset[str]
    is_name: bool
    start: int
    end: int

    @property
    def is_kin(self) -> bool:
        """Whether it names a relative, a friend, a boss."""
        return any(lemma.startswith("@") for lemma in self.lemmas)


def content_words(text: str) -> list[Word]:
    """The words of a text without those that say nothing by themselves, in order."""
    words = []
    for match in WORD.finditer(text.replace("’", "'").replace("ʼ", "'")):
        written = match.group()
        lemmas = word_lemmas(written.lower())
        if lemmas:
            before = text[: match.start()].rstrip(" \t«\"'(*_")
            begins = not before or before[-1] in ".!?\n"
            is_name = written[0].isupper() and not (begins and not written.isupper())
            words.append(Word(written.lower(), lemmas, is_name, match.start(), match.end()))
    return words


def lemmas_of(text: str) -> frozenset[str]:
    """The lemmas of all words of a text."""
    return frozenset(lemma for word in content_words(text) for lemma in word.lemmas)


@lru_cache(maxsize=256)
def lemmas_about(relation: str) -> frozenset[str]:
    """The lemmas of the words that name a relation of the table."""
    known = BY_NAME.get(relation)
    words = known.about if known else ()
    return frozenset(lemma for word in words for lemma in word_lemmas(word))


@lru_cache(maxsize=50_000)
def word_lemmas(word: str) -> frozenset[str]:
    """The lemmas of one lower-case word; none for a word that says nothing."""
    word = plain(word)
    if word in _meaningless():
        return frozenset()
    if not CYRILLIC.search(word):
        bare = word.removesuffix("'s")
        lemmas = {stem_english(lexicon.values("forms.alike").get(bare, bare))}
    else:
        lemmas = _cyrillic_lemmas(word.replace("ё", "е"))
    if lemmas & lexicon.words("meaning.empty"):
        return frozenset()
    person = people().get(word.removesuffix("'s").replace("ё", "е"))
    if person == "user":
        return frozenset()
    return frozenset(lemmas | ({f"@{person}"} if person else set()))


@cache
def _meaningless() -> frozenset[str]:
    groups = ("search.stop_words", "meaning.fillers", "meaning.empty")
    return frozenset[str]().union(*map(lexicon.words, groups))


def _cyrillic_lemmas(word: str) -> set[str]:
    """As the dictionaries know it; of a name or slang, whose cases differ, the beginning."""
    if known := dictionary_forms(word):
        return set(known)
    stem = CASE_ENDING.sub("", word)
    return {f"{stem}-" if len(stem) >= MIN_STEM else word}
