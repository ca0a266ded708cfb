"""Facts with their sources and entities, what can be undone, and two views of facts.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0203"
down_revision = "0202"

UPGRADE = r"""
CREATE TABLE memories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory_type text NOT NULL
        CHECK (memory_type IN ('user_fact', 'preference', 'event', 'conversation_insight',
            'private')),
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
    speaker text,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    private_text text,
    confidence real DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    CONSTRAINT memories_private_text CHECK ((memory_type = 'private') = (private_text IS NOT NULL))
);
CREATE INDEX memories_by_owner ON memories (owner_id, retired_at);
CREATE INDEX memories_by_relation ON memories (owner_id, subject, relation)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_forgotten ON memories (retired_at) WHERE retired_reason = 'forgotten';
CREATE INDEX memories_key_facts ON memories (owner_id, pinned DESC, importance DESC,
    created_at DESC, id DESC)
    WHERE retired_at IS NULL;
CREATE UNIQUE INDEX memories_living_once ON memories (owner_id, content_hash)
    WHERE retired_at IS NULL;
COMMENT ON TABLE memories IS
    'Facts that users told, never what the bot said; to read them, use the view facts.';
COMMENT ON COLUMN memories.id IS 'Its number; fact-12 in references is fact 12.';
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door or a wifi, masked in the text).';
COMMENT ON COLUMN memories.text IS 'The fact, in the language in which it was told.';
COMMENT ON COLUMN memories.language IS 'That language, such as ru; NULL: unknown.';
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
    'replaced, outdated, contradicted, duplicate, edited, undone, limit (too many facts), or '
    'forgotten: hidden from everything but an undo, and deleted ten minutes later.';
COMMENT ON COLUMN memories.superseded_by IS 'The fact that took its place, or NULL.';
COMMENT ON COLUMN memories.recalls IS 'How many answers cited it.';
COMMENT ON COLUMN memories.content_hash IS
    'sha256 of the normalised text; in a group, with the id of the member who told it.';
COMMENT ON COLUMN memories.speaker_id IS
    'In a group: Telegram id of the member who told it, and whom "user" in subject means.';
COMMENT ON COLUMN memories.speaker IS 'In a group: that member''s name.';
COMMENT ON COLUMN memories.owner_id IS 'The owner.';
COMMENT ON COLUMN memories.private_text IS
    'Of a private fact: the text with the code or password, shown only when it is asked for.';
COMMENT ON COLUMN memories.confidence IS
    'How sure the model was that the user meant it, 0 to 1; an unsure fact replaces no surer one. '
    'NULL: 1, on a row that was forgotten before version 0125 and taken back.';

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
CREATE INDEX memory_sources_by_author ON memory_sources (author_id) WHERE author_id IS NOT NULL;
CREATE INDEX memory_sources_by_episode ON memory_sources (episode);
CREATE INDEX memory_sources_by_message ON memory_sources (message_id);
CREATE INDEX memory_sources_by_sender ON memory_sources (sender_id) WHERE sender_id IS NOT NULL;
CREATE INDEX memory_sources_by_uid ON memory_sources (uid);
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
    name text NOT NULL,
    normalised_name text NOT NULL,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    entity_type text DEFAULT 'thing',
    CONSTRAINT entities_once UNIQUE (owner_id, normalised_name),
    CONSTRAINT entities_type_check CHECK (entity_type IN ('person', 'place', 'pet',
        'organisation', 'thing'))
);
COMMENT ON TABLE entities IS
    'People, places and things that facts are about; the search finds their facts by them.';
COMMENT ON COLUMN entities.id IS 'Its number.';
COMMENT ON COLUMN entities.name IS 'Its name, as a fact has it.';
COMMENT ON COLUMN entities.normalised_name IS
    'The dictionary forms of its words, sorted and joined by spaces; of entities from before '
    'version 0125 their search terms.';
COMMENT ON COLUMN entities.owner_id IS 'The owner.';
COMMENT ON COLUMN entities.entity_type IS
    'What it is, as far as its facts say: person, place, pet, organisation, or thing (also NULL).';

CREATE TABLE memory_entities (
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    entity_id bigint REFERENCES entities ON DELETE CASCADE,
    PRIMARY KEY (memory_id, entity_id)
);
CREATE INDEX memory_entities_by_entity ON memory_entities (entity_id, memory_id);
COMMENT ON TABLE memory_entities IS 'Which fact is about which of entities.';
COMMENT ON COLUMN memory_entities.memory_id IS 'The fact.';
COMMENT ON COLUMN memory_entities.entity_id IS 'Whom or what it is about.';

CREATE TABLE rejected_facts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id bigint REFERENCES messages ON DELETE CASCADE,
    reason text NOT NULL,
    text text,
    origin text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE
);
CREATE INDEX rejected_facts_by_message ON rejected_facts (message_id);
CREATE INDEX rejected_facts_by_owner ON rejected_facts (owner_id, id DESC);
CREATE INDEX rejected_facts_by_time ON rejected_facts (created_at);
COMMENT ON TABLE rejected_facts IS
    'What a model wanted to remember and the gate refused, so that an operator can see why.';
COMMENT ON COLUMN rejected_facts.id IS 'Its number.';
COMMENT ON COLUMN rejected_facts.message_id IS 'The message that it was taken from.';
COMMENT ON COLUMN rejected_facts.reason IS 'Why it was refused, one word.';
COMMENT ON COLUMN rejected_facts.text IS 'The fact; NULL when it looked like a secret.';
COMMENT ON COLUMN rejected_facts.origin IS 'As in memories.';
COMMENT ON COLUMN rejected_facts.created_at IS 'When it was refused.';
COMMENT ON COLUMN rejected_facts.owner_id IS 'The owner.';

CREATE TABLE answer_sources (
    answer_id bigint REFERENCES messages ON DELETE CASCADE,
    number smallint,
    message_id bigint REFERENCES messages ON DELETE SET NULL,
    memory_id bigint REFERENCES memories ON DELETE SET NULL,
    PRIMARY KEY (answer_id, number)
);
CREATE INDEX answer_sources_by_memory ON answer_sources (memory_id);
CREATE INDEX answer_sources_by_message ON answer_sources (message_id);
COMMENT ON TABLE answer_sources IS 'What [1], [2], ... in an answer stand for.';
COMMENT ON COLUMN answer_sources.answer_id IS 'The answer: messages.id.';
COMMENT ON COLUMN answer_sources.number IS '1 for [1].';
COMMENT ON COLUMN answer_sources.message_id IS 'The message that was cited, while it is there.';
COMMENT ON COLUMN answer_sources.memory_id IS 'The fact that was cited, while it is there.';

CREATE TABLE changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('saved', 'forgotten', 'merged', 'reminder')),
    memory_id bigint REFERENCES memories ON DELETE CASCADE,
    merged_id bigint REFERENCES memories ON DELETE CASCADE,
    asked_by bigint,
    before jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    CONSTRAINT changes_merged CHECK ((kind = 'merged') = (merged_id IS NOT NULL))
);
CREATE INDEX changes_by_memory ON changes (memory_id);
CREATE INDEX changes_by_merged ON changes (merged_id);
CREATE INDEX changes_by_owner ON changes (owner_id, id DESC);
CREATE INDEX changes_that_expire ON changes (made_at) WHERE kind IN ('forgotten', 'reminder');
COMMENT ON TABLE changes IS
    'Changes that can be undone; those of facts that were forgotten and of reminders for ten '
    'minutes, then they are deleted.';
COMMENT ON COLUMN changes.id IS 'Its number.';
COMMENT ON COLUMN changes.owner_id IS 'owners.id.';
COMMENT ON COLUMN changes.kind IS
    'saved (memory_id was stored, and may have replaced facts), forgotten, merged (merged_id was '
    'retired at night in favour of memory_id), reminder (cancelled or moved).';
COMMENT ON COLUMN changes.memory_id IS 'The new or kept fact.';
COMMENT ON COLUMN changes.merged_id IS 'The duplicate or contradicted fact of a merge.';
COMMENT ON COLUMN changes.asked_by IS 'In a group: the member who made it, and may undo it.';
COMMENT ON COLUMN changes.before IS
    'Columns as they were: facts (without texts), reminders; of a forgetting also messages, '
    'quotes and whole facts from which words were cut, and texts, what the reply named.';
COMMENT ON COLUMN changes.made_at IS 'When it was made.';
COMMENT ON COLUMN changes.undone_at IS
    'Of a merge: when it was undone; these two facts are not merged again.';

CREATE VIEW facts AS
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
    AND successor.retired_reason IS DISTINCT FROM 'forgotten'
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true
WHERE f.retired_reason IS DISTINCT FROM 'forgotten';
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
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door or a wifi, masked in the text).';
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
COMMENT ON COLUMN facts.owner_id IS 'owners.id.';
COMMENT ON COLUMN facts.confidence IS 'How sure the model was of it, 0 to 1.';

CREATE VIEW private_facts AS
SELECT id, private_text FROM memories f
WHERE private_text IS NOT NULL AND retired_reason IS DISTINCT FROM 'forgotten';
COMMENT ON VIEW private_facts IS 'What private facts say; the view facts has a mask there.';
COMMENT ON COLUMN private_facts.id IS 'memories.id.';
COMMENT ON COLUMN private_facts.private_text IS 'The fact with its code or password.';
"""

DOWNGRADE = """
DROP VIEW facts;
DROP VIEW private_facts;
DROP TABLE changes, answer_sources, rejected_facts, memory_entities, entities, memory_sources,
    memories;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
