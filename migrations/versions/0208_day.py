"""The brief of the day and follow-ups: rows of reminders of other kinds, and a setting.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0208"
down_revision = "0207"

UPGRADE = r"""
ALTER TABLE user_settings ADD COLUMN follow_ups boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN user_settings.follow_ups IS
    'Whether the bot asks, the day after an interview, an operation and the like, how it went.';

ALTER TABLE reminders
    ADD COLUMN kind text NOT NULL DEFAULT 'reminder'
        CHECK (kind IN ('reminder', 'brief', 'follow_up')),
    ADD COLUMN day date,
    ADD COLUMN about text;
CREATE UNIQUE INDEX reminders_one_brief ON reminders (owner_id) WHERE kind = 'brief';
CREATE UNIQUE INDEX reminders_once_a_day ON reminders (owner_id, kind, day)
    WHERE kind <> 'reminder';
COMMENT ON COLUMN reminders.kind IS
    'reminder (the user asked for it), brief (of the day, by /brief; text says no more), or '
    'follow_up (how something went; cancelled_at: the user wants no question about it).';
COMMENT ON COLUMN reminders.day IS
    'The day on the user''s clock for which a brief was sent last, or on which a follow-up asks: '
    'one of each kind a day.';
COMMENT ON COLUMN reminders.about IS
    'What a follow-up asks about: fact-12, msg-12 or reminder-12; it may be gone meanwhile.';
"""

DOWNGRADE = """
DELETE FROM reminders WHERE kind <> 'reminder';
ALTER TABLE reminders DROP COLUMN kind, DROP COLUMN day, DROP COLUMN about;
ALTER TABLE user_settings DROP COLUMN follow_ups;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
