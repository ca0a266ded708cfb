"""Words live in one place, and groups keep their memory when they move.

A handled update keeps its numbers alone: a constraint makes forgetting to empty it impossible.
What others forward of a person, and where they mention him, is known by his id, so that an
erasure finds it. Positions are never given out twice, also when the newest messages are purged.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

UPGRADE = """
UPDATE telegram_updates SET payload = '{}' WHERE handled_at IS NOT NULL AND payload <> '{}';
ALTER TABLE telegram_updates ADD CONSTRAINT telegram_updates_without_words
    CHECK (handled_at IS NULL OR payload = '{}' OR outcome IS NOT DISTINCT FROM 'put aside');
ALTER TABLE telegram_updates ADD COLUMN revision integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN telegram_updates.revision IS
    'How often an erasure has taken somebody''s words out of it.';
COMMENT ON COLUMN telegram_updates.payload IS
    'The update as Telegram sent it, until it is handled; of refused users only who and where.';

ALTER TABLE messages ADD COLUMN forgotten_at timestamptz, ADD COLUMN author_id bigint,
    ADD COLUMN mentions jsonb, ADD COLUMN edited_at timestamptz;
UPDATE messages SET forgotten_at = now() WHERE is_forgotten;
CREATE INDEX messages_forgotten ON messages (forgotten_at) WHERE forgotten_at IS NOT NULL;
COMMENT ON COLUMN messages.forgotten_at IS
    'When the user asked to forget it; a job deletes it for good ten minutes later.';
COMMENT ON COLUMN messages.author_id IS
    'Who wrote what sender_id forwarded: a person, a group or a channel.';
COMMENT ON COLUMN messages.edited_at IS
    'When the user edited it: answers from before may repeat words that stand nowhere else.';
COMMENT ON COLUMN messages.mentions IS
    'People without a user name whom it mentions: [{"id": 1, "name": "as it stands there"}].';

ALTER TABLE memory_sources ADD COLUMN author_id bigint;
COMMENT ON COLUMN memory_sources.author_id IS 'Who wrote it, where sender_id forwarded it.';
CREATE INDEX memory_sources_by_author ON memory_sources (author_id) WHERE author_id IS NOT NULL;

ALTER TABLE conversations ADD COLUMN last_position integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN conversations.last_position IS
    'Positions up to this one were given to messages that are gone, and are not given again.';

CREATE TABLE chat_moves (
    old_chat_id bigint PRIMARY KEY,
    new_chat_id bigint NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT now(),
    CHECK (old_chat_id <> new_chat_id)
);
CREATE INDEX chat_moves_by_new ON chat_moves (new_chat_id);
COMMENT ON TABLE chat_moves IS
    'Groups that became supergroups: what comes late for the old id belongs to the new one.';
"""

DOWNGRADE = """
DROP TABLE chat_moves;
ALTER TABLE conversations DROP COLUMN last_position;
ALTER TABLE memory_sources DROP COLUMN author_id;
ALTER TABLE messages DROP COLUMN forgotten_at, DROP COLUMN author_id, DROP COLUMN mentions,
    DROP COLUMN edited_at;
ALTER TABLE telegram_updates DROP CONSTRAINT telegram_updates_without_words,
    DROP COLUMN revision;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
