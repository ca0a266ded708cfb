"""Connections to PostgreSQL with their timeouts, and its errors as errors of ours."""

import re
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extras import register_uuid

from src.base import errors

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
    """Connect with the ordinary limits; for psycopg2, a ``connection_factory``."""
    connection = Connection(address)
    register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]
    connection.autocommit = True
    set_limits(connection, ORDINARY)
    connection.autocommit = False
    return connection


def connect(
    dsn: str, *, application_name: str = "pomni", limits: Limits | None = None
) -> Connection:
    """Open one connection outside the pool, with the ordinary limits by default.

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
            connection.commit()
    except (psycopg2.Error, UnicodeError, ValueError) as error:
        raise connect_failure(error) from None
    return connection
