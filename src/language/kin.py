"""Kin, friends and pets: the role that a word names."""

from __future__ import annotations

from functools import cache

from src.language import lexicon
from src.language.morphology import noun_forms

ANIMALS = frozenset({"dog", "cat", "parrot", "hamster", "tortoise", "horse", "rabbit"})


def people() -> dict[str, str]:
    """The roles of people, and ``user``, by every form of the words for them.

    An inflected word is looked up as it stands, so that "тату" is a tattoo, and no father.
    """
    return lexicon.values("people.forms")


@cache
def kin() -> dict[str, str]:
    """The roles of all others by the words for them, of most words the dictionary form."""
    forms = {form: name for form, name in people().items() if name != "user"}
    return forms | lexicon.values("people.roles")


def kin_of(word: str) -> str | None:
    """The role that a word names: "сестры" is ``sister``; None for other words."""
    lower = word.lower().replace("ё", "е").removesuffix("'s")
    roles = kin()
    if lower in roles:
        return roles[lower]
    return next((roles[form] for form in sorted(noun_forms(word)) if form in roles), None)
