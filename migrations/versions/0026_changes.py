"""What an answer changed in the memory, so that it is shown again when it is delivered again."""

from alembic import op

revision = "0026"
down_revision = "0025"

UPGRADE = """
ALTER TABLE messages ADD COLUMN changes jsonb;
COMMENT ON COLUMN messages.changes IS
    'On an answer: numbers of the facts that its turn saved, of those that replaced others, and '
    'of what it forgot.';
"""

DOWNGRADE = """
ALTER TABLE messages DROP COLUMN changes;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
