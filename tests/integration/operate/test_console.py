"""Dialogues of the console: the lines that go in, the replies that come out."""

from __future__ import annotations

import io
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytz

from src.base.errors import StorageRejectedError
from src.console import Console, ConsoleStreams
from src.texts import say
from tests.conftest import execute
from tests.help_pages import OFFLINE, help_of
from tests.integration.person import Person, Rig

pytestmark = pytest.mark.core(llm_model="offline")

STORED = say("taught_new", "ru", text="Меня зовут Анна")
FOUND = say("offline_quote_one", "ru")
SOURCES = say("sources_title", "ru")
MOSCOW = pytz.timezone("Europe/Moscow")
MOMENT = r"\d\d\.\d\d\.\d{4} \d\d:\d\d"
QUOTED = (FOUND, rf"• {MOMENT}: «Меня зовут Анна» \[1\]")  # an answer that quotes one memory
UNKNOWN, HINT = say("offline_unknown", "ru"), say("offline_note", "ru")


def says_the_name(lines: list[str]) -> bool:
    """Whether these lines of a reply are ``QUOTED`` and nothing else."""
    return len(lines) == len(QUOTED) and all(map(re.fullmatch, QUOTED, lines))


def console_of(person: Person, streams: ConsoleStreams | None, **options: bool) -> Console:
    """A console at which the person sits."""
    return Console(person.core, person.user, language="ru", streams=streams, **options)


async def output_of(person: Person, *lines: str, **options: bool) -> str:
    """What a console that is opened for these lines writes."""
    written = io.StringIO()
    streams = ConsoleStreams(io.StringIO("\n".join(lines)), written)
    await console_of(person, streams, **options).run()
    return written.getvalue()


async def replies_to(person: Person, *lines: str, **options: Any) -> list[str]:
    """Its lines that say something."""
    return [line for line in (await output_of(person, *lines, **options)).splitlines() if line]


async def records_of(person: Person, *lines: str) -> list[dict[str, Any]]:
    """The replies as JSON, each with exactly the documented keys."""
    records = [json.loads(line) for line in await replies_to(person, *lines, as_json=True)]
    for record in records:
        assert list(record) == ["reply", "sources", "tools", "intent", "mode"]
        for source in record["sources"]:
            assert list(source) == ["uid", "text", "said_at"]
    return records


async def test_json_replies_have_exactly_the_documented_keys(person: Person) -> None:
    stored, found, helped = await records_of(person, "Меня зовут Анна", "Как меня зовут?", "/help")
    plain = {"reply": "", "sources": [], "tools": [], "intent": None, "mode": "assistant"}
    assert stored == {**plain, "reply": STORED, "tools": ["save_user_fact"]}
    assert found["reply"].startswith(f"{FOUND}\n\n• ") and SOURCES not in found["reply"]
    assert (found["tools"], found["intent"], found["mode"]) == (
        ["search_memory", "search_memory"], None, "assistant",
    )  # fmt: skip
    [source] = found["sources"]
    [(said,)] = person.rows(
        "SELECT min(m.id) FROM messages m JOIN conversations c ON c.id = m.conversation_id"
        " WHERE c.telegram_user_id = %(user)s"
    )
    assert (source["uid"], source["text"]) == (f"msg-{said}", "Меня зовут Анна")
    said_at = datetime.fromisoformat(source["said_at"])
    assert said_at.utcoffset() == timedelta(hours=3)
    assert timedelta(0) <= datetime.now(UTC) - said_at < timedelta(minutes=2)
    assert helped == {**plain, "reply": help_of("ru", "console", OFFLINE)}


async def test_everything_is_forgotten_after_a_yes_and_nothing_after_all_else(
    person: Person,
) -> None:
    lines = [
        "Меня зовут Анна", "Забудь всё", "нет", "Забудь всё", "Спасибо", "да",
        "Забудь, как меня зовут", "/undo", "Забудь всё", "да", "Как меня зовут?", "/undo",
    ]  # fmt: skip
    ask = say("erase_ask", "ru")
    assert await replies_to(person, *lines) == [
        STORED, ask, say("erase_kept", "ru"), ask, say("offline_thanks", "ru"),
        say("offline_agreement", "ru"),  # a yes to nothing
        say("forgot", "ru", text="Меня зовут Анна"), say("console_undo_forgot", "ru"),
        say("undo_forgot_done", "ru", restored="Меня зовут Анна"),
        ask, say("erase_done", "ru"), UNKNOWN, HINT, say("undo_nothing", "ru"),
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "koi8-r"])
async def test_odd_bytes_and_empty_lines_do_not_stop_it(
    person: Person, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    odd = b"\xff\xfe \x00 \xed\xa0\xbd\n\n   \n\r\n"
    source = io.BytesIO(odd + "Меня зовут Анна\r\nКак меня зовут?".encode())
    target = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source, encoding, errors="strict"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(target, encoding, errors="strict"))
    await console_of(person, None).run()
    replies = [line for line in target.getvalue().decode().splitlines() if line]
    assert len(replies) == 5 and replies[1:3] == [HINT, STORED]
    assert says_the_name(replies[3:])


async def test_reminders_are_set_and_listed_but_delivered_elsewhere(person: Person) -> None:
    first, said, zone, second, *listed = await replies_to(
        person, "напомни завтра в 9 позвонить маме", "/remind послезавтра в 10 чай", "/reminders"
    )
    assert zone.startswith("🕒 ") and "Москва" in zone, "the first one tells by which clock"
    assert zone.endswith(say("console_zone", "ru"))
    assert re.fullmatch(r"⏰ Напомню завтра, .+, в 09:00: позвонить маме", first)
    assert re.fullmatch(r"⏰ Напомню .+, в 10:00: чай", second)
    assert said == say("console_reminder", "ru"), "and is said once"
    assert listed[0] == say("reminders_title", "ru", count=2)
    assert ("1. позвонить маме" in listed, "2. чай" in listed) == (True, True)


async def test_without_buttons_everything_is_erased_in_the_words_that_it_names(
    person: Person,
) -> None:
    person.core.user_settings.change(person.user, language="uk")
    asked = await replies_to(person, "/delete_me", "забудь усе про мене", "так")
    assert asked[0] == say("console_delete", "uk") and "забудь усе про мене" in asked[0]
    assert asked[-1] == say("erase_done", "uk")


async def test_the_files_of_an_export_are_where_it_says(person: Person, tmp_path: Path) -> None:
    written = io.StringIO()
    streams = ConsoleStreams(io.StringIO("/export"), written)
    await Console(person.core, person.user, streams=streams, folder=tmp_path).run()
    paths = [Path(line) for line in written.getvalue().splitlines() if line.startswith("/")]
    assert len(paths) == 2 and all(path.is_file() and path.is_absolute() for path in paths)


@pytest.mark.own_database
async def test_a_command_that_fails_is_told_and_ends_nothing(rig: Rig) -> None:
    execute(rig.client.dsn, "ALTER TABLE model_usage RENAME TO lost")
    failed, fine = await records_of(Person(rig), "/usage", "/help")
    assert failed["reply"] == say(StorageRejectedError.text_key, "ru")
    assert fine["reply"] == help_of("ru", "console", OFFLINE)


async def test_a_fact_is_replaced_brought_back_and_forgotten(person: Person) -> None:
    anna, olga = "Меня зовут Анна", "Меня зовут Ольга"
    lines = (anna, anna, olga, "Замени", "/undo", "Забудь, как меня зовут", "Как меня зовут?")
    noted = "налог за дачу до 3 мая"
    assert await replies_to(person, f"/remember {noted}", "/undo", *lines) == [
        say("taught_new", "ru", text=noted), say("undo_saved_done", "ru", text=noted),
        say("taught_new", "ru", text=anna), say("taught_same", "ru", text=anna),
        say("taught_asked", "ru", text=olga),
        say("conflict_important", "ru", old=anna, new=olga), say("conflict_ask", "ru"),
        *say("taught_update", "ru", text=olga, old=anna).splitlines(),
        say("console_undo_replaced", "ru"),
        say("undo_done", "ru", text=olga, restored=anna), say("forgot", "ru", text=anna),
        say("console_undo_forgot", "ru"), UNKNOWN,
    ]  # fmt: skip


async def test_sources_stand_below_an_answer_that_does_not_quote_them(person: Person) -> None:
    learned, asked = "My name is Anna", "What is my name?"
    *_, answer, title, source = await replies_to(person, "/mode strict", learned, asked)
    assert (answer, title) == (f"{learned} [1]", say("sources_title", "en"))
    assert re.fullmatch(rf"\[1\] {MOMENT}: “{learned}”", source)
