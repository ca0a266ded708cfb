"""Three workers in a process; a job is told when the lock that it waited for is free.

procrastinate notifies its workers of new jobs only. A job that waited for another one of its chat
would be found by the next poll, seconds later, so a trigger repeats its notification.

``job_deaths`` counts by job: one that died three times is put aside.
"""

from alembic import op

revision = "0119"
down_revision = "0118"

NOTIFY = """
CREATE FUNCTION notify_next_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('procrastinate_queue_v1#' || queue_name,
                      json_build_object('type', 'job_inserted', 'job_id', id)::text)
    FROM procrastinate_jobs
    WHERE lock = OLD.lock AND status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
    ORDER BY priority DESC, id LIMIT 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER pomni_jobs_deleted AFTER DELETE ON procrastinate_jobs
    FOR EACH ROW WHEN (old.status = 'doing' AND old.lock IS NOT NULL)
    EXECUTE FUNCTION notify_next_job();
CREATE TRIGGER pomni_jobs_ended AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (old.status = 'doing' AND new.status <> 'doing' AND old.lock IS NOT NULL)
    EXECUTE FUNCTION notify_next_job();
"""

QUEUES = """
DROP INDEX pomni_jobs_by_round;
UPDATE procrastinate_jobs SET queue_name = CASE
    WHEN queue_name IN ('turns', 'beside') THEN 'people'
    WHEN queue_name IN ('control', 'commands', 'reminders') THEN 'control'
    WHEN task_name = 'handle_update' THEN 'people'
    WHEN task_name IN ('apologise', 'interrupt_turn', 'remind', 'show_ending') THEN 'control'
    ELSE 'background' END;
COMMENT ON COLUMN procrastinate_jobs.queue_name IS
    'people (turns), control (all else for users) or background; each has a worker in a process.';
COMMENT ON COLUMN procrastinate_jobs.priority IS
    'Higher ones go first; each pending message of a user has a lower one.';
"""

DEATHS = """
DELETE FROM job_deaths d WHERE put_aside_at IS NULL OR job_id IS NULL
    OR EXISTS (SELECT FROM job_deaths WHERE job_id = d.job_id AND id > d.id);
DROP INDEX job_deaths_by_job;
ALTER TABLE job_deaths DROP id, DROP work, DROP task, DROP queue, DROP update_id,
    DROP conversation_id, DROP last_at;
ALTER TABLE job_deaths ADD PRIMARY KEY (job_id);
COMMENT ON TABLE job_deaths IS
    'Jobs that ran when their process died. A row goes with its job: when that is done.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job; what bot.py jobs --retry takes.';
COMMENT ON COLUMN job_deaths.deaths IS 'How often its process died.';
COMMENT ON COLUMN job_deaths.put_aside_at IS
    'Since when it is put aside: its process died three times. NULL before that.';
"""

AS_BEFORE = """
DROP TRIGGER pomni_jobs_ended ON procrastinate_jobs;
DROP TRIGGER pomni_jobs_deleted ON procrastinate_jobs;
DROP FUNCTION notify_next_job;
CREATE INDEX pomni_jobs_by_round ON procrastinate_jobs (queue_name, status, priority)
    WHERE status IN ('todo', 'doing');
UPDATE procrastinate_jobs SET queue_name = CASE
    WHEN queue_name = 'people' THEN 'turns'
    WHEN task_name = 'handle_update' THEN 'commands'
    WHEN task_name IN ('plan_reminders', 'remind') THEN 'reminders'
    WHEN queue_name = 'background' THEN 'memory'
    ELSE queue_name END;
COMMENT ON COLUMN procrastinate_jobs.queue_name IS
    'The queue, such as turns; each worker of the bot serves some of them.';
COMMENT ON COLUMN procrastinate_jobs.priority IS
    'Higher ones go first; the bot gives lower ones to who has had his turn.';
DROP TABLE job_deaths;
CREATE TABLE job_deaths (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    work text NOT NULL UNIQUE,
    task text NOT NULL,
    queue text NOT NULL,
    job_id bigint REFERENCES procrastinate_jobs ON DELETE CASCADE,
    update_id bigint REFERENCES telegram_updates ON DELETE CASCADE,
    conversation_id uuid REFERENCES conversations ON DELETE CASCADE,
    deaths integer NOT NULL DEFAULT 1,
    last_at timestamptz NOT NULL DEFAULT now(),
    put_aside_at timestamptz
);
CREATE INDEX job_deaths_by_job ON job_deaths (job_id);
COMMENT ON TABLE job_deaths IS
    'Jobs that ran when their process died. A row goes with its job: when that is done.';
COMMENT ON COLUMN job_deaths.id IS 'What bot.py jobs --retry takes.';
COMMENT ON COLUMN job_deaths.work IS
    'What is counted: a job, or recurring work under its queueing lock.';
COMMENT ON COLUMN job_deaths.task IS 'The task''s name.';
COMMENT ON COLUMN job_deaths.queue IS 'Where the job stood before it was suspected.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job.';
COMMENT ON COLUMN job_deaths.update_id IS 'The update that the job handles.';
COMMENT ON COLUMN job_deaths.conversation_id IS 'The conversation that the job digests.';
COMMENT ON COLUMN job_deaths.deaths IS
    'How often its process died: two make a suspect, which runs alone from then on.';
COMMENT ON COLUMN job_deaths.last_at IS 'When it died last.';
COMMENT ON COLUMN job_deaths.put_aside_at IS
    'Since when it is put aside: it died alone. NULL while it is only counted or tried.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(NOTIFY + QUEUES + DEATHS)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
