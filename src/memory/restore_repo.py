"""Facts of an import: restored from an export with their past, and taken back with their words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from src.memory import memory_repo
from src.memory.purge_repo import KEEP_POSITIONS
from src.memory.writer import entities_of
from src.reading import facts
from src.reading.facts import Fact
from src.texts import detect_language

# The same fact, told at the same time.
SELECT_SAME = """
SELECT id FROM memories
WHERE owner_id = %(owner)s AND (created_at = %(saved_at)s OR retired_at IS NULL)
  AND content_hash = %(content_hash)s
  AND (retired_at IS NULL OR %(retired_at)s::timestamptz IS NOT NULL)
ORDER BY id LIMIT 1
"""

# What a fact has beside its statement.
UPDATE_PAST = """
UPDATE memories
SET created_at = %(saved_at)s, updated_at = %(saved_at)s, speaker = %(speaker)s,
    retired_at = %(retired_at)s, retired_reason = %(retired_reason)s,
    content_hash = %(content_hash)s, private_text = %(private_text)s
WHERE id = %(id)s AND owner_id = %(owner)s
"""
DELETE_SOURCE = "DELETE FROM memory_sources WHERE memory_id = %(id)s"
UPDATE_SUCCESSOR = """
UPDATE memories SET superseded_by = %(successor)s WHERE id = %(id)s AND owner_id = %(owner)s
"""

# Answers that cite messages or facts, what their tools found, and summaries that may repeat them.
DELETE_ANSWERS = """
WITH answers AS (
    DELETE FROM messages a USING answer_sources s
    WHERE a.id = s.answer_id AND a.conversation_id = ANY(%(rooms)s::uuid[])
      AND (s.message_id = ANY(%(ids)s) OR s.memory_id = ANY(%(facts)s))
    RETURNING a.conversation_id, a.position, a.reply_to_id
), results AS (
    DELETE FROM tool_results t USING answers a WHERE t.message_id = a.reply_to_id
)
DELETE FROM conversation_summaries y USING answers a
WHERE y.conversation_id = a.conversation_id
  AND a.position BETWEEN y.first_position AND y.last_position
"""
SELECT_ROOMS = """
SELECT id FROM conversations WHERE owner_id = %(owner)s ORDER BY id FOR NO KEY UPDATE
"""
DELETE_SOURCES = """
DELETE FROM memory_sources s USING memories f
WHERE s.message_id = ANY(%(ids)s) AND f.id = s.memory_id AND f.owner_id = %(owner)s
RETURNING f.id
"""
SELECT_WITHOUT_SOURCE = """
SELECT id FROM memories WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memory_sources WHERE memory_id = memories.id)
"""
DELETE_FACTS = "DELETE FROM memories WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s"
DELETE_MESSAGES = """
DELETE FROM messages m USING conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""
DELETE_ENTITIES = """
DELETE FROM entities e WHERE owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""
# Sizes that BM25 needs, after many documents went.
COUNT_DOCUMENTS = """
UPDATE search_owners o SET (documents, terms) = (
    SELECT count(*), coalesce(sum(length), 0) FROM search_documents
    WHERE owner_id = o.owner_id AND speaker <> 'assistant')
WHERE owner_id = %(owner)s
"""


@dataclass(frozen=True)
class RestoredFact:
    """A fact of an export.

    Attributes:
        fact: Its statement.
        sources: Where it was told, oldest first.
        saved_at: When it was stored.
        past: ``retired_at``, ``retired_reason``, ``speaker`` and ``private_text``, if it has them.
        memory_type: Its kind.
    """

    fact: Fact
    sources: Sequence[memory_repo.Source]
    saved_at: datetime
    past: Mapping[str, Any]
    memory_type: str


class RestoredFacts(memory_repo.StoringRepository):
    """Steps on facts of an import, after ``lock_facts``."""

    def restore(self, restored: RestoredFact) -> int | None:
        """Store a fact with its past; None if it is known."""
        fact = restored.fact.model_copy(update={"memory_type": restored.memory_type})
        columns = dict.fromkeys(("retired_at", "retired_reason", "speaker", "private_text"))
        columns |= restored.past
        hashed = facts.content_hash(columns["private_text"] or fact.text)
        known = {"saved_at": restored.saved_at, "content_hash": hashed}
        if self._rows(SELECT_SAME, **columns | known):
            return None
        source = memory_repo.Source.of_message(0, fact.text, restored.saved_at)
        if restored.sources:
            source = restored.sources[0]
        memory = memory_repo.Proposal(
            fact=fact,
            content_hash=f"{hashed} {source.uid} {restored.saved_at}",  # until it is retired
            source=source,
            terms=memory_repo.fact_terms(fact.text, fact.relation),
            language=detect_language(fact.text),
            origin="teach",
            entities=entities_of(fact.subject, fact.relation, fact),
        )
        number = self.add(memory)
        for other in restored.sources[1:]:
            self.add_source(number, other)
        if not restored.sources:
            self._run(DELETE_SOURCE, id=number)
        self._run(UPDATE_PAST, id=number, **columns | known)
        return number

    def link(self, number: int, successor: int) -> None:
        """Note which fact took a fact's place."""
        self._run(UPDATE_SUCCESSOR, id=number, successor=successor)

    def take_back(self, messages: Sequence[int], facts_: Sequence[int] = ()) -> None:
        """Delete messages, the facts that only they tell, and the answers that cite them.

        Facts that those had replaced hold again.

        Args:
            messages: Ids of messages of the owner.
            facts_: Ids of further facts to delete.
        """
        ids = list(messages)
        rooms = [room for (room,) in self._rows(SELECT_ROOMS)]
        self._run(KEEP_POSITIONS, rooms=rooms)
        told = [id_ for (id_,) in self._rows(DELETE_SOURCES, ids=ids)]
        gone = [id_ for (id_,) in self._rows(SELECT_WITHOUT_SOURCE, facts=told)] + [*facts_]
        self._run(DELETE_ANSWERS, ids=ids, facts=gone, rooms=rooms)
        for id_ in gone:
            self.changes.restore_replaced(id_)
        self._run(DELETE_FACTS, DELETE_MESSAGES, facts=gone, ids=ids)

    def tidy(self) -> None:
        """Delete entities of no fact, and count the documents again."""
        self._run(DELETE_ENTITIES, COUNT_DOCUMENTS)
