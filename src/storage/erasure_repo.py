"""Erasing everything of one owner: every table, every column."""

from __future__ import annotations

from src.storage.pg_client import PgClient, Transaction

# Nobody stores a fact, a summary or an answer meanwhile.
LOCK_CONVERSATIONS = """
SELECT id FROM conversations
WHERE telegram_user_id = %(owner)s
   OR id IN (SELECT conversation_id FROM messages WHERE sender_id = %(owner)s)
ORDER BY id FOR UPDATE
"""

# What the bot told others in groups with the person's words as its source, or in words that nobody
# else used there (by their first five letters, since words are inflected).
DELETE_ANSWERS_TO_OTHERS = """
DELETE FROM messages a USING answer_sources s
LEFT JOIN messages m ON m.id = s.message_id
LEFT JOIN memory_sources q ON q.memory_id = s.memory_id
WHERE a.id = s.answer_id AND %(owner)s IN (m.sender_id, q.sender_id)
"""
DELETE_ANSWERS_IN_THEIR_WORDS = r"""
WITH rooms AS MATERIALIZED (
    SELECT c.id, c.telegram_user_id, c.thread_id FROM conversations c
    WHERE c.telegram_user_id <> %(owner)s
      AND (c.id IN (SELECT conversation_id FROM messages WHERE sender_id = %(owner)s)
           OR (c.telegram_user_id, c.thread_id) IN (
               SELECT f.telegram_user_id, f.thread_id
               FROM memories f JOIN memory_sources s ON s.memory_id = f.id
               WHERE s.sender_id = %(owner)s))
), told AS (
    SELECT rooms.id AS conversation_id, f.text || ' ' || s.quote AS text, s.sender_id
    FROM rooms JOIN memories f ON f.telegram_user_id = rooms.telegram_user_id
         AND f.thread_id = rooms.thread_id
    JOIN memory_sources s ON s.memory_id = f.id
    UNION ALL
    SELECT rooms.id, message_text(m.content), m.sender_id
    FROM rooms JOIN messages m ON m.conversation_id = rooms.id WHERE m.role = 'user'
), their_words AS (
    SELECT conversation_id, left(word, 5) AS word
    FROM told, regexp_split_to_table(lower(text), '\W+') AS word
    WHERE length(word) >= 5
    GROUP BY conversation_id, left(word, 5)
    HAVING bool_and(sender_id IS NOT DISTINCT FROM %(owner)s)
)
DELETE FROM messages a
WHERE a.role = 'assistant' AND EXISTS (
    SELECT 1 FROM regexp_split_to_table(lower(a.content), '\W+') AS said
    JOIN their_words t ON t.word = left(said, 5)
    WHERE t.conversation_id = a.conversation_id AND length(said) >= 5)
  AND a.conversation_id IN (SELECT id FROM rooms)
"""

# What tools read to the model there.
DELETE_TOOL_RESULTS = """
DELETE FROM tool_results
WHERE conversation_id IN (SELECT conversation_id FROM messages WHERE sender_id = %(owner)s)
"""

# Where a person writes in groups, the group's memory holds facts that only he told, names that
# stand in no others, and his words behind facts that others told as well.
DELETE_ENTITIES_IN_GROUPS = """
DELETE FROM entities e
USING memory_entities l JOIN memory_sources s ON s.memory_id = l.memory_id
WHERE l.entity_id = e.id AND s.sender_id = %(owner)s AND NOT EXISTS (
    SELECT 1 FROM memory_entities o JOIN memory_sources other ON other.memory_id = o.memory_id
    WHERE o.entity_id = e.id AND other.sender_id IS DISTINCT FROM %(owner)s)
"""
DELETE_FACTS_TOLD_IN_GROUPS = """
DELETE FROM memories f USING memory_sources s
WHERE s.memory_id = f.id AND s.sender_id = %(owner)s AND NOT EXISTS (
    SELECT 1 FROM memory_sources other
    WHERE other.memory_id = f.id AND other.sender_id IS DISTINCT FROM %(owner)s)
"""
DELETE_QUOTES_IN_GROUPS = "DELETE FROM memory_sources WHERE sender_id = %(owner)s"

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

# What was forgotten there in the last minutes may hold his words; nobody can take it back then.
DELETE_FORGETTINGS_OF_GROUPS = """
DELETE FROM forgettings f USING conversations c
WHERE f.telegram_user_id = c.telegram_user_id AND f.thread_id = c.thread_id
  AND c.id IN (SELECT conversation_id FROM messages WHERE sender_id = %(owner)s)
"""

# What the person wrote in groups, with the answers to it.
DELETE_MESSAGES_IN_GROUPS = "DELETE FROM messages WHERE sender_id = %(owner)s"

# The owner's own rows; what hangs on them goes by its foreign key.
DELETE_OWN = (
    "DELETE FROM conversations WHERE telegram_user_id = %(owner)s",
    "DELETE FROM memories WHERE telegram_user_id = %(owner)s",
    "DELETE FROM entities WHERE telegram_user_id = %(owner)s",
    "DELETE FROM rejected_facts WHERE telegram_user_id = %(owner)s",
    "DELETE FROM forgettings WHERE telegram_user_id = %(owner)s",
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
            transaction.execute(LOCK_CONVERSATIONS, owner)
            statements = (
                DELETE_ANSWERS_TO_OTHERS,
                DELETE_ANSWERS_IN_THEIR_WORDS,
                DELETE_TOOL_RESULTS,
                DELETE_ENTITIES_IN_GROUPS,
                DELETE_FACTS_TOLD_IN_GROUPS,
                DELETE_QUOTES_IN_GROUPS,
                DELETE_SUMMARIES_OF_GROUPS,
                UPDATE_EXTRACTED,
                UPDATE_QUOTING,
                DELETE_FORGETTINGS_OF_GROUPS,
                DELETE_MESSAGES_IN_GROUPS,
                *DELETE_OWN,
            )
            return sum(transaction.execute(statement, owner) for statement in statements)

        return self._client.in_transaction(work)
