"""Reminders; questions that wait for the user, and LangGraph's checkpoints of what asked them.

The four ``checkpoint*`` tables are what ``langgraph-checkpoint-postgres`` 3.2.0 makes by its own
migrations, so its ``setup()`` is never called; a test compares the two. What is ours beside them:
a checkpoint belongs to a question, a question to the message that taught something and to the
facts that are in doubt, and goes with any of them, whoever deletes it.
"""

from alembic import op

revision = "0105"
down_revision = "0104"

REMINDERS = """
CREATE TABLE reminders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    asker_id bigint,
    text text NOT NULL CHECK (text <> '' AND length(text) <= 1000),
    due_at timestamptz NOT NULL CHECK (extract(epoch FROM due_at) % 1 = 0),
    recurrence text,
    time_zone text NOT NULL,
    language text NOT NULL,
    message_id bigint REFERENCES messages (id) ON DELETE SET NULL,
    snooze_of bigint REFERENCES reminders (id) ON DELETE SET NULL,
    is_waiting boolean NOT NULL DEFAULT true,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    cancelled_at timestamptz
);
CREATE INDEX reminders_due ON reminders (due_at, id) WHERE is_waiting;
CREATE INDEX reminders_of_owner ON reminders (telegram_user_id, thread_id, due_at, id)
    WHERE is_waiting;
CREATE INDEX reminders_of_asker ON reminders (asker_id) WHERE asker_id IS NOT NULL;
CREATE INDEX reminders_of_message ON reminders (message_id) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX reminders_snoozed_once ON reminders (snooze_of)
    WHERE is_waiting AND snooze_of IS NOT NULL;
COMMENT ON TABLE reminders IS
    'What users asked to be reminded of. Two minutes before it is due, a job waits for it.';
COMMENT ON COLUMN reminders.id IS 'Its number.';
COMMENT ON COLUMN reminders.telegram_user_id IS
    'The person, or the group (negative); it is sent to the chat of that number.';
COMMENT ON COLUMN reminders.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN reminders.asker_id IS
    'In a group: Telegram id of who asked for it; only he changes it.';
COMMENT ON COLUMN reminders.text IS 'Of what the user is reminded.';
COMMENT ON COLUMN reminders.due_at IS
    'When it comes (next), a whole second; of one that waits no more, when it came last.';
COMMENT ON COLUMN reminders.recurrence IS
    'How it comes again, in RFC 5545 (FREQ=WEEKLY;BYDAY=MO;...); NULL: once.';
COMMENT ON COLUMN reminders.time_zone IS 'On whose clock a recurrence is counted.';
COMMENT ON COLUMN reminders.language IS
    'Of the request; what the user chose in user_settings goes before it.';
COMMENT ON COLUMN reminders.message_id IS 'The message that asked for it, while it is there.';
COMMENT ON COLUMN reminders.snooze_of IS
    'The recurring reminder of which this is one time, put off.';
COMMENT ON COLUMN reminders.is_waiting IS 'Whether it comes (again).';
COMMENT ON COLUMN reminders.attempts IS
    'How often sending it failed for a reason that may not pass; the second time gives it up.';
COMMENT ON COLUMN reminders.created_at IS 'When it was set.';
COMMENT ON COLUMN reminders.delivered_at IS 'When it was sent last.';
COMMENT ON COLUMN reminders.cancelled_at IS
    'When it was cancelled: by the user, or since nothing can be sent to the chat.';
"""

QUESTIONS = """
CREATE TABLE open_questions (
    thread_id text PRIMARY KEY,
    message_id bigint NOT NULL UNIQUE REFERENCES messages ON DELETE CASCADE,
    language text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE open_questions IS
    'What the bot asked with the answer to a message, and nobody has answered yet.';
COMMENT ON COLUMN open_questions.thread_id IS
    'LangGraph''s name of the paused run: conversation and message.';
COMMENT ON COLUMN open_questions.message_id IS
    'The user''s message, to which the answer was a question.';
COMMENT ON COLUMN open_questions.language IS 'In which it was asked.';
COMMENT ON COLUMN open_questions.asked_at IS 'When; after some days nobody is waited for.';

CREATE TABLE question_facts (
    thread_id text NOT NULL REFERENCES open_questions ON DELETE CASCADE,
    message_id bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    PRIMARY KEY (thread_id, message_id, memory_id)
);
CREATE INDEX question_facts_message ON question_facts (message_id);
CREATE INDEX question_facts_memory ON question_facts (memory_id);
COMMENT ON TABLE question_facts IS
    'The known facts that a question is about, and the messages that deny them.';
COMMENT ON COLUMN question_facts.thread_id IS 'The question.';
COMMENT ON COLUMN question_facts.message_id IS 'The message that denies the fact.';
COMMENT ON COLUMN question_facts.memory_id IS 'The fact.';

-- The paused run holds the words of all of them, so with one of them it goes as a whole.
CREATE FUNCTION close_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM open_questions WHERE thread_id = OLD.thread_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER question_facts_gone AFTER DELETE ON question_facts
    FOR EACH ROW EXECUTE FUNCTION close_question();
"""

CHECKPOINTS = """
CREATE TABLE checkpoint_migrations (
    v INTEGER PRIMARY KEY
);
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    channel TEXT NOT NULL,
    version TEXT NOT NULL,
    type TEXT NOT NULL,
    blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);
CREATE TABLE checkpoint_writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    blob BYTEA NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
CREATE INDEX checkpoints_thread_id_idx ON checkpoints (thread_id);
CREATE INDEX checkpoint_blobs_thread_id_idx ON checkpoint_blobs (thread_id);
CREATE INDEX checkpoint_writes_thread_id_idx ON checkpoint_writes (thread_id);
INSERT INTO checkpoint_migrations (v) SELECT generate_series(0, 9);
COMMENT ON TABLE checkpoint_migrations IS
    'Which migrations of the library LangGraph its tables (checkpoint*) correspond to.';
COMMENT ON COLUMN checkpoint_migrations.v IS 'The number of the migration.';
COMMENT ON TABLE checkpoints IS
    'Runs of the graph that are paused by a question (a table of the library LangGraph).';
COMMENT ON COLUMN checkpoints.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoints.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoints.checkpoint_id IS 'The step; later ones sort after earlier ones.';
COMMENT ON COLUMN checkpoints.parent_checkpoint_id IS 'The step before it, or NULL.';
COMMENT ON COLUMN checkpoints.type IS 'Unused by this version of the library.';
COMMENT ON COLUMN checkpoints.checkpoint IS 'The state: small values, and versions of the others.';
COMMENT ON COLUMN checkpoints.metadata IS 'The library''s notes about the step.';
COMMENT ON TABLE checkpoint_blobs IS 'The larger values of the state of paused runs.';
COMMENT ON COLUMN checkpoint_blobs.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoint_blobs.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoint_blobs.channel IS 'The field of the state.';
COMMENT ON COLUMN checkpoint_blobs.version IS 'Its version; checkpoints.checkpoint names it.';
COMMENT ON COLUMN checkpoint_blobs.type IS 'How the value is encoded, such as msgpack.';
COMMENT ON COLUMN checkpoint_blobs.blob IS 'The value.';
COMMENT ON TABLE checkpoint_writes IS
    'What a step of a paused run has written already, so that it is not done again.';
COMMENT ON COLUMN checkpoint_writes.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoint_writes.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoint_writes.checkpoint_id IS 'The step.';
COMMENT ON COLUMN checkpoint_writes.task_id IS 'The node of the graph, in this step.';
COMMENT ON COLUMN checkpoint_writes.idx IS 'The order of the writes of that node.';
COMMENT ON COLUMN checkpoint_writes.channel IS 'The field of the state, or __interrupt__.';
COMMENT ON COLUMN checkpoint_writes.type IS 'How the value is encoded, such as msgpack.';
COMMENT ON COLUMN checkpoint_writes.blob IS 'The value.';
COMMENT ON COLUMN checkpoint_writes.task_path IS 'Where the node stands in the graph.';

ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_blobs ADD CONSTRAINT checkpoint_blobs_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_writes ADD CONSTRAINT checkpoint_writes_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
"""

DOWNGRADE = """
DROP TABLE checkpoint_writes, checkpoint_blobs, checkpoints, checkpoint_migrations;
DROP TABLE question_facts, open_questions, reminders;
DROP FUNCTION close_question();
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for part in (REMINDERS, QUESTIONS, CHECKPOINTS):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
