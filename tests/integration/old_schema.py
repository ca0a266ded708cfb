"""A database as the last of the old migrations, 0125, had left it."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.conftest import execute

# What pg_dump wrote of a database that the old migrations had made (--inserts, and without the
# commands of psql).
OLD_SCHEMA = Path(__file__).with_name("schema_0125.sql.gz")

# Somebody's words, and what was made of them, in tables that have changed since then: a home that
# was replaced, a duplicate that was merged, and a pair that the user keeps apart.
ROWS = """
INSERT INTO owners (telegram_user_id) VALUES (5);
INSERT INTO conversations (telegram_user_id, owner_id) SELECT 5, id FROM owners;
INSERT INTO messages (conversation_id, role, content, position, sender_id)
SELECT c.id, 'user', '[Текущее время: 2026-11-24 10:00] ' || said, n, 5
FROM conversations c,
     unnest(ARRAY['У меня кот Барсик', 'Как зовут кота?']) WITH ORDINALITY AS t (said, n);
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance, origin,
                      content_hash)
SELECT id, 'user_fact', fact, 'user', 'other', fact, 5, 'tool', fact
FROM owners, unnest(ARRAY['Омск', 'Тула', 'чай', 'чай!', 'кот Барсик']) AS fact;
INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)
SELECT f.id, CASE f.text WHEN 'кот Барсик' THEN m.id END,
       'msg-' || f.id, 'teach_msg-' || f.id, f.text, '2026-11-01'
FROM memories f, messages m WHERE m.position = 1;
UPDATE memories SET retired_at = now(), retired_reason = 'replaced', valid_until = '2026-11-01',
       superseded_by = (SELECT id FROM memories WHERE text = 'Тула') WHERE text = 'Омск';
UPDATE memories SET retired_at = now(), retired_reason = 'duplicate',
       superseded_by = (SELECT id FROM memories WHERE text = 'чай') WHERE text = 'чай!';
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details)
SELECT 'duplicate', gone.id, kept.id, '{"importance": 3, "pinned": false, "sources": []}'
FROM memories gone, memories kept WHERE gone.text = 'чай!' AND kept.text = 'чай';
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details, undone_at)
SELECT 'contradiction', gone.id, kept.id, '{"by": "user"}', now()
FROM memories gone, memories kept WHERE gone.text = 'чай' AND kept.text = 'Тула';
INSERT INTO forgettings (owner_id, kept) SELECT id, '{"texts": ["x"]}' FROM owners;
INSERT INTO search_documents (owner_id, position, kind, message_id, speaker, said_at, length)
SELECT o.id, 4 * m.position, 'message', m.id, 'user', now(), 3 FROM owners o, messages m;
INSERT INTO search_documents (owner_id, position, kind, memory_id, speaker, said_at, length)
SELECT o.id, 12, 'memory', f.id, 'user', now(), 2
FROM owners o, memories f WHERE f.text = 'кот Барсик';
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, document_id)
SELECT d.owner_id, term, d.position, 1, d.length, false, d.id
FROM search_documents d, unnest(CASE d.position WHEN 4 THEN ARRAY['барс'] WHEN 8 THEN ARRAY['кота']
                                ELSE ARRAY['кот', 'барс'] END) AS term;
UPDATE global_settings SET history_step = 7;
"""
# The same rows as the views and tables show them afterwards.
SEEN = {
    "SELECT telegram_user_id, who, what FROM chat ORDER BY message_id": [
        (5, "user", "У меня кот Барсик"),
        (5, "user", "Как зовут кота?"),
    ],
    "SELECT text FROM facts WHERE holds ORDER BY id": [("Тула",), ("чай",), ("кот Барсик",)],
    "SELECT kind, before ->> 'by', undone_at IS NULL FROM changes ORDER BY id": [
        ("saved", None, True),
        ("merged", None, True),
        ("merged", "user", False),
    ],
    "SELECT position, asks FROM search_documents ORDER BY position": [
        (4, False),
        (8, True),
        (12, False),
    ],
    "SELECT position, term, told_by IS NOT NULL, is_answer FROM search_postings"
    " ORDER BY position, term": [
        (4, "барс", False, False),
        (4, "кот", True, False),
        (8, "кота", False, True),
        (12, "барс", False, False),
        (12, "кот", False, False),
    ],
    "SELECT history_step, history_messages FROM global_settings": [(7, 30)],
    "SELECT setting, new_value FROM global_settings_changes": [("history_step", "7")],
}


def build_old_database(dsn: str) -> None:
    """Fill an empty database with the old schema, and with some rows."""
    dumped = gzip.decompress(OLD_SCHEMA.read_bytes()).decode()
    execute(dsn, dumped)
    execute(dsn, ROWS)
