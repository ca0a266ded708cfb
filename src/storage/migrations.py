"""Bring the database to the newest schema: Alembic, under an advisory lock.

Several processes may start at once; one migrates while the others wait for it. When the
database is already at the newest version, Alembic is not even imported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg2
from psycopg2.extensions import connection as Connection

from src.errors import ConfigError, StorageRejectedError
from src.storage.pg_client import wrapped_errors
from src.storage.pg_connection import MIGRATING, connect
from src.storage.pg_failures import statement_failure

logger = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
LOCK_KEY = 7_361_200  # any number that no other advisory lock of ours uses
LOCK_PAUSE = 0.2  # seconds between two looks whether another process has finished migrating
# What an operator has to mend on the server: an extension that is not installed, a right that the
# user lacks. These messages name objects of the schema and no rows.
TOLD_IN_FULL = ("0A000", "42501", "58P01")

# The version that the database is at; the table is absent before the first migration.
SELECT_VERSION = "SELECT version_num FROM alembic_version"


def newest_version() -> str:
    """The number of the newest migration in the project, such as ``0005``."""
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def find_version(dsn: str) -> str | None:
    """The version that the database is at, or None before the first migration."""
    connection = connect(dsn)
    try:
        with wrapped_errors():
            return _read_version(connection)
    finally:
        connection.close()


def migrate(dsn: str, target: str = "head") -> tuple[str | None, str | None]:
    """Bring the schema to ``target``; returns the versions before and after.

    Args:
        dsn: A libpq address.
        target: A migration's number, ``head``, or ``base`` (which drops everything).

    Raises:
        ConfigError: The database is newer than this program.
        StorageUnavailableError: The server cannot be reached.
    """
    with _locked(dsn) as connection:
        before = _read_version(connection)
        newest = newest_version()
        if before is not None and before > newest:
            raise ConfigError(
                [
                    f"The database is at version {before}, this program knows {newest}. "
                    "Start the newer program, or restore the backup from before the upgrade"
                ]
            )
        if target != "head" or before != newest:
            _run_alembic(dsn, before, target)
        after = _read_version(connection)
    if before != after:
        logger.info("migrated the database", extra={"before": before, "after": after})
    return before, after


def _read_version(connection: Connection) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('alembic_version')")
        if cursor.fetchone() == (None,):
            connection.rollback()
            return None
        cursor.execute(SELECT_VERSION)
        row = cursor.fetchone()
    connection.rollback()
    return str(row[0]) if row else None


@contextmanager
def _locked(dsn: str) -> Iterator[Connection]:
    connection = connect(dsn, application_name="pomni migrate")
    try:
        with wrapped_errors():
            while not _try_lock(connection):
                time.sleep(LOCK_PAUSE)
            yield connection
    finally:
        connection.close()


def _try_lock(connection: Connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,))
        (is_ours,) = cursor.fetchone() or (False,)
    connection.commit()
    return bool(is_ours)


def _run_alembic(dsn: str, before: str | None, target: str) -> None:
    # Imported here: Alembic and SQLAlchemy cost 25 MB, and most starts have nothing to migrate.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    engine = create_engine(
        "postgresql+psycopg2://",
        creator=lambda: connect(dsn, application_name="pomni migrate", limits=MIGRATING),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            if target == "base" or (before is not None and target != "head" and target < before):
                command.downgrade(config, target)
            else:
                command.upgrade(config, target)
    except DBAPIError as error:  # its text quotes the whole statement
        if not isinstance(error.orig, psycopg2.Error):
            raise
        _explain(error.orig)


def _explain(error: psycopg2.Error) -> NoReturn:
    """Say why a migration came to nothing.

    Raises:
        StorageError: Always.
    """
    if error.pgcode in TOLD_IN_FULL:
        told = f"PostgreSQL refused a migration: {error.diag.message_primary}"
        raise StorageRejectedError(told, error.pgcode) from error
    raise statement_failure(error) from error
