"""Reminders: what to remind whom of, when, and how it comes again."""

from alembic import op

revision = "0031"
down_revision = "0030"

UPGRADE = """
CREATE TABLE reminders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    asker_id bigint,
    text text NOT NULL CHECK (text <> '' AND length(text) <= 1000),
    due_at timestamptz NOT NULL CHECK (extract(epoch FROM due_at) % 1 = 0),
    recurrence text,
    time_zone text NOT NULL,
    language text NOT NULL,
    message_id bigint REFERENCES messages (id) ON DELETE SET NULL,
    snooze_of bigint REFERENCES reminders (id) ON DELETE SET NULL,
    is_waiting boolean NOT NULL DEFAULT true,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    cancelled_at timestamptz
);
CREATE INDEX reminders_due ON reminders (due_at, id) WHERE is_waiting;
CREATE INDEX reminders_of_owner ON reminders (telegram_user_id, thread_id, due_at, id)
    WHERE is_waiting;
CREATE INDEX reminders_of_asker ON reminders (asker_id) WHERE asker_id IS NOT NULL;
CREATE INDEX reminders_of_message ON reminders (message_id) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX reminders_snoozed_once ON reminders (snooze_of)
    WHERE is_waiting AND snooze_of IS NOT NULL;
COMMENT ON TABLE reminders IS
    'What users asked to be reminded of. Two minutes before it is due, a job waits for it.';
COMMENT ON COLUMN reminders.telegram_user_id IS
    'The person, or the group (negative); it is sent to the chat of that number.';
COMMENT ON COLUMN reminders.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN reminders.asker_id IS 'In a group, who asked for it; only he changes it.';
COMMENT ON COLUMN reminders.due_at IS
    'When it comes (next), a whole second; of one that waits no more, when it came last.';
COMMENT ON COLUMN reminders.recurrence IS
    'How it comes again, in RFC 5545 (FREQ=WEEKLY;BYDAY=MO;...); NULL: once.';
COMMENT ON COLUMN reminders.time_zone IS 'On whose clock a recurrence is counted.';
COMMENT ON COLUMN reminders.language IS
    'Of the request; what the user chose in user_settings goes before it.';
COMMENT ON COLUMN reminders.message_id IS 'The message that asked for it, while it is there.';
COMMENT ON COLUMN reminders.snooze_of IS
    'The recurring reminder of which this is one time, put off.';
COMMENT ON COLUMN reminders.is_waiting IS 'Whether it comes (again).';
COMMENT ON COLUMN reminders.attempts IS
    'How often sending it failed for a reason that may not pass; the second time gives it up.';
COMMENT ON COLUMN reminders.delivered_at IS 'When it was sent last.';
COMMENT ON COLUMN reminders.cancelled_at IS
    'When it was cancelled: by the user, or since nothing can be sent to the chat.';
"""

DOWNGRADE = """
DROP TABLE reminders;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
