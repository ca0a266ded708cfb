"""Names of the queues, the job that indexes messages, and the heartbeats of workers.

An update's queue is chosen when it is stored (``INSERT_UPDATES``).
"""

from src.base.errors import StorageRejectedError
from src.pg.client import Repository

TURNS_QUEUE = "turns"
COMMANDS_QUEUE = "commands"  # and buttons
BESIDE_QUEUE = "beside"  # turns of users with pending updates in other chats
CONTROL_QUEUE = "control"  # interruptions
HOUSEKEEPING_QUEUE = "housekeeping"
MEMORY_QUEUE = "memory"  # indexing and embedding, for all owners together
DIGEST_QUEUE = "digests"  # one job per conversation; slow, as it waits for models
TRIAL_QUEUE = "quarantine"  # suspects, which run before the other queues open
REMINDERS_QUEUE = "reminders"  # due within minutes; they wait for Telegram only


INDEX_MESSAGES = "index_messages"
INDEXING = {"queue": MEMORY_QUEUE, "task": INDEX_MESSAGES}  # parameters of ``DEFER_INDEXING``
UNIQUE_VIOLATION = "23505"

# Defer one indexing job for all turns of the next two seconds, unless one is pending.
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


class JobRepository(Repository):
    """Reads and writes procrastinate's tables; its methods block (see ``PgClient.run``)."""

    def defer_indexing(self) -> None:
        """Have new messages indexed within about two seconds."""
        try:
            self._client.fetch_all(DEFER_INDEXING, INDEXING)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:  # else a concurrent turn has deferred it
                raise

    def seconds_since_heartbeat(self) -> float | None:
        """Return the age of the latest heartbeat, or None without workers."""
        return self._first(lambda age: age, SELECT_HEARTBEAT)
