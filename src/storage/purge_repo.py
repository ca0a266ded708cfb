"""Purging what users asked to forget: hidden at once, deleted for good a little later.

So is what /new left behind.
"""

from __future__ import annotations

from src.storage.locks import lock_conversations
from src.storage.pg_client import Transaction
from src.storage.pg_connection import PATIENT
from src.storage.repository import Repository

UNDO_SECONDS = 600  # for so long a forgetting can be taken back; then it is deleted
PARTING_SECONDS = 600  # for so long words outlive the /new that deleted them, at most
PURGE_BATCH = 1000  # messages of one transaction

# What is older than the operator keeps messages; what nobody has read for facts yet waits a week
# longer, and what is not answered yet waits for its answer.
SELECT_AGED = """
SELECT m.id, m.conversation_id::text FROM messages m
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
SELECT m.id, m.conversation_id::text FROM messages m
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

# What /new left to be read for facts and nobody has read: the model was away.
DELETE_PARTING = """
DELETE FROM parting_messages WHERE left_at <= now() - make_interval(secs => %(seconds)s)
"""

# What of facts can be taken back no longer.
DELETE_FORGETTINGS = """
DELETE FROM forgettings WHERE created_at <= now() - make_interval(secs => %(seconds)s)
"""


class PurgeRepository(Repository):
    """Deletes for good; the method blocks (see ``PgClient.run``)."""

    def purge_forgotten(self, *, older_than: float = UNDO_SECONDS) -> int:
        """Delete what was forgotten ``older_than`` seconds ago; returns how many rows."""
        purged = self._client.execute(DELETE_FORGETTINGS, {"seconds": older_than})
        purged += self._client.execute(DELETE_PARTING, {"seconds": PARTING_SECONDS})
        while True:
            rows = self._client.fetch_all(
                SELECT_FORGOTTEN, {"seconds": older_than, "limit": PURGE_BATCH}
            )
            if rows:
                purged += self._purge([row[0] for row in rows], {row[1] for row in rows})
            if len(rows) < PURGE_BATCH:
                return purged

    def delete_aged(self, *, days: int, reads: bool) -> int:
        """Delete messages older than ``days``; facts stay, with the words that they quote.

        Args:
            days: 1 or more.
            reads: Whether messages are read for facts, so that they wait to be.

        Returns:
            How many messages.
        """
        deleted = 0
        while True:
            rows = self._client.fetch_all(
                SELECT_AGED, {"days": days, "reads": reads, "limit": PURGE_BATCH}, limits=PATIENT
            )
            if rows:
                ids, conversations = [row[0] for row in rows], {row[1] for row in rows}
                deleted += self._delete_aged(ids, conversations)
            if len(rows) < PURGE_BATCH:
                return deleted

    def _delete_aged(self, ids: list[int], conversations: set[str]) -> int:
        parameters = {"ids": ids, "rooms": sorted(conversations)}

        def work(transaction: Transaction) -> int:
            lock_conversations(transaction, conversations)
            transaction.execute(KEEP_POSITIONS, parameters)
            return transaction.execute(DELETE_AGED, parameters)

        return self._client.in_transaction(work)

    def _purge(self, ids: list[int], conversations: set[str]) -> int:
        parameters = {"ids": ids, "rooms": sorted(conversations)}

        def work(transaction: Transaction) -> int:
            lock_conversations(transaction, conversations)
            for statement in (KEEP_POSITIONS, CUT_QUOTES):
                transaction.execute(statement, parameters)
            return transaction.execute(DELETE_FORGOTTEN, parameters)

        return self._client.in_transaction(work)
