"""Schema migrations with Alembic under an advisory lock, and the checks before them."""

import logging
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from src.base import errors
from src.pg.client import MIGRATING, ORDINARY, Limits, connect, statement_failure, translate_errors

logger = logging.getLogger(__name__)

# The refusal of another program's database, and its remedy.
FOREIGN = (
    "The database holds tables of another program",
    "give Pomni a database of its own: make an empty one, and name it in DATABASE_URL or PG_DB",
)

ENCODING = "make another one with: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"

# Last migration of the old numbering, whose database ``migrations/env.py`` can take over.
LAST_OLD = "0125"

PROBLEM = (
    "DATABASE_URL: it leads to a pooler that pools transactions, where locks are lost and no "
    "notification arrives. Use its session pooling, or PostgreSQL's own address"
)


def check_sessions(dsn: str) -> None:
    """Check that no pooler in transaction mode stands between us and PostgreSQL.

    Such a pooler gives the session used last to the next request. So a second connection begins a
    transaction; if the first one is then served by another session, the pooler lent its own.

    Raises:
        ConfigError: There is one. Advisory locks, LISTEN and prepared statements need a session.
        StorageUnavailableError: The database cannot be reached.
    """
    with (
        translate_errors(),
        closing(connect(dsn, limits=ORDINARY)) as first,
        closing(connect(dsn, limits=ORDINARY)) as second,
        first.cursor() as own,
        second.cursor() as others,
    ):
        first.autocommit = True
        own.execute("SELECT pg_backend_pid()")
        before = own.fetchone()
        others.execute("SELECT 1")  # psycopg2 begins a transaction with it
        own.execute("SELECT pg_backend_pid()")
        if own.fetchone() != before:
            raise errors.ConfigError([PROBLEM])


# Of several processes that start at once, one migrates while the others wait for it. Alembic is
# not even imported if the database is already at the newest version.

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = ROOT / "migrations"
VERSIONS = MIGRATIONS / "versions"
LOCK_KEY = 7_361_200  # any number that no other advisory lock of ours uses
WAITING = Limits(statement=4 * 3600.0, lock=4 * 3600.0)  # while another process migrates

# Create what only a superuser may create on most servers.
CREATE_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"

# Select whether there is a version table, the number of other tables (without extensions'), and
# whether they are Pomni's, of any version.
SELECT_CONTENT = """
SELECT to_regclass('alembic_version') IS NOT NULL,
       (SELECT count(*) FROM pg_class c
        WHERE c.relnamespace = ANY (SELECT n.oid FROM pg_namespace n
                                    WHERE n.nspname = ANY (current_schemas(false)))
          AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname <> 'alembic_version'
          AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')),
       EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('owners')
               AND attname = 'telegram_user_id' AND NOT attisdropped)
"""

# Select the database's versions: one, unless another program's migrations branch.
SELECT_VERSIONS = "SELECT version_num FROM alembic_version ORDER BY version_num LIMIT 3"


def newest_version() -> str:
    """Return the number of the project's newest migration, such as ``0106``."""
    return max(path.name[:4] for path in VERSIONS.glob("[0-9]*.py"))


def find_version(dsn: str) -> str | None:
    """Return the database's version, or None before the first migration.

    Raises:
        SchemaRefusedError: No migration of ours starts from that version.
        StorageError: The database cannot be reached.
    """
    with closing(connect(dsn)) as connection, translate_errors():
        return _read_version(connection)


def check_content(dsn: str) -> None:
    """Check that a database has tables of ours, which this program can read or migrate.

    Raises:
        NoDatabaseError: It is empty.
        SchemaRefusedError: As ``find_version``.
        StorageError: As ``find_version``.
    """
    with closing(connect(dsn)) as connection, translate_errors():
        if _read_version(connection) is None:
            server = connection.info
            raise errors.NoDatabaseError(f"{server.dbname} at {server.host}:{server.port}")


def create_extension(connection: Connection) -> None:
    """Create the extension that our tables need, unless it is there; commit.

    Raises:
        StorageRejectedError: The role may not, or the server has none; it names the remedy.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(CREATE_EXTENSION)
        connection.commit()
    except psycopg2.Error as error:
        remedy = (
            "Install pgvector on its server if it is not there, and let a superuser run in the "
            f"database {connection.info.dbname}: CREATE EXTENSION vector;"
        )
        raise statement_failure(error, remedy) from error


def migrate(dsn: str, target: str = "head") -> tuple[str | None, str | None]:
    """Migrate the schema to ``target``, completely or not at all.

    Args:
        dsn: A libpq address.
        target: A migration's number, ``head``, or ``base`` (which drops everything).

    Returns:
        The versions before and after.

    Raises:
        SchemaRefusedError: The database is newer than this program, has an old numbering, or
            belongs to another program; nothing was changed.
        StorageError: The server cannot be reached, or refused a migration; nothing was changed.
    """
    with (
        closing(connect(dsn, application_name="pomni migrate", limits=WAITING)) as connection,
        translate_errors(),
        connection.cursor() as cursor,
    ):
        connection.autocommit = True
        cursor.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        before = _read_version(connection)
        if before is None:
            create_extension(connection)
        if target != "head" or before != newest_version():
            _run_alembic(dsn, before, target)
        after = _read_version(connection)
    if before != after:
        logger.info("migrated the database", extra={"before": before, "after": after})
    return before, after


def check_version(version: str) -> None:
    """Check that a migration of ours starts from a version.

    Raises:
        SchemaRefusedError: None does; the error names the version's state and a remedy.
    """
    newest, is_number = newest_version(), re.fullmatch(r"\d{4}", version) is not None
    if is_number and (version == LAST_OLD or any(VERSIONS.glob(f"{version}*.py"))):
        return
    if is_number and version > newest:
        raise errors.SchemaRefusedError(
            f"The database is at version {version}, this program knows {newest}",
            "start the newer program, or restore the backup from before the upgrade",
        )
    raise errors.SchemaRefusedError(*FOREIGN)


def _read_version(connection: Connection) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(SELECT_CONTENT)
        has_versions, tables, is_ours = cursor.fetchone() or (False, 0, False)
        rows: list[tuple[Any, ...]] = []
        if has_versions:
            cursor.execute(SELECT_VERSIONS)
            rows = cursor.fetchall()
    connection.rollback()
    if not rows and not tables:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise errors.SchemaRefusedError(f"The database's encoding is {encoding}", ENCODING)
        return None
    if len(rows) != 1 or not is_ours:
        raise errors.SchemaRefusedError(*FOREIGN)
    version = str(rows[0][0])
    check_version(version)
    return version


def _run_alembic(dsn: str, before: str | None, target: str) -> None:
    # Imported here, since most callers have nothing to migrate.
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
            config.attributes |= {"connection": connection, "is_old": before == LAST_OLD}
            if target == "base" or (before is not None and target != "head" and target < before):
                command.downgrade(config, target)
            else:
                command.upgrade(config, target)
    except (DBAPIError, psycopg2.Error) as error:  # DBAPIError's message quotes the statement
        cause: Any = getattr(error, "orig", error)
        raise statement_failure(cause) from cause
