"""Deaths of jobs: which were running when their process died, how often, and what is put aside."""

from alembic import op

revision = "0011"
down_revision = "0010"

UPGRADE = """
CREATE TABLE job_deaths (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    work text NOT NULL UNIQUE,
    task text NOT NULL,
    queue text NOT NULL,
    job_id bigint REFERENCES procrastinate_jobs ON DELETE CASCADE,
    update_id bigint REFERENCES telegram_updates ON DELETE CASCADE,
    conversation_id uuid REFERENCES conversations ON DELETE CASCADE,
    message_id bigint REFERENCES messages ON DELETE CASCADE,
    document_id bigint REFERENCES search_documents ON DELETE CASCADE,
    deaths integer NOT NULL DEFAULT 1,
    last_at timestamptz NOT NULL DEFAULT now(),
    put_aside_at timestamptz
);
CREATE INDEX job_deaths_by_job ON job_deaths (job_id);
COMMENT ON TABLE job_deaths IS
    'Jobs that ran when their process died. A row goes with its job: when that is done.';
COMMENT ON COLUMN job_deaths.id IS 'What bot.py jobs --retry takes.';
COMMENT ON COLUMN job_deaths.work IS
    'What is counted: a job; work that comes again and again under its queueing lock; or one '
    'message or document of a job for all.';
COMMENT ON COLUMN job_deaths.task IS 'The task''s name.';
COMMENT ON COLUMN job_deaths.queue IS 'Where the job stood before it was suspected.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job; NULL for a message or document.';
COMMENT ON COLUMN job_deaths.update_id IS 'The update that the job handles.';
COMMENT ON COLUMN job_deaths.conversation_id IS 'The conversation that the job digests.';
COMMENT ON COLUMN job_deaths.message_id IS 'A message that is not indexed because of its deaths.';
COMMENT ON COLUMN job_deaths.document_id IS 'A document without a vector because of its deaths.';
COMMENT ON COLUMN job_deaths.deaths IS
    'How often its process died: two make a suspect, and only deaths in a process of the '
    'suspects'' own count beyond that.';
COMMENT ON COLUMN job_deaths.last_at IS 'When it died last.';
COMMENT ON COLUMN job_deaths.put_aside_at IS
    'Since when it is put aside: it died alone. NULL while it is only counted or tried.';
"""

DOWNGRADE = "DROP TABLE job_deaths;"


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
