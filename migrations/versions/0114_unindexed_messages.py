"""Messages that wait for the search stand in a table of their own.

When each had been taken in stood in ``messages``, in the predicate of an index, so that the row
was written anew then, with an entry in every index. Now a row of two numbers goes instead.

Of the indexes that a turn writes, ``messages_by_time`` serves as well as the one by age; an answer
has no number of Telegram's to be found by; and that of procrastinate's of the jobs that run is one
too many, since a job's lock is in another.
"""

from alembic import op

revision = "0114"
down_revision = "0113"

# No foreign key to messages: what it locks would be written to the log as well. A row whose
# message is gone is deleted when the search looks at the conversation next.
WAITING = """
CREATE TABLE unindexed_messages (
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    message_id bigint NOT NULL,
    PRIMARY KEY (conversation_id, message_id)
);
COMMENT ON TABLE unindexed_messages IS
    'Messages that the search does not know yet, or not since the last edit.';
COMMENT ON COLUMN unindexed_messages.conversation_id IS 'Its conversation; it goes with it.';
COMMENT ON COLUMN unindexed_messages.message_id IS
    'The message; the row outlives it, until the search looks at the conversation next.';
INSERT INTO unindexed_messages
SELECT conversation_id, id FROM messages
WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten
  AND NOT is_private;
DROP INDEX messages_unindexed;
ALTER TABLE messages DROP COLUMN indexed_at;
"""

LIGHTER = """
DROP INDEX messages_by_age, idx_procrastinate_jobs_worker_not_null;
ALTER TABLE messages DROP CONSTRAINT messages_one_per_telegram_message;
CREATE UNIQUE INDEX messages_one_per_telegram_message
    ON messages (bot_id, chat_id, telegram_message_id) WHERE telegram_message_id IS NOT NULL;
"""

AS_BEFORE = """
DROP INDEX messages_one_per_telegram_message;
ALTER TABLE messages ADD CONSTRAINT messages_one_per_telegram_message
    UNIQUE (bot_id, chat_id, telegram_message_id);
CREATE INDEX messages_by_age ON messages USING brin (created_at);
CREATE INDEX idx_procrastinate_jobs_worker_not_null ON procrastinate_jobs (worker_id)
    WHERE worker_id IS NOT NULL AND status = 'doing';
ALTER TABLE messages ADD COLUMN indexed_at timestamptz;
UPDATE messages m SET indexed_at = now()
WHERE role IN ('user', 'assistant')
  AND NOT EXISTS (SELECT FROM unindexed_messages w
                  WHERE w.conversation_id = m.conversation_id AND w.message_id = m.id);
CREATE INDEX messages_unindexed ON messages (conversation_id, id)
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten
          AND NOT is_private;
COMMENT ON COLUMN messages.indexed_at IS
    'When the search took it in; NULL: not yet, or not since the last edit.';
DROP TABLE unindexed_messages;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(WAITING + LIGHTER)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
