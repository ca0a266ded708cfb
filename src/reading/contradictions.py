"""Rules for which stored facts a new one replaces: few, and never the present for a wish.

A fact is replaced by rule if both give the same person, now, another value of a relation that has
one value at a time, and the new one says nothing else, unless users tell that they moved or the
like. What a model claims counts if subject and relation agree. Neither holds across qualifiers (an
older and a younger brother, weekdays and weekends), nor for what was, will be or might be.
"""

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Literal

from src.reading import lexicon
from src.reading.facts import (
    BY_NAME,
    VALUE_TYPES,
    Fact,
    canonical_relation,
    canonical_subject,
    is_update,
    lemmas_about,
)
from src.reading.time_expressions import read_time
from src.reading.words import content_words, kin_of, lemmas_of, people, people_in
from src.texts.morphology import parts_of_speech, words
from src.texts.plain_text import blank, plain

# Of these a person has one; any other relative or friend may be one of several.
ONLY = frozenset({"user", "mother", "father", "wife", "husband"})
# Relations under whose names models state what ends or replaces the others.
FAMILIES = (
    frozenset({"works_as", "works_at"}), frozenset({"studies", "studies_at"}),
    frozenset({"lives_in", "address"}), frozenset({"married_to", "partner"}),
    frozenset({"likes", "dislikes", "hobby", "habit", "diet"}),
    frozenset({"has_pet", "owns", "car"}), frozenset({"plans", "event"}),
    frozenset({"allergic_to", "condition", "takes_medicine"}),
)  # fmt: skip
# Qualifiers that may also tell how a change came: "in summer I moved to a friend in Bath".
CIRCUMSTANCES = frozenset({
    "spring", "summer", "autumn", "winter", "morning", "evening",
    "friend", "colleague", "neighbour", "cousin",
})  # fmt: skip
# Where what was, or what is not, turns to what is: "I used to live in Leeds, but now in Oslo".
TURN = lexicon.AnyCase(
    r"(?<=[.!?;])\s+|[,\s]+(?=<change.turns>(?!\w))|,\s+(?=<change.denial>(?!\w))"
)
ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)  # where only the words of a time count
COMMA = re.compile(r",\s+")  # "not Leeds any more, it is Oslo" denies the one, not the other
# Words that tell a value, or its change, and nothing else: "moved", "my new address".
TELLING = lexicon.AnyCase(r"(?<!\w)<change.telling>(?!\w)")
PAST, FUTURE, DENIAL = (
    lexicon.AnyCase(rf"(?<!\w)<change.{group}>(?!\w)") for group in ("past", "future", "denial")
)
# Parts of speech of which a future form may be another word.
OTHER_WORD = frozenset({"NOUN", "ADJF", "ADJS", "ADVB", "PREP", "NPRO", "CONJ", "pres", "past"})
Tense = Literal["past", "present", "future"]


def replaces(new: Fact, old: Fact, said: str = "") -> bool:
    """Return True if ``new`` replaces ``old`` by rule; both are of different messages.

    Args:
        new: The new fact.
        old: The stored one.
        said: What was said around the quote of ``new``, such as "if" or "almost".
    """
    return (
        is_update(new, old)
        and is_one_person(new.subject)
        and qualifiers(new) == qualifiers(old)
        and not _differ(new, old)
        and not _says_more(new, old)
        and tense_of(new, said) == tense_of(old) == "present"
        and not _denies(new, said)
    )


def may_replace(new: Fact, old: Fact, said: str = "") -> bool:
    """Return True if ``new`` may replace ``old`` as a model claims: subject and relation agree.

    What was replaces only what tells of the same: "I used to smoke" ends "I smoke". The arguments
    are those of ``replaces``.
    """
    if canonical_subject(new.subject) != canonical_subject(old.subject) or _differ(new, old):
        return False
    ours, theirs = qualifiers(new), qualifiers(old)
    if ours - theirs - CIRCUMSTANCES or "other" in theirs - ours:
        return False
    if ours and theirs and ours.isdisjoint(theirs):
        return False
    tense, words_of_old = tense_of(new, said), _words(old)
    if _denies(new, said) and not _words(new) & lemmas_of(old.object):
        return False
    ended = content_words(PAST.sub(" ", plain(new.object)))
    ends_other = not all(word.lemmas & words_of_old for word in ended)
    if tense == "future" or (tense == "past" and ends_other):
        return False
    names = {canonical_relation(new.relation), canonical_relation(old.relation)}
    if names <= BY_NAME.keys():
        return len(names) == 1 or any(names <= family for family in FAMILIES)
    return bool(_words(new) & words_of_old) or (len(names) == 1 and "other" not in names)


def is_one_person(subject: str) -> bool:
    """Return True for the user, a named one, and a relative of whom there is one."""
    known = frozenset(people().values())
    roles = {kin_of(word) or word for word in canonical_subject(subject).split()}
    return all(role in ONLY or not (role in known or kin_of(role)) for role in roles)


def qualifiers(fact: Fact) -> frozenset[str]:
    """Return what tells a value from another one of the same kind: ``older``, ``weekend``."""
    said = plain(f"{fact.text} {fact.quote} {fact.subject}")
    return frozenset(kind for kind, words in _qualifiers() if words.search(said))


@cache
def _qualifiers() -> list[tuple[str, re.Pattern[str]]]:
    rules = lexicon.rules("change.qualifiers", {})
    return [(k, re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)")) for k, words in rules.items()]


def tense_of(fact: Fact, said: str = "") -> Tense:
    """Return whether a fact tells of what is, was, or will, may or shall be."""
    for part in _telling_parts(fact, said):
        verbs = [tags for tags in map(parts_of_speech, words(part)) if "VERB" in tags]
        if FUTURE.search(part) or any("futr" in v and v.isdisjoint(OTHER_WORD) for v in verbs):
            return "future"
        if PAST.search(part) or any(v >= {"past", "impf"} and "perf" not in v for v in verbs):
            return "past"
    return "present"


def _denies(fact: Fact, said: str) -> bool:
    value, parts = lemmas_of(fact.object), _telling_parts(fact, said)
    return any(DENIAL.search(one) for part in parts for one in _parts_with(value, part, COMMA))


def _telling_parts(fact: Fact, said: str) -> list[str]:
    """Return the parts of text and quote that tell the value, or all of them."""
    value = lemmas_of(fact.object)
    parts = [part for text in (fact.text, said or fact.quote) for part in _parts_with(value, text)]
    return [part for part in parts if value & lemmas_of(part)] or parts


def _parts_with(
    value: frozenset[str], text: str, turn: lexicon.Expression | re.Pattern[str] = TURN
) -> list[str]:
    """Return those of the parts, where a text turns, that have most words of a value.

    Of "not 5/1, but 5/2 High Street" it is the second.
    """
    parts = turn.split(plain(text))
    shares = [len(value & lemmas_of(part)) for part in parts]
    return [part for part, share in zip(parts, shares, strict=True) if share == max(shares)]


def _says_more(new: Fact, old: Fact) -> bool:
    """Return True if a fact says more than another value, and when.

    "Masha from school" may be another Masha, and a week in York is no home; but where users say
    that they moved, they moved whatever else they say.
    """
    known = lemmas_of(f"{old.text} {old.quote} {new.object} {new.subject}")
    relation = canonical_relation(new.relation)
    known |= lemmas_about(relation)
    told = read_time(" ".join(_parts_with(lemmas_of(new.object), new.text)), ANY_DAY).content
    is_move = canonical_subject(new.subject) == "user" and relation == "lives_in"
    if is_move and TELLING.search(told):
        return False
    return any(not word.lemmas & known for word in content_words(TELLING.sub(" ", told)))


def _differ(new: Fact, old: Fact) -> bool:
    """Return True if each fact names other people than the other, besides subject and value.

    "Brother lives in York" is no fact of the user, whatever a model calls its subject.
    """
    if canonical_subject(new.subject) == "user" and _first_kin(new) != _first_kin(old):
        return True
    ours, theirs = _others(new), _others(old)
    return bool(ours and theirs) and ours.isdisjoint(theirs)


def _first_kin(fact: Fact) -> str | None:
    """Return the relative with whom a text begins, unless the user is named too, or the value."""
    owners = lexicon.words("people.owners")
    told = [word for word in words(plain(fact.text)) if word not in owners]
    is_value = VALUE_TYPES.get(canonical_relation(fact.relation)) == "person"
    if not told or is_value or "user" in map(canonical_subject, told):
        return None
    return kin_of(told[0])


def _others(fact: Fact) -> frozenset[str]:
    named, known = people_in(f"{fact.text}. {fact.quote}"), f"{fact.object} {fact.subject}"
    own = [kin_of(fact.subject) or "", *lemmas_of(known)]
    return frozenset(one.lstrip("~@") for one in named) - {one.lstrip("~@") for one in own}


def _words(fact: Fact) -> frozenset[str]:
    return lemmas_of(f"{fact.text} {fact.object}") - lemmas_of(fact.subject)


# Polarity of a statement.
LIKING, DISLIKING, QUITTING = (
    lexicon.Expression(rf"\b<change.{group}>\b") for group in ("liking", "disliking", "quitting")
)
NEGATION = lexicon.Expression(r"\b<change.negation>\b|n't\b")
DENYING = (DISLIKING, QUITTING, NEGATION)
CLAUSE = lexicon.Expression(r"[.,;:!?()]+\s+|\s+[—–-]\s+|\s+<change.joints>\s+")


@lru_cache(maxsize=4096)
def affirms(text: str) -> bool:
    """Return True if a statement affirms: it denies nothing, or denies a denial.

    Clauses without a denial are ignored.
    """
    lower = text.replace("ё", "е").replace("’", "'").lower()
    denials = [part for part in CLAUSE.split(lower) if any(sign.search(part) for sign in DENYING)]
    rest, dislikes = DISLIKING.subn(blank, " , ".join(denials))
    rest, ends = QUITTING.subn(blank, LIKING.sub(blank, rest))
    _, negations = NEGATION.subn(blank, rest)
    return (min(dislikes, 1) + min(ends, 1) + negations) % 2 == 0
