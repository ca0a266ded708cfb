"""Documents that an embedding model did not take, and when they are tried again.

Until now such a document got a vector of zeros, by which it was neither found nor tried again;
all that have one are embedded anew.
"""

from alembic import op

revision = "0010"
down_revision = "0009"

UPGRADE = """
CREATE TABLE embedding_failures (
    document_id bigint NOT NULL REFERENCES search_documents ON DELETE CASCADE,
    model_id smallint NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    failures integer NOT NULL,
    retry_at timestamptz NOT NULL,
    PRIMARY KEY (document_id, model_id)
);
COMMENT ON TABLE embedding_failures IS
    'Documents that an embedding model did not take; until it does they are found by words alone.';
COMMENT ON COLUMN embedding_failures.failures IS 'How often in a row.';
COMMENT ON COLUMN embedding_failures.retry_at IS
    'Not tried before; infinity: never again by this model, which dies of it.';

WITH zeros AS (
    DELETE FROM document_embeddings WHERE l2_norm(embedding) = 0 RETURNING document_id, model_id
)
UPDATE search_documents d SET model_id = NULL
FROM zeros z WHERE d.id = z.document_id AND d.model_id = z.model_id;
"""

DOWNGRADE = """
DROP TABLE embedding_failures;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
