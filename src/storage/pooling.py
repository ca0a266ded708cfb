"""Whether a session of ours stays with one session of the server."""

from __future__ import annotations

from contextlib import closing

from src.errors import ConfigError
from src.storage.pg_client import wrapped_errors
from src.storage.pg_connection import ORDINARY, connect

PROBLEM = (
    "DATABASE_URL: it leads to a pooler that pools transactions, where locks are lost and no "
    "notification arrives. Use its session pooling, or PostgreSQL's own address"
)


def check_sessions(dsn: str) -> None:
    """See that there is no pooler between us that lends its sessions by the transaction.

    Such a one gives the session that was used last to whoever asks next. So a second connection
    begins a transaction, and if the first one is then served by another session, its own was lent.

    Raises:
        ConfigError: There is one. Advisory locks, LISTEN and prepared statements need a session.
        StorageUnavailableError: The database cannot be reached.
    """
    with (
        wrapped_errors(),
        closing(connect(dsn, limits=ORDINARY)) as first,
        closing(connect(dsn, limits=ORDINARY)) as second,
        first.cursor() as own,
        second.cursor() as others,
    ):
        first.autocommit = True
        own.execute("SELECT pg_backend_pid()")
        before = own.fetchone()
        others.execute("SELECT 1")  # psycopg2 begins a transaction with it
        own.execute("SELECT pg_backend_pid()")
        if own.fetchone() != before:
            raise ConfigError([PROBLEM])
