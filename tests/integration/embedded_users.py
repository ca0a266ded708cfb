"""Processes that use an embedded PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg2

from src.pg.embedded import SYSTEM_USER

PROJECT = Path(__file__).resolve().parents[2]

# Starts or joins the server, prints its URL, and leaves when stdin has a line.
SCRIPT = """
import sys
from pathlib import Path
from src.pg.embedded import EmbeddedPostgres

server = EmbeddedPostgres(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.readline()
server.stop()
print("left", flush=True)
"""


class ServerUser:
    """Process that uses the server of a data folder; killed at the end of a with block."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(data_dir)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> ServerUser:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def address(self) -> str:
        """Return the server's URL once the process has started or joined it."""
        assert self._process.stdout is not None
        address = self._process.stdout.readline().strip()
        assert address.startswith("postgresql://")
        return address

    def leave(self) -> None:
        """Let the process stop using the server, and wait for its end."""
        output, _ = self._process.communicate("go\n", timeout=60)
        assert output == "left\n"
        assert self._process.returncode == 0

    def kill(self) -> None:
        """Send SIGKILL unless the process has ended, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Stranger:
    """Process of the server's system user that is no server."""

    def __init__(self) -> None:
        user = SYSTEM_USER if os.geteuid() == 0 else None
        self._process = subprocess.Popen(["sleep", "600"], user=user)
        self.pid = self._process.pid

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def is_alive(self) -> bool:
        """Return True while the process runs."""
        return self._process.poll() is None


def ask(address: str, sql: str) -> str:
    """Execute a statement, and return its first value as text."""
    with closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        answer = str(cursor.fetchone()[0]) if cursor.description else ""
        connection.commit()
    return answer


def is_reachable(address: str) -> bool:
    """Return True if the server answers."""
    try:
        return ask(address, "SELECT 1") == "1"
    except psycopg2.OperationalError:
        return False


def started_at(address: str) -> str:
    """Return the server's start time."""
    return ask(address, "SELECT pg_postmaster_start_time()")


def find_postmaster(data_dir: Path) -> psutil.Process:
    """Return the server process of a data folder."""
    lines = (data_dir / "postgres" / "postmaster.pid").read_text().splitlines()
    postmaster = psutil.Process(int(lines[0]))
    assert postmaster.name().startswith("postgres")
    assert postmaster.cwd() == str((data_dir / "postgres").resolve())
    return postmaster


def kill_postmaster(data_dir: Path) -> None:
    """Send SIGKILL to the server of a data folder."""
    find_postmaster(data_dir).kill()


@contextmanager
def borrowed(cluster: Path, name: str | None = None) -> Iterator[Path]:
    """Provide the data folder, optionally moved; afterwards moves it back without a server."""
    location = cluster.parent / name if name else cluster
    location.parent.mkdir(parents=True, exist_ok=True)
    cluster.rename(location)
    try:
        yield location
    finally:
        with suppress(OSError, ValueError, AssertionError, psutil.Error):
            kill_postmaster(location)  # still running if a test failed
        location.rename(cluster)
        inode = (cluster / "postgres").stat().st_ino
        for folder in Path("/tmp").glob(f"pomni-*-{inode}"):
            shutil.rmtree(folder)  # folder of the socket
