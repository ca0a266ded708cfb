"""What the memory knows of relations: one record each; their words stand in the lexicon.

The gate, contradictions, questions, forgetting and the offline model read this table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from src.language import endings, lexicon


@dataclass(frozen=True)
class Relation:
    """A relation between somebody and a value.

    Attributes:
        name: Ours, in English.
        is_single: Whether a subject has one value at a time, so that a new one replaces the old.
        importance: Of such a fact by default, 1 to 10.
        ends: An expression for what ends it without a new value.
    """

    name: str
    is_single: bool = False
    importance: int = 5
    ends: str = ""

    @property
    def ends_by_name(self) -> bool:
        """Whether an ending must name what ends (was sold, died): a job or a marriage is one."""
        return not (self.is_single and self.ends in endings.OF_THE_ONLY_ONE)

    @property
    def aliases(self) -> list[str]:
        """What models call it in each language; words of one alias joined by underscores."""
        return list(self._words("aliases"))

    @property
    def about(self) -> list[str]:
        """Words that name it in a request to forget ("my job"); never one of its values."""
        return list(self._words("about"))

    @cached_property
    def asked(self) -> lexicon.Expression | None:
        """An expression for the questions that ask for it; None: none does."""
        asks = any("asked" in told for _, told in lexicon.by_language(f"relations.{self.name}"))
        source = rf"(?<!\w)<relations.{self.name}.asked>(?!\w)"
        return lexicon.Expression(source, re.IGNORECASE) if asks else None

    def _words(self, kind: str) -> Iterator[str]:
        for _, told in lexicon.by_language(f"relations.{self.name}"):
            yield from told.get(kind, "").split()


RELATIONS = (
    Relation("name", is_single=True, importance=10),
    Relation("nickname", is_single=True, importance=9),
    Relation("age", is_single=True, importance=7, ends=endings.DIED),
    Relation("birthday", is_single=True, importance=8),
    Relation("gender", is_single=True),
    Relation("nationality", is_single=True),
    Relation("lives_in", is_single=True, importance=7, ends=f"{endings.MOVED_OUT}|{endings.DIED}"),
    Relation("born_in", is_single=True),
    Relation("address", is_single=True, importance=7),
    Relation("works_as", is_single=True, importance=7, ends=endings.LEFT_WORK),
    Relation("works_at", is_single=True, importance=7, ends=endings.LEFT_WORK),
    Relation("studies_at", is_single=True, importance=7, ends=endings.LEFT_SCHOOL),
    Relation("studies", is_single=True, ends=endings.LEFT_SCHOOL),
    Relation("married_to", is_single=True, importance=8, ends=endings.PARTED),
    Relation("partner", is_single=True, importance=8, ends=endings.PARTED),
    Relation("email", is_single=True, importance=6),
    Relation("phone", is_single=True, importance=6),
    Relation("height", is_single=True),
    Relation("weight", is_single=True),
    Relation("shoe_size", is_single=True),
    Relation("clothes_size", is_single=True),
    Relation("diet", is_single=True, importance=7),
    Relation("time_zone", is_single=True, importance=7),
    Relation("native_language", is_single=True, importance=7),
    Relation("car", is_single=True, ends=endings.PARTED_WITH),
    Relation("likes"),
    Relation("dislikes"),
    Relation("has_child", importance=8),
    Relation("has_sibling", importance=8),
    Relation("has_parent", importance=8),
    Relation("has_pet", importance=6, ends=f"{endings.PARTED_WITH}|{endings.DIED}"),
    Relation("has_friend", ends=endings.PARTED),
    Relation("allergic_to", importance=9, ends=endings.HEALED),
    Relation("speaks"),
    Relation("owns", ends=endings.PARTED_WITH),
    Relation("visited"),
    Relation("plans", ends=endings.CANCELLED),
    Relation("hobby", ends=endings.GIVEN_UP),
    Relation("habit", ends=endings.GIVEN_UP),
    Relation("event"),
    Relation("skill"),
    Relation("condition", importance=8, ends=endings.HEALED),
    Relation("takes_medicine", importance=8, ends=endings.HEALED),
    Relation("knows"),
    Relation("wish", importance=10),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
