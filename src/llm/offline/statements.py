"""From a message to facts in the user's own words, one for each clause that can stand alone.

Only relations of the table are recognised, since those replace each other; everything else is kept
as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from src.language.clauses import THIRD_PERSON_SUBJECT, clauses, subject_of
from src.language.kin import KIN
from src.language.relation_statements import told_of_another, told_of_himself
from src.language.sentences import FOLD, MAX_SENTENCE, TAG, is_wish, sentences, told

MAX_FACTS = 12  # of one message
PREFERENCES = frozenset({"likes", "dislikes", "favourite", "diet"})
WISH_IMPORTANCE = 8
FAMILY = 8  # importance of what is told of kin
OTHER = 5


@dataclass(frozen=True)
class Statement:
    """One thing that the user told; ``text`` is an exact piece of his message."""

    text: str
    subject: str = "user"
    relation: str = "other"
    object: str = ""
    memory_type: str = "user_fact"
    importance: int = OTHER

    def arguments(self) -> dict[str, str | int]:
        """As ``save_user_fact`` and the forms of facts take it."""
        return {
            "text": self.text,
            "quote": self.text,
            "memory_type": self.memory_type,
            "importance": self.importance,
            "subject": self.subject,
            "relation": self.relation,
            "object": self.object or self.text,
        }


def statements(text: str) -> list[Statement]:
    """What a message tells, in its order; at most MAX_FACTS."""
    found: list[Statement] = []
    place = 0
    for sentence in sentences(text):
        place = text.index(sentence, place)
        if found and THIRD_PERSON_SUBJECT.match(sentence.translate(FOLD)) and told(sentence):
            found[-1] = _continued(found[-1], text, place + len(sentence))
            continue
        if is_wish(sentence):
            wish = TAG.sub("", sentence).rstrip(".!… ")
            found.append(
                Statement(
                    wish, relation="wish", memory_type="preference", importance=WISH_IMPORTANCE
                )
            )
            continue
        what = told(sentence)
        if what is not None:
            found += [read(clause) for clause in clauses(what[0])]
        if len(found) >= MAX_FACTS:
            break
    return found[:MAX_FACTS]


def _continued(statement: Statement, text: str, end: int) -> Statement:
    """The statement with what is said of it up to ``end``: "У меня есть собака. Её зовут Рекс"."""
    start = text.rfind(statement.text, 0, end)
    longer = text[start:end].rstrip(".!… ")
    return replace(statement, text=longer) if len(longer) <= MAX_SENTENCE else statement


def read(clause: str) -> Statement:
    """A clause with the relation that the table knows, or as it stands."""
    subject = subject_of(clause)
    relation = told_of_himself(clause) if subject == "user" else told_of_another(clause)
    importance = FAMILY if subject in KIN.values() else OTHER
    if relation is None:
        return Statement(clause, subject, importance=importance)
    if subject == "user":
        importance = relation.importance
    is_preference = relation.name.partition("_")[0] in PREFERENCES
    kind = "preference" if is_preference else "user_fact"
    return Statement(clause, subject, relation.name, relation.object, kind, importance)
