"""Names of the queues, the job that indexes messages, and the workers of dead processes.

Each queue has a worker of its own in every process. An update's queue is chosen when it is stored
(``INSERT_UPDATES``).
"""

from src.base.errors import StorageRejectedError
from src.pg.client import Repository

PEOPLE_QUEUE = "people"  # turns
# What waits for Telegram and never for a model: interruptions, commands, buttons, reminders.
CONTROL_QUEUE = "control"
BACKGROUND_QUEUE = "background"  # the memory's jobs and housekeeping
REMINDER_PRIORITY = 1  # reminders precede what users do now, and interruptions (10) precede both
APPLICATION_NAME = "pomni queue"  # of the connections of all workers

INDEX_MESSAGES = "index_messages"
INDEXING = {"queue": BACKGROUND_QUEUE, "task": INDEX_MESSAGES}  # parameters of ``DEFER_INDEXING``
STORE_IMPORTS = "store_imports"
UNIQUE_VIOLATION = "23505"

# Defer one job for all that comes in the next two seconds, unless one is pending.
DEFER_INDEXING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s::text, 0, %(task)s, %(task)s, '{}', now() + interval '2 seconds')
    ::procrastinate_job_to_defer_v1])
WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs
                  WHERE queueing_lock = %(task)s AND status = 'todo')
"""

# Seconds since the latest heartbeat of any worker; NULL without workers.
SELECT_HEARTBEAT = """
SELECT extract(epoch FROM now() - max(last_heartbeat))::float8 FROM procrastinate_workers
"""

# Delete all workers if no process has a connection of the queue, so that all of them are dead.
# Their jobs lose their worker, and are stalled from then on.
DELETE_DEAD_WORKERS = """
DELETE FROM procrastinate_workers WHERE NOT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = %(application)s)
"""


class JobRepository(Repository):
    """Reads and writes procrastinate's tables; its methods block (see ``PgClient.run``)."""

    def defer_indexing(self, task: str = INDEX_MESSAGES) -> None:
        """Have new messages indexed within about two seconds, or another task of its kind run."""
        try:
            self._client.fetch_all(DEFER_INDEXING, INDEXING | {"task": task})
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:  # else a concurrent turn has deferred it
                raise

    def seconds_since_heartbeat(self) -> float | None:
        """Return the age of the latest heartbeat, or None without workers."""
        return self._first(lambda age: age, SELECT_HEARTBEAT)

    def delete_dead_workers(self) -> int:
        """Delete the workers of killed processes and return their number.

        While a process with workers lives, none is deleted: a worker without a heartbeat is found
        by ``get_stalled_jobs`` of procrastinate. Call it before the queue is opened, as its
        connections would count.
        """
        return self._client.execute(DELETE_DEAD_WORKERS, application=APPLICATION_NAME)
