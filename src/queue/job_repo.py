"""The queue's own tables: names of queues, the memory's indexing job, and the living workers.

The queue of an update is chosen where it is stored (``INSERT_UPDATES``).
"""

from src.base.errors import StorageRejectedError
from src.pg.client import Repository

TURNS_QUEUE = "turns"
COMMANDS_QUEUE = "commands"  # and buttons
BESIDE_QUEUE = "beside"  # turns of people who want something in several chats at once
CONTROL_QUEUE = "control"  # interruptions
HOUSEKEEPING_QUEUE = "housekeeping"
MEMORY_QUEUE = "memory"  # indexing and embedding, for everybody together
DIGEST_QUEUE = "digests"  # of one conversation; it waits for models, so nothing waits behind it
QUARANTINE_QUEUE = "quarantine"  # of suspects, which run before the others open
REMINDERS_QUEUE = "reminders"  # due within minutes; they wait for Telegram alone


INDEX_MESSAGES = "index_messages"
INDEXING = {"queue": MEMORY_QUEUE, "task": INDEX_MESSAGES}  # parameters of ``DEFER_INDEXING``
UNIQUE_VIOLATION = "23505"

# One job waits for all turns of two seconds; when one waits already there is nothing to do.
DEFER_INDEXING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s::text, 0, %(task)s, %(task)s, '{}', now() + interval '2 seconds')
    ::procrastinate_job_to_defer_v1])
WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs
                  WHERE queueing_lock = %(task)s AND status = 'todo')
"""


class MemoryJobRepository(Repository):
    """Defers the memory's jobs; the method blocks (see ``PgClient.run``)."""

    def defer_indexing(self) -> None:
        """Have new messages indexed within about two seconds."""
        try:
            self._client.fetch_all(DEFER_INDEXING, INDEXING)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:  # another turn was faster: it is deferred
                raise


# Seconds since the youngest heartbeat of any worker; NULL when there is none.
SELECT_HEARTBEAT = """
SELECT extract(epoch FROM now() - max(last_heartbeat))::float8 FROM procrastinate_workers
"""


class WorkerRepository(Repository):
    """Reads procrastinate's tables; the method blocks (see ``PgClient.run``)."""

    def seconds_since_heartbeat(self) -> float | None:
        """How long ago a worker last showed that it lives, or None when there is none."""
        return self._first(lambda age: age, SELECT_HEARTBEAT)
