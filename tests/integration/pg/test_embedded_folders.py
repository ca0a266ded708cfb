"""Names that DATA_DIR may have, and folders that cannot be used: one line that names the cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from src.base.errors import StorageUnavailableError
from src.pg.embedded import EmbeddedPostgres
from tests.integration.embedded_users import ask, borrowed, is_reachable

NAMES = {
    "space": "my data",
    "quotes": 'it\'s "mine"',
    "shell": "$(touch CANARY) `touch CANARY`; touch CANARY & | > CANARY #",
    "percent": "100%s %p %%",
    "words": "Дані 😀 ﷺ",
    "backslash": "a\\b\\$HOME",
    "long": "/".join(["x" * 200] * 3),
    "dashes": "-D -c=1",
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
    "an empty pg_control": (
        lambda d: (d / "global/pg_control").write_bytes(b""),
        "could not read file .*pg_control",
    ),
    "no write-ahead log": (
        lambda d: [path.unlink() for path in (d / "pg_wal").glob("0*")],
        "could not locate a valid checkpoint record",
    ),
    "an older version": (
        lambda d: (d / "PG_VERSION").write_text("16\n"),
        "incompatible with server",
    ),
    "no version": (
        lambda d: (d / "PG_VERSION").unlink(),
        "is not a database cluster directory",
    ),
    "open to all": (lambda d: d.chmod(0o777), "invalid permissions"),
    "another owner": (lambda d: shutil.chown(d, 12345), "Permission denied|wrong ownership"),
    "an error in the settings": (
        lambda d: (d / "postgresql.conf").write_text("no_such = 1\n"),
        "postgresql.conf",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cluster_is_told_in_one_line(cluster: Path, damage: str) -> None:
    spoil, told = DAMAGES[damage]
    if damage == "another owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    with tempfile.TemporaryDirectory(prefix="pomni-damaged-") as folder:
        data_dir = Path(folder) / "data"
        subprocess.run(["cp", "-a", str(cluster), str(data_dir)], check=True)
        spoil(data_dir / "postgres")
        server = EmbeddedPostgres(data_dir)
        with pytest.raises(StorageUnavailableError, match=told) as caught:
            ask(server.start(), "SELECT text FROM notes")
        server.stop()
    assert "\n" not in str(caught.value) and str(data_dir) not in str(caught.value)


def test_a_folder_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    folders = [tmp_path / "file", tmp_path / "loop", tmp_path / "file" / "data"]
    for folder in (*folders, Path("~nobody-of-this-name/data")):
        with pytest.raises(StorageUnavailableError, match="DATA_DIR: ") as caught:
            EmbeddedPostgres(folder).start()
        assert "\n" not in str(caught.value) and str(tmp_path) not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_file_system_is_told_in_one_line(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,ro", "pomni-test", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(StorageUnavailableError, match=r"Read-only file system"):
            EmbeddedPostgres(tmp_path / "data").start()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
