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

# Summaries of groups from the first message of this person on; they are made anew without it.
DELETE_SUMMARIES_OF_GROUPS = """
DELETE FROM conversation_summaries s
USING (SELECT conversation_id, min(position) AS first FROM messages
       WHERE sender_id = %(owner)s GROUP BY conversation_id) AS written
WHERE s.conversation_id = written.conversation_id AND s.last_position >= written.first
"""

# What the person wrote in groups, with the answers to it.
DELETE_MESSAGES_IN_GROUPS = "DELETE FROM messages WHERE sender_id = %(owner)s"

# The owner's own rows; what hangs on them goes by its foreign key. Updates of other people that
# mention the owner (a reply in a group) go as well: their payload quotes the message.
DELETE_OWN = (
    "DELETE FROM conversations WHERE telegram_user_id = %(owner)s",
    "DELETE FROM memories WHERE telegram_user_id = %(owner)s",
    "DELETE FROM entities WHERE telegram_user_id = %(owner)s",
    "DELETE FROM rejected_facts WHERE telegram_user_id = %(owner)s",
    "DELETE FROM search_documents WHERE telegram_user_id = %(owner)s",
    "DELETE FROM search_owners WHERE telegram_user_id = %(owner)s",
    "DELETE FROM model_usage WHERE telegram_user_id = %(owner)s",
    "DELETE FROM user_settings WHERE telegram_user_id = %(owner)s",
    "DELETE FROM telegram_updates WHERE user_id = %(owner)s OR chat_id = %(owner)s"
    " OR payload @> jsonb_build_object('message', jsonb_build_object('reply_to_message',"
    " jsonb_build_object('from', jsonb_build_object('id', %(owner)s))))",
)


class ErasureRepository:
    """Erases; the method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient) -> None:
        """Use ``client``, which someone else opens and closes."""
        self._client = client

    def erase(self, telegram_user_id: int) -> int:
        """Delete everything that the owner wrote, taught, or was told; returns the rows deleted.

        One transaction: all of it goes, or nothing does. Rows that go by a foreign key are not
        counted.
        """
        owner = {"owner": telegram_user_id}

        def work(transaction: Transaction) -> int:
            statements = (
                DELETE_FACTS_TOLD_IN_GROUPS,
                DELETE_SUMMARIES_OF_GROUPS,
                DELETE_MESSAGES_IN_GROUPS,
                *DELETE_OWN,
            )
            return sum(transaction.execute(statement, owner) for statement in statements)

        return self._client.in_transaction(work)
