"""Repositories of a conversation's timeline: paginated messages, and tool results."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self
from uuid import UUID

from src.base.owners import Owner
from src.pg.client import Repository, storable

MAX_TEXT = 20_000  # characters of a message; answers are bounded by answer_max_characters


class PageCursor(NamedTuple):
    """Cursor of a message in its conversation; cursors compare in reading order."""

    position: int
    id: int


LAST = PageCursor(2**31 - 1, 2**63 - 1)

# The messages of the owner and the bot in the owner's conversation.
FROM_MESSAGES = """
FROM messages m
WHERE m.conversation_id = (SELECT id FROM conversations
                           WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s)
  AND m.role IN ('user', 'assistant') AND NOT m.is_forgotten
"""
# A page of them: an index scan from a cursor in one direction.
PAGE = f"""
SELECT m.position, m.id, m.role, left(message_text(m.content), %(longest)s), m.said_at,
       m.is_private {FROM_MESSAGES}"""
SELECT_BEFORE = f"""{PAGE} AND (m.position, m.id) < (%(position)s, %(id)s)
ORDER BY m.position DESC, m.id DESC LIMIT %(limit)s"""
SELECT_FROM = f"""{PAGE} AND (m.position, m.id) >= (%(position)s, %(id)s)
ORDER BY m.position, m.id LIMIT %(limit)s"""

# The first message since a moment. It is stored after it is said (but for an hour of clock skew),
# so older rows are not scanned.
SELECT_SINCE = f"""
SELECT m.position, m.id {FROM_MESSAGES}
  AND m.created_at >= %(since)s::timestamptz - interval '1 hour' AND m.said_at >= %(since)s
ORDER BY m.created_at, m.id LIMIT 1
"""

# The topic of a message of the owner or the bot, and its cursor there.
SELECT_PLACE = """
SELECT c.thread_id, m.position, m.id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(id)s AND c.owner_id = %(owner)s AND m.role IN ('user', 'assistant')
  AND NOT m.is_forgotten
"""


@dataclass(frozen=True)
class TimelineMessage:
    """Message of the owner or the bot.

    Attributes:
        place: Its cursor.
        role: ``user`` or ``assistant``.
        text: Its text without the time label, at most MAX_TEXT characters.
        said_at: When it was written.
        is_private: True if only the conversation remembers it.
    """

    place: PageCursor
    role: str
    text: str
    said_at: datetime
    is_private: bool

    @classmethod
    def from_row(cls, position: int, id_: int, *row: Any) -> Self:
        """Build it from a row of ``PAGE``."""
        return cls(PageCursor(position, id_), *row)


class TimelineRepository(Repository):
    """Pages of conversations; every method blocks (see ``PgClient.run``)."""

    def list_before(
        self, owner: Owner, place: PageCursor = LAST, *, limit: int
    ) -> list[TimelineMessage]:
        """List messages before a cursor, newest first."""
        return self._page(SELECT_BEFORE, owner, place, limit)

    def list_from(self, owner: Owner, place: PageCursor, *, limit: int) -> list[TimelineMessage]:
        """List messages from a cursor on (inclusive), in reading order."""
        return self._page(SELECT_FROM, owner, place, limit)

    def find_day(self, owner: Owner, since: datetime) -> PageCursor | None:
        """Return the cursor of the first message since a moment (aware), or None."""
        return self._first(PageCursor, SELECT_SINCE, owner, since=since)

    def find_message(self, owner: Owner, message_id: int) -> tuple[int, PageCursor] | None:
        """Return a message's topic and its cursor there; None if deleted or another owner's."""
        return self._first(
            lambda topic, *place: (topic, PageCursor(*place)), SELECT_PLACE, owner, id=message_id
        )

    def _page(
        self, sql: str, owner: Owner, place: PageCursor, limit: int
    ) -> list[TimelineMessage]:
        page = {**place._asdict(), "limit": limit, "longest": MAX_TEXT}
        return self._all(TimelineMessage.from_row, sql, owner, **page)


KEEP = 50  # newest calls per conversation
MAX_RESULT = 4000  # characters stored of a result
MAX_ARGUMENTS = 4000  # characters of JSON stored of the arguments


@dataclass(frozen=True)
class ToolResult:
    """Call of a tool; ``error`` is the type of its error, None if it succeeded."""

    name: str
    arguments: dict[str, Any]
    result: str
    duration_ms: int
    error: str | None = None


# Store a tool call (redacted if its message is forgotten or private), and delete all but the
# newest KEEP of the conversation.
INSERT_RESULT = """
WITH old AS (
    DELETE FROM tool_results WHERE conversation_id = %(conversation_id)s AND id <= (
        SELECT id FROM tool_results WHERE conversation_id = %(conversation_id)s
        ORDER BY id DESC OFFSET %(keep)s - 1 LIMIT 1)
)
INSERT INTO tool_results (conversation_id, message_id, name, arguments, result, error, duration_ms)
SELECT m.conversation_id, m.id, %(name)s,
       CASE WHEN m.is_forgotten OR m.is_private THEN '{}' ELSE %(arguments)s::jsonb END,
       CASE WHEN m.is_forgotten OR m.is_private THEN '' ELSE %(result)s END,
       %(error)s, %(duration_ms)s
FROM messages m WHERE m.id = %(message_id)s AND m.conversation_id = %(conversation_id)s
"""

# Delete the tool calls of every conversation of an owner.
DELETE_RESULTS = """
DELETE FROM tool_results t USING conversations c
WHERE c.id = t.conversation_id AND c.owner_id = %(owner)s
"""


class ToolResultRepository(Repository):
    """Tool calls in the database; every method blocks (see ``PgClient.run``)."""

    def add(self, conversation_id: UUID, message_id: int, result: ToolResult) -> None:
        """Store a call, cut to size; only the newest KEEP of a conversation stay."""
        plain = json.loads(json.dumps(result.arguments, default=str), parse_constant=str)  # no NaN
        arguments = storable(json.dumps(plain, ensure_ascii=False))
        arguments = arguments.replace("\\u0000", "\\ufffd")
        if len(arguments) > MAX_ARGUMENTS:
            arguments = json.dumps({"cut": arguments[:MAX_ARGUMENTS]}, ensure_ascii=False)
        columns = vars(result) | {"arguments": arguments, "name": storable(result.name)[:200]}
        columns["result"] = storable(result.result)[:MAX_RESULT]
        ids = {"conversation_id": conversation_id, "message_id": message_id}
        self._client.execute(INSERT_RESULT, columns | ids, keep=KEEP)
