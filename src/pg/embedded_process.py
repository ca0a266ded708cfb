"""The embedded PostgreSQL's processes: started, looked at, stopped."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil

from src.base.errors import StorageUnavailableError
from src.pg.client import wrapped_errors
from src.pg.connection import connect
from src.pg.embedded_folder import SOCKET_NAME, PostgresFolder, binary, environment, identity

START_SECONDS = 120.0  # recovery after a crash replays the log, which can take its time
ANSWER_SECONDS = 3.0  # for one sign of life
FROZEN_SECONDS = 15.0  # without any, a server that should be joined is ended
PAUSE = 0.05
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # bytes
SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # answered with one byte before any log-in

SERVER_SETTINGS = """
    listen_addresses=  port=5432  unix_socket_permissions=0777
    logging_collector=off  log_destination=stderr  log_checkpoints=off  lc_messages=C
    shared_preload_libraries=
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
    """The server of one data folder, whoever has started it."""

    def __init__(self, folder: PostgresFolder, stopping: threading.Event) -> None:
        """Look after the server of ``folder``; ``stopping`` ends all waiting."""
        self._folder = folder
        self._stopping = stopping

    def is_running(self) -> bool:
        """Whether the process that ``postmaster.pid`` names is this cluster's server.

        After a reboot, or in a new container, another process may have that number.
        """
        return self._find() is not None

    def answers(self) -> bool:
        """Whether the server gives a sign of life."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(ANSWER_SECONDS)
                line.connect(str(self._folder.socket_folder() / SOCKET_NAME))
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
        while self.is_running():
            if self.answers():
                heard = time.monotonic()
                if self._is_ready():
                    return True
            now = time.monotonic()
            if now > heard + FROZEN_SECONDS:
                return False
            if now > start + START_SECONDS:
                raise TimeoutError("the running server did not become ready")
            self._pause()
        return False

    def start(self) -> None:
        """End what is left of a server that is gone, start another, and wait for it.

        Raises:
            OSError: It did not become ready; the message says why, in words.
        """
        self._end_all()
        self._folder.remove_locks()
        since = self._folder.log.size()
        child = self._spawn()
        deadline = time.monotonic() + START_SECONDS
        try:
            while not self._is_ready(child.pid):
                if child.poll() is not None:
                    raise OSError(self._folder.log.explain(since) or "it ended without a word")
                if time.monotonic() > deadline:
                    raise TimeoutError("the server did not become ready")
                self._pause()
        except InterruptedError:
            child.send_signal(signal.SIGINT)  # nobody uses it yet
            raise
        with (
            suppress(StorageUnavailableError),
            closing(connect(self._folder.address())) as connection,
            wrapped_errors(),
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(DELETE_OVERRIDES)

    def stop(self, seconds: float) -> bool:
        """Stop the server in order; False when it has not ended within ``seconds``."""
        self.ask_to_stop()
        deadline = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        return True

    def ask_to_stop(self) -> None:
        """Have the server stop: sessions end, a checkpoint is made; nobody waits for it."""
        if postmaster := self._find():
            with suppress(psutil.Error):
                postmaster.send_signal(signal.SIGINT)

    def _end_all(self) -> None:
        """End the server, and the backends of one that was killed.

        They notice its death only after their statement, and no new server can start beside them.
        """
        left = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the server itself: ``pg_ctl`` would do it through a shell."""
        command = [binary("postgres"), "-D", str(self._folder.plain())]
        for setting in (
            *SERVER_SETTINGS.split(),
            *LOG_SETTINGS.split(),
            "log_line_prefix=%m [%p] ",
            f"unix_socket_directories={self._folder.socket_folder()}",
            f"shared_buffers={_shared_buffers()}MB",
        ):
            command += ["-c", setting]
        with self._folder.log.open() as log:
            self._folder.own(self._folder.path / "server.log")
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment(),
                start_new_session=True,  # Ctrl-C in our terminal is not for the server
                **identity(),
            )
        _STARTED.append(child)
        return child

    def _find(self) -> psutil.Process | None:
        _STARTED[:] = [child for child in _STARTED if child.poll() is None]
        try:
            process = psutil.Process(int(self._folder.pid_file()[0]))
        except (ValueError, IndexError, psutil.Error):
            return None
        return process if self._is_ours(process) else None

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

    def _pause(self) -> None:
        if self._stopping.wait(PAUSE):
            raise InterruptedError("told to stop meanwhile")


def _shared_buffers() -> int:
    """MiB for the server's cache: an eighth of the memory, which is touched only as it fills.

    Vectors are most of what a search reads. With the default of 128 MiB in a database of a million
    documents it takes half as long again.
    """
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return min(max(total // 8 // 2**20, 128), 1024)
