"""Connections whose every call ends, and what PostgreSQL's errors mean in our own words."""

import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import register_uuid

from src.base import errors

# The drivers' words quote what they were given: pieces of an address, which may be pieces of a
# password, and rows, which are what users wrote. So none of theirs gets any further than here.

DISK_FULL = "53100"
LIMIT_EXCEEDED = "54"  # class of sqlstates that the driver takes for operational errors
TIMED_OUT = ("57014", "55P03", "25P03")  # statement, lock, idle in transaction
STOPPED = ("57P01", "57P02", "57P03", "57P05")  # shut down, crashed, starting, idle for too long

ADVICE = (
    "look at DATABASE_URL or PG_*; in an address, special characters of the password are written "
    "percent-encoded (@ as %40)"
)

# What libpq, or the server through it, says when it refuses to connect, and what that means.
CONNECT_FAILURES: tuple[tuple[str, str], ...] = (
    ("could not translate host name", f"nobody knows its host by that name: {ADVICE}"),
    ("could not parse network address", f"its host is no address: {ADVICE}"),
    ("no password supplied", f"the server wants a password: {ADVICE}"),
    ("password authentication failed", f"the server refuses the user or the password: {ADVICE}"),
    ("authentication failed", f"the server refuses the user: {ADVICE}"),
    (r"no pg_hba\.conf entry", "the server takes no such connection: see its pg_hba.conf"),
    ("role ", f"the server knows no such user: {ADVICE}"),
    ("not currently accepting connections", "the database accepts no connections now"),
    ("permission denied for database", "the user may not use that database"),
    (
        "too many connections|too many clients|remaining connection slots",
        "the server has no free connection (max_connections)",
    ),
    ("database ", f"the server has no such database: {ADVICE}"),
    ("starting up", "the server is starting"),
    ("shutting down", "the server is shutting down"),
    ("recovery mode", "the server is recovering from a crash"),
    ("No space left on device", "the server's disk is full"),
    ("timeout expired|timed out", "it did not answer in time"),
    ("refused", "nothing listens at that host and port"),
    ("No such file or directory", "no server has its socket there"),
    ("Permission denied", "this user may not use the server's socket, or a file of the settings"),
    ("No route to host|unreachable", "there is no way to its host"),
    ("certificate", "its certificate is not accepted: see sslmode and sslrootcert"),
    ("SSL", "it and libpq do not agree on TLS: see sslmode"),
    ("closed the connection", "it closed the connection at once"),
    ("unsupported startup parameter", "it refuses a parameter: see the address's options"),
    ("invalid ", f"libpq refuses the address: {ADVICE}"),
)


def connect_failure(error: Exception) -> errors.StorageUnavailableError:
    """Why no connection came about; ``error`` is psycopg2's or psycopg's."""
    told = str(error)
    meaning = next((words for sign, words in CONNECT_FAILURES if re.search(sign, told)), ADVICE)
    return errors.StorageUnavailableError(f"PostgreSQL cannot be reached: {meaning}")


def statement_failure(error: psycopg2.Error) -> errors.StorageError:
    """Why a statement came to nothing: the server is away, its disk is full, or it refused."""
    code = error.pgcode or ""
    if code == DISK_FULL:
        return errors.StorageFullError("PostgreSQL's disk is full (53100)")
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


# After a fail-over that drops packets, or with a frozen server, libpq waits for ever: TCP's
# time-outs do not help when something acknowledges unread bytes, and a Unix socket has none.
# So each connection has a deadline for its running call, and one thread for all of them shuts
# the sockets of those that are late. libpq then sees the end of the stream and gives up.

CONNECT_TIMEOUT = 5  # seconds for one attempt to connect
GRACE = 2.0  # seconds that the server's own time-out gets before we give a call up
WATCH_SECONDS = 0.25  # between two looks at what is late

# What both drivers hand to libpq: a silent peer is noticed by the kernel after 45 s when idle,
# after 10 s when it owes an acknowledgement.
LIBPQ_OPTIONS = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
    "client_encoding": "UTF8",
}


@dataclass(frozen=True)
class Limits:
    """How long the server works on a statement, in seconds.

    Attributes:
        statement: The most for one statement, with all its waiting.
        lock: The most that it waits for one lock.
    """

    statement: float
    lock: float

    def columns(self) -> dict[str, str]:
        """The parameters of ``SET_LIMITS`` but one, in milliseconds."""
        seconds = {
            "statement": self.statement, "lock": self.lock, "idle": max(IDLE_SECONDS, self.lock),
        }  # fmt: skip
        return {name: str(round(1000 * value)) for name, value in seconds.items()}


ORDINARY = Limits(statement=8.0, lock=5.0)  # a turn's statements take milliseconds
PATIENT = Limits(statement=600.0, lock=60.0)  # what goes through a whole table
MIGRATING = Limits(statement=4 * 3600.0, lock=120.0)  # what builds an index on a million rows

# SET as a function; the last argument says whether it holds for the transaction only. Sent after
# connecting, since poolers refuse them among the start-up parameters.
SET_LIMITS = """
SELECT set_config('statement_timeout', %(statement)s, %(is_local)s),
       set_config('lock_timeout', %(lock)s, %(is_local)s),
       set_config('idle_in_transaction_session_timeout', %(idle)s, %(is_local)s)
"""
IDLE_SECONDS = 15.0  # in a transaction between two statements


class PgConnection(Connection):
    """A connection that can be cut from another thread.

    Attributes:
        answered_at: When the server was last heard, on the monotonic clock.
        silent_since: When the call began that was given up without an answer, or None.
        prepared: The names of its prepared statements.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Connect; called by ``psycopg2.connect``."""
        super().__init__(*args, **kwargs)
        self.answered_at = time.monotonic()
        self.silent_since: float | None = None
        self._allowed = ORDINARY.statement + GRACE
        self._began: float | None = None
        self.prepared: set[str] = set()
        # A second descriptor of the same socket: libpq may close its own at any moment, and the
        # number may be another file's by the time that the watch uses it.
        self._line = socket.socket(fileno=os.dup(self.fileno()))

    def limit(self, limits: Limits, *, is_local: bool = False) -> None:
        """Hold what follows to these limits; locally: until the end of the transaction."""
        self._allowed = limits.statement + GRACE
        with self.cursor() as cursor:
            cursor.execute(SET_LIMITS, {**limits.columns(), "is_local": is_local})

    def forget_limit(self) -> None:
        """Back to the ordinary limits, after a transaction with others."""
        self._allowed = ORDINARY.statement + GRACE

    def hurry(self, seconds: float) -> None:
        """Give the running call only so much longer; for the end of the process."""
        self._allowed = seconds
        if self._began is not None:
            self._began = time.monotonic()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block is one call to the server."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._began = None
            self.answered_at = time.monotonic()

    def cut_if_late(self, now: float) -> None:
        """Shut the socket when the running call has had its time."""
        began = self._began
        if began is not None and now > began + self._allowed:
            self.silent_since = began
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)

    def commit(self) -> None:
        """See psycopg2."""
        with self.watched():
            super().commit()

    def rollback(self) -> None:
        """See psycopg2."""
        with self.watched():
            super().rollback()

    def close(self) -> None:
        """See psycopg2."""
        super().close()
        self._line.close()

    def __del__(self) -> None:
        """Close the second descriptor of a connection that was not closed."""
        if hasattr(self, "_line"):  # else it never connected
            self._line.close()

    def has_hung_up(self) -> bool:
        """Whether an idle connection has something to read: the server's good-bye."""
        if self.closed:
            return True
        try:
            return has_input(self.fileno())
        except (OSError, ValueError, psycopg2.Error):
            return True


def has_input(descriptor: int) -> bool:
    """Whether there is something to read on a socket, or it has ended."""
    poll = select.poll()  # select() takes no descriptor above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class PgCursor(Cursor):
    """A cursor whose statements are watched."""

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002  (psycopg2's name)
        """See psycopg2."""
        connection: Any = self.connection
        with connection.watched():
            super().execute(query, vars)


class _Watch:
    """Looks at every connection of the process, four times a second, in a thread of its own."""

    def __init__(self) -> None:
        self._connections: WeakSet[PgConnection] = WeakSet()
        self._lock = threading.Lock()
        self._is_running = False

    def add(self, connection: PgConnection) -> None:
        with self._lock:
            self._connections.add(connection)
            if not self._is_running:
                threading.Thread(target=self._run, name="pg-watch", daemon=True).start()
                self._is_running = True

    def _run(self) -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            with self._lock:
                connections = list(self._connections)
            now = time.monotonic()
            for connection in connections:
                connection.cut_if_late(now)
            del connections


_WATCH = _Watch()


def connect(
    dsn: str, *, application_name: str = "pomni", limits: Limits | None = None
) -> PgConnection:
    """Open one connection of one's own, outside the pool.

    Raises:
        StorageUnavailableError: The server cannot be reached or refuses the log-in.
    """
    connection: PgConnection | None = None
    try:
        connection = psycopg2.connect(
            dsn,
            connection_factory=PgConnection,
            cursor_factory=PgCursor,
            application_name=application_name,
            **LIBPQ_OPTIONS,
        )
        _WATCH.add(connection)
        register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]
        connection.autocommit = True
        connection.limit(limits or ORDINARY)
        connection.autocommit = False
    except (psycopg2.Error, UnicodeError, ValueError) as error:
        if connection is not None:
            connection.close()
        raise connect_failure(error) from None
    return connection
