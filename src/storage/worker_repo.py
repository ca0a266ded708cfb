"""What the queue's own tables tell about its workers."""

from __future__ import annotations

from src.storage.repository import Repository

# Seconds since the youngest heartbeat of any worker; NULL when there is none.
SELECT_HEARTBEAT = """
SELECT extract(epoch FROM now() - max(last_heartbeat)) FROM procrastinate_workers
"""


class WorkerRepository(Repository):
    """Reads procrastinate's tables; the method blocks (see ``PgClient.run``)."""

    def seconds_since_heartbeat(self) -> float | None:
        """How long ago a worker last showed that it lives, or None when there is none."""
        row = self._client.fetch_one(SELECT_HEARTBEAT)
        return float(row[0]) if row and row[0] is not None else None
