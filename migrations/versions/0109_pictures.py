"""The message that describes a picture keeps its file id: it can be looked at again."""

from alembic import op

revision = "0109"
down_revision = "0108"

UPGRADE = """
ALTER TABLE messages ADD file_id text;
COMMENT ON COLUMN messages.file_id IS
    'Of a picture that the message describes: under which Telegram gives it to the bot again.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute("ALTER TABLE messages DROP file_id")
