"""The embedded PostgreSQL under ``DATA_DIR/postgres``, for when no database is configured.

Every process that uses it holds a shared lock on a file; the last one to let go stops the
server. The kernel drops the lock of a killed process, so a ``kill -9`` leaves no stale user
behind (the wheel's own list of process ids would). Meanwhile a thread of each process supervises
it: when the server was killed, gave up on a full disk, or is frozen, the first one to notice
starts it again, and the others join it.
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
from src.base.errors import StorageUnavailableError
from src.base.shutdown import SHUTDOWN
from src.pg import embedded_folder
from src.pg.client import PgClient
from src.pg.connection import ORDINARY
from src.pg.migrations import check_sessions, migrate_apart

logger = logging.getLogger(__name__)

START_SECONDS = 120.0  # recovery after a crash replays the log, which can take its time
LOCK_SECONDS = START_SECONDS + 60.0  # another process may be starting it
STOP_SECONDS = 20.0  # for the last checkpoint; then the server goes on with it alone
HURRY_SECONDS = 0.5  # the same, where a signal ends this process
ANSWER_SECONDS = 3.0  # for one sign of life
FROZEN_SECONDS = 15.0  # without any, a server that should be joined is killed
PAUSE = 0.05
CHECK_SECONDS = 0.5  # between two checks of the process
ASK_SECONDS = 5.0  # between two questions whether it answers
SILENCES = 3  # unanswered questions, of three seconds each, after which it is frozen
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between attempts to start it again
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # bytes
SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # answered with one byte before any log-in

SERVER_SETTINGS = """
    listen_addresses=  port=5432  unix_socket_permissions=0777
    logging_collector=off  log_destination=stderr  log_checkpoints=off  lc_messages=C
    shared_preload_libraries=  wal_compression=on
"""
# Nothing that a user wrote may reach the server's log. Errors quote values, so only what concerns
# the server itself is logged (the order is … error, log, fatal, panic), without details; a PANIC's
# statement is taken out by ``ServerLog``. auto_explain, in a library, would log statements.
LOG_SETTINGS = """
    log_min_messages=log  log_min_error_statement=panic  log_error_verbosity=terse
    log_statement=none  log_duration=off  log_min_duration_statement=-1
    log_min_duration_sample=-1  log_transaction_sample_rate=0  log_parameter_max_length=0
    log_parameter_max_length_on_error=0  log_lock_waits=off  log_temp_files=-1
    log_statement_stats=off  debug_print_parse=off  debug_print_rewritten=off  debug_print_plan=off
    session_preload_libraries=  local_preload_libraries=
"""

# A setting of a database or a role would win over the command line: those about the log go.
DELETE_OVERRIDES = """
DELETE FROM pg_db_role_setting
WHERE setconfig::text ~ '[{,"](log_|debug_print_|auto_explain|session_preload|local_preload)'
"""

# Servers that this process has started: each must be waited for when it ends, or stays a zombie.
_STARTED: list[subprocess.Popen[bytes]] = []


class PostgresProcess:
    """The server of one data folder, whichever process has started it."""

    def __init__(self, folder: embedded_folder.PostgresFolder, stopping: threading.Event) -> None:
        """Supervise the server of ``folder``; ``stopping`` ends all waiting."""
        self._folder = folder
        self._stopping = stopping

    def find(self) -> psutil.Process | None:
        """The process that ``postmaster.pid`` names, if it is this cluster's server.

        After a reboot, or in a new container, another process may have that number.
        """
        _STARTED[:] = [child for child in _STARTED if child.poll() is None]
        try:
            process = psutil.Process(int(self._folder.pid_file()[0]))
        except (ValueError, IndexError, psutil.Error):
            return None
        return process if self._is_ours(process) else None

    def answers(self) -> bool:
        """Whether the server gives a sign of life."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(ANSWER_SECONDS)
                line.connect(str(self._folder.socket_folder() / embedded_folder.SOCKET_NAME))
                line.sendall(SSL_REQUEST)
                return line.recv(1) != b""
        except OSError:
            return False

    def join(self) -> bool:
        """Whether a server runs and is ready; one that is starting, or dying, is waited for.

        One that says nothing at all for a while is frozen: it counts as none.

        Raises:
            OSError: It does not become ready.
        """
        start = heard = time.monotonic()
        while self.find() is not None:
            if self.answers():
                heard = time.monotonic()
                if self._is_ready():
                    return True
            elif time.monotonic() > heard + FROZEN_SECONDS:
                return False
            self._pause(start + START_SECONDS)
        return False

    def start(self) -> None:
        """Kill what is left of a dead server, start another, and wait until it is ready.

        Raises:
            OSError: It did not become ready; the message says why, in words.
        """
        self._kill_all()
        self._folder.remove_locks()
        since, deadline = self._folder.log.size(), time.monotonic() + START_SECONDS
        child = self._spawn()
        try:
            while not self._is_ready(child.pid):
                if child.poll() is not None:
                    raise OSError(self._folder.log.explain(since) or "it ended without a word")
                self._pause(deadline)
        except InterruptedError:
            child.send_signal(signal.SIGINT)  # it has no users yet
            raise
        with suppress(StorageUnavailableError):
            PgClient(self._folder.address()).maintain(DELETE_OVERRIDES, limits=ORDINARY)

    def request_stop(self) -> None:
        """Have the server end sessions, make a checkpoint and stop, without waiting."""
        if postmaster := self.find():
            with suppress(psutil.Error):
                postmaster.send_signal(signal.SIGINT)

    def _kill_all(self) -> None:
        """Kill the server, and the backends of one that was killed.

        They notice its death only after their statement, and no new server can start beside them.
        """
        left = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the server itself: ``pg_ctl`` would do it through a shell."""
        command = [embedded_folder.binary("postgres"), "-D", str(self._folder.plain())]
        for setting in (
            *SERVER_SETTINGS.split(),
            *LOG_SETTINGS.split(),
            "log_line_prefix=%m [%p] ",
            f"unix_socket_directories={self._folder.socket_folder()}",
            f"shared_buffers={_shared_buffers()}MB",
        ):
            command += ["-c", setting]
        with self._folder.open_log() as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env=embedded_folder.environment(),
                start_new_session=True,  # Ctrl-C in our terminal is not for the server
                **embedded_folder.identity(),
            )  # fmt: skip
        _STARTED.append(child)
        return child

    def _is_ours(self, process: psutil.Process) -> bool:
        """Whether it is a server of this folder, or one's backend: they work within it."""
        try:
            path = str(self._folder.path)
            return bool(process.name().startswith("postgres") and process.cwd() == path)
        except (OSError, psutil.Error):
            return False

    def _is_ready(self, pid: int | None = None) -> bool:
        lines = self._folder.pid_file()
        is_it = pid is None or lines[:1] == [str(pid)]
        return is_it and len(lines) > 7 and lines[7].strip() == "ready"

    def _pause(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not become ready")
        if self._stopping.wait(PAUSE):
            raise InterruptedError("told to stop meanwhile")


class EmbeddedPostgres:
    """One user of the embedded server; the server lives as long as it has users."""

    def __init__(self, data_dir: Path) -> None:
        """Nothing starts yet; see ``start``."""
        self._data_dir = data_dir
        self._stopping = threading.Event()
        self._busy = threading.Lock()  # a start that is cancelled is followed by a stop
        self._users: IO[str] | None = None
        self._keeper: threading.Thread | None = None
        self._folder: embedded_folder.PostgresFolder
        self._process: PostgresProcess

    def start(self) -> str:
        """Start the server, or join the one that runs, and return its libpq address.

        Raises:
            StorageUnavailableError: It could not be started; the message says why, and what to do.
        """
        self._stopping.clear()
        with self._busy, _explained():
            self._folder = embedded_folder.PostgresFolder(self._data_dir)
            self._process = PostgresProcess(self._folder, self._stopping)
            self._folder.prepare()
            with self._exclusive():
                self._start_server()
                self._users = (self._folder.root / "postgres.users").open("w")
                fcntl.flock(self._users, fcntl.LOCK_SH)
        return self._folder.address()

    def look_after(self) -> None:
        """Start the server again whenever it is gone, until ``stop``."""
        self._keeper = threading.Thread(target=self._keep, name="postgres-keeper", daemon=True)
        self._keeper.start()

    def stop(self, *, in_a_hurry: bool = False) -> None:
        """Leave; the last user stops the server. Stopping twice does nothing.

        A server that does not stop does no harm: it goes on stopping, or the next user finds it,
        so it is only logged. Who is ``in_a_hurry`` hardly waits for it.
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
                    if _try_lock(users) and not self._stop_server(seconds):
                        level = logging.INFO if in_a_hurry else logging.WARNING
                        logger.log(level, "the embedded PostgreSQL did not stop in time")
            except OSError as error:
                logger.warning("the embedded PostgreSQL did not stop", exc_info=error)

    def abandon(self) -> None:
        """Leave at once, for the end of a process that cannot wait: the last user asks the
        server to stop, which it then does by itself.
        """
        users = self._users
        if users is not None:
            with suppress(OSError), self._exclusive(seconds=0):
                if _try_lock(users):
                    self._process.request_stop()

    @contextmanager
    def _exclusive(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Starting and stopping happen one at a time, whichever process does it.

        Raises:
            OSError: The lock did not become free, or this process is told to stop.
        """
        deadline = time.monotonic() + seconds
        with (self._folder.root / "postgres.lock").open("w") as lock:
            while not _try_lock(lock):
                if time.monotonic() >= deadline:
                    raise TimeoutError("another process keeps the server's lock")
                if self._stopping.wait(PAUSE):
                    raise InterruptedError("told to stop meanwhile")
            yield

    def _start_server(self) -> None:
        self._folder.ensure()
        with suppress(OSError):
            self._folder.log.tidy()
        if not self._process.join():
            self._process.start()

    def _stop_server(self, seconds: float) -> bool:
        self._process.request_stop()
        deadline = time.monotonic() + seconds
        while self._process.find() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        return True

    def _keep(self) -> None:
        asked, silences = time.monotonic(), 0
        while not self._stopping.wait(CHECK_SECONDS):
            is_well = self._process.find() is not None
            if is_well and time.monotonic() > asked + ASK_SECONDS:
                asked = time.monotonic()
                silences = 0 if self._process.answers() else silences + 1
                is_well = silences < SILENCES
            if not is_well:
                self._start_again()
                asked, silences = time.monotonic(), 0
            self._tidy()

    def _tidy(self) -> None:
        """Tidy the log, unless another process is starting, stopping or tidying."""
        if self._folder.log.has_news():
            with suppress(OSError), self._exclusive(seconds=0):
                self._folder.log.tidy()

    def _start_again(self) -> None:
        """Retry until the server is back, or we are told to stop; each cause is logged once."""
        began, told, pause = time.monotonic(), "", FIRST_PAUSE
        logger.warning("the embedded PostgreSQL is gone; starting it again")
        while not self._stopping.is_set():
            try:
                with _explained(), self._exclusive():
                    self._start_server()
            except StorageUnavailableError as error:
                if self._stopping.is_set():
                    return
                cause = embedded_folder.find_shortage(self._data_dir) or str(error)
                if re.sub(r"\d+", "", cause) != told:
                    told = re.sub(r"\d+", "", cause)
                    logger.error("%s; trying again until it starts", cause)  # noqa: TRY400
            else:
                seconds = round(time.monotonic() - began, 1)
                logger.warning("the embedded PostgreSQL is back", extra={"seconds": seconds})
                return
            self._tidy()
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _shared_buffers() -> int:
    """MiB for the server's cache: an eighth of the memory, which is touched only as it fills.

    Vectors are most of what a search reads. With the default of 128 MiB in a database of a million
    documents it takes half as long again.
    """
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return min(max(total // 8 // 2**20, 128), 1024)


@contextmanager
def _explained() -> Iterator[None]:
    """Tell what went wrong in one line, without a path or a traceback.

    Raises:
        StorageUnavailableError: Something did.
    """
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        told = f"the embedded PostgreSQL did not start: {embedded_folder.describe(error)}"
        raise StorageUnavailableError(told) from error


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[str]:
    """The address of the database; without a configured one, the embedded server runs meanwhile.

    Raises:
        StorageUnavailableError: The embedded server did not start.
    """
    if settings.database_dsn is not None:
        yield settings.database_dsn
        return
    server = EmbeddedPostgres(settings.data_dir)
    SHUTDOWN.at_worst(server.abandon)
    try:
        dsn = await asyncio.to_thread(server.start)
        server.look_after()
        yield dsn
    finally:
        await asyncio.to_thread(server.stop, in_a_hurry=SHUTDOWN.signal is not None)


@asynccontextmanager
async def open_newest_database(settings: Settings) -> AsyncIterator[str]:
    """``open_database``, brought to the newest schema.

    Raises:
        StorageError: The database cannot be reached, or refused a migration.
        ConfigError: It is newer than this program, or behind a pooler of transactions.
    """
    async with open_database(settings) as dsn:
        if not settings.uses_embedded_database:
            await asyncio.to_thread(check_sessions, dsn)
        await asyncio.to_thread(migrate_apart, dsn)
        yield dsn
