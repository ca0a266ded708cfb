"""psycopg2's ``ThreadedConnectionPool``, for servers that may say nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from psycopg2.pool import PoolError, ThreadedConnectionPool

from src.storage.pg_connection import PgConnection, connect


class PgPool(ThreadedConnectionPool):
    """A pool that keeps its connections, and never connects while it holds its lock.

    psycopg2's own closes every connection above ``minconn`` on return, and lets whoever wants an
    idle connection, or gives one back, wait for another's attempt to reach the server.
    """

    # Of the base classes; their stubs keep silent about them.
    _lock: threading.Lock
    _pool: list[PgConnection]
    _used: dict[object, PgConnection]
    _getconn: Callable[[object], PgConnection]

    def __init__(self, minconn: int, maxconn: int, dsn: str) -> None:
        """Open ``minconn`` connections.

        Raises:
            StorageUnavailableError: The server cannot be reached.
        """
        self._dsn = dsn
        super().__init__(minconn, maxconn)
        self.minconn = maxconn  # of the idle ones, as many are kept

    def _connect(self, key: object = None) -> PgConnection:
        """One more idle connection; the base class asks for those of the beginning."""
        assert key is None, "getconn connects by itself"
        connection = connect(self._dsn)
        self._pool.append(connection)
        return connection

    def getconn(self, key: object = None) -> PgConnection:
        """An idle connection, else a new one.

        Raises:
            PoolError: The pool is closed.
            StorageUnavailableError: The server cannot be reached.
        """
        with self._lock:
            if self._pool or self.closed:
                return self._getconn(key)
        connection = connect(self._dsn)
        with self._lock:
            if self.closed:
                connection.close()
                raise PoolError("connection pool is closed")
            self._pool.append(connection)
            return self._getconn(key)

    def list_used(self) -> list[PgConnection]:
        """The connections that somebody works with."""
        with self._lock:
            return list(self._used.values())
