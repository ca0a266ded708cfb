"""/import in Telegram and in the page: files, lists, the growing progress, large files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiogram import Bot

from src.imports.service import ImportTasks
from src.pg.client import PgClient
from src.telegram.delivery import Delivery
from src.telegram.handlers import ImportProgress
from src.texts import say
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.imports.bringing import Bringer, chat, with_memories
from tests.integration.person import Agents, Person, new_user
from tests.integration.phone import USER, Phone, buttons, never, open_phone
from tests.integration.web_page import open_page

EXPORT = json.dumps([chat("c1", "Моего кота зовут Барсик"), {"title": "Сломанная"}]).encode()


@pytest.fixture
async def phone(client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot) -> Phone:
    opened = await open_phone(agents, fake, bot, llm_model="offline")
    opened.fake.state.files |= {"export": EXPORT, "rent": "Срок аренды — до мая".encode()}
    return opened


def document(file_id: str = "export", **fields: Any) -> dict[str, Any]:
    file = {"file_id": file_id, "file_unique_id": "d", "file_name": "conversations.json"}
    return {"document": {**file, **fields}}


async def store(phone: Phone) -> None:
    progress = ImportProgress(phone.rig.core, Delivery(phone.bot, never))
    await ImportTasks(phone.rig.client, phone.rig.core.imports, progress.show).run_all()


async def test_a_file_after_the_command_is_stored_and_its_progress_is_edited(
    phone: Phone,
) -> None:
    await phone.write("/import")
    assert phone.last.text == say("import_usage", "ru")
    await phone.fake.send_message(USER, **document())
    assert await phone.work() == ["explained"]
    summary = phone.last
    assert "ChatGPT" in summary.text and "• Сломанная" in summary.text
    await phone.tap(say("import_search", "ru"))
    assert phone.last.message_id == summary.message_id
    assert phone.last.text == say("import_storing", "ru", name="ChatGPT", done="0", total="1")
    await store(phone)
    done = say("import_done", "ru", name="ChatGPT", count="1")
    assert (phone.last.message_id, phone.last.text) == (summary.message_id, done)
    await phone.write("/search Барсик")
    assert "из ChatGPT: «Моего кота зовут Барсик»" in phone.last.text
    [[(_, data)]] = buttons(phone.last)
    await phone.press(data)
    assert "из ChatGPT" in phone.last.text
    await phone.write("/import undo")
    await store(phone)
    assert phone.last.text == say("import_undone", "ru", name="ChatGPT")
    await phone.write("/search Барсик")
    assert phone.last.text == say("search_nothing", "ru")


@pytest.mark.parametrize("way", ["caption", "reply to a file", "reply to the question"])
async def test_other_ways_to_bring_a_file(phone: Phone, way: str) -> None:
    if way == "caption":
        await phone.fake.send_message(USER, **document(), caption="/import")
    elif way == "reply to a file":
        sent = await phone.fake.send_message(USER, **document())
        await phone.work()
        await phone.fake.send_text(USER, "/import", reply_to=sent)
    else:
        await phone.write("/import")
        asked = phone.last.message_id
        await phone.write("Как дела?")
        await phone.fake.send_message(USER, **document(), reply_to=asked)
    await phone.work()
    assert "ChatGPT" in phone.last.text and buttons(phone.last)


async def test_a_list_after_the_command_is_shown_and_other_words_are_answered(
    phone: Phone,
) -> None:
    await phone.write("/import")
    await phone.write("Вы живёте в Киеве.\n\nВы любите чай.")
    assert "• Вы любите чай." in phone.last.text
    await phone.tap(say("import_cancel", "ru"))
    await phone.write("/import")
    await phone.write("- Живёт в Киеве\n- Любит чай")
    assert "• Любит чай" in phone.last.text
    await phone.tap(say("import_keep", "ru", count=2))
    await store(phone)
    assert phone.facts() == ["Живёт в Киеве", "Любит чай"]
    await phone.write("/import")
    await phone.write("Как дела?")
    assert not buttons(phone.last)


async def test_a_list_that_telegram_cuts_in_two_is_one(phone: Phone) -> None:
    await phone.write("/import")
    entries = [f"- Помнит песню номер {number}: {'ля ' * 60}" for number in range(22)]
    await phone.fake.send_text(USER, "\n".join(entries[:20]))
    await phone.fake.send_text(USER, "\n".join(entries[20:]))
    assert await phone.work() == ["explained", "explained"]
    [keep] = [label for row in buttons(phone.last) for label, _ in row if "22" in label]
    await phone.tap(keep)
    await store(phone)
    assert len(phone.facts()) == 22
    await phone.write("- хлеб\n- соль")
    assert not buttons(phone.last)


async def test_the_buttons_of_memories_outlive_the_progress(phone: Phone) -> None:
    told = [with_memories(chat("c1", "Привет"), "User likes tea.")]
    phone.fake.state.files["export"] = json.dumps(told).encode()
    await phone.fake.send_message(USER, **document(), caption="/import")
    await phone.work()
    await phone.tap(say("import_search", "ru"))
    await store(phone)
    assert phone.last.text.startswith(say("import_done", "ru", name="ChatGPT", count="1"))
    await phone.tap(say("import_keep", "ru", count=1))
    await store(phone)
    assert phone.facts() == ["User likes tea."]


async def test_a_large_file_is_refused_with_the_ways(phone: Phone) -> None:
    await phone.fake.send_message(USER, **document(file_size=21 << 20), caption="/import")
    await phone.work()
    assert phone.last.text == say("import_large", "ru") and "bot.py import" in phone.last.text


@pytest.mark.parametrize(("file_id", "key"), [
    ("rent", "import_nothing"), ("gone", "error_document_broken"),
])  # fmt: skip
async def test_what_cannot_be_imported_gets_a_sentence(
    phone: Phone, file_id: str, key: str
) -> None:
    await phone.fake.send_message(USER, **document(file_id), caption="/import")
    await phone.work()
    keys = {key, "import_unknown"}
    assert phone.last.text in {say(one, "ru") for one in keys}


async def test_the_page_takes_an_upload(person: Person) -> None:
    async with open_page(person.rig, person.user) as page:
        response = await page.http.put(
            "/api/import?name=conversations.json", headers=page.headers, content=EXPORT
        )
        reply = response.json()
        assert response.status_code == 200 and "ChatGPT" in reply["text"]
        [action] = [
            button["action"] for button in reply["buttons"]
            if button["label"] == say("import_search", "ru")
        ]  # fmt: skip
        chosen = await page.ask("buttons", {"action": action})
        assert chosen["text"] == say("import_storing", "ru", name="ChatGPT", done="0", total="1")
        number = action.split(":")[1]
        assert (await page.ask(f"imports/{number}"))["goes_on"]
        await Bringer(person).work()
        over = await page.ask(f"imports/{number}")
        assert over["text"] == say("import_done", "ru", name="ChatGPT", count="1")
        assert not over["goes_on"]
        foreign = await page.of(new_user()).ask(f"imports/{number}")
        assert foreign == {"text": "", "goes_on": False}
        refused = await page.http.put("/api/import", headers=page.headers, content=b"\x89PNG")
        assert refused.json()["text"] == say("import_unknown", "ru")
