"""The database as text: every row of an owner, and every column in which a word stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from src.base.owners import Owner
from tests.conftest import execute, query

# Which rows of a table are an owner's.
_OWNERS = "telegram_user_id = %(owner)s AND thread_id = %(thread)s"
_OWN = f"owner_id IN (SELECT id FROM owners WHERE {_OWNERS})"
_OF_CHAT = _OWN.replace("%(thread)s", "0")
_CONVERSATIONS = f"conversation_id IN (SELECT id FROM conversations WHERE {_OWN})"
_MEMORIES = f"memory_id IN (SELECT id FROM memories WHERE {_OWN})"
_MESSAGES = f"message_id IN (SELECT id FROM messages WHERE {_CONVERSATIONS})"
_QUESTIONS = f"thread_id IN (SELECT q.thread_id FROM open_questions q WHERE {_MESSAGES})"
ROWS_OF_OWNER = {
    "owners": _OWNERS,
    "conversations": _OWN,
    "messages": _CONVERSATIONS,
    "unindexed_messages": _CONVERSATIONS,
    "tool_results": _CONVERSATIONS,
    "conversation_summaries": _CONVERSATIONS,
    "answer_sources": f"answer_id IN (SELECT id FROM messages WHERE {_CONVERSATIONS})",
    "memories": _OWN,
    "memory_sources": _MEMORIES,
    "memory_entities": _MEMORIES,
    "entities": _OWN,
    "rejected_facts": _OWN,
    "reminders": _OWN,
    "consolidations": _MEMORIES,
    "forgettings": _OWN,
    "parting_messages": _OWN,
    "search_owners": _OWN,
    "search_documents": _OWN,
    "search_postings": _OWN,
    "document_embeddings": _OWN,
    "embedding_failures": f"document_id IN (SELECT id FROM search_documents WHERE {_OWN})",
    "open_questions": _MESSAGES,
    "question_facts": _MESSAGES,
    "checkpoints": _QUESTIONS,
    "checkpoint_blobs": _QUESTIONS,
    "checkpoint_writes": _QUESTIONS,
    "telegram_updates": "chat_id = %(owner)s AND thread_id = %(thread)s",
    "job_deaths": (
        "update_id IN (SELECT id FROM telegram_updates"
        " WHERE chat_id = %(owner)s AND thread_id = %(thread)s)"
        f" OR {_CONVERSATIONS}"
    ),
    "batch_requests": _CONVERSATIONS,
    "model_usage": _OWN,
    "failures": _OWN,
    "daily_messages": _OF_CHAT,
    "user_settings": _OF_CHAT,
}
# What only a turn that asks fills.
OF_QUESTIONS = frozenset(
    {"open_questions", "question_facts", "checkpoints", "checkpoint_blobs", "checkpoint_writes"}
)
# What the topics of a group have in common.
OF_ALL_TOPICS = frozenset({"daily_messages", "user_settings"})
# Tables that hold nothing of anybody's.
NOBODYS = frozenset(
    {
        "alembic_version",
        "embedding_models",
        "embedding_means",
        "global_settings",
        "global_settings_changes",
        "chat_moves",
        "batch_jobs",
        "admin_actions",
        "admin_logouts",
        "model_prices",
        "cached_contents",
        "model_usage_days",
        "growth_days",
        "checkpoint_migrations",
    }
)

# What a process that died leaves of an owner's newest update, whatever was to be done with it.
DEATH = """
INSERT INTO job_deaths (work, task, queue, update_id)
SELECT 'job of update ' || max(id), 'handle_update', 'turns', max(id)
FROM telegram_updates WHERE chat_id = %s AND thread_id = %s HAVING max(id) IS NOT NULL
"""

BATCH = """
WITH job AS (
    INSERT INTO batch_jobs (provider, model, requests) VALUES ('openai', 'm', 1) RETURNING id
)
INSERT INTO batch_requests (id, job_id, conversation_id, first_position, last_position)
SELECT gen_random_uuid(), job.id, c.id, 1, 2 FROM job, conversations c
WHERE c.telegram_user_id = %s AND c.thread_id = %s RETURNING id
"""

# A question that waits for an answer: of a message, else of the newest.
QUESTION = """
INSERT INTO open_questions (thread_id, message_id, language)
SELECT c.id || ':' || max(m.id), max(m.id), 'ru'
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %s AND c.thread_id = %s AND m.role = 'user'
  AND m.id = coalesce(%s, m.id)
GROUP BY c.id RETURNING thread_id
"""
PAUSE = """
WITH asked AS (
    INSERT INTO question_facts (thread_id, message_id, memory_id)
    SELECT q.thread_id, q.message_id, f.id
    FROM open_questions q, memories f WHERE q.thread_id = %s AND f.owner_id = add_owner(%s, %s)
    ORDER BY f.id DESC LIMIT 1 RETURNING thread_id, memory_id
), point AS (
    INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint)
    SELECT thread_id, '1', '{}' FROM asked
), blob AS (
    INSERT INTO checkpoint_blobs (thread_id, channel, version, type, blob)
    SELECT asked.thread_id, 'conflicts', '1', 'msgpack', convert_to(f.text, 'UTF8')
    FROM asked JOIN memories f ON f.id = asked.memory_id
)
INSERT INTO checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, blob)
SELECT asked.thread_id, '1', '1', 0, '__interrupt__', convert_to(f.text, 'UTF8')
FROM asked JOIN memories f ON f.id = asked.memory_id RETURNING thread_id
"""

FAILED = """
INSERT INTO failures (failed_at, part, event, reason, owner_id)
VALUES (now(), 'model', 'will try again', 'the model is unavailable', add_owner(%s, %s))
RETURNING id
"""

DAY = """
INSERT INTO daily_messages (day, owner_id, messages) VALUES (current_date, add_owner(%s, 0), 1)
ON CONFLICT DO NOTHING RETURNING day
"""

NIGHT = """
INSERT INTO consolidations (kind, memory_id, kept_memory_id)
SELECT 'duplicate', max(id), min(id) FROM memories
WHERE owner_id = add_owner(%s, %s) HAVING max(id) IS NOT NULL RETURNING id
"""

FAILURE = """
INSERT INTO embedding_failures (document_id, model_id, failures, retry_at)
SELECT max(d.id), max(m.id), 1, 'infinity' FROM search_documents d, embedding_models m
WHERE d.owner_id = add_owner(%s, %s) HAVING max(d.id) IS NOT NULL
"""

PARTING = """
INSERT INTO parting_messages (message_id, owner_id, position, content, said_at)
SELECT m.id, c.owner_id, m.position, m.content, m.created_at
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %s AND c.thread_id = %s AND m.role = 'user'
ORDER BY m.id DESC LIMIT 1
"""

TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
# Every column of every table that is not the server's own, in whatever schema; to ask the views of
# information_schema takes fifty times as long.
COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, NULL)
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


def count_death(dsn: str, owner: Owner) -> None:
    """A process died over the owner's newest update, after a failure."""
    query(dsn, FAILED, owner.telegram_user_id, owner.thread_id)
    query(dsn, DEATH, owner.telegram_user_id, owner.thread_id)


def send_batch(dsn: str, owner: Owner) -> None:
    """A batch waits for what the owner said; he wrote once today, and was looked through."""
    query(dsn, BATCH, owner.telegram_user_id, owner.thread_id)
    query(dsn, NIGHT, owner.telegram_user_id, owner.thread_id)
    query(dsn, DAY, owner.telegram_user_id)


def open_question(dsn: str, owner: Owner, message: int | None = None) -> None:
    """The bot asked about a message, else the owner's newest, and his newest fact; it waits."""
    [(thread,)] = query(dsn, QUESTION, owner.telegram_user_id, owner.thread_id, message)
    assert query(dsn, PAUSE, thread, owner.telegram_user_id, owner.thread_id)


def fail_embedding(dsn: str, owner: Owner) -> None:
    """The embedding model did not take the owner's newest document."""
    query(dsn, FAILURE, owner.telegram_user_id, owner.thread_id)


def part(dsn: str, owner: Owner) -> None:
    """The owner's newest message, as /new leaves it that nobody has read for facts."""
    query(dsn, PARTING, owner.telegram_user_id, owner.thread_id)


def tables(dsn: str) -> set[str]:
    """Every table of the schema."""
    return {name for (name,) in query(dsn, TABLES)}


def rows_of(dsn: str, owner: Owner, *, without: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Table and row of everything that is an owner's, but for the tables ``without``."""
    left_out = frozenset(without)
    parts = [
        f"SELECT '{table}', to_jsonb(t)::text FROM {table} t WHERE {condition}"
        for table, condition in ROWS_OF_OWNER.items()
        if table not in left_out
    ]
    sql = " UNION ALL ".join(parts) + " ORDER BY 1, 2"
    chat, thread = owner.row
    return query(dsn, sql.replace("%(owner)s", str(chat)).replace("%(thread)s", str(thread)))


def dump(dsn: str, *names: str, without: Iterable[str] = ("updated_at",)) -> list[tuple[str, str]]:
    """Table and row of everything in these tables, but for the columns ``without``."""
    columns = "".join(f" - '{column}'" for column in without)
    parts = [f"SELECT '{name}', (to_jsonb(t){columns})::text FROM {name} t" for name in names]
    return query(dsn, " UNION ALL ".join(parts) + " ORDER BY 1, 2")


def columns_that_hold(dsn: str, *words: str) -> set[str]:
    """``table.column`` of every column in which one of the words stands, in any case.

    All columns of all tables are cast to text, so also JSON, arrays, numbers and bytes; but for
    times, and what an embedding model is known by, whose digits may hold any number.
    """
    parts = []
    for schema, table, column, kind in query(dsn, COLUMNS):
        if table == "embedding_means" or kind.startswith("timestamp"):
            continue
        name = table if schema == "public" else f"{schema}.{table}"
        text = f"encode(\"{column}\", 'escape')" if kind == "bytea" else f'"{column}"::text'
        parts.append(
            f'SELECT \'{name}.{column}\' WHERE EXISTS (SELECT 1 FROM "{schema}"."{table}"'
            f" WHERE {text} ILIKE ANY (ARRAY(SELECT word FROM wanted)))"
        )
    sql = "WITH wanted AS (SELECT unnest(%s) AS word) " + " UNION ALL ".join(parts)
    return {name for (name,) in query(dsn, sql, [f"%{word}%" for word in words])}


def remind(dsn: str, owner: Owner) -> None:
    """Let the owner be reminded of something, in a year."""
    query(
        dsn,
        "INSERT INTO reminders (owner_id, text, due_at, time_zone, language)"
        " VALUES (add_owner(%s, %s), 'x', date_trunc('second', now()) + interval '1 year',"
        " 'UTC', 'ru')",
        owner.telegram_user_id,
        owner.thread_id,
    )


# Every row of every table of ours but what a start of the bot makes, without asking foreign keys.
# What has grown is truncated, since rows that are deleted take their space until a vacuum.
EMPTY = """
DO $$
DECLARE
    grown text[] := '{}';
    entry record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR entry IN
        SELECT oid::regclass::text AS name, pg_relation_size(oid) AS size FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
          AND relname NOT IN ('alembic_version', 'embedding_models', 'embedding_means',
                              'checkpoint_migrations')
    LOOP
        IF entry.size > 100000 THEN
            grown := grown || entry.name;
        ELSIF entry.size > 0 THEN
            EXECUTE 'DELETE FROM ' || entry.name;
        END IF;
    END LOOP;
    IF cardinality(grown) > 0 THEN
        EXECUTE 'TRUNCATE ' || array_to_string(grown, ', ') || ' CASCADE';
    END IF;
    INSERT INTO global_settings DEFAULT VALUES;
END $$
"""


def empty_database(dsn: str) -> None:
    """Forget everybody and everything, as if the bot had just started for the first time."""
    execute(dsn, EMPTY)


def nodes_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A node of a query plan and those under it."""
    return [plan, *(node for below in plan.get("Plans", []) for node in nodes_of(below))]
