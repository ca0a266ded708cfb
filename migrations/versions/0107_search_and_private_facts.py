"""What the search, private facts and pictures need beside what was there before.

The search tells what people said from what the bot answered, and knows long messages by parts:
both indexes hold the voice, so that a search for what people said reads nothing else, and a long
message has a vector for each of its passages.

A private fact (the code of a door, the password of a wifi, kept on request) has a mask in its text
in the place of the secret, and so has all that is made of it; the secret stands in a column of its
own.

The message that describes a picture keeps its file id, so that it can be looked at again.
"""

from alembic import op

revision = "0107"
down_revision = "0106"

SEARCH = """
ALTER TABLE search_postings ADD is_answer boolean NOT NULL DEFAULT false;
UPDATE search_postings p SET is_answer = d.speaker = 'assistant', in_talk = false
FROM search_documents d
WHERE d.id = p.document_id AND d.speaker IN ('user', 'assistant') AND p.in_talk;
ALTER TABLE search_postings DROP CONSTRAINT search_postings_once,
    ADD CONSTRAINT search_postings_once PRIMARY KEY (owner_id, term, is_answer, position)
        INCLUDE (frequency, length, in_talk);
COMMENT ON COLUMN search_postings.is_answer IS 'Whether the bot said it.';
COMMENT ON COLUMN search_postings.in_talk IS
    'Whether the word counts for the neighbouring documents as well: where several people talk.';

ALTER TABLE document_embeddings ADD is_answer boolean NOT NULL DEFAULT false,
    ADD starts_at integer NOT NULL DEFAULT 0;
UPDATE document_embeddings e SET is_answer = true
FROM search_documents d WHERE d.id = e.document_id AND d.speaker = 'assistant';
DROP INDEX document_embeddings_by_owner;
ALTER TABLE document_embeddings DROP CONSTRAINT document_embeddings_pkey,
    ADD PRIMARY KEY (document_id, model_id, starts_at);
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (owner_id, model_id, is_answer, position) INCLUDE (starts_at, embedding);
COMMENT ON TABLE document_embeddings IS
    'The search by meaning: a vector for each document, of each model in use; of a long message '
    'one for each passage.';
COMMENT ON COLUMN document_embeddings.is_answer IS 'Whether the bot said it.';
COMMENT ON COLUMN document_embeddings.starts_at IS
    'Where the passage begins in the message, in characters; 0: at its beginning.';

UPDATE search_owners o SET documents = counted.documents, terms = counted.terms
FROM (SELECT owner_id, count(*) FILTER (WHERE speaker <> 'assistant') AS documents,
             coalesce(sum(length) FILTER (WHERE speaker <> 'assistant'), 0) AS terms
      FROM search_documents GROUP BY owner_id) AS counted
WHERE counted.owner_id = o.owner_id;
COMMENT ON COLUMN search_owners.documents IS 'How many documents he has, answers not counted.';
COMMENT ON COLUMN search_owners.terms IS 'How many terms they have together, answers not counted.';
"""

PRIVATE_FACTS = """
ALTER TABLE memories DROP CONSTRAINT memories_memory_type_check;
ALTER TABLE memories ADD private_text text,
    ADD CONSTRAINT memories_memory_type_check CHECK (memory_type IN
        ('user_fact', 'preference', 'event', 'conversation_insight', 'private')),
    ADD CONSTRAINT memories_private_text CHECK
        ((memory_type = 'private') = (private_text IS NOT NULL));
COMMENT ON COLUMN memories.private_text IS
    'Of a private fact: the text with the code or password, shown only when it is asked for.';
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door, kept on request; masked in the text).';
COMMENT ON COLUMN facts.memory_type IS
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door, kept on request; masked in the text).';
CREATE VIEW private_facts AS SELECT id, private_text FROM memories WHERE private_text IS NOT NULL;
COMMENT ON VIEW private_facts IS 'What private facts say; the view facts has a mask there.';
COMMENT ON COLUMN private_facts.id IS 'memories.id.';
COMMENT ON COLUMN private_facts.private_text IS 'The fact with its code or password.';
"""

# Vectors of later passages go.
DOWN_SEARCH = """
DELETE FROM document_embeddings WHERE starts_at > 0;
DROP INDEX document_embeddings_by_owner;
ALTER TABLE document_embeddings DROP CONSTRAINT document_embeddings_pkey, DROP is_answer,
    DROP starts_at, ADD PRIMARY KEY (document_id, model_id);
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (owner_id, model_id, position) INCLUDE (embedding);
COMMENT ON TABLE document_embeddings IS
    'The search by meaning: a vector for each document, of each model in use.';
UPDATE search_postings p SET in_talk = true
FROM search_documents d WHERE d.id = p.document_id AND d.kind = 'message';
ALTER TABLE search_postings DROP CONSTRAINT search_postings_once, DROP is_answer,
    ADD CONSTRAINT search_postings_once PRIMARY KEY (owner_id, term, position)
        INCLUDE (frequency, length, in_talk);
COMMENT ON COLUMN search_postings.in_talk IS
    'Whether the word counts for the neighbouring documents as well.';
UPDATE search_owners o SET documents = counted.documents, terms = counted.terms
FROM (SELECT owner_id, count(*) AS documents, coalesce(sum(length), 0) AS terms
      FROM search_documents GROUP BY owner_id) AS counted
WHERE counted.owner_id = o.owner_id;
COMMENT ON COLUMN search_owners.documents IS 'How many documents he has.';
COMMENT ON COLUMN search_owners.terms IS 'How many terms they have together.';
"""

# Before it there were no such facts.
DOWN_PRIVATE_FACTS = """
DROP VIEW private_facts;
DELETE FROM memories WHERE memory_type = 'private';
ALTER TABLE memories DROP CONSTRAINT memories_memory_type_check,
    DROP CONSTRAINT memories_private_text, DROP private_text;
ALTER TABLE memories ADD CONSTRAINT memories_memory_type_check CHECK (memory_type IN
    ('user_fact', 'preference', 'event', 'conversation_insight'));
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
COMMENT ON COLUMN facts.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
"""


PICTURES = """
ALTER TABLE messages ADD file_id text;
COMMENT ON COLUMN messages.file_id IS
    'Of a picture that the message describes: under which Telegram gives it to the bot again.';
"""
DOWN_PICTURES = "ALTER TABLE messages DROP file_id"


def upgrade():
    for part in (SEARCH, PRIVATE_FACTS, PICTURES):
        op.get_bind().connection.cursor().execute(part)


def downgrade():
    for part in (DOWN_PICTURES, DOWN_PRIVATE_FACTS, DOWN_SEARCH):
        op.get_bind().connection.cursor().execute(part)
