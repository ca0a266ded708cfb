"""A PostgreSQL of one's own: a role that owns its database, and may create no extension."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from src.operate.backup import backup
from src.pg import embedded
from src.pg.migrations import newest_version
from tests.conftest import database_url, execute, query
from tests.e2e.bot_command import Machine
from tests.integration.operate.test_backup import TABLES, contents

OWNERS = """
SELECT DISTINCT pg_get_userbyid(o.owner) FROM (
    SELECT relowner, relnamespace, oid, 'pg_class'::regclass FROM pg_class
    UNION ALL SELECT proowner, pronamespace, oid, 'pg_proc'::regclass FROM pg_proc
    UNION ALL SELECT typowner, typnamespace, oid, 'pg_type'::regclass FROM pg_type
) AS o (owner, namespace, id, class)
WHERE o.namespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = o.id AND d.classid = o.class AND d.deptype = 'e')
"""
COMMENTS = "SELECT count(*) FROM pg_description WHERE classoid = 'pg_class'::regclass"
CREATE = "CREATE EXTENSION vector"


class Server:
    """The tests' server with an ordinary role, and databases that it owns."""

    def __init__(self, address: str) -> None:
        self.address, self.role, self.names = address, f"role_{uuid.uuid4().hex}", list[str]()
        execute(address, f"CREATE ROLE {self.role} LOGIN PASSWORD 'k3/Jf+9='")

    def add(self, *, extension: bool = True) -> str:
        """Create a database of the role; returns its URL for a superuser."""
        self.names.append(f"own_{uuid.uuid4().hex}")
        execute(self.address, f"CREATE DATABASE {self.names[-1]} OWNER {self.role}")
        url = database_url(self.address, self.names[-1])
        if extension:
            execute(url, CREATE)
        return url

    def as_role(self, url: str) -> str:
        """Return the URL of a database for the role."""
        return url.replace("postgres@", f"{self.role}:k3%2FJf%2B9%3D@")

    def drop(self) -> None:
        for name in self.names:
            execute(self.address, f"DROP DATABASE {name} WITH (FORCE)")
        execute(self.address, f"DROP ROLE {self.role}")


@pytest.fixture
def server(postgres_server: str) -> Iterator[Server]:
    opened = Server(postgres_server)
    yield opened
    opened.drop()


def test_without_the_extension_the_line_for_a_superuser_is_named_and_nothing_is_changed(
    server: Server, tmp_path: Path
) -> None:
    url = server.add(extension=False)
    machine = Machine(tmp_path, {"DATABASE_URL": server.as_role(url)})
    for command in ("migrate", "console"):
        done = machine.run(command)
        assert (done.status, done.stdout) == (1, "")
        [line] = done.stderr.splitlines()
        assert "a superuser run in the database " + server.names[0] in line
        assert line.endswith(": CREATE EXTENSION vector;") and "k3" not in line
    assert query(url, TABLES) == []
    execute(url, line.rpartition(": ")[2])  # as the superuser
    assert machine.run("migrate").status == 0
    assert query(url, OWNERS) == [(server.role,)]


def test_a_role_that_does_not_own_the_database_is_shown_the_page(
    server: Server, tmp_path: Path
) -> None:
    url = server.add()
    execute(url, f"ALTER DATABASE {server.names[0]} OWNER TO postgres")
    done = Machine(tmp_path, {"DATABASE_URL": server.as_role(url)}).run("migrate")
    assert (done.status, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert "permission denied for schema public" in line and "docs/operating.md" in line


def test_an_ordinary_role_talks_backs_up_restores_and_erases(
    server: Server, tmp_path: Path
) -> None:
    first, second = server.add(), server.add()
    machine = Machine(tmp_path, {"DATABASE_URL": server.as_role(first)})
    assert machine.run("console", "--user-id", "7", stdin="I live in Leeds\n").status == 0
    done = machine.run("backup", "own.backup")
    assert (done.status, done.stderr) == (0, "")
    listed = subprocess.run(
        [embedded.binary("pg_restore"), "--list", tmp_path / "own.backup"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "EXTENSION" not in listed.stdout
    other = machine.with_variables(DATABASE_URL=server.as_role(second))
    done = other.run("restore", "own.backup")
    assert (done.status, done.stderr) == (0, "")
    assert contents(second) == contents(first) and query(second, OWNERS) == [(server.role,)]
    assert query(second, COMMENTS) == query(first, COMMENTS)
    assert "I live in Leeds" in other.run("export", "--user-id", "7").stdout
    doctor = other.run("doctor")
    assert (doctor.status, doctor.stderr) == (0, "") and newest_version() in doctor.stdout
    done = other.run("erase", "--user-id", "7")
    assert (done.status, done.stderr) == (0, "")


def test_without_the_extension_nothing_is_restored(
    server: Server, dsn: str, tmp_path: Path
) -> None:
    backup(dsn, tmp_path / "super.backup")
    url = server.add(extension=False)
    done = Machine(tmp_path, {"DATABASE_URL": server.as_role(url)}).run("restore", "super.backup")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.endswith(": CREATE EXTENSION vector;\n")
    assert query(url, TABLES) == []


def test_a_superuser_s_backup_becomes_the_role_s(server: Server, dsn: str, tmp_path: Path) -> None:
    backup(dsn, tmp_path / "super.backup")
    url = server.add()
    machine = Machine(tmp_path, {"DATABASE_URL": server.as_role(url)})
    done = machine.run("restore", "super.backup")
    assert (done.status, done.stderr) == (0, "")
    assert contents(url) == contents(dsn) and query(url, OWNERS) == [(server.role,)]
