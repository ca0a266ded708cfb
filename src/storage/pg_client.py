"""The PostgreSQL client: a bounded pool, transactions, and the one bridge to asyncio.

``ThreadedConnectionPool`` alone raises at once when it is exhausted, closes every connection
above ``minconn`` on return, and hands out connections that died with a restarted server.
``PgClient`` waits for a slot, keeps connections up to the maximum, throws dead ones away
before use, and repeats a statement once when its connection breaks.
"""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg2
import psycopg2.extras
from psycopg2 import errors as pg_errors
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.pool import PoolError, ThreadedConnectionPool

from src.errors import StorageRejectedError, StorageUnavailableError
from src.storage.prepared import PreparedStatement

T = TypeVar("T")
Params = Mapping[str, Any] | None
Row = tuple[Any, ...]

CONNECT_TIMEOUT = 5  # seconds for one attempt to connect
RECONNECT_SECONDS = 5.0  # how long a broken statement waits for a restarting server
RECONNECT_PAUSE = 0.1
LIMIT_EXCEEDED = "54"  # class of sqlstates that the driver takes for operational errors


class _NoFreeConnectionError(StorageUnavailableError):
    """Every connection of the pool stayed in use."""


def connect(dsn: str, *, application_name: str = "pomni") -> Connection:
    """Open one connection of one's own, outside the pool.

    Raises:
        StorageUnavailableError: The server cannot be reached or refuses the log-in.
    """
    try:
        return psycopg2.connect(
            dsn,
            connect_timeout=CONNECT_TIMEOUT,
            application_name=application_name,
            keepalives_idle=30,
            client_encoding="UTF8",
        )
    except psycopg2.Error as error:
        raise StorageUnavailableError(str(error).strip()) from error


class PgClient:
    """A pool of PostgreSQL connections for threads, with a bridge for coroutines.

    Attributes:
        statements: How many statements went to the server, for tests and benchmarks; that one
            is prepared, once per connection, is not counted.
        transactions: How many transactions these were (a statement alone is one).
    """

    def __init__(
        self,
        dsn: str,
        *,
        min_connections: int = 1,
        max_connections: int = 10,
        wait_timeout: float = 10.0,
    ) -> None:
        """Nothing connects yet; see ``open``.

        Args:
            dsn: A libpq address.
            min_connections: Connections opened at once.
            max_connections: The most that are ever open.
            wait_timeout: Seconds that a caller waits for a free connection.
        """
        self.dsn = dsn
        self.statements = 0
        self.transactions = 0
        self._min = min_connections
        self._max = max_connections
        self._wait_timeout = wait_timeout
        self._slots = threading.BoundedSemaphore(max_connections)
        self._prepared: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
        self._pool: ThreadedConnectionPool | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._open_lock = threading.Lock()

    def open(self) -> None:
        """Open the pool.

        Raises:
            StorageUnavailableError: The server cannot be reached.
        """
        with self._open_lock:
            if self._pool is not None:
                return
            try:
                pool = ThreadedConnectionPool(
                    self._min,
                    self._max,
                    self.dsn,
                    connect_timeout=CONNECT_TIMEOUT,
                    application_name="pomni",
                    keepalives_idle=30,
                    client_encoding="UTF8",
                )
            except psycopg2.Error as error:
                raise StorageUnavailableError(str(error).strip()) from error
            pool.minconn = self._max  # else every connection above the minimum closes on return
            self._threads = ThreadPoolExecutor(self._max, thread_name_prefix="pg")
            self._pool = pool

    def close(self) -> None:
        """Close every connection. Closing twice does nothing."""
        with self._open_lock:
            threads, self._threads = self._threads, None  # from here on ``run`` refuses
            if threads is not None:
                threads.shutdown(wait=True)
            if self._pool is not None:
                self._pool.closeall()
                self._pool = None

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a blocking repository method in the client's own threads.

        This is the only bridge between asyncio and psycopg2. There are as many threads as
        connections, so a burst of coroutines queues here and not in front of the pool.
        """
        if self._threads is None:
            raise StorageUnavailableError("the database client is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def fetch_all(self, sql: str, params: Params = None) -> list[Row]:
        """Run one statement as a transaction of its own and return its rows.

        A statement whose connection breaks is run once more on a new connection, so it must
        not do harm when it runs twice: our statements are guarded by unique constraints.

        Raises:
            StorageUnavailableError: No connection, or it broke twice.
            StorageRejectedError: The server refused the statement.
        """
        return self._repeat_once(lambda: self._fetch(sql, params))

    def fetch_prepared(self, statement: PreparedStatement, params: Params) -> list[Row]:
        """Like ``fetch_all``, without planning the statement anew each time."""
        return self._repeat_once(lambda: self._fetch_prepared(statement, params))

    def fetch_one(self, sql: str, params: Params = None) -> Row | None:
        """Like ``fetch_all``, for the first row or None."""
        rows = self.fetch_all(sql, params)
        return rows[0] if rows else None

    def execute(self, sql: str, params: Params = None) -> int:
        """Like ``fetch_all``, for a statement without rows; returns the rows it touched."""
        return self._repeat_once(lambda: self._execute(sql, params))

    def in_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction, and once more when the connection breaks."""

        def attempt() -> T:
            with self.transaction() as transaction:
                return work(transaction)

        return self._repeat_once(attempt)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One transaction: committed at the end of the block, rolled back on any error."""
        with self._connection() as connection:
            connection.autocommit = False
            self.transactions += 1
            with connection, connection.cursor() as cursor:
                yield Transaction(self, cursor)

    def _fetch(self, sql: str, params: Params) -> list[Row]:
        with self._autocommit() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def _fetch_prepared(self, statement: PreparedStatement, params: Params) -> list[Row]:
        with self._autocommit() as cursor:
            known = self._prepared.setdefault(cursor.connection, set())
            try:
                if statement.name not in known:
                    cursor.execute(statement.prepare)
                    known.add(statement.name)
                cursor.execute(statement.execute, params)
            except (pg_errors.InvalidSqlStatementName, pg_errors.DuplicatePreparedStatement):
                cursor.execute(statement.sql, params)  # a pooler gave us another connection
            return cursor.fetchall()

    def _execute(self, sql: str, params: Params) -> int:
        with self._autocommit() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    @contextmanager
    def _autocommit(self) -> Iterator[Cursor]:
        with self._connection() as connection:
            connection.autocommit = True
            self.statements += 1
            self.transactions += 1
            with connection.cursor() as cursor:
                yield cursor

    def _repeat_once(self, attempt: Callable[[], T]) -> T:
        try:
            return attempt()
        except _NoFreeConnectionError:
            raise  # the server is well, and the caller has waited long enough
        except StorageUnavailableError:
            if self._pool is None:
                raise
        self._wait_until_reachable()
        return attempt()

    def _wait_until_reachable(self) -> None:
        """Wait, within bounds, for a server that is restarting; then let the attempt decide."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        while time.monotonic() < deadline:
            try:
                connect(self.dsn).close()
            except StorageUnavailableError:
                time.sleep(RECONNECT_PAUSE)
            else:
                return

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        pool = self._pool
        if pool is None:
            raise StorageUnavailableError("the database client is closed")
        if not self._slots.acquire(timeout=self._wait_timeout):
            raise _NoFreeConnectionError(
                f"no database connection became free within {self._wait_timeout:g} s "
                f"(PG_POOL_MAX is {self._max})"
            )
        try:
            connection = self._take(pool)
            try:
                with wrapped_errors():
                    yield connection
            except BaseException:
                _roll_back(connection)
                raise
            finally:
                with suppress(PoolError):  # the client was closed meanwhile, and this with it
                    pool.putconn(connection, close=bool(connection.closed))
        finally:
            self._slots.release()

    def _take(self, pool: ThreadedConnectionPool) -> Connection:
        """A live connection: those whose server has hung up are closed and passed over."""
        for _ in range(self._max + 1):
            try:
                connection: Connection = pool.getconn()
            except psycopg2.Error as error:
                raise StorageUnavailableError(str(error).strip()) from error
            if not _has_hung_up(connection):
                return connection
            pool.putconn(connection, close=True)
        raise StorageUnavailableError("every pooled connection was dead")


class Transaction:
    """What the block of ``PgClient.transaction`` runs its statements on."""

    def __init__(self, client: PgClient, cursor: Cursor) -> None:
        """Made by ``PgClient.transaction`` alone."""
        self._client = client
        self._cursor = cursor

    def fetch_all(self, sql: str, params: Params = None) -> list[Row]:
        """Run a statement and return its rows."""
        self._client.statements += 1
        self._cursor.execute(sql, params)
        return self._cursor.fetchall() if self._cursor.description else []

    def fetch_one(self, sql: str, params: Params = None) -> Row | None:
        """Run a statement and return its first row or None."""
        rows = self.fetch_all(sql, params)
        return rows[0] if rows else None

    def execute(self, sql: str, params: Params = None) -> int:
        """Run a statement and return how many rows it touched."""
        self._client.statements += 1
        self._cursor.execute(sql, params)
        return int(self._cursor.rowcount)

    def execute_values(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows with one statement (``VALUES %s`` in ``sql``)."""
        self._client.statements += 1
        psycopg2.extras.execute_values(self._cursor, sql, rows, page_size=max(1, len(rows)))


@contextmanager
def wrapped_errors() -> Iterator[None]:
    """Turn driver errors into ours, without the row that the server quotes in them."""
    try:
        yield
    except psycopg2.Error as error:
        is_lost = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
        if is_lost and not (error.pgcode or "").startswith(LIMIT_EXCEEDED):
            raise StorageUnavailableError(_first_line(error)) from error
        raise StorageRejectedError(
            f"PostgreSQL refused a statement: {type(error).__name__}", error.pgcode
        ) from error
    except ValueError as error:  # psycopg2 refuses NUL bytes itself
        raise StorageRejectedError(f"a value cannot be stored: {error}", None) from error


def storable(text: str) -> str:
    """The text as PostgreSQL can hold it.

    NUL bytes and lone surrogates have no place in a UTF-8 ``text`` column; both become
    U+FFFD, the replacement character.
    """
    cleaned = text.replace("\x00", "\ufffd")
    try:
        cleaned.encode("utf-8")
    except UnicodeEncodeError:
        joined = cleaned.encode("utf-16-le", "surrogatepass")  # joins split pairs
        return joined.decode("utf-16-le", "replace")
    return cleaned


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _has_hung_up(connection: Connection) -> bool:
    """Whether an idle connection has something to read: the server's good-bye."""
    if connection.closed:
        return True
    try:
        readable, _, _ = select.select([connection.fileno()], [], [], 0)
    except (OSError, ValueError, psycopg2.Error):
        return True
    return bool(readable)


def _roll_back(connection: Connection) -> None:
    if connection.closed:
        return
    try:
        connection.rollback()
    except psycopg2.Error:
        connection.close()
