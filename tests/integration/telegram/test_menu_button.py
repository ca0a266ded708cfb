"""The ways to the page: the button beside the text field, and /app."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram import Bot

from src.base.config import Settings
from src.telegram.setup import MENUS, configure_telegram, configure_until_done
from src.texts import LANGUAGES, Language, say
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.phone import Phone

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
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_command_brings_a_button_in_the_private_chat(
    phone: Phone, language: Language
) -> None:
    await phone.write("/app", language_code=language)
    assert phone.last.text == say("app_open", language)
    button = {"text": say("app_button", language), "web_app": {"url": f"{PAGE}/app/"}}
    assert phone.last.reply_markup == {"inline_keyboard": [[button]]}
    phone.place = Sender(chat_id=-1_001_234_567_892, chat_type="supergroup")
    await phone.write("/app", language_code=language)
    assert phone.last.text == say("app_in_private", language)
    assert phone.last.reply_markup is None


@pytest.mark.core(llm_model="offline")
async def test_without_an_address_the_command_says_who_can_mend_that(phone: Phone) -> None:
    await phone.write("/app")
    assert phone.last.text == say("app_disabled", "ru")
