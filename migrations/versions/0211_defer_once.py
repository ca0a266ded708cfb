"""A function that defers a job unless one like it waits.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0211"
down_revision = "0210"

UPGRADE = r"""
CREATE FUNCTION defer_once(queue text, task text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM procrastinate_defer_jobs_v1(ARRAY[
        ROW(queue, task, 0, task, task, '{}', now() + interval '2 seconds')
        ::procrastinate_job_to_defer_v1])
    WHERE NOT EXISTS (SELECT FROM procrastinate_jobs
                      WHERE queueing_lock = task AND status = 'todo');
EXCEPTION WHEN unique_violation THEN  -- another transaction has deferred it meanwhile
END
$$;
COMMENT ON FUNCTION defer_once IS
    'Has a task run once for all that comes in the next two seconds, unless it waits already.';
"""

DOWNGRADE = "DROP FUNCTION defer_once;"


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
