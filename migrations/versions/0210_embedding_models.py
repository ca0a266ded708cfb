"""Embedding models: their means in one column, no refused documents, no stored progress."""

from alembic import op

revision = "0210"
down_revision = "0209"

UPGRADE = """
DROP TABLE embedding_failures;
ALTER TABLE embedding_models DROP COLUMN embedded, DROP COLUMN documents, ADD COLUMN means jsonb;
UPDATE embedding_models m
SET means = coalesce((SELECT jsonb_object_agg(language || ' ' || form, mean)
                      FROM embedding_means WHERE model_id = m.id), '{}');
ALTER TABLE embedding_models ALTER COLUMN means SET NOT NULL;
COMMENT ON COLUMN embedding_models.means IS
    'What generic texts of a language and form share, as in "ru question"; subtracted from the '
    'vectors of such texts.';
DROP TABLE embedding_means;
"""

DOWNGRADE = """
CREATE TABLE embedding_means (
    model_id smallint REFERENCES embedding_models ON DELETE CASCADE,
    language text CHECK (language ~ '^[a-z]{2,3}$'),
    form text CHECK (form IN ('statement', 'question')),
    mean real[] NOT NULL,
    PRIMARY KEY (model_id, language, form)
);
INSERT INTO embedding_means (model_id, language, form, mean)
SELECT id, split_part(key, ' ', 1), split_part(key, ' ', 2),
       ARRAY(SELECT jsonb_array_elements_text(value)::real)
FROM embedding_models, jsonb_each(means);
ALTER TABLE embedding_models
    DROP COLUMN means,
    ADD COLUMN embedded bigint NOT NULL DEFAULT 0,
    ADD COLUMN documents bigint NOT NULL DEFAULT 0;
CREATE TABLE embedding_failures (
    document_id bigint REFERENCES search_documents ON DELETE CASCADE,
    model_id smallint REFERENCES embedding_models ON DELETE CASCADE,
    failures integer NOT NULL,
    retry_at timestamptz NOT NULL,
    PRIMARY KEY (document_id, model_id)
);
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
