"""Lemmas, content words, names and numbers of a text, and slips in its words."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from src.reading import lexicon
from src.texts import morphology
from src.texts.morphology import lemmas, parts_of_speech, terms, words
from src.texts.plain_text import plain, without_yo

Lemmas = frozenset[str]

# Values that answer a question word, as the number in "plot 27".
VALUES: Mapping[str, re.Pattern[str] | lexicon.Expression] = {
    "lines.number": re.compile(r"\d"),
    "lines.code": re.compile(r"\d{3}|•"),  # or a masked one
    "lines.phone": re.compile(r"\d[\d ()-]{5,}\d"),
    "lines.day": lexicon.AnyCase(r"\b(?:<time.weekday>|<time.weekdays_many>)\b"),
    "lines.place": lexicon.AnyCase(r"(?<!\w)<lines.place_told>"),
}
# Other parts of speech of words that are also names: "люба", "слава".
NO_NAME = frozenset({"VERB", "ADJF", "ADJS", "ADVB", "INTJ", "PREP", "CONJ", "NPRO"})
MAX_ENDING = 4  # letters of an ordinal after its stem ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number is not multiplied
# Upper bound of the part that a scale multiplies: in 2,000,003 thousand only the 3.
CEILINGS = {100: 1_000, 1_000: 10**6, 10**6: 10**9}


@lru_cache(maxsize=4_000)
def content(text: str) -> tuple[Lemmas, ...]:
    """Return the content words of a text, each as the set of its possible lemmas."""
    empty = lexicon.words("meaning.empty")
    lemma_sets = (lemmas(word) for word in words(text) if word.lower() not in empty)
    return tuple(forms for forms in lemma_sets if forms and not forms & empty)


@lru_cache(maxsize=2_000)
def answered_values(text: str) -> Lemmas:
    """Return the question words that a text answers with a value: a number, a phone, a day."""
    hits = (word for key, one in VALUES.items() if one.search(text) for word in lexicon.words(key))
    return frozenset[str]().union(*map(lemmas, hits))


# After these words an unknown word is a place: "on Tuesdays in the Methodist hall".
NEAR = 40  # characters before the word
PLACE = lexicon.Expression(r"(?<!\w)(?i:<people.before_place>) (?:[A-ZА-ЯЁІЇЄҐ][\w'.-]* )*$")
IN_LAW = re.compile("[ -]in[ -]law", re.IGNORECASE)


@lru_cache(maxsize=2_000)
def people_in(text: str) -> frozenset[str]:
    """Return the relatives (``@brother``) and the names (``~тарас``) in a text."""
    found: set[str] = set()
    for word in content_words(text):
        tags = parts_of_speech(word.text)
        role = kin_of(word.text)
        if role and IN_LAW.search(text, word.start, word.end + len(" in law")):
            role = f"{role}_in_law"
        if role:
            found.add(f"@{role}")
            continue
        is_name = "Name" in tags and tags.isdisjoint(NO_NAME)
        is_name = is_name and (word.is_name or "inan" not in tags)
        if word.is_name and not tags:
            is_name = PLACE.search(text, max(0, word.start - NEAR), word.start) is None
        if is_name:
            found |= {f"~{form}" for form in word.lemmas}
    return frozenset(found)


def names_in(text: str) -> frozenset[str]:
    """Return the names of people in a text: ``тарас``; an unknown one keeps a ``~`` before it."""
    return frozenset(one[1:] for one in people_in(text) if one.startswith("~"))


def has_verb(text: str) -> bool:
    """Return True if a word of a text is a verb, and cannot be a noun."""
    return any("VERB" in tags and "NOUN" not in tags for tags in map(parts_of_speech, words(text)))


def shared(one: str, other: str) -> list[Lemmas]:
    """Return the content words of ``one`` that ``other`` has as well."""
    others = frozenset[str]().union(*content(other))
    return [forms for forms in content(one) if forms & others]


def speaks_of(text: str, wanted: str) -> bool:
    """Return True if a text has all words of ``wanted`` in any form, or begins a word with it.

    So a search as the user types works: "аллер" as well as "кот" in "боюсь за кота".
    """
    wanted_words = content(wanted)
    if wanted_words and len(shared(wanted, text)) == len(wanted_words):
        return True
    return f" {plain(wanted)}" in f" {plain(text)}"


def people() -> dict[str, str]:
    """Return the roles of people, and ``user``, by every form of the words for them.

    An inflected word is looked up as written, so that "тату" is a tattoo, not a father.
    """
    return lexicon.values("people.forms")


@cache
def kin() -> dict[str, str]:
    """Return the roles of all others by their words, mostly in the dictionary form."""
    forms = {form: name for form, name in people().items() if name != "user"}
    return forms | lexicon.values("people.roles")


def kin_of(word: str) -> str | None:
    """Return the role that a word names ("сестры" is ``sister``), or None."""
    lower = without_yo(word.lower()).removesuffix("'s")
    roles = kin()
    if lower in roles:
        return roles[lower]
    forms = sorted(morphology.noun_forms(word))
    return next((roles[form] for form in forms if form in roles), None)


SPELLINGS = (
    ("kh", "x"), ("zh", "j"), ("shch", "w"), ("sh", "w"), ("ch", "c"),
    ("yo", "io"), ("yu", "iu"), ("ya", "ia"), ("ye", "ie"), ("y", "i"), ("h", "g"), ("ii", "i"),
)  # fmt: skip


def entity_keys(name: str) -> list[frozenset[str]]:
    """Return for each word of a name the dictionary forms that it may have.

    A word that is one itself has no other: "Александра" is a woman, although it could be a form
    of "Александр". Two names are one entity if they have a form of each word in common.
    """
    keys = []
    for word in words(name):
        if not terms(word):
            continue
        lower = plain(word).removesuffix("'s")
        if lower.isascii():  # a name is no plural: "Carlos"
            stem = lower if word[0].isupper() else morphology.stem_english(lower)
            keys.append(frozenset({stem}))
            continue
        forms = morphology.dictionary_forms(lower) or lemmas(word)
        names = morphology.nominatives(lower)
        # "Анне" is hardly the foreign name that has no other forms.
        if names and lower not in names:
            forms = forms - {lower} or forms
        elif lower in forms:
            forms = frozenset({lower})
        keys.append(forms)
    return keys


def entity_forms(text: str) -> set[str]:
    """Return all words of which the key of an entity that a text names may consist."""
    found: set[str] = set()
    for word in words(text):
        found |= {plain(word).removesuffix("'s"), *lemmas(word)}
    return found


@lru_cache(maxsize=4_000)
def in_latin(word: str) -> str:
    """Return a lower-case word in Latin letters, in one canonical spelling."""
    letters = str.maketrans({"'": "", "-": "", **lexicon.pairs("forms.latin")})
    latin = word.translate(letters)
    for spelling, written in SPELLINGS:
        latin = latin.replace(spelling, written)
    return latin


# Lemmas, to compare what texts are about in three languages.
#
# The search cuts words to four letters, which finds more; to delete and retire facts, "карате"
# must differ from "карандаш". Cyrillic words are looked up in the dictionaries of Russian and
# Ukrainian and are equal if they share a lemma in either.


@dataclass(frozen=True)
class Word:
    """Content word of a text.

    Attributes:
        text: The word in lower case.
        lemmas: Possible lemmas; for kin also ``@mother``, in any language.
        is_name: True if capitalised, except by its place at the beginning of a sentence.
        start: Start offset.
        end: End offset.
    """

    text: str
    lemmas: frozenset[str]
    is_name: bool
    start: int
    end: int

    @property
    def is_kin(self) -> bool:
        """True if it names a relative, a friend, a boss."""
        return any(lemma.startswith("@") for lemma in self.lemmas)


def content_words(text: str) -> list[Word]:
    """Return the content words of a text, in order."""
    words = []
    for match in morphology.WORD.finditer(text.translate(morphology.STRAIGHT)):
        written = match.group()
        if forms := word_lemmas(written.lower()):
            before = text[: match.start()].rstrip(" \t«\"'(*_")
            begins = not before or before[-1] in ".!?\n"
            is_name = written[0].isupper() and not (begins and not written.isupper())
            words.append(Word(written.lower(), forms, is_name, match.start(), match.end()))
    return words


def lemmas_of(text: str) -> frozenset[str]:
    """Return the lemmas of all words of a text."""
    return frozenset(lemma for word in content_words(text) for lemma in word.lemmas)


@cache
def lemmas_in(group: str) -> frozenset[str]:
    """Return the lemmas of the words in a group of the lexicon."""
    return lemmas_of(" ".join(lexicon.words(group)))


@lru_cache(maxsize=50_000)
def word_lemmas(word: str) -> frozenset[str]:
    """Return the lemmas of one lower-case word; none for a stop word."""
    word = plain(word)
    stop_words = ("search.stop_words", "meaning.fillers", "meaning.empty")
    if any(word in lexicon.words(group) for group in stop_words):
        return frozenset()
    bare = word.removesuffix("'s")
    if bare not in people() and bare.removesuffix("s") in people():
        bare = bare.removesuffix("s")  # "my mums birthday"
    role = people().get(without_yo(bare))
    bare = lexicon.values("forms.alike").get(bare, bare)
    forms = lemmas(bare)
    if forms & lexicon.words("meaning.empty"):
        return frozenset()
    if role == "user":
        return frozenset()
    return forms | ({f"@{role}"} if role else set())


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """Return the words with numbers in digits: "двадцать пять тысяч", "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Whether to read "первое" and "fifth" as well.
    """
    out: list[str] = []
    number: int | None = None
    scales = lexicon.numbers("numbers.scales")
    for word in words:
        if word in scales:
            if number is None and out and out[-1].isdecimal() and len(out[-1]) <= MAX_DIGITS:
                number = int(out.pop())
            # Of 2,000,003 thousand only the 3 is multiplied.
            above, below = divmod(number or 1, CEILINGS[scales[word]])
            number = above * CEILINGS[scales[word]] + max(below, 1) * scales[word]
            continue
        part = lexicon.numbers("numbers.cardinals").get(word)
        if part is None and ordinals:
            known = lexicon.numbers("numbers.ordinals")
            ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
            part = next((known[word[:end]] for end in ends if word[:end] in known), None)
        # 5 fills the zero at the end of 20; 3 does not extend 2.
        if number and part and number % 10 ** len(str(part)) == 0:
            number += part
            continue
        if number is not None:
            out.append(str(number))
        number = part
        if part is None:
            out.append(word)
    return out if number is None else [*out, str(number)]


# Messages typed on a phone: with slips ("remid", "зватра"), or in Latin letters ("napomni").

MAX_TEXT = 1_000  # characters; a longer message is no order
# A word long enough for a slip in it to be clear.
LETTERS = re.compile(r"(?=[^\W\d_]['’ʼ\w]{3})[^\W\d_]{1,15}(?:['’ʼ][^\W\d_]{2,10})?")
TIMES = ("time.weekday", "time.weekdays_many", "time.month", "time.day", "time.mended")
MIN_LATIN, MIN_CYRILLIC = 6, 5  # letters of a mended word
LANGUAGES = ("ru", "uk")  # that are typed in Latin letters


@lru_cache(maxsize=256)
def mend_orders(text: str) -> str:
    """Return a message without slips in the words of orders and times.

    A message in Latin letters that begins with a Russian or Ukrainian order is written in Cyrillic
    ones.
    """
    if len(text) > MAX_TEXT:
        return text
    first = next((match[0] for match in LETTERS.finditer(text) if match[0].isascii()), "")
    latin = in_latin(first.lower())
    for language in LANGUAGES:
        orders = {
            in_latin(order): order for order in lexicon.of_language("slips.orders", language)
        }
        if latin in orders:
            return mended(orders[latin] + _in_cyrillic(text.partition(first)[2], language))
    return mended(text)


def mended(text: str) -> str:
    """Return the text with slips of one letter mended in its orders, weekdays, months and days.

    Only words in no dictionary are mended, and no names: "зватра", "four o'clock on firday".
    """

    def mend(match: re.Match[str]) -> str:
        word = match[0]
        is_name = word[0].isupper() and not word.isascii() and match.start() > 0
        return word if is_name else _meant(word.lower().replace("ё", "е")) or word

    return LETTERS.sub(mend, text)


@lru_cache(maxsize=4_000)
def _meant(word: str) -> str | None:
    """Return the word that a lower-case word is a slip of, or None."""
    nearest = (_near_forms().get(near) for near in (word, *_deletions(word)))
    meant = next((form for form in nearest if form and _is_slip(word, form)), None)
    if meant is None or word in _forms() or word in lexicon.words("time.no_typo"):
        return None
    return None if parts_of_speech(word) else meant


def _is_slip(word: str, form: str) -> bool:
    """Return True if a word near to another one can be a slip of it.

    In an English order, a wrong letter makes another word too easily ("rewind"), and so does a
    change of the last one ("forge", "cancels"); no dictionary tells them.
    """
    if word[0] != form[0] or abs(len(word) - len(form)) > 1:
        return False
    if not word.isascii() or form not in lexicon.words("slips.orders"):
        return True
    return (len(word) != len(form) and word[-1] == form[-1]) or sorted(word) == sorted(form)


@cache
def _forms() -> frozenset[str]:
    """Return the words in which slips are mended, in all their forms."""
    entries = (form for group in ("slips.orders", *TIMES) for form in lexicon.forms(group))
    forms = {form for entry in entries for form in (entry, entry.replace("'", ""))}
    return frozenset(f for f in forms if len(f) >= (MIN_LATIN if f.isascii() else MIN_CYRILLIC))


@cache
def _near_forms() -> dict[str, str]:
    """Return the same words by themselves and with any letter left out."""
    return {near: form for form in sorted(_forms()) for near in (form, *_deletions(form))}


def _deletions(word: str) -> Iterator[str]:
    return (word[:i] + word[i + 1 :] for i in range(len(word)))


def _in_cyrillic(text: str, language: str) -> str:
    """Return a text in the letters of a language; what is no Latin letter stays."""
    letters = lexicon.pairs("slips.latin", language)
    written, at = "", 0
    lower = text.lower()
    while at < len(text):
        size = next((n for n in (4, 3, 2, 1) if lower[at : at + n] in letters), 0)
        written += letters[lower[at : at + size]] if size else text[at]
        at += size or 1
    return written
