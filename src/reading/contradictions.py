"""Contradictions: rules that find the facts a new fact retires, without a model.

Four rules: one value at a time (a home, a job), polarity ("люблю" and "не люблю", "есть" and
"нет", "no longer"), endings ("развелись", "sold") and wishes about the same thing ("коротко" and
"подробно"). Each requires that both facts have the same subject and share the words of the one
that denies. For the rest, the model that stores the fact may name them (``Fact.replaces``).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from src.reading import lexicon
from src.reading.facts import Fact, canonical_relation, canonical_subject, is_update
from src.reading.relations import BY_NAME, RELATIONS
from src.reading.words import Word, content_words, lemmas_about, lemmas_in
from src.texts.plain_text import blank, plain

ENDED = lexicon.Expression(
    "<endings.left_work>|<endings.left_school>|<endings.parted_with>|<endings.died>"
    "|<endings.given_up>|<endings.moved_out>|<endings.finished>"
)
RATIO_NEW = 10  # maximum words of the old fact, per word of a new denial
RATIO_OLD = 2  # maximum words of an old denial with its context, per word of the denial
ADDRESS = "address"  # kind of wish in which every word is the value
ROOT = 5  # letters; common prefix of words of one root
LIKING, DISLIKING, QUITTING = (
    lexicon.Expression(rf"\b<change.{group}>\b") for group in ("liking", "disliking", "quitting")
)
NEGATION = lexicon.Expression(r"\b<change.negation>\b|n't\b")
SIGNS = (DISLIKING, LIKING, QUITTING, NEGATION)  # in the order of trial
CLAUSE = lexicon.Expression(r"[.,;:!?()]+\s+|\s+[—–-]\s+|\s+<change.joints>\s+")


@dataclass(frozen=True)
class Stance:
    """Affirmation or denial in a statement.

    Attributes:
        is_positive: True if it affirms.
        is_attitude: True if it expresses a liking or a dislike.
        words: Content words of the affirming or denying clauses.
        governed: Indexes of the words after a preposition.
        size: Number of content words in the whole text, including other clauses.
    """

    is_positive: bool
    is_attitude: bool
    words: tuple[Word, ...]
    governed: frozenset[int]
    size: int


def replaces(new: Fact, old: Fact) -> bool:
    """Return True if any rule says that ``new`` retires ``old``."""
    return is_update(new, old) or _is_same_wish(new, old) or denies(new, old) or ends(new, old)


def denies(new: Fact, old: Fact) -> bool:
    """Return True if one fact affirms what the other denies; the denial has no further words.

    A long text that says other things as well ("…, but I'm not sure") denies nothing.
    """
    if canonical_subject(new.subject) != canonical_subject(old.subject):
        return False
    latest, earlier = stance(new.text), stance(old.text)
    if latest.is_positive == earlier.is_positive or latest.is_attitude != earlier.is_attitude:
        return False
    denial, claim = (earlier, latest) if latest.is_positive else (latest, earlier)
    if not denial.words or any(
        word.is_kin and not _has(denial.words, word) for word in claim.words
    ):
        return False
    if len(denial.words) * (RATIO_OLD if denial is earlier else RATIO_NEW) < earlier.size:
        return False
    return all(_speaks_of(claim, word, is_governed=i in denial.governed)
               for i, word in enumerate(denial.words))  # fmt: skip


def ends(new: Fact, old: Fact) -> bool:
    """Return True if ``new`` states the end of what ``old`` says, without a new value."""
    if _ends_a_thing(new, old):
        return True
    relation = BY_NAME.get(canonical_relation(old.relation))
    if relation is None or not relation.ends:
        return False
    text = plain(new.text)
    match = relation.ended.search(text)
    if match is None or stance(old.text).is_positive is False:
        return False
    about = content_words(f"{text[: match.start()]} , {text[match.end() :]}")
    old_words = content_words(f"{old.text} {old.subject} {old.object}")
    by_relation = lemmas_about(relation.name)
    shares = any(_has(old_words, word) or word.lemmas & by_relation for word in about)
    if relation.ends_by_name:
        return shares
    if canonical_subject(new.subject) != canonical_subject(old.subject):
        return False
    times = lemmas_in("change.times")
    names = [w for w in content_words(new.text) if w.is_name and not w.lemmas & times]
    others = [w for w in content_words(old.text) if w.is_name]
    return shares or not (names and others)


def _ends_a_thing(new: Fact, old: Fact) -> bool:
    """Return True if a thing, a job, a habit or a life in the old fact is said to have ended.

    All words of the clause must be in the old fact: "уволилась из библиотеки" ends
    "подрабатываю в библиотеке", whatever its relation is called.
    """
    if not stance(old.text).is_positive or ENDED.search(plain(old.text)):
        return False
    old_words = content_words(f"{old.text} {old.object}")
    roots = {word.text[:ROOT] for word in old_words}  # "plumbing", "plumber"
    for clause in CLAUSE.split(plain(new.text)):
        match = ENDED.search(clause)
        if match is None or NEGATION.search(clause[: match.start()]):
            continue
        rest = content_words(f"{clause[: match.start()]} , {clause[match.end() :]}")
        about = [word for word in rest if not word.lemmas & lemmas_in("change.times")]
        unknown = [word for word in about if not _has(old_words, word)]
        if about and all(len(w.text) > ROOT and w.text[:ROOT] in roots for w in unknown):
            return True
    return False


def ended_relations(text: str) -> list[str]:
    """Return the relations whose end a statement may state."""
    folded = plain(text)
    return [relation.name for relation in RELATIONS if relation.ended.search(folded)]


@lru_cache(maxsize=4096)
def stance(text: str) -> Stance:
    """Return the polarity of a statement and the words it is about."""
    lower = text.replace("ё", "е").replace("’", "'").lower()
    size = len(content_words(_blank_signs(lower)[0]))
    denying = (DISLIKING, QUITTING, NEGATION)
    denials = [part for part in CLAUSE.split(lower) if any(sign.search(part) for sign in denying)]
    # Clauses without a denial are ignored.
    lower, (disliked, liked, stopped, negations) = _blank_signs(" , ".join(denials) or lower)
    words = tuple(content_words(lower))
    prepositions = lexicon.words("sameness.prepositions")
    before = [re.findall(r"[\w']+", lower[: word.start])[-1:] for word in words]
    governed = frozenset(n for n, last in enumerate(before) if not prepositions.isdisjoint(last))
    negatives = bool(disliked) + bool(stopped) + negations
    return Stance(negatives % 2 == 0, bool(disliked or liked), words, governed, size)


def _blank_signs(text: str) -> tuple[str, list[int]]:
    """Blank out each of SIGNS; return the text and the number of matches of each."""
    counts = []
    for sign in SIGNS:
        text, count = sign.subn(blank, text)
        counts.append(count)
    return text, counts


def _speaks_of(claim: Stance, word: Word, *, is_governed: bool) -> bool:
    """Return True if the word has the same role in both: "собака" is not "аллергия на собак"."""
    return any(
        word.lemmas & other.lemmas and (i in claim.governed) == is_governed
        for i, other in enumerate(claim.words)
    )


def _has(words: Iterable[Word], word: Word) -> bool:
    return any(word.lemmas & other.lemmas for other in words)


def _is_same_wish(new: Fact, old: Fact) -> bool:
    if not canonical_relation(new.relation) == canonical_relation(old.relation) == "wish":
        return False
    kind, scope = _read_wish(new.text)
    old_kind, old_scope = _read_wish(old.text)
    if kind is None or kind != old_kind or new.text == old.text:
        return False
    pairs = ((scope, old_scope), (old_scope, scope))
    return kind == ADDRESS or all(_has(others, word) for one, others in pairs for word in one)


def _read_wish(text: str) -> tuple[str | None, list[Word]]:
    """Return the kind of a wish and the words of its scope (none: all answers)."""
    folded = plain(text)
    for kind, words in _kinds_of_wishes():
        if words.search(folded):
            rest = content_words(words.sub(" ", folded))
            return kind, [word for word in rest if not word.lemmas & lemmas_in("change.wishing")]
    return None, []


@cache
def _kinds_of_wishes() -> list[tuple[str, re.Pattern[str]]]:
    rules = lexicon.rules("change.wishes", {})
    sources = {kind: "|".join(words) for kind, words in rules.items()}
    return [(kind, re.compile(rf"(?<!\w)(?:{words})(?!\w)")) for kind, words in sources.items()]
