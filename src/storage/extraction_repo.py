"""How far each conversation has been read for facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from src.storage.conversation_repo import PastMessage, past_message
from src.storage.owner import Owner
from src.storage.repository import Repository


@dataclass(frozen=True)
class ExtractionState:
    """Where extraction stands in a conversation.

    Attributes:
        owner: Whose conversation it is.
        time_zone: The owner's zone; None for the default.
        extracted_position: Messages up to here have been read.
        last_position: Of the newest message.
        silent_seconds: Since when nothing was written.
        is_unanswered: Whether the newest message is one of the user's.
        memory_on: Whether the owner wants anything remembered.
    """

    owner: Owner
    time_zone: str | None
    extracted_position: int
    last_position: int
    silent_seconds: float
    is_unanswered: bool = False
    memory_on: bool = True


# Where extraction stands.
SELECT_STATE = """
SELECT c.telegram_user_id, c.thread_id, s.time_zone, c.extracted_position,
       coalesce(m.position, 0), coalesce(extract(epoch FROM now() - m.created_at), 0)::float,
       coalesce(m.role = 'user', false), coalesce(s.memory_on, true)
FROM conversations c
LEFT JOIN user_settings s ON s.telegram_user_id = c.telegram_user_id
LEFT JOIN LATERAL (SELECT position, created_at, role FROM messages
                   WHERE conversation_id = c.id ORDER BY position DESC, id DESC LIMIT 1) AS m
     ON true
WHERE c.id = %(conversation_id)s
"""

# A window was read: only from where it began, so that two workers do not skip one.
ADVANCE = """
UPDATE conversations SET extracted_position = %(last)s
WHERE id = %(conversation_id)s AND extracted_position = %(first)s - 1
"""

# Conversations that have been silent for a while and have messages that were not read.
SELECT_SILENT = """
SELECT c.id FROM conversations c
JOIN LATERAL (SELECT position, created_at FROM messages
              WHERE conversation_id = c.id ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
WHERE m.position > c.extracted_position
  AND m.created_at < now() - make_interval(mins => %(minutes)s)
  AND m.created_at > now() - make_interval(mins => %(minutes)s, days => 7)
ORDER BY m.created_at LIMIT %(limit)s
"""

# What is known of the owner, so that it is not extracted again; in a group with who told it.
SELECT_KNOWN = """
SELECT id, coalesce(speaker || ': ', '') || text FROM memories
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s AND retired_at IS NULL
ORDER BY importance DESC, created_at DESC, id DESC LIMIT %(limit)s
"""

# What /new left to be read, oldest first, as if it still stood in the conversation.
SELECT_PARTING = """
SELECT message_id, position, 'user', message_text(content), said_at, 'typed', speaker
FROM parting_messages
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
ORDER BY position, message_id LIMIT %(limit)s
"""

# It was read.
DELETE_PARTING = """
DELETE FROM parting_messages
WHERE message_id = ANY(%(ids)s)
  AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
"""

# Conversations of those of whom there is something left to read.
SELECT_PARTED = """
SELECT c.id FROM conversations c
WHERE (c.telegram_user_id, c.thread_id) IN (
    SELECT telegram_user_id, thread_id FROM parting_messages)
ORDER BY c.id LIMIT %(limit)s
"""


class ExtractionRepository(Repository):
    """Keeps the progress of extraction; every method blocks (see ``PgClient.run``)."""

    def find_state(self, conversation_id: UUID) -> ExtractionState | None:
        """Where extraction stands; None when the conversation is gone."""
        row = self._client.fetch_one(SELECT_STATE, {"conversation_id": str(conversation_id)})
        if row is None:
            return None
        user, thread, *state = row
        return ExtractionState(Owner(user, thread), *state)

    def advance(self, conversation_id: UUID, *, first: int, last: int) -> bool:
        """Positions ``first`` to ``last`` have been read; False when another worker did it."""
        parameters = {"conversation_id": str(conversation_id), "first": first, "last": last}
        return self._client.execute(ADVANCE, parameters) > 0

    def list_silent(self, minutes: int, *, limit: int = 50) -> list[UUID]:
        """Conversations with unread messages, silent for ``minutes`` and not for a week more."""
        rows = self._client.fetch_all(SELECT_SILENT, {"minutes": minutes, "limit": limit})
        return [UUID(str(row[0])) for row in rows]

    def list_parting(self, owner: Owner, *, limit: int) -> list[PastMessage]:
        """What /new left to be read of an owner's messages, oldest first."""
        rows = self._client.fetch_all(SELECT_PARTING, {**owner.columns(), "limit": limit})
        return [past_message(row) for row in rows]

    def delete_parting(self, owner: Owner, ids: Sequence[int]) -> int:
        """These have been read; returns how many were still there."""
        return self._client.execute(DELETE_PARTING, {**owner.columns(), "ids": list(ids)})

    def list_parted(self, *, limit: int = 50) -> list[UUID]:
        """The new conversations of owners who left something to be read."""
        rows = self._client.fetch_all(SELECT_PARTED, {"limit": limit})
        return [UUID(str(row[0])) for row in rows]

    def list_known(self, owner: Owner, *, limit: int = 60) -> dict[int, str]:
        """The owner's most important facts by their ids."""
        rows = self._client.fetch_all(SELECT_KNOWN, {**owner.columns(), "limit": limit})
        return {int(number): str(text) for number, text in rows}
