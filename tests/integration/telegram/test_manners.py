"""Manners: groups, greetings, deep links, reactions, limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiogram import Bot

from src.base.config import Settings
from src.telegram.setup import MENUS, configure_telegram, configure_until_done
from src.texts import LANGUAGES, Language, say
from tests.fakes.telegram_people import Sender, user
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.phone import STRANGER, USER, Phone, buttons

GROUP = -1_001_234_567_893
IN_GROUP = Sender(chat_id=GROUP, chat_type="supergroup")
CITY = "Я живу в городе Киев"


# Groups


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


async def test_a_group_is_told_how_to_talk_to_it_and_what_it_sees(phone: Phone) -> None:
    await join(phone, "left", "member", "uk")
    [hello] = phone.fake.sent_to(GROUP)
    expected = say("group_hello", "uk", name="Помни", username="pomni_test_bot")
    assert hello.text == f"{expected}\n\n{say('group_sees_some', 'uk')}"
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
    await phone.write("/start", language_code=language)
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
    one_more = {**forged, "chat": {"id": USER, "type": "private"}, "user": user(USER),
                "old_reaction": forged["new_reaction"]}  # fmt: skip
    await phone.fake.push_raw({"update_id": 9901, "message_reaction": one_more})
    assert await phone.work() == []
    assert len(phone.fake.sent_to(USER)) == before + 2 and phone.facts() == [CITY]


@pytest.mark.core(llm_model="offline")
async def test_a_dislike_of_the_notebook_offers_no_wish(phone: Phone) -> None:
    await phone.write("В субботу ужин с Олей")
    before = len(phone.fake.sent_to(USER))
    await phone.fake.react(USER, phone.last.message_id, "👎")
    await phone.work()
    assert len(phone.fake.sent_to(USER)) == before


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
    for number in range(10):
        await phone.fake.send_text(USER, f"часть {number}")
    assert (await phone.work())[-1] == "done" and len(phone.rig.model.requests) == 3
    await phone.write("ещё")
    assert len(phone.rig.model.requests) == 4, "a burst that is answered together counts once"


async def test_usage_tells_what_was_spent_and_what_is_left(phone: Phone) -> None:
    await phone.write("/usage", language_code="uk")
    assert say("usage_unlimited", "uk") in phone.last.text
    phone.rig.set(daily_messages_per_user=5, daily_tokens_per_user=100_000)
    await phone.write("раз")
    await phone.write("/usage", language_code="uk")
    assert say("usage_messages", "uk", count=1, limit=5) in phone.last.text
    [(tokens,)] = phone.rig.rows("SELECT sum(prompt_tokens + completion_tokens) FROM model_usage")
    count = f"{tokens:,}".replace(",", "\u00a0")
    assert say("usage_tokens", "uk", count=count) in phone.last.text
    await phone.fake.send_text(STRANGER, "/usage", language_code="uk")
    await phone.work()
    assert say("usage_tokens", "uk", count=0) in phone.fake.sent_to(STRANGER)[-1].text


# The ways to the page: the button beside the text field, and /app


PAGE = "https://bot.example.org"
HOOK = {"telegram_webhook_secret": "s3cret_-of-32", "telegram_webhook_url": f"{PAGE}:8443/t/hook"}
SHOP = {"type": "web_app", "text": "Shop", "web_app": {"url": "https://shop.example/"}}


def settings(fake: FakeTelegram, **values: Any) -> Settings:
    return Settings(telegram_bot_token=fake.token, telegram_api_base=fake.url, **values)


@pytest.mark.parametrize(("values", "url"), [
    ({"public_url": PAGE}, f"{PAGE}/app/"), (HOOK, f"{PAGE}:8443/app/"),
    ({"public_url": f"{PAGE}/pomni/"}, f"{PAGE}/pomni/app/"),
    ({"public_url": PAGE, **HOOK}, f"{PAGE}/app/"), ({}, None),
])  # fmt: skip
async def test_the_button_opens_the_page_where_it_can_be_reached(
    fake: FakeTelegram, bot: Bot, values: dict[str, str], url: str | None
) -> None:
    wanted = settings(fake, **values)
    assert wanted.app_url == url
    await configure_telegram(bot, wanted)
    shown = fake.menu_button
    assert shown.get("web_app", {}).get("url") == url
    assert shown["type"] == ("web_app" if url else "default")


@pytest.mark.parametrize("is_ours", [True, False])
async def test_without_a_page_our_button_goes_and_another_s_stays(
    fake: FakeTelegram, bot: Bot, is_ours: bool
) -> None:
    if is_ours:
        await configure_telegram(bot, settings(fake, public_url=PAGE))
    else:
        fake.state.menu_button = dict(SHOP)
    await configure_telegram(bot, settings(fake))
    assert fake.menu_button == ({"type": "default"} if is_ours else SHOP)


@pytest.mark.parametrize("method", ["setMyCommands", "setChatMenuButton"])
async def test_every_429_of_the_menu_is_waited_out_and_nothing_is_set_twice(
    fake: FakeTelegram, bot: Bot, method: str
) -> None:
    await bot.set_my_commands([])
    fake.calls.clear()
    fake.fail_next(method, status=429, description="Too Many", parameters={"retry_after": 1})
    await configure_until_done(bot, settings(fake, public_url=PAGE))
    refused, taken, *_ = fake.calls_of(method)
    assert not refused.ok and taken.at - refused.at >= 1
    count = len(fake.calls_of("setMyCommands"))
    assert count == len(MENUS) * len(LANGUAGES) + (method == "setMyCommands")
    await configure_until_done(bot, settings(fake, public_url=PAGE))
    assert len(fake.calls_of("setMyCommands")) == count


@pytest.mark.core(llm_model="offline", public_url=PAGE)
async def test_the_command_brings_a_button_in_the_private_chat(phone: Phone) -> None:
    await phone.write("/app", language_code="uk")
    assert phone.last.text == say("app_open", "uk")
    button = {"text": say("app_button", "uk"), "web_app": {"url": f"{PAGE}/app/"}}
    assert phone.last.reply_markup == {"inline_keyboard": [[button]]}
    phone.place = Sender(chat_id=-1_001_234_567_892, chat_type="supergroup")
    await phone.write("/app", language_code="uk")
    assert phone.last.text == say("app_in_private", "uk")
    assert phone.last.reply_markup is None


@pytest.mark.core(llm_model="offline")
async def test_without_an_address_the_command_says_who_can_mend_that(phone: Phone) -> None:
    await phone.write("/app")
    assert phone.last.text == say("app_disabled", "ru")
