"""``doctor``, ``migrate`` and the command line, as real processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bot import COMMANDS
from src.pg.migrations import find_version, newest_version
from tests.conftest import execute
from tests.e2e.bot_command import Finished, Machine
from tests.fakes.openai_server import FakeOpenAI, Reply, call_text
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.old_schema import build_old_database

SUBJECTS = [
    "database", "schema", "jobs", "queue", "clock", "telegram", "model", "embeddings", "time zone",
]  # fmt: skip


def to_mend(done: Finished) -> dict[str, str]:
    """The lines of the table that ask for something, by subject."""
    lines = [line for line in done.stdout.splitlines() if " MEND: " in line]
    assert all(" MEND: " in line or line.endswith(" OK") for line in done.stdout.splitlines())
    return {line[:12].strip(): line for line in lines}


def test_doctor_prints_a_table_and_finds_nothing_on_a_good_machine(machine: Machine) -> None:
    done = machine.run("doctor")
    assert (done.status, done.stderr) == (0, "")
    assert [line[:12].strip() for line in done.stdout.splitlines()] == SUBJECTS
    assert to_mend(done) == {}
    assert f"version {newest_version()}, the newest" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith("embeddings")]
    assert re.search(r" local, 384 dimensions, \d+ ms a query\b.*OK$", line), line


def test_the_last_old_schema_is_no_fault_since_the_next_start_takes_it_over(
    empty_dsn: str, tmp_path: Path
) -> None:
    build_old_database(empty_dsn)
    machine = Machine(tmp_path, {"DATABASE_URL": empty_dsn})
    done = machine.run("doctor")
    assert (done.status, to_mend(done)) == (0, {})
    assert f"version 0125; the next start makes it {newest_version()}" in done.stdout
    done = machine.run("migrate")
    told = f"The database was at 0125 and is at {newest_version()}.\n"
    assert (done.status, done.stdout) == (0, told)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("0012", "newest file in migrations/versions is 0125_confidence_and_entities.py once"),
        ("a1b2c3d4e5f6", "give Pomni a database of its own"),
    ],
)
def test_a_schema_that_cannot_be_migrated_is_a_fault_and_no_command_starts(
    dsn: str, tmp_path: Path, version: str, told: str
) -> None:
    execute(dsn, f"UPDATE alembic_version SET version_num = '{version}'")
    machine = Machine(tmp_path, {"DATABASE_URL": dsn})
    done = machine.run("doctor")
    assert done.status == 1
    assert told in to_mend(done)["schema"]
    for command in ("migrate", "console"):
        done = machine.run(command)
        assert (done.status, done.stdout) == (2, "")
        assert told in done.stderr and done.stderr.count("\n") == 1


def test_doctor_names_an_unreachable_database_and_checks_the_rest(tmp_path: Path) -> None:
    url = "postgresql://u:s3cret-word@127.0.0.1:1/x"
    done = Machine(tmp_path, {"DATABASE_URL": url}).run("doctor")
    assert done.status == 1 and list(to_mend(done)) == ["database"]
    assert "DATABASE_URL" in done.stdout and "time zone" in done.stdout
    assert "s3cret-word" not in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_doctor_tells_a_program_in_json_what_it_tells_people(machine: Machine, dsn: str) -> None:
    execute(
        dsn,
        "INSERT INTO telegram_updates (bot_id, update_id, kind, payload, chat_id, received_at)"
        " VALUES (1, 1, 'message', '{}', 5, now() - interval '2 minutes')",
    )
    done = machine.run("doctor", "--json")
    report = json.loads(done.stdout)
    findings = {finding["subject"]: finding for finding in report["findings"]}
    assert (done.status, report["ok"], list(findings)) == (1, False, SUBJECTS)
    assert findings["queue"]["state"].startswith("1 wait, the oldest for 12")
    assert "start the bot" in findings["queue"]["mend"]
    assert findings["database"]["mend"] is None


async def test_doctor_knows_the_bot_by_its_token(machine: Machine) -> None:
    async with FakeTelegram() as telegram:
        there = machine.with_variables(TELEGRAM_API_BASE=telegram.url)
        right = await there.with_variables(TELEGRAM_BOT_TOKEN=telegram.token).run_beside("doctor")
        wrong = await there.with_variables(TELEGRAM_BOT_TOKEN="42:WRONG").run_beside("doctor")
    assert right.status == 0 and "@pomni_test_bot (42)" in right.stdout
    assert wrong.status == 1 and "@BotFather" in to_mend(wrong)["telegram"]
    assert "42:WRONG" not in wrong.stdout + wrong.stderr
    gone = await there.with_variables(TELEGRAM_BOT_TOKEN="42:TEST").run_beside("doctor")
    assert gone.status == 1 and "TELEGRAM_API_BASE" in to_mend(gone)["telegram"]
    assert "Traceback" not in wrong.stderr + gone.stderr


async def test_doctor_says_how_fast_the_model_reads_and_writes_and_that_it_calls_tools(
    machine: Machine,
) -> None:
    async with FakeOpenAI() as model:
        there = machine.with_variables(LLM_MODEL="openai:x", OPENAI_BASE_URL=model.url)
        call = call_text("note_words", words="one two three")
        model.queue(Reply(text=call, delay=0.5, chunk_delay=0.05, prompt_tokens=500))
        done = await there.run_beside("doctor")
        [request] = model.requests
    told = re.search(r": (\d+) tokens a second read, (\d+) written, calls tools", done.stdout)
    assert done.status == 0 and told is not None, done.stdout
    assert 1 <= int(told[1]) <= 1000 and 1 <= int(told[2]) <= 100
    assert [tool["function"]["name"] for tool in request.tools] == ["note_words"]


async def test_doctor_says_that_a_model_fills_in_forms(
    machine: Machine,
) -> None:
    async with FakeOpenAI() as model:
        there = machine.with_variables(LLM_MODEL="openai:x", OPENAI_BASE_URL=model.url)
        slow = Reply(text="I cannot.", delay=1, prompt_tokens=50, completion_tokens=3)
        model.queue(slow, '{"words": ["one", "two"]}', slow, "one, two")
        forms = await there.run_beside("doctor")
        neither = await there.run_beside("doctor")
        asked = [request.form for request in model.requests]
    assert asked == ["", "NumbersForm"] * 2
    assert forms.status == 0 and "but fills in forms" in forms.stdout
    assert "neither calls tools nor fills in forms" in neither.stdout


async def test_doctor_asks_the_endpoint_of_the_embeddings(machine: Machine) -> None:
    async with FakeOpenAI(api_key="sk-right-key") as model:
        done = await machine.with_variables(
            EMBEDDING_MODEL="openai:fake-embeddings",
            LLM_MODEL="offline",
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="sk-right-key",
        ).run_beside("doctor")
        assert model.request_count == 0 and model.embedding_requests
    assert done.status == 0 and "-key" not in done.stdout + done.stderr
    assert f"openai:fake-embeddings, {model.embedding_dimension} dimensions, " in done.stdout


def test_doctor_without_a_token_and_without_the_console_asks_for_one(machine: Machine) -> None:
    done = machine.with_variables(CONSOLE_FALLBACK="false").run("doctor")
    assert done.status == 1 and "TELEGRAM_BOT_TOKEN" in to_mend(done)["telegram"]


def test_bad_settings_are_all_named_at_once(machine: Machine) -> None:
    there = machine.with_variables(
        PG_POOL_MAX="x", TIMEZONE="Mars", TELEGRAM_BOT_TOKEN="TOPSECRET"
    )
    for command in ("run", "doctor"):
        done = there.run(command)
        assert (done.status, done.stdout) == (2, "")
        assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
            "TELEGRAM_BOT_TOKEN",
            "PG_POOL_MAX",
            "TIMEZONE",
        ]
        assert "TOPSECRET" not in done.stderr


def test_a_name_that_looks_like_a_setting_is_refused_or_shown(machine: Machine) -> None:
    file = machine.folder / ".env"
    file.write_text("ALLOWED_USERS=1001\nOPENAI_KEY=TOPSECRET\n")
    done = machine.run("console", stdin="привет\n")
    assert (done.status, done.stdout) == (2, "")
    refused, beside = done.stderr.splitlines()
    assert refused.startswith("ALLOWED_USERS: no setting has this name, so every")
    assert "ALLOWED_USER_IDS was probably meant" in refused and beside.startswith("OPENAI_KEY: ")
    file.write_text("OPENAI_KEY=TOPSECRET\nSYSTEM_PROMPT=TOPSECRET\n")
    checked = machine.run("doctor")
    assert (checked.status, checked.stderr) == (1, "")
    assert "OPENAI_API_KEY was probably meant" in to_mend(checked)["settings"]
    assert "does not read: SYSTEM_PROMPT" in checked.stdout
    assert "TOPSECRET" not in done.stderr + checked.stdout


def test_migrate_says_from_where_to_where(empty_dsn: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"DATABASE_URL": empty_dsn})
    newest = newest_version()
    doctor = machine.run("doctor")
    assert doctor.status == 0, "an empty database is no fault"
    assert f"version none; the next start makes it {newest}" in doctor.stdout
    first = machine.run("migrate")
    assert first.status == 0
    assert first.stdout == f"The database was at nothing and is at {newest}.\n"
    assert find_version(empty_dsn) == newest
    again = machine.run("migrate")
    assert again.stdout == f"The database was at {newest} and is at {newest}.\n"
    assert again.stderr == ""


def test_the_command_line_explains_itself(machine: Machine) -> None:
    done = machine.run("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f"    {command} " in done.stdout
    assert "--user-id" in machine.run("console", "--help").stdout
    unknown = machine.run("launch")
    assert unknown.status == 2 and "launch" in unknown.stderr
    assert "Traceback" not in machine.run("console", "--user-id", "x").stderr
    for command, argument in (("erase", "--user-id"), ("eval", "file")):
        missing = machine.run(command)
        assert missing.status == 2 and argument in missing.stderr
