"""The database as text: every row of an owner, and every column in which a word stands."""

from __future__ import annotations

from collections.abc import Iterable

from src.storage.owner import Owner
from tests.conftest import query

# Which rows of a table are an owner's.
_OWN = "telegram_user_id = %(owner)s AND thread_id = %(thread)s"
_CONVERSATIONS = f"conversation_id IN (SELECT id FROM conversations WHERE {_OWN})"
_MEMORIES = f"memory_id IN (SELECT id FROM memories WHERE {_OWN})"
ROWS_OF_OWNER = {
    "conversations": _OWN,
    "messages": _CONVERSATIONS,
    "tool_results": _CONVERSATIONS,
    "conversation_summaries": _CONVERSATIONS,
    "answer_sources": f"answer_id IN (SELECT id FROM messages WHERE {_CONVERSATIONS})",
    "memories": _OWN,
    "memory_sources": _MEMORIES,
    "memory_entities": _MEMORIES,
    "entities": _OWN,
    "rejected_facts": _OWN,
    "forgettings": _OWN,
    "search_owners": _OWN,
    "search_documents": _OWN,
    "search_postings": _OWN,
    "document_embeddings": _OWN,
    "telegram_updates": "chat_id = %(owner)s AND thread_id = %(thread)s",
    "model_usage": "telegram_user_id = %(owner)s",
    "user_settings": "telegram_user_id = %(owner)s",
}
# What the topics of a group have in common.
OF_ALL_TOPICS = frozenset({"model_usage", "user_settings"})
# Tables that hold nothing of anybody's.
NOBODYS = frozenset({"alembic_version", "embedding_models", "embedding_means", "global_settings"})

TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""


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
    sql = sql.replace("%(owner)s", str(int(owner.telegram_user_id)))
    return query(dsn, sql.replace("%(thread)s", str(int(owner.thread_id))))


def dump(dsn: str, *names: str, without: Iterable[str] = ("updated_at",)) -> list[tuple[str, str]]:
    """Table and row of everything in these tables, but for the columns ``without``."""
    columns = "".join(f" - '{column}'" for column in without)
    parts = [f"SELECT '{name}', (to_jsonb(t){columns})::text FROM {name} t" for name in names]
    return query(dsn, " UNION ALL ".join(parts) + " ORDER BY 1, 2")


def columns_that_hold(dsn: str, *words: str) -> set[str]:
    """``table.column`` of every column in which one of the words stands, in any case.

    All columns of all tables are cast to text, so also JSON, arrays and numbers.
    """
    parts = [
        f"SELECT '{table}.{column}' WHERE EXISTS (SELECT 1 FROM \"{table}\""
        f' WHERE "{column}"::text ILIKE ANY (ARRAY(SELECT word FROM wanted)))'
        for table, column in query(dsn, COLUMNS)
    ]
    sql = "WITH wanted AS (SELECT unnest(%s) AS word) " + " UNION ALL ".join(parts)
    return {name for (name,) in query(dsn, sql, [f"%{word}%" for word in words])}
