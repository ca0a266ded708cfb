"""How long an answer may be, in force while the bot runs; how often Telegram refused one."""

from alembic import op

revision = "0015"
down_revision = "0014"

UPGRADE = """
ALTER TABLE global_settings
    ADD COLUMN answer_max_characters integer NOT NULL DEFAULT 30000
        CHECK (answer_max_characters BETWEEN 100 AND 60000),
    ADD COLUMN answer_max_parts integer NOT NULL DEFAULT 10
        CHECK (answer_max_parts BETWEEN 1 AND 50),
    ADD COLUMN answer_max_seconds integer NOT NULL DEFAULT 120
        CHECK (answer_max_seconds BETWEEN 1 AND 3600);
COMMENT ON COLUMN global_settings.answer_max_characters IS
    'An answer is cut after so many characters, with a sentence that says so.';
COMMENT ON COLUMN global_settings.answer_max_parts IS
    'An answer is cut after so many Telegram messages, with a sentence that says so.';
COMMENT ON COLUMN global_settings.answer_max_seconds IS
    'A model that has not finished its answer after so many seconds is stopped; what came is it.';

ALTER TABLE telegram_updates ADD COLUMN refusals smallint NOT NULL DEFAULT 0;
COMMENT ON COLUMN telegram_updates.refusals IS
    'How often Telegram refused the reply for a reason that we do not know.';
"""

DOWNGRADE = """
ALTER TABLE telegram_updates DROP COLUMN refusals;
ALTER TABLE global_settings
    DROP COLUMN answer_max_characters, DROP COLUMN answer_max_parts,
    DROP COLUMN answer_max_seconds;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
