"""The embedded PostgreSQL: the first user starts it, the last stops it, crashes are mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from src.base.errors import StorageUnavailableError
from src.pg.embedded import EmbeddedPostgres
from tests.integration.embedded_users import (
    ServerUser,
    Stranger,
    ask,
    is_reachable,
    kill_postmaster,
    started_at,
)


def test_a_server_lives_from_start_to_stop_and_keeps_its_data(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    for _ in range(2):
        address = server.start()
        assert ask(address, "SELECT text FROM notes") == "kept"
        assert ask(address, "SHOW listen_addresses") == ""
        assert ask(address, "SHOW server_encoding") == "UTF8"
        server.stop()
        server.stop()
        assert not is_reachable(address)
    EmbeddedPostgres(data_dir).stop()


def test_a_killed_user_leaves_the_server_to_the_others(data_dir: Path) -> None:
    with ServerUser(data_dir) as killed, ServerUser(data_dir) as other:
        address = killed.address()
        other.address()
        began = started_at(address)
        killed.kill()
        assert started_at(address) == began
        other.leave()
        assert not is_reachable(address)


def test_four_processes_start_at_once_in_an_empty_folder() -> None:
    with tempfile.TemporaryDirectory(prefix="pomni-empty-") as folder:
        data_dir = Path(folder) / "not" / "yet" / "there"
        users = [ServerUser(data_dir) for _ in range(4)]
        addresses = {user.address() for user in users}
        assert len(addresses) == 1
        address = addresses.pop()
        assert ask(address, "SELECT count(*) FROM pg_database") == "3"
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(ServerUser.leave, users))
        assert not is_reachable(address)
        assert not (data_dir / "postgres.unfinished").exists()
        for user in users:
            user.kill()


def test_a_killed_server_is_started_again_with_its_data(data_dir: Path) -> None:
    servers = [EmbeddedPostgres(data_dir) for _ in range(3)]
    address = servers[0].start()
    ask(address, "CREATE TABLE stored (number int)")
    for number, server in enumerate(servers[1:]):
        ask(address, f"INSERT INTO stored VALUES ({number})")
        with closing(psycopg2.connect(address)) as unfinished:
            unfinished.cursor().execute("INSERT INTO stored VALUES (99)")
            kill_postmaster(data_dir)
            assert server.start() == address
    assert ask(address, "SELECT array_agg(number ORDER BY number) FROM stored") == "[0, 1]"
    for server in servers:
        assert is_reachable(address)
        server.stop()
    assert not is_reachable(address)


def test_a_statement_that_outlives_its_killed_server_does_not_keep_the_next_from_starting(
    data_dir: Path,
) -> None:
    server = EmbeddedPostgres(data_dir)
    address = server.start()
    with closing(psycopg2.connect(address, application_name="busy")) as busy:
        busy_pid = busy.info.backend_pid
        with ThreadPoolExecutor(1) as threads:
            sql = "SELECT count(*) FROM generate_series(1, 200000000)"
            running = threads.submit(busy.cursor().execute, sql)
            asked = f"SELECT state FROM pg_stat_activity WHERE pid = {busy_pid}"
            while ask(address, asked) != "active":
                assert not running.done()
            kill_postmaster(data_dir)
            next_server = EmbeddedPostgres(data_dir)
            assert ask(next_server.start(), "SELECT text FROM notes") == "kept"
            assert isinstance(running.exception(timeout=10), psycopg2.OperationalError)
    next_server.stop()
    server.stop()
    assert not is_reachable(address)


def test_stale_files_that_name_a_living_process_of_others_are_no_obstacle(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()
    pid_file = data_dir / "postgres" / "postmaster.pid"
    rest = pid_file.read_text().splitlines()[1:]
    server.stop()
    with Stranger() as stranger:
        for pid in (os.getpid(), stranger.pid):
            for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
                stale = data_dir / "postgres" / name
                stale.write_text("\n".join([str(pid), *rest]) + "\n")
                stale.chmod(0o666)
            assert ask(server.start(), "SELECT text FROM notes") == "kept"
            server.stop()
        assert stranger.is_alive()


def test_a_folder_that_vanished_under_its_server_is_no_error_at_the_stop(cluster: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pomni-vanished-") as folder:
        data_dir = Path(folder) / "data"
        subprocess.run(["cp", "-a", str(cluster), str(data_dir)], check=True)
        server = EmbeddedPostgres(data_dir)
        server.start()
        kill_postmaster(data_dir)
        shutil.rmtree(data_dir)
        server.stop()


def test_an_unfinished_cluster_is_thrown_away() -> None:
    with tempfile.TemporaryDirectory(prefix="pomni-unfinished-") as folder:
        unfinished = Path(folder) / "postgres.unfinished"
        (unfinished / "base" / "1").mkdir(parents=True)
        (unfinished / "PG_VERSION").write_text("18\n")
        (Path(folder) / "postgres").mkdir()
        server = EmbeddedPostgres(Path(folder))
        assert is_reachable(server.start())
        assert not unfinished.exists()
        server.stop()


def test_a_folder_that_holds_something_else_is_left_alone_and_reported() -> None:
    with tempfile.TemporaryDirectory(prefix="pomni-photos-") as folder:
        photo = Path(folder) / "postgres" / "photo.jpg"
        photo.parent.mkdir()
        photo.write_text("precious")
        with pytest.raises(StorageUnavailableError, match="is not a database cluster"):
            EmbeddedPostgres(Path(folder)).start()
        assert photo.read_text() == "precious"
