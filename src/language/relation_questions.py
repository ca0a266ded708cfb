"""Which relation a question asks for: "где я живу?" asks for ``lives_in``.

A fact is indexed with its relation as one more term, and a question searches for it. So "I moved
to Lviv" answers "where do I live?" although no word is the same.
"""

from __future__ import annotations

from collections.abc import Collection

from src.language.relation_table import RELATIONS

MAX_QUESTION = 300  # characters; a longer text is no question for one relation


def relation_term(relation: str) -> str:
    """The search term of a relation; no word has an equals sign."""
    return f"={relation}"


def asked_relations(question: str) -> list[str]:
    """The relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    asked = ((relation.name, relation.asked) for relation in RELATIONS)
    return [relation_term(name) for name, words in asked if words and words.search(text)]


def endings_of(terms: Collection[str]) -> list[str]:
    """Expressions for how these relations end, where none needs to be named: a job, a marriage."""
    return [
        relation.ends
        for relation in RELATIONS
        if relation_term(relation.name) in terms and relation.ends and not relation.ends_by_name
    ]
