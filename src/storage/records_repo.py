"""What is kept for the operator about the past: usage, and what was done on the admin page."""

from __future__ import annotations

from src.storage.pg_connection import PATIENT
from src.storage.repository import Repository

PRUNE = (
    "DELETE FROM model_usage WHERE created_at < now() - make_interval(days => %(days)s)",
    "DELETE FROM admin_actions WHERE done_at < now() - make_interval(days => %(days)s)",
)


class RecordsRepository(Repository):
    """Ends what has served its time; it blocks."""

    def prune(self, *, days: int) -> int:
        """Delete records older than ``days``; returns how many."""
        return sum(self._client.execute(sql, {"days": days}, limits=PATIENT) for sql in PRUNE)
