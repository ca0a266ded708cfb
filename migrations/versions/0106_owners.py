"""Owners: a person (one, in whatever topic of the private chat), or a group and topic.

Every row of an owner's data hangs on ``owner_id``, directly or through a conversation, a fact or
a document, and goes with the owner. Conversations keep the Telegram id beside it, which follows
the owner's when a group becomes a supergroup. What a person told in several topics of the private
chat becomes one memory: of a fact that stands in several, the oldest is kept.
"""

import re

from alembic import context, op

revision = "0106"
down_revision = "0105"

OWNERS = """
CREATE TABLE owners (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    consolidated_at timestamptz,
    CONSTRAINT owners_once UNIQUE (telegram_user_id, thread_id),
    CONSTRAINT owners_of_conversations UNIQUE (id, telegram_user_id),
    CONSTRAINT owners_persons CHECK (telegram_user_id < 0 OR thread_id = 0)
);
COMMENT ON TABLE owners IS
    'Of whom something is kept: a person, or a group and topic; all of it goes with this row.';
COMMENT ON COLUMN owners.id IS 'Its number: owner_id in other tables.';
COMMENT ON COLUMN owners.telegram_user_id IS
    'A person''s Telegram id, or a group''s negative chat id.';
COMMENT ON COLUMN owners.thread_id IS
    'The topic of a forum group; 0: a person, or a group as a whole.';
COMMENT ON COLUMN owners.created_at IS 'When something was first kept.';
COMMENT ON COLUMN owners.consolidated_at IS
    'When the nightly job last went through the facts; NULL: never.';

CREATE FUNCTION add_owner(telegram_user_id bigint, thread_id bigint) RETURNS bigint
LANGUAGE sql AS $$
    INSERT INTO owners (telegram_user_id, thread_id)
    SELECT $1, CASE WHEN $1 < 0 THEN $2 ELSE 0 END
    WHERE NOT EXISTS (SELECT FROM owners o WHERE o.telegram_user_id = $1
                      AND o.thread_id = CASE WHEN $1 < 0 THEN $2 ELSE 0 END)
    ON CONFLICT DO NOTHING;
    SELECT o.id FROM owners o WHERE o.telegram_user_id = $1
        AND o.thread_id = CASE WHEN $1 < 0 THEN $2 ELSE 0 END;
$$;
COMMENT ON FUNCTION add_owner IS
    'The id of a person, or of a group and topic, in owners; who is not there is added.';
"""

# What a person told in several topics becomes one memory, before owners have ids.
FOLD = """
CREATE TEMPORARY TABLE same_facts ON COMMIT DROP AS
SELECT id AS gone, kept FROM (
    SELECT id, first_value(id) OVER (PARTITION BY telegram_user_id, content_hash ORDER BY id)
           AS kept
    FROM memories WHERE telegram_user_id >= 0 AND retired_at IS NULL) AS living
WHERE id <> kept;
INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at, sender_id,
                            author_id)
SELECT p.kept, s.message_id, s.uid, s.episode, s.quote, s.said_at, s.sender_id, s.author_id
FROM same_facts p JOIN memory_sources s ON s.memory_id = p.gone ORDER BY s.id
ON CONFLICT DO NOTHING;
INSERT INTO memory_entities (memory_id, entity_id)
SELECT p.kept, l.entity_id FROM same_facts p JOIN memory_entities l ON l.memory_id = p.gone
ON CONFLICT DO NOTHING;
UPDATE answer_sources s SET memory_id = p.kept FROM same_facts p WHERE s.memory_id = p.gone;
UPDATE question_facts q SET memory_id = p.kept FROM same_facts p WHERE q.memory_id = p.gone;
UPDATE memories f SET superseded_by = p.kept FROM same_facts p WHERE f.superseded_by = p.gone;
UPDATE memories f
SET pinned = f.pinned OR g.pinned, importance = greatest(f.importance, g.importance),
    recalls = f.recalls + g.recalls, updated_at = greatest(f.updated_at, g.updated_at)
FROM (SELECT p.kept, bool_or(m.pinned) AS pinned, max(m.importance) AS importance,
             sum(m.recalls)::integer AS recalls, max(m.updated_at) AS updated_at
      FROM same_facts p JOIN memories m ON m.id = p.gone GROUP BY p.kept) AS g
WHERE f.id = g.kept;
DELETE FROM memories WHERE id IN (SELECT gone FROM same_facts);

CREATE TEMPORARY TABLE same_entities ON COMMIT DROP AS
SELECT id AS gone, kept FROM (
    SELECT id, first_value(id) OVER (PARTITION BY telegram_user_id, normalised_name ORDER BY id)
           AS kept
    FROM entities WHERE telegram_user_id >= 0) AS named
WHERE id <> kept;
INSERT INTO memory_entities (memory_id, entity_id)
SELECT l.memory_id, p.kept FROM same_entities p JOIN memory_entities l ON l.entity_id = p.gone
ON CONFLICT DO NOTHING;
DELETE FROM entities WHERE id IN (SELECT gone FROM same_entities);
"""

# The documents of one topic after those of the other; the gap is wider than a word's reach.
SHIFTS = """
CREATE TEMPORARY TABLE shifts ON COMMIT DROP AS
SELECT telegram_user_id, thread_id, documents, terms, next_position,
       (sum(next_position + 8) OVER (PARTITION BY telegram_user_id ORDER BY thread_id)
        - next_position - 8)::integer AS by
FROM search_owners WHERE telegram_user_id >= 0;
"""
SHIFT = """
UPDATE {table} d SET position = position + s.by, thread_id = 0 FROM shifts s
WHERE d.telegram_user_id = s.telegram_user_id AND d.thread_id = s.thread_id AND s.thread_id <> 0
"""
UNITE = "UPDATE {table} SET thread_id = 0 WHERE telegram_user_id >= 0 AND thread_id <> 0"
SIZES = """
DELETE FROM search_owners WHERE telegram_user_id >= 0;
INSERT INTO search_owners (telegram_user_id, thread_id, next_position, documents, terms)
SELECT telegram_user_id, 0, max(by + next_position), sum(documents), sum(terms) FROM shifts
GROUP BY telegram_user_id;
"""

FILL = """
INSERT INTO owners (telegram_user_id, thread_id, created_at, consolidated_at)
SELECT telegram_user_id, CASE WHEN telegram_user_id < 0 THEN thread_id ELSE 0 END,
       min(created_at), CASE WHEN bool_and(consolidated_at IS NOT NULL)
                             THEN min(consolidated_at) END
FROM conversations GROUP BY 1, 2 ORDER BY min(created_at);
INSERT INTO owners (telegram_user_id, thread_id)
SELECT telegram_user_id, CASE WHEN telegram_user_id < 0 THEN thread_id ELSE 0 END FROM reminders
UNION SELECT telegram_user_id, thread_id FROM memories
UNION SELECT telegram_user_id, thread_id FROM entities
UNION SELECT telegram_user_id, thread_id FROM rejected_facts
UNION SELECT telegram_user_id, thread_id FROM forgettings
UNION SELECT telegram_user_id, thread_id FROM parting_messages
UNION SELECT telegram_user_id, thread_id FROM search_owners
UNION SELECT telegram_user_id, thread_id FROM search_documents
UNION SELECT telegram_user_id, 0 FROM user_settings
UNION SELECT telegram_user_id, 0 FROM daily_messages
UNION SELECT telegram_user_id, 0 FROM model_usage
ON CONFLICT DO NOTHING;
"""

# Tables whose rows get the owner's id in place of Telegram id and topic, or of Telegram id alone.
OF_TOPICS = (
    "memories", "entities", "rejected_facts", "forgettings", "parting_messages", "search_owners",
    "search_documents", "search_postings", "document_embeddings",
)  # fmt: skip
OF_CHATS = ("model_usage", "daily_messages", "user_settings")
# Those that go with their owner; postings and vectors go with their document.
WITH_OWNER = ("reminders", *OF_TOPICS[:-2], *OF_CHATS)

HANG = """
ALTER TABLE {table} ADD owner_id bigint;
UPDATE {table} t SET owner_id = o.id FROM owners o
WHERE o.telegram_user_id = t.telegram_user_id AND o.thread_id = {topic};
ALTER TABLE {table} ALTER owner_id SET NOT NULL;
COMMENT ON COLUMN {table}.owner_id IS 'The owner.';
"""
TOPIC = "CASE WHEN t.telegram_user_id < 0 THEN t.thread_id ELSE 0 END"
REFER = "ALTER TABLE {table} ADD FOREIGN KEY (owner_id) REFERENCES owners ON DELETE CASCADE"

VIEW = """
CREATE OR REPLACE VIEW facts AS
SELECT f.id, o.telegram_user_id, o.thread_id, f.speaker_id, f.speaker, f.text, f.memory_type,
       f.subject, f.relation, f.object, f.importance, f.pinned, f.valid_from, f.valid_until,
       f.retired_at IS NULL AND coalesce(f.valid_until > now(), true) AS holds,
       f.retired_at, f.retired_reason, f.superseded_by, successor.text AS replaced_by,
       coalesce(s.uid, 'mem-' || f.id) AS uid, coalesce(s.said_at, f.created_at) AS said_at,
       s.message_id, s.quote, f.origin, f.created_at, f.content_hash, f.owner_id
FROM memories f
LEFT JOIN owners o ON o.id = f.owner_id  -- not asked where nobody reads its columns
LEFT JOIN memories successor ON successor.id = f.superseded_by
LEFT JOIN LATERAL (SELECT uid, said_at, message_id, quote FROM memory_sources
                   WHERE memory_id = f.id ORDER BY said_at DESC, id DESC LIMIT 1) AS s ON true;
COMMENT ON COLUMN facts.owner_id IS 'owners.id.';
"""

KEYS = """
ALTER TABLE conversations DROP consolidated_at,
    ADD CONSTRAINT conversations_owner_fkey FOREIGN KEY (owner_id, telegram_user_id)
        REFERENCES owners (id, telegram_user_id) ON UPDATE CASCADE ON DELETE CASCADE;
CREATE INDEX conversations_by_owner ON conversations (owner_id);
COMMENT ON TABLE conversations IS
    'The current conversation of a chat, or of a topic of it; /new starts another.';
COMMENT ON COLUMN conversations.telegram_user_id IS
    'The chat: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN conversations.thread_id IS
    'The topic of a forum group or of a private chat, else 0.';
COMMENT ON COLUMN conversations.owner_id IS
    'The owner; topics of a private chat have the same one.';
CREATE INDEX reminders_of_owner ON reminders (owner_id, due_at, id);
COMMENT ON COLUMN reminders.owner_id IS 'The owner, to whose chat it is sent.';
COMMENT ON COLUMN reminders.thread_id IS 'The topic in which it was set, and is sent; 0: none.';

CREATE UNIQUE INDEX memories_living_once ON memories (owner_id, content_hash)
    WHERE retired_at IS NULL;
CREATE INDEX memories_key_facts ON memories
    (owner_id, pinned DESC, importance DESC, created_at DESC, id DESC) WHERE retired_at IS NULL;
CREATE INDEX memories_by_relation ON memories (owner_id, subject, relation)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_owner ON memories (owner_id, retired_at);
ALTER TABLE entities ADD CONSTRAINT entities_once UNIQUE (owner_id, normalised_name);
CREATE INDEX rejected_facts_by_owner ON rejected_facts (owner_id, id DESC);
CREATE INDEX forgettings_by_owner ON forgettings (owner_id, id DESC);
CREATE INDEX parting_messages_by_owner ON parting_messages (owner_id, message_id);
ALTER TABLE search_owners ADD PRIMARY KEY (owner_id);
ALTER TABLE search_documents
    ADD CONSTRAINT search_documents_in_order UNIQUE (owner_id, position);
CREATE INDEX search_documents_by_time ON search_documents (owner_id, said_at);
ALTER TABLE search_postings ADD CONSTRAINT search_postings_once
    PRIMARY KEY (owner_id, term, position) INCLUDE (frequency, length, in_talk);
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (owner_id, model_id, position) INCLUDE (embedding);
CREATE INDEX model_usage_by_owner ON model_usage (owner_id, created_at);
ALTER TABLE daily_messages ADD PRIMARY KEY (day, owner_id);
CREATE INDEX daily_messages_by_owner ON daily_messages (owner_id);
COMMENT ON COLUMN daily_messages.owner_id IS 'Who wrote them.';
ALTER TABLE user_settings ADD PRIMARY KEY (owner_id);
COMMENT ON COLUMN user_settings.owner_id IS 'Whose: a person''s, or those of a group as a whole.';
"""

# The way back: whose a row is stands in it again. Topics that became one memory stay one.
NAME_CHAT = """
ALTER TABLE {table} ADD telegram_user_id bigint;
UPDATE {table} t SET telegram_user_id = o.telegram_user_id FROM owners o WHERE o.id = t.owner_id;
ALTER TABLE {table} ALTER telegram_user_id SET NOT NULL;
"""
NAME_TOPIC = """
ALTER TABLE {table} ADD thread_id bigint NOT NULL DEFAULT 0;
UPDATE {table} t SET thread_id = o.thread_id FROM owners o WHERE o.id = t.owner_id;
"""
OLD_KEYS = """
CREATE INDEX reminders_of_owner ON reminders (telegram_user_id, thread_id, due_at, id)
    WHERE is_waiting;
CREATE UNIQUE INDEX memories_living_once ON memories (telegram_user_id, thread_id, content_hash)
    WHERE retired_at IS NULL;
CREATE INDEX memories_key_facts ON memories
    (telegram_user_id, thread_id, pinned DESC, importance DESC, created_at DESC, id DESC)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_relation ON memories (telegram_user_id, thread_id, subject, relation)
    WHERE retired_at IS NULL;
CREATE INDEX memories_by_owner ON memories (telegram_user_id, thread_id, retired_at);
ALTER TABLE entities
    ADD CONSTRAINT entities_once UNIQUE (telegram_user_id, thread_id, normalised_name);
CREATE INDEX rejected_facts_by_owner ON rejected_facts (telegram_user_id, thread_id, id DESC);
CREATE INDEX forgettings_by_owner ON forgettings (telegram_user_id, thread_id, id DESC);
CREATE INDEX parting_messages_by_owner
    ON parting_messages (telegram_user_id, thread_id, position);
ALTER TABLE search_owners ADD PRIMARY KEY (telegram_user_id, thread_id);
ALTER TABLE search_documents
    ADD CONSTRAINT search_documents_in_order UNIQUE (telegram_user_id, thread_id, position);
CREATE INDEX search_documents_by_time ON search_documents (telegram_user_id, thread_id, said_at);
ALTER TABLE search_postings ALTER thread_id DROP DEFAULT, ADD CONSTRAINT search_postings_once
    PRIMARY KEY (telegram_user_id, thread_id, term, position)
    INCLUDE (frequency, length, in_talk);
ALTER TABLE document_embeddings ALTER thread_id DROP DEFAULT;
CREATE INDEX document_embeddings_by_owner ON document_embeddings
    (telegram_user_id, thread_id, model_id, position) INCLUDE (embedding);
CREATE INDEX model_usage_by_owner ON model_usage (telegram_user_id, created_at);
ALTER TABLE daily_messages ADD PRIMARY KEY (day, telegram_user_id);
CREATE INDEX daily_messages_by_user ON daily_messages (telegram_user_id);
ALTER TABLE user_settings ADD PRIMARY KEY (telegram_user_id);
DROP FUNCTION add_owner;
DROP TABLE owners;
"""
OLD_STATE = """
DROP VIEW facts;
ALTER TABLE conversations ADD consolidated_at timestamptz;
UPDATE conversations c SET consolidated_at = o.consolidated_at FROM owners o
WHERE o.id = c.owner_id;
"""

# The comments on the columns that come back, as the migrations that made them have them.
MADE_BY = ("0101", "0102", "0103", "0105")
OF_OWNER = re.compile(
    r"^COMMENT ON (?:TABLE conversations|COLUMN (?!chat\.|facts\.|chat_moves\.|telegram_updates\.)"
    r"\w+\.(?:telegram_user_id|consolidated_at|thread_id)) IS.+?';$",
    re.MULTILINE | re.DOTALL,
)


def upgrade():
    fold()
    cursor = op.get_bind().connection.cursor()
    cursor.execute(FILL)
    for table in ("conversations", "reminders", *OF_TOPICS):
        cursor.execute(HANG.format(table=table, topic=TOPIC))
    for table in OF_CHATS:
        cursor.execute(HANG.format(table=table, topic="0"))
    cursor.execute(VIEW)
    for table in OF_TOPICS:
        cursor.execute(f"ALTER TABLE {table} DROP thread_id")
    for table in (*OF_TOPICS, *OF_CHATS, "reminders"):
        cursor.execute(f"ALTER TABLE {table} DROP telegram_user_id")
    cursor.execute(KEYS)
    for table in WITH_OWNER:
        cursor.execute(REFER.format(table=table))


def fold():
    """Make one memory of the topics of each private chat."""
    cursor = op.get_bind().connection.cursor()
    for part in (OWNERS, FOLD, SHIFTS):
        cursor.execute(part)
    for table in ("search_documents", "search_postings", "document_embeddings"):
        cursor.execute(SHIFT.format(table=table))
    cursor.execute(SIZES)
    for table in OF_TOPICS:
        cursor.execute(UNITE.format(table=table))


def downgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(OLD_STATE)
    for table in ("reminders", *OF_TOPICS, *OF_CHATS):
        cursor.execute(NAME_CHAT.format(table=table))
    for table in OF_TOPICS:
        cursor.execute(NAME_TOPIC.format(table=table))
    for table in ("conversations", "reminders", *OF_TOPICS, *OF_CHATS):
        cursor.execute(f"ALTER TABLE {table} DROP owner_id")
    cursor.execute(OLD_KEYS)
    cursor.execute(context.script.get_revision("0103").module.FACTS)
    for revision in MADE_BY:
        parts = vars(context.script.get_revision(revision).module).values()
        for part in (part for part in parts if isinstance(part, str)):
            for comment in OF_OWNER.findall(part):
                cursor.execute(comment)
