"""A group becomes a supergroup: its id changes, and all that is the group's goes along.

Telegram tells of it in the old chat and in the new one, late, twice, or only when something is
sent; the new chat may have spoken before. So nothing is dropped: what both have is merged. Where
both have a conversation the old one stays, because turns that are under way belong to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from src.pg.client import Transaction
from src.pg.locks import lock_chats, lock_moves

# Whether the new chat is known to have become the old one, which cannot be.
SELECT_REVERSED = """
SELECT 1 FROM chat_moves WHERE old_chat_id = %(new)s AND new_chat_id = %(old)s
"""

# What comes late for the old id, or for one from which that came, is the new chat's.
INSERT_MOVE = """
WITH earlier AS (
    UPDATE chat_moves SET new_chat_id = %(new)s
    WHERE new_chat_id = %(old)s AND old_chat_id <> %(new)s
)
INSERT INTO chat_moves (old_chat_id, new_chat_id) VALUES (%(old)s, %(new)s)
ON CONFLICT (old_chat_id) DO UPDATE SET new_chat_id = EXCLUDED.new_chat_id
"""

# Topics in which both have talked: the conversation that stays, and the one that goes into it.
SELECT_CONVERSATION_PAIRS = """
SELECT kept.id::text, gone.id::text FROM conversations kept
JOIN conversations gone USING (thread_id)
WHERE kept.telegram_user_id = %(old)s AND gone.telegram_user_id = %(new)s
ORDER BY thread_id
"""

# The messages of both in the order of time, numbered anew. A summary stays where its messages
# still stand together; the others are made anew. What was not read for facts by now will be. The
# summaries' numbers go the way through negative ones, since no two may ever begin at the same.
MERGE_CONVERSATIONS = """
WITH merged AS MATERIALIZED (
    SELECT m.id, m.conversation_id AS was_in, m.position AS was_at,
           m.position <= c.extracted_position AS was_read,
           row_number() OVER (ORDER BY m.created_at, m.id) AS position
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE c.id IN (%(kept)s, %(gone)s)
), spans AS MATERIALIZED (
    SELECT s.id, min(m.position) AS first, max(m.position) AS last,
           max(m.position) - min(m.position) + 1 = count(m.id) AS is_whole
    FROM conversation_summaries s
    LEFT JOIN merged m ON m.was_in = s.conversation_id
         AND m.was_at BETWEEN s.first_position AND s.last_position
    WHERE s.conversation_id IN (%(kept)s, %(gone)s) GROUP BY s.id
), numbered AS (
    UPDATE messages m SET conversation_id = %(kept)s, position = merged.position FROM merged
    WHERE m.id = merged.id
      AND (m.conversation_id <> %(kept)s OR m.position <> merged.position)
), torn AS (
    DELETE FROM conversation_summaries s USING spans
    WHERE s.id = spans.id AND spans.is_whole IS NOT TRUE
), moved AS (
    UPDATE conversation_summaries s
    SET conversation_id = %(kept)s, first_position = spans.first - 1000000000,
        last_position = spans.last - 1000000000
    FROM spans WHERE s.id = spans.id AND spans.is_whole
)
UPDATE conversations c
SET last_position = 0,
    created_at = (SELECT min(created_at) FROM conversations WHERE id IN (%(kept)s, %(gone)s)),
    extracted_position = coalesce(
        (SELECT min(position) - 1 FROM merged WHERE NOT was_read),
        (SELECT max(position) FROM merged), 0)
WHERE c.id = %(kept)s
"""
NUMBER_SUMMARIES = """
UPDATE conversation_summaries
SET first_position = first_position + 1000000000, last_position = last_position + 1000000000
WHERE conversation_id = %(kept)s AND first_position < 0
"""
MOVE_TOOL_RESULTS = """
UPDATE tool_results SET conversation_id = %(kept)s WHERE conversation_id = %(gone)s
"""
DELETE_MERGED = "DELETE FROM conversations WHERE id = %(gone)s"

# The same fact in both: the older row takes in the sources, answers and links of the other one.
SELECT_FACT_PAIRS = """
SELECT kept.id, gone.id FROM memories kept
JOIN memories gone USING (thread_id, content_hash)
WHERE kept.telegram_user_id = %(old)s AND kept.retired_at IS NULL
  AND gone.telegram_user_id = %(new)s AND gone.retired_at IS NULL
"""
MERGE_FACTS = (
    """
    UPDATE memory_sources s SET memory_id = pair.kept
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    WHERE s.memory_id = pair.gone AND NOT EXISTS (
        SELECT 1 FROM memory_sources WHERE memory_id = pair.kept AND uid = s.uid)
    """,
    """
    UPDATE answer_sources s SET memory_id = pair.kept
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    WHERE s.memory_id = pair.gone
    """,
    """
    UPDATE memories f SET superseded_by = pair.kept
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    WHERE f.superseded_by = pair.gone
    """,
    """
    INSERT INTO memory_entities (memory_id, entity_id)
    SELECT pair.kept, l.entity_id
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    JOIN memory_entities l ON l.memory_id = pair.gone
    ON CONFLICT DO NOTHING
    """,
    """
    UPDATE memories f
    SET pinned = f.pinned OR g.pinned, importance = greatest(f.importance, g.importance),
        recalls = f.recalls + g.recalls,
        updated_at = greatest(f.updated_at, g.updated_at)
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    JOIN memories g ON g.id = pair.gone
    WHERE f.id = pair.kept
    """,
    "DELETE FROM memories WHERE id = ANY(%(gone)s)",
)

# The same name in both.
SELECT_ENTITY_PAIRS = """
SELECT kept.id, gone.id FROM entities kept
JOIN entities gone USING (thread_id, normalised_name)
WHERE kept.telegram_user_id = %(old)s AND gone.telegram_user_id = %(new)s
"""
MERGE_ENTITIES = (
    """
    INSERT INTO memory_entities (memory_id, entity_id)
    SELECT l.memory_id, pair.kept
    FROM unnest(%(kept)s::bigint[], %(gone)s::bigint[]) AS pair (kept, gone)
    JOIN memory_entities l ON l.entity_id = pair.gone
    ON CONFLICT DO NOTHING
    """,
    "DELETE FROM entities WHERE id = ANY(%(gone)s)",
)

# In the search, what the new chat said stands after what the old one said; the gap is wider than
# the reach of a word into its neighbours. Positions are unique, hence behind all of both.
SELECT_SHIFTS = """
SELECT o.thread_id, greatest(o.next_position, n.next_position) + 8
FROM search_owners o JOIN search_owners n USING (thread_id)
WHERE o.telegram_user_id = %(old)s AND n.telegram_user_id = %(new)s
ORDER BY o.thread_id
"""
SHIFT_POSITIONS = (
    """
    UPDATE search_documents SET position = position + %(shift)s
    WHERE telegram_user_id = %(new)s AND thread_id = %(thread_id)s
    """,
    """
    UPDATE search_postings SET position = position + %(shift)s
    WHERE telegram_user_id = %(new)s AND thread_id = %(thread_id)s
    """,
    """
    UPDATE document_embeddings SET position = position + %(shift)s
    WHERE telegram_user_id = %(new)s AND thread_id = %(thread_id)s
    """,
    """
    UPDATE search_owners o
    SET next_position = n.next_position + %(shift)s, documents = o.documents + n.documents,
        terms = o.terms + n.terms
    FROM search_owners n
    WHERE o.telegram_user_id = %(old)s AND o.thread_id = %(thread_id)s
      AND n.telegram_user_id = %(new)s AND n.thread_id = %(thread_id)s
    """,
    "DELETE FROM search_owners WHERE telegram_user_id = %(new)s AND thread_id = %(thread_id)s",
)

# What the new chat has not chosen for itself stays as it was in the old one.
MERGE_SETTINGS = """
WITH old AS (
    DELETE FROM user_settings o WHERE telegram_user_id = %(old)s
      AND EXISTS (SELECT 1 FROM user_settings WHERE telegram_user_id = %(new)s)
    RETURNING language, time_zone, mode, answer_length, memory_on
)
UPDATE user_settings n
SET language = coalesce(n.language, old.language),
    time_zone = coalesce(n.time_zone, old.time_zone),
    mode = CASE n.mode WHEN 'assistant' THEN old.mode ELSE n.mode END,
    answer_length = CASE n.answer_length WHEN 'normal' THEN old.answer_length
                    ELSE n.answer_length END,
    memory_on = n.memory_on AND old.memory_on, updated_at = now()
FROM old WHERE n.telegram_user_id = %(new)s
"""

# The rest only changes its owner.
UPDATE_OWNER = (
    "UPDATE conversations SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s"
)
UPDATE_OWNERS = (
    "UPDATE memories SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE entities SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE forgettings SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE parting_messages SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE rejected_facts SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE search_owners SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE search_documents SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE search_postings SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE document_embeddings SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE model_usage SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE reminders SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
    "UPDATE user_settings SET telegram_user_id = %(new)s WHERE telegram_user_id = %(old)s",
)

# Updates of the old chat that wait (they find their new home by ``chat_moves``) stand in one line
# with those of the new chat.
UPDATE_LOCKS = r"""
UPDATE procrastinate_jobs
SET lock = regexp_replace(lock, '^(chat:-?\d+:)' || %(old)s || ':', '\1' || %(new)s || ':')
WHERE status = 'todo' AND lock ~ ('^chat:-?\d+:' || %(old)s || ':')
"""


def move_owner(transaction: Transaction, old_chat_id: int, new_chat_id: int) -> int:
    """Hand a group's conversations and memory to the supergroup that it became.

    Doing it again changes nothing, or takes along what came for the old id meanwhile.

    Returns:
        How many conversations were moved or merged.
    """
    chats = {"old": old_chat_id, "new": new_chat_id}
    lock_moves(transaction)
    is_reversed = transaction.fetch_one(SELECT_REVERSED, chats) is not None
    if new_chat_id >= 0 or old_chat_id == new_chat_id or is_reversed:
        return 0  # no group becomes a person's chat, itself, or what it came from
    transaction.execute(INSERT_MOVE, chats)
    lock_chats(transaction, old_chat_id, new_chat_id)
    conversations = transaction.fetch_all(SELECT_CONVERSATION_PAIRS, chats)
    for kept, gone in conversations:
        pair = {"kept": kept, "gone": gone}
        for statement in (MERGE_CONVERSATIONS, NUMBER_SUMMARIES, MOVE_TOOL_RESULTS, DELETE_MERGED):
            transaction.execute(statement, pair)
    _merge(transaction, transaction.fetch_all(SELECT_FACT_PAIRS, chats), MERGE_FACTS)
    _merge(transaction, transaction.fetch_all(SELECT_ENTITY_PAIRS, chats), MERGE_ENTITIES)
    for thread_id, shift in transaction.fetch_all(SELECT_SHIFTS, chats):
        for statement in SHIFT_POSITIONS:
            transaction.execute(statement, {**chats, "thread_id": thread_id, "shift": shift})
    moved = transaction.execute(UPDATE_OWNER, chats)
    for statement in (MERGE_SETTINGS, *UPDATE_OWNERS, UPDATE_LOCKS):
        transaction.execute(statement, chats)
    return moved


def _merge(
    transaction: Transaction, pairs: Sequence[Sequence[int]], statements: Sequence[str]
) -> None:
    """Take the second row of each pair into the first."""
    if not pairs:
        return
    rows = {"kept": [kept for kept, _ in pairs], "gone": [gone for _, gone in pairs]}
    for statement in statements:
        transaction.execute(statement, rows)
