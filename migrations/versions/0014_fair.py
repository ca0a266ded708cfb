"""Fair shares: what an update's round is computed from, and a budget for background calls.

``served_as`` is whom an update is served as: the sender, or the chat where a whole chat writes
under one id of Telegram's (anonymous admins, 1087968824, and linked channels, 777000). Indexes:
what waits of one person; the round that a queue serves and the first that waits; the last round of
a lock, in place of 0006's index on it, for fetching a job uses that one as well.
"""

from alembic import op

revision = "0014"
down_revision = "0013"

UPGRADE = """
ALTER TABLE telegram_updates ADD COLUMN served_as bigint GENERATED ALWAYS AS
    (CASE WHEN user_id IN (1087968824, 777000) THEN chat_id
          ELSE coalesce(user_id, chat_id) END) STORED;
COMMENT ON COLUMN telegram_updates.served_as IS
    'Whom it is served as, round by round: the sender; the chat, where a chat writes as one.';
CREATE INDEX telegram_updates_of_person ON telegram_updates
    (bot_id, served_as, (kind = 'message'), received_at) WHERE handled_at IS NULL;

CREATE INDEX pomni_jobs_in_lock ON procrastinate_jobs (lock, priority DESC, id)
    WHERE status IN ('todo', 'doing');
DROP INDEX pomni_jobs_by_lock;
CREATE INDEX pomni_jobs_by_round ON procrastinate_jobs (queue_name, status, priority)
    WHERE status IN ('todo', 'doing');

ALTER TABLE global_settings ADD COLUMN background_calls_per_hour integer NOT NULL DEFAULT 120
    CHECK (background_calls_per_hour > 0);
COMMENT ON COLUMN global_settings.background_calls_per_hour IS
    'Model calls for summaries and extraction that one owner gets in an hour; the rest waits.';
"""

DOWNGRADE = """
ALTER TABLE global_settings DROP COLUMN background_calls_per_hour;
DROP INDEX pomni_jobs_by_round;
CREATE INDEX pomni_jobs_by_lock ON procrastinate_jobs (lock, id)
    WHERE status IN ('todo', 'doing');
DROP INDEX pomni_jobs_in_lock;
DROP INDEX telegram_updates_of_person;
ALTER TABLE telegram_updates DROP COLUMN served_as;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
