"""Telegram updates, stored with their job before Telegram is told that we have them."""

from alembic import op

revision = "0003"
down_revision = "0002"

UPGRADE = """
CREATE TABLE telegram_updates (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bot_id bigint NOT NULL,
    update_id bigint NOT NULL,
    kind text NOT NULL,
    chat_id bigint,
    thread_id bigint NOT NULL DEFAULT 0,
    user_id bigint,
    message_id bigint,
    media_group_id text,
    payload jsonb NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    handled_at timestamptz,
    outcome text,
    CONSTRAINT telegram_updates_once UNIQUE (bot_id, update_id)
);
CREATE INDEX telegram_updates_waiting ON telegram_updates (bot_id, chat_id, thread_id, id)
    WHERE handled_at IS NULL;
CREATE INDEX telegram_updates_handled ON telegram_updates (handled_at)
    WHERE handled_at IS NOT NULL;
CREATE INDEX telegram_updates_albums ON telegram_updates (bot_id, chat_id, media_group_id)
    WHERE media_group_id IS NOT NULL;
CREATE INDEX telegram_updates_refused ON telegram_updates (bot_id, user_id, id)
    WHERE kind = 'refused';
COMMENT ON COLUMN telegram_updates.id IS 'The order of arrival; update_id is not an order.';
COMMENT ON COLUMN telegram_updates.kind IS
    'message, media, command, new, stop, edit, callback, member, refused or other.';
COMMENT ON COLUMN telegram_updates.payload IS
    'The update as Telegram sent it; of refused users only who and where.';
COMMENT ON COLUMN telegram_updates.outcome IS
    'How it ended: done, left to a later message, wiped, failed, ...';
"""

DOWNGRADE = "DROP TABLE telegram_updates;"


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
