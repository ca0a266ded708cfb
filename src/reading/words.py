"""Words by their lemmas: what a text is about, whom it names; and numbers."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from src.reading import lexicon
from src.reading.relations import BY_NAME
from src.texts.morphology import (
    STRAIGHT,
    WORD,
    lemmas,
    nominatives,
    noun_forms,
    parts_of_speech,
    words,
)
from src.texts.plain_text import flat, plain, without_yo

Lemmas = frozenset[str]

# What answers a word that asks for a value, as "plot 27" tells a number.
VALUES: Mapping[str, re.Pattern[str] | lexicon.Expression] = {
    "lines.number": re.compile(r"\d"),
    "lines.phone": re.compile(r"\d[\d ()-]{5,}\d"),
    "lines.day": lexicon.AnyCase(r"\b(?:<time.weekday>|<time.weekdays_many>)\b"),
    "lines.place": lexicon.AnyCase(r"(?<!\w)<evidence.tells.where>"),
}
# What a question asks for, and what of that a text tells; whom it speaks of is no expression.
ASKS, TELLS = (
    {kind: lexicon.AnyCase(rf"(?<!\w)<evidence.{part}.{kind}>(?!\w)") for kind in kinds}
    for part, kinds in (
        ("asks", ("when", "where", "many", "who")),
        ("tells", ("when", "where", "many")),
    )
)
# What else a word may be that is also a name: "люба", "слава".
NO_NAME = frozenset({"VERB", "ADJF", "ADJS", "ADVB", "INTJ", "PREP", "CONJ", "NPRO"})
MAX_ENDING = 4  # letters of an ordinal after its beginning ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number counts no thousands
# What a scale may grow to: of 2,000,003 thousand only the 3 is multiplied.
CEILINGS = {100: 1_000, 1_000: 10**6, 10**6: 10**9}


@lru_cache(maxsize=4_000)
def content(text: str) -> tuple[Lemmas, ...]:
    """The content words of a text, each as the set of its possible dictionary forms."""
    empty = lexicon.words("meaning.empty")
    found = (lemmas(word) for word in words(text) if word.lower() not in empty)
    return tuple(forms for forms in found if forms and not forms & empty)


@lru_cache(maxsize=2_000)
def answered_values(text: str) -> Lemmas:
    """Words of a question that are answered without being said: a number, a phone, a day."""
    told = (word for key, one in VALUES.items() if one.search(text) for word in lexicon.words(key))
    return frozenset[str]().union(*map(lemmas, told))


@lru_cache(maxsize=4_000)
def tells_what_is_asked(text: str, question: str) -> bool | None:
    """Whether a text tells a time, a place, a number or a person; None: it is asked for none."""
    kind = next((kind for kind, one in ASKS.items() if one.search(question)), None)
    if kind is None:
        return None
    if kind != "who":
        return TELLS[kind].search(text) is not None
    told = list(map(parts_of_speech, (word.text for word in content_words(text))))
    is_told = bool(people_in(text)) or any("anim" in tags for tags in told)
    return is_told or (False if any(told) else None)  # no dictionary has names in small letters


# What no dictionary knows is no person behind them: "on Tuesdays in the Methodist hall".
NEAR = 40  # characters in which they stand
PLACE = lexicon.Expression(r"(?<!\w)(?i:<people.before_place>) (?:[A-ZА-ЯЁІЇЄҐ][\w'.-]* )*$")


@lru_cache(maxsize=2_000)
def people_in(text: str) -> frozenset[str]:
    """The relatives (``@brother``) and the names (``~тарас``) in a text."""
    found: set[str] = set()
    for word in content_words(text):
        tags = parts_of_speech(word.text)
        if role := kin_of(word.text):
            found.add(f"@{role}")
        elif (word.is_name and not tags and not _is_of_place(text, word.start)) or (
            "Name" in tags and tags.isdisjoint(NO_NAME) and (word.is_name or "inan" not in tags)
        ):
            found |= {f"~{form}" for form in word.lemmas}
    return frozenset(found)


def _is_of_place(text: str, start: int) -> bool:
    return PLACE.search(text, max(0, start - NEAR), start) is not None


def shared(one: str, other: str) -> list[Lemmas]:
    """The content words of ``one`` that ``other`` speaks of as well."""
    there = frozenset[str]().union(*content(other))
    return [forms for forms in content(one) if forms & there]


def speaks_of(text: str, wanted: str) -> bool:
    """Whether a text has all words of another in any form, or begins a word with it as it stands.

    So what is being typed finds already: "аллер" as well as "кот" in "боюсь за кота".
    """
    words_of_it = content(wanted)
    if words_of_it and len(shared(wanted, text)) == len(words_of_it):
        return True
    return f" {flat(wanted)}" in f" {flat(text)}"


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
    lower = without_yo(word.lower()).removesuffix("'s")
    roles = kin()
    if lower in roles:
        return roles[lower]
    return next((roles[form] for form in sorted(noun_forms(word)) if form in roles), None)


MAX_WORDS = 4  # of a name
SPELLINGS = (
    ("kh", "x"), ("zh", "j"), ("shch", "w"), ("sh", "w"), ("ch", "c"),
    ("yo", "io"), ("yu", "iu"), ("ya", "ia"), ("ye", "ie"), ("y", "i"), ("h", "g"), ("ii", "i"),
)  # fmt: skip


def same_name(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case ending, alphabet or spelling of letters.

    A form that is a name itself is no ending of another one: "Валерия" is a woman, although it
    may be a form of "Валерий". Short forms ("Саша" for Александр) may be another person.
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
    word, wanted = without_yo(form), without_yo(base)
    names = nominatives(word)
    return wanted in names and word not in names


def _latin(word: str) -> str:
    """The word in Latin letters, in one of the spellings that are in use."""
    letters = _latin_letters()
    latin = "".join(letters.get(letter, letter) for letter in word)
    for spelling, written in SPELLINGS:
        latin = latin.replace(spelling, written)
    return latin


@cache
def _latin_letters() -> dict[str, str]:
    tables = (table for _, table in lexicon.by_language("forms.latin"))
    return {"'": "", "-": ""} | {one: latin for table in tables for one, latin in table.items()}


# Words by their lemmas: whether two texts speak of the same thing, in three languages.
#
# The search cuts words to four letters, which finds more; deleting and retiring facts need to know
# that "карате" is no "карандаш". Cyrillic words are looked up in
# the dictionaries of Russian and of Ukrainian, and count as equal when they share a lemma in
# either.


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
    for match in WORD.finditer(text.translate(STRAIGHT)):
        written = match.group()
        if forms := word_lemmas(written.lower()):
            before = text[: match.start()].rstrip(" \t«\"'(*_")
            begins = not before or before[-1] in ".!?\n"
            is_name = written[0].isupper() and not (begins and not written.isupper())
            words.append(Word(written.lower(), forms, is_name, match.start(), match.end()))
    return words


def lemmas_of(text: str) -> frozenset[str]:
    """The lemmas of all words of a text."""
    return frozenset(lemma for word in content_words(text) for lemma in word.lemmas)


@cache
def lemmas_in(group: str) -> frozenset[str]:
    """The lemmas of the words that a group of the lexicon lists."""
    return lemmas_of(" ".join(lexicon.words(group)))


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
    bare = word.removesuffix("'s")
    bare = lexicon.values("forms.alike").get(bare, bare)
    forms = lemmas(bare)
    if forms & lexicon.words("meaning.empty"):
        return frozenset()
    person = people().get(without_yo(word.removesuffix("'s")))
    if person == "user":
        return frozenset()
    return forms | ({f"@{person}"} if person else set())


@cache
def _meaningless() -> frozenset[str]:
    groups = ("search.stop_words", "meaning.fillers", "meaning.empty")
    return frozenset[str]().union(*map(lexicon.words, groups))


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """The words, with numbers in digits: "двадцать пять тысяч" and "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Read "первое" and "fifth" as well.
    """
    read: list[str] = []
    number: int | None = None
    scales = lexicon.numbers("numbers.scales")
    for word in words:
        if word in scales:
            if number is None and read and read[-1].isdecimal() and len(read[-1]) <= MAX_DIGITS:
                number = int(read.pop())
            number = _scaled(number or 1, scales[word])
            continue
        part = _value(word, ordinals=ordinals)
        # 5 fills the zero at the end of 20; 3 does not continue 2.
        if number and part and number % 10 ** len(str(part)) == 0:
            number += part
            continue
        if number is not None:
            read.append(str(number))
        number = part
        if part is None:
            read.append(word)
    return read if number is None else [*read, str(number)]


def _value(word: str, *, ordinals: bool) -> int | None:
    """The number that a word says by itself."""
    value = lexicon.numbers("numbers.cardinals").get(word)
    if value is not None or not ordinals:
        return value
    known = lexicon.numbers("numbers.ordinals")
    ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
    return next((known[word[:end]] for end in ends if word[:end] in known), None)


def _scaled(number: int, scale: int) -> int:
    """2 thousand; in 2,000,003 thousand the 3 alone is multiplied."""
    above, below = divmod(number, CEILINGS[scale])
    return above * CEILINGS[scale] + (below or 1) * scale
