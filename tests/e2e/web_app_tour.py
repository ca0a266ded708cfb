"""A phone on the page in Telegram: what the tests look at, and the pictures for docs/.

Telegram's script is answered from here, so that nobody is asked for anything; ``admin_tour``
takes the pictures.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, Route

from src.web.app_api import TELEGRAM_SCRIPT
from tests.e2e.bot_process import BotProcess, World
from tests.fakes.init_data import signed
from tests.fakes.openai_server import Reply

USER = 2**41 + 15
PHONE: Any = {"width": 390, "height": 844}
NARROW: Any = {"width": 320, "height": 568}
PUBLIC: Any = {"PUBLIC_URL": "http://127.0.0.1:1"}  # Telegram would open it; the tests do here
# What Telegram's applications for Android tell a page, in its usual light and dark theme.
THEMES = {
    "light": {
        "bg-color": "#ffffff", "secondary-bg-color": "#f0f0f0", "text-color": "#000000",
        "hint-color": "#999999", "link-color": "#2481cc", "button-color": "#2481cc",
        "button-text-color": "#ffffff", "section-bg-color": "#ffffff",
    },
    "dark": {
        "bg-color": "#17212b", "secondary-bg-color": "#232e3c", "text-color": "#f5f5f5",
        "hint-color": "#708499", "link-color": "#6ab3f3", "button-color": "#5288c1",
        "button-text-color": "#ffffff", "section-bg-color": "#17212b",
    },
}  # fmt: skip
STUB = """
(() => {
  const given = %s, listeners = {}, calls = [];
  const note = (name) => (...values) => { calls.push([name, ...values]); };
  const theme = (scheme) => {
    WebApp.colorScheme = scheme;
    for (const [name, value] of Object.entries(given.themes[scheme]))
      document.documentElement.style.setProperty(`--tg-theme-${name}`, value);
  };
  const WebApp = {
    initData: given.initData, version: "8.0", calls, isVersionAtLeast: () => true,
    ready: note("ready"), expand: note("expand"),
    onEvent: (name, listener) => { listeners[name] = listener; },
    BackButton: {
      isVisible: false, onClick: (listener) => { WebApp.back = listener; },
      show() { this.isVisible = true; }, hide() { this.isVisible = false; },
    },
    HapticFeedback: {
      selectionChanged: note("selectionChanged"), notificationOccurred: note("notification"),
    },
    repaint: (scheme) => { theme(scheme); listeners.themeChanged(); },
  };
  theme(given.scheme);
  window.Telegram = { WebApp };
})();
"""
TALK = (
    ("Ключи от дачи лежат в синей коробке на балконе", "Запомнил: в синей коробке на балконе."),
    ("Что подарить маме на день рождения?", "Вы говорили, что она любит пионы и детективы."),
    ("Завтра еду во Львов на поезде, в 7:40", "Хорошей дороги! Поезд в 7:40."),
)
TAUGHT = (
    "Я живу в Одессе", "Я живу во Львове", "У меня аллергия на орехи", "У меня есть кот Барсик",
    "Я люблю зелёный чай без сахара", "Хочу выучить польский до лета",
)  # fmt: skip


@asynccontextmanager
async def open_phone(
    browser: Browser,
    bot: BotProcess,
    token: str,
    *,
    user: int = USER,
    scheme: str = "light",
    language_code: str = "ru",
    size: Any = None,
    opened: datetime | None = None,
) -> AsyncIterator[Page]:
    """The page as Telegram opens it for somebody; the addresses asked are in ``page.asked``."""
    given = {
        "initData": signed(token, user, opened or datetime.now(UTC), language_code=language_code),
        "themes": THEMES,
        "scheme": scheme,
    }
    context: BrowserContext = await browser.new_context(
        viewport=size or PHONE, has_touch=True, accept_downloads=True, color_scheme=scheme,  # type: ignore[arg-type]
        locale="uk-UA",
    )  # fmt: skip

    async def answer(route: Route) -> None:
        await route.fulfill(content_type="text/javascript", body=STUB % json.dumps(given))

    await context.route(f"{TELEGRAM_SCRIPT}*", answer)
    page = await context.new_page()
    await page.goto(f"{bot.http}/app/")
    try:
        yield page
    finally:
        await context.close()


async def talk(world: World, user: int = USER) -> None:
    """Somebody tells the bot a few things, and talks with it."""
    sent = 0
    for text in TAUGHT:
        sent += 1
        await world.telegram.send_text(user, f"/remember {text}", language_code="ru")
        await world.telegram.wait_sent(user, sent)
    for said, answer in TALK:
        sent += 1
        world.model.queue(Reply(text=answer))
        await world.telegram.send_text(user, said, language_code="ru")
        await world.telegram.wait_sent(user, sent)
    await world.settled()


async def open_tab(page: Page, name: str) -> None:
    """Go to a section by its button."""
    await page.get_by_role("navigation").get_by_role("button", name=name).click()
    await page.get_by_role("heading", level=1, name=name).wait_for()


async def photograph_page(
    world: World, bot: BotProcess, browser: Browser, folder: Path
) -> list[Path]:
    """Each section in light and dark."""
    await talk(world)
    made = []

    async def shoot(page: Page, name: str) -> None:
        file = folder / f"webapp_{name}.png"
        await page.screenshot(path=file)
        made.append(file)

    token = world.telegram.token
    for scheme in THEMES:
        async with open_phone(browser, bot, token, scheme=scheme) as page:
            card = page.get_by_role("article").filter(has_text="аллергия")
            await card.wait_for()
            if scheme == "light":
                await card.get_by_role("button", name="Закрепить").click()
                await card.get_by_role("button", name="Открепить").wait_for()
                await page.reload()
                await card.wait_for()
            await shoot(page, f"facts_{scheme}")
            await open_tab(page, "Поиск")
            await page.get_by_role("searchbox").fill("где ключи от дачи")
            await page.get_by_role("button", name="Найти").click()
            await page.get_by_role("listitem").first.wait_for()
            await shoot(page, f"search_{scheme}")
            await open_tab(page, "По дням")
            await page.get_by_text("Поезд в 7:40.").wait_for()
            await shoot(page, f"timeline_{scheme}")
            await open_tab(page, "Ещё")
            await page.get_by_text("Что я храню").wait_for()
            await shoot(page, f"menu_{scheme}")
    return made
