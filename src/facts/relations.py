"""Relations and subjects of facts in one vocabulary, and which relations hold one value.

Models name the same relation in many ways and in the user's language. What is known gets one
English name; the rest stays as written and is taken to hold many values, so that a rule alone
never retires a fact whose meaning it does not know.
"""

from __future__ import annotations

import re
from functools import cache

from src.facts.fact import Fact
from src.language import lexicon
from src.language.kin import people
from src.language.plain_text import flat, normalise
from src.language.relation_table import BY_NAME, RELATIONS

_FAVOURITE = lexicon.Expression("(?:<facts.of_somebody>_)?<facts.favourite>_(.+)")
THING_LETTERS = 5  # of each word of a favourite thing, so that case endings make no difference


def _written(relation: str) -> str:
    """A relation in lower case, its words joined by underscores, without apostrophes."""
    letters = flat(relation).replace("'", "")
    return re.sub(r"[\W_]+", "_", letters).strip("_")


@cache
def _aliases() -> dict[str, str]:
    return {
        _written(alias): relation.name
        for relation in RELATIONS
        for alias in (relation.name, *relation.aliases)
    }


@cache
def _auxiliaries() -> tuple[str, ...]:
    return tuple(f"{word}_" for word in lexicon.words("facts.auxiliaries"))


def canonical_relation(relation: str) -> str:
    """The relation's name in our vocabulary, or as written (lower case, underscores).

    A favourite thing is a relation of its own: "улюблене місто" is ``favourite_місто``.
    """
    written = _written(relation)
    bare, aliases = written, _aliases()
    while bare not in aliases and bare.startswith(_auxiliaries()):
        bare = bare.split("_", 1)[1]
    if bare in aliases:
        return aliases[bare]
    favourite = _FAVOURITE.fullmatch(bare)
    if favourite is None:
        return written
    thing = favourite[1].replace("colour", "color")
    return "favourite_" + "_".join(word[:THING_LETTERS] for word in thing.split("_"))


def holds_many(relation: str) -> bool:
    """Whether a subject may have several values of the relation; true of unknown ones."""
    name = canonical_relation(relation)
    known = BY_NAME.get(name)
    return not (known.is_single if known else name.startswith("favourite_"))


def canonical_subject(subject: str) -> str:
    """ "user" for the person himself, an English word for kin, else the normalised name."""
    words = normalise(subject).split()
    owners = lexicon.words("people.owners")
    told = [word.removesuffix("'s") for word in words if word not in owners] or words
    return " ".join(people().get(word, word) for word in told)


def is_update(new: Fact, old: Fact) -> bool:
    """Whether the new fact replaces an old one by rule alone; so may two of one message.

    True when both say a different value of the same single-valued relation of the same subject.
    A brother or a cat of another name is another one: only the user's own name is replaced.
    When each of them holds in the world is for the caller to compare.
    """
    subject, relation = canonical_subject(new.subject), canonical_relation(new.relation)
    if relation == "name" and subject != "user":
        return False
    return (
        subject == canonical_subject(old.subject)
        and relation == canonical_relation(old.relation)
        and not holds_many(relation)
        and normalise(new.object) != normalise(old.object)
    )
