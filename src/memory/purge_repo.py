"""Purging what users asked to forget: hidden at once, deleted for good a little later.

So is what /new left behind.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from src.pg.client import Repository, Transaction
from src.pg.connection import PATIENT, Limits
from src.pg.locks import lock_conversations

UNDO_SECONDS = 600  # for so long a forgetting can be taken back; then it is deleted
PARTING_SECONDS = 600  # for so long words outlive the /new that deleted them, at most
PURGE_BATCH = 1000  # messages of one transaction

# What is older than the operator keeps messages; what was not read for facts yet waits a week
# longer, and what is not answered yet waits for its answer.
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

DELETE_AGED = "DELETE FROM messages WHERE id = ANY(%(ids)s)"

# Hidden messages whose time is over, and their conversations. One whose update still waits (its
# answer is under way, or could not be sent yet) stays until that is over.
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

# The positions of what goes are not given out again: they were summarised and read for facts.
KEEP_POSITIONS = """
UPDATE conversations c
SET last_position = greatest(last_position, (SELECT max(position) FROM messages
                                             WHERE conversation_id = c.id))
WHERE id = ANY(%(rooms)s::uuid[])
"""

# A fact that the message told as well stays, in its own words.
CUT_QUOTES = """
UPDATE memory_sources s SET quote = f.text FROM memories f
WHERE f.id = s.memory_id AND s.message_id = ANY(%(ids)s)
"""

# What hangs on them (their answers, tool results, refused facts, documents) goes with them.
DELETE_FORGOTTEN = """
DELETE FROM messages WHERE id = ANY(%(ids)s) AND forgotten_at IS NOT NULL
"""

# What /new left to be read for facts, while the model was away.
DELETE_PARTING = """
DELETE FROM parting_messages WHERE left_at <= now() - make_interval(secs => %(seconds)s)
"""

# What of facts can be taken back no longer.
DELETE_FORGETTINGS = """
DELETE FROM forgettings WHERE created_at <= now() - make_interval(secs => %(seconds)s)
"""

# At an erasure: facts of others, in these conversations, that call the person by a name by which
# they were mentioned there.
DELETE_FACTS_ABOUT = """
DELETE FROM memories f USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND f.owner_id = c.owner_id AND EXISTS (
    SELECT 1 FROM unnest(%(names)s::text[]) AS name
    WHERE position(lower(name) IN lower(f.text || ' ' || f.subject || ' ' || f.object)) > 0
       OR EXISTS (SELECT 1 FROM memory_sources s WHERE s.memory_id = f.id
                  AND position(lower(name) IN lower(s.quote)) > 0))
"""

# The same: facts of groups whose only source is the person.
DELETE_FACTS_TOLD_IN_GROUPS = """
DELETE FROM memories f USING memory_sources s
WHERE s.memory_id = f.id AND %(user)s IN (s.sender_id, s.author_id) AND NOT EXISTS (
    SELECT 1 FROM memory_sources other
    WHERE other.memory_id = f.id
      AND (%(user)s IN (other.sender_id, other.author_id)) IS NOT TRUE)
"""

# All that is remembered of an owner, and what was left to be read for it; messages stay.
TABLES_OF_FACTS = ("memories", "entities", "rejected_facts", "forgettings", "parting_messages")
DELETE_FACTS = tuple(
    f"DELETE FROM {table} WHERE owner_id = %(owner)s"  # noqa: S608
    for table in TABLES_OF_FACTS
)


class PurgeRepository(Repository):
    """Deletes for good; the method blocks (see ``PgClient.run``)."""

    def purge_forgotten(self, *, older_than: float = UNDO_SECONDS) -> int:
        """Delete what was forgotten ``older_than`` seconds ago; returns how many rows."""
        purged = self._client.execute(DELETE_FORGETTINGS, seconds=older_than)
        purged += self._client.execute(DELETE_PARTING, seconds=PARTING_SECONDS)
        work = (KEEP_POSITIONS, CUT_QUOTES, DELETE_FORGOTTEN)
        return purged + self._purge(SELECT_FORGOTTEN, work, seconds=older_than)

    def delete_aged(self, *, days: int, reads: bool) -> int:
        """Delete messages older than ``days``; facts stay, with the words that they quote.

        Args:
            days: 1 or more.
            reads: Whether messages are read for facts, so that they wait to be.

        Returns:
            How many messages.
        """
        work = (KEEP_POSITIONS, DELETE_AGED)
        return self._purge(SELECT_AGED, work, PATIENT, days=days, reads=reads)

    def _purge(
        self, select: str, statements: Sequence[str], limits: Limits | None = None, **wanted: Any
    ) -> int:
        """Run the statements on the messages that one selects, in batches.

        Returns:
            How many rows the last statement of each batch touched, together.
        """
        purged = 0
        while True:
            rows = self._client.fetch_all(select, wanted, limit=PURGE_BATCH, limits=limits)
            if rows:
                ids, rooms = [row[0] for row in rows], sorted({row[1] for row in rows})
                purged += self._client.in_transaction(
                    partial(_purge_batch, ids, rooms, statements)
                )
            if len(rows) < PURGE_BATCH:
                return purged


def _purge_batch(
    ids: list[int], rooms: list[UUID], statements: Sequence[str], transaction: Transaction
) -> int:
    lock_conversations(transaction, rooms)
    return [transaction.execute(sql, ids=ids, rooms=rooms) for sql in statements][-1]
