"""Which known facts cannot hold beside a new one, by rules that need no model.

Four rules: one value at a time (a home, a job), polarity ("люблю" and "не люблю", "есть" and
"нет", "no longer"), endings ("развелись", "sold") and wishes about the same thing ("коротко" and
"подробно"). Each asks that both speak of the same: the subject, and the words of the one that
denies. What no rule sees, the model that stores the fact may name (``Fact.replaces``).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from src.reading import lexicon
from src.reading.facts import Fact, canonical_relation, canonical_subject, is_update
from src.reading.relations import BY_NAME, RELATIONS
from src.reading.words import Word, content_words, lemmas_about, lemmas_in
from src.texts.plain_text import blank, flat

ENDED = lexicon.Expression(
    "<endings.left_work>|<endings.left_school>|<endings.parted_with>|<endings.died>"
    "|<endings.given_up>|<endings.moved_out>|<endings.finished>"
)
MOST_DENIED = 10  # words of a statement for each word of what denies it
MOST_BESIDE = 2  # words of a denial, with what stands beside it, for each word that is denied
ONE_WORD = "address"  # the kind of wish of which every word is the value
KIN_LETTERS = 5  # that words of one root have in common
LIKING, DISLIKING, QUITTING = (
    lexicon.Expression(rf"\b<change.{group}>\b") for group in ("liking", "disliking", "quitting")
)
NEGATION = lexicon.Expression(r"\b<change.negation>\b|n't\b")
SIGNS = (DISLIKING, LIKING, QUITTING, NEGATION)  # in the order of trial
CLAUSE = lexicon.Expression(r"[.,;:!?()]+\s+|\s+[—–-]\s+|\s+<change.joints>\s+")


@dataclass(frozen=True)
class Stance:
    """What a statement affirms or denies.

    Attributes:
        is_positive: Whether it affirms.
        is_attitude: Whether it says what somebody likes.
        words: What it speaks of.
        governed: Places of the words that stand after a preposition.
        size: How many words the whole text speaks of, with what stands beside a denial.
    """

    is_positive: bool
    is_attitude: bool
    words: tuple[Word, ...]
    governed: frozenset[int]
    size: int


def replaces(new: Fact, old: Fact) -> bool:
    """Whether ``old`` cannot hold any more once ``new`` is said, whichever rule says so."""
    is_told = is_update(new, old) or _is_wish_about_same(new, old)
    return is_told or denies(new, old) or ends(new, old)


def denies(new: Fact, old: Fact) -> bool:
    """Whether one affirms what the other denies: the one that denies speaks of nothing more.

    Of a long text that says other things as well ("…, but I'm not sure") nothing is denied.
    """
    if canonical_subject(new.subject) != canonical_subject(old.subject):
        return False
    mine, theirs = stance(new.text), stance(old.text)
    if mine.is_positive == theirs.is_positive or mine.is_attitude != theirs.is_attitude:
        return False
    no, yes = (theirs, mine) if mine.is_positive else (mine, theirs)
    if not no.words or any(word.is_kin and not _has(no.words, word) for word in yes.words):
        return False
    if len(no.words) * (MOST_BESIDE if no is theirs else MOST_DENIED) < theirs.size:
        return False
    return all(_speaks_of(yes, word, is_governed=place in no.governed)
               for place, word in enumerate(no.words))  # fmt: skip


def ends(new: Fact, old: Fact) -> bool:
    """Whether ``new`` tells the end of what ``old`` says, without a new value."""
    if _ends_a_thing(new, old):
        return True
    relation = BY_NAME.get(canonical_relation(old.relation))
    if relation is None or not relation.ends:
        return False
    text = flat(new.text)
    match = relation.ended.search(text)
    if match is None or stance(old.text).is_positive is False:
        return False
    told = content_words(f"{text[: match.start()]} , {text[match.end() :]}")
    known = content_words(f"{old.text} {old.subject} {old.object}")
    by_relation = lemmas_about(relation.name)
    shares = any(_has(known, word) or word.lemmas & by_relation for word in told)
    if relation.ends_by_name:
        return shares
    if canonical_subject(new.subject) != canonical_subject(old.subject):
        return False
    times = lemmas_in("change.times")
    names = [w for w in content_words(new.text) if w.is_name and not w.lemmas & times]
    others = [w for w in content_words(old.text) if w.is_name]
    return shares or not (names and others)


def _ends_a_thing(new: Fact, old: Fact) -> bool:
    """Whether the end of a thing, a job, a habit or a life is told, and the old fact is about it.

    All that the clause names must be in the old fact: "уволилась из библиотеки" ends
    "подрабатываю в библиотеке", whatever its relation is called.
    """
    if not stance(old.text).is_positive or ENDED.search(flat(old.text)):
        return False
    known = content_words(f"{old.text} {old.object}")
    for clause in CLAUSE.split(flat(new.text)):
        match = ENDED.search(clause)
        if match is None or NEGATION.search(clause[: match.start()]):
            continue
        rest = content_words(f"{clause[: match.start()]} , {clause[match.end() :]}")
        told = [word for word in rest if not word.lemmas & lemmas_in("change.times")]
        if told and all(_has(known, word) or _begins_like(known, word) for word in told):
            return True
    return False


def _begins_like(words: Iterable[Word], word: Word) -> bool:
    """Whether one is made of the other: "plumbing", "plumber"."""
    return any(
        len(word.text) > KIN_LETTERS and word.text[:KIN_LETTERS] == other.text[:KIN_LETTERS]
        for other in words
    )


def ended_relations(text: str) -> list[str]:
    """The relations whose end a statement may tell."""
    told = flat(text)
    return [relation.name for relation in RELATIONS if relation.ended.search(told)]


@lru_cache(maxsize=4096)
def stance(text: str) -> Stance:
    """Whether a statement affirms or denies, and of what."""
    lower = text.replace("ё", "е").replace("’", "'").lower()
    size = len(content_words(_without_signs(lower)[0]))
    denying = (DISLIKING, QUITTING, NEGATION)
    marked = [part for part in CLAUSE.split(lower) if any(sign.search(part) for sign in denying)]
    # What else is said beside it denies nothing.
    lower, (disliked, liked, stopped, negations) = _without_signs(" , ".join(marked) or lower)
    words = tuple(content_words(lower))
    governed = frozenset(
        place for place, word in enumerate(words) if _is_governed(lower, word.start)
    )
    negatives = bool(disliked) + bool(stopped) + negations
    return Stance(negatives % 2 == 0, bool(disliked or liked), words, governed, size)


def _without_signs(text: str) -> tuple[str, list[int]]:
    """The text with spaces in the place of each of SIGNS, and how often it has them."""
    counts = []
    for sign in SIGNS:
        text, count = sign.subn(blank, text)
        counts.append(count)
    return text, counts


def _is_governed(text: str, start: int) -> bool:
    before = re.findall(r"[\w']+", text[:start])
    return bool(before) and before[-1] in lexicon.words("sameness.prepositions")


def _speaks_of(yes: Stance, word: Word, *, is_governed: bool) -> bool:
    """Whether the other has the word in the same role: "собака" is not "аллергия на собак"."""
    return any(
        word.lemmas & other.lemmas and (place in yes.governed) == is_governed
        for place, other in enumerate(yes.words)
    )


def _has(words: Iterable[Word], word: Word) -> bool:
    return any(word.lemmas & other.lemmas for other in words)


def _is_wish_about_same(new: Fact, old: Fact) -> bool:
    if not canonical_relation(new.relation) == canonical_relation(old.relation) == "wish":
        return False
    kind, matter = _read_wish(new.text)
    known, known_matter = _read_wish(old.text)
    if kind is None or kind != known or new.text == old.text:
        return False
    pairs = ((matter, known_matter), (known_matter, matter))
    return kind == ONE_WORD or all(_has(others, word) for one, others in pairs for word in one)


def _read_wish(text: str) -> tuple[str | None, list[Word]]:
    """What a wish is about, and for which answers: none for all; later wishes replace it."""
    told = flat(text)
    for kind, words in _kinds_of_wishes():
        if words.search(told):
            rest = content_words(words.sub(" ", told))
            return kind, [word for word in rest if not word.lemmas & lemmas_in("change.wishing")]
    return None, []


@cache
def _kinds_of_wishes() -> list[tuple[str, re.Pattern[str]]]:
    told = lexicon.rules("change.wishes", {})
    either = {kind: "|".join(words) for kind, words in told.items()}
    return [(kind, re.compile(rf"(?<!\w)(?:{words})(?!\w)")) for kind, words in either.items()]
