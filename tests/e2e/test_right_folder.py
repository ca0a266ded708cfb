"""The folder of the settings, and commands without a database: nothing is created unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bot import COMMANDS
from src.pg.migrations import newest_version
from tests.conftest import execute, query
from tests.e2e.bot_command import Machine
from tests.e2e.nursery import settle
from tests.integration.operate.test_backup import TABLES, contents

CREATING = ("run", "console", "worker", "migrate")
ARGUMENTS = {
    "export": ["--user-id", "5"], "erase": ["--user-id", "5"], "eval": ["talks.json"],
    "backup": ["new.backup"], "restore": ["old.backup"], "import": ["--user-id", "5", "--undo"],
}  # fmt: skip
OTHERS = sorted(COMMANDS.keys() - {*CREATING, "doctor", "restore"})
NONE = "Pomni stopped: there is no database of Pomni's in {}: run, console, worker and migrate "


def some_of(commands: Iterable[str], *chosen: str) -> list[Any]:
    """The chosen commands, and the others in make proof."""
    others = sorted({*commands} - {*chosen})
    return [*chosen, *(pytest.param(other, marks=pytest.mark.proof) for other in others)]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A working folder with settings that nobody meant."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / ".env").write_text("LLM_MODEL=nonsense\nALLOWED_USERS=1\n")
    return folder


@pytest.fixture
def machine(tmp_path: Path, elsewhere: Path) -> Machine:
    """A bot in a folder of its own, started from another one."""
    folder = tmp_path / "bot"
    folder.mkdir()
    return Machine(folder, {}, cwd=elsewhere)


def files(folder: Path) -> list[str]:
    return sorted({path.name for path in folder.iterdir()} - {"bot.py", "src"})


def test_every_relative_path_of_the_settings_starts_at_the_folder_of_bot_py(
    machine: Machine, elsewhere: Path
) -> None:
    (machine.folder / ".env").write_text(
        "DATA_DIR=mine/of/bot\nPERSONA=@persona.txt\nMCP_SERVERS=./servers.json\n"
        "TIMEZONE=Europe/Kyiv\n"
    )
    (machine.folder / "persona.txt").write_text("You are Sancho.")
    (machine.folder / "servers.json").write_text(
        '{"mcpServers": {"near": {"command": "sh", "args": ["near.sh"]}}}'
    )
    (machine.folder / "near.sh").write_text("touch began\n")
    done = machine.run("doctor")
    folder = machine.folder / "mine/of/bot/postgres"
    table = {line[:12].strip(): line for line in done.stdout.splitlines()}
    assert f"none yet; the first start creates it in {folder} " in table["database"]
    assert table["database"].endswith(" OK") and "Europe/Kyiv" in table["time zone"]
    assert not {"schema", "jobs", "queue", "clock"} & table.keys()
    assert "began" in files(machine.folder), "a server's command starts there, too"
    assert not (machine.folder / "mine").exists() and files(elsewhere) == [".env"]


@pytest.mark.parametrize("command", some_of(OTHERS, "export"))
def test_without_a_database_a_command_says_where_it_looked_and_creates_nothing(
    machine: Machine, elsewhere: Path, empty_dsn: str, command: str
) -> None:
    done = machine.run(command, *ARGUMENTS.get(command, []))
    told = NONE.format(machine.folder / "data" / "postgres")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1
    there = machine.with_variables(DATABASE_URL=empty_dsn)
    done = there.run(command, *ARGUMENTS.get(command, []))
    name, _, host = empty_dsn.rpartition("@/")[2].partition("?host=")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith(NONE.format(f"{name} at {host}:5432"))
    assert done.stderr.count("\n") == 1
    assert files(machine.folder) == [] and files(elsewhere) == [".env"]
    assert query(empty_dsn, TABLES) == []


def test_what_is_no_backup_creates_no_database_to_restore_into(
    machine: Machine, elsewhere: Path
) -> None:
    (elsewhere / "old.backup").write_text("-- SQL")
    for name, told in (("old.backup", "not a backup"), ("absent", "cannot be read")):
        done = machine.run("restore", name)
        assert (done.status, done.stdout) == (1, "")
        assert told in done.stderr and str(elsewhere / name) in done.stderr
    assert files(machine.folder) == []


@pytest.mark.parametrize("command", some_of(COMMANDS.keys() - {"doctor", "restore"}, "run"))
def test_a_database_of_a_newer_program_is_one_sentence_and_stays_as_it_is(
    machine: Machine, elsewhere: Path, dsn: str, command: str
) -> None:
    execute(dsn, "UPDATE alembic_version SET version_num = '9999'")
    before = contents(dsn)
    there = machine.with_variables(DATABASE_URL=dsn)
    done = there.run(command, *ARGUMENTS.get(command, []))
    assert contents(dsn) == before and files(elsewhere) == [".env"]
    *_, told = done.stderr.splitlines()
    assert (done.status, done.stdout) == (2, "") and "start the newer program" in told
    assert len(done.stderr.splitlines()) == (2 if command == "run" else 1)


def test_migrate_says_from_where_to_where(machine: Machine, empty_dsn: str) -> None:
    there, newest = machine.with_variables(DATABASE_URL=empty_dsn), newest_version()
    for before in ("nothing", newest):
        done = there.run("migrate")
        told = f"The database was at {before} and is at {newest}.\n"
        assert (done.status, done.stdout) == (0, told)


def test_files_of_the_command_line_are_those_of_the_shell(
    machine: Machine, elsewhere: Path, dsn: str
) -> None:
    there = machine.with_variables(DATABASE_URL=dsn)
    done = there.run("backup", "empty.backup")
    assert done.status == 0 and done.stdout.startswith(f"{elsewhere / 'empty.backup'}: ")
    assert done.stderr == "Nobody has written to this bot yet: is it the right one?\n"
    there.run("console", "--user-id", "7", stdin="I live in Leeds\n/export\n")
    done = there.run("backup", "../full.backup")
    assert (done.status, done.stderr) == (0, "")
    assert len([name for name in files(elsewhere) if name.startswith("pomni-")]) == 2
    assert files(machine.folder) == [] and (elsewhere.parent / "full.backup").exists()


@pytest.mark.parametrize(("target", "status", "told"), [
    ("/dev/full", 1, "Pomni stopped: [Errno 28] No space left on device\n"), ("closed", 0, ""),
])  # fmt: skip
def test_an_output_that_takes_no_more_is_told_in_one_line(
    dsn: str, tmp_path: Path, target: str, status: int, told: str
) -> None:
    settings = {"PATH": os.defpath, "DATABASE_URL": dsn}
    owner = "SELECT add_owner(7, 0)"
    execute(dsn, f"INSERT INTO conversations (owner_id, telegram_user_id) VALUES (({owner}), 7)")
    reader, writer = os.pipe()
    os.close(reader)
    output = writer if target == "closed" else os.open(target, os.O_WRONLY)
    for form in ([], ["--markdown"]):
        command = [sys.executable, str(settle(tmp_path)), "export", "--user-id", "7", *form]
        end = subprocess.run(
            command, env=settings, stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (end.returncode, end.stderr) == (status, told)


def test_an_id_without_rows_is_not_erased_and_not_exported(machine: Machine, dsn: str) -> None:
    there = machine.with_variables(DATABASE_URL=dsn)
    before = contents(dsn)
    for command, number in (("export", "5"), ("erase", "-5")):
        done = there.run(command, "--user-id", number)
        told = f"Pomni stopped: the database has nothing of the id {number}\n"
        assert (done.status, done.stdout, done.stderr) == (1, "", told)
    assert contents(dsn) == before


def test_a_backup_is_restored_into_a_folder_that_is_not_there_yet(
    machine: Machine, elsewhere: Path, dsn: str
) -> None:
    there = machine.with_variables(DATABASE_URL=dsn)
    there.run("console", "--user-id", "7", stdin="I live in Leeds\n")
    there.run("backup", "pomni.backup")
    restored = machine.with_variables(DATA_DIR="restored")
    done = restored.run("restore", "pomni.backup")
    assert (done.status, done.stderr) == (0, "")
    told = f"Restored {elsewhere / 'pomni.backup'}; the schema is at {newest_version()}.\n"
    assert done.stdout == told and files(machine.folder) == ["restored"]
    assert "I live in Leeds" in restored.run("export", "--user-id", "7").stdout
    assert files(elsewhere) == [".env", "pomni.backup"]
