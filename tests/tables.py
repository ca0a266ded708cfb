"""Database content for assertions: an owner's rows, and columns that contain a word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from src.base.owners import Owner
from tests.conftest import execute, query

# Conditions that select an owner's rows, by table.
_OWNERS = "telegram_user_id = %(owner)s AND thread_id = %(thread)s"
_OWN = f"owner_id IN (SELECT id FROM owners WHERE {_OWNERS})"
_OF_CHAT = _OWN.replace("%(thread)s", "0")
_CONVERSATIONS = f"conversation_id IN (SELECT id FROM conversations WHERE {_OWN})"
_MEMORIES = f"memory_id IN (SELECT id FROM memories WHERE {_OWN})"
_MESSAGES = f"message_id IN (SELECT id FROM messages WHERE {_CONVERSATIONS})"
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
    "changes": _OWN,
    "memory_tokens": _OWN,
    "page_sessions": _OWN,
    "imports": _OWN,
    "import_rows": f"import_id IN (SELECT id FROM imports WHERE {_OWN})",
    "parting_messages": _OWN,
    "search_owners": _OWN,
    "search_documents": _OWN,
    "search_postings": _OWN,
    "document_embeddings": _OWN,
    "telegram_updates": "chat_id = %(owner)s AND thread_id = %(thread)s",
    "job_deaths": (
        "job_id IN (SELECT j.id FROM procrastinate_jobs j"
        " JOIN telegram_updates u ON u.id = (j.args ->> 'update')::bigint"
        " WHERE u.chat_id = %(owner)s AND u.thread_id = %(thread)s)"
    ),
    "batch_requests": _CONVERSATIONS,
    "model_usage": _OWN,
    "failures": _OWN,
    "daily_messages": _OF_CHAT,
    "user_settings": _OF_CHAT,
}
# Tables that the topics of a group share.
OF_ALL_TOPICS = frozenset({"daily_messages", "user_settings"})
# Tables without data of an owner.
NOBODYS = frozenset(
    {
        "alembic_version",
        "embedding_models",
        "global_settings",
        "global_settings_changes",
        "chat_moves",
        "batch_jobs",
        "admin_actions",
        "admin_logouts",
        "model_prices",
        "model_usage_days",
        "growth_days",
    }
)

# The record that a process leaves when it died while handling an owner's newest update.
DEATH = """
WITH job AS (
    INSERT INTO procrastinate_jobs (queue_name, task_name, status, args)
    SELECT 'people', 'handle_update', 'failed', jsonb_build_object('update', max(id))
    FROM telegram_updates WHERE chat_id = %s AND thread_id = %s HAVING max(id) IS NOT NULL
    RETURNING id
)
INSERT INTO job_deaths (job_id, deaths, put_aside_at) SELECT id, 3, now() FROM job
"""

# A running batch job with one request of an owner.
BATCH = """
WITH job AS (
    INSERT INTO batch_jobs (provider, model, requests) VALUES ('openai', 'm', 1) RETURNING id
)
INSERT INTO batch_requests (id, job_id, conversation_id, first_position, last_position)
SELECT gen_random_uuid(), job.id, c.id, 1, 2 FROM job, conversations c
WHERE c.telegram_user_id = %s AND c.thread_id = %s RETURNING id
"""

# An open question, on the answer to a message (by default the newest), about the newest fact.
QUESTION = """
UPDATE messages a SET asks = 'conflict', question = jsonb_build_array(jsonb_build_object(
    'fact', jsonb_build_object('text', f.text), 'message', m.id,
    'denies', jsonb_build_array(f.id)))
FROM messages m JOIN conversations c ON c.id = m.conversation_id, memories f
WHERE a.reply_to_id = m.id AND a.role = 'assistant'
  AND c.telegram_user_id = %s AND c.thread_id = %s AND f.owner_id = c.owner_id
  AND m.id = coalesce(%s, (SELECT max(reply_to_id) FROM messages
                           WHERE conversation_id = c.id AND role = 'assistant'))
  AND f.id = (SELECT max(id) FROM memories WHERE owner_id = c.owner_id) RETURNING a.id
"""

# A failure of the model during a turn of an owner.
FAILED = """
INSERT INTO failures (failed_at, part, event, reason, owner_id)
VALUES (now(), 'model', 'will try again', 'the model is unavailable', add_owner(%s, %s))
RETURNING id
"""

# One message of an owner today.
DAY = """
INSERT INTO daily_messages (day, owner_id, messages) VALUES (current_date, add_owner(%s, 0), 1)
ON CONFLICT DO NOTHING RETURNING day
"""

# The newest fact of an owner was consolidated as a duplicate of the oldest.
NIGHT = """
INSERT INTO changes (owner_id, kind, memory_id, merged_id, before)
SELECT min(owner_id), 'merged', min(id), max(id), '{"why": "duplicate", "sources": []}'
FROM memories WHERE owner_id = add_owner(%s, %s) HAVING max(id) IS NOT NULL RETURNING id
"""


# All tables.
TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
# All columns of all tables in all schemas except the server's own. The views of
# information_schema take fifty times as long.
COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, NULL)
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


def count_death(dsn: str, owner: Owner) -> None:
    """Record a failure and a process death during the owner's newest update."""
    query(dsn, FAILED, owner.telegram_user_id, owner.thread_id)
    query(dsn, DEATH, owner.telegram_user_id, owner.thread_id)


def send_batch(dsn: str, owner: Owner) -> None:
    """Record a pending batch of the owner, a nightly consolidation, and one message today."""
    query(dsn, BATCH, owner.telegram_user_id, owner.thread_id)
    query(dsn, NIGHT, owner.telegram_user_id, owner.thread_id)
    query(dsn, DAY, owner.telegram_user_id)


def open_question(dsn: str, owner: Owner, message: int | None = None) -> None:
    """Record an open question about a message (by default the newest) and the newest fact."""
    assert query(dsn, QUESTION, owner.telegram_user_id, owner.thread_id, message)


def tables(dsn: str) -> set[str]:
    """Return all tables of the schema ``public``."""
    return {name for (name,) in query(dsn, TABLES)}


def select_rows(owner: Owner, *, without: Iterable[str] = ()) -> str:
    """Return a statement that selects what ``rows_of`` returns."""
    left_out = frozenset(without)
    parts = [
        f"SELECT '{table}', to_jsonb(t)::text FROM {table} t WHERE {condition}"
        for table, condition in ROWS_OF_OWNER.items()
        if table not in left_out
    ]
    sql = " UNION ALL ".join(parts) + " ORDER BY 1, 2"
    chat, thread = owner.row
    return sql.replace("%(owner)s", str(chat)).replace("%(thread)s", str(thread))


def rows_of(dsn: str, owner: Owner, *, without: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return (table, row) of all rows of an owner, except in the tables ``without``."""
    return query(dsn, select_rows(owner, without=without))


def dump(dsn: str, *names: str, without: Iterable[str] = ("updated_at",)) -> list[tuple[str, str]]:
    """Return (table, row) of all rows of these tables, except the columns ``without``."""
    columns = "".join(f" - '{column}'" for column in without)
    parts = [f"SELECT '{name}', (to_jsonb(t){columns})::text FROM {name} t" for name in names]
    return query(dsn, " UNION ALL ".join(parts) + " ORDER BY 1, 2")


def columns_that_hold(dsn: str, *words: str) -> set[str]:
    """Return ``table.column`` of every column that contains one of the words, ignoring case.

    All columns are cast to text, including JSON, arrays, numbers and bytes. Timestamps and
    ``embedding_models.means`` are skipped, since their digits can match any number.
    """
    parts = []
    for schema, table, column, kind in query(dsn, COLUMNS):
        if column == "means" or kind.startswith("timestamp"):
            continue
        name = table if schema == "public" else f"{schema}.{table}"
        text = f"encode(\"{column}\", 'escape')" if kind == "bytea" else f'"{column}"::text'
        parts.append(
            f'SELECT \'{name}.{column}\' WHERE EXISTS (SELECT 1 FROM "{schema}"."{table}"'
            f" WHERE {text} ILIKE ANY (ARRAY(SELECT word FROM wanted)))"
        )
    sql = "WITH wanted AS (SELECT unnest(%s) AS word) " + " UNION ALL ".join(parts)
    return {name for (name,) in query(dsn, sql, [f"%{word}%" for word in words])}


def lend(dsn: str, owner: Owner, word: str = "x") -> None:
    """Store a connection of another assistant, called ``word``, and a link to the owner's page."""
    values = (owner.telegram_user_id, owner.thread_id)
    query(
        dsn,
        "INSERT INTO memory_tokens (owner_id, name, token_hash)"
        " VALUES (add_owner(%s, %s), %s, gen_random_uuid()::text::bytea)",
        *values,
        word,
    )
    query(
        dsn,
        "INSERT INTO page_sessions (owner_id, link_hash, ends_at) VALUES"
        " (add_owner(%s, %s), gen_random_uuid()::text::bytea, now() + interval '10 minutes')",
        *values,
    )


# An import of the owner that waits for a choice, with one message.
BROUGHT = """
WITH brought AS (
    INSERT INTO imports (owner_id, source, name) VALUES (add_owner(%s, %s), 'list', 'x')
    RETURNING id
)
INSERT INTO import_rows (import_id, number, kind, source, conversation, title, source_id, said_at,
                         text)
SELECT id, 0, 'message', 'list', '', '', '', now(), %s FROM brought RETURNING import_id
"""


def bring(dsn: str, owner: Owner, word: str = "x") -> None:
    """Store an import of the owner with a message of this word, which waits for a choice."""
    query(dsn, BROUGHT, owner.telegram_user_id, owner.thread_id, word)


# Delete all rows except those that a start of the bot creates, without checking foreign keys.
# Large tables are truncated, since deleted rows occupy their space until a vacuum.
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
          AND relname NOT IN ('alembic_version', 'embedding_models')
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
    """Reset the database to its state after the bot's first start."""
    execute(dsn, EMPTY)


def nodes_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a node of a query plan and all its descendants."""
    return [plan, *(node for below in plan.get("Plans", []) for node in nodes_of(below))]
