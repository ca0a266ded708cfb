"""Connections with a deadline for every call, and PostgreSQL's errors as errors of ours."""

import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakSet

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import register_uuid

from src.base import errors

# Messages of the drivers quote pieces of the address, which can be pieces of the password, and
# rows, which hold what users wrote. So none of these messages leaves this module.

DISK_FULL = "53100"
LIMIT_EXCEEDED = "54"  # class of SQLSTATEs that the driver reports as operational errors
TIMED_OUT = ("57014", "55P03", "25P03")  # statement, lock, idle in transaction
STOPPED = ("57P01", "57P02", "57P03", "57P05")  # shut down, crashed, starting, idle for too long

ADVICE = (
    "look at DATABASE_URL or PG_*; in an address, special characters of the password are written "
    "percent-encoded (@ as %40)"
)

# Patterns in libpq's connection errors (the first match wins), and our message for each.
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
    """Return the error for a failed attempt to connect; ``error`` is psycopg2's or psycopg's."""
    message = str(error)
    meaning = next((text for sign, text in CONNECT_FAILURES if re.search(sign, message)), ADVICE)
    return errors.StorageUnavailableError(f"PostgreSQL cannot be reached: {meaning}")


def statement_failure(error: psycopg2.Error) -> errors.StorageError:
    """Return the error for a failed statement: server away, disk full, timeout, or refused."""
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


# After a failover that drops packets, or with a frozen server, libpq waits forever: TCP timeouts
# do not help when something acknowledges bytes without reading them, and a Unix socket has none.
# So each connection has a deadline for its running call, and one thread shuts down the sockets of
# late connections. libpq then sees the end of the stream and gives up.

CONNECT_TIMEOUT = 5  # seconds for one attempt to connect
GRACE = 2.0  # seconds after the server's own timeout before a call is given up
WATCH_SECONDS = 0.25  # between two checks of all connections

# Options of both drivers for libpq: the kernel notices a silent peer after 45 s when idle, after
# 10 s when it owes an acknowledgement.
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
    """Timeouts of a statement, in seconds.

    Attributes:
        statement: Maximum for one statement, waiting included.
        lock: Maximum wait for one lock.
    """

    statement: float
    lock: float

    def columns(self) -> dict[str, str]:
        """Return the parameters of ``SET_LIMITS``, except ``is_local``, in milliseconds."""
        seconds = {
            "statement": self.statement, "lock": self.lock, "idle": max(IDLE_SECONDS, self.lock),
        }  # fmt: skip
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


class PgConnection(Connection):
    """Connection that another thread can cut.

    Attributes:
        answered_at: Time of the server's last answer, on the monotonic clock.
        silent_since: Start of the call that was given up without an answer, or None.
        prepared: Names of the statements prepared on it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Connect; called by ``psycopg2.connect``."""
        super().__init__(*args, **kwargs)
        self.answered_at = time.monotonic()
        self.silent_since: float | None = None
        self._timeout = ORDINARY.statement + GRACE
        self._began_at: float | None = None
        self.prepared: set[str] = set()
        # A second descriptor of the same socket: libpq can close its own at any moment, and the
        # number could belong to another file by the time the watch uses it.
        self._socket = socket.socket(fileno=os.dup(self.fileno()))

    def limit(self, limits: Limits, *, is_local: bool = False) -> None:
        """Apply limits to the following statements; with ``is_local``, of this transaction."""
        self._timeout = limits.statement + GRACE
        with self.cursor() as cursor:
            cursor.execute(SET_LIMITS, {**limits.columns(), "is_local": is_local})

    def reset_limit(self) -> None:
        """Return to the ordinary limits after a transaction with limits of its own."""
        self._timeout = ORDINARY.statement + GRACE

    def hurry(self, seconds: float) -> None:
        """Give the running call, and later ones, only ``seconds``; for the process's end."""
        self._timeout = seconds
        if self._began_at is not None:
            self._began_at = time.monotonic()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the block as one call to the server."""
        self._began_at = time.monotonic()
        try:
            yield
        finally:
            self._began_at = None
            self.answered_at = time.monotonic()

    def cut_if_late(self, now: float) -> None:
        """Shut down the socket if the running call is past its deadline."""
        began = self._began_at
        if began is not None and now > began + self._timeout:
            self.silent_since = began
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def commit(self) -> None:
        """Commit, watched."""
        with self.watched():
            super().commit()

    def rollback(self) -> None:
        """Roll back, watched."""
        with self.watched():
            super().rollback()

    def close(self) -> None:
        """Close both descriptors of the socket."""
        super().close()
        self._socket.close()

    def __del__(self) -> None:
        """Close the second descriptor if the connection was never closed."""
        if hasattr(self, "_socket"):  # else it never connected
            self._socket.close()

    def has_hung_up(self) -> bool:
        """Return True if an idle connection has input: the server's closing message."""
        if self.closed:
            return True
        try:
            return has_input(self.fileno())
        except (OSError, ValueError, psycopg2.Error):
            return True


def has_input(descriptor: int) -> bool:
    """Return True if a socket has input or has reached its end."""
    poll = select.poll()  # select() takes no descriptor above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class PgCursor(Cursor):
    """Cursor whose statements are watched."""

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002  (psycopg2's name)
        """Execute a statement, watched."""
        connection: Any = self.connection
        with connection.watched():
            super().execute(query, vars)


_CONNECTIONS: WeakSet[PgConnection] = WeakSet()
_LOCK = threading.Lock()


@cache
def _start_watch() -> None:
    threading.Thread(target=_watch, name="pg-watch", daemon=True).start()


def _watch() -> None:
    while True:
        time.sleep(WATCH_SECONDS)
        with _LOCK:
            connections = list(_CONNECTIONS)
        now = time.monotonic()
        for connection in connections:
            connection.cut_if_late(now)
        del connections


def connect(
    dsn: str, *, application_name: str = "pomni", limits: Limits | None = None
) -> PgConnection:
    """Open one connection outside the pool.

    Raises:
        StorageUnavailableError: The server cannot be reached or refuses the login.
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
        with _LOCK:
            _CONNECTIONS.add(connection)
            _start_watch()
        register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]
        connection.autocommit = True
        connection.limit(limits or ORDINARY)
        connection.autocommit = False
    except (psycopg2.Error, UnicodeError, ValueError) as error:
        if connection is not None:
            connection.close()
        raise connect_failure(error) from None
    return connection
