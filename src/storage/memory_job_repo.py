"""Asks the queue for the memory's work, from the hot path: one cheap statement."""

from __future__ import annotations

from src.errors import StorageRejectedError
from src.storage.pg_client import PgClient
from src.storage.queue_names import MEMORY_QUEUE

INDEX_MESSAGES = "index_messages"
INDEXING = {"queue": MEMORY_QUEUE, "task": INDEX_MESSAGES}  # parameters of ``DEFER_INDEXING``
UNIQUE_VIOLATION = "23505"

# One job waits for all turns of the next second; when one waits already there is nothing to do.
DEFER_INDEXING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s, 0, %(task)s, %(task)s, '{}', now() + interval '1 second')
    ::procrastinate_job_to_defer_v1])
WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs
                  WHERE queueing_lock = %(task)s AND status = 'todo')
"""


class MemoryJobRepository:
    """Defers the memory's jobs; the method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient) -> None:
        """Use ``client``, which someone else opens and closes."""
        self._client = client

    def defer_indexing(self) -> None:
        """Have new messages indexed within about a second."""
        try:
            self._client.fetch_all(DEFER_INDEXING, INDEXING)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:  # another turn was faster: it is deferred
                raise
