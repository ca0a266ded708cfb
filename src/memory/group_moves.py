"""Move of a group's data to the supergroup that it became, under a new chat id.

Telegram reports the move in the old chat and in the new one, late, twice, or only when a message
is sent, and the new chat may have messages before that. So nothing is dropped: the data of both
are merged. If both have a conversation, the old one is kept, because turns under way belong to it.
"""

from src.memory.purge_repo import TABLES_OF_FACTS
from src.pg.client import PATIENT, Repository, Transaction
from src.pg.locks import LOCK_CHATS, LOCK_FACTS_OF_CHATS, LOCK_MOVES

# A move in the opposite direction, which makes this one impossible.
SELECT_REVERSED = "SELECT 1 FROM chat_moves WHERE old_chat_id = %(new)s AND new_chat_id = %(old)s"

# Map the old chat id, and the ids that it had before, to the new one.
INSERT_MOVE = """
WITH earlier AS (
    UPDATE chat_moves SET new_chat_id = %(new)s
    WHERE new_chat_id = %(old)s AND old_chat_id <> %(new)s
)
INSERT INTO chat_moves (old_chat_id, new_chat_id) VALUES (%(old)s, %(new)s)
ON CONFLICT (old_chat_id) DO UPDATE SET new_chat_id = EXCLUDED.new_chat_id
"""

# Owners of both chats in the same topic: the kept one, and the one to merge into it.
SELECT_OWNER_PAIRS = """
SELECT kept.id, gone.id FROM owners kept JOIN owners gone USING (thread_id)
WHERE kept.telegram_user_id = %(old)s AND gone.telegram_user_id = %(new)s
ORDER BY thread_id
"""

# The kept conversation, and the one to merge into it.
SELECT_CONVERSATION_PAIRS = """
SELECT kept.id, gone.id FROM conversations kept, conversations gone
WHERE kept.owner_id = %(kept)s AND gone.owner_id = %(gone)s
"""

# Merge the messages by time and renumber them. Summaries are deleted, and made again.
# ``extracted_position`` ends before the first message that was not read for facts.
MERGE_CONVERSATIONS = """
WITH merged AS MATERIALIZED (
    SELECT m.id, m.position <= c.extracted_position AS was_read,
           row_number() OVER (ORDER BY m.created_at, m.id) AS position
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE c.id IN (%(kept)s, %(gone)s)
), numbered AS (
    UPDATE messages m SET conversation_id = %(kept)s, position = merged.position FROM merged
    WHERE m.id = merged.id
      AND (m.conversation_id <> %(kept)s OR m.position <> merged.position)
), summarised AS (
    DELETE FROM conversation_summaries WHERE conversation_id IN (%(kept)s, %(gone)s)
), results AS (
    UPDATE tool_results SET conversation_id = %(kept)s WHERE conversation_id = %(gone)s
), waiting AS (
    UPDATE unindexed_messages SET conversation_id = %(kept)s WHERE conversation_id = %(gone)s
)
UPDATE conversations c
SET last_position = 0,
    created_at = (SELECT min(created_at) FROM conversations WHERE id IN (%(kept)s, %(gone)s)),
    extracted_position = coalesce(
        (SELECT min(position) - 1 FROM merged WHERE NOT was_read),
        (SELECT max(position) FROM merged), 0)
WHERE c.id = %(kept)s
"""

# The conversation that was merged.
DELETE_MERGED = "DELETE FROM conversations WHERE id = %(gone)s"

# Facts that both chats know: that of the new chat becomes a duplicate.
RETIRE_DUPLICATES = """
UPDATE memories f
SET retired_at = now(), retired_reason = 'duplicate', superseded_by = kept.id FROM memories kept
WHERE f.owner_id = %(gone)s AND f.retired_at IS NULL AND kept.owner_id = %(kept)s
  AND kept.retired_at IS NULL AND kept.content_hash = f.content_hash
"""

# Merge entities of the same name.
MERGE_ENTITIES = """
WITH pair AS MATERIALIZED (
    SELECT kept.id AS kept, gone.id AS gone
    FROM entities kept JOIN entities gone USING (normalised_name)
    WHERE kept.owner_id = %(kept)s AND gone.owner_id = %(gone)s
), links AS (
    INSERT INTO memory_entities (memory_id, entity_id)
    SELECT l.memory_id, pair.kept FROM pair JOIN memory_entities l ON l.entity_id = pair.gone
    ON CONFLICT DO NOTHING
)
DELETE FROM entities e USING pair WHERE e.id = pair.gone
"""

# In the search index, documents of the new chat follow those of the old one, after a gap wider
# than the reach of a word into its neighbours. The settings of the old chat stay; all other rows
# only change their owner.
MERGE_OWNERS = (
    """
    WITH shift AS (
        SELECT coalesce(max(next_position + 8), 0) AS by FROM search_owners
        WHERE owner_id = %(kept)s
    ), documents AS (
        UPDATE search_documents SET owner_id = %(kept)s, position = position + by FROM shift
        WHERE owner_id = %(gone)s
    ), postings AS (
        UPDATE search_postings SET owner_id = %(kept)s, position = position + by FROM shift
        WHERE owner_id = %(gone)s
    ), vectors AS (
        UPDATE document_embeddings SET owner_id = %(kept)s, position = position + by FROM shift
        WHERE owner_id = %(gone)s
    )
    INSERT INTO search_owners AS o (owner_id, next_position, documents, terms)
    SELECT %(kept)s, next_position + by, documents, terms FROM search_owners, shift
    WHERE owner_id = %(gone)s
    ON CONFLICT (owner_id) DO UPDATE
    SET next_position = EXCLUDED.next_position, documents = o.documents + EXCLUDED.documents,
        terms = o.terms + EXCLUDED.terms
    """,
    """
    UPDATE user_settings SET owner_id = %(kept)s
    WHERE owner_id = %(gone)s
      AND NOT EXISTS (SELECT 1 FROM user_settings WHERE owner_id = %(kept)s)
    """,
    *(
        f"UPDATE {table} SET owner_id = %(kept)s WHERE owner_id = %(gone)s"  # noqa: S608
        for table in ("reminders", "model_usage", "failures", *TABLES_OF_FACTS)
    ),
    """
    UPDATE conversations SET owner_id = %(kept)s, telegram_user_id = %(old)s
    WHERE owner_id = %(gone)s
    """,
    "DELETE FROM owners WHERE id = %(gone)s",
)

# Give the owners of the old chat the new id; all other rows hang on them by foreign keys.
UPDATE_OWNERS = "UPDATE owners SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s"

# Serialize pending updates of the old chat (``chat_moves`` maps them to the new one) with those of
# the new chat.
UPDATE_LOCKS = r"""
UPDATE procrastinate_jobs
SET lock = regexp_replace(lock, '^(chat:-?\d+:)' || %(old)s || ':', '\1' || %(new)s || ':')
WHERE status = 'todo' AND lock ~ ('^chat:-?\d+:' || %(old)s || ':')
"""


class GroupMoveRepository(Repository):
    """Moves data of groups; the method blocks (see ``PgClient.run``)."""

    def migrate_owner(self, old_chat_id: int, new_chat_id: int) -> int:
        """Move a group's conversations and memory to the supergroup that it became.

        They are merged with the data of the supergroup. Idempotent: another call moves only data
        that were stored under the old id meanwhile.

        Returns:
            The number of topics with data that were moved or merged.
        """
        chats = {"old": old_chat_id, "new": new_chat_id}

        def work(transaction: Transaction) -> int:
            transaction.execute(LOCK_MOVES)
            is_reversed = transaction.fetch_one(SELECT_REVERSED, chats) is not None
            if new_chat_id >= 0 or old_chat_id == new_chat_id or is_reversed:
                return 0  # a group cannot become a person's chat, itself, or the chat before it
            for statement in (INSERT_MOVE, LOCK_FACTS_OF_CHATS, LOCK_CHATS):
                transaction.execute(statement, chats)
            for kept_id, gone_id in transaction.fetch_all(SELECT_OWNER_PAIRS, chats):
                owners = {**chats, "kept": kept_id, "gone": gone_id}
                for kept, gone in transaction.fetch_all(SELECT_CONVERSATION_PAIRS, owners):
                    transaction.execute(MERGE_CONVERSATIONS, kept=kept, gone=gone)
                    transaction.execute(DELETE_MERGED, gone=gone)
                for statement in (RETIRE_DUPLICATES, MERGE_ENTITIES, *MERGE_OWNERS):
                    transaction.execute(statement, owners)
            moved = transaction.execute(UPDATE_OWNERS, chats)
            transaction.execute(UPDATE_LOCKS, chats)
            return moved

        return self._client.in_transaction(work, limits=PATIENT)
