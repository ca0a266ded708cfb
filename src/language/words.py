"""Words by their lemmas: whether two texts speak of the same thing, in three languages.

The search cuts words to four letters, which finds more; whoever decides what is deleted or does
not hold any more needs to know that "карате" is no "карандаш". Cyrillic words are looked up in
the dictionaries of Russian and of Ukrainian, and count as equal when they share a lemma in either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from src.language.content import EMPTY_WORDS
from src.language.kin import PEOPLE
from src.language.morphology import dictionary_forms
from src.language.plain_text import plain, word_set
from src.language.relation_table import BY_NAME
from src.language.terms import CYRILLIC, STOP_WORDS, WORD, stem_english

MIN_STEM = 3  # letters of a name without its case ending

# Beside the search's stop words: what only colours a statement.
FILLERS = word_set(
    """
    очень теперь сейчас снова опять больше уже просто совсем вообще сильно немного иногда часто
    обычно всегда никогда действительно правда мной нами наш наша наше наши нашего нашей нам нас
    дуже тепер зараз знову більше вже зовсім взагалі трохи іноді зазвичай завжди ніколи справді
    наші нашого нашої нею ним ними має мають мав мала мали honestly frankly finally guess news one
    ones the that which simply anyway though either честно честно-говоря наконец кстати вообще-то
    чесно нарешті загалом знаєш знаешь anymore longer never always often sometimes usually really
    again still already much many lot now then today just actually ever only own has having being
    there here us our ours i'd we're we've we'll you're he's she's they're isn't aren't wasn't
    doesn't can't cannot won't no none нету нема немає имею имеет имеем имеется имеются является
    являюсь являются хочу хочет называется которого которые которая которых котрий котра котрі whom
    who's what's that's there's
    """
)
# Forms of one word of which a stemmer knows nothing; British spelling as American.
ENGLISH = {
    "children": "child", "men": "man", "women": "woman", "wives": "wife", "mice": "mouse",
    "feet": "foot", "teeth": "tooth", "knives": "knife", "ran": "run", "ate": "eat",
    "eaten": "eat", "bought": "buy", "drove": "drive", "drank": "drink", "sang": "sing",
    "swam": "swim", "wrote": "write", "written": "write", "spoke": "speak", "taught": "teach",
    "met": "meet", "wore": "wear", "grew": "grow", "flew": "fly", "rode": "ride", "slept": "sleep",
    "sold": "sell", "lost": "lose", "won": "win", "built": "build", "broke": "break",
    "broken": "break", "born": "birth", "married": "marry", "divorced": "divorce",
    "colour": "color", "colours": "color", "favourite": "favorite", "favourites": "favorite",
    "neighbour": "neighbor", "neighbours": "neighbor", "grey": "gray", "theatre": "theater",
    "mum": "mom", "mummy": "mom",
}  # fmt: skip
# A root whose vowel goes in other cases, which the dictionaries of the other language miss.
CASE_ENDING = re.compile(
    r"(?:ами|ями|ого|его|ому|ему|ой|ей|ою|ею|єю|ом|ем|єм|ым|им|ах|ях|ів|ов|ев|[аяуюеєиіїыйоь])$"
)


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
    words = known.about.split() if known else ()
    return frozenset(lemma for word in words for lemma in word_lemmas(word))


@lru_cache(maxsize=50_000)
def word_lemmas(word: str) -> frozenset[str]:
    """The lemmas of one lower-case word; none for a word that says nothing."""
    word = plain(word)
    if word in STOP_WORDS or word in FILLERS or word in EMPTY_WORDS:
        return frozenset()
    if not CYRILLIC.search(word):
        bare = word.removesuffix("'s")
        lemmas = {stem_english(ENGLISH.get(bare, bare))}
    else:
        lemmas = _cyrillic_lemmas(word.replace("ё", "е"))
    if lemmas & EMPTY_WORDS:
        return frozenset()
    person = PEOPLE.get(word.removesuffix("'s").replace("ё", "е"))
    if person == "user":
        return frozenset()
    return frozenset(lemmas | ({f"@{person}"} if person else set()))


def _cyrillic_lemmas(word: str) -> set[str]:
    """As the dictionaries know it; of a name or slang, whose cases differ, the beginning."""
    if known := dictionary_forms(word):
        return set(known)
    stem = CASE_ENDING.sub("", word)
    return {f"{stem}-" if len(stem) >= MIN_STEM else word}
