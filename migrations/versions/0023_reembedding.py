"""How far a new embedding model has got."""

from alembic import op

revision = "0023"
down_revision = "0022"

UPGRADE = """
ALTER TABLE embedding_models
    ADD COLUMN embedded bigint NOT NULL DEFAULT 0,
    ADD COLUMN documents bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN embedding_models.embedded IS
    'Documents with a vector of it, of so many in ``documents``, as ``reembed`` noted last.';
"""

DOWNGRADE = """
ALTER TABLE embedding_models DROP COLUMN embedded, DROP COLUMN documents;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
