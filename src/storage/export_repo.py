"""Everything of one owner, page by page, as the export writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from src.storage.owner import Owner
from src.storage.pg_connection import PATIENT
from src.storage.repository import Repository

PAGE = 1000  # rows that are in memory at once

# What the owner chose.
SELECT_SETTINGS = """
SELECT jsonb_build_object('language', language, 'time_zone', time_zone, 'mode', mode,
                          'answer_length', answer_length, 'memory_on', memory_on)
FROM user_settings WHERE telegram_user_id = %(owner)s
"""

# The owner's conversations, one for each topic.
SELECT_CONVERSATIONS = """
SELECT id::text FROM conversations
WHERE telegram_user_id = %(owner)s
  AND (%(thread_id)s::bigint IS NULL OR thread_id = %(thread_id)s)
ORDER BY thread_id
"""

# Messages of one, in their order; what was just forgotten is not among them.
SELECT_MESSAGES = """
SELECT ARRAY[m.position, m.id], jsonb_strip_nulls(jsonb_build_object(
    'uid', 'msg-' || m.id, 'thread_id', nullif(c.thread_id, 0), 'role', m.role,
    'text', message_text(m.content), 'said_at', coalesce(m.said_at, m.created_at),
    'telegram_message_id', m.telegram_message_id, 'sender_id', m.sender_id,
    'speaker', m.speaker, 'answers', 'msg-' || m.reply_to_id, 'provenance', m.provenance,
    'origin', m.origin, 'quoted', m.quoted, 'edited_at', m.edited_at,
    'is_private', nullif(m.is_private, false)))
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.conversation_id = %(conversation_id)s AND c.telegram_user_id = %(owner)s
  AND (m.position, m.id) > ((%(after)s::bigint[])[1], (%(after)s::bigint[])[2])
  AND NOT m.is_forgotten
ORDER BY m.position, m.id LIMIT %(limit)s
"""

# Facts with all their sources, those that hold no more too: what replaced them says so.
SELECT_FACTS = """
SELECT f.id, jsonb_strip_nulls(jsonb_build_object(
    'id', 'fact-' || f.id, 'thread_id', nullif(f.thread_id, 0), 'kind', f.memory_type,
    'text', f.text, 'subject', f.subject, 'relation', f.relation, 'object', f.object,
    'importance', f.importance, 'pinned', f.pinned, 'speaker', f.speaker,
    'saved_at', f.created_at, 'valid_from', f.valid_from, 'valid_until', f.valid_until,
    'retired_at', f.retired_at, 'retired_reason', f.retired_reason,
    'replaced_by', 'fact-' || f.superseded_by,
    'sources', (SELECT jsonb_agg(jsonb_build_object('uid', s.uid, 'quote', s.quote,
                                                    'said_at', s.said_at) ORDER BY s.id)
                FROM memory_sources s WHERE s.memory_id = f.id)))
FROM memories f
WHERE f.telegram_user_id = %(owner)s
  AND (%(thread_id)s::bigint IS NULL OR f.thread_id = %(thread_id)s) AND f.id > %(after)s
ORDER BY f.id LIMIT %(limit)s
"""

# What lies before the newest messages, in a sentence or two.
SELECT_SUMMARIES = """
SELECT s.id, jsonb_strip_nulls(jsonb_build_object(
    'thread_id', nullif(c.thread_id, 0), 'text', s.content, 'made_at', s.created_at))
FROM conversation_summaries s JOIN conversations c ON c.id = s.conversation_id
WHERE c.telegram_user_id = %(owner)s AND s.content <> ''
  AND (%(thread_id)s::bigint IS NULL OR c.thread_id = %(thread_id)s) AND s.id > %(after)s
ORDER BY s.id LIMIT %(limit)s
"""

# What the owner asked to be reminded of: to come, come, cancelled.
SELECT_REMINDERS = """
SELECT r.id, jsonb_strip_nulls(jsonb_build_object(
    'id', 'reminder-' || r.id, 'thread_id', nullif(r.thread_id, 0), 'text', r.text,
    'due_at', r.due_at, 'recurrence', r.recurrence, 'time_zone', r.time_zone,
    'is_waiting', r.is_waiting, 'asker_id', r.asker_id, 'message', 'msg-' || r.message_id,
    'snooze_of', 'reminder-' || r.snooze_of, 'created_at', r.created_at,
    'delivered_at', r.delivered_at, 'cancelled_at', r.cancelled_at))
FROM reminders r
WHERE r.telegram_user_id = %(owner)s
  AND (%(thread_id)s::bigint IS NULL OR r.thread_id = %(thread_id)s) AND r.id > %(after)s
ORDER BY r.id LIMIT %(limit)s
"""

# What the model calls cost, by day.
SELECT_USAGE = """
SELECT row_number() OVER (ORDER BY day, model), jsonb_build_object(
    'day', day, 'model', model, 'calls', calls, 'tokens', tokens)
FROM (SELECT (created_at AT TIME ZONE 'UTC')::date AS day, model, count(*) AS calls,
             sum(prompt_tokens + completion_tokens) AS tokens
      FROM model_usage WHERE telegram_user_id = %(owner)s GROUP BY 1, 2) AS days
WHERE %(after)s = 0
ORDER BY 1 LIMIT %(limit)s
"""

# In the order of the file.
PARTS = {
    "facts": SELECT_FACTS,
    "messages": SELECT_MESSAGES,
    "summaries": SELECT_SUMMARIES,
    "reminders": SELECT_REMINDERS,
    "usage": SELECT_USAGE,
}


class ExportRepository(Repository):
    """Reads all that is an owner's; every method blocks (see ``PgClient.run``)."""

    def get_settings(self, owner: Owner) -> dict[str, Any]:
        """What the owner chose; empty when nothing."""
        row = self._client.fetch_one(SELECT_SETTINGS, {"owner": owner.telegram_user_id})
        return dict(row[0]) if row else {}

    def read(
        self, part: str, telegram_user_id: int, thread_id: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The records of one of ``PARTS``, in order, at most PAGE of them in memory.

        Args:
            part: Its name.
            telegram_user_id: The owner.
            thread_id: Only this topic of a group; None: all of them.
        """
        owner = {"owner": telegram_user_id, "thread_id": thread_id}
        if part != "messages":
            yield from self._read_pages(PARTS[part], owner, 0)
            return
        for (conversation_id,) in self._client.fetch_all(SELECT_CONVERSATIONS, owner):
            parameters = {**owner, "conversation_id": conversation_id}
            yield from self._read_pages(SELECT_MESSAGES, parameters, [0, 0])

    def _read_pages(
        self, sql: str, parameters: dict[str, Any], after: int | list[int]
    ) -> Iterator[dict[str, Any]]:
        """The records whose key, the first column, comes behind ``after``."""
        while True:
            page = {**parameters, "after": after, "limit": PAGE}
            rows = self._client.fetch_all(sql, page, limits=PATIENT)
            yield from (dict(record) for _, record in rows)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]
