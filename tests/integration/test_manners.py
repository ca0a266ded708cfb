"""Manners: groups, greetings, deep links, reactions, limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from aiogram import Bot

from src.pg.client import PgClient
from src.telegram.setup import configure_telegram
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender, user
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Agents
from tests.integration.phone import STRANGER, USER, Phone, buttons, open_phone

GROUP = -1_001_234_567_893
IN_GROUP = Sender(chat_id=GROUP, chat_type="supergroup")
CITY = "Я живу в городе Киев"


@pytest.fixture
async def phone(client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot) -> Phone:
    return await open_phone(agents, fake, bot)


# Groups


@pytest.mark.parametrize(("text", "asked"), [
    ("Помни, который час?", "который час?"), ("помни: кто дежурит?", "кто дежурит?"),
    ("ПОМНИ! тише", "тише"), ("Pomni, are you here?", "are you here?"),
    ("@pomni_test_bot что нового", "что нового"),
])  # fmt: skip
async def test_in_a_group_it_answers_to_its_name(phone: Phone, text: str, asked: str) -> None:
    phone.place = IN_GROUP
    await phone.write(text)
    assert phone.last.text.endswith(asked)
    assert phone.rig.rows("SELECT message_text(content) FROM messages WHERE role = 'user'") == [
        (asked,)
    ]


@pytest.mark.parametrize("text", [
    "Помни о хлебе", "Всегда помни, что завтра дождь", "Напомни, кто придёт", "Привет всем",
])  # fmt: skip
async def test_what_only_sounds_like_its_name_is_not_for_it(phone: Phone, text: str) -> None:
    phone.place = IN_GROUP
    await phone.write(text)
    assert phone.fake.sent_to(GROUP) == [] and phone.rig.rows("SELECT 1 FROM messages") == []


async def join(phone: Phone, old: str, new: str, language: Language = "ru") -> None:
    change = {
        "chat": {"id": GROUP, "type": "supergroup", "title": "Дача"},
        "from": user(USER, language_code=language), "date": 1,
        "old_chat_member": member(old), "new_chat_member": member(new),
    }  # fmt: skip
    number = phone.fake.queue.next_update_id + 5000
    await phone.fake.push_raw({"update_id": number, "my_chat_member": change})
    await phone.work()


def member(status: str) -> dict[str, object]:
    bot = {"id": 42, "is_bot": True, "first_name": "Помни"}
    until = {"until_date": 0} if status == "kicked" else {}
    return {"status": status, "user": bot, **until}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_group_is_told_how_to_talk_to_it_and_what_it_sees(
    phone: Phone, language: Language
) -> None:
    await join(phone, "left", "member", language)
    [hello] = phone.fake.sent_to(GROUP)
    expected = say("group_hello", language, name="Помни", username="pomni_test_bot")
    assert hello.text == f"{expected}\n\n{say('group_sees_some', language)}"
    assert len(phone.fake.sent_to(GROUP)) == 1


async def test_after_a_removal_and_a_return_everything_is_there(phone: Phone) -> None:
    phone.place = IN_GROUP
    await phone.write("/remember Ключ под ковриком")
    await join(phone, "member", "left")
    [(inactive,)] = phone.rig.rows("SELECT inactive_since IS NOT NULL FROM user_settings")
    assert inactive
    await join(phone, "left", "member")
    await phone.write("/memory")
    assert "Ключ под ковриком" in phone.last.text


# Greetings


@pytest.mark.parametrize("language", LANGUAGES)
async def test_start_says_what_it_does_keeps_and_forgets(phone: Phone, language: Language) -> None:
    await phone.fake.send_text(USER, "/start", language_code=language)
    await phone.work()
    told = [say(key, language) for key in ("start", "start_model", "zone_start")]
    assert phone.last.text == "\n\n".join(told)
    assert all(command in phone.last.text for command in ("/memory", "/privacy", "/delete_me"))


@pytest.mark.parametrize(("payload", "key"), [
    ("settings", "settings_title"), ("memory", "memory_empty"), ("ref_12345", "start"),
    ("delete_me", "start"),
])  # fmt: skip
async def test_a_deep_link_opens_a_page_and_nothing_that_acts(
    phone: Phone, payload: str, key: str
) -> None:
    await phone.write(f"/start {payload}")
    assert phone.last.text.startswith(say(key, "ru"))


async def test_the_menu_is_made_for_each_language_and_kind_of_chat(phone: Phone) -> None:
    await configure_telegram(phone.bot, phone.rig.core.settings)
    menus = [call.params for call in phone.fake.calls_of("setMyCommands")]
    assert len(menus) == 3 * len(LANGUAGES)
    for menu in menus:
        names = {entry["command"] for entry in menu["commands"]}
        scope = (menu.get("scope") or {}).get("type")
        assert ("delete_me" in names) == (scope is None) and "memory" in names
        assert ("settings" in names) == (scope != "all_group_chats")
        assert "app" not in names, "there is no page"


# A dislike


async def answered_from_memory(phone: Phone) -> int:
    await phone.remember("Киев")
    phone.rig.core.conversations.create_new_conversation(USER)
    phone.rig.model.queue("Вы живёте в Киеве [1].")
    await phone.write("В каком городе я живу?")
    return phone.last.message_id


async def test_a_dislike_offers_to_forget_what_was_used(phone: Phone) -> None:
    answer = await answered_from_memory(phone)
    await phone.fake.react(USER, answer, "👎")
    assert await phone.work() == ["done"]
    assert phone.last.text.startswith(say("disliked", "ru")) and CITY in phone.last.text
    await phone.press(buttons(phone.last)[0][0][1])
    assert phone.facts() == []


async def test_other_reactions_and_other_messages_are_left_alone(phone: Phone) -> None:
    answer = await answered_from_memory(phone)
    before = len(phone.fake.sent_to(USER))
    await phone.fake.react(USER, answer, "👍")
    await phone.fake.react(USER, answer, None)
    assert await phone.work() == []
    phone.rig.model.queue("Не знаю.")
    await phone.write("Какая погода на Марсе?")
    await phone.fake.react(USER, phone.last.message_id, "👎")
    assert await phone.work() == ["done"]
    assert phone.last.text == say("wish_which", "ru"), "it cited nothing"
    await phone.fake.send_text(STRANGER, "/help")
    await phone.work()
    forged = {"chat": {"id": STRANGER, "type": "private"}, "message_id": answer, "date": 1,
              "user": user(STRANGER), "old_reaction": [],
              "new_reaction": [{"type": "emoji", "emoji": "👎"}]}  # fmt: skip
    await phone.fake.push_raw({"update_id": 9900, "message_reaction": forged})
    assert await phone.work() == ["ignored"]
    assert len(phone.fake.sent_to(USER)) == before + 2 and phone.facts() == [CITY]


# Limits


async def test_who_writes_too_fast_is_told_when_it_goes_on(phone: Phone) -> None:
    phone.rig.set(messages_per_minute_per_user=2)
    for text in ("раз", "два"):
        await phone.write(text)
    await phone.write("три")
    until = datetime.now(UTC) + timedelta(hours=3, minutes=1)
    told = phone.last.text
    assert told.startswith(say("limit_minute", "ru", time="").split("{")[0][:40])
    assert f"{until:%H:}" in told or f"{until - timedelta(minutes=1):%H:}" in told
    assert len(phone.rig.model.requests) == 2
    phone.rig.client.execute("UPDATE messages SET created_at = created_at - interval '2 minutes'")
    await phone.write("четыре")
    assert phone.last.text.startswith("эхо: ") and len(phone.rig.model.requests) == 3


async def test_a_burst_that_is_answered_together_counts_once(phone: Phone) -> None:
    phone.rig.set(messages_per_minute_per_user=2)
    for number in range(10):
        await phone.fake.send_text(USER, f"часть {number}")
    assert (await phone.work())[-1] == "done" and len(phone.rig.model.requests) == 1
    await phone.write("ещё")
    assert len(phone.rig.model.requests) == 2


@pytest.mark.parametrize("language", LANGUAGES)
async def test_usage_tells_what_was_spent_and_what_is_left(
    phone: Phone, language: Language
) -> None:
    await phone.fake.send_text(USER, "/usage", language_code=language)
    await phone.work()
    assert say("usage_unlimited", language) in phone.last.text
    phone.rig.set(daily_messages_per_user=5, daily_tokens_per_user=100_000)
    await phone.write("раз")
    await phone.fake.send_text(USER, "/usage", language_code=language)
    await phone.work()
    assert say("usage_messages", language, count=1, limit=5) in phone.last.text
    [(tokens,)] = phone.rig.rows("SELECT sum(prompt_tokens + completion_tokens) FROM model_usage")
    assert say("usage_tokens", language, count=f"{tokens:,}".replace(",", "\u202f")) in (
        phone.last.text
    )


async def test_one_sees_only_one_s_own_usage(phone: Phone) -> None:
    await phone.write("раз")
    await phone.fake.send_text(STRANGER, "/usage")
    await phone.work()
    assert say("usage_tokens", "ru", count=0) in phone.fake.sent_to(STRANGER)[-1].text


async def test_a_reply_in_a_group_names_who_speaks(phone: Phone) -> None:
    phone.place = IN_GROUP
    phone.rig.model.queue(Reply(text="Хорошо."))
    await phone.fake.send_text(USER, "Помни, я купил хлеб", first_name="Ольга", **IN_GROUP)
    await phone.work()
    assert "Ольга" in str(phone.rig.model.requests[-1].messages)
