"""What is remembered, summarised and forgotten; the search; and the view ``facts``.

A document of the search is a message, a memory or a summary. Its ``position`` numbers the
documents of one owner; messages of one talk stand next to each other, everything else keeps a
distance, so that a word may count for the neighbours of the message that holds it without
rewriting their rows.

Exact nearest neighbours of one owner come from a covering btree: it keeps an owner's vectors side
by side, whatever the order of arrival.
"""

from alembic import op

revision = "0103"
down_revision = "0102"

MEMORY = """
CREATE TABLE memories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    memory_type text NOT NULL
        CHECK (memory_type IN ('user_fact', 'preference', 'event', 'conversation_insight')),
    text text NOT NULL,
    language text,
    subject text NOT NULL,
    relation text NOT NULL,
    object text NOT NULL,
    importance smallint NOT NULL CHECK (importance BETWEEN 1 AND 10),
    pinned boolean NOT NULL DEFAULT false,
    origin text NOT NULL CHECK (origin IN ('tool', 'teach', 'command', 'extraction')),
    valid_from timestamptz,
    valid_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,
    retired_reason text,
    superseded_by bigint REFERENCES memories ON DELETE SET NULL,
    recalls integer NOT NULL DEFAULT 0,
    content_hash text NOT NULL,
    speaker_id bigint,
    speaker text
);
CREATE UNIQUE INDEX memories_living_once ON memories (telegram_user_id, thread_id, content_hash)
    WHERE retired_at IS NULL;
CREATE INDEX memories_key_facts ON memories
    (telegram_user_id, thread_id, pinned DESC, importance DESC, created_at DESC, id DESC)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_relation ON memories (telegram_user_id, thread_id, subject, relation)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_owner ON memories (telegram_user_id, thread_id, retired_at);
CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
COMMENT ON TABLE memories IS
    'Facts that users told, never what the bot said; to read them, use the view facts.';
COMMENT ON COLUMN memories.id IS 'Its number; fact-12 in references is fact 12.';
COMMENT ON COLUMN memories.telegram_user_id IS
    'The owner: a person''s Telegram id, or a group''s negative chat id.';
COMMENT ON COLUMN memories.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
COMMENT ON COLUMN memories.text IS 'The fact, in the language in which it was told.';
COMMENT ON COLUMN memories.language IS 'That language: ru, uk or en; NULL: unknown.';
COMMENT ON COLUMN memories.subject IS
    'Whom it is about, in its canonical form: user, brother, a name, ...';
COMMENT ON COLUMN memories.relation IS 'What it says of him, canonical: lives_in, name, ...';
COMMENT ON COLUMN memories.object IS 'The value, as it was said: Omsk, Barsik, ...';
COMMENT ON COLUMN memories.importance IS 'From 1 to 10; the most important are always in view.';
COMMENT ON COLUMN memories.pinned IS 'Whether the user wants the model to see it always.';
COMMENT ON COLUMN memories.origin IS
    'How it came here: tool (the model saved it), teach (strict mode), command (/remember), '
    'extraction (a background job read the messages).';
COMMENT ON COLUMN memories.valid_from IS
    'Since when it holds in the world, as far as that is known.';
COMMENT ON COLUMN memories.valid_until IS 'Until when it holds in the world; NULL: open.';
COMMENT ON COLUMN memories.created_at IS 'When it was stored.';
COMMENT ON COLUMN memories.updated_at IS 'When it was last told again, or changed.';
COMMENT ON COLUMN memories.retired_at IS
    'Since when it is not believed any more; kept so that it can be taken back. NULL: it holds.';
COMMENT ON COLUMN memories.retired_reason IS
    'replaced, outdated, contradicted, duplicate, edited, undone, or limit (too many facts).';
COMMENT ON COLUMN memories.superseded_by IS 'The fact that took its place, or NULL.';
COMMENT ON COLUMN memories.recalls IS 'How many answers cited it.';
COMMENT ON COLUMN memories.content_hash IS
    'sha256 of the normalised text; in a group, with the id of the member who told it.';
COMMENT ON COLUMN memories.speaker_id IS
    'In a group: Telegram id of the member who told it, and whom "user" in subject means.';
COMMENT ON COLUMN memories.speaker IS 'In a group: that member''s name.';

CREATE TABLE memory_sources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    message_id bigint REFERENCES messages ON DELETE SET NULL,
    uid text NOT NULL,
    episode text NOT NULL,
    quote text NOT NULL,
    said_at timestamptz NOT NULL,
    sender_id bigint,
    author_id bigint,
    CONSTRAINT memory_sources_once UNIQUE (memory_id, uid)
);
CREATE INDEX memory_sources_by_message ON memory_sources (message_id);
CREATE INDEX memory_sources_by_uid ON memory_sources (uid);
CREATE INDEX memory_sources_by_episode ON memory_sources (episode);
CREATE INDEX memory_sources_by_sender ON memory_sources (sender_id) WHERE sender_id IS NOT NULL;
CREATE INDEX memory_sources_by_author ON memory_sources (author_id) WHERE author_id IS NOT NULL;
COMMENT ON TABLE memory_sources IS
    'Where facts were told: one row for each message that told a fact.';
COMMENT ON COLUMN memory_sources.id IS 'Its number.';
COMMENT ON COLUMN memory_sources.memory_id IS 'The fact.';
COMMENT ON COLUMN memory_sources.message_id IS 'The message; NULL once it is gone.';
COMMENT ON COLUMN memory_sources.uid IS
    'msg-<message id>; it stays when /new deletes the message.';
COMMENT ON COLUMN memory_sources.episode IS
    'teach_msg-<message id>; edited_msg-<message id> once that message was edited.';
COMMENT ON COLUMN memory_sources.quote IS 'The words that told it, as they were written.';
COMMENT ON COLUMN memory_sources.said_at IS 'When it was told.';
COMMENT ON COLUMN memory_sources.sender_id IS
    'Telegram id of who told it; in a group that is not the owner.';
COMMENT ON COLUMN memory_sources.author_id IS 'Who wrote it, where sender_id forwarded it.';

CREATE TABLE entities (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    name text NOT NULL,
    normalised_name text NOT NULL,
    CONSTRAINT entities_once UNIQUE (telegram_user_id, thread_id, normalised_name)
);
COMMENT ON TABLE entities IS
    'People, places and things that facts are about; the search finds their facts by them.';
COMMENT ON COLUMN entities.id IS 'Its number.';
COMMENT ON COLUMN entities.telegram_user_id IS 'The owner: a person, or a group (negative).';
COMMENT ON COLUMN entities.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN entities.name IS 'Its name, as a fact has it.';
COMMENT ON COLUMN entities.normalised_name IS 'Its search terms, sorted and joined by spaces.';

CREATE TABLE memory_entities (
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    entity_id bigint NOT NULL REFERENCES entities ON DELETE CASCADE,
    PRIMARY KEY (memory_id, entity_id)
);
CREATE INDEX memory_entities_by_entity ON memory_entities (entity_id, memory_id);
COMMENT ON TABLE memory_entities IS 'Which fact is about which of entities.';
COMMENT ON COLUMN memory_entities.memory_id IS 'The fact.';
COMMENT ON COLUMN memory_entities.entity_id IS 'Whom or what it is about.';

CREATE TABLE rejected_facts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    message_id bigint REFERENCES messages ON DELETE CASCADE,
    reason text NOT NULL,
    text text,
    origin text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX rejected_facts_by_owner ON rejected_facts (telegram_user_id, thread_id, id DESC);
CREATE INDEX rejected_facts_by_message ON rejected_facts (message_id);
CREATE INDEX rejected_facts_by_time ON rejected_facts (created_at);
COMMENT ON TABLE rejected_facts IS
    'What a model wanted to remember and the gate refused, so that an operator can see why.';
COMMENT ON COLUMN rejected_facts.id IS 'Its number.';
COMMENT ON COLUMN rejected_facts.telegram_user_id IS 'The owner: a person, or a group (negative).';
COMMENT ON COLUMN rejected_facts.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN rejected_facts.message_id IS 'The message that it was taken from.';
COMMENT ON COLUMN rejected_facts.reason IS 'Why it was refused, one word.';
COMMENT ON COLUMN rejected_facts.text IS 'The fact; NULL when it looked like a secret.';
COMMENT ON COLUMN rejected_facts.origin IS 'As in memories.';
COMMENT ON COLUMN rejected_facts.created_at IS 'When it was refused.';

CREATE TABLE conversation_summaries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_position integer NOT NULL,
    last_position integer NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT conversation_summaries_once UNIQUE (conversation_id, first_position),
    CHECK (first_position <= last_position)
);
COMMENT ON TABLE conversation_summaries IS
    'Messages that left the recent window, in a sentence or two; gapless and in order.';
COMMENT ON COLUMN conversation_summaries.id IS 'Its number.';
COMMENT ON COLUMN conversation_summaries.conversation_id IS 'The conversation.';
COMMENT ON COLUMN conversation_summaries.first_position IS
    'messages.position of the first message that it sums up.';
COMMENT ON COLUMN conversation_summaries.last_position IS 'And of the last one.';
COMMENT ON COLUMN conversation_summaries.content IS 'The summary.';
COMMENT ON COLUMN conversation_summaries.created_at IS 'When it was written.';

CREATE TABLE answer_sources (
    answer_id bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    number smallint NOT NULL,
    message_id bigint REFERENCES messages ON DELETE SET NULL,
    memory_id bigint REFERENCES memories ON DELETE SET NULL,
    PRIMARY KEY (answer_id, number)
);
CREATE INDEX answer_sources_by_message ON answer_sources (message_id);
CREATE INDEX answer_sources_by_memory ON answer_sources (memory_id);
COMMENT ON TABLE answer_sources IS 'What [1], [2], ... in an answer stand for.';
COMMENT ON COLUMN answer_sources.answer_id IS 'The answer: messages.id.';
COMMENT ON COLUMN answer_sources.number IS '1 for [1].';
COMMENT ON COLUMN answer_sources.message_id IS 'The message that was cited, while it is there.';
COMMENT ON COLUMN answer_sources.memory_id IS 'The fact that was cited, while it is there.';

CREATE TABLE consolidations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('duplicate', 'contradiction', 'entity')),
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    kept_memory_id bigint REFERENCES memories ON DELETE CASCADE,
    entity_id bigint REFERENCES entities ON DELETE CASCADE,
    kept_entity_id bigint REFERENCES entities ON DELETE CASCADE,
    details jsonb NOT NULL DEFAULT '{}',
    done_at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    CHECK (num_nulls(memory_id, kept_memory_id) = CASE kind WHEN 'entity' THEN 2 ELSE 0 END),
    CHECK (num_nulls(entity_id, kept_entity_id) = CASE kind WHEN 'entity' THEN 0 ELSE 2 END)
);
CREATE INDEX consolidations_by_memory ON consolidations (memory_id);
CREATE INDEX consolidations_by_kept_memory ON consolidations (kept_memory_id);
CREATE INDEX consolidations_by_entity ON consolidations (entity_id);
CREATE INDEX consolidations_by_kept_entity ON consolidations (kept_entity_id);
COMMENT ON TABLE consolidations IS
    'What the nightly job found to be the same, or to contradict; undone pairs are left alone.';
COMMENT ON COLUMN consolidations.id IS 'Its number.';
COMMENT ON COLUMN consolidations.kind IS
    'duplicate or contradiction (of two facts), or entity (two names of one person or thing).';
COMMENT ON COLUMN consolidations.memory_id IS 'The fact that was retired.';
COMMENT ON COLUMN consolidations.kept_memory_id IS 'The fact that was kept.';
COMMENT ON COLUMN consolidations.entity_id IS 'One name.';
COMMENT ON COLUMN consolidations.kept_entity_id IS
    'The other, with whose facts it now shares its own.';
COMMENT ON COLUMN consolidations.details IS
    'What undoing it needs: ids, numbers and times, no text.';
COMMENT ON COLUMN consolidations.done_at IS 'When the job did it.';
COMMENT ON COLUMN consolidations.undone_at IS 'When an operator took it back, or NULL.';

CREATE TABLE forgettings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    kept jsonb NOT NULL
);
CREATE INDEX forgettings_by_owner ON forgettings (telegram_user_id, thread_id, id DESC);
CREATE INDEX forgettings_by_time ON forgettings (created_at);
COMMENT ON TABLE forgettings IS
    'What was forgotten in the last minutes, so that it can be taken back; nothing else reads it.';
COMMENT ON COLUMN forgettings.id IS 'Its number.';
COMMENT ON COLUMN forgettings.telegram_user_id IS 'The owner: a person, or a group (negative).';
COMMENT ON COLUMN forgettings.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN forgettings.created_at IS 'When; the row is deleted ten minutes later.';
COMMENT ON COLUMN forgettings.kept IS
    'texts: what was told as forgotten; facts, sources, quotes: rows; messages: as they were.';
"""

SEARCH = """
CREATE EXTENSION IF NOT EXISTS vector;

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

CREATE TABLE embedding_means (
    model_id smallint NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    language text NOT NULL CHECK (language IN ('ru', 'uk', 'en')),
    form text NOT NULL CHECK (form IN ('statement', 'question')),
    mean real[] NOT NULL,
    PRIMARY KEY (model_id, language, form)
);
COMMENT ON TABLE embedding_means IS
    'What generic texts of a language and form share; subtracted from the vectors of such texts.';
COMMENT ON COLUMN embedding_means.model_id IS 'The model.';
COMMENT ON COLUMN embedding_means.language IS 'Of the texts: ru, uk or en.';
COMMENT ON COLUMN embedding_means.form IS 'Of the texts: statement or question.';
COMMENT ON COLUMN embedding_means.mean IS 'The mean of their vectors.';

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
COMMENT ON COLUMN search_owners.telegram_user_id IS 'The owner: a person, or a group (negative).';
COMMENT ON COLUMN search_owners.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN search_owners.next_position IS 'The position that his next document gets.';
COMMENT ON COLUMN search_owners.documents IS 'How many documents he has.';
COMMENT ON COLUMN search_owners.terms IS 'How many terms they have together.';

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
COMMENT ON TABLE search_documents IS
    'What the search can find: messages, facts (memories) and summaries.';
COMMENT ON COLUMN search_documents.id IS 'Its number.';
COMMENT ON COLUMN search_documents.telegram_user_id IS
    'The owner: a person, or a group (negative).';
COMMENT ON COLUMN search_documents.thread_id IS 'The topic of a forum group, else 0.';
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
COMMENT ON TABLE search_postings IS
    'The search by words: which term stands in which document, and how often.';
COMMENT ON COLUMN search_postings.telegram_user_id IS
    'The owner: a person, or a group (negative).';
COMMENT ON COLUMN search_postings.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN search_postings.term IS 'The word, cut to its stem.';
COMMENT ON COLUMN search_postings.position IS 'search_documents.position of its document.';
COMMENT ON COLUMN search_postings.frequency IS 'How often it stands there.';
COMMENT ON COLUMN search_postings.length IS 'Terms of its document, for BM25.';
COMMENT ON COLUMN search_postings.in_talk IS
    'Whether the word counts for the neighbouring documents as well.';
COMMENT ON COLUMN search_postings.document_id IS 'The document, with which it goes.';

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
COMMENT ON TABLE document_embeddings IS
    'The search by meaning: a vector for each document, of each model in use.';
COMMENT ON COLUMN document_embeddings.telegram_user_id IS
    'The owner: a person, or a group (negative).';
COMMENT ON COLUMN document_embeddings.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN document_embeddings.model_id IS 'The model that made the vector.';
COMMENT ON COLUMN document_embeddings.position IS 'search_documents.position of its document.';
COMMENT ON COLUMN document_embeddings.document_id IS 'The document, with which it goes.';
COMMENT ON COLUMN document_embeddings.embedding IS
    'Centred and of length 1, so that the inner product is the centred cosine.';

CREATE TABLE embedding_failures (
    document_id bigint NOT NULL REFERENCES search_documents ON DELETE CASCADE,
    model_id smallint NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
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
"""

FACTS = """
CREATE VIEW facts AS
SELECT f.id, f.telegram_user_id, f.thread_id, f.speaker_id, f.speaker, f.text, f.memory_type,
       f.subject, f.relation, f.object, f.importance, f.pinned, f.valid_from, f.valid_until,
       f.retired_at IS NULL AND coalesce(f.valid_until > now(), true) AS holds,
       f.retired_at, f.retired_reason, f.superseded_by, successor.text AS replaced_by,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote, f.origin, f.created_at, f.content_hash
FROM memories f
LEFT JOIN memories successor ON successor.id = f.superseded_by
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true;
COMMENT ON VIEW facts IS
    'What is known of whom, since when, from which message; retired facts too. Such as: SELECT * '
    'FROM facts WHERE telegram_user_id = 123 AND holds ORDER BY importance DESC.';
COMMENT ON COLUMN facts.id IS 'memories.id; fact-12 in references is fact 12.';
COMMENT ON COLUMN facts.telegram_user_id IS
    'Of whom it is known: a person''s Telegram id, or a group''s negative chat id.';
COMMENT ON COLUMN facts.thread_id IS 'In which topic of a forum group, else 0.';
COMMENT ON COLUMN facts.speaker_id IS 'In a group: Telegram id of the member who told it.';
COMMENT ON COLUMN facts.speaker IS 'In a group: that member''s name.';
COMMENT ON COLUMN facts.text IS 'The fact, in the language in which it was told.';
COMMENT ON COLUMN facts.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
COMMENT ON COLUMN facts.subject IS 'Whom it is about: user, brother, a name, ...';
COMMENT ON COLUMN facts.relation IS 'What it says of him: lives_in, name, ...';
COMMENT ON COLUMN facts.object IS 'The value, as it was said.';
COMMENT ON COLUMN facts.importance IS 'From 1 to 10.';
COMMENT ON COLUMN facts.pinned IS 'Whether the user wants the model to see it always.';
COMMENT ON COLUMN facts.valid_from IS
    'Since when it holds in the world, as far as that is known; said_at is when it was told.';
COMMENT ON COLUMN facts.valid_until IS 'Until when it holds in the world; NULL: open.';
COMMENT ON COLUMN facts.holds IS 'Whether it is believed now: not retired, and not over.';
COMMENT ON COLUMN facts.retired_at IS 'Since when it is not believed any more, or NULL.';
COMMENT ON COLUMN facts.retired_reason IS
    'replaced, outdated, contradicted, duplicate, edited, undone, or limit (too many facts).';
COMMENT ON COLUMN facts.superseded_by IS 'The number of the fact that took its place, or NULL.';
COMMENT ON COLUMN facts.replaced_by IS 'The text of that fact.';
COMMENT ON COLUMN facts.uid IS
    'The message that told it last, msg-<message id>; mem-<id> when no message is known.';
COMMENT ON COLUMN facts.said_at IS 'When it was told last.';
COMMENT ON COLUMN facts.message_id IS 'The message that told it last, while it is there.';
COMMENT ON COLUMN facts.quote IS 'The words that told it, as they were written.';
COMMENT ON COLUMN facts.origin IS
    'How it came here: tool (the model saved it), teach (strict mode), command (/remember), '
    'extraction (a background job read the messages).';
COMMENT ON COLUMN facts.created_at IS 'When it was stored.';
COMMENT ON COLUMN facts.content_hash IS 'As in memories.';
"""

DOWNGRADE = """
DROP VIEW facts;
DROP TABLE embedding_failures, document_embeddings, search_postings, search_documents,
    search_owners, embedding_means, embedding_models;
DROP EXTENSION vector;
DROP TABLE forgettings, consolidations, answer_sources, conversation_summaries, rejected_facts,
    memory_entities, entities, memory_sources, memories;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for part in (MEMORY, SEARCH, FACTS):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
