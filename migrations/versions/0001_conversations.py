"""Conversations and messages (seed 001), with ids as BIGINT and times with their zone."""

from alembic import op

revision = "0001"
down_revision = None

UPGRADE = """
CREATE TABLE conversations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT conversations_one_per_owner UNIQUE (telegram_user_id, thread_id)
);
COMMENT ON TABLE conversations IS
    'The current conversation of a person, or of a group and topic. /new makes another.';
COMMENT ON COLUMN conversations.telegram_user_id IS
    'The owner: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN conversations.thread_id IS 'The topic of a forum group, else 0.';

CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    bot_id bigint,
    chat_id bigint,
    telegram_message_id bigint,
    sender_id bigint,
    reply_to_id bigint REFERENCES messages ON DELETE CASCADE,
    stream_message_id bigint,
    delivered_parts integer NOT NULL DEFAULT 0,
    delivered_at timestamptz,
    stopped_at timestamptz,
    failed_at timestamptz,
    CONSTRAINT messages_one_per_telegram_message
        UNIQUE (bot_id, chat_id, telegram_message_id)
);
CREATE INDEX messages_by_time ON messages (conversation_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX messages_one_answer ON messages (reply_to_id) WHERE role = 'assistant';
CREATE INDEX messages_by_reply ON messages (reply_to_id) WHERE reply_to_id IS NOT NULL;
CREATE INDEX messages_undelivered ON messages (created_at)
    WHERE role = 'assistant' AND delivered_at IS NULL;
COMMENT ON COLUMN messages.sender_id IS 'Who wrote it; in a group not the owner.';
COMMENT ON COLUMN messages.reply_to_id IS 'The user message that this row answers.';
COMMENT ON COLUMN messages.stream_message_id IS
    'On a user message in a group: the Telegram message that shows the growing answer.';
COMMENT ON COLUMN messages.delivered_parts IS
    'How many Telegram messages of a long answer have arrived.';
COMMENT ON COLUMN messages.stopped_at IS 'When the user stopped the answer to this message.';
COMMENT ON COLUMN messages.failed_at IS 'When the bot gave up answering and apologised.';
"""

DOWNGRADE = """
DROP TABLE messages;
DROP TABLE conversations;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
