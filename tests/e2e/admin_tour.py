"""A browser on the admin page: what the tests look at, and the pictures for docs/.

The page in Telegram is photographed in the same tour (``web_app_tour``).

    python -m tests.e2e.admin_tour docs

starts a bot on a database of its own, lets somebody talk with it, and writes the pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.conftest import fast_folder, query
from tests.e2e import web_app_tour
from tests.e2e.bot_process import World
from tests.fakes.openai_server import FakeOpenAI, Reply
from tests.fakes.telegram_server import FakeTelegram

# Without its windows it takes two thirds of the time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PASSWORD = "a password for the tour"
USER = 2**41 + 5
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1200, "height": 800}
TALK = (
    ("Привет! У меня кот Барсик, ему семь лет", "Запомнил: кот Барсик, семь лет."),
    ("В мае поедем в Грузию на машине", "Хорошо, напомню ближе к делу."),
    ("Как зовут моего кота?", "Вашего кота зовут Барсик."),
    ("We moved to Prague last week", "Noted: you live in Prague now."),
)
PRICES = "INSERT INTO model_prices VALUES ('openai:test', 0.25, 0.025, 2) RETURNING model"
SPENT = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, created_at)
SELECT add_owner(%s, 0), 'answer', 'openai:test', 40000 + 9000 * (n %% 5), 30000 + 5000 * (n %% 4),
       4000 + 300 * n, 900 + 100 * n, now() - make_interval(days => n)
FROM generate_series(0, 6) AS n RETURNING id
"""


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, which asks nobody for anything."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
        yield browser
        await browser.close()


async def log_in(page: Page, address: str) -> None:
    """From the login to the overview."""
    await page.goto(f"{address}/admin/")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("heading", name="Overview").wait_for()


async def talk(world: World) -> None:
    """Somebody talks with the bot, and it keeps a few facts."""
    for number, (said, answer) in enumerate(TALK, 1):
        world.model.queue(Reply(text=answer))
        await world.telegram.send_text(USER, said)
        await world.telegram.wait_sent(USER, number)
    await world.settled()


def keep_facts(world: World) -> None:
    """Two facts, of which the newer replaced the older, and one that is pinned."""
    fact = (
        "INSERT INTO memories (owner_id, memory_type, text, language, subject, relation, object,"
        " importance, pinned, origin, content_hash) VALUES (add_owner(%s, 0), 'user_fact', %s,"
        " %s, 'user', %s, %s, %s, %s, 'tool', %s) RETURNING id"
    )
    [(old,)] = world.query(
        fact, USER, "Живу в Харькове", "ru", "lives_in", "Харьков", 7, False, "a"
    )
    [(new,)] = world.query(
        fact, USER, "We moved to Prague last week", "en", "lives_in", "Prague", 7, False, "b"
    )
    world.query(fact, USER, "У меня кот Барсик", "ru", "has_pet", "Барсик", 6, True, "c")
    world.query(
        "UPDATE memories SET retired_at = now(), retired_reason = 'replaced', superseded_by = %s"
        " WHERE id = %s RETURNING id", new, old,
    )  # fmt: skip
    world.query(
        "INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)"
        " SELECT f.id, m.id, 'msg-' || m.id, 'teach_msg-' || m.id, f.text, m.created_at"
        " FROM memories f, messages m WHERE f.owner_id = add_owner(%s, 0)"
        " AND message_text(m.content) LIKE '%%' || f.object || '%%' AND m.role = 'user'"
        " RETURNING memory_id", USER,
    )  # fmt: skip


async def photograph(world: World, folder: Path) -> list[Path]:
    """The pages as pictures, on a desk and on a phone."""
    bot = await world.start(ADMIN_PASSWORD=PASSWORD, **web_app_tour.PUBLIC)
    await talk(world)
    keep_facts(world)
    world.query(PRICES)
    world.query(SPENT, USER)
    of_user = f"users/{USER}/0"
    views: tuple[tuple[str, str, Any], ...] = (
        ("conversation", of_user, DESKTOP), ("facts", f"{of_user}/facts", DESKTOP),
        ("recall", f"{of_user}/recall?q=как+зовут+кота", DESKTOP), ("usage", "usage", DESKTOP),
        ("settings", "settings", DESKTOP), ("phone", of_user, PHONE),
        ("phone_usage", "usage", PHONE),
    )  # fmt: skip
    made = []
    async with open_browser() as browser:
        for name, path, size in views:
            context = await browser.new_context(viewport=size)
            page = await context.new_page()
            await log_in(page, bot.http)
            await page.goto(f"{bot.http}/admin/{path}")
            file = folder / f"admin_{name}.png"
            await page.screenshot(path=file)
            made.append(file)
            await context.close()
        user = web_app_tour.USER
        made += (await web_app_tour.tour_page(world, bot, browser, user, folder)).made
    return made


async def tour(folder: Path, dsn: str) -> None:
    """Write the pictures into a folder."""
    async with FakeTelegram() as telegram, FakeOpenAI() as model:
        world = World(dsn, telegram, model)
        try:
            for file in await photograph(world, folder):
                print(file)
        finally:
            await world.close()


def main() -> int:
    """Start a database, and take the tour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="pomni-tour-", dir=fast_folder()) as place:
        server = EmbeddedPostgres(Path(place))
        dsn = server.start()
        try:
            migrate(dsn)
            query(dsn, "SELECT 1")
            asyncio.run(tour(folder, dsn))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
