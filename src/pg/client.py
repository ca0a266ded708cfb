"""PostgreSQL client: connections, their timeouts and errors, a bounded pool, base repositories."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import psycopg2
from psycopg2.extensions import AsIs, register_adapter
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import register_uuid
from psycopg2.pool import PoolError, ThreadedConnectionPool
from psycopg2.sql import Composed

from src.base import errors
from src.base.owners import Owner

# Messages of the drivers quote pieces of the address, which can be pieces of the password, and
# rows, which hold what users wrote. So none of these messages leaves this module.

DISK_FULL = "53100"
LIMIT_EXCEEDED = "54"  # class of SQLSTATEs that the driver reports as operational errors
TIMED_OUT = ("57014", "55P03", "25P03")  # statement, lock, idle in transaction
# Faults that an operator has to mend at the server (an extension that is not installed, a missing
# privilege or schema, a replica): their messages name objects of the schema and no rows.
SHOWN_IN_FULL = ("0A000", "25006", "3F000", "42501", "58P01")
STOPPED = ("57P01", "57P02", "57P03", "57P05")  # shut down, crashed, starting, idle for too long

ADVICE = (
    "look at DATABASE_URL or PG_*; in an address, special characters of the password are written "
    "percent-encoded (@ as %40)"
)

# Patterns in libpq's connection errors (the first match wins), and our message for each.
CONNECT_FAILURES = (
    ("could not translate host name", f"nobody knows its host by that name: {ADVICE}"),
    ("authentication failed|no password", f"the server refuses the user or password: {ADVICE}"),
    (r"no pg_hba\.conf entry", "the server takes no such connection: see its pg_hba.conf"),
    ("too many|remaining connection slots", "it has no free connection (max_connections)"),
    ("role ", f"the server knows no such user: {ADVICE}"),
    ("database ", f"the server does not open such a database: {ADVICE}"),
    ("starting up|shutting down|recovery mode", "the server is starting or stopping"),
    ("No space left on device", "the server's disk is full"),
    ("timeout expired|timed out", "it did not answer in time"),
    ("refused|unreachable|No route", "nothing listens at that host and port"),
    ("invalid response|closed the connection", "it breaks off, or is no PostgreSQL"),
    ("No such file or directory", "no server has its socket there"),
    ("certificate|SSL", "it and libpq do not agree on TLS: see sslmode and sslrootcert"),
    ("invalid ", f"libpq refuses the address: {ADVICE}"),
)


def connect_failure(error: Exception) -> errors.StorageUnavailableError:
    """Return the error for a failed attempt to connect; ``error`` is psycopg2's or psycopg's."""
    message = str(error)
    meaning = next((text for sign, text in CONNECT_FAILURES if re.search(sign, message)), ADVICE)
    return errors.StorageUnavailableError(f"PostgreSQL cannot be reached: {meaning}")


RIGHTS = "See “A PostgreSQL of your own” in docs/operating.md"


def statement_failure(error: psycopg2.Error, remedy: str = RIGHTS) -> errors.StorageError:
    """Return the error for a failed statement: server away, disk full, timeout, or refused.

    Args:
        error: The driver's.
        remedy: What the operator can do about a refusal that is shown in full.
    """
    code = error.pgcode or ""
    if code == DISK_FULL:
        return errors.StorageFullError("PostgreSQL's disk is full (53100)")
    if code in SHOWN_IN_FULL:
        message = f"PostgreSQL refused: {error.diag.message_primary}. {remedy}"
        return errors.StorageRejectedError(message, code)
    is_lost = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
    if not is_lost or code.startswith(LIMIT_EXCEEDED):
        name = type(error).__name__
        return errors.StorageRejectedError(f"PostgreSQL refused a statement: {name}", error.pgcode)
    if code in TIMED_OUT:
        return errors.StorageTimeoutError(f"PostgreSQL took too long ({type(error).__name__})")
    if code in STOPPED:
        return errors.StorageUnavailableError(f"PostgreSQL is stopping or starting ({code})")
    return errors.StorageUnavailableError(
        f"the connection to PostgreSQL broke ({code or 'no answer'})"
    )


# Options of both drivers for libpq: the kernel gives up a silent peer after 45 s when idle, after
# 10 s when it owes an acknowledgement. A peer that acknowledges and does not answer, such as a
# backend that somebody froze, is waited for.
LIBPQ_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,  # seconds for one attempt to connect
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
    "client_encoding": "UTF8",
}


@dataclass(frozen=True)
class Limits:
    """Timeouts of a statement, in seconds.

    Attributes:
        statement: Maximum for one statement, waiting included.
        lock: Maximum wait for one lock.
    """

    statement: float
    lock: float

    def columns(self) -> dict[str, str]:
        """Return the parameters of ``SET_LIMITS``, except ``is_local``, in milliseconds."""
        idle = max(IDLE_SECONDS, self.lock)
        seconds = {"statement": self.statement, "lock": self.lock, "idle": idle}
        return {name: str(round(1000 * value)) for name, value in seconds.items()}


ORDINARY = Limits(statement=8.0, lock=5.0)  # a turn's statements take milliseconds
PATIENT = Limits(statement=600.0, lock=60.0)  # statements that scan a whole table
MIGRATING = Limits(statement=4 * 3600.0, lock=120.0)  # an index on a million rows is built

# Set the timeouts, for the transaction only if the last argument is true. Sent after connecting,
# since poolers refuse them among the startup parameters.
SET_LIMITS = """
SELECT set_config('statement_timeout', %(statement)s, %(is_local)s),
       set_config('lock_timeout', %(lock)s, %(is_local)s),
       set_config('idle_in_transaction_session_timeout', %(idle)s, %(is_local)s)
"""
IDLE_SECONDS = 15.0  # in a transaction between two statements


def set_limits(connection: Connection, limits: Limits, *, is_local: bool = False) -> None:
    """Apply limits to the following statements; with ``is_local``, of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(SET_LIMITS, {**limits.columns(), "is_local": is_local})


def open_connection(address: str) -> Connection:
    """Connect with the ordinary limits, in autocommit; for psycopg2, a ``connection_factory``."""
    connection = Connection(address)
    register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]
    connection.autocommit = True
    set_limits(connection, ORDINARY)
    return connection


def connect(
    dsn: str, *, application_name: str = "pomni", limits: Limits | None = None
) -> Connection:
    """Open one connection outside the pool, not in autocommit, by default with ordinary limits.

    Raises:
        StorageUnavailableError: The server cannot be reached or refuses the login.
    """
    try:
        connection = psycopg2.connect(
            dsn,
            connection_factory=open_connection,
            application_name=application_name,
            **LIBPQ_OPTIONS,
        )
        if limits is not None:
            set_limits(connection, limits)
        connection.autocommit = False
    except (psycopg2.Error, UnicodeError, ValueError) as error:
        raise connect_failure(error) from None
    return connection


T = TypeVar("T")
Sql = str | Composed  # with ``%(name)s`` for parameters
Params = Mapping[str, Any] | Owner | None
Row = tuple[Any, ...]
Record = dict[str, Any]

RECONNECT_PAUSE = 0.1  # seconds between two attempts to reach a restarting server
STREAMED = 500  # rows of a stream in memory at a time

# psycopg2 writes an ``Owner`` among the parameters as the look-up of its id (NULL if there is no
# row), so that ``%(owner)s`` costs no round trip of its own.
OWNER_ID = "(SELECT id FROM owners WHERE telegram_user_id = %d AND thread_id = %d)"
register_adapter(Owner, lambda owner: AsIs(OWNER_ID % owner.row))


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

    def fetch_all(self, sql: Sql, params: Params = None, /, **named: Any) -> list[Row]:
        """Run a statement and return its rows; parameters as in ``PgClient.fetch_all``."""
        self.execute(sql, params, **named)
        if self._cursor.description:
            return self._cursor.fetchall()
        return []

    def fetch_records(self, sql: Sql, params: Params = None, /, **named: Any) -> list[Record]:
        """Run a statement and return its rows as dicts by column name."""
        rows = self.fetch_all(sql, params, **named)
        names = [column.name for column in self._cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def fetch_one(self, sql: Sql, params: Params = None, /, **named: Any) -> Row | None:
        """Run a statement and return its first row, or None."""
        return next(iter(self.fetch_all(sql, params, **named)), None)

    def execute(self, sql: Sql, params: Params = None, /, **named: Any) -> int:
        """Run a statement and return the number of affected rows."""
        self._client.statements += 1
        if isinstance(params, Owner):
            params = params.columns()
        values = {**(params or {}), **named}
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
        reconnect_timeout: Seconds that a broken statement waits for a restarting server: what only
            this process knows, such as that Telegram accepted an answer, should reach the database
            and not be done twice.
        statements: Number of statements sent, for tests and benchmarks.
        transactions: Number of transactions run (a single statement is one).
        full_at: Time of the last statement that failed because the disk was full, on the
            monotonic clock, or None.
    """

    dsn: str
    min_connections: int = 1
    max_connections: int = 10
    wait_timeout: float = 10.0
    reconnect_timeout: float = 15.0

    def __post_init__(self) -> None:
        """Set up the state; ``open`` connects."""
        self.statements = 0
        self.transactions = 0
        self.full_at: float | None = None
        self._slots = threading.BoundedSemaphore(self.max_connections)
        self._pool: ThreadedConnectionPool | None = None
        self._used: set[Connection] = set()
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
            try:
                self._pool = self._build_pool(self.min_connections)
            except (psycopg2.Error, UnicodeError, ValueError) as error:
                raise connect_failure(error) from None
            self._threads = ThreadPoolExecutor(self.max_connections, thread_name_prefix="pg")
            self._is_closing = False

    def close(self) -> None:
        """Cancel the running statements and close every connection; a second call does nothing."""
        with self._open_lock:
            threads, self._threads = self._threads, None  # ``run`` raises from here on
            self._is_closing = True
            if self._pool is None or threads is None:
                return
            for connection in list(self._used):
                with suppress(psycopg2.Error):
                    connection.cancel()
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
        self, sql: Sql, params: Params = None, /, *, limits: Limits | None = None, **named: Any
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
        return self._run_one(lambda t: t.fetch_all(sql, params, **named), limits)

    def fetch_records(self, sql: Sql, params: Params = None, /, **named: Any) -> list[Record]:
        """Like ``fetch_all``, with each row as a dict by column name."""
        return self._run_one(lambda t: t.fetch_records(sql, params, **named))

    def fetch_one(self, sql: Sql, params: Params = None, /, **named: Any) -> Row | None:
        """Like ``fetch_all``, but return the first row, or None."""
        return next(iter(self.fetch_all(sql, params, **named)), None)

    def execute(
        self, sql: Sql, params: Params = None, /, *, limits: Limits | None = None, **named: Any
    ) -> int:
        """Like ``fetch_all``, but return the number of affected rows."""
        return self._run_one(lambda t: t.execute(sql, params, **named), limits)

    def stream(self, sql: Sql, params: Params = None, /) -> Iterator[Row]:
        """Run a statement that reads much, and yield its rows from a cursor on the server."""
        with self._connection() as connection, connection:
            set_limits(connection, PATIENT, is_local=True)
            # ``withhold``: in autocommit psycopg2 takes no other named cursor. It is closed first.
            with connection.cursor("rows", withhold=True) as cursor:
                cursor.itersize = STREAMED
                Transaction(self, cursor).execute(sql, params)
                yield from cursor

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
        return self._retry(partial(self.transaction, limits=limits), work)

    def _run_one(self, work: Callable[[Transaction], T], limits: Limits | None = None) -> T:
        """Run one statement, which is a transaction by itself: no BEGIN, no COMMIT."""
        if limits is not None:
            return self.in_transaction(work, limits=limits)
        return self._retry(self.autocommit, work)

    def _retry(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        work: Callable[[Transaction], T],
    ) -> T:
        pool = self._pool
        try:
            with begin() as transaction:
                return work(transaction)
        except (errors.StorageFullError, errors.StorageTimeoutError):
            raise  # the server answers, and an immediate retry would fail again
        except errors.StorageUnavailableError:
            if self._is_closing or pool is None:
                raise
        deadline = time.monotonic() + self.reconnect_timeout
        while not self._is_closing and time.monotonic() < deadline:
            with suppress(errors.StorageUnavailableError):
                connect(self.dsn).close()
                break
            time.sleep(RECONNECT_PAUSE)
        if self._pool is pool:  # the other idle connections have most likely died as well
            self._pool = self._build_pool(0)
        with begin() as transaction:
            return work(transaction)

    @contextmanager
    def transaction(self, *, limits: Limits | None = None) -> Iterator[Transaction]:
        """Open a transaction: committed at the end of the block, rolled back on any error."""
        with self._connection() as connection, connection, connection.cursor() as cursor:
            self.transactions += 1
            if limits is not None:
                set_limits(connection, limits, is_local=True)
            yield Transaction(self, cursor)

    @contextmanager
    def autocommit(self) -> Iterator[Transaction]:
        """Yield a transaction of which each statement is one by itself."""
        with self._connection() as connection, connection.cursor() as cursor:
            self.transactions += 1
            yield Transaction(self, cursor)

    def _build_pool(self, connections: int) -> ThreadedConnectionPool:
        options = {"connection_factory": open_connection, "application_name": "pomni"}
        pool = ThreadedConnectionPool(
            connections, self.max_connections, self.dsn, **options, **LIBPQ_OPTIONS
        )
        pool.minconn = self.max_connections  # it closes returned connections above this number
        return pool

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        pool = self._pool
        if pool is None:
            raise errors.StorageUnavailableError("the database client is closed")
        if not self._slots.acquire(timeout=self.wait_timeout):
            raise errors.StorageTimeoutError(
                f"no database connection became free within {self.wait_timeout:g} s "
                f"(PG_POOL_MAX is {self.max_connections})"
            )
        try:
            try:
                connection = pool.getconn()
            except PoolError as error:
                raise errors.StorageUnavailableError("the database client is closed") from error
            except (psycopg2.Error, UnicodeError, ValueError) as error:
                raise connect_failure(error) from None
            self._used.add(connection)
            try:
                with translate_errors():
                    yield connection
            except errors.StorageFullError:
                self.full_at = time.monotonic()
                raise
            finally:
                self._used.discard(connection)
                try:
                    pool.putconn(connection)
                except PoolError:  # the client was closed meanwhile
                    connection.close()
        finally:
            self._slots.release()


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


class Repository:
    """Base class of repositories; their methods block.

    The caller opens and closes the client. Given a transaction instead, the methods are steps of
    that transaction, under its limits.
    """

    def __init__(self, client: PgClient | Transaction) -> None:
        """Read and write through ``client``."""
        self._client = client

    def _all(
        self, row: Callable[..., T], sql: Sql, params: Params = None, /, **named: Any
    ) -> list[T]:
        """Return the rows of a statement, each built by ``row`` from its columns."""
        return [row(*columns) for columns in self._client.fetch_all(sql, params, **named)]

    def _first(
        self, row: Callable[..., T], sql: Sql, params: Params = None, /, **named: Any
    ) -> T | None:
        """Return the first row of a statement, built as in ``_all``, or None."""
        return next(iter(self._all(row, sql, params, **named)), None)

    def _values(self, sql: Sql, **named: Any) -> list[Any]:
        """Return the first column of a statement's rows."""
        return [row[0] for row in self._client.fetch_all(sql, **named)]


class OwnerSteps:
    """Base class of the steps on one owner's rows in the caller's transaction; they block."""

    def __init__(self, transaction: Transaction, owner: Owner) -> None:
        """Run the steps in ``transaction``, on the rows of ``owner``."""
        self._transaction = transaction
        self._owner = owner

    def _rows(self, sql: Sql, **named: Any) -> list[Row]:
        return self._transaction.fetch_all(sql, self._owner, **named)

    def _run(self, *statements: Sql, **named: Any) -> int:
        """Run statements with the same parameters; return the last one's affected rows."""
        return [self._transaction.execute(sql, self._owner, **named) for sql in statements][-1]
