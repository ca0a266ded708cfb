"""The page in Telegram, in a browser: every section works, nothing hostile runs, all can read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route

from src.texts import LANGUAGES, Language, say
from src.web.app_api import TELEGRAM_SCRIPT
from tests.e2e.admin_tour import CHROMIUM, open_browser
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.e2e.conftest import open_world
from tests.e2e.test_admin_page import FACT, HOSTILE, MESSAGES
from tests.e2e.web_app_tour import NARROW, PUBLIC, TALK, THEMES, open_phone, open_tab, talk
from tests.integration.person import new_user

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at the page with"),
]
HOLDS = "SELECT text FROM facts WHERE telegram_user_id = %s AND retired_at IS NULL ORDER BY id"
# The contrast (WCAG 2.2) of each visible text with what lies behind it.
CONTRASTS = """() => {
  const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = paint(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 255];
  };
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.checkVisibility() && [...node.childNodes].some(
      (child) => child.nodeType === 3 && child.textContent.trim()))
    .map((node) => {
      const [a, b] = [light(paint(getComputedStyle(node).color)), light(behind(node))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return [node.className || node.tagName, node.textContent.slice(0, 30), ratio];
    });
}"""
# Fields and buttons without a name, and what is too small for a finger.
UNUSABLE = """() => [...document.querySelectorAll("button, input, textarea")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.textContent.trim() || node.labels?.length)
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


def card(page: Page, text: str) -> Any:
    return page.get_by_role("article").filter(has_text=text)


async def calls(page: Page) -> list[list[str]]:
    """What the page asked Telegram's application for."""
    found: list[list[str]] = await page.evaluate("Telegram.WebApp.calls")
    return found


async def test_the_menu_button_and_the_command_open_the_page(
    bot: tuple[World, BotProcess],
) -> None:
    world, _ = bot
    telegram, user = world.telegram, new_user()
    url = f"{PUBLIC['PUBLIC_URL']}/app/"
    await telegram.wait_for(lambda: telegram.menu_button["type"] == "web_app")
    assert telegram.menu_button["web_app"] == {"url": url}
    for code, language in (("ru", "ru"), ("uk", "uk"), ("de", "en")):
        await telegram.send_text(user, "/app", language_code=code)
        sent = (await telegram.wait_sent(user, len(world.answers(user)) + 1))[-1]
        assert sent.text == say("app_open", language)  # type: ignore[arg-type]
        [[button]] = sent.reply_markup["inline_keyboard"]  # type: ignore[index]
        assert button == {"text": say("app_button", language), "web_app": {"url": url}}  # type: ignore[arg-type]


async def test_a_whole_visit_in_russian(
    bot: tuple[World, BotProcess], browser: Browser, tmp_path: Path
) -> None:
    world, process = bot
    user = new_user()
    await talk(world, user)
    asked: list[str] = []
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(f"error: {error}"))
        await card(page, "Я живу во Львове").get_by_text("Я живу в Одессе").wait_for()
        assert not await page.evaluate("Telegram.WebApp.BackButton.isVisible")

        await card(page, "аллергия").get_by_role("button", name="Закрепить").click()
        await card(page, "аллергия").get_by_text("Закреплено").wait_for()
        pinned = "SELECT text FROM facts WHERE telegram_user_id = %s AND pinned"
        assert world.query(pinned, user) == [("У меня аллергия на орехи",)]

        await card(page, "Барсик").get_by_role("button", name="Исправить").click()
        field = page.get_by_label(say("page_right", "ru"))
        assert await field.input_value() == "У меня есть кот Барсик"
        assert await page.evaluate("Telegram.WebApp.BackButton.isVisible")
        await field.fill("Мой пароль от почты: hunter2-Zx9")
        await page.get_by_role("button", name="Сохранить").click()
        await page.get_by_role("alert").filter(has_text=say("refused_secret", "ru")).wait_for()
        await field.fill("У меня есть кот Рыжик")
        await page.get_by_role("button", name="Сохранить").click()
        await page.get_by_text("Запомнил: У меня есть кот Рыжик").wait_for()
        assert ("user", "У меня есть кот Рыжик") in world.history(user)
        assert ("У меня есть кот Барсик",) not in world.query(HOLDS, user)
        await page.get_by_role("button", name="Вернуть").click()
        # The card of the correction names what it replaced, so only its going tells.
        await card(page, "Рыжик").wait_for(state="detached")
        assert ("У меня есть кот Барсик",) in world.query(HOLDS, user)

        await card(page, "зелёный чай").get_by_role("button", name="Забыть").click()
        await page.get_by_text("Забыто: Я люблю зелёный чай без сахара").wait_for()
        assert await page.evaluate("document.activeElement.textContent") == "Вернуть"
        assert await card(page, "зелёный чай").count() == 0
        await page.get_by_role("button", name="Вернуть").click()
        await card(page, "зелёный чай").wait_for()

        await open_tab(page, "Поиск")
        await page.get_by_role("searchbox").fill("где ключи от дачи")
        await page.keyboard.press("Enter")
        found = page.get_by_role("listitem").filter(has_text="Ключи от дачи лежат")
        await found.get_by_role("button").first.click()
        await page.get_by_role("heading", level=1, name="По дням").wait_for()
        await page.get_by_role("article").filter(has_text=TALK[-1][1]).wait_for()
        await page.get_by_label("Перейти к дню").fill("2020-01-01")
        await page.get_by_text(say("page_no_messages", "ru")).wait_for()
        await page.get_by_role("button", name="К последним").click()
        await page.get_by_role("article").filter(has_text=TALK[0][0]).first.wait_for()

        await open_tab(page, "Ещё")
        for label, ending in (("Markdown", "md"), ("JSON", "json")):
            async with page.expect_download() as downloading:
                await page.get_by_role("button", name=label).click()
            saved = tmp_path / ending
            await (await downloading.value).save_as(saved)
            assert "аллергия" in saved.read_text(encoding="utf-8")
            assert (await downloading.value).suggested_filename.endswith(f".{ending}")
        assert json.loads((tmp_path / "json").read_bytes())["telegram_user_id"] == user
        await page.get_by_text("Что я храню").wait_for()
        await page.evaluate("Telegram.WebApp.back()")
        await page.get_by_role("heading", level=1, name="Факты").wait_for()
        assert not await page.evaluate("Telegram.WebApp.BackButton.isVisible")
        assert ["notification", "success"] in await calls(page)
    ours = (process.http, TELEGRAM_SCRIPT, f"blob:{process.http}", "data:")
    assert all(url.startswith(ours) for url in asked), asked
    assert not [url for url in asked if "hash" in url or "%D0" in url], "addresses say nothing"
    assert "hunter2" not in process.logs() and "auth_date" not in process.logs()


async def test_hostile_texts_run_nowhere(bot: tuple[World, BotProcess], browser: Browser) -> None:
    world, process = bot
    user, texts = new_user(), list(HOSTILE)
    for statement in (MESSAGES, FACT):
        assert len(world.query(statement, user, texts)) >= 40
    heard: list[str] = []
    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        page.on("console", lambda line: heard.append(line.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: heard.append(dialog.message))
        shown = page.locator(".card > .text")
        await shown.nth(len(texts) - 1).wait_for()
        assert sorted(await shown.all_text_contents()) == sorted(texts)
        await card(page, "onerror").first.get_by_role("button", name="Исправить").click()
        await page.get_by_role("button", name="Отмена").click()
        await card(page, "onerror").first.get_by_role("button", name="Забыть").click()
        await page.get_by_role("button", name="Вернуть").wait_for()
        await open_tab(page, "По дням")
        await page.get_by_role("article").nth(30).wait_for()
        await open_tab(page, "Поиск")
        for text in texts[:6]:
            await page.get_by_role("searchbox").fill(text)
            async with page.expect_response("**/api/search"):
                await page.keyboard.press("Enter")
        assert await page.evaluate("window.__xss") is None
        made = "document.querySelectorAll('main :is(script, img, iframe, svg, a, style)').length"
        assert await page.evaluate(made) == 0
    assert heard == []


async def test_what_is_asked_during_a_search_is_searched_next(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user, first = new_user(), asyncio.Event()
    await talk(world, user)

    async def hold(route: Route) -> None:
        await first.wait()
        await route.continue_()

    async with open_phone(browser, process, world.telegram.token, user=user) as page:
        await page.route("**/api/search", hold)
        await open_tab(page, "Поиск")
        async with page.expect_request("**/api/search"):
            await page.get_by_role("searchbox").fill("кот")
            await page.keyboard.press("Enter")
        await page.get_by_role("searchbox").fill("аллергия")
        await page.keyboard.press("Enter")
        first.set()
        found = page.locator("section:not([hidden]) .card").filter(has_text="аллергия")
        await found.first.wait_for()


@pytest.mark.parametrize("scheme", THEMES)
async def test_everybody_can_read_it_on_the_smallest_phone(
    bot: tuple[World, BotProcess], browser: Browser, scheme: str
) -> None:
    world, process = bot
    user = new_user()
    await told(world, user, "Я живу в Одессе", "Я живу во Львове")
    world.query(FACT, user, ["y" * 400, "слово " * 60])
    token = world.telegram.token
    async with open_phone(browser, process, token, user=user, scheme=scheme, size=NARROW) as page:
        await card(page, "Львове").get_by_role("button", name="Исправить").click()
        for name in ("Факты", "Поиск", "По дням", "Ещё"):
            await open_tab(page, name)
            await page.locator("[aria-busy]").first.wait_for(state="detached")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 320, name
            assert await page.evaluate(UNUSABLE) == [], name
            pale = [one for one in await page.evaluate(CONTRASTS) if one[2] < 4.5]
            # The colours of buttons are the theme's own.
            assert [one for one in pale if one[0] not in ("main", "BUTTON")] == [], name
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
        await card(page, "Одессе").get_by_role("button", name="Исправить").focus()
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.textContent") == "Исправить"
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("Забыто: Я живу в Одессе").wait_for()
        await page.keyboard.press("Enter")
        await eventually(lambda: world.query(HOLDS, user), "the fact to be back")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_it_speaks_three_languages(
    bot: tuple[World, BotProcess], browser: Browser, language: Language
) -> None:
    world, process = bot
    token = world.telegram.token
    async with open_phone(
        browser, process, token, user=new_user(), language_code=language
    ) as page:
        await page.get_by_text(say("page_no_facts", language)).wait_for()
        assert await page.evaluate("document.documentElement.lang") == language
        for name in ("facts", "search", "timeline", "menu"):
            await open_tab(page, say(f"page_{name}", language))


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
        await open_tab(page, "По дням")
        await page.get_by_role("alert").get_by_text(say("page_unreachable", "ru")).wait_for()
        await page.context.set_offline(False)
        await page.get_by_role("button", name=say("page_retry", "ru")).click()
        await page.get_by_text(say("page_no_messages", "ru")).wait_for()
