"""The embedded PostgreSQL: the first user starts it, the last stops it, crashes are mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from src.base.errors import StorageUnavailableError
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres, find_shortage
from tests.integration.embedded_users import (
    ServerUser,
    Stranger,
    ask,
    borrowed,
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
    server.start()
    kill_postmaster(data_dir)
    wait_for(lambda: not is_reachable(address))
    server.stop()


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


# The embedded PostgreSQL comes back after kill -9 and after a full disk


WORD = "СЕКРЕТ_пользователя"
GONE, BACK = "the embedded PostgreSQL is gone", "the embedded PostgreSQL is back"


@contextmanager
def kept(data_dir: Path, users: int = 1) -> Iterator[str]:
    """A server that its users look after; yields its address."""
    servers = [EmbeddedPostgres(data_dir) for _ in range(users)]
    addresses = {server.start() for server in servers}
    assert len(addresses) == 1
    for server in servers:
        server.look_after()
    try:
        yield addresses.pop()
    finally:
        for server in servers:
            server.stop()


def wait_for(condition: Callable[[], object]) -> None:
    """Poll a condition; pytest's time-out ends it."""
    while not condition():
        threading.Event().wait(0.05)


def messages(caplog: pytest.LogCaptureFixture, beginning: str) -> list[str]:
    return [text for text in caplog.messages if text.startswith(beginning)]


def test_a_killed_server_comes_back_by_itself_and_nothing_is_lost(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kept(data_dir, users=3) as address:
        client = PgClient(address)
        client.open()
        client.execute("CREATE TABLE stored (number int)")
        began = started_at(address)
        kill_postmaster(data_dir)
        wait_for(lambda: is_reachable(address) and started_at(address) != began)
        client.execute("INSERT INTO stored VALUES (1)")
        assert ask(address, "SELECT text FROM notes") == "kept"
        wait_for(lambda: len(messages(caplog, BACK)) == len(messages(caplog, GONE)) > 0)
        assert len(messages(caplog, BACK)) <= 3, "each user says it once"
        client.close()
    assert not is_reachable(address)


def test_a_server_that_does_not_start_is_tried_again_with_one_line(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The way of a full disk, on machines where none can be made."""
    settings, log = (data_dir / "postgres" / name for name in ("postgresql.conf", "server.log"))
    good = settings.read_text()

    def attempt() -> float:
        return log.stat().st_mtime if log.exists() else 0.0

    with kept(data_dir) as address:
        settings.write_text(good + "\nno_such_setting = 1\n")
        kill_postmaster(data_dir)
        wait_for(lambda: messages(caplog, "the embedded PostgreSQL did not start"))
        for _ in range(2):
            before = attempt()
            wait_for(lambda last=before: attempt() > last)  # type: ignore[misc]
        settings.write_text(good)
        wait_for(lambda: is_reachable(address))
        wait_for(lambda: messages(caplog, BACK))
    told = messages(caplog, "the embedded PostgreSQL did not start")
    assert len(told) == 1 and "postgresql.conf" in told[0] and "\n" not in told[0]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of a few megabytes in the place of a folder, with what was in it."""
    owner, content = folder.stat(), folder.with_name(f"{folder.name}.before")
    subprocess.run(["cp", "-a", str(folder), str(content)], check=True)
    options = f"size={size},mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "pomni-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        subprocess.run(["cp", "-a", f"{content}/.", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_waited_out(cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory(prefix="pomni-full-") as folder:
        data_dir = Path(folder) / "data"
        server = EmbeddedPostgres(data_dir)
        server.start()
        server.stop()
        wal = data_dir / "postgres" / "pg_wal"
        with small_disk(wal, "52m"), kept(data_dir) as address:
            assert find_shortage(data_dir) is None
            ballast = wal / "ballast"
            ballast.write_bytes(b"\0" * (shutil.disk_usage(wal).free - 4096))
            assert "the disk is full" in str(find_shortage(data_dir))
            words = f"INSERT INTO filling SELECT '{WORD}' || n FROM generate_series(1, 9) n"
            ask(address, "CREATE TABLE filling (text text)")
            with pytest.raises(psycopg2.Error):
                for _ in range(100_000):
                    ask(address, words + ", generate_series(1, 50000)")
            wait_for(lambda: messages(caplog, "the disk is full"))
            assert not is_reachable(address)
            ballast.unlink()
            wait_for(lambda: is_reachable(address))
            assert find_shortage(data_dir) is None
            wait_for(lambda: messages(caplog, BACK))
            assert len(messages(caplog, "the disk is full")) == 1
        gone = [record for record in caplog.records if record.message.startswith(GONE)]
        assert any("No space left on device" in vars(record)["cause"] for record in gone)
        assert WORD not in (data_dir / "postgres" / "server.log").read_text()


# Statements that fail with a user's words in their values, and one that is logged in other setups.
FAILING = [
    f"INSERT INTO words VALUES ('{WORD}')", f"INSERT INTO words VALUES ('{WORD} forbidden')",
    f"SELECT '{WORD}'::jsonb", f"SELECT '{WORD}'::int[]", f"SELECT '{WORD}'::int",
    f"SELECT 1 AS {WORD} FROM nowhere",
    f"INSERT INTO words SELECT '{WORD}' || string_agg(md5(n::text), '') "
     "FROM generate_series(1, 999) n",
    f"SELECT '{WORD}', pg_sleep(5)",
    f"DO $$ BEGIN RAISE WARNING '{WORD}'; RAISE EXCEPTION '{WORD}'; END $$",
    f"SELECT '{WORD}', pg_terminate_backend(pg_backend_pid())",
]  # fmt: skip


def test_the_server_s_log_holds_no_word_of_a_user(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = data_dir / "postgres" / "server.log"
    with kept(data_dir) as address:
        ask(address, "CREATE TABLE words (text text UNIQUE CHECK (text NOT LIKE '%forbidden'))")
        ask(address, f"INSERT INTO words VALUES ('{WORD}')")
        for statement in FAILING:
            with closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '0.2s'")
                with pytest.raises(psycopg2.Error):
                    cursor.execute(statement)
        with pytest.raises(psycopg2.errors.DeadlockDetected):
            deadlock(address)
        text = log.read_text()
        assert "ready to accept connections" in text, "what concerns the server is logged"
        assert WORD not in text and "forbidden" not in text
        with closing(psycopg2.connect(address)) as dying, ThreadPoolExecutor(1) as threads:
            pid = dying.info.backend_pid
            running = threads.submit(dying.cursor().execute, f"SELECT '{WORD}', pg_sleep(60)")
            is_active = f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid}"
            wait_for(lambda: ask(address, is_active) == "True")
            os.kill(pid, 9)
            assert running.exception(timeout=30) is not None
        wait_for(lambda: messages(caplog, BACK))
        assert is_reachable(address)
    gone = next(record for record in caplog.records if record.message.startswith(GONE))
    assert "was terminated by signal 9" in vars(gone)["cause"]
    assert WORD not in log.read_text() + str(vars(gone))


def test_the_statement_of_a_panic_is_gone_after_the_next_start(data_dir: Path) -> None:
    server, next_user = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    server.start()
    log = data_dir / "postgres" / "server.log"
    with log.open("a") as file:  # as the server itself does, in spite of its settings
        file.write(
            f"[7] PANIC:  could not write\n[7] STATEMENT:  INSERT INTO x VALUES ('{WORD}')\n"
        )
    kill_postmaster(data_dir)
    next_user.start()
    assert WORD not in log.read_text()
    for user in (server, next_user):
        user.stop()


def deadlock(address: str) -> None:
    ask(address, "CREATE TABLE locked AS SELECT n, '' AS text FROM generate_series(1, 2) n")
    update = f"UPDATE locked SET text = '{WORD}' WHERE n = "
    with closing(psycopg2.connect(address)) as one, closing(psycopg2.connect(address)) as two:
        one.cursor().execute(f"{update} 1")
        two.cursor().execute(f"{update} 2")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(one.cursor().execute, f"{update} 2")
            try:
                two.cursor().execute(f"{update} 1")
            finally:
                two.rollback()
                waiting.result(timeout=30)


# Names that DATA_DIR may have, and folders that cannot be used: one line that names the cause


NAMES = {
    "space": "my data",
    "quotes": 'it\'s "mine"',
    "shell": "$(touch CANARY) `touch CANARY`; touch CANARY & | > CANARY #",
    "long": "/".join(["x" * 200] * 3),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_name_of_a_folder_fails_or_runs_a_shell(
    cluster: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with borrowed(cluster, name) as folder:
        first, second = EmbeddedPostgres(folder), EmbeddedPostgres(folder)
        address = first.start()
        assert second.start() == address
        assert ask(address, "SELECT text FROM notes") == "kept"
        socket_folder = Path(address.partition("host=")[2])
        assert socket_folder.stat().st_mode & 0o077 == 0, "it asks for no password"
        first.stop()
        second.stop()
        assert not is_reachable(address)
        assert not list(cluster.parent.rglob("CANARY"))
    assert not list(tmp_path.iterdir()) and not Path("/CANARY").exists()


def zero(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a zeroed pg_control": (lambda d: zero(d / "global/pg_control"), "incompatible with server"),
    "an older version": (
        lambda d: (d / "PG_VERSION").write_text("16\n"),
        "incompatible with server",
    ),
    "an error in the settings": (
        lambda d: (d / "postgresql.conf").write_text("no_such = 1\n"),
        "postgresql.conf",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cluster_is_told_in_one_line(cluster: Path, damage: str) -> None:
    spoil, told = DAMAGES[damage]
    with tempfile.TemporaryDirectory(prefix="pomni-damaged-") as folder:
        data_dir = Path(folder) / "data"
        subprocess.run(["cp", "-a", str(cluster), str(data_dir)], check=True)
        spoil(data_dir / "postgres")
        server = EmbeddedPostgres(data_dir)
        with pytest.raises(StorageUnavailableError, match=told) as caught:
            ask(server.start(), "SELECT text FROM notes")
        server.stop()
    assert "\n" not in str(caught.value) and str(data_dir) not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_a_cluster_of_another_user_is_told_with_its_owner(data_dir: Path) -> None:
    os.chown(data_dir / "postgres", 65534, 65534)
    with pytest.raises(StorageUnavailableError, match="belongs to nobody, not to embedded"):
        EmbeddedPostgres(data_dir).start()


def test_a_folder_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for folder in (tmp_path / "file" / "data", tmp_path / "loop"):
        with pytest.raises(StorageUnavailableError, match="DATA_DIR: ") as caught:
            EmbeddedPostgres(folder).start()
        assert "\n" not in str(caught.value) and str(tmp_path) not in str(caught.value)
