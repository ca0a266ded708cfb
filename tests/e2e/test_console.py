"""The console as a real process: what goes in, what comes out, and nothing else.

What is said in its dialogues is in ``tests/integration/operate/test_console.py``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from src.texts import say
from tests.e2e.bot_command import Machine, say_to
from tests.fakes.openai_server import FakeOpenAI, Reply
from tests.integration.operate.test_console import FOUND, SOURCES, STORED, says_the_name


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine with nothing but a folder for the embedded PostgreSQL."""
    return Machine(tmp_path, {"DATA_DIR": str(tmp_path / "data")})


async def test_a_bare_machine_remembers_a_name_also_in_new_processes(
    bare_machine: Machine,
) -> None:
    cold = replace(bare_machine, cold=True)
    done = await cold.run_beside("console", stdin="Меня зовут Анна\nКак меня зовут?\n")
    assert (done.status, done.replies[0]) == (0, STORED)
    assert says_the_name(done.replies[1:]), done.replies
    assert "Traceback" not in done.stderr and "Анна" not in done.stderr
    server = bare_machine.folder / "data/postgres/postmaster.pid"
    assert not server.exists(), "the server left"

    # Two consoles share the folder, and the server stays until the last of them has ended.
    first = await bare_machine.start("console")
    assert await say_to(first, "/stop") == say("stop_nothing", "ru")
    second = await bare_machine.start("console", "--user-id", "2")
    boris = say("taught_new", "ru", text="Меня зовут Борис")
    assert await say_to(second, "Меня зовут Борис") == boris
    out, err = await first.communicate("Как меня зовут?".encode())  # no newline at the end
    assert (list(filter(None, out.decode().splitlines())), err) == (done.replies[1:], b"")
    assert await say_to(second, "/stop") == say("stop_nothing", "ru"), "the server is still there"
    out, err = await second.communicate("Как меня зовут?\n".encode())
    assert "Борис" in out.decode() and "Анна" not in out.decode() + err.decode()
    assert (first.returncode, second.returncode) == (0, 0), err.decode()
    assert not server.exists(), "the server left"


def test_json_of_any_user_by_the_clock_of_the_settings_also_after_odd_bytes(
    machine: Machine,
) -> None:
    there = machine.with_variables(TIMEZONE="Pacific/Kiritimati", PYTHONIOENCODING="ascii")
    odd = b"\xff\xfe \x00 \xed\xa0\xbd\n\n   \n\r\n"
    words = "Меня зовут Анна\r\nКак меня зовут?".encode()
    done = there.run("console", "--json", "--user-id", str(2**41), stdin=odd + words)
    assert done.status == 0 and "Traceback" not in done.stderr
    _, stored, found = map(json.loads, done.stdout.splitlines())
    plain = {"sources": [], "intent": None, "mode": "assistant"}
    assert stored == {"reply": STORED, "tools": ["save_user_fact"], **plain}
    assert found["reply"].startswith(f"{FOUND}\n\n• ") and SOURCES not in found["reply"]
    [source] = found["sources"]
    assert source["text"] == "Меня зовут Анна"
    assert datetime.fromisoformat(source["said_at"]).utcoffset() == timedelta(hours=14)


async def test_a_failing_model_is_a_polite_sentence_and_the_next_line_works(
    machine: Machine,
) -> None:
    async with FakeOpenAI() as model:
        model.queue(Reply(status=503, error="внутри"), Reply(status=413), "получилось")
        there = machine.with_variables(LLM_MODEL="openai:fake-model", OPENAI_BASE_URL=model.url)
        done = await there.run_beside("console", stdin="/start\nтайна раз\nтайна два\nтайна три\n")
    assert done.status == 0
    start = [say("start", "ru"), say("start_model", "ru")]  # with a model it says nothing of it
    replies = [say("error_busy", "ru"), say("error_model", "ru"), "получилось"]
    assert done.stdout == "\n".join(["\n\n".join(start), *replies, ""])
    log = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in log] == ["no answer", "no answer"]
    assert log[0]["error"].startswith("ModelUnavailableError: the model is unavailable (HTTP 503")
    assert "тайна" not in done.stderr and "внутри" not in done.stderr


def test_run_without_a_token_says_so_once_and_opens_the_console(machine: Machine) -> None:
    done = machine.run(stdin="Меня зовут Анна\n")
    assert (done.status, done.stdout) == (0, f"{STORED}\n")
    assert done.stderr == "TELEGRAM_BOT_TOKEN is not set, so this is the console.\n"


def test_an_unreachable_database_is_a_plain_sentence(tmp_path: Path) -> None:
    url = "postgresql://u:s3cret-word@127.0.0.1:1/x"
    done = Machine(tmp_path, {"DATABASE_URL": url}).run("console", stdin="привет\n")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("Pomni stopped: ") and "nothing listens" in done.stderr
    assert "Traceback" not in done.stderr and "s3cret-word" not in done.stderr
