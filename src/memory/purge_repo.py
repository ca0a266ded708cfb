"""Purge of forgotten messages, of messages that /new left, and of messages past their age."""

from collections.abc import Sequence
from typing import Any

from src.memory.change_repo import UNDO_SECONDS
from src.pg.client import PATIENT, Limits, Repository, Transaction
from src.pg.locks import lock_conversations

PARTING_SECONDS = 600  # the longest time that a message outlives the /new that deleted it
PURGE_BATCH = 1000  # messages per transaction

# Messages past the operator's retention. One that was not read for facts yet is kept a week
# longer, one whose update is not handled until that is done.
SELECT_AGED = """
SELECT m.id, m.conversation_id FROM messages m
JOIN conversations c ON c.id = m.conversation_id
WHERE m.created_at < now() - make_interval(days => %(days)s)
  AND (NOT %(reads)s OR m.position <= c.extracted_position
       OR m.created_at < now() - make_interval(days => %(days)s + 7))
  AND NOT EXISTS (
    SELECT 1 FROM telegram_updates u
    WHERE u.bot_id = m.bot_id AND u.chat_id = m.chat_id AND u.message_id = m.telegram_message_id
      AND u.handled_at IS NULL)
ORDER BY m.id LIMIT %(limit)s
"""

# Messages past their age.
DELETE_AGED = "DELETE FROM messages WHERE id = ANY(%(ids)s)"

# Hidden messages past the undo time. One whose update is pending (its answer is under way, or was
# not delivered yet) stays until that is handled.
SELECT_FORGOTTEN = """
SELECT m.id, m.conversation_id FROM messages m
LEFT JOIN messages asked ON asked.id = m.reply_to_id
WHERE m.forgotten_at < now() - make_interval(secs => %(seconds)s) AND NOT EXISTS (
    SELECT 1 FROM telegram_updates u
    WHERE u.bot_id = coalesce(asked.bot_id, m.bot_id)
      AND u.chat_id = coalesce(asked.chat_id, m.chat_id)
      AND u.message_id = coalesce(asked.telegram_message_id, m.telegram_message_id)
      AND u.handled_at IS NULL)
ORDER BY m.forgotten_at, m.id LIMIT %(limit)s
"""

# Keep positions of deleted messages from being reused: they were summarised and read for facts.
KEEP_POSITIONS = """
UPDATE conversations c
SET last_position = greatest(last_position, (SELECT max(position) FROM messages
                                             WHERE conversation_id = c.id))
WHERE id = ANY(%(rooms)s::uuid[])
"""

# Replace quotes of deleted messages with the text of their fact, which stays.
REPLACE_QUOTES = """
UPDATE memory_sources s SET quote = f.text FROM memories f
WHERE f.id = s.memory_id AND s.message_id = ANY(%(ids)s)
"""

# Forgotten messages; answers, tool results, rejected facts and documents go by foreign keys.
DELETE_FORGOTTEN = "DELETE FROM messages WHERE id = ANY(%(ids)s) AND forgotten_at IS NOT NULL"

# Messages that /new left and that were not read in time, such as while the model was away.
DELETE_PARTING = """
DELETE FROM parting_messages WHERE left_at <= now() - make_interval(secs => %(seconds)s)
"""

# Changes that cannot be undone any more.
DELETE_CHANGES = """
DELETE FROM changes
WHERE kind IN ('forgotten', 'reminder')
  AND made_at <= now() - make_interval(secs => %(seconds)s)
"""

# Forgotten facts past the undo time, and the entities that only they mention.
DELETE_FACTS_FORGOTTEN = """
WITH gone AS (
    DELETE FROM memories
    WHERE retired_reason = 'forgotten'
      AND retired_at <= now() - make_interval(secs => %(seconds)s)
    RETURNING id
), orphaned AS (
    DELETE FROM entities e USING gone JOIN memory_entities l ON l.memory_id = gone.id
    WHERE e.id = l.entity_id AND NOT EXISTS (
        SELECT 1 FROM memory_entities other
        WHERE other.entity_id = e.id AND other.memory_id NOT IN (SELECT id FROM gone))
)
SELECT 1 FROM gone
"""

# At an erasure: facts of the owners of these conversations that contain a name of the person.
DELETE_FACTS_ABOUT = """
DELETE FROM memories f USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND f.owner_id = c.owner_id AND EXISTS (
    SELECT 1 FROM unnest(%(names)s::text[]) AS name
    WHERE position(lower(name) IN lower(f.text || ' ' || f.subject || ' ' || f.object)) > 0
       OR EXISTS (SELECT 1 FROM memory_sources s WHERE s.memory_id = f.id
                  AND position(lower(name) IN lower(s.quote)) > 0))
"""

# At an erasure: facts of groups whose only source is the person.
DELETE_FACTS_TOLD_IN_GROUPS = """
DELETE FROM memories f USING memory_sources s
WHERE s.memory_id = f.id AND %(user)s IN (s.sender_id, s.author_id) AND NOT EXISTS (
    SELECT 1 FROM memory_sources other
    WHERE other.memory_id = f.id
      AND (%(user)s IN (other.sender_id, other.author_id)) IS NOT TRUE)
"""

# Everything remembered of an owner, and messages of /new that wait to be read; others stay.
TABLES_OF_FACTS = ("memories", "entities", "rejected_facts", "changes", "parting_messages")
DELETE_FACTS = tuple(
    f"DELETE FROM {table} WHERE owner_id = %(owner)s"  # noqa: S608
    for table in TABLES_OF_FACTS
)


class PurgeRepository(Repository):
    """Deletes messages for good; every method blocks (see ``PgClient.run``)."""

    def purge_forgotten(self, *, older_than: float = UNDO_SECONDS) -> int:
        """Delete messages hidden more than ``older_than`` seconds ago, and all that expired.

        Returns:
            The number of deleted rows.
        """
        purged = self._client.execute(DELETE_CHANGES, seconds=older_than)
        purged += self._client.execute(DELETE_FACTS_FORGOTTEN, seconds=older_than)
        purged += self._client.execute(DELETE_PARTING, seconds=PARTING_SECONDS)
        work = (KEEP_POSITIONS, REPLACE_QUOTES, DELETE_FORGOTTEN)
        return purged + self._purge(SELECT_FORGOTTEN, work, seconds=older_than)

    def delete_aged(self, *, days: int, reads: bool) -> int:
        """Delete messages older than ``days``; facts stay, with the words that they quote.

        Args:
            days: 1 or more.
            reads: True if messages are read for facts; unread ones wait for that.

        Returns:
            The number of deleted messages.
        """
        work = (KEEP_POSITIONS, DELETE_AGED)
        return self._purge(SELECT_AGED, work, PATIENT, days=days, reads=reads)

    def _purge(
        self, select: str, statements: Sequence[str], limits: Limits | None = None, **params: Any
    ) -> int:
        """Run the statements on the selected messages, in batches.

        Returns:
            The number of rows that the last statement touched in all batches.
        """
        purged = 0
        while True:
            rows = self._client.fetch_all(select, params, limit=PURGE_BATCH, limits=limits)
            if not rows:
                return purged
            rooms = sorted({room for _, room in rows})
            batch = {"ids": [id_ for id_, _ in rows], "rooms": rooms}

            def work(transaction: Transaction, batch: dict[str, Any] = batch) -> int:
                lock_conversations(transaction, batch["rooms"])
                return [transaction.execute(sql, batch) for sql in statements][-1]

            purged += self._client.in_transaction(work)
