"""What the repositories have in common."""

from __future__ import annotations

from src.storage.pg_client import PgClient


class Repository:
    """Reads and writes through a client, which someone else opens and closes; it blocks."""

    def __init__(self, client: PgClient) -> None:
        """Nothing is asked yet."""
        self._client = client
