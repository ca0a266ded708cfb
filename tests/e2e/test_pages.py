"""What the pages show is what the program prints: every transcript is played again."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.conftest import query
from tests.e2e.bot_command import Finished, Machine
from tests.fakes.openai_server import FakeOpenAI
from tests.pages import PAGES, README, page

# Of the README's three, which differ in port and model alone; a turn takes a process.
OWN_SERVER = next(
    block.text for block in README.blocks if block.kind == "dotenv" and "localhost" in block.text
)
STATEMENTS = [
    statement.strip()
    for each in PAGES
    for block in each.blocks
    if block.kind == "sql"
    for statement in block.text.split(";")
    if statement.strip()
]


def masked(text: str) -> list[str]:
    """The lines without what differs from run to run, or with every migration."""
    text = re.sub(r"(schema +version) \d{4}", r"\1 NEWEST", text)
    text = re.sub(r"\d\d\.\d\d\.\d{4} \d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d", "MOMENT", text)
    text = re.sub(r"\d+ ms|\d+\.\d s", "TIME", text)
    text = re.sub(r"^disk .*\n", "", text, flags=re.MULTILINE)  # only of the embedded server
    text = re.sub(r"PostgreSQL [\d.]+, (embedded|configured)", "POSTGRESQL", text)
    return re.sub(r" +", " ", text).splitlines()


def transcript(name: str) -> tuple[str, list[str]]:
    """The command of a page's block that begins with ``$ name``, and what follows it."""
    blocks = [block.text for each in PAGES for block in each.blocks if block.kind == "console"]
    [text] = [text for text in blocks if text.startswith(f"$ {name}")]
    command, *lines = text.splitlines()
    return command, lines


def test_the_dialogue_of_the_readme_is_what_the_console_says(machine: Machine) -> None:
    _, (first, *lines) = transcript("make run")
    asked = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
    done = machine.run("run", stdin="\n".join(asked))
    assert (done.status, done.stderr) == (0, f"{first}\n")
    told = [line for line in lines if not line.startswith("> ")]
    assert masked(done.stdout) == masked("\n".join(told))


def test_the_table_of_the_doctor_is_what_it_prints(machine: Machine) -> None:
    _, lines = transcript(".venv/bin/python bot.py doctor")
    assert masked(machine.run("doctor").stdout) == masked("\n".join(lines))


def test_the_console_answers_in_json_as_shown(machine: Machine) -> None:
    command, lines = transcript("echo")
    said = re.findall(r"'(.+)'", command)
    done = machine.run(*command.partition("bot.py ")[2].split(), stdin="\n".join(said))
    assert done.stdout.splitlines() == lines


async def test_a_model_of_one_s_own_answers_with_these_lines(machine: Machine) -> None:
    async with FakeOpenAI() as model:
        model.queue("I will keep that in mind.")
        there = re.sub(r"localhost:\d+", f"localhost:{model.port}", OWN_SERVER)
        (machine.folder / ".env").write_text(there)
        done = await machine.run_beside("console", stdin="My dog is called Rex\n")
    request = model.requests[0]  # then a form, as the model called no tool
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == "I will keep that in mind.\n"
    assert f"LLM_MODEL=openai:{request.model}\n" in OWN_SERVER and request.tools


def test_every_statement_of_the_pages_runs(dsn: str) -> None:
    assert len(STATEMENTS) >= 4
    for statement in STATEMENTS:
        assert query(dsn, statement) == [], statement


@pytest.fixture
def keys() -> Iterator[dict[str, str]]:
    """The environment of a GnuPG that knows nobody; its sockets want a short name."""
    if shutil.which("gpg") is None or shutil.which("openssl") is None:
        pytest.skip("there is no gpg or no openssl")
    with tempfile.TemporaryDirectory(prefix="pomni-gpg-", dir="/tmp") as folder:
        variables = {"PATH": os.environ["PATH"], "GNUPGHOME": folder}
        yield variables
        subprocess.run(["gpgconf", "--kill", "all"], env=variables, check=True)


def run_as_written(machine: Machine, line: str) -> Finished:
    """A line that calls bot.py, in the machine's folder, on the machine's database."""
    return machine.run(*shlex.split(line.partition("bot.py ")[2]))


def test_a_backup_is_written_encrypted_and_restored_as_the_pages_say(
    machine: Machine, empty_dsn: str, keys: dict[str, str]
) -> None:
    machine.run("console", "--user-id", "7", stdin="I live in Leeds\n")
    commands = list(page("operating.md").commands())
    backup, restore = (
        next(line for line in commands if f"bot.py {name} pomni.backup" in line)
        for name in ("backup", "restore")
    )
    written = run_as_written(machine, backup)
    assert written.status == 0 and "Keep it as you keep a secret." in written.stdout
    file = machine.folder / "pomni.backup"
    plain = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600

    lines = [
        line for line in page("security.md").commands() if line.startswith(("openssl", "gpg"))
    ]
    for line in lines:
        subprocess.run(line, shell=True, cwd=machine.folder, env=keys, check=True, stderr=-1)
    assert b"PGDMP" not in file.with_suffix(".backup.gpg").read_bytes()
    assert (machine.folder / "restored.backup").read_bytes() == plain

    other = machine.with_variables(DATABASE_URL=empty_dsn)
    assert run_as_written(other, restore).status == 0
    shown = other.run("export", "--user-id", "7", "--markdown")
    assert shown.status == 0 and "I live in Leeds" in shown.stdout
