"""Concepts: one search term for the words of everyday life that mean the same in three languages.

"Where does my brother work?" and "мой брат трудится в банке" share no term of ``terms.py``; here
both hold ``#brother`` and ``#work``. The words stand in ``concept_table.py``, written by hand.

A wrong join does more harm than a missing one, so nothing is guessed from the beginning of a word
alone: what follows a Cyrillic stem must be an ending of Russian or Ukrainian. "кот" takes "котом",
but neither "который" nor "котёл". English words are known in their regular forms, which are built
here, and in the irregular ones that the table lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from src.memory.concept_table import CONCEPTS

LANGUAGES = ("ru", "uk", "en")  # the columns of the table after the concept's name
MIN_STEM, MAX_STEM = 2, 14  # letters of a stem that takes any ending

# Endings of nouns and adjectives in all cases, as ``_plain`` leaves them ("ё" is "е", no
# apostrophes). Suffixes that make another word are not among them.
NOUN = (
    "|[аяоеєуюиыіїьй]|[оеєыиії]й|[оеєьії]ю|[оеєыиіїая]м|[аяиії]х|[аяиыії]ми|[оеєії]в|[оеє]ві"
    "|[ая]я|[ую]ю|[оеыи]е|[оеь]го|[оеь]му|ых|ь?ої|ьою"
)
# Endings of verbs: the vowel after the stem, the ending proper, and "ся".
VERB = (
    "(?:[аяиіїеєу]|[оеуюыи]?ва|ну)?"
    "(?:т[ьи]|л[аои]?|в(?:ши)?|й(?:те|мо)?|[ую](?:т?ь?|чи)|[ая](?:ть?|чи)?"
    "|[еиєї]?(?:шь?|т|м|мо|те|ть)|[еиє]"
    "|[уюая]щ(?:[иеа]й|[ая]я|[еи]е|его|ему|им|их|ими|ую))"
    "(?:с[яь])?"
)
NOUN_ENDING = re.compile(NOUN)
ANY_ENDING = re.compile(f"(?:{NOUN})|(?:{VERB})")

# The endings of words that are declined like the word in the table, which ends in the key.
DECLENSIONS = {
    "": ",а,у,ом,е,ы,и,і,ов,ів,ові,ам,ами,ах",
    "а": "а,ы,и,е,і,у,ой,ою,ам,ами,ах",
    "о": "о,а,у,ом,е,і,ам,ами,ах",
    "ый": "ый,ий,ая,ое,ые,ого,ой,ому,ую,ым,ом,ых,ыми",
    "ой": "ой,ая,ое,ые,ие,ого,ому,ую,ым,им,ом,ых,их,ыми,ими",
    "ий": "ий,а,е,і,ого,ої,ому,ій,у,ою,им,их,ими",
}

CYRILLIC = re.compile(r"[а-яёіїєґ]")
APOSTROPHES = str.maketrans("", "", "'’ʼ")


class Entry(NamedTuple):
    """One item of the table; ``endings`` are the only ones that it takes, None means any."""

    concept: str
    language: str
    stem: str
    is_verb: bool
    endings: tuple[str, ...] | None


class Lexicon(NamedTuple):
    """The table, ready for look-ups: whole forms, and stems with what may follow them."""

    forms: dict[str, str]
    stems: dict[str, tuple[str, re.Pattern[str]]]


@lru_cache(maxsize=50_000)
def concept_of(word: str) -> str | None:
    """The concept of one lower-case word, such as ``#dog``; None when it belongs to none."""
    if not CYRILLIC.search(word):
        return _lexicon().forms.get(word.replace("’", "'").removesuffix("'s"))
    word = _plain(word)
    return _lexicon().forms.get(word) or stem_concept(word)


def stem_concept(word: str) -> str | None:
    """The concept of the longest stem that leaves an ending of ``word``, without the listed forms.

    The word is Cyrillic, in lower case, with ``е`` for ``ё`` and without apostrophes.
    """
    stems = _lexicon().stems
    for length in range(min(len(word), MAX_STEM), MIN_STEM - 1, -1):
        found = stems.get(word[:length])
        if found is not None and found[1].fullmatch(word, length):
            return found[0]
    return None


def entries(table: str) -> Iterator[Entry]:
    """The items of a table in its order; ValueError when a line has not four columns."""
    for line in table.replace("\n  ", " ").splitlines():
        if not line or line.startswith("#"):
            continue
        name, *columns = line.split("|")
        for language, column in zip(LANGUAGES, columns, strict=True):
            yield from (_entry(f"#{name.strip()}", language, item) for item in column.split())


def forms(entry: Entry) -> list[str]:
    """The whole forms that an item stands for; none for a stem that takes any ending."""
    if entry.endings is not None:
        return [entry.stem + ending for ending in entry.endings]
    if entry.language != "en":
        return []
    return _english_verb(entry.stem) if entry.is_verb else [entry.stem, _with_s(entry.stem)]


@lru_cache(maxsize=1)
def _lexicon() -> Lexicon:
    """The lexicon of this project's table; ValueError when a word has two concepts."""
    lexicon = Lexicon({}, {})
    for entry in entries(CONCEPTS):
        whole = forms(entry)
        if not whole:
            _add_stem(lexicon, entry)
        for form in whole:
            if lexicon.forms.setdefault(form, entry.concept) != entry.concept:
                raise ValueError(f"{form} is {lexicon.forms[form]} and {entry.concept}")
    return lexicon


def _add_stem(lexicon: Lexicon, entry: Entry) -> None:
    """Enter a stem; in two languages it takes the endings of verbs when it does so in one."""
    concept, known = lexicon.stems.get(entry.stem, (entry.concept, NOUN_ENDING))
    if concept != entry.concept:
        raise ValueError(f"{entry.stem} is {concept} and {entry.concept}")
    lexicon.stems[entry.stem] = (concept, ANY_ENDING if entry.is_verb else known)


def _entry(concept: str, language: str, item: str) -> Entry:
    """An item as the table writes it: ``stem``, ``stem~``, ``stem-а`` or ``stem:ending,ending``."""
    stem, is_listed, listed = item.partition(":")
    if "-" in stem and language != "en":
        stem, is_listed, declension = stem.partition("-")
        listed = DECLENSIONS[declension]
    endings = tuple(_plain(ending) for ending in listed.split(",")) if is_listed else None
    return Entry(concept, language, _plain(stem.removesuffix("~")), stem.endswith("~"), endings)


def _plain(word: str) -> str:
    """The word with ``е`` for ``ё`` and without apostrophes, which many people leave out."""
    return word.replace("ё", "е").translate(APOSTROPHES)


def _with_s(word: str) -> str:
    """The plural, or the verb's third person: dogs, boxes, parties."""
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|x|z|ch|sh)$", word) else f"{word}s"


def _english_verb(verb: str) -> list[str]:
    """The regular forms: plan, plans, planned, planning; both spellings of "cancelled"."""
    if verb.endswith("e"):
        return [verb, _with_s(verb), f"{verb}d", f"{verb.removesuffix('e')}ing"]
    if re.search(r"[^aeiou]y$", verb):
        return [verb, _with_s(verb), f"{verb[:-1]}ied", f"{verb}ing"]
    regular = [verb, _with_s(verb), f"{verb}ed", f"{verb}ing"]
    if not re.search(r"[^aeiou][aeiou][^aeiouwxy]$", verb):
        return regular
    doubled = [f"{verb}{verb[-1]}ed", f"{verb}{verb[-1]}ing"]
    has_one_syllable = len(re.findall(r"[aeiou]+", verb)) == 1
    return [*regular[:2], *doubled] if has_one_syllable else [*regular, *doubled]
