"""Table of known relations in three languages, and the questions that ask for them.

The gate, contradictions, questions, forgetting and the offline model use this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from src.reading import lexicon


@dataclass(frozen=True)
class Relation:
    """Relation between a subject and a value.

    Attributes:
        name: Canonical name, in English.
        is_single: True if a subject has one value at a time, so that a new one replaces the old.
        importance: Default importance of such a fact, 1 to 10.
    """

    name: str
    is_single: bool = False
    importance: int = 5

    @property
    def about(self) -> list[str]:
        """Words for it in a request to forget ("my job"); never one of its values."""
        tables = (table for _, table in lexicon.by_language("relations.about"))
        return [word for table in tables for word in table.get(self.name, "").split()]

    @cached_property
    def asked(self) -> lexicon.Expression | None:
        """Expression for the questions that ask for it, or None."""
        asks = any(self.name in table for _, table in lexicon.by_language("relations.asked"))
        source = rf"(?<!\w)<relations.asked.{self.name}>(?!\w)"
        return lexicon.AnyCase(source) if asks else None


RELATIONS = (
    Relation("name", is_single=True, importance=10),
    Relation("nickname", is_single=True, importance=9),
    Relation("age", is_single=True, importance=7),
    Relation("birthday", is_single=True, importance=8),
    Relation("gender", is_single=True),
    Relation("nationality"),
    Relation("lives_in", is_single=True, importance=7),
    Relation("born_in", is_single=True),
    Relation("address", is_single=True, importance=7),
    Relation("works_as", importance=7),
    Relation("works_at", importance=7),
    Relation("studies_at", is_single=True, importance=7),
    Relation("studies", is_single=True),
    Relation("married_to", is_single=True, importance=8),
    Relation("partner", is_single=True, importance=8),
    Relation("email", importance=6),
    Relation("phone", importance=6),
    Relation("height", is_single=True),
    Relation("weight", is_single=True),
    Relation("shoe_size", is_single=True),
    Relation("clothes_size", is_single=True),
    Relation("diet", is_single=True, importance=7),
    Relation("time_zone", is_single=True, importance=7),
    Relation("native_language", importance=7),
    Relation("car"),
    Relation("likes"),
    Relation("dislikes"),
    Relation("has_child", importance=8),
    Relation("has_sibling", importance=8),
    Relation("has_parent", importance=8),
    Relation("has_pet", importance=6),
    Relation("has_friend"),
    Relation("allergic_to", importance=9),
    Relation("speaks"),
    Relation("owns"),
    Relation("visited"),
    Relation("plans"),
    Relation("hobby"),
    Relation("habit"),
    Relation("event"),
    Relation("skill"),
    Relation("condition", importance=8),
    Relation("takes_medicine", importance=8),
    Relation("knows"),
    Relation("wish", importance=10),
)
# What the value of a relation is, where that is certain; else it may be anything.
EntityType = Literal["person", "place", "pet", "organisation", "thing"]
VALUE_TYPES: Mapping[str, EntityType] = {
    **dict.fromkeys(("lives_in", "born_in", "address", "visited"), "place"),
    **dict.fromkeys(("works_at", "studies_at"), "organisation"),
    **dict.fromkeys(
        ("married_to", "partner", "has_child", "has_sibling", "has_parent", "has_friend"), "person"
    ),
    "has_pet": "pet",
}
BY_NAME = {relation.name: relation for relation in RELATIONS}


# Relations in questions: "где я живу?" asks for ``lives_in``.
#
# A fact is indexed with its relation as an additional term, and a question searches for that term.
# So "I moved to Lviv" answers "where do I live?" without a common word.

MAX_QUESTION = 300  # characters; only the end of a longer text is searched


def relation_term(relation: str) -> str:
    """Return the search term of a relation; no word contains an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """Return the relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    asked = ((relation.name, relation.asked) for relation in RELATIONS)
    return [relation_term(name) for name, words in asked if words and words.search(text)]
