"""Turns of others that are under way while somebody is erased: they begin anew, without him."""

from __future__ import annotations

from collections.abc import Sequence

from src.storage.pg_client import Transaction

# What is stored already of an update that was changed: its turn begins again, with what is left.
DELETE_BEGUN = """
DELETE FROM messages m USING telegram_updates u
WHERE u.id = %(update)s AND m.bot_id = u.bot_id AND m.chat_id = u.chat_id
  AND m.telegram_message_id = u.message_id AND u.kind NOT IN ('edit', 'callback')
"""

# Questions that are being answered now, by a turn that has read the conversation as it was. They
# get new numbers: its answer finds no place (``QuestionMovedError``), and they are answered anew.
SELECT_UNDER_WAY = """
SELECT m.id FROM messages m
JOIN telegram_updates u ON u.bot_id = m.bot_id AND u.chat_id = m.chat_id
     AND u.message_id = m.telegram_message_id AND u.handled_at IS NULL
WHERE m.conversation_id = ANY(%(rooms)s::uuid[]) AND m.role = 'user'
  AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.reply_to_id = m.id AND a.role = 'assistant')
"""
RENUMBER = """
WITH gone AS (
    DELETE FROM messages WHERE id = %(id)s
    RETURNING conversation_id, role, content, created_at, said_at, position, bot_id, chat_id,
              telegram_message_id, sender_id, author_id, mentions, stream_message_id,
              is_forgotten, forgotten_at, is_private, edited_at, provenance, speaker, origin,
              quoted, quoted_author_id
)
INSERT INTO messages (conversation_id, role, content, created_at, said_at, position, bot_id,
                      chat_id, telegram_message_id, sender_id, author_id, mentions,
                      stream_message_id, is_forgotten, forgotten_at, is_private, edited_at,
                      provenance, speaker, origin, quoted, quoted_author_id)
SELECT conversation_id, role, content, created_at, said_at, position, bot_id, chat_id,
       telegram_message_id, sender_id, author_id, mentions, stream_message_id, is_forgotten,
       forgotten_at, is_private, edited_at, provenance, speaker, origin, quoted, quoted_author_id
FROM gone RETURNING id
"""
UPDATE_SOURCES = """
UPDATE memory_sources
SET message_id = %(new)s, uid = 'msg-' || %(new)s, episode = 'teach_msg-' || %(new)s
WHERE uid = 'msg-' || %(id)s
"""


def begin_anew(transaction: Transaction, rooms: Sequence[str], updates: Sequence[int]) -> None:
    """Let no answer be stored that was made of what has just been erased.

    Args:
        transaction: The erasure's.
        rooms: Ids of the conversations in which something was erased.
        updates: Row ids of waiting updates out of which something was taken.
    """
    for update in updates:
        transaction.execute(DELETE_BEGUN, {"update": update})
    for (id_,) in transaction.fetch_all(SELECT_UNDER_WAY, {"rooms": list(rooms)}):
        row = transaction.fetch_one(RENUMBER, {"id": id_})
        if row is not None:
            transaction.execute(UPDATE_SOURCES, {"id": id_, "new": row[0]})
