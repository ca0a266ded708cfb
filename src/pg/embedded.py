"""Embedded PostgreSQL under ``DATA_DIR/postgres``, used when no database is configured.

Every process that uses the server holds a shared lock on a file, and the last one to release it
stops the server. The kernel drops the lock of a killed process, so ``kill -9`` leaves no stale
user behind (the wheel's own list of process ids would). A thread of each process supervises the
server: when it was killed, gave up on a full disk, or is frozen, the first thread to notice
restarts it, and the others join it.
"""

import asyncio
import fcntl
import logging
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from src.base.config import Settings
from src.base.errors import NoDatabaseError, StorageUnavailableError
from src.base.shutdown import SHUTDOWN
from src.pg import embedded_folder
from src.pg.client import PgClient
from src.pg.connection import ORDINARY
from src.pg.migrations import check_content, check_sessions, migrate

logger = logging.getLogger(__name__)

START_SECONDS = 120.0  # recovery after a crash replays the write-ahead log, which can be long
LOCK_SECONDS = START_SECONDS + 60.0  # while another process starts the server
STOP_SECONDS = 20.0  # wait for the last checkpoint; after that the server finishes it alone
HURRY_SECONDS = 0.5  # the same wait if a signal ends this process
ANSWER_SECONDS = 3.0  # timeout of one ping
FROZEN_SECONDS = 15.0  # without an answer, after which a server to be joined is killed
PAUSE = 0.05  # seconds between polls
CHECK_SECONDS = 0.5  # between two checks of the process
ASK_SECONDS = 5.0  # between two pings of the supervising thread
SILENCES = 3  # unanswered pings in a row after which the server counts as frozen
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between attempts to restart the server
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # bytes
SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # answered with one byte before any login

# Nothing that a user wrote may reach the server's log. Errors quote values, so only messages about
# the server itself are logged (the order is … error, log, fatal, panic), without details;
# ``ServerLog`` redacts the statement of a PANIC. auto_explain, in a library, would log statements.
SERVER_SETTINGS = """
    listen_addresses=  port=5432  unix_socket_permissions=0777  wal_compression=on
    logging_collector=off  log_destination=stderr  log_checkpoints=off  lc_messages=C
    session_preload_libraries=  local_preload_libraries=  shared_preload_libraries=
    log_min_messages=log  log_min_error_statement=panic  log_error_verbosity=terse
    log_statement=none  log_duration=off  log_min_duration_statement=-1
    log_min_duration_sample=-1  log_transaction_sample_rate=0  log_parameter_max_length=0
    log_parameter_max_length_on_error=0  log_lock_waits=off  log_temp_files=-1
    log_statement_stats=off  debug_print_parse=off  debug_print_rewritten=off  debug_print_plan=off
"""

# Delete the log settings of databases and roles, which would override the command line.
DELETE_OVERRIDES = """
DELETE FROM pg_db_role_setting
WHERE setconfig::text ~ '[{,"](log_|debug_print_|auto_explain|session_preload|local_preload)'
"""

FAILURES = (OSError, subprocess.SubprocessError)

# Servers that this process started: each must be polled after its end, or it stays a zombie.
_STARTED: list[subprocess.Popen[bytes]] = []


class PostgresProcess:
    """Server process of one data folder, whichever process started it."""

    def __init__(self, folder: embedded_folder.PostgresFolder, stopping: threading.Event) -> None:
        """Control the server of ``folder``; setting ``stopping`` interrupts every wait."""
        self._folder = folder
        self._stopping = stopping

    def find(self) -> psutil.Process | None:
        """Return the process named by ``postmaster.pid`` if it is this cluster's server.

        After a reboot, or in a new container, another process can have that number.
        """
        _STARTED[:] = [child for child in _STARTED if child.poll() is None]
        try:
            process = psutil.Process(int(self._folder.pid_file()[0]))
        except (ValueError, IndexError, psutil.Error):
            return None
        return process if self._is_of_cluster(process) else None

    def answers(self) -> bool:
        """Return True if the server answers a ping on its socket."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(ANSWER_SECONDS)
                client.connect(str(self._folder.socket_folder() / embedded_folder.SOCKET_NAME))
                client.sendall(SSL_REQUEST)
                return client.recv(1) != b""
        except OSError:
            return False

    def join(self) -> bool:
        """Return True if a server is ready, after waiting for one that is starting or stopping.

        A server that answers no ping for ``FROZEN_SECONDS`` counts as absent.

        Raises:
            OSError: It does not become ready.
        """
        start = answered_at = time.monotonic()
        while self.find() is not None:
            if self.answers():
                answered_at = time.monotonic()
                if self._is_ready():
                    return True
            elif time.monotonic() > answered_at + FROZEN_SECONDS:
                return False
            self.pause(start + START_SECONDS)
        return False

    def start(self) -> None:
        """Kill the remains of a dead server, start a new one, and wait until it is ready.

        Raises:
            OSError: It did not become ready; the message says why.
        """
        self._kill_all()
        self._folder.remove_locks()
        since, deadline = self._folder.log.size(), time.monotonic() + START_SECONDS
        child = self._spawn()
        try:
            while not self._is_ready():
                if child.poll() is not None:
                    raise OSError(self._folder.log.explain(since) or "it ended without a word")
                self.pause(deadline)
        except InterruptedError:
            child.send_signal(signal.SIGINT)  # it has no users yet
            raise
        with suppress(StorageUnavailableError):
            PgClient(self._folder.address()).maintain(DELETE_OVERRIDES, limits=ORDINARY)

    def stop(self, seconds: float) -> bool:
        """Tell the server to end its sessions, checkpoint and stop; return True if it has ended.

        Args:
            seconds: The longest wait for its end.
        """
        deadline = time.monotonic() + seconds
        if postmaster := self.find():
            with suppress(psutil.Error):
                postmaster.send_signal(signal.SIGINT)
        while self.find() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        return True

    def pause(self, deadline: float, message: str = "the server did not become ready") -> None:
        """Sleep for one interval of polling.

        Raises:
            OSError: The deadline is over (with the message), or this process is told to stop.
        """
        if time.monotonic() > deadline:
            raise TimeoutError(message)
        if self._stopping.wait(PAUSE):
            raise InterruptedError("told to stop meanwhile")

    def _kill_all(self) -> None:
        """Kill the server, and the backends of one that was killed.

        Backends notice its death only after their statement, and no new server can start beside
        them.
        """
        processes = [process for process in psutil.process_iter() if self._is_of_cluster(process)]
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=10)

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start ``postgres`` directly: ``pg_ctl`` would go through a shell."""
        settings = (
            *SERVER_SETTINGS.split(),
            "log_line_prefix=%m [%p] ",
            f"unix_socket_directories={self._folder.socket_folder()}",
            f"shared_buffers={_shared_buffers()}MB",
        )
        program, path = embedded_folder.binary("postgres"), str(self._folder.plain())
        with self._folder.open_log() as log:
            child = subprocess.Popen(
                [program, "-D", path, *(f"--{setting}" for setting in settings)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True,  # so that Ctrl-C in our terminal does not reach it
                **embedded_folder.process_options(),
            )  # fmt: skip
        _STARTED.append(child)
        return child

    def _is_of_cluster(self, process: psutil.Process) -> bool:
        """Return True for a server of this folder or a backend: it is their working directory."""
        try:
            path = str(self._folder.path)
            return bool(process.name().startswith("postgres") and process.cwd() == path)
        except (OSError, psutil.Error):
            return False

    def _is_ready(self) -> bool:
        return [line.strip() for line in self._folder.pid_file()[7:8]] == ["ready"]


class EmbeddedPostgres:
    """User of the embedded server, which runs as long as it has users."""

    def __init__(self, data_dir: Path) -> None:
        """Use the server under ``data_dir``; ``start`` starts it.

        Raises:
            StorageUnavailableError: The path leads nowhere.
        """
        self._folder = embedded_folder.PostgresFolder(data_dir)
        self._stopping = threading.Event()
        self._process = PostgresProcess(self._folder, self._stopping)
        self._busy = threading.Lock()  # a cancelled start is followed by a stop
        self._users: IO[str] | None = None
        self._keeper: threading.Thread | None = None

    def start(self, *, may_create: bool = True) -> str:
        """Start the server, or join a running one, and return its libpq address.

        Args:
            may_create: Create the cluster if there is none.

        Raises:
            NoDatabaseError: There is none, and ``may_create`` is false; nothing was created.
            StorageUnavailableError: It could not be started; the message names cause and remedy.
        """
        self._stopping.clear()
        try:
            with self._busy:
                if not may_create and self._folder.is_vacant():
                    raise NoDatabaseError(str(self._folder.path))
                self._folder.prepare()
                with self._exclusive():
                    self._start_server()
                    self._users = (self._folder.root / "postgres.users").open("w")
                    fcntl.flock(self._users, fcntl.LOCK_SH)
        except FAILURES as error:
            raise embedded_folder.start_failure(error) from error
        return self._folder.address()

    def look_after(self) -> None:
        """Restart the server whenever it is gone or frozen, in a thread, until ``stop``."""
        self._keeper = threading.Thread(target=self._watch, name="postgres-keeper", daemon=True)
        self._keeper.start()

    def stop(self, *, in_a_hurry: bool = False) -> None:
        """Leave the server; the last user stops it. A second call does nothing.

        A server that does not stop in time is only logged: it does no harm, since it goes on
        stopping, or the next user joins it.

        Args:
            in_a_hurry: Wait ``HURRY_SECONDS`` for the server instead of ``STOP_SECONDS``.
        """
        self._stopping.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.join()
        with self._busy:
            users, self._users = self._users, None
            if users is None:
                return
            self._stopping.clear()
            seconds = HURRY_SECONDS if in_a_hurry else STOP_SECONDS
            try:
                with self._exclusive(), users:
                    if _try_lock(users) and not self._process.stop(seconds):
                        level = logging.INFO if in_a_hurry else logging.WARNING
                        logger.log(level, "the embedded PostgreSQL did not stop in time")
            except OSError as error:
                logger.warning("the embedded PostgreSQL did not stop", exc_info=error)

    @contextmanager
    def _exclusive(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock under which one process at a time starts or stops the server.

        Raises:
            OSError: The lock did not become free, or this process is told to stop.
        """
        deadline = time.monotonic() + seconds
        with (self._folder.root / "postgres.lock").open("w") as lock:
            while not _try_lock(lock):
                self._process.pause(deadline, "another process keeps the server's lock")
            yield

    def _start_server(self) -> None:
        self._folder.ensure()
        if not self._process.join():
            self._process.start()

    def _watch(self) -> None:
        asked_at, silences = time.monotonic(), 0
        while not self._stopping.wait(CHECK_SECONDS):
            if time.monotonic() > asked_at + ASK_SECONDS:
                asked_at = time.monotonic()
                silences = 0 if self._process.answers() else silences + 1
            if silences >= SILENCES or self._process.find() is None:
                self._restart_server()
                asked_at, silences = time.monotonic(), 0
            self._tidy_log()

    def _tidy_log(self) -> None:
        if self._folder.log.has_news():
            with suppress(OSError), self._exclusive(seconds=0):
                self._folder.log.tidy()

    def _restart_server(self) -> None:
        began, logged, pause = time.monotonic(), "", FIRST_PAUSE
        logger.warning("the embedded PostgreSQL is gone; starting it again")
        while not self._stopping.is_set():
            try:
                with self._exclusive():
                    self._start_server()
            except FAILURES as error:
                cause = embedded_folder.find_shortage(self._folder.root)
                cause = cause or str(embedded_folder.start_failure(error))
                if not self._stopping.is_set() and re.sub(r"\d+", "", cause) != logged:
                    logged = re.sub(r"\d+", "", cause)
                    logger.error("%s; trying again until it starts", cause)  # noqa: TRY400
            else:
                seconds = round(time.monotonic() - began, 1)
                logger.warning("the embedded PostgreSQL is back", extra={"seconds": seconds})
                return
            self._tidy_log()
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _shared_buffers() -> int:
    """Return the MiB of the server's cache: an eighth of the memory, touched only as it fills.

    Vectors are most of what a search reads. With the default of 128 MiB, searches of a million
    documents take half as long again.
    """
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return min(max(total // 8 // 2**20, 128), 1024)


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
        await asyncio.to_thread(server.stop, in_a_hurry=SHUTDOWN.signal is not None)


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
    opening = open_database if may_create else open_existing_database
    async with opening(settings) as dsn:
        if not settings.uses_embedded_database:
            await asyncio.to_thread(check_sessions, dsn)
        await asyncio.to_thread(migrate, dsn)
        yield dsn
