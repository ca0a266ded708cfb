"""Alembic environment; ``src/pg/migrations.py`` provides the connection.

All migrations run in one transaction, so that a failing one leaves the database unchanged.

Migrations 0201 to 0206 create in one step the schema that 0101 to 0125 built up, and more. A
database at 0125 gets what it lacks by ``CHANGE_TABLES``, and the views and comments, which are
read from 0201 to 0206 themselves. Later migrations run as on any other database.
"""

import re
from typing import Any

from alembic import context

ADOPTED = "0206"  # version of a database at 0125 after its adoption

# One table of changes that can be undone in place of two. A forgetting of before cannot be undone
# any more; what it hid is purged as always. The words of facts belong to the search text of their
# messages, and mere questions (one clause that ends in a question mark) are set apart.
CHANGE_TABLES = r"""
CREATE TABLE changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('saved', 'forgotten', 'merged', 'reminder')),
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    merged_id bigint REFERENCES memories ON DELETE CASCADE,
    asked_by bigint,
    before jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    CONSTRAINT changes_merged CHECK ((kind = 'merged') = (merged_id IS NOT NULL))
);
CREATE INDEX changes_by_owner ON changes (owner_id, id DESC);
CREATE INDEX changes_by_memory ON changes (memory_id);
CREATE INDEX changes_by_merged ON changes (merged_id);
CREATE INDEX changes_that_expire ON changes (made_at) WHERE kind IN ('forgotten', 'reminder');
CREATE INDEX memories_forgotten ON memories (retired_at) WHERE retired_reason = 'forgotten';
INSERT INTO changes (owner_id, kind, memory_id, asked_by, made_at, before)
SELECT new.owner_id, 'saved', new.id, new.speaker_id, max(old.retired_at),
       jsonb_build_object('facts', jsonb_agg(jsonb_build_object(
           'id', old.id, 'importance', old.importance, 'pinned', old.pinned,
           'valid_until', nullif(old.valid_until, (
               SELECT said_at FROM memory_sources
               WHERE memory_id = new.id ORDER BY id LIMIT 1)))))
FROM memories old JOIN memories new ON new.id = old.superseded_by
WHERE old.retired_reason = 'replaced'
GROUP BY new.id ORDER BY max(old.retired_at), new.id;
INSERT INTO changes (owner_id, kind, memory_id, merged_id, made_at, undone_at, before)
SELECT gone.owner_id, 'merged', kept.id, gone.id, c.done_at, c.undone_at, jsonb_build_object(
    'why', c.kind, 'sources', coalesce(c.details -> 'sources', '[]'),
    'facts', jsonb_build_array(
        jsonb_build_object(
            'id', gone.id, 'importance', gone.importance, 'pinned', gone.pinned,
            'valid_until', nullif(gone.valid_until, (c.details ->> 'until')::timestamptz)),
        jsonb_build_object(
            'id', kept.id, 'valid_until', kept.valid_until,
            'importance', coalesce((c.details ->> 'importance')::int, kept.importance),
            'pinned', coalesce((c.details ->> 'pinned')::boolean, kept.pinned))))
FROM consolidations c JOIN memories gone ON gone.id = c.memory_id
JOIN memories kept ON kept.id = c.kept_memory_id
ORDER BY c.id;
UPDATE changes SET before = before || '{"by": "user"}' FROM consolidations c
WHERE merged_id = c.memory_id AND changes.memory_id = c.kept_memory_id AND c.details ? 'by';
DROP TABLE forgettings, consolidations;
ALTER TABLE search_postings ADD told_by bigint REFERENCES search_documents ON DELETE CASCADE;
CREATE INDEX search_postings_told_by ON search_postings (told_by) WHERE told_by IS NOT NULL;
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id, told_by)
SELECT p.owner_id, p.term, d.position, p.frequency, d.length,
       d.speaker NOT IN ('user', 'assistant'), false, d.id, p.document_id
FROM memory_sources s
JOIN memories f ON f.id = s.memory_id
JOIN search_documents told ON told.memory_id = f.id
JOIN search_documents d ON d.message_id = s.message_id AND d.owner_id = told.owner_id
JOIN search_postings p ON p.document_id = told.id
WHERE d.speaker <> 'assistant'
  AND coalesce(f.retired_reason, '') NOT IN ('undone', 'edited', 'forgotten')
ORDER BY p.document_id
ON CONFLICT DO NOTHING;
ALTER TABLE search_documents ADD asks boolean NOT NULL DEFAULT false;
UPDATE search_documents d SET asks = true FROM messages m
WHERE m.id = d.message_id AND d.speaker = 'user'
  AND message_text(m.content) ~ '^[^.!?,;:(\n]{1,80}[?]+\s*$';
UPDATE search_postings p SET is_answer = true FROM search_documents d
WHERE d.id = p.document_id AND d.asks AND p.told_by IS NULL;
DELETE FROM document_embeddings e USING search_documents d WHERE d.id = e.document_id AND d.asks;
"""

# Set the database's version.
STAMP = "UPDATE alembic_version SET version_num = %(version)s"

# Statements in a migration that start and end with a line.
VIEW = re.compile(r"^CREATE VIEW (.+?;)$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^COMMENT ON .+?';$", re.MULTILINE | re.DOTALL)


def adopt(cursor: Any) -> None:
    """Migrate a database at 0125 to ``ADOPTED``."""
    cursor.execute(CHANGE_TABLES)
    for revision in reversed(list(context.script.iterate_revisions(ADOPTED, "base"))):
        parts = vars(revision.module).items()
        text = "\n".join(part for name, part in parts if name.isupper() and isinstance(part, str))
        views = [f"CREATE OR REPLACE VIEW {view}" for view in VIEW.findall(text)]
        cursor.execute("\n".join([*views, *COMMENT.findall(text)]))
    cursor.execute(STAMP, {"version": ADOPTED})


connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    if context.config.attributes["is_old"]:
        adopt(connection.connection.cursor())
    context.run_migrations()
