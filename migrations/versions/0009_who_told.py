"""Who said what a fact rests on, known also when /new has deleted the message.

Beside it: an index that finds all facts of an owner, the retired ones too; no extension that
nothing uses any more (0005 wanted it); and seed 002's threshold of 0.85 on our scale. It was meant
for raw cosines, of which unrelated texts have up to 0.86: that is our 0.6.
"""

from alembic import op

revision = "0009"
down_revision = "0008"

UPGRADE = """
ALTER TABLE memory_sources ADD COLUMN sender_id bigint;
UPDATE memory_sources s SET sender_id = m.sender_id FROM messages m WHERE m.id = s.message_id;
COMMENT ON COLUMN memory_sources.sender_id IS 'Who said it; in a group that is not the owner.';
CREATE INDEX memory_sources_by_sender ON memory_sources (sender_id) WHERE sender_id IS NOT NULL;

CREATE INDEX memories_by_owner ON memories (telegram_user_id, thread_id, retired_at);

DROP EXTENSION IF EXISTS btree_gin;

ALTER TABLE global_settings ALTER COLUMN memory_dedup_threshold SET DEFAULT 0.6;
UPDATE global_settings SET memory_dedup_threshold = 0.6
WHERE memory_dedup_threshold = 0.85::real;
"""

DOWNGRADE = """
ALTER TABLE global_settings ALTER COLUMN memory_dedup_threshold SET DEFAULT 0.85;
CREATE EXTENSION IF NOT EXISTS btree_gin;
DROP INDEX memories_by_owner;
ALTER TABLE memory_sources DROP COLUMN sender_id;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
