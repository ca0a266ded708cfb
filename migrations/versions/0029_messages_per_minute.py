"""How many messages of one user a minute are answered."""

from alembic import op

revision = "0029"
down_revision = "0028"

UPGRADE = """
ALTER TABLE global_settings ADD COLUMN messages_per_minute_per_user integer NOT NULL DEFAULT 0
    CHECK (messages_per_minute_per_user BETWEEN 0 AND 1000000000);
"""

DOWNGRADE = """
ALTER TABLE global_settings DROP COLUMN messages_per_minute_per_user;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
