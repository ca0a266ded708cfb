"""The console as a real process: what goes in, what comes out, and nothing else."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from src.texts import Language, say
from tests.e2e.bot_command import Machine, say_to
from tests.fakes.openai_server import FakeOpenAI, Reply

STORED = f"{say('offline_stored', 'ru')} {say('offline_note', 'ru')}"
FOUND = say("offline_quote_one", "ru")
UNKNOWN = f"{say('offline_unknown', 'ru')} {say('offline_note', 'ru')}"


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    """A machine whose database is the tests' own server."""
    return Machine(tmp_path, {"DATABASE_URL": dsn})


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine with nothing but a folder for the embedded PostgreSQL."""
    return Machine(tmp_path, {"DATA_DIR": str(tmp_path / "data")})


def test_a_bare_machine_remembers_a_name_also_in_a_new_process(bare_machine: Machine) -> None:
    first = bare_machine.run("console", stdin="Меня зовут Анна\nКак меня зовут?\n")
    assert (first.status, first.replies[:2]) == (0, [STORED, FOUND])
    assert first.replies[2].endswith(": «Меня зовут Анна»") and len(first.replies) == 3
    assert "Traceback" not in first.stderr and "Анна" not in first.stderr

    second = bare_machine.run("console", stdin="Как меня зовут?")
    assert (second.status, second.replies) == (0, first.replies[1:]), "no newline at the end"
    assert second.stderr == ""
    assert not (bare_machine.folder / "data/postgres/postmaster.pid").exists(), "the server left"


async def test_two_consoles_share_one_data_folder(bare_machine: Machine) -> None:
    first = await bare_machine.start("console")
    assert await say_to(first, "Меня зовут Анна") == STORED
    second = await bare_machine.start("console", "--user-id", "2")
    assert await say_to(second, "Меня зовут Борис") == STORED
    out, err = await first.communicate("Как меня зовут?".encode())
    assert "Анна" in out.decode() and "Борис" not in out.decode() + err.decode()
    assert await say_to(second, "/stop") == say("stop_nothing", "ru"), "the server is still there"
    out, err = await second.communicate("Как меня зовут?\n".encode())
    assert "Борис" in out.decode() and "Анна" not in out.decode() + err.decode()
    assert (first.returncode, second.returncode) == (0, 0)


def test_json_replies_have_exactly_the_documented_keys(machine: Machine) -> None:
    stdin = "Меня зовут Анна\nКак меня зовут?\n/help\n"
    done = machine.run("console", "--json", stdin=stdin)
    stored, found, helped = [json.loads(line) for line in done.stdout.splitlines()]
    plain = {"reply": STORED, "sources": [], "tools": [], "intent": None, "mode": "assistant"}
    assert list(stored.items()) == list(plain.items())
    assert found["tools"] == ["search_messages"] and found["reply"].startswith(f"{FOUND}\n\n• ")
    assert helped == {**plain, "reply": say("help", "ru")}


def test_every_user_id_is_a_user_of_its_own(machine: Machine) -> None:
    huge = str(2**41)
    assert machine.run("console", "--user-id", huge, stdin="Меня зовут Анна").status == 0
    question = "Как меня зовут?\n"
    assert machine.run("console", stdin=question).replies == [UNKNOWN]
    assert FOUND in machine.run("console", "--user-id", huge, stdin=question).replies


def test_new_forgets_and_the_next_message_starts_afresh(machine: Machine) -> None:
    stdin = "Меня зовут Анна\n/new\nКак меня зовут?\n/launch\n"
    done = machine.run("console", stdin=stdin)
    assert done.replies == [STORED, say("new_done", "ru"), UNKNOWN, say("unknown_command", "ru")]


def test_the_reply_is_in_the_language_of_the_message(machine: Machine) -> None:
    done = machine.run("console", stdin="/stop\nMy name is Ann\n/stop\nМене звати Олена\n/stop\n")
    languages: list[Language] = ["ru", "en", "uk"]
    assert done.replies[::2] == [say("stop_nothing", language) for language in languages]
    assert done.replies[1::2] == [
        f"{say('offline_stored', language)} {say('offline_note', language)}"
        for language in languages[1:]
    ]


def test_the_time_zone_of_the_settings_counts(machine: Machine) -> None:
    machine.run("console", stdin="Меня зовут Анна")
    shown = {}
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):  # UTC+14 and UTC-11: never one day
        there = machine.with_variables(TIMEZONE=zone)
        quote = there.run("console", stdin="Как меня зовут?").replies[-1]
        shown[zone] = datetime.strptime(quote[2:18], "%d.%m.%Y %H:%M")  # noqa: DTZ007
    difference = shown["Pacific/Kiritimati"] - shown["Pacific/Niue"]
    assert difference.total_seconds() == 25 * 3600


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii", "koi8-r"])
def test_odd_bytes_and_empty_lines_do_not_stop_it(machine: Machine, encoding: str) -> None:
    odd = b"\xff\xfe \x00 \xed\xa0\xbd\n\n   \n\r\n"
    words = "Меня зовут Анна\r\nКак меня зовут?".encode()
    done = machine.with_variables(PYTHONIOENCODING=encoding).run("console", stdin=odd + words)
    assert (done.status, len(done.replies)) == (0, 4) and "Traceback" not in done.stderr
    assert done.replies[1:3] == [STORED, FOUND]
    assert done.replies[3].endswith("«Меня зовут Анна»")


def test_no_input_is_no_output(machine: Machine) -> None:
    done = machine.run("console")
    assert (done.status, done.stdout, done.stderr) == (0, "", "")


async def test_a_failing_model_is_a_polite_sentence_and_the_next_line_works(
    machine: Machine,
) -> None:
    async with FakeOpenAI() as model:
        model.queue(Reply(status=503, error="внутри"), Reply(status=400), "получилось")
        there = machine.with_variables(LLM_MODEL="openai:fake-model", OPENAI_BASE_URL=model.url)
        done = await there.run_beside("console", stdin="тайна раз\nтайна два\nтайна три\n")
    assert done.status == 0
    assert done.replies == [say("error_busy", "ru"), say("error_model", "ru"), "получилось"]
    log = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in log] == ["no answer", "no answer"]
    assert log[0]["error"].startswith("ModelUnavailableError: the model is unavailable (HTTP 503")
    assert "тайна" not in done.stderr and "внутри" not in done.stderr


def test_run_without_a_token_says_so_once_and_opens_the_console(machine: Machine) -> None:
    for arguments in (["run"], []):
        done = machine.run(*arguments, stdin="Меня зовут Анна\n")
        assert (done.status, done.replies) == (0, [STORED])
        assert done.stderr == "TELEGRAM_BOT_TOKEN is not set, so this is the console.\n"


def test_without_the_console_a_missing_token_is_an_error_that_says_how_to_get_one(
    machine: Machine,
) -> None:
    done = machine.with_variables(CONSOLE_FALLBACK="false").run("run", stdin="привет\n")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("TELEGRAM_BOT_TOKEN: ") and "@BotFather" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unreachable_database_is_a_plain_sentence(tmp_path: Path) -> None:
    url = "postgresql://u:s3cret-word@127.0.0.1:1/x"
    done = Machine(tmp_path, {"DATABASE_URL": url}).run("console", stdin="привет\n")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("Pomni stopped: ") and "127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr and "s3cret-word" not in done.stderr


def test_the_console_reads_the_env_file_of_its_folder(machine: Machine) -> None:
    (machine.folder / ".env").write_text("LLM_MODEL=nonsense\nTIMEZONE=Mars\n")
    done = machine.run("console", stdin="привет\n")
    assert (done.status, done.stdout) == (2, "")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "LLM_MODEL",
        "TIMEZONE",
    ]
