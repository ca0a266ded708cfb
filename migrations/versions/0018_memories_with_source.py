"""One reading of facts: each with the newest of its sources."""

from alembic import op

revision = "0018"
down_revision = "0017"

UPGRADE = """
CREATE VIEW memories_with_source AS
SELECT f.id, f.telegram_user_id, f.thread_id, f.text, f.memory_type, f.subject, f.relation,
       f.object, f.importance, f.pinned, f.valid_from, f.valid_until, f.retired_at, f.created_at,
       f.content_hash, f.speaker_id, f.speaker,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote
FROM memories f
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true;
COMMENT ON VIEW memories_with_source IS
    'Facts, living and retired, each with where it was said last.';
COMMENT ON COLUMN memories_with_source.message_id IS
    'The message in which it was said, if it is still there.';
"""

DOWNGRADE = "DROP VIEW memories_with_source"


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
