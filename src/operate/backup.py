"""``python bot.py backup`` and ``restore``: everything in one file, by PostgreSQL's own programs.

The bot may run while it is backed up: the file holds one moment. It is restored into an empty
database only, and the next migration brings an older one to the newest schema.
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
from src.pg.client import wrapped_errors
from src.pg.connection import connect
from src.pg.embedded_folder import binary
from src.pg.migrations import check_version, migrate

MAGIC = b"PGDMP"  # what a file of pg_dump's custom format begins with
HOURS = 24 * 3600.0  # seconds; a large database takes its time
# The one row of alembic_version, as pg_restore writes it.
VERSION_ROW = re.compile(rb"^COPY [^\n]*alembic_version [^\n]*\n([^\n]+)\n\\\.$", re.MULTILINE)
TOLD = 400  # characters of what a program says that are passed on

# Whether there is anything in the database that a restore could collide with.
COUNT_TABLES = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname = 'public'
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
"""


def backup(dsn: str, file: Path) -> int:
    """Write everything into a new file, readable by us alone.

    Args:
        dsn: The database's address.
        file: It must not exist yet; it appears only when it is whole.

    Returns:
        Its size in bytes.

    Raises:
        BackupError: The file is there already or cannot be written; pg_dump failed.
    """
    if file.exists():
        raise BackupError(f"{file} is there already: give a new name")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as output:
            _run(
                ["pg_dump", "--format=custom", "--no-owner", "--no-privileges"], dsn, stdout=output
            )
            output.flush()
            os.fsync(output.fileno())
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)
    return file.stat().st_size


def restore(dsn: str, file: Path) -> str:
    """Read a backup into an empty database, all or nothing, and bring it to the newest schema.

    Returns:
        The version of the schema afterwards.

    Raises:
        BackupError: The file is no backup, or damaged; the database is not empty.
        SchemaRefusedError: The backup is of a newer program, or of one too old; nothing
            was restored.
        StorageError: The database cannot be reached.
    """
    try:
        with file.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise BackupError(f"{file} is not a backup that bot.py backup has written")
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from error
    with closing(connect(dsn)) as connection, wrapped_errors(), connection.cursor() as cursor:
        cursor.execute(COUNT_TABLES)
        (tables,) = cursor.fetchone() or (0,)
    if tables:
        raise BackupError(
            f"the database has {tables} tables: a backup is restored into an empty one. Give "
            "another DATABASE_URL, or another DATA_DIR"
        )
    check_version(_version_in(file, dsn))
    with file.open("rb") as stream:
        _run(
            ["pg_restore", "--single-transaction", "--exit-on-error", "--no-owner",
             "--no-privileges", "--dbname="],  # the environment names it
            dsn,
            stdin=stream,
        )  # fmt: skip
    return migrate(dsn)[1] or ""


def _version_in(file: Path, dsn: str) -> str:
    """The version of the schema that a backup holds.

    Raises:
        BackupError: It is damaged, or holds no database of Pomni's.
    """
    with file.open("rb") as stream, tempfile.TemporaryFile() as rows:
        _run(
            ["pg_restore", "--data-only", "--table=alembic_version", "--file=-"],
            dsn,
            stdin=stream,
            stdout=rows,
        )
        rows.seek(0)
        found = VERSION_ROW.search(rows.read())
    if found is None:
        raise BackupError(f"{file} does not hold a database of Pomni's")
    return found[1].decode()


def _run(
    command: Sequence[str],
    dsn: str,
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
) -> None:
    """Run one of PostgreSQL's programs on a database.

    Raises:
        BackupError: It failed, with its last words (which hold no row).
    """
    program, *arguments = command
    with tempfile.TemporaryFile() as told:
        done = subprocess.run(
            [binary(program), "--no-password", *arguments],
            check=False,
            timeout=HOURS,
            stderr=told,
            env=_environment(dsn),
            stdin=stdin or subprocess.DEVNULL,
            stdout=stdout or subprocess.DEVNULL,
        )
        if done.returncode:
            told.seek(0)
            lines = told.read().decode(errors="replace").splitlines()
            raise BackupError(f"{program} failed: {_cause(lines)[-TOLD:]}")


def _cause(lines: Sequence[str]) -> str:
    """Its errors, without what quotes rows (``COPY``, ``DETAIL``, the command)."""
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return " | ".join(filter(None, errors)) or "it gave no reason"


def _environment(dsn: str) -> dict[str, str]:
    """The address as libpq's variables: a command line, password and all, is anybody's to read."""
    options = pq.Conninfo.parse(dsn.encode())
    return {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        **{
            option.envvar.decode(): option.val.decode()
            for option in options
            if option.envvar and option.val
        },
    }
