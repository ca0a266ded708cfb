"""Erasure of all data of one owner, a person or a group: every table, every column."""

import json
import logging
import re
from dataclasses import dataclass
from typing import Any

from src.base.errors import StorageError
from src.base.owners import Owner
from src.memory import purge_repo
from src.pg import locks
from src.pg.client import PATIENT, PgClient, Transaction

logger = logging.getLogger(__name__)

# Messages already stored for an update that was redacted: its turn starts again with the rest.
DELETE_BEGUN = """
DELETE FROM messages m USING telegram_updates u
WHERE u.id = ANY(%(updates)s) AND m.bot_id = u.bot_id AND m.chat_id = u.chat_id
  AND m.telegram_message_id = u.message_id AND u.kind NOT IN ('edit', 'callback')
"""

# Give questions under answer new ids: their turns have read the conversation before the erasure,
# so storing the answer fails (``MessageMovedError``), and they are answered again.
RENUMBER = """
WITH gone AS (
    DELETE FROM messages AS m USING telegram_updates u
    WHERE u.bot_id = m.bot_id AND u.chat_id = m.chat_id AND u.message_id = m.telegram_message_id
      AND u.handled_at IS NULL AND m.conversation_id = ANY(%(rooms)s::uuid[]) AND m.role = 'user'
      AND NOT EXISTS (SELECT 1 FROM messages a
                      WHERE a.reply_to_id = m.id AND a.role = 'assistant')
    RETURNING m AS row, m.id
), numbered AS MATERIALIZED (
    SELECT row, id, nextval(pg_get_serial_sequence('messages', 'id')) AS new FROM gone
), anew AS (
    INSERT INTO messages OVERRIDING SYSTEM VALUE
    SELECT m.* FROM numbered n, jsonb_populate_record(n.row, jsonb_build_object(
        'id', n.new, 'failed_at', NULL, 'stopped_at', NULL)) AS m
    RETURNING conversation_id, id
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM anew
)
UPDATE memory_sources s
SET message_id = n.new, uid = 'msg-' || n.new, episode = 'teach_msg-' || n.new
FROM numbered n WHERE s.uid = 'msg-' || n.id
"""

# The owner's current and earlier ids: a group that moved has several.
SELECT_IDS = """
SELECT v.new_chat_id, array(SELECT old_chat_id FROM chat_moves WHERE new_chat_id = v.new_chat_id)
FROM chat_moves v WHERE %(user)s IN (v.old_chat_id, v.new_chat_id) LIMIT 1
"""

# Chats in which the person is known to take part.
SELECT_CHATS = """
SELECT chat_id FROM messages
WHERE chat_id IS NOT NULL AND %(user)s IN (sender_id, author_id, quoted_author_id)
UNION SELECT chat_id FROM telegram_updates WHERE chat_id IS NOT NULL AND user_id = %(user)s
"""

# Jobs of the owner's updates and chats, unless they run now.
DELETE_JOBS = r"""
DELETE FROM procrastinate_jobs
WHERE status <> 'doing' AND (
    (task_name = 'handle_update' AND (args ->> 'update')::bigint IN (
        SELECT id FROM telegram_updates WHERE user_id = %(user)s OR chat_id = ANY(%(ids)s)))
    OR substring(coalesce(lock, args ->> 'lock') FROM '^chat:-?\d+:(-?\d+):')::bigint
       = ANY(%(ids)s))
"""

# The owner's updates, first of all: without its update, a starting turn stores no message
# (``LOCK_UPDATE``).
DELETE_UPDATES = """
DELETE FROM telegram_updates WHERE user_id = %(user)s OR chat_id = ANY(%(ids)s)
"""

# Full and user names of the person in pending updates, from the objects that stand for them.
SELECT_NAMES = """
WITH told AS (
    SELECT jsonb_path_query(payload, '$.** ? (@.id == $person || @.user_id == $person)',
                            jsonb_build_object('person', %(user)s)) AS one
    FROM telegram_updates WHERE payload <> '{}'
)
SELECT DISTINCT concat_ws(' ', one ->> 'first_name', one ->> 'last_name'), one ->> 'username'
FROM told
"""

# Quotations in pending updates of others, from chats of the person or with the person's id.
UPDATE_QUOTING_UPDATES = """
WITH clean AS (
    SELECT id, payload
        #- '{message,reply_to_message}' #- '{message,external_reply}' #- '{message,quote}'
        #- '{message,pinned_message}' #- '{edited_message,reply_to_message}'
        #- '{edited_message,external_reply}' #- '{edited_message,quote}'
        #- '{callback_query,message,reply_to_message}' #- '{callback_query,message,text}'
        #- '{callback_query,message,entities}' #- '{callback_query,message,caption}'
        #- '{callback_query,message,caption_entities}' AS payload
    FROM telegram_updates
    WHERE payload <> '{}' AND (chat_id = ANY(%(chats)s) OR jsonb_path_exists(
        payload, '$.** ? (@.id == $person || @.user_id == $person)',
        jsonb_build_object('person', %(user)s)))
    ORDER BY id FOR UPDATE
)
UPDATE telegram_updates u SET payload = clean.payload, revision = u.revision + 1
FROM clean WHERE u.id = clean.id AND u.payload <> clean.payload RETURNING u.id
"""

# Close pending updates of others that forward or mention the person. Handled ones are empty.
CLOSE_UPDATES = r"""
UPDATE telegram_updates SET payload = '{}', handled_at = now(), outcome = 'erased'
WHERE payload <> '{}' AND (
    jsonb_path_exists(payload, '$.** ? (@.id == $person || @.user_id == $person)',
                      jsonb_build_object('person', %(user)s))
    OR EXISTS (SELECT 1 FROM unnest(%(names)s::text[]) AS name WHERE jsonb_path_exists(
        payload, '$.**.sender_user_name ? (@ == $name)', jsonb_build_object('name', name)))
    OR EXISTS (SELECT 1 FROM unnest(%(logins)s::text[]) AS login
               WHERE payload::text ~* ('@' || login || '\y')))
RETURNING id
"""

# Messages in conversations with traces of the person that mention them without a user name.
SELECT_MENTIONING = """
SELECT id, content, mentions FROM messages
WHERE conversation_id = ANY(%(rooms)s::uuid[])
  AND mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s))
"""

# Store a redacted message, and queue it for the index.
UPDATE_MENTIONING = """
WITH changed AS (
    UPDATE messages SET content = %(content)s, file_id = NULL,
                        mentions = nullif(%(mentions)s::jsonb, '[]')
    WHERE id = %(id)s RETURNING conversation_id, id
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed ON CONFLICT DO NOTHING
"""

# Summaries of these conversations from the first message by or about the person on; the compaction
# makes them again.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries s
USING (SELECT conversation_id, min(position) AS first FROM messages
       WHERE conversation_id = ANY(%(rooms)s::uuid[])
         AND (%(user)s IN (sender_id, author_id, quoted_author_id)
              OR id = ANY(%(mentioning)s))
       GROUP BY conversation_id) AS written
WHERE s.conversation_id = written.conversation_id AND s.last_position >= written.first
"""

# Answers that contain a name of the person.
DELETE_ANSWERS_ABOUT = """
DELETE FROM messages
WHERE conversation_id = ANY(%(rooms)s::uuid[]) AND role = 'assistant' AND EXISTS (
    SELECT 1 FROM unnest(%(names)s::text[]) AS name
    WHERE position(lower(name) IN lower(content)) > 0)
"""

# Answers to others with a source by or of the person.
DELETE_ANSWERS_TO_OTHERS = """
DELETE FROM messages a USING answer_sources s
LEFT JOIN messages m ON m.id = s.message_id
LEFT JOIN memory_sources q ON q.memory_id = s.memory_id
WHERE a.id = s.answer_id
  AND %(user)s IN (m.sender_id, m.author_id, q.sender_id, q.author_id)
"""

# Answers with a word that only the person used in the conversation. Words are compared by their
# first five letters, since they are inflected.
DELETE_ANSWERS_IN_THEIR_WORDS = r"""
WITH rooms AS MATERIALIZED (
    SELECT id, owner_id FROM conversations WHERE id = ANY(%(rooms)s::uuid[])
), told AS (
    SELECT rooms.id AS conversation_id, f.text || ' ' || s.quote AS text,
           coalesce(%(user)s IN (s.sender_id, s.author_id), false) AS is_theirs
    FROM rooms JOIN facts f ON f.owner_id = rooms.owner_id
    JOIN memory_sources s ON s.memory_id = f.id
    UNION ALL
    SELECT rooms.id, message_text(m.content),
           coalesce(%(user)s IN (m.sender_id, m.author_id), false)
    FROM rooms JOIN messages m ON m.conversation_id = rooms.id WHERE m.role = 'user'
    UNION ALL
    SELECT rooms.id, m.quoted, coalesce(%(user)s = m.quoted_author_id, false)
    FROM rooms JOIN messages m ON m.conversation_id = rooms.id WHERE m.quoted IS NOT NULL
), their_words AS (
    SELECT conversation_id, left(word, 5) AS word
    FROM told, regexp_split_to_table(lower(text), '\W+') AS word
    WHERE length(word) >= 5
    GROUP BY conversation_id, left(word, 5)
    HAVING bool_and(is_theirs)
)
DELETE FROM messages a
WHERE a.role = 'assistant' AND EXISTS (
    SELECT 1 FROM regexp_split_to_table(lower(a.content), '\W+') AS said
    JOIN their_words t ON t.word = left(said, 5)
    WHERE t.conversation_id = a.conversation_id AND length(said) >= 5)
  AND a.conversation_id = ANY(%(rooms)s::uuid[])
"""

# Answers after a message that the person edited: they may repeat words of an earlier version.
DELETE_ANSWERS_BEFORE_EDITS = """
DELETE FROM messages a USING messages m
WHERE %(user)s IN (m.sender_id, m.author_id) AND m.edited_at IS NOT NULL
  AND a.conversation_id = m.conversation_id AND a.role = 'assistant' AND a.position > m.position
"""

# Open questions to others about what the person said.
CLEAR_QUESTIONS = """
UPDATE messages a SET question = NULL
WHERE a.conversation_id = ANY(%(rooms)s::uuid[]) AND a.question IS NOT NULL AND EXISTS (
    SELECT 1 FROM jsonb_array_elements(a.question) AS disputed
    JOIN messages m ON m.id = (disputed ->> 'message')::bigint
    WHERE %(user)s IN (m.sender_id, m.author_id))
"""

# Results of tools in these conversations.
DELETE_TOOL_RESULTS = "DELETE FROM tool_results WHERE conversation_id = ANY(%(rooms)s::uuid[])"

# Rejected facts, and undo data of forgettings, which may contain the person's words.
DELETE_LEFTOVERS = (
    """
DELETE FROM rejected_facts t USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND t.owner_id = c.owner_id
""",
    """
DELETE FROM changes t USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND t.owner_id = c.owner_id AND t.kind = 'forgotten'
""",
)

# The person as a source of facts of groups that have other sources as well.
DELETE_QUOTES_IN_GROUPS = "DELETE FROM memory_sources WHERE %(user)s IN (sender_id, author_id)"

# Entities that no fact mentions any more.
DELETE_ORPHANED_ENTITIES = """
DELETE FROM entities e USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND e.owner_id = c.owner_id
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""

# Messages right after those of the person are embedded again, without them as context.
EMBED_NEIGHBOURS = """
UPDATE search_documents n SET model_id = NULL
FROM search_documents d JOIN messages m ON m.id = d.message_id
WHERE m.conversation_id = ANY(%(rooms)s::uuid[])
  AND (%(user)s IN (m.sender_id, m.author_id) OR m.id = ANY(%(mentioning)s))
  AND n.owner_id = d.owner_id AND n.position = d.position + 1
"""

# Messages that mention the person leave the index, and return in their redacted text.
DELETE_DOCUMENTS = "DELETE FROM search_documents WHERE message_id = ANY(%(mentioning)s)"

# Quotations of the person; in these conversations all, since others may repeat or name them.
UPDATE_QUOTING = """
UPDATE messages SET quoted = NULL, quoted_author_id = NULL
WHERE quoted IS NOT NULL
  AND (quoted_author_id = %(user)s OR conversation_id = ANY(%(rooms)s::uuid[]))
"""

# Messages by or about the person that /new left to be read.
DELETE_PARTING = """
DELETE FROM parting_messages
WHERE sender_id = %(user)s
   OR mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s))
"""

# Reminders in these conversations that the person asked for, or that contain their name.
DELETE_REMINDERS_IN_GROUPS = """
DELETE FROM reminders r
WHERE r.asker_id = %(user)s OR EXISTS (
    SELECT 1 FROM conversations c
    JOIN unnest(%(names)s::text[]) AS name ON position(lower(name) IN lower(r.text)) > 0
    WHERE c.id = ANY(%(rooms)s::uuid[]) AND c.owner_id = r.owner_id)
"""

# Messages that the person wrote, and forwarded ones of theirs; answers go by foreign keys.
DELETE_MESSAGES_IN_GROUPS = "DELETE FROM messages WHERE %(user)s IN (sender_id, author_id)"

# The owner in all topics, with all rows by foreign keys, and the former ids of a group.
DELETE_OWN = (
    "DELETE FROM owners WHERE telegram_user_id = %(user)s",
    "DELETE FROM chat_moves WHERE new_chat_id = %(user)s",
)

# What conversations with traces of the person hold of them, before their messages go.
DELETE_TRACES = (
    DELETE_SUMMARIES,
    purge_repo.DELETE_FACTS_ABOUT,
    DELETE_ANSWERS_ABOUT,
    DELETE_ANSWERS_TO_OTHERS,
    DELETE_ANSWERS_IN_THEIR_WORDS,
    DELETE_ANSWERS_BEFORE_EDITS,
    CLEAR_QUESTIONS,
    DELETE_TOOL_RESULTS,
    *DELETE_LEFTOVERS,
    purge_repo.DELETE_FACTS_TOLD_IN_GROUPS,
    DELETE_QUOTES_IN_GROUPS,
    UPDATE_QUOTING,
    DELETE_PARTING,
    DELETE_REMINDERS_IN_GROUPS,
    DELETE_ORPHANED_ENTITIES,
)

# Vacuumed, so that the server reuses the space of deleted rows; analysed, because the planner's
# statistics quote frequent values of each column.
TABLES = """
messages, telegram_updates, reminders, memories, memory_sources, entities, rejected_facts,
conversation_summaries, tool_results, search_documents, search_postings, document_embeddings,
parting_messages, changes, imports, import_rows, memory_tokens, page_sessions,
procrastinate_jobs
"""
VACUUM, ANALYZE = "VACUUM " + TABLES, "ANALYZE " + TABLES
# Servers before PostgreSQL 18 keep the statistics of tables that are empty now.
QUOTED = "the statistics may still quote what was erased"
# ANALYZE leaves the statistics of an empty table as they were.
CLEAR_STATISTICS = """
SELECT pg_clear_attribute_stats(s.schemaname::text, s.tablename::text, s.attname::text,
                                s.inherited)
FROM pg_stats s JOIN pg_class c
     ON c.relname = s.tablename AND c.relnamespace = s.schemaname::regnamespace
WHERE s.schemaname = current_schema() AND c.reltuples = 0
"""


@dataclass(eq=False, repr=False)
class ErasureRepository:
    """Erases data of owners; every method blocks (see ``PgClient.run``)."""

    _client: PgClient

    def erase(self, telegram_user_id: int) -> int:
        """Delete all that the owner wrote, taught or was answered, in one transaction.

        Args:
            telegram_user_id: A person, or the negative id of a group with all of its topics.

        Returns:
            The number of deleted and redacted rows, without those deleted by foreign keys.
        """
        rows = self._client.in_transaction(
            lambda transaction: _erase(transaction, telegram_user_id), limits=PATIENT
        )
        self._maintain(QUOTED, ANALYZE, CLEAR_STATISTICS)
        return rows

    def erase_facts(self, owner: Owner) -> int:
        """Delete every fact of an owner, current or retired; returns the number of rows.

        Messages stay in the conversation, and are not read for facts again.
        """

        def work(transaction: Transaction) -> int:
            locks.lock_history(transaction, *owner)
            return sum(transaction.execute(sql, owner) for sql in purge_repo.DELETE_FACTS)

        rows = self._client.in_transaction(work)
        self._maintain(QUOTED, ANALYZE, CLEAR_STATISTICS)
        return rows

    def vacuum(self) -> bool:
        """Free the space of deleted rows; False when the server cannot do it now."""
        return self._maintain("the tables were not vacuumed", VACUUM)

    def _maintain(self, problem: str, *statements: str) -> bool:
        try:
            for statement in statements:
                self._client.maintain(statement, limits=PATIENT)
        except StorageError as error:
            logger.warning(problem, exc_info=error)
            return False
        return True


def _erase(transaction: Transaction, telegram_user_id: int) -> int:
    """Run all steps, in the order in which running turns take their locks."""
    found = transaction.fetch_one(SELECT_IDS, user=telegram_user_id)
    owner, earlier = found or (telegram_user_id, [])
    values: dict[str, Any] = {"user": owner, "ids": [owner, *earlier]}

    def run(*statements: str) -> int:
        return sum(transaction.execute(sql, values) for sql in statements)

    def column(sql: str) -> list[Any]:
        return [value for (value,) in transaction.fetch_all(sql, values)]

    values["chats"] = column(SELECT_CHATS)
    called = transaction.fetch_all(SELECT_NAMES, values)
    values["names"] = [name for name, _ in called if name]
    values["logins"] = [login for _, login in called if login]
    rows = run(DELETE_JOBS, DELETE_UPDATES)
    values["updates"] = column(UPDATE_QUOTING_UPDATES) + column(CLOSE_UPDATES)
    conversations = transaction.fetch_all(locks.LOCK_TRACES, values)
    values["rooms"] = [id_ for id_, is_of_others in conversations if is_of_others]
    values["mentioning"], values["names"] = _redact_mentions(transaction, values)
    rows += len(values["updates"]) + len(values["mentioning"]) + run(*DELETE_TRACES)
    run(purge_repo.KEEP_POSITIONS, EMBED_NEIGHBOURS, DELETE_DOCUMENTS)
    rows += run(DELETE_MESSAGES_IN_GROUPS)
    # Turns under way have read erased messages: keep them from storing their answers.
    run(DELETE_BEGUN, RENUMBER)
    return rows + run(*DELETE_OWN)


def _redact_mentions(
    transaction: Transaction, values: dict[str, Any]
) -> tuple[list[int], list[str]]:
    """Return the ids of redacted messages, and the names that they had."""
    ids, names = list[int](), set[str]()
    for id_, text, mentions in transaction.fetch_all(SELECT_MENTIONING, values):
        own = {one["name"] for one in mentions if one["id"] == values["user"]}
        patterns = sorted((re.escape(name) for name in own if name), key=len, reverse=True)
        content = text
        if patterns:
            content = re.sub("|".join(patterns), "…", text, flags=re.IGNORECASE)
        others = [one for one in mentions if one["id"] != values["user"]]
        left = json.dumps(others, ensure_ascii=False)
        transaction.execute(UPDATE_MENTIONING, id=id_, content=content, mentions=left)
        ids.append(id_)
        names |= own
    return ids, sorted(name for name in names if len(name) > 1)
