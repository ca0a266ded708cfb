"""``python bot.py backup`` and ``restore``: the database in one file, by PostgreSQL's programs.

The bot may run during a backup: the file is a consistent snapshot. It is restored into an empty
database only; the next migration upgrades an older schema.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from psycopg import pq

from src.base.errors import BackupError
from src.pg import embedded, migrations
from src.pg.client import connect, translate_errors

MAGIC = b"PGDMP"  # beginning of a file in pg_dump's custom format
TIMEOUT = 24 * 3600.0  # seconds; a large database takes long
# The schema and the one row of alembic_version, as pg_restore writes them.
VERSION_ROW = re.compile(rb"^COPY ([^\n]+)\.alembic_version [^\n]*\n([^\n]+)\n\\\.$", re.MULTILINE)
# Entries of pg_restore's list: extensions, which only a superuser may restore, and the schema.
NOT_RESTORED = re.compile(rb"^\d+; \d+ \d+ (?:COMMENT - )?(?:EXTENSION|SCHEMA) .*\n", re.MULTILINE)
OLDEST_SERVER = 170000  # that takes what the wheel's pg_restore sends
NO_ROLES = ("--no-owner", "--no-privileges")
MAX_CAUSE = 400  # characters of a program's errors, from their end

# Schema where the bot looks for its tables, and the number of tables and views there with which a
# restore could collide; those of extensions do not count.
COUNT_TABLES = """
SELECT quote_ident(current_schema()), count(*)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname = current_schema()
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
"""


# Whether anybody has ever written to the bot.
HAS_OWNERS = "SELECT EXISTS (SELECT 1 FROM owners)"


def has_owners(dsn: str) -> bool:
    """Return True if a migrated database has data of anybody."""
    with closing(connect(dsn)) as connection, translate_errors(), connection.cursor() as cursor:
        cursor.execute(HAS_OWNERS)
        return cursor.fetchone() == (True,)


def backup(dsn: str, file: Path) -> int:
    """Write the database into a new file that only this user can read.

    Args:
        dsn: Address of the database.
        file: Must not exist yet; it appears only when it is complete.

    Returns:
        The size in bytes.

    Raises:
        BackupError: The file exists or cannot be written, or pg_dump failed.
    """
    if file.exists():
        raise BackupError(f"{file} is there already: give a new name")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as output:
            command = ["pg_dump", "--format=custom", *NO_ROLES, "--exclude-extension=*"]
            _run_program(command, dsn, stdout=output)
            output.flush()
            os.fsync(output.fileno())
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)
    return file.stat().st_size


def check_backup(file: Path) -> str:
    """Check that a file is a backup that this program can restore, without any database.

    Returns:
        The name of the schema of its tables.

    Raises:
        BackupError: It is no backup of Pomni's, or damaged.
        SchemaRefusedError: It is of a newer program, or of one too old.
    """
    try:
        with file.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise BackupError(f"{file} is not a backup that bot.py backup has written")
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from error
    match = VERSION_ROW.search(_read(file, "--data-only", "--table=alembic_version", "--file=-"))
    if match is None:
        raise BackupError(f"{file} does not hold a database of Pomni's")
    migrations.check_version(match[2].decode())
    return match[1].decode()


def restore(dsn: str, file: Path) -> str:
    """Restore a backup into an empty database, all or nothing; migrate it to the newest schema.

    An ordinary role restores it as well, if it owns the database and the extension is there: the
    file's extensions and owners are not restored.

    Returns:
        The version of the schema afterwards.

    Raises:
        BackupError: See ``check_backup``; or the database is not empty, or looks elsewhere.
        SchemaRefusedError: See ``check_backup``; nothing was restored.
        StorageError: The database cannot be reached, or refuses the extension.
    """
    its_schema = check_backup(file)
    with closing(connect(dsn)) as connection, translate_errors(), connection.cursor() as cursor:
        cursor.execute(COUNT_TABLES)
        schema, tables = cursor.fetchone() or ("", 0)
        if schema != its_schema:
            raise BackupError(
                f"its tables stand in the schema {its_schema}, where this database does not look: "
                f"run there CREATE SCHEMA {its_schema}; "
                f"ALTER DATABASE {connection.info.dbname} SET search_path = {its_schema}, public;"
            )
        if tables:
            raise BackupError(
                f"the database has {tables} tables: a backup is restored into an empty one. Give "
                "another DATABASE_URL, or another DATA_DIR"
            )
        if connection.server_version < OLDEST_SERVER:
            raise BackupError("the server is older than PostgreSQL 17: restore into a newer one")
        migrations.create_extension(connection)
    with file.open("rb") as stream, tempfile.NamedTemporaryFile() as entries:
        entries.write(NOT_RESTORED.sub(b"", _read(file, "--list")))
        entries.flush()
        options = ["--single-transaction", "--exit-on-error", *NO_ROLES]
        target = "--dbname="  # of the environment
        command = ["pg_restore", *options, f"--use-list={entries.name}", target]
        _run_program(command, dsn, stdin=stream)
    return migrations.migrate(dsn)[1] or ""


def _read(file: Path, *arguments: str) -> bytes:
    """Return what pg_restore prints about a backup."""
    with file.open("rb") as stream:
        return _run_program(["pg_restore", *arguments], stdin=stream)


def _run_program(
    command: Sequence[str],
    dsn: str = "",
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.PIPE,
) -> bytes:
    """Run one of PostgreSQL's programs, on a database if it has an address; return its output.

    Raises:
        BackupError: It failed; the message has its errors, but no row.
    """
    program, *arguments = command
    process = subprocess.run(
        [embedded.binary(program), "--no-password", *arguments],
        check=False,
        timeout=TIMEOUT,
        stderr=subprocess.PIPE,
        env=libpq_variables(dsn),
        stdin=stdin,
        stdout=stdout,
    )
    if process.returncode:
        lines = process.stderr.decode(errors="replace").splitlines()
        # Other lines quote rows (``COPY``, ``DETAIL``, the command).
        errors = filter(None, (line.partition("error: ")[2] for line in lines))
        cause = " | ".join(errors) or "it gave no reason"
        raise BackupError(f"{program} failed: {cause[-MAX_CAUSE:]}")
    return process.stdout or b""


def libpq_variables(dsn: str) -> dict[str, str]:
    """Return the address as libpq's variables: a command line is public, passwords included."""
    options = pq.Conninfo.parse(dsn.encode())
    variables = {o.envvar.decode(): o.val.decode() for o in options if o.envvar and o.val}
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", **variables}
