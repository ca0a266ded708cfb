"""Erasing everything of one owner, a person or a group: every table, every column."""

import json
import logging
import re
from dataclasses import dataclass
from typing import Any

from src.base.errors import StorageError
from src.base.owners import Owner
from src.memory import purge_repo
from src.pg.client import PgClient, Transaction
from src.pg.connection import PATIENT
from src.pg.locks import lock_history, lock_traces
from src.privacy.payload_words import names_in, without_person

logger = logging.getLogger(__name__)

# What is stored already of an update that was changed: its turn begins again, with what is left.
DELETE_BEGUN = """
DELETE FROM messages m USING telegram_updates u
WHERE u.id = ANY(%(updates)s) AND m.bot_id = u.bot_id AND m.chat_id = u.chat_id
  AND m.telegram_message_id = u.message_id AND u.kind NOT IN ('edit', 'callback')
"""

# Questions that are being answered now, by a turn that has read the conversation as it was, get
# new numbers: its answer finds no place (``QuestionMovedError``), and they are answered anew.
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

# Every id of the owner: a group that moved had another one before.
SELECT_IDS = """
SELECT v.new_chat_id, array(SELECT old_chat_id FROM chat_moves WHERE new_chat_id = v.new_chat_id)
FROM chat_moves v WHERE %(user)s IN (v.old_chat_id, v.new_chat_id) LIMIT 1
"""

# Chats of others in which the person takes part, as far as is known.
SELECT_CHATS = """
SELECT chat_id FROM messages
WHERE chat_id IS NOT NULL AND %(user)s IN (sender_id, author_id, quoted_author_id)
UNION SELECT chat_id FROM telegram_updates WHERE chat_id IS NOT NULL AND user_id = %(user)s
"""

# The owner's updates, first of all: a turn that is only beginning stores no message any more
# (``HOLD_UPDATE``). The names in them are looked for in those of others.
DELETE_JOBS = r"""
DELETE FROM procrastinate_jobs
WHERE status <> 'doing' AND (
    (task_name = 'handle_update' AND (args ->> 'update')::bigint IN (
        SELECT id FROM telegram_updates WHERE user_id = %(user)s OR chat_id = ANY(%(ids)s)))
    OR substring(coalesce(lock, args ->> 'lock') FROM '^chat:-?\d+:(-?\d+):')::bigint
       = ANY(%(ids)s))
"""
DELETE_UPDATES = """
DELETE FROM telegram_updates WHERE user_id = %(user)s OR chat_id = ANY(%(ids)s)
RETURNING payload
"""

# Updates of others, from where the person takes part or with their number in them.
SELECT_PAYLOADS = """
SELECT id, payload, coalesce(chat_id = ANY(%(chats)s), false) FROM telegram_updates
WHERE payload <> '{}' AND (chat_id = ANY(%(chats)s)
                           OR position((%(user)s)::text IN payload::text) > 0)
ORDER BY id FOR UPDATE
"""
UPDATE_PAYLOAD = """
UPDATE telegram_updates SET payload = %(payload)s, revision = revision + 1
WHERE id = %(update)s
"""
UPDATE_EMPTIED = """
UPDATE telegram_updates SET payload = '{}', handled_at = now(), outcome = 'erased'
WHERE id = %(update)s
"""

# Messages of others, where the person left traces, that mention them without a user name.
SELECT_MENTIONING = """
SELECT id, content, mentions FROM messages
WHERE conversation_id = ANY(%(rooms)s::uuid[])
  AND mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s))
"""
UPDATE_MENTIONING = """
WITH changed AS (
    UPDATE messages SET content = %(content)s, mentions = %(mentions)s, file_id = NULL
    WHERE id = %(id)s RETURNING conversation_id, id
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed ON CONFLICT DO NOTHING
"""

# Summaries of these conversations from the first message by or about the person on; they are made
# anew without it.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries s
USING (SELECT conversation_id, min(position) AS first FROM messages
       WHERE conversation_id = ANY(%(rooms)s::uuid[])
         AND (%(user)s IN (sender_id, author_id, quoted_author_id)
              OR id = ANY(%(mentioning)s))
       GROUP BY conversation_id) AS written
WHERE s.conversation_id = written.conversation_id AND s.last_position >= written.first
"""

# Answers with a name by which the person was mentioned.
DELETE_ANSWERS_ABOUT = """
DELETE FROM messages
WHERE conversation_id = ANY(%(rooms)s::uuid[]) AND role = 'assistant' AND EXISTS (
    SELECT 1 FROM unnest(%(names)s::text[]) AS name
    WHERE position(lower(name) IN lower(content)) > 0)
"""

# Answers to others there with the person's words as their source, or in words that only the person
# used there (by their first five letters, since words are inflected).
DELETE_ANSWERS_TO_OTHERS = """
DELETE FROM messages a USING answer_sources s
LEFT JOIN messages m ON m.id = s.message_id
LEFT JOIN memory_sources q ON q.memory_id = s.memory_id
WHERE a.id = s.answer_id
  AND %(user)s IN (m.sender_id, m.author_id, q.sender_id, q.author_id)
"""
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

# Answers behind a message that the person edited: they may hold words that stand nowhere else.
DELETE_ANSWERS_BEFORE_EDITS = """
DELETE FROM messages a USING messages m
WHERE %(user)s IN (m.sender_id, m.author_id) AND m.edited_at IS NOT NULL
  AND a.conversation_id = m.conversation_id AND a.role = 'assistant' AND a.position > m.position
"""

# What tools read to the model there, and what models proposed there in vain.
DELETE_TOOL_RESULTS = """
DELETE FROM tool_results WHERE conversation_id = ANY(%(rooms)s::uuid[])
"""
DELETE_REJECTED = """
DELETE FROM rejected_facts r USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND r.owner_id = c.owner_id
"""

# Where a person writes in groups, the group's memory holds their words behind facts that others
# told as well.
DELETE_QUOTES_IN_GROUPS = """
DELETE FROM memory_sources WHERE %(user)s IN (sender_id, author_id)
"""
DELETE_ORPHANED_ENTITIES = """
DELETE FROM entities e USING conversations c
WHERE c.id = ANY(%(rooms)s::uuid[]) AND e.owner_id = c.owner_id
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""

# What was said right after their words is embedded anew, without them before it; messages that
# mention them leave the search, and come back in their new words.
EMBED_NEIGHBOURS = """
UPDATE search_documents n SET model_id = NULL
FROM search_documents d JOIN messages m ON m.id = d.message_id
WHERE m.conversation_id = ANY(%(rooms)s::uuid[])
  AND (%(user)s IN (m.sender_id, m.author_id) OR m.id = ANY(%(mentioning)s))
  AND n.owner_id = d.owner_id AND n.position = d.position + 1
"""
DELETE_DOCUMENTS = "DELETE FROM search_documents WHERE message_id = ANY(%(mentioning)s)"

# Forgettings of the last minutes there may hold their words, so they cannot be undone any more.
DELETE_FORGETTINGS_OF_GROUPS = """
DELETE FROM forgettings f USING conversations c
WHERE f.owner_id = c.owner_id AND c.id = ANY(%(rooms)s::uuid[])
"""

# Quotations: of the person, and in these conversations of anybody, who may repeat or name them.
# Beside it what is by or about the person and waits to be read after a /new.
UPDATE_QUOTING = """
UPDATE messages SET quoted = NULL, quoted_author_id = NULL
WHERE quoted IS NOT NULL
  AND (quoted_author_id = %(user)s OR conversation_id = ANY(%(rooms)s::uuid[]))
"""
DELETE_PARTING = """
DELETE FROM parting_messages
WHERE sender_id = %(user)s
   OR mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s))
"""

# Reminders there that the person asked for, or with a name by which they were mentioned.
DELETE_REMINDERS_IN_GROUPS = """
DELETE FROM reminders r
WHERE r.asker_id = %(user)s OR EXISTS (
    SELECT 1 FROM conversations c
    JOIN unnest(%(names)s::text[]) AS name ON position(lower(name) IN lower(r.text)) > 0
    WHERE c.id = ANY(%(rooms)s::uuid[]) AND c.owner_id = r.owner_id)
"""

# Messages that the person wrote there, or others forwarded of theirs, with the answers to them.
DELETE_MESSAGES_IN_GROUPS = """
DELETE FROM messages WHERE %(user)s IN (sender_id, author_id)
"""

# The owner, in all topics of a group: every row of their data goes by its foreign key.
DELETE_OWN = (
    "DELETE FROM owners WHERE telegram_user_id = %(user)s",
    "DELETE FROM chat_moves WHERE new_chat_id = %(user)s",
)

# The server gives the places of the deleted rows out again, and the planner's statistics, which
# quote frequent values of each column, are made anew.
TABLES = """
messages, telegram_updates, reminders, memories, memory_sources, entities, rejected_facts,
conversation_summaries, tool_results, search_documents, search_postings, document_embeddings,
parting_messages, forgettings, consolidations, checkpoints, checkpoint_blobs, checkpoint_writes,
procrastinate_jobs
"""
VACUUM, ANALYZE = "VACUUM " + TABLES, "ANALYZE " + TABLES
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
    """Erases; the methods block (see ``PgClient.run``)."""

    _client: PgClient

    def erase(self, telegram_user_id: int) -> int:
        """Delete everything that the owner wrote, taught, or was told; returns how many rows.

        One transaction: all of it goes, or nothing does. Rows of others that lose a quotation are
        counted, those that go by a foreign key are not.

        Args:
            telegram_user_id: A person, or the negative id of a group: all of its topics.
        """
        rows = self._client.in_transaction(
            lambda t: _Erasure(t, telegram_user_id).run(), limits=PATIENT
        )
        self._forget_statistics()
        return rows

    def erase_facts(self, owner: Owner) -> int:
        """Delete every fact of an owner, living or not; returns how many rows.

        What was said stays in the conversation; what it told is not taken from it again.
        """

        def work(transaction: Transaction) -> int:
            lock_history(transaction, *owner)
            return sum(transaction.execute(sql, owner) for sql in purge_repo.DELETE_FACTS)

        rows = self._client.in_transaction(work)
        self._forget_statistics()
        return rows

    def vacuum(self) -> bool:
        """Free the places of deleted rows; False when the server cannot do it now."""
        try:
            self._client.maintain(VACUUM, limits=PATIENT)
        except StorageError as error:
            logger.warning("the tables were not vacuumed", exc_info=error)
            return False
        return True

    def _forget_statistics(self) -> None:
        """Let the planner's statistics quote nothing that was erased.

        Servers before PostgreSQL 18 keep those of tables that are empty now.
        """
        try:
            self._client.maintain(ANALYZE, limits=PATIENT)
            self._client.maintain(CLEAR_STATISTICS, limits=PATIENT)
        except StorageError as error:
            logger.warning("the statistics may still quote what was erased", exc_info=error)


class _Erasure:
    """One erasure, within its transaction."""

    def __init__(self, transaction: Transaction, owner: int) -> None:
        self._transaction = transaction
        moved = transaction.fetch_one(SELECT_IDS, user=owner)
        owner, earlier = moved if moved else (owner, [])
        self._owner = owner
        self._parameters: dict[str, Any] = {"user": owner, "ids": [owner, *earlier], "updates": []}

    def run(self) -> int:
        """All steps, in an order in which running turns take their locks too."""
        rows = self._erase_updates()
        conversations = lock_traces(self._transaction, self._owner)
        self._parameters["rooms"] = [id_ for id_, is_room in conversations if is_room]
        rows += self._erase_mentions()
        rows += self._execute(
            DELETE_SUMMARIES,
            purge_repo.DELETE_FACTS_ABOUT,
            DELETE_ANSWERS_ABOUT,
            DELETE_ANSWERS_TO_OTHERS,
            DELETE_ANSWERS_IN_THEIR_WORDS,
            DELETE_ANSWERS_BEFORE_EDITS,
            DELETE_TOOL_RESULTS,
            DELETE_REJECTED,
            purge_repo.DELETE_FACTS_TOLD_IN_GROUPS,
            DELETE_QUOTES_IN_GROUPS,
            DELETE_FORGETTINGS_OF_GROUPS,
            UPDATE_QUOTING,
            DELETE_PARTING,
            DELETE_REMINDERS_IN_GROUPS,
            DELETE_ORPHANED_ENTITIES,
        )
        self._execute(purge_repo.KEEP_POSITIONS, EMBED_NEIGHBOURS, DELETE_DOCUMENTS)
        rows += self._execute(DELETE_MESSAGES_IN_GROUPS)
        # No answer may be stored that was made of what has just been erased.
        self._execute(DELETE_BEGUN, RENUMBER)
        return rows + self._execute(*DELETE_OWN)

    def _execute(self, *statements: str) -> int:
        return sum(
            self._transaction.execute(statement, self._parameters) for statement in statements
        )

    def _erase_updates(self) -> int:
        """Delete the owner's updates with their jobs; redact those of others."""
        chats = self._transaction.fetch_all(SELECT_CHATS, self._parameters)
        self._parameters["chats"] = [chat for (chat,) in chats]
        rows = self._execute(DELETE_JOBS)
        own = self._transaction.fetch_all(DELETE_UPDATES, self._parameters)
        others = self._transaction.fetch_all(SELECT_PAYLOADS, self._parameters)
        payloads = [payload for payload, *_ in own] + [payload for _, payload, _ in others]
        names = {name for name in names_in(payloads, self._owner) if len(name) > 1}
        for update, payload, in_room in others:
            rows += self._clean(update, payload, names, in_room=in_room)
        return rows + len(own)

    def _clean(self, update: int, payload: Any, names: set[str], *, in_room: bool) -> int:
        left = without_person(payload, self._owner, names, in_room=in_room)
        if left == payload:
            return 0
        self._parameters["updates"].append(update)
        if left is None:
            return self._transaction.execute(UPDATE_EMPTIED, update=update)
        return self._transaction.execute(UPDATE_PAYLOAD, update=update, payload=json.dumps(left))

    def _erase_mentions(self) -> int:
        """Take the names by which the person is mentioned out of the messages of others."""
        found = self._transaction.fetch_all(SELECT_MENTIONING, self._parameters)
        names: set[str] = set()
        for id_, text, mentioned in found:
            called = {one["name"] for one in mentioned if one["id"] == self._owner}
            names |= called
            left = [one for one in mentioned if one["id"] != self._owner]
            mentions = json.dumps(left, ensure_ascii=False) if left else None
            content = _without_names(text, called)
            self._transaction.execute(
                UPDATE_MENTIONING, id=id_, content=content, mentions=mentions
            )
        self._parameters["mentioning"] = [id_ for id_, *_ in found]
        self._parameters["names"] = sorted(name for name in names if len(name) > 1)
        return len(found)


def _without_names(text: str, names: set[str]) -> str:
    """The text with a hole where one of the names stands, long ones first."""
    found = sorted((re.escape(name) for name in names if name), key=len, reverse=True)
    return re.sub("|".join(found), "…", text, flags=re.IGNORECASE) if found else text
