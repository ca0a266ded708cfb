"""Hybrid search: documents, the postings of their words, and their embeddings.

A document is a message, a memory or a summary. Its ``position`` numbers the documents of one
owner; messages of one talk stand next to each other, everything else keeps a distance, so that a
word may count for the neighbours of the message that holds it without rewriting their rows.

Exact nearest neighbours of one owner come from a covering btree: it keeps an owner's vectors side
by side, whatever the order of arrival. It takes the place of full-text search (0005).
"""

from alembic import op

revision = "0008"
down_revision = "0007"

UPGRADE = """
DROP INDEX messages_by_terms;
DROP FUNCTION message_terms;

-- The same text as with a regular expression (0005), at a tenth of its cost.
CREATE OR REPLACE FUNCTION message_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN CASE WHEN starts_with(content, '[Текущее время: ') AND substr(content, 33, 2) = '] '
            THEN substr(content, 35) ELSE content END;

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE embedding_models (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    dimensions integer NOT NULL,
    unrelated_median real NOT NULL,
    unrelated_high real NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE embedding_means (
    model_id smallint NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    language text NOT NULL CHECK (language IN ('ru', 'uk', 'en')),
    form text NOT NULL CHECK (form IN ('statement', 'question')),
    mean real[] NOT NULL,
    PRIMARY KEY (model_id, language, form)
);
COMMENT ON TABLE embedding_means IS
    'What generic texts of a language and form share; subtracted from the vectors of such texts.';
COMMENT ON COLUMN embedding_models.unrelated_median IS
    'Centred cosine of two generic texts, in the middle: a similarity of 0.';
COMMENT ON COLUMN embedding_models.unrelated_high IS
    'What 95 of 100 such pairs stay below: a similarity of 0.6.';

CREATE TABLE search_owners (
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    next_position integer NOT NULL DEFAULT 0,
    documents integer NOT NULL DEFAULT 0,
    terms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (telegram_user_id, thread_id)
);
COMMENT ON TABLE search_owners IS
    'Per owner: the next free position, and the sizes that BM25 needs (approximate).';

CREATE TABLE search_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    position integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('message', 'memory', 'summary')),
    message_id bigint UNIQUE REFERENCES messages ON DELETE CASCADE,
    memory_id bigint UNIQUE REFERENCES memories ON DELETE CASCADE,
    summary_id bigint UNIQUE REFERENCES conversation_summaries ON DELETE CASCADE,
    speaker text NOT NULL,
    said_at timestamptz NOT NULL,
    length integer NOT NULL,
    model_id smallint REFERENCES embedding_models,
    CONSTRAINT search_documents_in_order UNIQUE (telegram_user_id, thread_id, position),
    CHECK (num_nonnulls(message_id, memory_id, summary_id) = 1)
);
CREATE INDEX search_documents_by_time ON search_documents (telegram_user_id, thread_id, said_at);
CREATE INDEX search_documents_by_model ON search_documents (model_id, id);
COMMENT ON COLUMN search_documents.speaker IS
    'user, assistant, or a name where several people talk.';
COMMENT ON COLUMN search_documents.length IS 'Its number of search terms.';
COMMENT ON COLUMN search_documents.model_id IS
    'The newest model that embedded it; null: none has.';

CREATE TABLE search_postings (
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL,
    term text NOT NULL,
    position integer NOT NULL,
    frequency smallint NOT NULL,
    length integer NOT NULL,
    in_talk boolean NOT NULL,
    document_id bigint NOT NULL REFERENCES search_documents ON DELETE CASCADE,
    CONSTRAINT search_postings_once PRIMARY KEY (telegram_user_id, thread_id, term, position)
        INCLUDE (frequency, length, in_talk)
) WITH (autovacuum_vacuum_insert_threshold = 10000, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX search_postings_by_document ON search_postings (document_id);
COMMENT ON COLUMN search_postings.length IS 'Terms of its document, for BM25.';
COMMENT ON COLUMN search_postings.in_talk IS
    'Whether the word counts for the neighbouring documents as well.';

CREATE TABLE document_embeddings (
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL,
    model_id smallint NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    position integer NOT NULL,
    document_id bigint NOT NULL REFERENCES search_documents ON DELETE CASCADE,
    embedding halfvec NOT NULL,
    PRIMARY KEY (document_id, model_id)
) WITH (autovacuum_vacuum_insert_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (telegram_user_id, thread_id, model_id, position) INCLUDE (embedding);
COMMENT ON COLUMN document_embeddings.embedding IS
    'Centred and of length 1, so that the inner product is the centred cosine.';
"""

DOWNGRADE = r"""
DROP TABLE document_embeddings, search_postings, search_documents, search_owners,
    embedding_means, embedding_models;
DROP EXTENSION vector;

CREATE OR REPLACE FUNCTION message_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN regexp_replace(content, '^\[Текущее время: [0-9: -]+\] ', '');

CREATE FUNCTION message_terms(content text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN to_tsvector('russian', left(message_text(content), 100000))
    || to_tsvector('simple', left(message_text(content), 100000));
CREATE INDEX messages_by_terms ON messages USING gin (conversation_id, message_terms(content))
    WHERE role = 'user';
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
