"""The embedded PostgreSQL under ``DATA_DIR/postgres``, for when no database is configured.

Every process that uses it holds a shared lock on a file; the last one to let go stops the
server. The kernel drops the lock of a killed process, so a ``kill -9`` leaves no stale user
behind (the wheel's own list of process ids would). While it is used, a thread of each process
looks after it: a server that was killed, or gave up on a full disk, or is frozen, is started again
by whoever comes first, and the others join it.
"""

from __future__ import annotations

import fcntl
import logging
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from src.base.errors import StorageUnavailableError
from src.pg.embedded_folder import PostgresFolder, describe, find_shortage
from src.pg.embedded_process import START_SECONDS, PostgresProcess

logger = logging.getLogger(__name__)

LOCK_SECONDS = START_SECONDS + 60.0  # somebody else may be starting it
LOCK_PAUSE = 0.05
STOP_SECONDS = 20.0  # for the last checkpoint; then the server goes on with it alone
LOOK_SECONDS = 0.5  # between two looks at the server
ASK_SECONDS = 5.0  # between two questions whether it answers
SILENCES = 3  # unanswered questions, of three seconds each, after which it is frozen
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between attempts to start it again


class EmbeddedPostgres:
    """One user of the embedded server; the server lives as long as it has users."""

    def __init__(self, data_dir: Path) -> None:
        """Nothing starts yet; see ``start``."""
        self._data_dir = data_dir
        self._stopping = threading.Event()
        self._busy = threading.Lock()  # one of start, stop, and starting again at a time
        self._users: IO[str] | None = None
        self._keeper: threading.Thread | None = None
        self._folder: PostgresFolder
        self._process: PostgresProcess

    def start(self) -> str:
        """Start the server, or join the one that runs, and return its libpq address.

        Raises:
            StorageUnavailableError: It could not be started; the message says why, and what to do.
        """
        self._stopping.clear()
        with self._busy, _explained():
            self._folder = PostgresFolder(self._data_dir)
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

    def stop(self) -> None:
        """Leave; the last user stops the server. Stopping twice does nothing.

        A server that does not stop harms nobody: it goes on stopping, or the next user finds it,
        so it is only logged.
        """
        self._stopping.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.join()
        with self._busy:
            users, self._users = self._users, None
            if users is None:
                return
            try:
                if not self._leave(users):
                    logger.warning("the embedded PostgreSQL did not stop in time")
            except (OSError, subprocess.SubprocessError) as error:
                logger.warning("the embedded PostgreSQL did not stop", exc_info=error)

    def abandon(self) -> None:
        """Leave at once, for the end of a process that cannot wait: the last user asks the
        server to stop, which it then does by itself.
        """
        users = self._users
        if users is None:
            return
        with suppress(OSError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (self._folder.root / "postgres.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._process.ask_to_stop()

    def _leave(self, users: IO[str]) -> bool:
        """Let go; returns False when the server should have stopped and has not."""
        self._stopping.clear()
        with self._exclusive():
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                users.close()
            return self._process.stop(STOP_SECONDS)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Starting and stopping happen one at a time, whichever process does it.

        Raises:
            OSError: The lock did not become free, or this process is told to stop.
        """
        deadline = time.monotonic() + LOCK_SECONDS
        with (self._folder.root / "postgres.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError("another process keeps the server's lock") from None
                if self._stopping.wait(LOCK_PAUSE):
                    raise InterruptedError("told to stop meanwhile")
            yield

    def _start_server(self) -> None:
        self._folder.ensure()
        with suppress(OSError):
            self._folder.log.tidy()
        if not self._process.join():
            self._process.start()

    def _keep(self) -> None:
        asked, silences = time.monotonic(), 0
        while not self._stopping.wait(LOOK_SECONDS):
            is_well = self._process.is_running()
            if is_well and time.monotonic() > asked + ASK_SECONDS:
                asked = time.monotonic()
                silences = 0 if self._process.answers() else silences + 1
                is_well = silences < SILENCES
            if not is_well:
                self._start_again()
                asked, silences = time.monotonic(), 0
            self._tidy()

    def _tidy(self) -> None:
        """Tidy the log, unless another process just starts, stops or tidies."""
        if not self._folder.log.has_news():
            return
        with suppress(OSError), (self._folder.root / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._folder.log.tidy()

    def _start_again(self) -> None:
        """Try until the server is back, or we are told to stop; each cause is logged once."""
        began, told, pause = time.monotonic(), "", FIRST_PAUSE
        logger.warning("the embedded PostgreSQL is gone; starting it again")
        while not self._stopping.is_set():
            try:
                with self._busy, _explained(), self._exclusive():
                    self._start_server()
            except StorageUnavailableError as error:
                if self._stopping.is_set():
                    return
                cause = find_shortage(self._data_dir) or str(error)
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


@contextmanager
def _explained() -> Iterator[None]:
    """Tell what went wrong in one line, without a path or a traceback.

    Raises:
        StorageUnavailableError: Something did.
    """
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        told = f"the embedded PostgreSQL did not start: {describe(error)}"
        raise StorageUnavailableError(told) from error
