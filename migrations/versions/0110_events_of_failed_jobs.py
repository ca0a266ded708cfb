"""Of the events of jobs, only that one failed or was stopped: of the others nobody reads.

A job that succeeds is deleted at once, its events with it: three rows written for nothing.
"""

from alembic import op

revision = "0110"
down_revision = "0109"

UNREAD = """
DROP TRIGGER procrastinate_trigger_status_events_insert_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_scheduled_events_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_abort_requested_events_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_status_events_update_v1 ON procrastinate_jobs;
CREATE TRIGGER procrastinate_trigger_status_events_update_v1
    AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (new.status IN ('failed', 'cancelled', 'aborted'))
    EXECUTE PROCEDURE procrastinate_trigger_function_status_events_update_v1();
COMMENT ON TABLE procrastinate_events IS
    'When jobs that are still in procrastinate_jobs failed or were stopped; a trigger writes it.';
COMMENT ON COLUMN procrastinate_events.type IS 'failed, cancelled or aborted.';
"""

# As procrastinate makes them.
AS_BEFORE = """
DROP TRIGGER procrastinate_trigger_status_events_update_v1 ON procrastinate_jobs;
CREATE TRIGGER procrastinate_trigger_status_events_update_v1
    AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW
    EXECUTE PROCEDURE procrastinate_trigger_function_status_events_update_v1();
CREATE TRIGGER procrastinate_trigger_status_events_insert_v1
    AFTER INSERT ON procrastinate_jobs
    FOR EACH ROW WHEN (new.status = 'todo'::procrastinate_job_status)
    EXECUTE PROCEDURE procrastinate_trigger_function_status_events_insert_v1();
CREATE TRIGGER procrastinate_trigger_scheduled_events_v1
    AFTER UPDATE OR INSERT ON procrastinate_jobs
    FOR EACH ROW WHEN (new.scheduled_at IS NOT NULL
                       AND new.status = 'todo'::procrastinate_job_status)
    EXECUTE PROCEDURE procrastinate_trigger_function_scheduled_events_v1();
CREATE TRIGGER procrastinate_trigger_abort_requested_events_v1
    AFTER UPDATE OF abort_requested ON procrastinate_jobs
    FOR EACH ROW WHEN (new.abort_requested = true)
    EXECUTE PROCEDURE procrastinate_trigger_abort_requested_events_procedure_v1();
COMMENT ON TABLE procrastinate_events IS
    'What happened to the jobs that are still in procrastinate_jobs; triggers write it.';
COMMENT ON COLUMN procrastinate_events.type IS
    'deferred (it was put into the queue), started, deferred_for_retry, failed, succeeded, ...';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UNREAD)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
