"""What was said in a conversation, as its owner reads it: newest first, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from src.storage.owner import Owner
from src.storage.repository import Repository

MAX_TEXT = 20_000  # characters of a message; answers end at answer_max_characters


class Place(NamedTuple):
    """Where a message stands in its conversation: before it come those with a smaller place."""

    position: int
    id: int


LAST = Place(2**31 - 1, 2**63 - 1)

# What the owner and the bot said before a place, and before a moment, the newest first.
SELECT_PAGE = """
SELECT m.position, m.id, m.role, left(message_text(m.content), %(longest)s), m.said_at,
       m.is_private
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %(owner)s AND c.thread_id = %(thread_id)s
  AND m.role IN ('user', 'assistant') AND NOT m.is_forgotten
  AND (m.position, m.id) < (%(position)s, %(id)s)
  AND (%(until)s::timestamptz IS NULL OR m.said_at < %(until)s)
ORDER BY m.position DESC, m.id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True)
class TimelineMessage:
    """A message of the owner's, or of the bot's.

    Attributes:
        place: Where it stands.
        role: ``user`` or ``assistant``.
        text: Without the time label, at most MAX_TEXT characters of it.
        said_at: When.
        is_private: Whether nothing but the conversation remembers it.
    """

    place: Place
    role: str
    text: str
    said_at: datetime
    is_private: bool


class TimelineRepository(Repository):
    """Reads conversations; every method blocks (see ``PgClient.run``)."""

    def list_messages(
        self,
        owner: Owner,
        *,
        before: Place = LAST,
        until: datetime | None = None,
        limit: int = 40,
    ) -> list[TimelineMessage]:
        """Messages before a place, and said before a moment, the newest first."""
        wanted = {
            **owner.columns(), **before._asdict(), "until": until, "limit": limit,
            "longest": MAX_TEXT,
        }  # fmt: skip
        rows = self._client.fetch_all(SELECT_PAGE, wanted)
        return [TimelineMessage(Place(position, id_), *row) for position, id_, *row in rows]
