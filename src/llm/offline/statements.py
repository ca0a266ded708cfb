"""From a message to facts in the user's own words, one for each clause that can stand alone.

Only relations of the table are recognised, since those replace each other; everything else is kept
as it stands.
"""

from __future__ import annotations

from src.facts.fact import WISH, Fact
from src.language.clauses import THIRD_PERSON_SUBJECT, clauses, subject_of
from src.language.kin import kin
from src.language.plain_text import CUT
from src.language.relation_statements import told_of_another, told_of_himself
from src.language.requests import asks_to_keep_private, forget_request
from src.language.sentences import FOLD, MAX_SENTENCE, TAG, is_wish, sentences, told

MAX_FACTS = 12  # of one message
# What the rules know of a fact.
TOLD = {"text", "quote", "memory_type", "importance", "subject", "relation", "object"}
PREFERENCES = frozenset({"likes", "dislikes", "favourite", "diet"})
WISH_IMPORTANCE = 8
FAMILY = 8  # importance of what is told of kin
OTHER = 5


def statements(text: str) -> list[Fact]:
    """What a message tells, in its order, at most MAX_FACTS; each text is a piece of it."""
    found: list[Fact] = []
    place = 0
    for sentence in sentences(text):
        place = text.index(sentence, place)
        if found and THIRD_PERSON_SUBJECT.match(sentence.translate(FOLD)) and told(sentence):
            found[-1] = _continued(found[-1], text, place + len(sentence))
            continue
        if is_wish(sentence):
            wish = TAG.sub("", sentence).rstrip(".!… ")
            found.append(
                Fact(
                    text=wish, relation=WISH, memory_type="preference", importance=WISH_IMPORTANCE
                )
            )
            continue
        what = told(sentence)
        if what is not None:
            found += [read(clause) for clause in clauses(what[0])]
        if len(found) >= MAX_FACTS:
            break
    return found[:MAX_FACTS]


def told_by(message: str) -> list[Fact]:
    """What a message tells, also around what was cut out of it; a request tells nothing."""
    if forget_request(message) is not None or asks_to_keep_private(message):
        return []
    return [statement for part in message.split(CUT) for statement in statements(part)]


def _continued(statement: Fact, text: str, end: int) -> Fact:
    """The statement with what is said of it up to ``end``: "У меня есть собака. Её зовут Рекс"."""
    start = text.rfind(statement.text, 0, end)
    longer = text[start:end].rstrip(".!… ")
    if len(longer) > MAX_SENTENCE:
        return statement
    return statement.model_copy(update={"text": longer, "quote": longer})


def read(clause: str) -> Fact:
    """A clause with the relation that the table knows, or as it stands."""
    subject = subject_of(clause)
    relation = told_of_himself(clause) if subject == "user" else told_of_another(clause)
    importance = FAMILY if subject in kin().values() else OTHER
    if relation is None:
        return Fact(text=clause, subject=subject, importance=importance)
    if subject == "user":
        importance = relation.importance
    is_preference = relation.name.partition("_")[0] in PREFERENCES
    return Fact(
        text=clause,
        subject=subject,
        relation=relation.name,
        object=relation.object,
        memory_type="preference" if is_preference else "user_fact",
        importance=importance,
    )
