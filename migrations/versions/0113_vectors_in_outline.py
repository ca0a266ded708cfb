"""The search reads the signs of a vector's numbers first, and the vectors of what is near only.

The index held every vector a second time, so that a search read them in one place. An outline of
one bit for each number does that in a sixteenth of the bytes; the exact vectors of the nearest few
hundred are looked up in the table.
"""

from alembic import op

revision = "0113"
down_revision = "0112"

OUTLINES = """
ALTER TABLE document_embeddings
    ADD outline bit varying GENERATED ALWAYS AS (binary_quantize(embedding)) STORED;
DROP INDEX document_embeddings_by_owner;
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (owner_id, model_id, is_answer, position) INCLUDE (starts_at, outline);
COMMENT ON COLUMN document_embeddings.outline IS
    'Which of the vector''s numbers are positive: enough to find the nearest few hundred.';
"""

AS_BEFORE = """
DROP INDEX document_embeddings_by_owner;
ALTER TABLE document_embeddings DROP outline;
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (owner_id, model_id, is_answer, position) INCLUDE (starts_at, embedding);
"""


def upgrade():
    op.get_bind().connection.cursor().execute(OUTLINES)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
