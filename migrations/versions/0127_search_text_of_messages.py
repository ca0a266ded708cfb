"""A message is found by the words of its facts as well, and a mere question only where asked for.

The words of facts are part of the search text of their message. Such a word goes with the message
and with the fact, by foreign keys. Questions in which the user tells nothing are set apart as the
bot's answers are; of those from before this version, what ends in a question mark and has one
clause.
"""

from alembic import op

revision = "0127"
down_revision = "0126"

TOLD_WORDS = """
ALTER TABLE search_postings ADD told_by bigint REFERENCES search_documents ON DELETE CASCADE;
CREATE INDEX search_postings_told_by ON search_postings (told_by) WHERE told_by IS NOT NULL;
COMMENT ON COLUMN search_postings.told_by IS
    'Of a message''s word that only a fact says which it told: the document of that fact, with '
    'which the word goes.';
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id, told_by)
SELECT p.owner_id, p.term, d.position, p.frequency, d.length,
       d.speaker NOT IN ('user', 'assistant'), false, d.id, p.document_id
FROM memory_sources s
JOIN memories f ON f.id = s.memory_id
JOIN search_documents told ON told.memory_id = f.id
JOIN search_documents d ON d.message_id = s.message_id AND d.owner_id = told.owner_id
JOIN search_postings p ON p.document_id = told.id
WHERE d.speaker <> 'assistant'
  AND coalesce(f.retired_reason, '') NOT IN ('undone', 'edited', 'forgotten')
ORDER BY p.document_id
ON CONFLICT DO NOTHING;
"""

QUESTIONS = r"""
ALTER TABLE search_documents ADD asks boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN search_documents.asks IS
    'Whether the user only asks in it: it is searched where questions are asked for.';
COMMENT ON COLUMN search_postings.is_answer IS
    'Whether the bot said it, or the user in a mere question.';
UPDATE search_documents d SET asks = true FROM messages m
WHERE m.id = d.message_id AND d.speaker = 'user'
  AND message_text(m.content) ~ '^[^.!?,;:(\n]{1,80}[?]+\s*$';
UPDATE search_postings p SET is_answer = true FROM search_documents d
WHERE d.id = p.document_id AND d.asks AND p.told_by IS NULL;
DELETE FROM document_embeddings e USING search_documents d WHERE d.id = e.document_id AND d.asks;
"""

AS_BEFORE = """
DELETE FROM search_postings WHERE told_by IS NOT NULL;
ALTER TABLE search_postings DROP told_by;
UPDATE search_postings p SET is_answer = false FROM search_documents d
WHERE d.id = p.document_id AND d.asks;
UPDATE search_documents SET model_id = NULL WHERE asks;
ALTER TABLE search_documents DROP asks;
COMMENT ON COLUMN search_postings.is_answer IS 'Whether the bot said it.';
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(TOLD_WORDS)
    cursor.execute(QUESTIONS)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
