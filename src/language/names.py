"""Whether two names are one: "Ане" is "Аня", "Anna" is "Анна"; "Валерия" is not "Валерий"."""

from __future__ import annotations

from functools import cache

from src.language import lexicon
from src.language.morphology import nominatives, words

MAX_WORDS = 4  # of a name
SPELLINGS = (("yo", "io"), ("yu", "iu"), ("ya", "ia"), ("ye", "ie"), ("y", "i"), ("h", "g"),
             ("ii", "i"))  # fmt: skip


def same_name(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case ending, alphabet or spelling of letters.

    A form that is a name itself is no ending of another one: "Валерия" is a woman, although it
    may be a form of "Валерий". Short forms ("Саша" for Александр) may be somebody else.
    """
    ones, others = words(one), words(other)
    if not 0 < len(ones) == len(others) <= MAX_WORDS:
        return False
    if not (ones[0][:1].isupper() and others[0][:1].isupper()):
        return False
    return all(_same_word(a.lower(), b.lower()) for a, b in zip(ones, others, strict=True))


def _same_word(one: str, other: str) -> bool:
    return (
        one == other
        or _is_form(one, other)
        or _is_form(other, one)
        or (one.isascii() != other.isascii() and _latin(one) == _latin(other))
    )


def _is_form(form: str, base: str) -> bool:
    """Whether ``form`` is ``base`` in another case, and no name of its own."""
    plain, wanted = form.replace("ё", "е"), base.replace("ё", "е")
    names = nominatives(plain)
    return wanted in names and plain not in names


def _latin(word: str) -> str:
    """The word in Latin letters, in one of the spellings that are in use."""
    letters = _latin_letters()
    latin = "".join(letters.get(letter, letter) for letter in word)
    latin = latin.replace("kh", "x").replace("zh", "j").replace("shch", "w").replace("sh", "w")
    latin = latin.replace("ch", "c")
    for spelling, plain in SPELLINGS:
        latin = latin.replace(spelling, plain)
    return latin


@cache
def _latin_letters() -> dict[str, str]:
    tables = (table for _, table in lexicon.by_language("forms.latin"))
    return {"'": "", "-": ""} | {one: latin for table in tables for one, latin in table.items()}
