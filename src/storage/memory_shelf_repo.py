"""Facts as the user and the prompt see them: listing, forgetting, undoing, looking up sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from src.storage.memory_repo import Memory
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction, storable


@dataclass(frozen=True)
class SourceMessage:
    """Where something was said.

    Attributes:
        text: The message, or the quote when the message is gone.
        said_at: When.
        chat_id: With ``telegram_message_id``: where the message stands in Telegram, if it is
            still known.
        telegram_message_id: See ``chat_id``.
        bot_id: The bot that numbered it so.
    """

    text: str
    said_at: datetime
    chat_id: int | None = None
    telegram_message_id: int | None = None
    bot_id: int | None = None


# The facts that are always in the prompt: the pinned, then the most important that hold now.
SELECT_KEY_FACTS = """
SELECT f.id, f.text, f.memory_type, f.subject, f.relation, f.object, f.importance, f.pinned,
       f.valid_from, f.valid_until, f.retired_at, s.uid, s.said_at, s.message_id
FROM memories f
LEFT JOIN LATERAL (SELECT uid, said_at, message_id FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
  AND (f.valid_until IS NULL OR f.valid_until > now())
  AND (f.pinned OR f.importance >= %(importance)s)
ORDER BY f.pinned DESC, f.importance DESC, f.created_at DESC, f.id DESC
LIMIT %(limit)s
"""

# The living facts, newest first.
SELECT_MEMORIES = """
SELECT f.id, f.text, f.memory_type, f.subject, f.relation, f.object, f.importance, f.pinned,
       f.valid_from, f.valid_until, f.retired_at, s.uid, s.said_at, s.message_id
FROM memories f
LEFT JOIN LATERAL (SELECT uid, said_at, message_id FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
ORDER BY f.created_at DESC, f.id DESC
LIMIT %(limit)s OFFSET %(offset)s
"""

# How many living facts there are.
COUNT_MEMORIES = """
SELECT count(*) FROM memories
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s AND retired_at IS NULL
"""


# The user wants to forget what he said there: the facts that these messages told go, with those
# that they had replaced and with their other sources.
DELETE_MEMORIES = """
WITH RECURSIVE gone AS (
    SELECT f.id FROM memories f JOIN memory_sources s ON s.memory_id = f.id
    WHERE s.uid = ANY(%(uids)s) AND f.telegram_user_id = %(owner)s
      AND f.thread_id = %(thread_id)s
    UNION
    SELECT f.id FROM memories f JOIN gone ON f.superseded_by = gone.id
    WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
), told AS (
    SELECT array_agg(DISTINCT s.uid) AS uids
    FROM memory_sources s JOIN gone ON gone.id = s.memory_id
), deleted AS (
    DELETE FROM memories f USING gone
    WHERE f.id = gone.id AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
    RETURNING f.text, f.retired_at IS NULL AS was_living
)
SELECT coalesce((SELECT array_agg(text) FROM deleted WHERE was_living), '{}'),
       coalesce((SELECT uids FROM told), '{}')
"""

# All of the owner's facts.
DELETE_ALL_MEMORIES = """
DELETE FROM memories WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
RETURNING retired_at IS NULL
"""

# No summary is written of them meanwhile (``SummaryRepository`` locks the same row).
LOCK_CONVERSATION = """
SELECT id FROM conversations
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s FOR NO KEY UPDATE
"""

# The messages themselves: neither shown to the model nor searched any more.
FORGET_MESSAGES = """
UPDATE messages m SET is_forgotten = true
FROM conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id AND c.telegram_user_id = %(owner)s
  AND c.thread_id = %(thread_id)s AND m.role = 'user'
RETURNING m.id, m.conversation_id, m.position, message_text(m.content)
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

# The newest fact of the owner that replaced another one, unless a certain one is meant.
SELECT_LAST_REPLACEMENT = """
SELECT f.id, f.text FROM memories f
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
  AND (%(memory_id)s::bigint IS NULL OR f.id = %(memory_id)s)
  AND EXISTS (SELECT 1 FROM memories old
              WHERE old.superseded_by = f.id AND old.retired_reason = 'replaced'
                AND old.telegram_user_id = %(owner)s AND old.thread_id = %(thread_id)s)
ORDER BY f.created_at DESC, f.id DESC LIMIT 1
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

# The message behind a reference; the owner's own, and nobody else's.
SELECT_MESSAGE = """
SELECT message_text(m.content), m.said_at, m.chat_id, m.telegram_message_id, m.bot_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(message_id)s AND c.telegram_user_id = %(owner)s
  AND c.thread_id = %(thread_id)s AND m.role = 'user' AND NOT m.is_forgotten
"""

# What is kept of a message that is gone: the words that a fact quotes.
SELECT_QUOTE = """
SELECT s.quote, s.said_at
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.uid = %(uid)s AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
ORDER BY s.id DESC LIMIT 1
"""

# Episode name to message uid (seed 003).
SELECT_UID_BY_EPISODE = """
SELECT s.uid FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.episode = %(episode)s AND f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
LIMIT 1
"""


class MemoryShelfRepository:
    """Reads, forgets and restores facts; every method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient) -> None:
        """Use ``client``, which someone else opens and closes."""
        self._client = client

    def list_key_facts(
        self, owner: Owner, *, importance: int = 7, limit: int = 20
    ) -> list[Memory]:
        """The pinned facts, and those of at least ``importance`` that hold now."""
        rows = self._client.fetch_all(
            SELECT_KEY_FACTS, {**owner.columns(), "importance": importance, "limit": limit}
        )
        return [Memory(*row) for row in rows]

    def list_memories(self, owner: Owner, *, limit: int = 10, offset: int = 0) -> list[Memory]:
        """The living facts, newest first."""
        rows = self._client.fetch_all(
            SELECT_MEMORIES, {**owner.columns(), "limit": limit, "offset": max(0, offset)}
        )
        return [Memory(*row) for row in rows]

    def count(self, owner: Owner) -> int:
        """How many facts hold."""
        row = self._client.fetch_one(COUNT_MEMORIES, owner.columns())
        return int(row[0]) if row else 0

    def forget(
        self, owner: Owner, uids: Sequence[str], *, request_id: int | None = None
    ) -> list[str]:
        """Forget what was said in these messages, for good: the facts and the messages.

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
            texts, told = (list(row[0]), list(row[1])) if row else ([], [])
            named = [number for uid in [*uids, *told] if (number := message_number(uid))]
            hidden = {**owner.columns(), "ids": named}
            messages = transaction.fetch_all(FORGET_MESSAGES, hidden)
            if request_id is not None and (texts or messages):
                hidden["ids"] = [*named, request_id]
                transaction.fetch_all(FORGET_MESSAGES, hidden)
            transaction.execute(DELETE_DOCUMENTS, hidden)
            transaction.execute(DELETE_SUMMARIES, hidden)
            transaction.execute(DELETE_ORPHANED_ENTITIES, owner.columns())
            return texts or [str(message[3]) for message in messages]

        return self._client.in_transaction(work)

    def forget_all_facts(self, owner: Owner) -> int:
        """Delete every fact of the owner for good; returns how many held."""

        def work(transaction: Transaction) -> int:
            rows = transaction.fetch_all(DELETE_ALL_MEMORIES, owner.columns())
            transaction.execute(DELETE_ORPHANED_ENTITIES, owner.columns())
            return sum(was_living for (was_living,) in rows)

        return self._client.in_transaction(work)

    def undo_replacement(
        self, owner: Owner, memory_id: int | None = None
    ) -> tuple[str, list[str]] | None:
        """Take back the last replacement, or that by ``memory_id``.

        Returns:
            The text that is not believed any more, and those that hold again; None when there
            is nothing to take back.
        """

        def undo(transaction: Transaction) -> tuple[str, list[str]] | None:
            row = transaction.fetch_one(
                SELECT_LAST_REPLACEMENT, {**owner.columns(), "memory_id": memory_id}
            )
            if row is None:
                return None
            change = {**owner.columns(), "memory_id": row[0]}
            transaction.execute(RETIRE_UNDONE, change)
            restored = transaction.fetch_all(RESTORE_REPLACED, change)
            return str(row[1]), [str(text) for (text,) in restored]

        return self._client.in_transaction(undo)

    def find_source(self, owner: Owner, uid: str) -> SourceMessage | None:
        """The message behind ``msg-<id>``, or what a fact quotes of it; None: both are gone."""
        number = message_number(uid)
        if number is None:
            return None
        row = self._client.fetch_one(SELECT_MESSAGE, {**owner.columns(), "message_id": number})
        if row is None:
            row = self._client.fetch_one(SELECT_QUOTE, {**owner.columns(), "uid": uid})
        return SourceMessage(*row) if row else None

    def get_message_uid_by_episode(self, owner: Owner, episode: str) -> str | None:
        """``msg-12`` for ``teach_msg-12`` (seed 003); None when no fact has that source."""
        row = self._client.fetch_one(
            SELECT_UID_BY_EPISODE, {**owner.columns(), "episode": episode}
        )
        return str(row[0]) if row else None


def message_number(uid: str) -> int | None:
    """12 for ``msg-12``; None for anything else."""
    number = uid.removeprefix("msg-")
    is_number = number != uid and number.isascii() and number.isdigit() and len(number) <= 18
    return int(number) if is_number else None
