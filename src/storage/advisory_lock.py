"""Session locks in PostgreSQL: held by a connection, gone with it, however it ends."""

from __future__ import annotations

import threading
import time

from src.errors import StorageTimeoutError, StorageUnavailableError
from src.storage.pg_client import wrapped_errors
from src.storage.pg_connection import PgConnection, connect

POLLER_LOCK = 7_361_201  # first key of the lock "receives the updates of bot N"
WORKER_LOCK = 7_361_202  # first key of the lock "a worker lives"
TRIAL_LOCK = 7_361_203  # first key of the lock "a process closes its queues to try suspects"
PROOF_SECONDS = 5.0  # how long a connection is believed to live without an answer
IDLE_SECONDS = 20  # after which the server ends a session whose process it no longer hears

# The lock of a process that the network has cut off would be held for as long as the server
# believes in its connection, by default two hours. PostgreSQL knows this setting since 14.
LIMIT_IDLE = """
SELECT set_config(name, %(milliseconds)s, false) FROM pg_settings
WHERE name = 'idle_session_timeout'
"""


class AdvisoryLock:
    """One named lock on a connection of its own.

    The name is a fixed number and a second one folded into 32 bits, as PostgreSQL wants it.
    """

    def __init__(self, dsn: str, kind: int, name: int = 0) -> None:
        """Nothing connects yet."""
        self._dsn = dsn
        self._keys = (kind, name % 2**31)
        self._connection: PgConnection | None = None
        self._asking = threading.RLock()

    def try_exclusive(self) -> bool:
        """Take the lock alone; False when somebody holds it in any way.

        Raises:
            StorageUnavailableError: No connection.
        """
        return self._ask("SELECT pg_try_advisory_lock(%s, %s)")

    def try_shared(self) -> bool:
        """Take the lock together with others; False when somebody holds it alone."""
        return self._ask("SELECT pg_try_advisory_lock_shared(%s, %s)")

    def take_shared(self) -> None:
        """Take the lock together with others, waiting for one who holds it alone."""
        while True:
            try:
                self._ask("SELECT pg_advisory_lock_shared(%s, %s) IS NOT NULL")
            except StorageTimeoutError:  # each question has an end, the waiting has none
                continue
            return

    def leave_exclusive(self) -> None:
        """Give up the exclusive hold; a shared one taken meanwhile stays."""
        self._ask("SELECT pg_advisory_unlock(%s, %s)")

    def is_connected(self) -> bool:
        """Whether the connection that holds the lock still lives; costs no round trip.

        Nothing tells a connection whose server is frozen, or gone without a good-bye, from one
        that is quiet: now and then it has to be asked (``needs_proof``, ``prove``).
        """
        if not self._asking.acquire(blocking=False):
            return True  # it is being asked, and what there is to read is the answer
        try:
            return self._connection is not None and not self._connection.has_hung_up()
        finally:
            self._asking.release()

    def needs_proof(self) -> bool:
        """Whether the server has said nothing on this connection for a while."""
        connection = self._connection
        return connection is None or time.monotonic() > connection.answered_at + PROOF_SECONDS

    def prove(self) -> bool:
        """Ask the server whether it is there; False when the lock is lost with its connection."""
        if not self.is_connected():
            return False
        try:
            return self._ask("SELECT %s = %s OR true")
        except StorageUnavailableError:
            return False

    def release(self) -> None:
        """Let go by closing the connection. Releasing twice does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            connection.close()

    def _ask(self, sql: str) -> bool:
        with self._asking:
            if not self.is_connected():
                self.release()
                self._connection = self._connect()
            assert self._connection is not None
            try:
                with wrapped_errors(), self._connection.cursor() as cursor:
                    cursor.execute(sql, self._keys)
                    row = cursor.fetchone()
            except StorageTimeoutError:
                raise
            except StorageUnavailableError:
                self.release()
                raise
        return bool(row and row[0])

    def _connect(self) -> PgConnection:
        connection = connect(self._dsn, application_name="pomni lock")
        connection.autocommit = True
        with wrapped_errors(), connection.cursor() as cursor:
            cursor.execute(LIMIT_IDLE, {"milliseconds": str(1000 * IDLE_SECONDS)})
        return connection
