"""Forgetting that can be undone for a while, messages that nothing remembers, and questions back.

A forgotten fact leaves its tables at once: what undoing needs of it lies in ``forgettings``, which
nothing else reads, until a job deletes it.
"""

from alembic import op

revision = "0016"
down_revision = "0015"

UPGRADE = """
CREATE TABLE forgettings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    kept jsonb NOT NULL
);
CREATE INDEX forgettings_by_owner ON forgettings (telegram_user_id, thread_id, id DESC);
CREATE INDEX forgettings_by_time ON forgettings (created_at);
COMMENT ON TABLE forgettings IS
    'What was forgotten in the last minutes, so that it can be taken back; read by nothing else.';
COMMENT ON COLUMN forgettings.kept IS
    'texts: what was told as forgotten; facts, sources, quotes: rows; messages: as they were.';

ALTER TABLE messages ADD COLUMN is_private boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN messages.is_private IS
    'The user wants it not remembered: it stays in the window and gets nowhere else.';
ALTER TABLE messages ADD COLUMN asks text CHECK (asks IN ('erase_all'));
COMMENT ON COLUMN messages.asks IS
    'What the bot asked with it, so that a yes to it means that.';

DROP INDEX messages_unindexed;
CREATE INDEX messages_unindexed ON messages (conversation_id, id)
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten
          AND NOT is_private;
"""

DOWNGRADE = """
DROP INDEX messages_unindexed;
UPDATE messages SET is_forgotten = true WHERE is_private;
ALTER TABLE messages DROP COLUMN asks, DROP COLUMN is_private;
CREATE INDEX messages_unindexed ON messages (conversation_id, id)
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten;
DROP TABLE forgettings;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
