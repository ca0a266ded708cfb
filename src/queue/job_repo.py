"""Names of the queues, the job that indexes messages, and the workers of dead processes.

Each queue has a worker of its own in every process. An update's queue is chosen when it is stored
(``INSERT_UPDATES``).
"""

from src.pg.client import Repository

PEOPLE_QUEUE = "people"  # turns
# What waits for Telegram and never for a model: interruptions, commands, buttons, reminders.
CONTROL_QUEUE = "control"
BACKGROUND_QUEUE = "background"  # the memory's jobs and housekeeping
REMINDER_PRIORITY = 1  # reminders precede what users do now, and interruptions (10) precede both
APPLICATION_NAME = "pomni queue"  # of the connections of all workers

INDEX_MESSAGES = "index_messages"
STORE_IMPORTS = "store_imports"
UNIQUE_VIOLATION = "23505"

# Defer one job for all that comes in the next two seconds, unless one is pending.
DEFER_ONCE = "SELECT defer_once(%(queue)s, %(task)s)"

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
        self._client.fetch_all(DEFER_ONCE, queue=BACKGROUND_QUEUE, task=task)

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
