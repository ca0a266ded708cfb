"""Whose words a message holds, who is meant by "I" in a group, and what /new leaves to be read.

What was forwarded earlier is known by its author. A fact of a group belongs to the member who
told it. What was not read for facts when /new came is copied for some minutes.
"""

from alembic import op

revision = "0017"
down_revision = "0016"

UPGRADE = """
ALTER TABLE messages
    ADD COLUMN provenance text NOT NULL DEFAULT 'typed'
        CHECK (provenance IN ('typed', 'forwarded', 'bot', 'file')),
    ADD COLUMN speaker text,
    ADD COLUMN origin text,
    ADD COLUMN quoted text,
    ADD COLUMN quoted_author_id bigint;
UPDATE messages SET provenance = 'forwarded' WHERE author_id IS NOT NULL;
COMMENT ON COLUMN messages.provenance IS
    'Whose words they are: typed by the sender himself; forwarded; of another bot; of a file.';
COMMENT ON COLUMN messages.speaker IS 'What the sender is called, in a group.';
COMMENT ON COLUMN messages.origin IS 'What the one is called whose words were forwarded.';
COMMENT ON COLUMN messages.quoted IS 'The words to which the message replies.';
COMMENT ON COLUMN messages.quoted_author_id IS 'Who wrote these words, if it is known.';
CREATE INDEX messages_by_quoted ON messages (quoted_author_id)
    WHERE quoted_author_id IS NOT NULL;

ALTER TABLE memories ADD COLUMN speaker_id bigint, ADD COLUMN speaker text;
UPDATE memories f SET speaker_id = (
    SELECT s.sender_id FROM memory_sources s
    WHERE s.memory_id = f.id AND s.sender_id IS NOT NULL ORDER BY s.id LIMIT 1)
WHERE f.telegram_user_id < 0;
COMMENT ON COLUMN memories.speaker_id IS
    'Which member of a group told it: "user" in subject is he. NULL in a private chat.';
COMMENT ON COLUMN memories.speaker IS 'What he is called.';
COMMENT ON COLUMN memories.content_hash IS
    'sha256 of the normalised text; in a group, with the id of the member who told it.';

CREATE TABLE parting_messages (
    message_id bigint PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    position integer NOT NULL,
    content text NOT NULL,
    said_at timestamptz NOT NULL,
    sender_id bigint,
    speaker text,
    mentions jsonb,
    left_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parting_messages_by_owner
    ON parting_messages (telegram_user_id, thread_id, position);
CREATE INDEX parting_messages_by_sender ON parting_messages (sender_id)
    WHERE sender_id IS NOT NULL;
COMMENT ON TABLE parting_messages IS
    'What a user had typed and nobody had read for facts when /new deleted it: kept for minutes.';
"""

DOWNGRADE = """
DROP TABLE parting_messages;
ALTER TABLE memories DROP COLUMN speaker_id, DROP COLUMN speaker;
DROP INDEX messages_by_quoted;
ALTER TABLE messages DROP COLUMN provenance, DROP COLUMN speaker, DROP COLUMN origin,
    DROP COLUMN quoted, DROP COLUMN quoted_author_id;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
