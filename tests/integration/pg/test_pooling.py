"""PgBouncer before PostgreSQL: its sessions will do, its transactions are refused."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest

from src.base.config import Settings
from src.base.errors import ConfigError
from src.operate.doctor import run_doctor
from src.pg.migrations import check_sessions

pytestmark = pytest.mark.own_database

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pooler(dsn: str, mode: str) -> Iterator[str]:
    """The address of a PgBouncer before the database."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = psycopg2.extensions.parse_dsn(dsn)
    target = " ".join(f"{name}={value}" for name, value in options.items())
    with tempfile.TemporaryDirectory(prefix="pomni-pooler-") as folder:
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\nbehind = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
            "ignore_startup_parameters = options,extra_float_digits\n"
        )
        Path(folder).chmod(0o755)
        assert PGBOUNCER is not None
        process = subprocess.Popen(
            [PGBOUNCER, "--quiet", *_as_the_server(options), str(settings)],
            stderr=subprocess.DEVNULL,
        )
        address = f"postgresql://postgres@127.0.0.1:{port}/behind"
        try:
            while not _answers(address):  # pytest's time-out ends it
                assert process.poll() is None, "pgbouncer did not start"
            yield address
        finally:
            process.terminate()
            process.wait()


def _answers(address: str) -> bool:
    try:
        psycopg2.connect(address).close()
    except psycopg2.OperationalError:
        return False
    return True


def test_the_server_itself_keeps_sessions(dsn: str) -> None:
    check_sessions(dsn)


@pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer")
@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_pooler_of_transactions_is_told_from_one_of_sessions(
    dsn: str, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    with pooler(dsn, mode) as address:
        if mode == "session":
            check_sessions(address)
            return
        with pytest.raises(ConfigError, match="session pooling"):
            check_sessions(address)
        assert await run_doctor(Settings(database_url=address)) != 0
        assert "session pooling" in capsys.readouterr().out


def _as_the_server(options: dict[str, str]) -> list[str]:
    """PgBouncer does not run as root, and the socket is open to the server's user alone."""
    folder = options.get("host", "")
    if os.getuid() != 0 or not folder.startswith("/"):
        return []
    server = Path(folder) / f".s.PGSQL.{options.get('port', '5432')}"
    return [f"--user={server.owner()}"]
