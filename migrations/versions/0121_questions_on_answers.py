"""A question about contradicting facts is part of the answer that asks it; no run is paused.

Questions that are open end with a sentence: what they are about is in checkpoints of LangGraph,
which only that library can read.
"""

from alembic import op

revision = "0121"
down_revision = "0119"

QUESTIONS_OF_ANSWERS = """
ALTER TABLE messages ADD COLUMN question jsonb;
COMMENT ON COLUMN messages.question IS
    'On an answer with asks = conflict, until it is decided: [{"fact": the new fact, "message": '
    'id of the message that says it, "denies": ids of the known facts that it would replace}].';
ALTER TABLE messages DROP CONSTRAINT messages_asks_check,
    ADD CONSTRAINT messages_asks_check CHECK (
    asks IN ('erase_all', 'conflict', 'conflict_over', 'forget_which', 'reminder_which',
             'reminder_time', 'reminder', 'zone'));
COMMENT ON COLUMN messages.asks IS
    'What the bot asked with it, so that the next message can answer: erase_all (whether to erase '
    'everything), conflict (which of two facts holds), conflict_over (that is decided), '
    'forget_which, reminder_which (which of several is meant), reminder_time, zone (which one), '
    'reminder (nothing: it names reminders, and the next message may cancel or move one).';
CREATE INDEX messages_with_question ON messages (conversation_id) WHERE question IS NOT NULL;
ALTER TABLE telegram_updates ADD COLUMN asked jsonb;
COMMENT ON COLUMN telegram_updates.asked IS
    'What the reply to it asks, so that a reply in words answers that: {"asks": zone (which one) '
    'or correction (how is the fact memory_id right), "message_id": that of the question}.';
CREATE INDEX telegram_updates_asked ON telegram_updates (bot_id, chat_id) WHERE asked IS NOT NULL;
UPDATE messages a
SET asks = 'conflict_over', content = a.content || E'\\n\\n' || CASE q.language
    WHEN 'ru' THEN 'Этот вопрос закрыт: бот обновился, и всё осталось как было. '
                   'Если новое верно, просто скажите его ещё раз.'
    WHEN 'uk' THEN 'Це питання закрите: бот оновився, і все лишилося як було. '
                   'Якщо правильне нове, просто скажіть його ще раз.'
    ELSE 'This question is closed: the bot was updated, and everything stayed as it was. '
         'If the new one is right, just say it again.' END
FROM open_questions q
WHERE a.reply_to_id = q.message_id AND a.role = 'assistant' AND a.asks = 'conflict';
DELETE FROM procrastinate_jobs WHERE task_name = 'expire_questions' AND status = 'todo';
DROP TABLE checkpoint_writes, checkpoint_blobs, checkpoints, checkpoint_migrations;
DROP TABLE question_facts, open_questions;
DROP FUNCTION close_question();
"""

AS_BEFORE = """
ALTER TABLE telegram_updates DROP COLUMN asked;
ALTER TABLE messages DROP COLUMN question;
UPDATE messages SET asks = NULL WHERE asks NOT IN ('erase_all', 'conflict', 'conflict_over');
ALTER TABLE messages DROP CONSTRAINT messages_asks_check,
    ADD CONSTRAINT messages_asks_check CHECK (
    asks IN ('erase_all', 'conflict', 'conflict_over'));
COMMENT ON COLUMN messages.asks IS
    'What the bot asked with it, so that a yes to it means that: erase_all (whether to erase '
    'everything), conflict (which of two facts holds), conflict_over (that is decided).';
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


def upgrade():
    op.get_bind().connection.cursor().execute(QUESTIONS_OF_ANSWERS)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
