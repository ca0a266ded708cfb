"""Backups: all of it comes back, also into a newer program; nothing else is touched or told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from src.base.errors import BackupError, SchemaRefusedError
from src.operate.backup import backup, restore
from src.pg.client import PgClient
from src.pg.migrations import find_version, migrate, newest_version
from tests.conftest import execute, new_database, query
from tests.integration.old_schema import SEEN, build_old_database
from tests.integration.person import Person, Rig

pytestmark = pytest.mark.own_database

TABLES = """
SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind = 'r' ORDER BY 1
"""


@pytest.fixture
def other_dsn(postgres_server: str) -> Iterator[str]:
    """Another empty database."""
    yield from new_database(postgres_server, "template0")


def contents(dsn: str) -> dict[str, str]:
    """A digest of every table of ours."""
    digest = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t"
    return {name: query(dsn, digest.format(name))[0][0] for (name,) in query(dsn, TABLES)}


async def test_everything_comes_back_and_the_bot_remembers(
    rig: Rig, empty_dsn: str, tmp_path: Path
) -> None:
    somebody = Person(rig)
    await somebody.say("У меня кот Барсик", "Запомню")
    await somebody.index()
    file = tmp_path / "pomni.backup"
    size = backup(rig.client.dsn, file)
    assert size == file.stat().st_size > 1000
    assert file.stat().st_mode & 0o777 == 0o600
    assert restore(empty_dsn, file) == newest_version()
    there = contents(empty_dsn)
    assert there == contents(rig.client.dsn)
    assert len(there) > 20
    assert query(empty_dsn, "SELECT count(*) FROM document_embeddings") == [(1,)]
    assert os.listdir(tmp_path) == [file.name]


def test_a_backup_of_an_older_schema_becomes_the_newest(
    empty_dsn: str, other_dsn: str, tmp_path: Path
) -> None:
    build_old_database(empty_dsn)
    file = tmp_path / "old.backup"
    backup(empty_dsn, file)
    assert restore(other_dsn, file) == newest_version()
    for statement, rows in SEEN.items():
        assert query(other_dsn, statement) == rows


def test_a_database_that_is_not_empty_is_left_alone(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "pomni.backup"
    backup(dsn, file)
    execute(dsn, "INSERT INTO user_settings (owner_id) VALUES (add_owner(5, 0))")
    with pytest.raises(BackupError, match="into an empty one"):
        restore(dsn, file)
    assert query(dsn, "SELECT count(*) FROM user_settings") == [(1,)]


def test_a_backup_from_another_schema_comes_back_where_the_bot_looks(
    empty_dsn: str, other_dsn: str, tmp_path: Path
) -> None:
    execute(empty_dsn, "CREATE SCHEMA app")
    app = "options=-csearch_path%3Dapp,public"
    migrate(f"{empty_dsn}&{app}")
    file = tmp_path / "pomni.backup"
    backup(empty_dsn, file)
    with pytest.raises(BackupError, match=r"SCHEMA app; ALTER .* search_path = app, public"):
        restore(other_dsn, file)
    assert query(other_dsn, TABLES) == []
    execute(other_dsn, "CREATE SCHEMA app")
    assert restore(f"{other_dsn}&{app}", file) == newest_version()
    assert query(other_dsn, TABLES) == []


@pytest.mark.parametrize("damage", ["text", "half", "bytes"])
def test_a_damaged_file_is_named_and_leaves_the_database_empty(
    rig: Rig, empty_dsn: str, tmp_path: Path, damage: str
) -> None:
    rig.fill(rig.conversation(), ("user", "тайна " * 500))
    file = tmp_path / "pomni.backup"
    size = backup(rig.client.dsn, file)
    if damage == "bytes":
        with file.open("r+b") as stream:
            stream.seek(size // 2)
            stream.write(os.urandom(size // 4))
    else:
        whole = file.read_bytes()
        file.write_bytes({"text": b"-- SQL", "half": whole[: size // 2]}[damage])
    with pytest.raises(BackupError) as caught:
        restore(empty_dsn, file)
    assert "тайна" not in str(caught.value)
    assert query(empty_dsn, TABLES) == []


@pytest.mark.parametrize(("version", "told"), [
    ("9999", "version 9999"), ("0012", "tables of another program"),
])  # fmt: skip
def test_a_backup_of_a_newer_program_or_of_another_one_is_refused(
    client: PgClient, empty_dsn: str, tmp_path: Path, version: str, told: str
) -> None:
    client.execute("UPDATE alembic_version SET version_num = %(v)s", {"v": version})
    file = tmp_path / "pomni.backup"
    backup(client.dsn, file)
    with pytest.raises(SchemaRefusedError, match=told):
        restore(empty_dsn, file)
    assert query(empty_dsn, TABLES) == [], "so that another one may be restored into it"
    file.unlink()
    client.execute(
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE theirs (id int)"
    )
    backup(client.dsn, file)
    with pytest.raises(BackupError, match="a database of Pomni's"):
        restore(empty_dsn, file)
    assert query(empty_dsn, TABLES) == []


def test_no_file_is_overwritten_and_no_half_one_stays(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "pomni.backup"
    file.write_text("precious")
    with pytest.raises(BackupError, match="give a new name"):
        backup(dsn, file)
    assert file.read_text() == "precious"
    with pytest.raises(BackupError, match="cannot be written"):
        backup(dsn, tmp_path / "no" / "folder")
    with pytest.raises(BackupError, match="pg_dump failed"):
        backup(dsn.replace("/test", "/no_such_test"), tmp_path / "none")
    with pytest.raises(BackupError, match="cannot be read"):
        restore(dsn, tmp_path / "none")
    assert sorted(tmp_path.iterdir()) == [file]
    assert find_version(dsn) == newest_version()
