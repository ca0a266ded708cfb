"""Questions that wait for the user, and LangGraph's checkpoints of the turns that asked them.

The four ``checkpoint*`` tables are what ``langgraph-checkpoint-postgres`` 3.2.0 makes by its own
migrations, so its ``setup()`` is never called; a test compares the two. What is ours beside them:
a checkpoint belongs to a question, a question to the message that taught something and to the
facts that are in doubt, and goes with any of them, whoever deletes it.
"""

from alembic import op

revision = "0030"
down_revision = "0029"

LIBRARY = """
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
"""

OURS = """
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

-- The paused run holds the words of all of them, so with one of them it goes as a whole.
CREATE FUNCTION close_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM open_questions WHERE thread_id = OLD.thread_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER question_facts_gone AFTER DELETE ON question_facts
    FOR EACH ROW EXECUTE FUNCTION close_question();

ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_blobs ADD CONSTRAINT checkpoint_blobs_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_writes ADD CONSTRAINT checkpoint_writes_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;

ALTER TABLE messages DROP CONSTRAINT messages_asks_check;
ALTER TABLE messages ADD CONSTRAINT messages_asks_check
    CHECK (asks IN ('erase_all', 'conflict', 'conflict_over'));
ALTER TABLE messages ADD COLUMN is_disputed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN messages.is_disputed IS
    'Its writer is, or was, asked whether it replaces what is known: the background leaves it.';
"""

DOWNGRADE = """
UPDATE messages SET asks = NULL WHERE asks IN ('conflict', 'conflict_over');
ALTER TABLE messages DROP CONSTRAINT messages_asks_check;
ALTER TABLE messages ADD CONSTRAINT messages_asks_check CHECK (asks IN ('erase_all'));
ALTER TABLE messages DROP COLUMN is_disputed;
DROP TABLE checkpoint_writes, checkpoint_blobs, checkpoints, checkpoint_migrations;
DROP TABLE question_facts, open_questions;
DROP FUNCTION close_question();
"""


def upgrade():
    op.execute(LIBRARY)
    op.execute(OURS)


def downgrade():
    op.execute(DOWNGRADE)
