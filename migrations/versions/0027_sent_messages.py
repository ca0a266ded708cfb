"""Which Telegram messages show an answer, so that it can be replaced in place, and replied to."""

from alembic import op

revision = "0027"
down_revision = "0026"

UPGRADE = """
ALTER TABLE messages ADD COLUMN sent_message_ids bigint[];
COMMENT ON COLUMN messages.sent_message_ids IS
    'On an answer: the Telegram messages that show it, in their order.';
"""

DOWNGRADE = """
ALTER TABLE messages DROP COLUMN sent_message_ids;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
