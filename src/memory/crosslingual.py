"""Search terms for a question in other languages: words of daily life, names in both scripts.

A question is in another language than the note that answers it more often than an embedding of a
small model bears. So the search looks for each word of the question also by the words that stand
for it in Russian, Ukrainian and English (``concepts.toml``), and for each name in the letters of
the other script.
"""

import tomllib
from functools import cache, lru_cache
from itertools import islice, product
from pathlib import Path

from src.texts.morphology import (
    WORD,
    dictionary_forms,
    inflections,
    nominatives,
    stem_english,
    terms,
)
from src.texts.plain_text import plain

CONCEPTS = Path(__file__).with_name("concepts.toml")
MAX_WORDS = 64  # of a question
MAX_SPELLINGS = 48  # of a name in Latin letters
MIN_NAME = 3  # letters
PREFIX = 4  # letters of a Cyrillic term, which are all that a name in Latin letters must spell
# Spellings of Cyrillic letters in Latin ones, as people and passports write names.
_WRITTEN = """
а: a, б: b, в: v w, г: g h, ґ: g, д: d, е: e ye, є: ye ie e, ж: zh, з: z, и: i y, і: i, ї: i yi,
й: i y, к: k, л: l, м: m, н: n, о: o, п: p, р: r, с: s, т: t, у: u, ф: f, х: kh h, ц: ts c, ч: ch,
ш: sh, щ: shch, ы: y, э: e, ю: yu iu, я: ya ia, ль: l, кс: x ks
"""
SPELLINGS = dict(pair.strip().split(": ") for pair in _WRITTEN.split(","))
# The Cyrillic letters that one or more Latin ones may stand for.
CYRILLIC = {
    latin: [letter for letter, spellings in SPELLINGS.items() if latin in spellings.split()]
    for latin in " ".join(SPELLINGS.values()).split()
}


def term_groups(text: str) -> list[tuple[str, ...]]:
    """Return the search terms of a question: for each word those that may stand for it."""
    groups: dict[tuple[str, ...], None] = {}
    for written in WORD.findall(text)[:MAX_WORDS]:
        if own := terms(written):
            others = [*_concept_terms(plain(written)), *_name_terms(written)]
            groups[tuple(dict.fromkeys([*own, *others]))] = None
    return list(groups)


def may_be_same_name(one: str, other: str) -> bool:
    """Return True for names in different scripts of which one may be written as the other."""
    if one.isascii() == other.isascii():
        return False
    return any(not set(group).isdisjoint(terms(other)) for group in term_groups(one.title()))


@lru_cache(maxsize=4_000)
def _concept_terms(word: str) -> tuple[str, ...]:
    """Return the search terms of all words that stand for the same thing as this one."""
    concepts = _load_concepts()
    found = [one for form in _base_forms(word) for one in concepts.get(form, ())]
    return tuple(dict.fromkeys(found))


@cache
def _load_concepts() -> dict[str, list[str]]:
    """Return the search terms of each concept, by each base form of its words."""
    concepts: dict[str, list[str]] = {}
    for lines in tomllib.loads(CONCEPTS.read_text(encoding="utf-8")).values():
        for line in lines:
            words = [plain(word) for word in line.split()]
            written = " ".join(form for word in words for form in sorted(inflections(word)))
            found = list(dict.fromkeys(terms(written)))
            for form in {form for word in words for form in _base_forms(word)}:
                concepts.setdefault(form, []).extend(found)
    return concepts


def _base_forms(word: str) -> frozenset[str]:
    if word.isascii():
        return frozenset({stem_english(word.removesuffix("'s"))})
    return dictionary_forms(word) or frozenset({word})


def _name_terms(word: str) -> list[str]:
    """Return the search terms of a name in the other script; none for other words."""
    name = plain(word).removesuffix("'s")
    letters: list[list[str]] = []
    if not name.isascii():
        spelt: list[str] = []
        for nominative in sorted(nominatives(name)):
            letters = [SPELLINGS.get(letter, "").split() or [""] for letter in nominative]
            spelt += map("".join, islice(product(*letters), MAX_SPELLINGS))
        return terms(" ".join(spelt))
    if not word[0].isupper() or len(name) < MIN_NAME or not name.isalpha():
        return []
    while name and len(letters) < PREFIX:
        size = next((n for n in (4, 3, 2, 1) if name[:n] in CYRILLIC), 1)
        letters.append(CYRILLIC.get(name[:size], [""]))
        name = name[size:]
    return ["".join(spelling)[:PREFIX] for spelling in product(*letters)]
