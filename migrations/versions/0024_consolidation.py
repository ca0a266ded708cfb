"""What the nightly job put together, so that it can be taken apart; messages by their age."""

from alembic import op

revision = "0024"
down_revision = "0023"

UPGRADE = """
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
COMMENT ON COLUMN consolidations.details IS
    'What undoing it needs: ids, numbers and times, no text.';

ALTER TABLE conversations ADD COLUMN consolidated_at timestamptz;
COMMENT ON COLUMN conversations.consolidated_at IS
    'When the nightly job last looked through the owner''s facts.';

CREATE INDEX messages_by_age ON messages USING brin (created_at);
"""

DOWNGRADE = """
DROP INDEX messages_by_age;
ALTER TABLE conversations DROP COLUMN consolidated_at;
DROP TABLE consolidations;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
