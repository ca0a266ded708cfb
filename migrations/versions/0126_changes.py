"""One table of changes that can be undone replaces ``forgettings`` and ``consolidations``.

A forgotten fact stays in ``memories`` for ten minutes, hidden by ``retired_reason = 'forgotten'``;
undoing a forgetting of before is not possible any more, and its hidden messages are purged as
always. Merges of names lapse: their links stay.
"""

from alembic import op

revision = "0126"
down_revision = "0125"

CHANGES = """
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
COMMENT ON TABLE changes IS
    'Changes that can be undone; those of facts that were forgotten and of reminders for ten '
    'minutes, then they are deleted.';
COMMENT ON COLUMN changes.id IS 'Its number.';
COMMENT ON COLUMN changes.owner_id IS 'owners.id.';
COMMENT ON COLUMN changes.kind IS
    'saved (memory_id was stored, and may have replaced facts), forgotten, merged (merged_id was '
    'retired at night in favour of memory_id), reminder (cancelled or moved).';
COMMENT ON COLUMN changes.memory_id IS 'The new or kept fact.';
COMMENT ON COLUMN changes.merged_id IS 'The duplicate or contradicted fact of a merge.';
COMMENT ON COLUMN changes.asked_by IS 'In a group: the member who made it, and may undo it.';
COMMENT ON COLUMN changes.before IS
    'Columns as they were: facts (without texts), reminders; of a forgetting also messages, '
    'quotes and whole facts from which words were cut, and texts, what the reply named.';
COMMENT ON COLUMN changes.made_at IS 'When it was made.';
COMMENT ON COLUMN changes.undone_at IS
    'Of a merge: when it was undone; these two facts are not merged again.';
COMMENT ON COLUMN memories.retired_reason IS
    'replaced, outdated, contradicted, duplicate, edited, undone, limit (too many facts), or '
    'forgotten: hidden from everything but an undo, and deleted ten minutes later.';
COMMENT ON COLUMN facts.retired_reason IS
    'replaced, outdated, contradicted, duplicate, edited, undone, or limit (too many facts).';
"""

FACTS = """
CREATE OR REPLACE VIEW facts AS
SELECT f.id, o.telegram_user_id, o.thread_id, f.speaker_id, f.speaker, f.text, f.memory_type,
       f.subject, f.relation, f.object, f.importance, f.pinned, f.valid_from, f.valid_until,
       f.retired_at IS NULL AND coalesce(f.valid_until > now(), true) AS holds,
       f.retired_at, f.retired_reason, f.superseded_by, successor.text AS replaced_by,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote, f.origin, f.created_at, f.content_hash, f.owner_id,
       coalesce(f.confidence, 1) AS confidence
FROM memories f
LEFT JOIN owners o ON o.id = f.owner_id  -- not asked where nobody reads its columns
LEFT JOIN memories successor ON successor.id = f.superseded_by{successors}
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true
{facts};
CREATE OR REPLACE VIEW private_facts AS
SELECT id, private_text FROM memories f WHERE private_text IS NOT NULL{private};
"""
NOT_FORGOTTEN = "{} {}.retired_reason IS DISTINCT FROM 'forgotten'"
HIDING = {
    "successors": NOT_FORGOTTEN.format(" AND", "successor"),
    "facts": NOT_FORGOTTEN.format("WHERE", "f"),
    "private": NOT_FORGOTTEN.format(" AND", "f"),
}

# A fact that was replaced had no end before it, unless it had one of its own.
CONVERT = """
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
"""

AS_BEFORE = """
CREATE TABLE consolidations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('duplicate', 'contradiction', 'entity')),
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    kept_memory_id bigint REFERENCES memories ON DELETE CASCADE,
    entity_id bigint REFERENCES entities ON DELETE CASCADE,
    kept_entity_id bigint REFERENCES entities ON DELETE CASCADE,
    details jsonb NOT NULL DEFAULT '{}',
    done_at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    CHECK (num_nulls(memory_id, kept_memory_id) = CASE kind WHEN 'entity' THEN 2 ELSE 0 END),
    CHECK (num_nulls(entity_id, kept_entity_id) = CASE kind WHEN 'entity' THEN 0 ELSE 2 END)
);
CREATE INDEX consolidations_by_memory ON consolidations (memory_id);
CREATE INDEX consolidations_by_kept_memory ON consolidations (kept_memory_id);
CREATE INDEX consolidations_by_entity ON consolidations (entity_id);
CREATE INDEX consolidations_by_kept_entity ON consolidations (kept_entity_id);
COMMENT ON TABLE consolidations IS
    'What the nightly job found to be the same, or to contradict; undone pairs are left alone.';
COMMENT ON COLUMN consolidations.id IS 'Its number.';
COMMENT ON COLUMN consolidations.kind IS
    'duplicate or contradiction (of two facts), or entity (two names of one person or thing).';
COMMENT ON COLUMN consolidations.memory_id IS 'The fact that was retired.';
COMMENT ON COLUMN consolidations.kept_memory_id IS 'The fact that was kept.';
COMMENT ON COLUMN consolidations.entity_id IS 'One name.';
COMMENT ON COLUMN consolidations.kept_entity_id IS
    'The other, with whose facts it now shares its own.';
COMMENT ON COLUMN consolidations.details IS
    'What undoing it needs: ids, numbers and times, no text.';
COMMENT ON COLUMN consolidations.done_at IS 'When the job did it.';
COMMENT ON COLUMN consolidations.undone_at IS 'When an operator took it back, or NULL.';
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details, done_at, undone_at)
SELECT coalesce(c.before ->> 'why', 'contradiction'),
       c.merged_id, c.memory_id, jsonb_strip_nulls(jsonb_build_object(
           'by', c.before -> 'by', 'sources', c.before -> 'sources',
           'until', CASE WHEN gone.row ->> 'valid_until' IS NULL THEN f.valid_until END,
           'importance', kept.row -> 'importance', 'pinned', kept.row -> 'pinned')),
       c.made_at, c.undone_at
FROM changes c JOIN memories f ON f.id = c.merged_id
LEFT JOIN LATERAL jsonb_array_elements(c.before -> 'facts') AS gone (row)
     ON gone.row ->> 'id' = c.merged_id::text
LEFT JOIN LATERAL jsonb_array_elements(c.before -> 'facts') AS kept (row)
     ON kept.row ->> 'id' = c.memory_id::text
ORDER BY c.id;
CREATE TABLE forgettings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    kept jsonb NOT NULL,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE
);
CREATE INDEX forgettings_by_owner ON forgettings (owner_id, id DESC);
CREATE INDEX forgettings_by_time ON forgettings (created_at);
COMMENT ON TABLE forgettings IS
    'What was forgotten in the last minutes, so that it can be taken back; nothing else reads it.';
COMMENT ON COLUMN forgettings.id IS 'Its number.';
COMMENT ON COLUMN forgettings.owner_id IS 'The owner: a person, or a group (negative).';
COMMENT ON COLUMN forgettings.created_at IS 'When; the row is deleted ten minutes later.';
COMMENT ON COLUMN forgettings.kept IS
    'texts: what was told as forgotten; facts, sources, quotes: rows; messages: as they were.';
DELETE FROM memories WHERE retired_reason = 'forgotten';
DROP INDEX memories_forgotten;
DROP TABLE changes;
COMMENT ON COLUMN memories.retired_reason IS
    'replaced, outdated, contradicted, duplicate, edited, undone, or limit (too many facts).';
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(CHANGES)
    cursor.execute(FACTS.format(**HIDING))
    cursor.execute(CONVERT)


def downgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(AS_BEFORE)
    cursor.execute(FACTS.format(**dict.fromkeys(HIDING, "")))
