"""PostgreSQL client: a bounded pool, transactions, base repositories, the bridge to asyncio."""

import asyncio
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import psycopg2
from psycopg2.extensions import cursor as Cursor
from psycopg2.pool import PoolError, ThreadedConnectionPool

from src.base import errors
from src.base.owners import Owner
from src.pg.connection import Limits, PgConnection, connect, statement_failure


class PgPool(ThreadedConnectionPool):
    """Pool that keeps its connections and never connects while it holds its lock.

    psycopg2's own pool closes every connection above ``minconn`` on return, and blocks callers
    that take or return an idle connection while another caller connects.
    """

    # Attributes of the base classes that their stubs leave out.
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
        self.minconn = maxconn  # idle connections up to this number are kept

    def _connect(self, key: object = None) -> PgConnection:
        """Add an idle connection; the base class calls this for the first ``minconn``."""
        assert key is None, "getconn connects by itself"
        connection = connect(self._dsn)
        self._pool.append(connection)
        return connection

    def getconn(self, key: object = None) -> PgConnection:
        """Return an idle connection, or a new one if there is none.

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
        """Return the connections in use."""
        with self._lock:
            return list(self._used.values())


PARAMETER = re.compile(r"%\((\w+)\)s")
# ``%(owner)s`` in a statement: the owner's id, resolved from the parameters of ``Owner.columns``
# in the statement itself, which saves a round trip.
OWNER_ID = """
(SELECT id FROM owners
 WHERE telegram_user_id = %(owner_user)s AND thread_id = %(owner_thread)s)"""


class PreparedStatement(str):
    """Statement that the server plans once per connection; for statements of every turn.

    The plan is made without the parameters, so the choice of an index must not depend on them.

    Attributes:
        name: Name of the statement on the server, derived from its SQL.
        prepare: SQL that prepares it.
        run: SQL that executes it, with the same parameters.
    """

    name: str
    prepare: str
    run: str

    def __new__(cls, sql: str) -> Self:
        """Build both SQL texts from ``sql``; PostgreSQL infers the types of its parameters."""
        self = super().__new__(cls, sql)
        self.name = f"pomni_{hashlib.blake2b(sql.encode(), digest_size=8).hexdigest()}"
        sql = sql.replace("%(owner)s", OWNER_ID)  # EXECUTE takes no subquery as a parameter
        names = dict.fromkeys(PARAMETER.findall(sql))
        places = {parameter: f"${number}" for number, parameter in enumerate(names, start=1)}
        values = ", ".join(f"%({parameter})s" for parameter in names)
        self.prepare = (
            f"SET plan_cache_mode = force_generic_plan; PREPARE {self.name} AS {sql % places}"
        )
        self.run = f"EXECUTE {self.name} ({values})"
        return self


# psycopg2's ``ThreadedConnectionPool`` raises at once when it is exhausted, and hands out
# connections that died with a restarted server. Here a caller waits for a free connection, dead
# ones are closed before use, and a statement is retried once if its connection breaks. When one
# connection is cut because the server is silent, those not answered since are closed too: after
# a failover each would run into its own timeout.

T = TypeVar("T")
Params = Mapping[str, Any] | Owner | None
Row = tuple[Any, ...]
Record = dict[str, Any]

# A broken statement waits so long for a restarting server: what only this process knows, such as
# that Telegram accepted an answer, should reach the database and not be done twice.
RECONNECT_SECONDS = 15.0
RECONNECT_PAUSE = 0.1  # seconds
CLOSE_SECONDS = 0.5  # for a running statement when the client is closed


class _NoFreeConnectionError(errors.StorageUnavailableError):
    """All connections of the pool stayed in use."""


class Transaction:
    """Open transaction of ``PgClient.transaction``."""

    def __init__(self, client: "PgClient", cursor: Cursor) -> None:
        """Wrap a cursor; created only by ``PgClient``."""
        self._client = client
        self._cursor = cursor

    def in_transaction(
        self,
        work: Callable[["Transaction"], T],
        *,
        limits: Limits | None = None,  # noqa: ARG002  (the transaction has its own)
    ) -> T:
        """Run ``work`` in this transaction."""
        return work(self)

    def fetch_all(self, sql: str, params: Params = None, /, **named: Any) -> list[Row]:
        """Run a statement and return its rows; parameters as in ``PgClient.fetch_all``."""
        self.execute(sql, params, **named)
        return self._cursor.fetchall() if self._cursor.description else []

    def fetch_records(self, sql: str, params: Params = None, /, **named: Any) -> list[Record]:
        """Run a statement and return its rows as dicts by column name."""
        rows = self.fetch_all(sql, params, **named)
        names = [column.name for column in self._cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def fetch_one(self, sql: str, params: Params = None, /, **named: Any) -> Row | None:
        """Run a statement and return its first row, or None."""
        return next(iter(self.fetch_all(sql, params, **named)), None)

    def execute(self, sql: str, params: Params = None, /, **named: Any) -> int:
        """Run a statement and return the number of affected rows."""
        self._client.statements += 1
        columns = params.columns() if isinstance(params, Owner) else params
        values = {**(columns or {}), **named}
        if isinstance(sql, PreparedStatement):
            connection: Any = self._cursor.connection
            if sql.name not in connection.prepared:
                self._cursor.execute(sql.prepare)
                connection.prepared.add(sql.name)
            sql = sql.run
        elif "owner_user" in values:
            sql = sql.replace("%(owner)s", OWNER_ID)
        # None without any parameter, so that ``%`` needs no escape.
        self._cursor.execute(sql, values or None)
        return int(self._cursor.rowcount)


@dataclass(eq=False, repr=False)
class PgClient:
    """Pool of PostgreSQL connections for threads, with a bridge for coroutines.

    Attributes:
        dsn: A libpq address.
        min_connections: Number of connections that ``open`` opens.
        max_connections: Maximum number of open connections.
        wait_timeout: Seconds that a caller waits for a free connection.
        statements: Number of statements sent, for tests and benchmarks, without the PREPAREs.
        transactions: Number of transactions run (a single statement is one).
        full_at: Time of the last statement that failed because the disk was full, on the
            monotonic clock, or None.
    """

    dsn: str
    min_connections: int = 1
    max_connections: int = 10
    wait_timeout: float = 10.0

    def __post_init__(self) -> None:
        """Set up the state; ``open`` connects."""
        self.statements = 0
        self.transactions = 0
        self.full_at: float | None = None
        self._slots = threading.BoundedSemaphore(self.max_connections)
        self._pool: PgPool | None = None
        self._silent_since = 0.0
        self._is_closing = False
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
            self._pool = PgPool(self.min_connections, self.max_connections, self.dsn)
            self._threads = ThreadPoolExecutor(self.max_connections, thread_name_prefix="pg")
            self._is_closing = False

    def close(self) -> None:
        """Close every connection; a second call does nothing.

        A running statement gets ``CLOSE_SECONDS`` more: with a frozen server it would delay the
        end of the process.
        """
        with self._open_lock:
            threads, self._threads = self._threads, None  # ``run`` raises from here on
            self._is_closing = True
            if self._pool is None or threads is None:
                return
            for connection in self._pool.list_used():
                connection.hurry(CLOSE_SECONDS)
            threads.shutdown(wait=True)
            self._pool.closeall()
            self._pool = None

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a blocking repository method in one of the client's threads.

        This is the only bridge between asyncio and psycopg2. There are as many threads as
        connections, so a burst of coroutines queues here and not at the pool.
        """
        if self._threads is None:
            raise errors.StorageUnavailableError("the database client is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def fetch_all(
        self, sql: str, params: Params = None, /, *, limits: Limits | None = None, **named: Any
    ) -> list[Row]:
        """Run one statement in its own transaction and return its rows.

        A statement whose connection breaks is retried once on a new connection, so it must be
        harmless when it runs twice: our statements are guarded by unique constraints.

        Args:
            sql: The statement, with ``%(name)s`` for parameters.
            params: Parameters, or the owner whose ``columns()`` are among them.
            named: More parameters.
            limits: Timeouts; ``ORDINARY`` by default.

        Raises:
            StorageUnavailableError: No connection, or it broke twice, or a timeout passed.
            StorageRejectedError: The server refused the statement.
        """
        return self._run(lambda t: t.fetch_all(sql, params, **named), limits)

    def fetch_records(self, sql: str, params: Params = None, /, **named: Any) -> list[Record]:
        """Like ``fetch_all``, with each row as a dict by column name."""
        return self._run(lambda t: t.fetch_records(sql, params, **named), None)

    def fetch_one(
        self, sql: str, params: Params = None, /, *, limits: Limits | None = None, **named: Any
    ) -> Row | None:
        """Like ``fetch_all``, but return the first row, or None."""
        return next(iter(self.fetch_all(sql, params, limits=limits, **named)), None)

    def execute(
        self, sql: str, params: Params = None, /, *, limits: Limits | None = None, **named: Any
    ) -> int:
        """Like ``fetch_all``, but return the number of affected rows."""
        return self._run(lambda t: t.execute(sql, params, **named), limits)

    def maintain(self, sql: str, *, limits: Limits) -> None:
        """Run a statement that PostgreSQL refuses in a transaction (VACUUM), on a new connection.

        Raises:
            StorageError: The server cannot be reached, or refused the statement.
        """
        with closing(connect(self.dsn, limits=limits)) as connection:
            connection.autocommit = True
            with translate_errors(), connection.cursor() as cursor:
                cursor.execute(sql)

    def in_transaction(
        self, work: Callable[[Transaction], T], *, limits: Limits | None = None
    ) -> T:
        """Run ``work`` in one transaction; retry it once if the connection breaks."""

        def attempt() -> T:
            with self.transaction(limits=limits) as transaction:
                return work(transaction)

        return self._retry_once(attempt)

    @contextmanager
    def transaction(self, *, limits: Limits | None = None) -> Iterator[Transaction]:
        """Open a transaction: committed at the end of the block, rolled back on any error."""
        with self._connection() as connection:
            connection.autocommit = False
            self.transactions += 1
            try:
                with connection, connection.cursor() as cursor:
                    if limits is not None:
                        connection.limit(limits, is_local=True)
                    yield Transaction(self, cursor)
            finally:
                if limits is not None:
                    connection.reset_limit()

    def _run(self, work: Callable[[Transaction], T], limits: Limits | None) -> T:
        if limits is not None:
            return self.in_transaction(work, limits=limits)

        def attempt() -> T:
            with self._connection() as connection:
                connection.autocommit = True
                self.transactions += 1
                with connection.cursor() as cursor:
                    return work(Transaction(self, cursor))

        return self._retry_once(attempt)

    def _retry_once(self, attempt: Callable[[], T]) -> T:
        try:
            return attempt()
        except (_NoFreeConnectionError, errors.StorageFullError, errors.StorageTimeoutError):
            raise  # the server answers, and an immediate retry would fail again
        except errors.StorageUnavailableError:
            if self._is_closing:
                raise
        self._wait_until_reachable()
        return attempt()

    def _wait_until_reachable(self) -> None:
        deadline = time.monotonic() + RECONNECT_SECONDS
        while not self._is_closing and time.monotonic() < deadline:
            with suppress(errors.StorageUnavailableError):
                connect(self.dsn).close()
                return
            time.sleep(RECONNECT_PAUSE)

    @contextmanager
    def _connection(self) -> Iterator[PgConnection]:
        pool = self._pool
        if pool is None:
            raise errors.StorageUnavailableError("the database client is closed")
        if not self._slots.acquire(timeout=self.wait_timeout):
            raise _NoFreeConnectionError(
                f"no database connection became free within {self.wait_timeout:g} s "
                f"(PG_POOL_MAX is {self.max_connections})"
            )
        try:
            connection = self._take_connection(pool)
            try:
                with translate_errors():
                    yield connection
            except BaseException as error:
                if isinstance(error, errors.StorageFullError):
                    self.full_at = time.monotonic()
                _roll_back(connection)
                raise
            finally:
                self._return_connection(pool, connection)
        finally:
            self._slots.release()

    def _take_connection(self, pool: PgPool) -> PgConnection:
        while True:
            try:
                connection = pool.getconn()
            except PoolError as error:
                raise errors.StorageUnavailableError("the database client is closed") from error
            if not connection.has_hung_up() and connection.answered_at >= self._silent_since:
                if self._is_closing:
                    connection.hurry(CLOSE_SECONDS)
                return connection
            pool.putconn(connection, close=True)

    def _return_connection(self, pool: PgPool, connection: PgConnection) -> None:
        if connection.silent_since is not None:
            self._silent_since = max(self._silent_since, connection.silent_since)
        try:
            pool.putconn(connection, close=bool(connection.closed))
        except PoolError:  # the client was closed meanwhile
            connection.close()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn driver errors into ours, without the rows that the server quotes in them."""
    try:
        yield
    except psycopg2.Error as error:
        raise statement_failure(error) from error
    except ValueError as error:  # psycopg2 itself refuses NUL bytes
        raise errors.StorageRejectedError(f"a value cannot be stored: {error}", None) from error


def storable(text: str) -> str:
    """Return the text in a form that PostgreSQL can store.

    NUL bytes and lone surrogates, which a UTF-8 ``text`` column cannot hold, become U+FFFD, the
    replacement character.
    """
    halves = text.replace("\x00", "\ufffd").encode("utf-16-le", "surrogatepass")  # joins pairs
    return halves.decode("utf-16-le", "replace")


def _roll_back(connection: PgConnection) -> None:
    if connection.closed:
        return
    try:
        connection.rollback()
    except psycopg2.Error:
        connection.close()


class Repository:
    """Base class of repositories; their methods block.

    The caller opens and closes the client. Given a transaction instead, the methods are steps of
    that transaction, under its limits.
    """

    def __init__(self, client: PgClient | Transaction) -> None:
        """Read and write through ``client``."""
        self._client = client

    def _all(
        self, row: Callable[..., T], sql: str, params: Params = None, /, **named: Any
    ) -> list[T]:
        """Return the rows of a statement, each built by ``row`` from its columns."""
        return [row(*columns) for columns in self._client.fetch_all(sql, params, **named)]

    def _first(
        self, row: Callable[..., T], sql: str, params: Params = None, /, **named: Any
    ) -> T | None:
        """Return the first row of a statement, built as in ``_all``, or None."""
        return next(iter(self._all(row, sql, params, **named)), None)

    def _values(self, sql: str, **named: Any) -> list[Any]:
        """Return the first column of a statement's rows."""
        return [row[0] for row in self._client.fetch_all(sql, **named)]


class OwnerSteps:
    """Base class of the steps on one owner's rows in the caller's transaction; they block."""

    def __init__(self, transaction: Transaction, owner: Owner) -> None:
        """Run the steps in ``transaction``, on the rows of ``owner``."""
        self._transaction = transaction
        self._owner = owner

    def _rows(self, sql: str, **named: Any) -> list[Row]:
        return self._transaction.fetch_all(sql, self._owner, **named)

    def _run(self, *statements: str, **named: Any) -> int:
        """Run statements with the same parameters; return the last one's affected rows."""
        return [self._transaction.execute(sql, self._owner, **named) for sql in statements][-1]
