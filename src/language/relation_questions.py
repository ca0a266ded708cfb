"""Which relation a question asks for: "где я живу?" asks for ``lives_in``.

A fact is indexed with its relation as one more term, and a question searches for it. So "I moved
to Lviv" answers "where do I live?" although no word is the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from src.language.relation_table import RELATIONS

ASKED = {r.name: re.compile(r.asked, re.IGNORECASE) for r in RELATIONS if r.asked}
MAX_QUESTION = 300  # characters; a longer text is no question for one relation


def relation_term(relation: str) -> str:
    """The search term of a relation; no word has an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """The relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    return [relation_term(name) for name, pattern in ASKED.items() if pattern.search(text)]


def endings_of(terms: Collection[str]) -> list[str]:
    """Expressions for how these relations end, where none needs to be named: a job, a marriage."""
    return [
        relation.ends
        for relation in RELATIONS
        if relation_term(relation.name) in terms and relation.ends and not relation.ends_by_name
    ]
