"""Table of known relations in three languages, and the questions that ask for them.

The gate, contradictions, questions, forgetting and the offline model use this table.
"""

from dataclasses import dataclass
from functools import cached_property

from src.reading import lexicon

# Endings that need no name if the relation has one value at a time.
OF_THE_ONLY_ONE = ("parted", "left_work", "left_school")


@dataclass(frozen=True)
class Relation:
    """Relation between a subject and a value.

    Attributes:
        name: Canonical name, in English.
        is_single: True if a subject has one value at a time, so that a new one replaces the old.
        importance: Default importance of such a fact, 1 to 10.
        ends: Groups of the lexicon's ``endings`` that end it without a new value.
    """

    name: str
    is_single: bool = False
    importance: int = 5
    ends: str = ""

    @property
    def ends_by_name(self) -> bool:
        """True if an ending must name what ends (was sold, died); a job or a marriage need not."""
        return not (self.is_single and self.ends in OF_THE_ONLY_ONE)

    @cached_property
    def ended(self) -> lexicon.Expression:
        """Expression for its end, in lower case and with "е" for "ё"."""
        groups = (f"<endings.{group}>" for group in self.ends.split())
        return lexicon.Expression("|".join(groups) or "(?!)")

    @property
    def aliases(self) -> frozenset[str]:
        """Names that models use for it in each language; words joined by underscores."""
        return lexicon.words(f"relations.{self.name}.aliases")

    @property
    def about(self) -> list[str]:
        """Words for it in a request to forget ("my job"); never one of its values."""
        languages = lexicon.by_language(f"relations.{self.name}")
        return [word for _, table in languages for word in table.get("about", "").split()]

    @cached_property
    def asked(self) -> lexicon.Expression | None:
        """Expression for the questions that ask for it, or None."""
        asks = any("asked" in table for _, table in lexicon.by_language(f"relations.{self.name}"))
        source = rf"(?<!\w)<relations.{self.name}.asked>(?!\w)"
        return lexicon.AnyCase(source) if asks else None


RELATIONS = (
    Relation("name", is_single=True, importance=10),
    Relation("nickname", is_single=True, importance=9),
    Relation("age", is_single=True, importance=7, ends="died"),
    Relation("birthday", is_single=True, importance=8),
    Relation("gender", is_single=True),
    Relation("nationality", is_single=True),
    Relation("lives_in", is_single=True, importance=7, ends="moved_out died"),
    Relation("born_in", is_single=True),
    Relation("address", is_single=True, importance=7),
    Relation("works_as", is_single=True, importance=7, ends="left_work"),
    Relation("works_at", is_single=True, importance=7, ends="left_work"),
    Relation("studies_at", is_single=True, importance=7, ends="left_school"),
    Relation("studies", is_single=True, ends="left_school"),
    Relation("married_to", is_single=True, importance=8, ends="parted"),
    Relation("partner", is_single=True, importance=8, ends="parted"),
    Relation("email", is_single=True, importance=6),
    Relation("phone", is_single=True, importance=6),
    Relation("height", is_single=True),
    Relation("weight", is_single=True),
    Relation("shoe_size", is_single=True),
    Relation("clothes_size", is_single=True),
    Relation("diet", is_single=True, importance=7),
    Relation("time_zone", is_single=True, importance=7),
    Relation("native_language", is_single=True, importance=7),
    Relation("car", is_single=True, ends="parted_with"),
    Relation("likes"),
    Relation("dislikes"),
    Relation("has_child", importance=8),
    Relation("has_sibling", importance=8),
    Relation("has_parent", importance=8),
    Relation("has_pet", importance=6, ends="parted_with died"),
    Relation("has_friend", ends="parted"),
    Relation("allergic_to", importance=9, ends="healed"),
    Relation("speaks"),
    Relation("owns", ends="parted_with"),
    Relation("visited"),
    Relation("plans", ends="cancelled"),
    Relation("hobby", ends="given_up"),
    Relation("habit", ends="given_up"),
    Relation("event"),
    Relation("skill"),
    Relation("condition", importance=8, ends="healed"),
    Relation("takes_medicine", importance=8, ends="healed"),
    Relation("knows"),
    Relation("wish", importance=10),
)
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
