"""Erasing everything of one owner: every table, every column."""

from __future__ import annotations

from src.storage.pg_client import PgClient, Transaction

# Where a person writes in groups, the group's memory holds facts that only he told.
DELETE_FACTS_TOLD_IN_GROUPS = """
DELETE FROM memories f
USING memory_sources s JOIN messages m ON m.id = s.message_id
WHERE s.memory_id = f.id AND m.sender_id = %(owner)s AND NOT EXISTS (
    SELECT 1 FROM memory_sources other LEFT JOIN messages o ON o.id = other.message_id
    WHERE other.memory_id = f.id AND o.sender_id IS DISTINCT FROM %(owner)s)
"""

# What only they were about, and the words of the person behind facts that others told as well.
DELETE_ENTITIES_OF_GROUPS = """
DELETE FROM entities e USING messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.sender_id = %(owner)s AND e.telegram_user_id = c.telegram_user_id
  AND e.thread_id = c.thread_id
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""
DELETE_QUOTES_IN_GROUPS = """
DELETE FROM memory_sources s USING messages m
WHERE m.id = s.message_id AND m.sender_id = %(owner)s
"""

# Summaries of groups from the first message of this person on; they are made anew without it.
DELETE_SUMMARIES_OF_GROUPS = """
DELETE FROM conversation_summaries s
USING (SELECT conversation_id, min(position) AS first FROM messages
       WHERE sender_id = %(owner)s GROUP BY conversation_id) AS written
WHERE s.conversation_id = written.conversation_id AND s.last_position >= written.first
"""

# The positions of what goes are given out again; what will stand there was not read for facts.
UPDATE_EXTRACTED = """
UPDATE conversations c SET extracted_position = least(extracted_position, (
    SELECT coalesce(max(m.position), 0)
    FROM messages m LEFT JOIN messages asked ON asked.id = m.reply_to_id
    WHERE m.conversation_id = c.id
      AND coalesce(asked.sender_id, m.sender_id) IS DISTINCT FROM %(owner)s))
WHERE c.id IN (SELECT conversation_id FROM messages WHERE sender_id = %(owner)s)
"""

# Updates of others, where the person wrote, without what a reply or a button quotes of it.
UPDATE_QUOTING = """
UPDATE telegram_updates
SET payload = payload #- '{message,reply_to_message}' #- '{message,quote}'
    #- '{edited_message,reply_to_message}' #- '{edited_message,quote}'
    #- '{callback_query,message,reply_to_message}' #- '{callback_query,message,text}'
WHERE chat_id IN (SELECT chat_id FROM messages WHERE sender_id = %(owner)s
                  UNION SELECT chat_id FROM telegram_updates WHERE user_id = %(owner)s)
"""

# What the person wrote in groups, with the answers to it.
DELETE_MESSAGES_IN_GROUPS = "DELETE FROM messages WHERE sender_id = %(owner)s"

# The owner's own rows; what hangs on them goes by its foreign key.
DELETE_OWN = (
    "DELETE FROM conversations WHERE telegram_user_id = %(owner)s",
    "DELETE FROM memories WHERE telegram_user_id = %(owner)s",
    "DELETE FROM entities WHERE telegram_user_id = %(owner)s",
    "DELETE FROM rejected_facts WHERE telegram_user_id = %(owner)s",
    "DELETE FROM search_documents WHERE telegram_user_id = %(owner)s",
    "DELETE FROM search_owners WHERE telegram_user_id = %(owner)s",
    "DELETE FROM model_usage WHERE telegram_user_id = %(owner)s",
    "DELETE FROM user_settings WHERE telegram_user_id = %(owner)s",
    "DELETE FROM telegram_updates WHERE user_id = %(owner)s OR chat_id = %(owner)s",
)


class ErasureRepository:
    """Erases; the method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient) -> None:
        """Use ``client``, which someone else opens and closes."""
        self._client = client

    def erase(self, telegram_user_id: int) -> int:
        """Delete everything that the owner wrote, taught, or was told; returns how many rows.

        One transaction: all of it goes, or nothing does. Rows of others that lose a quotation are
        counted, those that go by a foreign key are not.
        """
        owner = {"owner": telegram_user_id}

        def work(transaction: Transaction) -> int:
            statements = (
                DELETE_FACTS_TOLD_IN_GROUPS,
                DELETE_ENTITIES_OF_GROUPS,
                DELETE_QUOTES_IN_GROUPS,
                DELETE_SUMMARIES_OF_GROUPS,
                UPDATE_EXTRACTED,
                UPDATE_QUOTING,
                DELETE_MESSAGES_IN_GROUPS,
                *DELETE_OWN,
            )
            return sum(transaction.execute(statement, owner) for statement in statements)

        return self._client.in_transaction(work)
