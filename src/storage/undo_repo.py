"""Taking a forgetting back for a while, and deleting for good what can be taken back no longer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from src.storage.forgetting_repo import (
    DELETE_SUMMARIES,
    Change,
    set_quote,
    set_text,
)
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction
from src.storage.search_index_repo import NewDocument, add_documents, reset_vectors, reword
from src.storage.tool_result_repo import DELETE_RESULTS

UNDO_MINUTES = 10  # for so long a forgetting can be taken back; then it is deleted

# A forgetting that can still be taken back, once.
TAKE_FORGETTING = """
DELETE FROM forgettings
WHERE id = %(id)s AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
  AND created_at > now() - make_interval(mins => %(minutes)s)
RETURNING kept
"""

# The facts, sources and names as they were; what was told anew meanwhile stands.
RESTORE_ROWS = (
    """
INSERT INTO memories OVERRIDING SYSTEM VALUE
SELECT (jsonb_populate_record(NULL::memories, CASE
            WHEN old->>'superseded_by' IS NULL
                 OR EXISTS (SELECT 1 FROM memories s WHERE s.id = (old->>'superseded_by')::bigint)
                 OR EXISTS (SELECT 1 FROM jsonb_array_elements(%(facts)s::jsonb) o
                            WHERE o->>'id' = old->>'superseded_by')
            THEN old ELSE old || '{"superseded_by": null}' END)).*
FROM jsonb_array_elements(%(facts)s::jsonb) AS old
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO memory_sources OVERRIDING SYSTEM VALUE
SELECT s.* FROM jsonb_populate_recordset(NULL::memory_sources, (
    SELECT coalesce(jsonb_agg(CASE WHEN EXISTS (SELECT 1 FROM messages m
                                       WHERE m.id = (old->>'message_id')::bigint)
                          THEN old ELSE old || '{"message_id": null}' END), '[]')
    FROM jsonb_array_elements(%(sources)s::jsonb) AS old)) AS s
WHERE EXISTS (SELECT 1 FROM memories f WHERE f.id = s.memory_id)
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO entities OVERRIDING SYSTEM VALUE
SELECT e.* FROM jsonb_populate_recordset(NULL::entities, %(entities)s::jsonb) AS e
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO memory_entities
SELECT l.* FROM jsonb_populate_recordset(NULL::memory_entities, %(links)s::jsonb) AS l
WHERE EXISTS (SELECT 1 FROM memories f WHERE f.id = l.memory_id)
  AND EXISTS (SELECT 1 FROM entities e WHERE e.id = l.entity_id)
ON CONFLICT DO NOTHING
""",
)

# Facts that came back and are not in the search.
SELECT_UNINDEXED_FACTS = """
SELECT f.id, f.text, f.relation,
       coalesce((SELECT max(said_at) FROM memory_sources s WHERE s.memory_id = f.id), f.created_at)
FROM memories f
WHERE f.id = ANY(%(facts)s) AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
  AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.memory_id = f.id)
"""

# Messages that are shown again; the search takes them in anew.
SHOW_MESSAGES = """
UPDATE messages m SET is_forgotten = false, indexed_at = NULL
FROM conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id
  AND c.telegram_user_id = %(owner)s AND c.thread_id = %(thread_id)s
"""

# The newest forgetting that can be taken back, and when it was.
SELECT_LAST = """
SELECT id, created_at FROM forgettings
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
  AND created_at > now() - make_interval(mins => %(minutes)s)
ORDER BY id DESC LIMIT 1
"""

# What can be taken back no longer.
PURGE = "DELETE FROM forgettings WHERE created_at <= now() - make_interval(mins => %(minutes)s)"


class UndoRepository:
    """Restores what was forgotten; the methods block (see ``PgClient.run``)."""

    def __init__(
        self,
        client: PgClient,
        terms: Callable[[str], Sequence[str]],
        fact_terms: Callable[[str, str], Sequence[str]],
    ) -> None:
        """Index messages by their ``terms``, facts by those of their text and relation."""
        self._client = client
        self._terms = terms
        self._fact_terms = fact_terms

    def find_last(self, transaction: Transaction, owner: Owner) -> tuple[int, datetime] | None:
        """The number and the time of the newest forgetting that can be taken back."""
        parameters = {**owner.columns(), "minutes": UNDO_MINUTES}
        row = transaction.fetch_one(SELECT_LAST, parameters)
        return (int(row[0]), row[1]) if row else None

    def restore(
        self,
        transaction: Transaction,
        owner: Owner,
        number: int,
    ) -> list[str] | None:
        """Take a forgetting back; the texts that are known again, None when it is too late.

        Args:
            transaction: The caller's.
            owner: Whose it is.
            number: As ``ForgettingRepository.forget`` returned it.
        """
        parameters = {**owner.columns(), "id": number, "minutes": UNDO_MINUTES}
        row = transaction.fetch_one(TAKE_FORGETTING, parameters)
        if row is None:
            return None
        kept = dict(row[0])
        rows = {name: json.dumps(kept[name]) for name in ("facts", "sources", "entities", "links")}
        for statement in RESTORE_ROWS:
            transaction.execute(statement, rows)
        facts = [int(fact["id"]) for fact in kept["facts"]]
        back = transaction.fetch_all(SELECT_UNINDEXED_FACTS, {**owner.columns(), "facts": facts})
        documents = [
            NewDocument("memory", int(id_), "user", said_at, self._fact_terms(text, relation))
            for id_, text, relation, said_at in back
        ]
        if documents:
            add_documents(transaction, owner, documents)
        for source, before, _ in kept["quotes"]:
            set_quote(transaction, owner, source, before)
        self._restore_messages(transaction, owner, kept["messages"])
        transaction.execute(DELETE_RESULTS, owner.columns())
        return [str(text) for text in kept["texts"]]

    def purge(self) -> int:
        """Delete what can be taken back no longer; returns how many forgettings."""
        return self._client.execute(PURGE, {"minutes": UNDO_MINUTES})

    def _restore_messages(
        self, transaction: Transaction, owner: Owner, messages: Sequence[Any]
    ) -> None:
        ids = [int(number) for number, _, _ in messages]
        hidden = [int(number) for number, _, after in messages if after is None]
        for number, before, after in messages:
            if after is not None and set_text(
                transaction, owner, Change(int(number), after, before)
            ):
                reword(transaction, owner, int(number), self._terms(before))
        reset_vectors(transaction, owner, ids)
        transaction.execute(SHOW_MESSAGES, {**owner.columns(), "ids": hidden})
        transaction.execute(DELETE_SUMMARIES, {**owner.columns(), "ids": ids})
