"""What PostgreSQL's errors mean, in our own words.

The drivers' words quote what they were given: pieces of an address, which may be pieces of a
password, and rows, which are what users wrote. So none of theirs gets any further than here.
"""

from __future__ import annotations

import psycopg2

from src.errors import (
    StorageError,
    StorageFullError,
    StorageRejectedError,
    StorageTimeoutError,
    StorageUnavailableError,
)

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
    ("no pg_hba.conf entry", "the server takes no such connection: see its pg_hba.conf"),
    ("role ", f"the server knows no such user: {ADVICE}"),
    ("not currently accepting connections", "the database accepts no connections now"),
    ("permission denied for database", "the user may not use that database"),
    ("too many connections", "the server has no free connection (max_connections)"),
    ("too many clients", "the server has no free connection (max_connections)"),
    ("remaining connection slots", "the server has no free connection (max_connections)"),
    ("database ", f"the server has no such database: {ADVICE}"),
    ("starting up", "the server is starting"),
    ("shutting down", "the server is shutting down"),
    ("recovery mode", "the server is recovering from a crash"),
    ("No space left on device", "the server's disk is full"),
    ("timeout expired", "it did not answer in time"),
    ("timed out", "it did not answer in time"),
    ("refused", "nothing listens at that host and port"),
    ("No such file or directory", "no server has its socket there"),
    ("Permission denied", "this user may not use the server's socket, or a file of the settings"),
    ("No route to host", "there is no way to its host"),
    ("unreachable", "there is no way to its host"),
    ("certificate", "its certificate is not accepted: see sslmode and sslrootcert"),
    ("SSL", "it and libpq do not agree on TLS: see sslmode"),
    ("closed the connection", "it closed the connection at once"),
    ("unsupported startup parameter", "it refuses a parameter: see the address's options"),
    ("invalid ", f"libpq refuses the address: {ADVICE}"),
)


def connect_failure(error: Exception) -> StorageUnavailableError:
    """Why no connection came about; ``error`` is psycopg2's or psycopg's."""
    told = str(error)
    meaning = next((words for sign, words in CONNECT_FAILURES if sign in told), ADVICE)
    return StorageUnavailableError(f"PostgreSQL cannot be reached: {meaning}")


def statement_failure(error: psycopg2.Error) -> StorageError:
    """Why a statement came to nothing: the server is away, its disk is full, or it refused."""
    code = error.pgcode or ""
    if code == DISK_FULL:
        return StorageFullError("PostgreSQL's disk is full (53100)")
    is_lost = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
    if not is_lost or code.startswith(LIMIT_EXCEEDED):
        name = type(error).__name__
        return StorageRejectedError(f"PostgreSQL refused a statement: {name}", error.pgcode)
    if code in TIMED_OUT:
        return StorageTimeoutError(f"PostgreSQL took too long ({type(error).__name__})")
    if code in STOPPED:
        return StorageUnavailableError(f"PostgreSQL is stopping or starting ({code})")
    return StorageUnavailableError(f"the connection to PostgreSQL broke ({code or 'no answer'})")
