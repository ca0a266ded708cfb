"""What a text is about: its content words, in their dictionary forms."""

from __future__ import annotations

from functools import lru_cache

from src.language import lexicon
from src.language.morphology import lemmas, words
from src.language.plain_text import word_set

Lemmas = frozenset[str]

# "What city", "какой породы": the kind of answer that is wanted, not what it is about.
ANSWER_KINDS = word_set(
    """
    город місто city town страна країна country имя ім'я name год рік year цвет колір color colour
    вид тип kind sort type number номер размер место місце place день day time час
    """
)


@lru_cache(maxsize=4_000)
def content(text: str) -> tuple[Lemmas, ...]:
    """The content words of a text, each as the set of its possible dictionary forms."""
    empty = lexicon.words("meaning.empty")
    found = (lemmas(word) for word in words(text) if word.lower() not in empty)
    return tuple(forms for forms in found if forms and not forms & empty)


def shared(one: str, other: str) -> list[Lemmas]:
    """The content words of ``one`` that ``other`` speaks of as well."""
    there = frozenset[str]().union(*content(other))
    return [forms for forms in content(one) if forms & there]
