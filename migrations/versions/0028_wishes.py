"""What a user may choose besides: how long answers are, and whether anything is remembered."""

from alembic import op

revision = "0028"
down_revision = "0027"

UPGRADE = """
ALTER TABLE user_settings
    ADD COLUMN answer_length text NOT NULL DEFAULT 'normal'
        CHECK (answer_length IN ('short', 'normal', 'long')),
    ADD COLUMN memory_on boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN user_settings.memory_on IS
    'When off, nothing is taken from messages for facts, and nothing is recalled.';
"""

DOWNGRADE = """
ALTER TABLE user_settings DROP COLUMN memory_on, DROP COLUMN answer_length;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
