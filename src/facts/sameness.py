"""Whether two texts state the same fact.

Similar embeddings prove nothing: 15:00 and 16:30, "есть аллергия" and "нет аллергии" are closer
than 0.95. So two facts are the same only when, besides, they consist of the same words in the
same order. Three things may differ: filler words ("очень", "now", "у меня"), the ending of one
word within its declension or conjugation, and one group of words that moved to the other end.
Whatever tells facts apart (a number, a name, a negation, an antonym, a preposition, a relative,
a tense, singular and plural) is a word that has no counterpart, and no list of such pairs is
needed. A false "same" would lose a fact; a false "different" only stores a near-duplicate, so
synonyms and translations count as different.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache

from src.facts.relations import canonical_subject
from src.language import lexicon
from src.language.number_words import read_numbers
from src.language.plain_text import normalise

__all__ = ["content_hash", "is_same", "normalise"]

CONTRACTIONS = {"ca": "can", "wo": "will", "sha": "shall"}  # before n't
NOUN_STEM, VERB_STEM = 4, 3  # letters that two forms must share
MAX_INFLECTED = 1  # words; two may swap roles: "Олег помог Ивану", "Олегу помог Иван"

# "I have" in Russian and Ukrainian; "I am", whose verb must not be taken for the morning.
FILLER_PHRASE = lexicon.Expression(r"\b<sameness.filler_phrases>\b")
CLAUSES = lexicon.Expression(r"[,;:.!?—–-]\s+\w|\s<sameness.conjunctions>\s", re.IGNORECASE)


def content_hash(text: str, speaker_id: int | None = None) -> str:
    """The SHA-256 of the normalised text, in hexadecimal; with who said it, in a group.

    People choose the texts, so the hash must be one for which nobody can make two facts collide;
    and it must be the same in every process, as Python's own ``hash`` is not.
    """
    told = normalise(text) if speaker_id is None else f"{speaker_id}: {normalise(text)}"
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(
    a: str,
    b: str,
    *,
    similarity: float,
    threshold: float = 0.95,
    subjects: tuple[str, str] | None = None,
) -> bool:
    """Whether ``b`` says what ``a`` says, so that nothing new is to be stored.

    Args:
        a: One fact.
        b: The other.
        similarity: Of their embeddings, calibrated, 0 to 1.
        threshold: Below it they differ, unless the normalised texts are equal.
        subjects: Whom they are about, when known; different subjects make different facts.
            Equal texts are the same all the same: the content hash admits only one of them.
    """
    if normalise(a) == normalise(b):
        return True
    if not similarity >= threshold:  # also when it is no number
        return False
    if subjects is not None and canonical_subject(subjects[0]) != canonical_subject(subjects[1]):
        return False
    left, right = _content(a), _content(b)
    if not left or len(left) != len(right):
        return False
    if _articles(a) == _articles(b) and _inflected(left, right):
        return True
    return not (CLAUSES.search(a) or CLAUSES.search(b)) and _moved(left, right)


def _content(text: str) -> list[str]:
    """The words of a text that carry its meaning, in order."""
    words = FILLER_PHRASE.sub(" ", normalise(text)).split()
    expanded = [part for word in words for part in _expanded(word)]
    variants, fillers = lexicon.values("sameness.variants"), lexicon.words("sameness.fillers")
    return [variants.get(word, word) for word in read_numbers(expanded) if word not in fillers]


def _expanded(word: str) -> list[str]:
    """A contraction as the words that it stands for: "can't", "I've"."""
    if word == "cannot":
        return ["can", "not"]
    if word.endswith("n't") and word != "n't":
        return [CONTRACTIONS.get(word[:-3], word[:-3]), "not"]
    return [word[:-3], "have"] if word.endswith("'ve") else [word]


def _articles(text: str) -> int:
    """How many things are said to be one: "a dog" and "dogs" differ."""
    return sum(word in ("a", "an") for word in normalise(text).split())


def _inflected(left: list[str], right: list[str]) -> bool:
    """Whether the same words come in the same order, few of them in another form."""
    changed = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    return len(changed) <= MAX_INFLECTED and all(_one_word(*pair) for pair in changed)


def _one_word(left: str, right: str) -> bool:
    """Whether two forms are of one word, in the same number, gender and tense."""
    if left.isascii() and right.isascii():
        return left.isalpha() and right.isalpha() and _without_s(left) == _without_s(right)
    stem = next(
        (at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
        min(len(left), len(right)),
    )
    endings = {left[stem:], right[stem:]}
    if stem >= NOUN_STEM and any(endings <= kind for kind in _endings("nouns")):
        return True
    return stem >= VERB_STEM and any(endings <= kind for kind in _endings("verbs"))


@cache
def _endings(kind: str) -> list[frozenset[str]]:
    """The endings that one word may have, declension by declension; ``-`` is none."""
    lists = (told for _, told in lexicon.by_language(f"sameness.{kind}"))
    return [
        frozenset(one.replace("-", "") for one in line.split()) for told in lists for line in told
    ]


def _without_s(word: str) -> str:
    """An English word without the ending of the plural or of the third person."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _moved(left: list[str], right: list[str]) -> bool:
    """Whether the same words come with one group moved from one end to the other.

    The forms must be equal, because endings and order together say who does what. A group does
    not end in a preposition or a negation, which belong to the next word; in English it begins
    with a preposition ("on Mondays I ..."), else the order says who does what. With two numbers
    it would be uncertain which belongs to what.
    """
    if sum(word[-1].isdecimal() for word in left) > 1:
        return False
    prepositions = lexicon.words("sameness.prepositions")
    fixed = lexicon.words("sameness.negations") | prepositions
    for cut in range(1, len(left)):
        first, second = left[:cut], left[cut:]
        if second + first != right or {first[-1], second[-1]} & fixed:
            continue
        if not "".join(left).isascii() or {first[0], second[0]} & prepositions:
            return True
    return False
