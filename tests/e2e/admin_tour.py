"""Browser tour of the admin pages, which also takes the pictures for docs/.

The web app is photographed in the same tour (``web_app_tour``).

    python -m tests.e2e.admin_tour docs

starts a bot on its own database, lets a user talk to it, and writes the pictures.
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

from playwright.async_api import Browser, Page, async_playwright

from tests.attacks.frame import own_postgres
from tests.e2e import web_app_tour
from tests.e2e.bot_process import World, open_world
from tests.e2e.operation_tour import USER, AdminTour, fill_operation, keep_facts
from tests.fakes.openai_server import Reply

# The headless shell takes two thirds of the time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PASSWORD = "a password for the tour"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE = {"width": 390, "height": 844}
# Names of the pictures in docs/, and their names in the tour.
PICTURES = {
    "overview": "overview_1280_light", "failures": "failures_1280_light",
    "usage": "usage_1280_light", "conversation": "talk_1280_light", "facts": "facts_1280_light",
    "recall": "recall_1280_light", "settings": "settings_1280_light",
    "people": "people_1280_light", "person": "person_1280_light",
    "phone": "talk_390_dark", "phone_usage": "usage_390_dark",
}  # fmt: skip
TALK = (
    ("Привет! У меня кот Барсик, ему семь лет", "Запомнил: кот Барсик, семь лет."),
    ("В мае поедем в Грузию на машине", "Хорошо, напомню ближе к делу."),
    ("Как зовут моего кота?", "Вашего кота зовут Барсик."),
    ("We moved to Prague last week", "Noted: you live in Prague now."),
)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Open Debian's Chromium without background network requests."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
        yield browser
        await browser.close()


async def log_in(page: Page, address: str) -> None:
    """Log in, and wait for the overview."""
    await page.goto(f"{address}/admin/")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("heading", name="Overview").wait_for()


async def talk(world: World) -> None:
    """Hold a short conversation with the bot."""
    for number, (said, answer) in enumerate(TALK, 1):
        world.model.queue(Reply(text=answer))
        await world.telegram.send_text(USER, said)
        await world.telegram.wait_sent(USER, number)
    await world.settled()


async def photograph(world: World, folder: Path) -> list[Path]:
    """Tour all pages, and return the pictures in desktop and phone size."""
    bot = await world.start(ADMIN_PASSWORD=PASSWORD, **web_app_tour.PUBLIC)
    await talk(world)
    keep_facts(world)
    async with open_browser() as browser:
        user = web_app_tour.USER
        pictures = (await web_app_tour.tour_page(world, bot, browser, user, folder)).made
        fill_operation(world)
        with TemporaryDirectory() as temporary:
            tour = AdminTour(bot, Path(temporary), is_whole=True)
            await tour.take(browser, PASSWORD)
            slowest = max(tour.painted, key=lambda one: tour.painted[one])
            print(f"slowest first paint, CPU x4: {slowest}, {tour.painted[slowest]:.0f} ms")
            for name, picture in PICTURES.items():
                pictures.append(folder / f"admin_{name}.png")
                shutil.copy(Path(temporary) / f"admin_{picture}.png", pictures[-1])
    return pictures


async def tour(folder: Path) -> None:
    """Write the pictures to a folder."""
    async with own_postgres() as own, open_world(own.dsn) as world:
        for file in await photograph(world, folder):
            print(file)


def main() -> int:
    """Run the tour, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    asyncio.run(tour(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
