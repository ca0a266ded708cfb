"""The search: documents, their words and vectors, and the backlog of the index.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0204"
down_revision = "0203"

UPGRADE = r"""
CREATE TABLE embedding_models (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    dimensions integer NOT NULL,
    unrelated_median real NOT NULL,
    unrelated_high real NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    embedded bigint NOT NULL DEFAULT 0,
    documents bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE embedding_models IS
    'The embedding models that this database knows: the one in use, one that takes its place.';
COMMENT ON COLUMN embedding_models.id IS 'Its number, in vectors.';
COMMENT ON COLUMN embedding_models.name IS 'As in EMBEDDING_MODEL.';
COMMENT ON COLUMN embedding_models.dimensions IS 'Numbers in one of its vectors.';
COMMENT ON COLUMN embedding_models.unrelated_median IS
    'Centred cosine of two generic texts, in the middle: a similarity of 0.';
COMMENT ON COLUMN embedding_models.unrelated_high IS
    'What 95 of 100 such pairs stay below: a similarity of 0.6.';
COMMENT ON COLUMN embedding_models.created_at IS 'When it was first used here, and measured.';
COMMENT ON COLUMN embedding_models.embedded IS
    'How many documents had a vector of it when that was last counted.';
COMMENT ON COLUMN embedding_models.documents IS 'How many documents there were then.';

CREATE TABLE search_owners (
    next_position integer NOT NULL DEFAULT 0,
    documents integer NOT NULL DEFAULT 0,
    terms bigint NOT NULL DEFAULT 0,
    owner_id bigint PRIMARY KEY REFERENCES owners ON DELETE CASCADE
);
COMMENT ON TABLE search_owners IS
    'Per owner: the next free position, and the sizes that BM25 needs (approximate).';
COMMENT ON COLUMN search_owners.next_position IS 'The position that his next document gets.';
COMMENT ON COLUMN search_owners.documents IS 'How many documents he has, answers not counted.';
COMMENT ON COLUMN search_owners.terms IS 'How many terms they have together, answers not counted.';
COMMENT ON COLUMN search_owners.owner_id IS 'The owner.';

CREATE TABLE search_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('message', 'memory', 'summary')),
    message_id bigint REFERENCES messages ON DELETE CASCADE UNIQUE,
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    summary_id bigint REFERENCES conversation_summaries ON DELETE CASCADE,
    speaker text NOT NULL,
    said_at timestamptz NOT NULL,
    length integer NOT NULL,
    model_id smallint REFERENCES embedding_models,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    asks boolean NOT NULL DEFAULT false,
    CHECK (num_nonnulls(message_id, memory_id, summary_id) = 1),
    CONSTRAINT search_documents_in_order UNIQUE (owner_id, "position")
);
CREATE INDEX search_documents_by_model ON search_documents (model_id, id);
CREATE INDEX search_documents_by_time ON search_documents (owner_id, said_at);
CREATE UNIQUE INDEX search_documents_of_memory ON search_documents (memory_id)
    WHERE memory_id IS NOT NULL;
CREATE UNIQUE INDEX search_documents_of_summary ON search_documents (summary_id)
    WHERE summary_id IS NOT NULL;
COMMENT ON TABLE search_documents IS
    'What the search can find: messages, facts (memories) and summaries.';
COMMENT ON COLUMN search_documents.id IS 'Its number.';
COMMENT ON COLUMN search_documents.position IS
    'Its number among the owner''s documents; messages of one talk are neighbours.';
COMMENT ON COLUMN search_documents.kind IS 'message, memory or summary.';
COMMENT ON COLUMN search_documents.message_id IS 'The message, if it is one.';
COMMENT ON COLUMN search_documents.memory_id IS 'The fact, if it is one.';
COMMENT ON COLUMN search_documents.summary_id IS 'The summary, if it is one.';
COMMENT ON COLUMN search_documents.speaker IS
    'user, assistant, or a name where several people talk.';
COMMENT ON COLUMN search_documents.said_at IS 'When it was said.';
COMMENT ON COLUMN search_documents.length IS 'Its number of search terms.';
COMMENT ON COLUMN search_documents.model_id IS
    'The newest model that embedded it; NULL: none has.';
COMMENT ON COLUMN search_documents.owner_id IS 'The owner.';
COMMENT ON COLUMN search_documents.asks IS
    'Whether the user only asks in it: it is searched where questions are asked for.';

CREATE TABLE search_postings (
    term text,
    position integer,
    frequency smallint NOT NULL,
    length integer NOT NULL,
    in_talk boolean NOT NULL,
    document_id bigint NOT NULL REFERENCES search_documents ON DELETE CASCADE,
    owner_id bigint,
    is_answer boolean DEFAULT false,
    told_by bigint REFERENCES search_documents ON DELETE CASCADE,
    CONSTRAINT search_postings_once PRIMARY KEY (owner_id, term, is_answer,
        "position") INCLUDE (frequency, length, in_talk)
) WITH (autovacuum_vacuum_insert_threshold = 10000, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX search_postings_by_document ON search_postings (document_id);
CREATE INDEX search_postings_told_by ON search_postings (told_by) WHERE told_by IS NOT NULL;
COMMENT ON TABLE search_postings IS
    'The search by words: which term stands in which document, and how often.';
COMMENT ON COLUMN search_postings.term IS 'The word, cut to its stem.';
COMMENT ON COLUMN search_postings.position IS 'search_documents.position of its document.';
COMMENT ON COLUMN search_postings.frequency IS 'How often it stands there.';
COMMENT ON COLUMN search_postings.length IS 'Terms of its document, for BM25.';
COMMENT ON COLUMN search_postings.in_talk IS
    'Whether the word counts for the neighbouring documents as well: where several people talk.';
COMMENT ON COLUMN search_postings.document_id IS 'The document, with which it goes.';
COMMENT ON COLUMN search_postings.owner_id IS 'The owner.';
COMMENT ON COLUMN search_postings.is_answer IS
    'Whether the bot said it, or the user in a mere question.';
COMMENT ON COLUMN search_postings.told_by IS
    'Of a message''s word that only a fact says which it told: the document of that fact, with '
    'which the word goes.';

CREATE TABLE embedding_means (
    model_id smallint REFERENCES embedding_models ON DELETE CASCADE,
    language text CHECK (language ~ '^[a-z]{2,3}$'),
    form text CHECK (form IN ('statement', 'question')),
    mean real[] NOT NULL,
    PRIMARY KEY (model_id, language, form)
);
COMMENT ON TABLE embedding_means IS
    'What generic texts of a language and form share; subtracted from the vectors of such texts.';
COMMENT ON COLUMN embedding_means.model_id IS 'The model.';
COMMENT ON COLUMN embedding_means.language IS 'Of the texts, such as ru.';
COMMENT ON COLUMN embedding_means.form IS 'Of the texts: statement or question.';
COMMENT ON COLUMN embedding_means.mean IS 'The mean of their vectors.';

CREATE TABLE document_embeddings (
    model_id smallint REFERENCES embedding_models ON DELETE CASCADE,
    position integer NOT NULL,
    document_id bigint REFERENCES search_documents ON DELETE CASCADE,
    embedding halfvec NOT NULL,
    owner_id bigint NOT NULL,
    is_answer boolean NOT NULL DEFAULT false,
    starts_at integer DEFAULT 0,
    outline bit varying GENERATED ALWAYS AS (binary_quantize(embedding)) STORED,
    PRIMARY KEY (document_id, model_id, starts_at)
) WITH (autovacuum_vacuum_insert_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX document_embeddings_by_owner ON document_embeddings (owner_id, model_id, is_answer,
    position) INCLUDE (starts_at, outline);
COMMENT ON TABLE document_embeddings IS
    'The search by meaning: a vector for each document, of each model in use; of a long message '
    'one for each passage.';
COMMENT ON COLUMN document_embeddings.model_id IS 'The model that made the vector.';
COMMENT ON COLUMN document_embeddings.position IS 'search_documents.position of its document.';
COMMENT ON COLUMN document_embeddings.document_id IS 'The document, with which it goes.';
COMMENT ON COLUMN document_embeddings.embedding IS
    'Centred and of length 1, so that the inner product is the centred cosine.';
COMMENT ON COLUMN document_embeddings.owner_id IS 'The owner.';
COMMENT ON COLUMN document_embeddings.is_answer IS 'Whether the bot said it.';
COMMENT ON COLUMN document_embeddings.starts_at IS
    'Where the passage begins in the message, in characters; 0: at its beginning.';
COMMENT ON COLUMN document_embeddings.outline IS
    'Which of the vector''s numbers are positive: enough to find the nearest few hundred.';

CREATE TABLE embedding_failures (
    document_id bigint REFERENCES search_documents ON DELETE CASCADE,
    model_id smallint REFERENCES embedding_models ON DELETE CASCADE,
    failures integer NOT NULL,
    retry_at timestamptz NOT NULL,
    PRIMARY KEY (document_id, model_id)
);
COMMENT ON TABLE embedding_failures IS
    'Documents that an embedding model refused; until it takes them, only words find them.';
COMMENT ON COLUMN embedding_failures.document_id IS 'The document.';
COMMENT ON COLUMN embedding_failures.model_id IS 'The model.';
COMMENT ON COLUMN embedding_failures.failures IS 'How often in a row.';
COMMENT ON COLUMN embedding_failures.retry_at IS
    'Not tried before; infinity: never again by this model, whose process died of it.';

CREATE TABLE unindexed_messages (
    conversation_id uuid REFERENCES conversations ON DELETE CASCADE,
    message_id bigint,
    PRIMARY KEY (conversation_id, message_id)
);
COMMENT ON TABLE unindexed_messages IS
    'Messages that the search does not know yet, or not since the last edit.';
COMMENT ON COLUMN unindexed_messages.conversation_id IS 'Its conversation; it goes with it.';
COMMENT ON COLUMN unindexed_messages.message_id IS
    'The message; the row outlives it, until the search looks at the conversation next.';
"""

DOWNGRADE = """
DROP TABLE unindexed_messages, embedding_failures, document_embeddings, embedding_means,
    search_postings, search_documents, search_owners, embedding_models;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
