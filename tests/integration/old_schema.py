"""A database as the last of the old migrations, 0031, had left it."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.conftest import execute

# What pg_dump wrote of a database that the old migrations had made (--inserts, and without the
# commands of psql).
OLD_SCHEMA = Path(__file__).with_name("schema_0031.sql.gz")

# Somebody's words, and what was made of them, in tables that have changed since then.
ROWS = """
INSERT INTO conversations (telegram_user_id) VALUES (5);
INSERT INTO messages (conversation_id, role, content, position)
SELECT id, 'user', '[Текущее время: 2026-11-24 10:00] У меня кот Барсик', 1 FROM conversations;
INSERT INTO messages (conversation_id, role, content, reply_to_id, position)
SELECT conversation_id, 'assistant', 'Запомнил', id, 2 FROM messages;
INSERT INTO memories (telegram_user_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash, recalls, recalled_at)
VALUES (5, 'user_fact', 'Кота зовут Барсик', 'cat', 'name', 'Барсик', 7, 'tool', 'x', 3, now());
INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)
SELECT f.id, m.id, 'msg-' || m.id, 'teach_msg-' || m.id, 'кот Барсик', m.said_at
FROM memories f, messages m WHERE m.role = 'user';
INSERT INTO entities (telegram_user_id, name, normalised_name, entity_type)
VALUES (5, 'Барсик', 'барсик', 'object');
INSERT INTO memory_entities SELECT f.id, e.id FROM memories f, entities e;
INSERT INTO batch_jobs (provider, model, requests) VALUES ('openai', 'm', 1);
INSERT INTO job_deaths (work, task, queue) VALUES ('prune', 'prune', 'memory');
INSERT INTO job_deaths (work, task, queue, message_id, deaths, put_aside_at)
SELECT 'message ' || id, 'index_messages', 'memory', id, 3, now() FROM messages;
UPDATE messages SET indexed_at = now();
UPDATE global_settings SET history_step = 7;
"""
# The same rows as the views and tables show them afterwards.
SEEN = {
    "SELECT telegram_user_id, who, what, mode, tools FROM chat ORDER BY message_id": [
        (5, "user", "У меня кот Барсик", None, None),
        (5, "bot", "Запомнил", None, None),
    ],
    "SELECT telegram_user_id, text, uid LIKE 'msg-%', quote, holds FROM facts": [
        (5, "Кота зовут Барсик", True, "кот Барсик", True)
    ],
    "SELECT name, recalls FROM entities e JOIN memory_entities ON entity_id = e.id"
    " JOIN memories f ON f.id = memory_id": [("Барсик", 3)],
    "SELECT provider, status FROM batch_jobs": [("openai", "intended")],
    "SELECT deaths FROM job_deaths": [],
    "SELECT count(*) FROM unindexed_messages": [(2,)],
    "SELECT history_step, history_messages FROM global_settings": [(7, 30)],
    "SELECT setting, new_value FROM global_settings_changes": [("history_step", "7")],
}


def build_old_database(dsn: str) -> None:
    """Fill an empty database with the old schema, and with some rows."""
    dumped = gzip.decompress(OLD_SCHEMA.read_bytes()).decode()
    execute(dsn, dumped)
    execute(dsn, ROWS)
