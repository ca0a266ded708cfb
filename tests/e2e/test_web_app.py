"""The page in Telegram, in a browser: every section works, nothing hostile runs, all can read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from src.texts import say
from src.web.app_api import TELEGRAM_SCRIPT
from tests.e2e.admin_tour import CHROMIUM, open_browser
from tests.e2e.bot_process import BotProcess, World, eventually, open_world
from tests.e2e.test_admin_page import FACT, HOSTILE, MESSAGES
from tests.e2e.web_app_tour import (
    NARROW,
    PUBLIC,
    THEMES,
    open_phone,
    open_tab,
    talk,
    tour_page,
)
from tests.integration.person import new_user

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at the page with"),
]
HOLDS = "SELECT text FROM facts WHERE telegram_user_id = %s AND retired_at IS NULL ORDER BY id"
# Fields and buttons without a name, and what is too small for a finger.
UNUSABLE = """() => [...document.querySelectorAll("button, input, textarea, select")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.textContent.trim() || node.ariaLabel || node.labels?.length)
    || (node.getBoundingClientRect().height < 24))
  .map((node) => node.outerHTML)"""


@pytest.fixture(scope="module")
async def bot(shared_dsn: str) -> AsyncIterator[tuple[World, BotProcess]]:
    """A bot with a page, for the whole file; each test is somebody else."""
    async with open_world(shared_dsn) as world:
        yield world, await world.start(**PUBLIC)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser that asks nobody for anything."""
    async with open_browser() as opened:
        yield opened


async def told(world: World, user: int, *texts: str) -> None:
    """Somebody taught the bot these in the chat."""
    for number, text in enumerate(texts, 1):
        await world.telegram.send_text(user, f"/remember {text}", language_code="ru")
        await world.telegram.wait_sent(user, number)
    await world.settled()


def line(page: Page, text: str) -> Any:
    """A fact or a reminder; its actions are there once it was pressed."""
    return page.locator(".row", has_text=text).first


async def press(page: Page, text: str, action: str) -> None:
    """Open a line, and do something with it."""
    await line(page, text).locator(".head").click()
    await line(page, text).get_by_role("button", name=action, exact=True).click()


@pytest.mark.parametrize(
    ("width", "schemes"),
    [
        (390, ["light"]),
        *(pytest.param(width, [*THEMES], marks=pytest.mark.proof) for width in (390, 1280)),
    ],
)  # fmt: skip
async def test_a_tour_uses_every_control_and_keeps_nobody_out(
    bot: tuple[World, BotProcess],
    browser: Browser,
    tmp_path: Path,
    width: int,
    schemes: list[str],
) -> None:
    world, process = bot
    user = new_user()
    tour = await tour_page(world, process, browser, user, tmp_path, width=width, schemes=schemes)
    assert world.history(user) == [] and world.query(HOLDS, user) == [], "it ended with an erasure"
    assert "аллергия" in tour.exports["md"]
    assert json.loads(tour.exports["json"])["telegram_user_id"] == user


async def test_a_visit_says_why_it_refuses_and_tells_no_address(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user = new_user()
    await talk(world, user)
    asked: list[str] = []
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(f"error: {error}"))
        await press(page, "Барсик", "Исправить")
        field = page.get_by_label(say("page_right", "ru"))
        assert await field.input_value() == "У меня есть кот Барсик"
        await field.fill("Мой пароль от почты: hunter2-Zx9")
        await page.locator("#telegram-main-button").click()
        await page.get_by_role("alert").filter(has_text=say("refused_secret", "ru")).wait_for()
        await page.keyboard.press("Escape")
        await press(page, "зелёный чай", "Забыть")
        await page.get_by_text("Забыто: Я люблю зелёный чай без сахара").wait_for()
        await press(page, "польский", "Забыть")
        await page.get_by_text("Забыто: Хочу выучить польский").wait_for()
        assert await page.get_by_text("Забыто: Я люблю").count() == 0, "one note at a time"
        await open_tab(page, "Переписка")
        await page.locator(".bubble.bot strong").first.wait_for()
        tea = page.get_by_role("article").filter(has_text="зелёный чай")
        assert await tea.count() == 0, "what was forgotten is shown nowhere"
    ours = (process.http, TELEGRAM_SCRIPT, f"blob:{process.http}", "data:")
    assert all(url.startswith(ours) for url in asked), asked
    assert not [url for url in asked if "hash" in url or "%D0" in url], "addresses say nothing"
    assert "hunter2" not in process.logs() and "auth_date" not in process.logs()


async def test_many_facts_are_loaded_while_they_are_scrolled_each_once(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user = new_user()
    world.query(FACT, user, [f"факт номер {number}" for number in range(400)])
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        rows = page.locator("[data-fact]")
        for shown in range(50, 401, 50):
            await rows.nth(shown - 1).wait_for(state="attached")
            await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        texts = await page.locator("[data-fact] .text").all_text_contents()
        assert len(texts) == len(set(texts)) == 400
        await page.locator(".more").wait_for(state="detached")


async def test_an_old_telegram_gets_buttons_in_the_page(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user = new_user()
    await told(world, user, "Я живу в Одессе")
    async with open_phone(
        browser, process, world.telegram.token, user=user, version="5.9"
    ) as page:
        await press(page, "Одессе", "Исправить")
        await page.get_by_label(say("page_right", "ru")).fill("Я живу в Киеве")
        await page.get_by_role("button", name="Сохранить").click()
        await line(page, "Киеве").wait_for()
        await press(page, "Киеве", "Показать в переписке")
        await page.locator(".found").get_by_text("Я живу в Киеве").wait_for()
        await page.get_by_role("button", name="‹ Назад").click()
        await line(page, "Киеве").wait_for()
        calls = await page.evaluate("Telegram.WebApp.calls")
        assert {name for name, *_ in calls} <= {"ready", "expand"}


async def test_hostile_texts_run_nowhere(bot: tuple[World, BotProcess], browser: Browser) -> None:
    world, process = bot
    user, texts = new_user(), list(HOSTILE)
    for statement in (MESSAGES, FACT):
        assert len(world.query(statement, user, texts)) >= 40
    heard: list[str] = []
    addresses: list[str] = []
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        page.on("request", lambda request: addresses.append(request.url))
        page.on("console", lambda line: heard.append(line.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: heard.append(dialog.message))
        shown = page.locator("[data-fact] > .head > .text")
        await shown.nth(len(texts) - 1).wait_for()
        assert sorted(await shown.all_text_contents()) == sorted(texts)
        await press(page, "onerror", "Исправить")
        await page.keyboard.press("Escape")
        await line(page, "onerror").get_by_role("button", name="Забыть").click()
        await page.get_by_role("button", name="Вернуть").wait_for()
        await open_tab(page, "Переписка")
        await page.get_by_role("article").nth(30).wait_for()
        for text in texts[:6]:
            await page.get_by_role("searchbox").fill(text)
            async with page.expect_response("**/api/search"):
                await page.keyboard.press("Enter")
            await page.keyboard.press("Escape")
        await open_tab(page, "Напоминания")
        await page.get_by_role("button", name="+ Новое").click()
        await page.get_by_label("О чём и когда").fill(f"завтра в 9 {HOSTILE[0]}")
        await page.locator("#telegram-main-button").click()
        await page.locator("#note").get_by_text(HOSTILE[0]).wait_for()
        assert await page.evaluate("window.__xss") is None
        made = "document.querySelectorAll('main :is(script, img, iframe, svg, a, style)').length"
        assert await page.evaluate(made) == 0
    assert heard == []
    ours = (process.http, TELEGRAM_SCRIPT, f"blob:{process.http}", "data:")
    assert all(url.startswith(ours) for url in addresses), addresses
    assert not [url for url in addresses if "hash" in url or "%D0" in url], "they say nothing"


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.proof), "dark"])
async def test_everybody_can_read_it_on_the_smallest_phone(
    bot: tuple[World, BotProcess], browser: Browser, scheme: str
) -> None:
    world, process = bot
    user = new_user()
    await told(world, user, "Я живу в Одессе", "Я живу во Львове")
    world.query(FACT, user, ["y" * 400, "слово " * 60])
    token = world.telegram.token
    async with open_phone(browser, process, token, user=user, scheme=scheme, size=NARROW) as page:
        await line(page, "Львове").locator(".head").click()
        for name in ("Факты", "Переписка", "Напоминания", "Ещё"):
            await open_tab(page, name)
            await page.locator("[aria-busy]").first.wait_for(state="detached")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 320, name
            assert await page.evaluate(UNUSABLE) == [], name
        other = "dark" if scheme == "light" else "light"
        await page.evaluate(f"Telegram.WebApp.repaint({other!r})")
        assert await page.evaluate("document.documentElement.dataset.scheme") == other
        ink = await page.evaluate("getComputedStyle(document.body).color")
        assert ink == {"light": "rgb(0, 0, 0)", "dark": "rgb(245, 245, 245)"}[other]


async def test_it_is_used_with_a_keyboard_alone(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user = new_user()
    await told(world, user, "Я живу в Одессе")
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        await line(page, "Одессе").locator(".head").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.activeElement.textContent") == "Исправить"
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("Забыто: Я живу в Одессе").wait_for()
        await page.keyboard.press("Enter")
        await eventually(lambda: world.query(HOLDS, user), "the fact to be back")


async def test_whom_telegram_does_not_vouch_for_sees_one_sentence(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    _, process = bot
    yesterday = datetime.now(UTC) - timedelta(days=2)
    for token, opened, key in (
        ("1:forged", None, "app_unauthorized"), (bot[0].telegram.token, yesterday, "app_expired"),
    ):  # fmt: skip
        async with open_phone(browser, process, token, opened=opened) as page:
            await page.get_by_role("alert").get_by_text(say(key, "uk")).wait_for()  # type: ignore[arg-type]
            assert await page.get_by_role("navigation").count() == 0


async def test_without_a_connection_it_offers_another_try(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    async with open_phone(browser, process, world.telegram.token, user=new_user()) as page:
        await page.get_by_text(say("page_no_facts", "ru")).wait_for()
        await page.context.set_offline(True)
        await open_tab(page, "Переписка")
        await page.get_by_role("alert").get_by_text(say("page_unreachable", "ru")).wait_for()
        await page.context.set_offline(False)
        await page.get_by_role("button", name=say("page_retry", "ru")).click()
        await page.get_by_text(say("page_no_messages", "ru")).wait_for()
