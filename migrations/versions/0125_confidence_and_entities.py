"""Facts have the model's confidence, entities a type, and search terms are folded as quotes are.

A word with letters of two scripts ("кiт" with a Latin i) was a term of its own; now it is the word
that it looks like. Terms hold the beginnings of words only, so the few Latin words of more than
four letters that were typed with a Cyrillic one keep their old term until they are said again.
"""

from alembic import op

revision = "0125"
down_revision = "0124"

FACTS = """
ALTER TABLE memories ADD confidence real DEFAULT 1
    CONSTRAINT memories_confidence_check CHECK (confidence BETWEEN 0 AND 1);
COMMENT ON COLUMN memories.confidence IS
    'How sure the model was that the user meant it, 0 to 1; an unsure fact replaces no surer one. '
    'NULL: 1, on a row that was forgotten before version 0125 and taken back.';
ALTER TABLE entities ADD entity_type text DEFAULT 'thing'
    CONSTRAINT entities_type_check
    CHECK (entity_type IN ('person', 'place', 'pet', 'organisation', 'thing'));
COMMENT ON COLUMN entities.entity_type IS
    'What it is, as far as its facts say: person, place, pet, organisation, or thing (also NULL).';
COMMENT ON COLUMN entities.normalised_name IS
    'The dictionary forms of its words, sorted and joined by spaces; of entities from before '
    'version 0125 their search terms.';
CREATE OR REPLACE VIEW facts AS
SELECT f.id, o.telegram_user_id, o.thread_id, f.speaker_id, f.speaker, f.text, f.memory_type,
       f.subject, f.relation, f.object, f.importance, f.pinned, f.valid_from, f.valid_until,
       f.retired_at IS NULL AND coalesce(f.valid_until > now(), true) AS holds,
       f.retired_at, f.retired_reason, f.superseded_by, successor.text AS replaced_by,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote, f.origin, f.created_at, f.content_hash, f.owner_id,
       coalesce(f.confidence, 1) AS confidence
FROM memories f
LEFT JOIN owners o ON o.id = f.owner_id  -- not asked where nobody reads its columns
LEFT JOIN memories successor ON successor.id = f.superseded_by
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true;
COMMENT ON COLUMN facts.confidence IS 'How sure the model was of it, 0 to 1.';
"""

# Letters that look alike, and words with a letter that only the one or the other script has.
FOLD_TERMS = """
WITH mixed AS (
    DELETE FROM search_postings
    WHERE (term ~ '[a-z]' AND term ~ '[а-яіїєґ]' AND term !~ '^='
           AND NOT (term ~ '[dfgjlnqrsuvwz]' AND term ~ '[бгджзийлпфцчшщъыьэюяїєґ]'))
       OR term <> normalize(term, NFKC)
    RETURNING *
), folded AS (
    SELECT m.*, lower(normalize(CASE
        WHEN term ~ '[dfgjlnqrsuvwz]' THEN translate(term, 'авсенікмортху', 'abcehikmoptxy')
        WHEN term ~ '[а-яіїєґ]' THEN translate(term, 'abcehikmoptxy', 'авсенікмортху')
        ELSE term END, NFKC)) AS new_term
    FROM mixed m
)
INSERT INTO search_postings (owner_id, term, is_answer, position, frequency, length, in_talk,
                             document_id)
SELECT owner_id, new_term, is_answer, position, frequency, length, in_talk, document_id
FROM folded ON CONFLICT DO NOTHING
"""

AS_BEFORE = """
CREATE TEMPORARY TABLE comments_of_facts ON COMMIT DROP AS
SELECT a.attname, d.description FROM pg_description d
LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE d.objoid = 'facts'::regclass AND d.classoid = 'pg_class'::regclass;
DROP VIEW facts;
CREATE VIEW facts AS
SELECT f.id, o.telegram_user_id, o.thread_id, f.speaker_id, f.speaker, f.text, f.memory_type,
       f.subject, f.relation, f.object, f.importance, f.pinned, f.valid_from, f.valid_until,
       f.retired_at IS NULL AND coalesce(f.valid_until > now(), true) AS holds,
       f.retired_at, f.retired_reason, f.superseded_by, successor.text AS replaced_by,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote, f.origin, f.created_at, f.content_hash, f.owner_id
FROM memories f
LEFT JOIN owners o ON o.id = f.owner_id
LEFT JOIN memories successor ON successor.id = f.superseded_by
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true;
DO $$
DECLARE kept record;
BEGIN
    FOR kept IN SELECT * FROM comments_of_facts LOOP
        IF kept.attname IS NULL THEN
            EXECUTE format('COMMENT ON VIEW facts IS %L', kept.description);
        ELSIF kept.attname <> 'confidence' THEN
            EXECUTE format('COMMENT ON COLUMN facts.%I IS %L', kept.attname, kept.description);
        END IF;
    END LOOP;
END
$$;
ALTER TABLE memories DROP confidence;
ALTER TABLE entities DROP entity_type;
COMMENT ON COLUMN entities.normalised_name IS 'Its search terms, sorted and joined by spaces.';
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(FACTS)
    cursor.execute(FOLD_TERMS)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
