"""Facts as the user and the prompt see them: listing, undoing, looking up sources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from src.storage.memory_rows import Memory
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction


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


@dataclass(frozen=True)
class Replacement:
    """A living fact that took the place of others, and when."""

    memory_id: int
    text: str
    at: datetime


# The facts that are always in the prompt: the pinned, then the most important that hold now.
SELECT_KEY_FACTS = """
SELECT f.id, f.text, f.memory_type, f.subject, f.relation, f.object, f.importance, f.pinned,
       f.valid_from, f.valid_until, f.retired_at, s.uid, s.said_at, s.message_id,
       f.speaker_id, f.speaker
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
       f.valid_from, f.valid_until, f.retired_at, s.uid, s.said_at, s.message_id,
       f.speaker_id, f.speaker
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

# The newest fact of the owner that replaced another one, unless a certain one is meant.
SELECT_LAST_REPLACEMENT = """
SELECT f.id, f.text, max(old.retired_at) AS replaced_at
FROM memories f JOIN memories old ON old.superseded_by = f.id
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
  AND (%(memory_id)s::bigint IS NULL OR f.id = %(memory_id)s)
  AND (f.speaker_id IS NULL OR f.speaker_id = %(asker)s)
  AND old.retired_reason = 'replaced'
  AND old.telegram_user_id = %(owner)s AND old.thread_id = %(thread_id)s
GROUP BY f.id, f.text
ORDER BY replaced_at DESC, f.id DESC LIMIT 1
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
    """Reads and restores facts; every method blocks (see ``PgClient.run``)."""

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

    def find_replacement(
        self,
        transaction: Transaction,
        owner: Owner,
        memory_id: int | None = None,
        asker: int | None = None,
    ) -> Replacement | None:
        """The last replacement, or that by ``memory_id``; None when there is none.

        In a group only that of what ``asker`` told himself.
        """
        row = transaction.fetch_one(
            SELECT_LAST_REPLACEMENT, {**owner.columns(), "memory_id": memory_id, "asker": asker}
        )
        return Replacement(*row) if row else None

    def undo_replacement(
        self, transaction: Transaction, owner: Owner, replacement: Replacement
    ) -> list[str]:
        """Take a replacement back; the texts that hold again."""
        change = {**owner.columns(), "memory_id": replacement.memory_id}
        transaction.execute(RETIRE_UNDONE, change)
        restored = transaction.fetch_all(RESTORE_REPLACED, change)
        return [str(text) for (text,) in restored]

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
