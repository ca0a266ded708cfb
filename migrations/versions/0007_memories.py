"""What is remembered: facts with their sources, the people and things in them, summaries.

Beside them: the order of messages within their conversation, how far its history has been read by
the background jobs, the user's mode, and the settings that an operator may change while it runs.
"""

from alembic import op

revision = "0007"
down_revision = "0006"

UPGRADE = """
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
    recalled_at timestamptz,
    content_hash text NOT NULL
);
CREATE UNIQUE INDEX memories_living_once ON memories (telegram_user_id, thread_id, content_hash)
    WHERE retired_at IS NULL;
CREATE INDEX memories_key_facts ON memories
    (telegram_user_id, thread_id, pinned DESC, importance DESC, created_at DESC, id DESC)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_relation ON memories (telegram_user_id, thread_id, subject, relation)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
COMMENT ON TABLE memories IS
    'Facts that a user told; only ever what he said, never what the bot did.';
COMMENT ON COLUMN memories.subject IS
    'Whom it is about, in its canonical form: user, brother, ...';
COMMENT ON COLUMN memories.valid_from IS
    'When it holds in the world, as far as that is known.';
COMMENT ON COLUMN memories.retired_at IS
    'Since when it is not believed any more; kept for undo.';
COMMENT ON COLUMN memories.content_hash IS 'sha256 of the normalised text.';

CREATE TABLE memory_sources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    message_id bigint REFERENCES messages ON DELETE SET NULL,
    uid text NOT NULL,
    episode text NOT NULL,
    quote text NOT NULL,
    said_at timestamptz NOT NULL,
    CONSTRAINT memory_sources_once UNIQUE (memory_id, uid)
);
CREATE INDEX memory_sources_by_message ON memory_sources (message_id);
CREATE INDEX memory_sources_by_uid ON memory_sources (uid);
CREATE INDEX memory_sources_by_episode ON memory_sources (episode);
COMMENT ON COLUMN memory_sources.uid IS
    'msg-<message id>; it stays when /new deletes the message.';
COMMENT ON COLUMN memory_sources.episode IS 'teach_msg-<message id> (seed 003).';

CREATE TABLE entities (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    name text NOT NULL,
    normalised_name text NOT NULL,
    entity_type text NOT NULL,
    CONSTRAINT entities_once UNIQUE (telegram_user_id, thread_id, normalised_name)
);
CREATE TABLE memory_entities (
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    entity_id bigint NOT NULL REFERENCES entities ON DELETE CASCADE,
    PRIMARY KEY (memory_id, entity_id)
);
CREATE INDEX memory_entities_by_entity ON memory_entities (entity_id, memory_id);
COMMENT ON TABLE entities IS 'People, places and things that facts are about.';
COMMENT ON COLUMN entities.normalised_name IS 'Its search terms, sorted and joined by spaces.';

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
COMMENT ON TABLE rejected_facts IS 'What the gate refused to remember, and why.';
COMMENT ON COLUMN rejected_facts.text IS 'Empty when it looked like a secret.';

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

ALTER TABLE conversations ADD COLUMN extracted_position integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN conversations.extracted_position IS
    'Messages up to this position have been read for facts.';

ALTER TABLE messages ADD COLUMN position integer;
UPDATE messages m SET position = counted.number
FROM (SELECT id, row_number() OVER (PARTITION BY conversation_id ORDER BY created_at, id) AS number
      FROM messages) AS counted
WHERE counted.id = m.id;
ALTER TABLE messages ALTER COLUMN position SET NOT NULL;
ALTER TABLE messages ADD COLUMN said_at timestamptz;
UPDATE messages SET said_at = created_at;
ALTER TABLE messages ALTER COLUMN said_at SET DEFAULT now(), ALTER COLUMN said_at SET NOT NULL;
ALTER TABLE messages ADD COLUMN indexed_at timestamptz;
ALTER TABLE messages ADD COLUMN is_forgotten boolean NOT NULL DEFAULT false;
CREATE INDEX messages_by_position ON messages (conversation_id, position, id);
CREATE INDEX messages_unindexed ON messages (conversation_id, id)
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten;
COMMENT ON COLUMN messages.position IS 'Its number within the conversation, from 1.';
COMMENT ON COLUMN messages.said_at IS
    'When it was written; created_at is when it was stored, later after an outage.';
COMMENT ON COLUMN messages.is_forgotten IS
    'The user asked to forget it: not shown to the model, not searched, not read for facts.';
COMMENT ON COLUMN messages.indexed_at IS 'When the search took it in; an edit clears it.';

ALTER TABLE user_settings ADD COLUMN mode text NOT NULL DEFAULT 'assistant'
    CHECK (mode IN ('assistant', 'strict'));

CREATE TABLE global_settings (
    id integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    memory_extraction_enabled boolean NOT NULL DEFAULT true,
    memory_extraction_window integer NOT NULL DEFAULT 20 CHECK (memory_extraction_window > 0),
    memory_extraction_silence_minutes integer NOT NULL DEFAULT 60
        CHECK (memory_extraction_silence_minutes > 0),
    memory_dedup_threshold real NOT NULL DEFAULT 0.85
        CHECK (memory_dedup_threshold BETWEEN 0 AND 1),
    memory_update_threshold real NOT NULL DEFAULT 0.95
        CHECK (memory_update_threshold BETWEEN 0 AND 1),
    memory_retrieve_limit integer NOT NULL DEFAULT 5
        CHECK (memory_retrieve_limit BETWEEN 0 AND 50),
    memory_retrieve_threshold real NOT NULL DEFAULT 0.6
        CHECK (memory_retrieve_threshold BETWEEN 0 AND 1),
    max_memories_per_user integer NOT NULL DEFAULT 1000 CHECK (max_memories_per_user > 0),
    summary_messages integer NOT NULL DEFAULT 6 CHECK (summary_messages BETWEEN 2 AND 100),
    summaries_shown integer NOT NULL DEFAULT 3 CHECK (summaries_shown BETWEEN 0 AND 20),
    summaries_kept integer NOT NULL DEFAULT 6 CHECK (summaries_kept BETWEEN 1 AND 100),
    history_step integer NOT NULL DEFAULT 10 CHECK (history_step BETWEEN 1 AND 29),
    updated_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO global_settings DEFAULT VALUES;
COMMENT ON TABLE global_settings IS
    'One row: what an operator may change while the bot runs; in force within seconds.';
"""

DOWNGRADE = """
DROP TABLE global_settings;
ALTER TABLE user_settings DROP COLUMN mode;
ALTER TABLE messages DROP COLUMN position, DROP COLUMN said_at, DROP COLUMN indexed_at,
    DROP COLUMN is_forgotten;
ALTER TABLE conversations DROP COLUMN extracted_position;
DROP TABLE answer_sources, conversation_summaries, rejected_facts, memory_entities, entities,
    memory_sources, memories;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
