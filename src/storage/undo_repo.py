"""Undo: of a replacement at any time, of a forgetting as long as it can be taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from src.storage.forgetting_repo import DELETE_SUMMARIES, Change, set_quote, set_text
from src.storage.owner import Owner
from src.storage.pg_client import Transaction
from src.storage.purge_repo import UNDO_SECONDS
from src.storage.search_index_repo import NewDocument, add_documents, reset_vectors, reword
from src.storage.tool_result_repo import DELETE_RESULTS


class Undone(NamedTuple):
    """What was taken back.

    Attributes:
        text: The fact that is not believed any more; None when a forgetting was taken back.
        restored: What holds, or is known, again.
    """

    text: str | None
    restored: list[str]


# The last change that can be taken back: of facts that replaced others, or how a certain one came
# about, and of forgettings; in a group of what the one who asks told, or wanted forgotten.
SELECT_LAST = """
SELECT 'replacement' AS kind, f.id, f.text, max(old.retired_at) AS at
FROM memories f LEFT JOIN memories old ON old.superseded_by = f.id
     AND old.retired_reason = 'replaced'
     AND old.telegram_user_id = %(owner)s AND old.thread_id = %(thread_id)s
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
  AND (f.id = %(memory_id)s OR %(memory_id)s::bigint IS NULL AND old.id IS NOT NULL)
  AND (f.speaker_id IS NULL OR f.speaker_id = %(asker)s)
GROUP BY f.id, f.text
UNION ALL
SELECT 'forgetting', id, NULL, created_at FROM forgettings
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s AND %(memory_id)s::bigint IS NULL
  AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
ORDER BY at DESC, kind DESC, id DESC LIMIT 1
"""

# The facts that another one replaced hold again, until the end that they had before; one that
# was told anew meanwhile holds already.
RESTORE_REPLACED = """
UPDATE memories f SET retired_at = NULL, retired_reason = NULL, superseded_by = NULL,
       updated_at = now(),
       valid_until = nullif(valid_until, (SELECT said_at FROM memory_sources
                                          WHERE memory_id = %(memory_id)s ORDER BY id LIMIT 1))
WHERE superseded_by = %(memory_id)s AND retired_reason = 'replaced'
  AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
  AND NOT EXISTS (SELECT 1 FROM memories living
                  WHERE living.content_hash = f.content_hash AND living.retired_at IS NULL
                    AND living.telegram_user_id = %(owner)s AND living.thread_id = %(thread_id)s)
RETURNING text
"""

# The fact that replaced them is not believed any more; it stays, so that a replay of its message
# does not bring it back.
RETIRE_UNDONE = """
UPDATE memories SET retired_at = now(), retired_reason = 'undone'
WHERE id = %(memory_id)s AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
"""

# A forgetting that can still be taken back, once; in a group by the member who wanted it.
TAKE_FORGETTING = """
DELETE FROM forgettings
WHERE id = %(id)s AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
  AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
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
            THEN old ELSE old || '{"superseded_by": null}' END
        || jsonb_build_object('telegram_user_id', %(owner)s, 'thread_id', %(thread_id)s))).*
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
SELECT (jsonb_populate_record(NULL::entities, old
        || jsonb_build_object('telegram_user_id', %(owner)s, 'thread_id', %(thread_id)s))).*
FROM jsonb_array_elements(%(entities)s::jsonb) AS old
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
SELECT f.id, f.text, f.relation, f.said_at FROM facts f
WHERE f.id = ANY(%(facts)s) AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
  AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.memory_id = f.id)
"""

# Messages that are shown again; the search takes them in anew.
SHOW_MESSAGES = """
UPDATE messages m SET is_forgotten = false, forgotten_at = NULL, indexed_at = NULL
FROM conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id
  AND c.telegram_user_id = %(owner)s AND c.thread_id = %(thread_id)s
"""


class UndoRepository:
    """Takes back; the methods block (see ``PgClient.run``)."""

    def __init__(
        self,
        terms: Callable[[str], Sequence[str]],
        fact_terms: Callable[[str, str], Sequence[str]],
    ) -> None:
        """Index messages by their ``terms``, facts by those of their text and relation."""
        self._terms = terms
        self._fact_terms = fact_terms

    def undo(
        self,
        transaction: Transaction,
        owner: Owner,
        memory_id: int | None = None,
        asker: int | None = None,
    ) -> Undone | None:
        """Take the last change back, or how ``memory_id`` came about; None: there is none.

        In a group only what ``asker`` told, or wanted forgotten, himself.
        """
        change = {**owner.columns(), "memory_id": memory_id, "asker": asker}
        row = transaction.fetch_one(SELECT_LAST, {**change, "seconds": UNDO_SECONDS})
        if row is None:
            return None
        kind, number, text, _ = row
        if kind == "forgetting":
            return self.undo_forgetting(transaction, owner, number, asker)
        transaction.execute(RETIRE_UNDONE, {**change, "memory_id": number})
        return Undone(text, self.restore_replaced(transaction, owner, number))

    def restore_replaced(
        self, transaction: Transaction, owner: Owner, memory_id: int
    ) -> list[str]:
        """Let what a fact replaced hold again; returns the texts."""
        change = {**owner.columns(), "memory_id": memory_id}
        return [str(text) for (text,) in transaction.fetch_all(RESTORE_REPLACED, change)]

    def undo_forgetting(
        self, transaction: Transaction, owner: Owner, number: int, asker: int | None = None
    ) -> Undone | None:
        """Take a forgetting back; None when it is too late.

        Args:
            transaction: The caller's.
            owner: Whose it is.
            number: As ``ForgettingRepository.forget`` returned it.
            asker: Who wants it back, in a group.
        """
        parameters = {**owner.columns(), "id": number, "seconds": UNDO_SECONDS, "asker": asker}
        row = transaction.fetch_one(TAKE_FORGETTING, parameters)
        if row is None:
            return None
        kept = dict(row[0])
        names = ("facts", "sources", "entities", "links")
        rows = owner.columns() | {name: json.dumps(kept[name]) for name in names}
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
        return Undone(None, [str(text) for text in kept["texts"]])

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
