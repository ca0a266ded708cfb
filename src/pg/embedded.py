"""Embedded PostgreSQL under ``DATA_DIR/postgres``, used when no database is configured.

Every process that uses the server holds a shared lock on a file, and the last one to release it
stops the server. The kernel drops the lock of a killed process, so ``kill -9`` leaves no stale
user behind (the wheel's own list of process ids would). A thread of each process starts a server
again that was killed or gave up on a full disk.
"""

import asyncio
import fcntl
import logging
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from src.base.config import Settings
from src.base.errors import NoDatabaseError
from src.pg.embedded_folder import PostgresFolder, find_shortage, start_failure
from src.pg.migrations import check_content, check_sessions, migrate

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.5  # between two checks of the server
RETRY_SECONDS = 1.0  # after a start that failed
FAILURES = (OSError, subprocess.SubprocessError)


class EmbeddedPostgres:
    """User of the embedded server, which runs as long as it has users."""

    def __init__(self, data_dir: Path) -> None:
        """Use the server under ``data_dir``; ``start`` starts it.

        Raises:
            StorageUnavailableError: The path leads nowhere.
        """
        self._folder = PostgresFolder(data_dir)
        self._busy = threading.Lock()  # a cancelled start is followed by a stop
        self._users: IO[str] | None = None
        self._stopping = threading.Event()
        self._keeper: threading.Thread | None = None

    def start(self, *, may_create: bool = True) -> str:
        """Start the server, or join a running one, and return its libpq address.

        Args:
            may_create: Create the cluster if there is none.

        Raises:
            NoDatabaseError: There is none, and ``may_create`` is false; nothing was created.
            StorageUnavailableError: It could not be started; the message names the cause.
        """
        try:
            with self._busy:
                if not may_create and self._folder.is_vacant():
                    raise NoDatabaseError(str(self._folder.path))
                self._folder.prepare()
                with self._exclusive():
                    self._folder.ensure_running()
                    self._users = (self._folder.root / "postgres.users").open("w")
                    fcntl.flock(self._users, fcntl.LOCK_SH)
        except FAILURES as error:
            raise start_failure(error) from error
        return self._folder.address()

    def look_after(self) -> None:
        """Start the server again whenever it is gone, in a thread, until ``stop``."""
        self._stopping.clear()
        self._keeper = threading.Thread(target=self._watch, name="postgres-keeper", daemon=True)
        self._keeper.start()

    def stop(self) -> None:
        """Leave the server; the last user stops it. A second call does nothing.

        A server that does not stop in time is only logged: it does no harm, since it goes on
        stopping, or the next user joins it.
        """
        self._stopping.set()
        if self._keeper is not None:
            self._keeper.join()
        with self._busy:
            users, self._users = self._users, None
            if users is None:
                return
            try:
                with self._exclusive(), users:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._folder.stop()
            except BlockingIOError:
                pass  # others use it
            except OSError as error:
                logger.warning("the embedded PostgreSQL did not stop", exc_info=error)
            finally:
                users.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock under which one process at a time starts or stops the server."""
        with (self._folder.root / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _watch(self) -> None:
        reported = ""
        while not self._stopping.wait(CHECK_SECONDS):
            if self._folder.is_running():
                continue
            if not reported:
                cause = self._folder.explain()
                logger.warning(
                    "the embedded PostgreSQL is gone; starting it again", extra={"cause": cause}
                )
            try:
                with self._exclusive():
                    self._folder.ensure_running()
            except FAILURES as error:
                cause = find_shortage(self._folder.root) or str(start_failure(error))
                if cause != reported:
                    logger.error("%s; trying again until it starts", cause)  # noqa: TRY400
                reported = cause
                self._stopping.wait(RETRY_SECONDS)
            else:
                reported = ""
                logger.warning("the embedded PostgreSQL is back")


@asynccontextmanager
async def open_database(settings: Settings, *, may_create: bool = True) -> AsyncIterator[str]:
    """Yield the address of the database; run the embedded server if none is configured.

    Args:
        settings: The settings.
        may_create: Create the embedded server's cluster if there is none.

    Raises:
        NoDatabaseError: There is none, and ``may_create`` is false.
        StorageUnavailableError: The embedded server did not start.
    """
    if settings.database_dsn is not None:
        yield settings.database_dsn
        return
    server = EmbeddedPostgres(settings.data_dir)
    try:
        dsn = await asyncio.to_thread(server.start, may_create=may_create)
        server.look_after()
        yield dsn
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def open_existing_database(settings: Settings) -> AsyncIterator[str]:
    """Yield the address of a database that has tables of ours.

    Raises:
        NoDatabaseError: There is none, or it is empty; nothing was created.
        StorageError: It cannot be reached.
        SchemaRefusedError: It is newer than this program, or another program's.
    """
    async with open_database(settings, may_create=False) as dsn:
        await asyncio.to_thread(check_content, dsn)
        yield dsn


@asynccontextmanager
async def open_newest_database(
    settings: Settings, *, may_create: bool = True
) -> AsyncIterator[str]:
    """Yield the address of the database, migrated to the newest schema.

    Args:
        settings: The settings.
        may_create: Create the database if there is none.

    Raises:
        NoDatabaseError: There is none, and ``may_create`` is false.
        StorageError: The database cannot be reached, or refused a migration.
        ConfigError: It is newer than this program, or behind a pooler of transactions.
    """
    opening = open_existing_database
    if may_create:
        opening = open_database
    async with opening(settings) as dsn:
        if not settings.uses_embedded_database:
            await asyncio.to_thread(check_sessions, dsn)
        await asyncio.to_thread(migrate, dsn)
        yield dsn
