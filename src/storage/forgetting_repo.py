"""Forgetting what a user asks for: facts, messages that told them, answers that repeat them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

from src.storage.memory_shelf_repo import message_number
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction, storable
from src.storage.pg_connection import PATIENT
from src.storage.tool_result_repo import DELETE_RESULTS

MIN_NAME = 3  # letters of a word that is looked for in answers

# No summary is written of the messages meanwhile (``SummaryRepository`` locks the same row).
LOCK_CONVERSATION = """
SELECT id FROM conversations
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s FOR NO KEY UPDATE
"""

# The facts that these messages told go, with those that they had replaced. It returns the texts
# that held, the objects of all, their other sources, and the answers that cite them.
DELETE_MEMORIES = """
WITH RECURSIVE gone AS (
    SELECT f.id FROM memories f JOIN memory_sources s ON s.memory_id = f.id
    WHERE s.uid = ANY(%(uids)s) AND f.telegram_user_id = %(owner)s
      AND f.thread_id = %(thread_id)s
    UNION
    SELECT f.id FROM memories f JOIN gone ON f.superseded_by = gone.id
    WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
), deleted AS (
    DELETE FROM memories f USING gone
    WHERE f.id = gone.id AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
    RETURNING f.text, f.object, f.retired_at IS NULL AS was_living
)
SELECT coalesce((SELECT array_agg(text) FROM deleted WHERE was_living), '{}'),
       coalesce((SELECT array_agg(DISTINCT object) FROM deleted), '{}'),
       coalesce((SELECT array_agg(DISTINCT s.uid) FROM memory_sources s
                 JOIN gone ON gone.id = s.memory_id), '{}'),
       coalesce((SELECT array_agg(DISTINCT s.answer_id) FROM answer_sources s
                 JOIN gone ON gone.id = s.memory_id), '{}')
"""

# All of the owner's facts.
DELETE_ALL_MEMORIES = """
DELETE FROM memories WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
RETURNING retired_at IS NULL
"""

# The messages themselves: neither shown to the model nor searched any more, and deleted for good
# by a job (``PurgeRepository``).
FORGET_MESSAGES = """
UPDATE messages m SET is_forgotten = true, forgotten_at = coalesce(m.forgotten_at, now())
FROM conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id AND c.telegram_user_id = %(owner)s
  AND c.thread_id = %(thread_id)s AND m.role = 'user'
RETURNING m.id, message_text(m.content)
"""

# Answers to them, answers that cite them, and answers that name what a fact was about.
FORGET_ANSWERS = """
UPDATE messages m SET is_forgotten = true, forgotten_at = coalesce(m.forgotten_at, now())
FROM conversations c
WHERE c.id = m.conversation_id AND c.telegram_user_id = %(owner)s
  AND c.thread_id = %(thread_id)s AND m.role = 'assistant'
  AND (m.reply_to_id = ANY(%(ids)s) OR m.id = ANY(%(answers)s)
       OR m.id IN (SELECT answer_id FROM answer_sources WHERE message_id = ANY(%(ids)s))
       OR EXISTS (
           SELECT 1 FROM jsonb_array_elements(%(names)s) AS name WHERE NOT EXISTS (
               SELECT 1 FROM jsonb_array_elements_text(name) AS word
               WHERE position(word IN translate(lower(m.content), 'ё''’', 'е')) = 0)))
RETURNING m.id
"""

# What was said right after them is embedded anew, without their words before it.
EMBED_NEIGHBOURS = """
UPDATE search_documents n SET model_id = NULL FROM search_documents d
WHERE d.telegram_user_id = %(owner)s AND d.thread_id = %(thread_id)s
  AND d.message_id = ANY(%(ids)s) AND n.telegram_user_id = %(owner)s
  AND n.thread_id = %(thread_id)s AND n.position = d.position + 1
"""

# They leave the search.
DELETE_DOCUMENTS = """
DELETE FROM search_documents
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s AND message_id = ANY(%(ids)s)
"""

# Summaries that told of them; the compaction writes them anew.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries s USING messages m, conversations c
WHERE m.id = ANY(%(ids)s) AND s.conversation_id = m.conversation_id
  AND m.position BETWEEN s.first_position AND s.last_position
  AND c.id = s.conversation_id AND c.telegram_user_id = %(owner)s
  AND c.thread_id = %(thread_id)s
"""

# Names that no fact mentions any more.
DELETE_ORPHANED_ENTITIES = """
DELETE FROM entities e
WHERE e.telegram_user_id = %(owner)s AND e.thread_id = %(thread_id)s
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""


class ForgettingRepository:
    """Forgets for good; every method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient, terms: Callable[[str], Collection[str]]) -> None:
        """Use ``client``; ``terms`` gives the beginnings by which words are recognised."""
        self._client = client
        self._terms = terms

    def forget(
        self, owner: Owner, uids: Sequence[str], *, request_id: int | None = None
    ) -> list[str]:
        """Forget what was said in these messages: the facts, the messages, the bot's answers.

        Args:
            owner: Whose they are; those of others are left alone.
            uids: ``msg-<id>``.
            request_id: The message in which the user asks for it; it names what to forget.

        Returns:
            The texts of the facts that held, or of the messages where no fact was made of them.
        """

        def work(transaction: Transaction) -> list[str]:
            transaction.fetch_all(LOCK_CONVERSATION, owner.columns())
            told_in = {**owner.columns(), "uids": [storable(uid) for uid in uids]}
            row = transaction.fetch_one(DELETE_MEMORIES, told_in)
            texts, objects, told, answers = [list(column) for column in row or ([], [], [], [])]
            named = [number for uid in [*uids, *told] if (number := message_number(str(uid)))]
            messages = transaction.fetch_all(FORGET_MESSAGES, {**owner.columns(), "ids": named})
            if not texts and not messages:
                return []
            request = [] if request_id is None else [request_id]
            transaction.execute(FORGET_MESSAGES, {**owner.columns(), "ids": request})
            asked = [*named, *request]
            about = {"ids": asked, "answers": answers, "names": json.dumps(self._names(objects))}
            said = transaction.fetch_all(FORGET_ANSWERS, {**owner.columns(), **about})
            hidden = {**owner.columns(), "ids": [*asked, *(answer for (answer,) in said)]}
            for statement in (EMBED_NEIGHBOURS, DELETE_DOCUMENTS, DELETE_SUMMARIES):
                transaction.execute(statement, hidden)
            for statement in (DELETE_RESULTS, DELETE_ORPHANED_ENTITIES):
                transaction.execute(statement, owner.columns())
            return texts or [str(text) for _, text in messages]

        return self._client.in_transaction(work, limits=PATIENT)

    def forget_all_facts(self, owner: Owner) -> int:
        """Delete every fact of the owner for good; returns how many held."""

        def work(transaction: Transaction) -> int:
            rows = transaction.fetch_all(DELETE_ALL_MEMORIES, owner.columns())
            transaction.execute(DELETE_ORPHANED_ENTITIES, owner.columns())
            return sum(was_living for (was_living,) in rows)

        return self._client.in_transaction(work, limits=PATIENT)

    def _names(self, objects: Sequence[str]) -> list[list[str]]:
        """The words by which an answer names each object; those too short to tell are left out.

        An English stem may end in another letter than its word ("happi"), so the last is cut.
        """
        words = [
            [
                term.replace("'", "")[: max(MIN_NAME, len(term) - 1)]
                for term in self._terms(object_)
            ]
            for object_ in objects
        ]
        return [name for name in words if any(len(word) >= MIN_NAME for word in name)]
