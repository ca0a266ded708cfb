"""The embedded PostgreSQL's processes: started, looked at, stopped."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
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

# Nothing that a user wrote may reach the server's log. Errors quote values, so only what concerns
# the server itself is logged, without details; a PANIC's statement is taken out by ``ServerLog``.
LOG_SETTINGS: Mapping[str, str] = {
    "log_min_messages": "log",  # the order is … error, log, fatal, panic
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_duration": "off",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_lock_waits": "off",
    "log_temp_files": "-1",
    "log_statement_stats": "off",
    "debug_print_parse": "off",
    "debug_print_rewritten": "off",
    "debug_print_plan": "off",
    "session_preload_libraries": "",  # auto_explain would log statements
    "local_preload_libraries": "",
}
SERVER_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0777",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    "lc_messages": "C",
    "shared_preload_libraries": "",
    **LOG_SETTINGS,
}

# A setting of a database or a role would win over the command line: those about the log go.
RESET_OVERRIDES = """
DO $$
DECLARE found record;
BEGIN
    FOR found IN
        SELECT d.datname, r.rolname, split_part(setting, '=', 1) AS name
        FROM pg_db_role_setting s
        LEFT JOIN pg_database d ON d.oid = s.setdatabase
        LEFT JOIN pg_roles r ON r.oid = s.setrole,
        unnest(s.setconfig) AS setting
        WHERE split_part(setting, '=', 1) = ANY (string_to_array(%(names)s, ','))
           OR split_part(setting, '=', 1) LIKE 'auto_explain.%%'
    LOOP
        EXECUTE 'ALTER '
            || CASE WHEN found.rolname IS NOT NULL THEN format('ROLE %%I', found.rolname)
                    WHEN found.datname IS NOT NULL THEN format('DATABASE %%I', found.datname)
                    ELSE 'ROLE ALL' END
            || CASE WHEN found.rolname IS NOT NULL AND found.datname IS NOT NULL
                    THEN format(' IN DATABASE %%I', found.datname) ELSE '' END
            || ' RESET ' || found.name;
    END LOOP;
END $$
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

        One that says nothing at all for a while is frozen, and is ended.

        Raises:
            OSError: It does not become ready.
        """
        start = heard = time.monotonic()
        while self.is_running():
            if self.answers():
                heard = time.monotonic()
                if self._status() == "ready":
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
        self.end()
        self._folder.remove_locks()
        since = self._folder.log.size()
        child = self._spawn()
        deadline = time.monotonic() + START_SECONDS
        try:
            while self._status(of=child.pid) != "ready":
                if child.poll() is not None:
                    raise OSError(self._folder.log.explain(since) or "it ended without a word")
                if time.monotonic() > deadline:
                    raise TimeoutError("the server did not become ready")
                self._pause()
        except InterruptedError:
            child.send_signal(signal.SIGINT)  # nobody uses it yet
            raise
        self._reset_overrides()

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
        postmaster = self._find()
        if postmaster is not None:
            with suppress(psutil.Error):
                postmaster.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End the server, and the backends of one that was killed.

        They notice its death only after their statement, and no new server can start beside them.
        """
        postmaster = self._find()
        if postmaster is not None:
            with suppress(psutil.Error):
                postmaster.kill()
                psutil.wait_procs([postmaster], timeout=10)
        orphans = [process for process in psutil.process_iter() if self._is_orphan(process)]
        for end in (psutil.Process.terminate, psutil.Process.kill):
            for process in orphans:
                with suppress(psutil.NoSuchProcess):
                    end(process)
            _, orphans = psutil.wait_procs(orphans, timeout=3)

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the server itself: ``pg_ctl`` would do it through a shell."""
        settings = {
            **SERVER_SETTINGS,
            "unix_socket_directories": str(self._folder.socket_folder()),
            "shared_buffers": f"{_shared_buffers()}MB",
        }
        command = [binary("postgres"), "-D", str(self._folder.plain())]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
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

    def _reset_overrides(self) -> None:
        with (
            suppress(StorageUnavailableError),
            closing(connect(self._folder.address())) as connection,
            wrapped_errors(),
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(RESET_OVERRIDES, {"names": ",".join(LOG_SETTINGS)})

    def _find(self) -> psutil.Process | None:
        _reap()
        try:
            process = psutil.Process(int(self._folder.pid_file()[0]))
            command = process.cmdline()
            is_ours = process.name().startswith("postgres") and self._name_of(command)
        except (OSError, ValueError, IndexError, psutil.Error):
            return None
        return process if is_ours else None

    def _name_of(self, command: list[str]) -> bool:
        return str(self._folder.plain()) in command or str(self._folder.path) in command

    def _is_orphan(self, process: psutil.Process) -> bool:
        try:
            path = str(self._folder.path)
            if not process.name().startswith("postgres") or process.cwd() != path:
                return False
            parent = process.parent()
            # A killed server that is just ending is still their parent, without a command line.
            is_child = parent is not None and self._name_of(parent.cmdline())
            return process.cmdline()[0].startswith("postgres:") and not is_child
        except (OSError, IndexError, psutil.Error):
            return False

    def _status(self, *, of: int | None = None) -> str:
        lines = self._folder.pid_file()
        if len(lines) < 8 or (of is not None and lines[0].strip() != str(of)):
            return ""
        return lines[7].strip()

    def _pause(self) -> None:
        if self._stopping.wait(PAUSE):
            raise InterruptedError("told to stop meanwhile")


def _reap() -> None:
    _STARTED[:] = [child for child in _STARTED if child.poll() is None]


def _shared_buffers() -> int:
    """MiB for the server's cache: an eighth of the memory, which is touched only as it fills.

    Vectors are most of what a search reads. With the default of 128 MiB in a database of a million
    documents it takes half as long again.
    """
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return min(max(total // 8 // 2**20, 128), 1024)
