"""Tour of the web app as on a phone, which also takes the pictures for docs/.

Telegram's script is replaced by a stub, so that there are no external requests. ``admin_tour``
runs the tour for the pictures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, Route

from src.texts import say
from src.web.app_api import TELEGRAM_SCRIPT
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.e2e.operation_tour import AXE
from tests.fakes.init_data import signed
from tests.fakes.openai_server import Reply
from tests.integration.imports.bringing import chat

USER = 2**41 + 15
PHONE: Any = {"width": 390, "height": 844}
NARROW: Any = {"width": 320, "height": 568}
PUBLIC: Any = {"PUBLIC_URL": "http://127.0.0.1:1"}  # never opened; tests use the local address
# Theme parameters of Telegram for Android in its default light and dark theme.
THEMES = {
    "light": {
        "bg-color": "#ffffff", "secondary-bg-color": "#f0f0f0", "text-color": "#000000",
        "hint-color": "#999999", "link-color": "#2481cc", "button-color": "#2481cc",
        "button-text-color": "#ffffff", "section-bg-color": "#ffffff",
        "accent-text-color": "#1c93e3", "destructive-text-color": "#d14e4e",
        "subtitle-text-color": "#82868a",
    },
    "dark": {
        "bg-color": "#17212b", "secondary-bg-color": "#232e3c", "text-color": "#f5f5f5",
        "hint-color": "#708499", "link-color": "#6ab3f3", "button-color": "#5288c1",
        "button-text-color": "#ffffff", "section-bg-color": "#17212b",
        "accent-text-color": "#6ab2f2", "destructive-text-color": "#ec3942",
        "subtitle-text-color": "#708499",
    },
}  # fmt: skip
STUB = """
(() => {
  const given = %s, listeners = {}, calls = [];
  const note = (name) => (...values) => { calls.push([name, ...values]); };
  const theme = (scheme) => {
    WebApp.colorScheme = scheme;
    WebApp.themeParams = {};
    for (const [name, value] of Object.entries(given.themes[scheme])) {
      WebApp.themeParams[name.replaceAll("-", "_")] = value;
      document.documentElement.style.setProperty(`--tg-theme-${name}`, value);
    }
  };
  // Telegram's own button, below the page and not of it.
  const main = document.createElement("button");
  main.id = "telegram-main-button";
  main.hidden = true;
  main.style.cssText = "position:fixed;z-index:9;left:0;right:0;bottom:0;border-radius:0;"
    + "background:#1f6fb2;color:#fff;height:3.4rem;max-width:none;font-weight:600";
  const WebApp = {
    initData: given.initData, version: given.version, calls,
    isVersionAtLeast: (version) => parseFloat(given.version) >= parseFloat(version),
    ready: note("ready"), expand: note("expand"), setHeaderColor: note("setHeaderColor"),
    disableVerticalSwipes: note("disableVerticalSwipes"),
    enableClosingConfirmation: note("enableClosingConfirmation"),
    disableClosingConfirmation: note("disableClosingConfirmation"),
    onEvent: (name, listener) => { listeners[name] = listener; },
    BackButton: {
      isVisible: false, onClick: (listener) => { WebApp.back = listener; },
      show() { this.isVisible = true; }, hide() { this.isVisible = false; },
    },
    MainButton: {
      setText(text) { main.textContent = text; },
      show() { document.body.append(main); main.hidden = false; }, hide() { main.hidden = true; },
      onClick: (listener) => main.addEventListener("click", listener),
      offClick: (listener) => main.removeEventListener("click", listener),
      showProgress: note("showProgress"), hideProgress: note("hideProgress"),
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
    ("Что подарить маме на день рождения?", "Вы говорили, что она любит **пионы** и *детективы*."),
    ("Завтра еду во Львов на поезде, в 7:40", "Хорошей дороги! Поезд в 7:40."),
)
TAUGHT = (
    "Я живу в Одессе", "Я живу во Львове", "У меня аллергия на орехи", "У меня есть кот Барсик",
    "Я люблю зелёный чай без сахара", "Хочу выучить польский до лета",
)  # fmt: skip
TALKED = json.dumps([chat("c1", "Мой велосипед стоит в подвале")]).encode()
MEMORIES = "- Любит зелёный чай\n- Живёт во Львове\n".encode()
# Without a model all facts are of one kind, and none replaces another.
MOVED = """
UPDATE memories old SET retired_at = now(), retired_reason = 'replaced', superseded_by = new.id
FROM memories new
WHERE old.owner_id = add_owner(%s, 0) AND old.text LIKE '%%Одессе'
  AND new.owner_id = old.owner_id AND new.text LIKE '%%Львове' RETURNING old.id
"""
KIND = """
UPDATE memories SET memory_type = 'preference'
WHERE owner_id = add_owner(%s, 0) AND text LIKE '%%чай%%' RETURNING id
"""


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
    version: str = "8.0",
) -> AsyncIterator[Page]:
    """Open the page as Telegram does for a user."""
    parameters = {
        "initData": signed(token, user, opened or datetime.now(UTC), language_code=language_code),
        "themes": THEMES,
        "scheme": scheme,
        "version": version,
    }
    context: BrowserContext = await browser.new_context(
        viewport=size or PHONE, has_touch=True, accept_downloads=True, color_scheme=scheme,  # type: ignore[arg-type]
        locale="uk-UA",
    )  # fmt: skip

    async def answer(route: Route) -> None:
        await route.fulfill(content_type="text/javascript", body=STUB % json.dumps(parameters))

    await context.route(f"{TELEGRAM_SCRIPT}*", answer)
    await context.add_init_script(WATCH)
    page = await context.new_page()
    await page.goto(f"{bot.http}/app/")
    try:
        yield page
    finally:
        await context.close()


async def talk(world: World, user: int = USER) -> None:
    """Teach the bot a few facts, and hold a short conversation."""
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
    world.query(KIND, user)
    world.query(MOVED, user)


async def open_tab(page: Page, name: str) -> None:
    """Open a section by its navigation button."""
    await page.get_by_role("navigation").get_by_role("button", name=name).click()
    await page.get_by_role("heading", level=1, name=name).wait_for()


# Records the used controls; similar ones (lines, kinds, numbers) share a name.
WATCH = """
window.nameOf = (node) => node.closest(".chips") ? "a kind"
  : node.matches(".row:not(.way) > .head[aria-expanded], .row .head:has(.quiet)") ? "a line"
  : (node.getAttribute("aria-label") || node.labels?.[0]?.textContent || node.textContent)
    .replace(/[0-9]+/g, "#");
window.used = new Set();
for (const kind of ["click", "change", "input"])
  document.addEventListener(kind, (event) => {
    const node = event.target.closest?.("button, input, textarea, select");
    if (node) window.used.add(nameOf(node));
  }, true);
"""
CONTROLS = """[...document.querySelectorAll("button, input, textarea, select")]
  .filter((node) => node.checkVisibility() && node.id !== "telegram-main-button").map(nameOf)"""
# Violations that axe-core finds in a scheme, without Telegram's own button.
VIOLATIONS = """async (scheme) => {
  Telegram.WebApp.repaint(scheme);
  const {violations} = await axe.run({exclude: ["#telegram-main-button"]});
  return violations.map((one) => [one.id, one.nodes.map((node) => node.html)]);
}"""


class Tour:
    """Visit that checks each screen in one or both schemes, and uses every control.

    Screens must be accessible (axe-core) and fit the width.

    Attributes:
        page: The page.
        seen: Names of all controls that were on a screen.
        made: Files of the pictures.
        exports: Contents of the exports, by file extension.
    """

    def __init__(self, page: Page, folder: Path, schemes: Sequence[str]) -> None:
        self.page = page
        self._schemes = schemes
        self.seen: set[str] = set()
        self.made: list[Path] = []
        self.exports: dict[str, str] = {}
        self._folder = folder

    async def look(self, picture: str = "") -> None:
        """Check the current screen, and take pictures of it if ``picture`` names it."""
        page = self.page
        await page.locator("[aria-busy], [aria-disabled]").first.wait_for(state="detached")
        width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], f"{picture} is {width}"
        self.seen |= set(await page.evaluate(CONTROLS))
        if not await page.evaluate("'axe' in window"):
            await page.evaluate(AXE)
        for scheme in self._schemes:
            violations = await page.evaluate(VIOLATIONS, scheme)
            assert not violations, f"{picture} {scheme}: {violations}"
            if picture:
                file = self._folder / f"webapp_{picture}_{scheme}.png"
                await page.screenshot(path=file)
                self.made.append(file)

    async def press(self, name: str, *, exact: bool = True) -> None:
        """Click a button by its name."""
        await self.page.get_by_role("button", name=name, exact=exact).first.click()

    async def save(self) -> None:
        """Click Telegram's main button below the page."""
        await self.page.locator("#telegram-main-button").click()

    async def back(self) -> None:
        """Press Telegram's back button above the page."""
        await self.page.evaluate("Telegram.WebApp.back()")

    async def said(self, text: str) -> None:
        """Wait until the note at the bottom contains a text."""
        await self.page.locator("#note").get_by_text(text).wait_for()

    def line(self, text: str) -> Locator:
        """Return the head of the first line that contains a text."""
        return self.page.locator(".row", has_text=text).first.locator(".head")

    async def undo(self) -> None:
        """Undo the change in the note at the bottom, and wait until it is undone."""
        await self.press("Вернуть")
        await self.page.locator("#note button").first.wait_for(state="detached")

    async def facts(self) -> None:
        """Search, sort, open, pin, locate, correct, undo and forget facts."""
        page = self.page
        await page.get_by_text("У меня аллергия на орехи").wait_for()
        await self.look("facts")
        await page.get_by_label("Порядок").select_option("newest")
        await page.get_by_role("button", name="Все").click()
        await page.get_by_label("Найти среди фактов").fill("коту")
        await page.get_by_text("аллергия").wait_for(state="detached")
        await self.line("кот Барсик").click()
        await self.look("fact")
        await self.press("Закрепить")
        await page.get_by_role("button", name="Открепить").click()
        await self.press("Показать в переписке")
        await page.locator(".found").wait_for()
        await self.look()
        await self.back()
        await self.press("Исправить")
        await page.get_by_label("Как правильно").fill("У меня есть кот Рыжик")
        await self.look()
        await self.save()
        await self.said("Запомнил")
        await self.look()
        await self.undo()
        await self.line("кот Барсик").click()
        await self.press("Забыть")
        await self.said("Забыто")
        await self.look()
        await self.press("Закрыть")
        await page.get_by_label("Найти среди фактов").fill("динозавр")
        await page.get_by_text("Ничего такого").wait_for()
        await self.look()
        await page.get_by_label("Найти среди фактов").fill("")

    async def talk(self) -> None:
        """Read the conversation, jump to a day and back, search, and open a result."""
        page = self.page
        await open_tab(page, "Переписка")
        await page.get_by_text("Поезд в 7:40.").wait_for()
        await self.look("talk")
        await page.get_by_label("Перейти к дню").fill("2020-01-01")
        await page.locator(".found").wait_for()
        await self.press("К последним")
        await page.get_by_label("Найти в переписке").fill("где ключи от дачи")
        await page.keyboard.press("Enter")
        found = self.line("Ключи от дачи лежат")
        await found.wait_for()
        await self.look("search")
        await found.click()
        await page.locator(".found").get_by_text("Ключи от дачи").wait_for()
        await self.look()
        await self.back()
        await found.wait_for()
        await self.back()

    async def reminders(self) -> None:
        """Create, undo, postpone, move and cancel reminders."""
        page = self.page
        await open_tab(page, "Напоминания")
        await page.get_by_text("Напоминаний впереди нет").wait_for()
        for words in ("завтра в 9 позвонить маме", "каждый понедельник в 8 вынести мусор"):
            await self.press("+ Новое напоминание")
            await page.get_by_label("О чём и когда").fill(words)
            await self.look()
            await self.save()
            await self.said(words[-14:])
        await self.undo()
        await page.get_by_text("вынести мусор").wait_for(state="detached")
        call = self.line("позвонить маме")
        for label in ("через 10 минут", "через час", "завтра в тот же час"):
            await call.click()
            await self.look("reminders" if label == "через 10 минут" else "")
            await self.press(label)
            await page.locator("[aria-expanded=true]").wait_for(state="detached")
        await call.click()
        await self.press("Перенести")
        await page.get_by_label("позвонить маме").fill("2030-01-01T10:30")
        await self.look()
        await self.save()
        await self.line("10:30").click()
        await self.press("Отменить")
        await page.get_by_text("Напоминаний впереди нет").wait_for()
        await self.undo()
        await self.line("10:30").wait_for()

    async def menu(self) -> None:
        """Choose every setting, read the stored data and usage, and export everything."""
        page = self.page
        await open_tab(page, "Факты")
        await open_tab(page, "Ещё")
        await page.get_by_text("Режим").wait_for()
        await self.look("menu")
        for name in ("Режим", "Длина ответов", "Память", "Спрашивать, как прошло"):
            await self.press(name, exact=False)
            await self.look()
            choices = page.locator(".head[aria-pressed]:visible")
            for place in reversed(range(await choices.count())):
                await choices.nth(place).click()
                await page.get_by_role("heading", name="Ещё").wait_for()
                await self.press(name, exact=False)
            await self.back()
        await self.press("Часовой пояс", exact=False)
        await page.get_by_label("Где вы живёте").fill("Прага")
        await self.look()
        await self.save()
        await self.said("Прага")
        for name in ("Что хранится", "Сколько израсходовано", "Кто вы для меня", "Мой день"):
            await self.press(name, exact=False)
            await self.look()
            await self.back()
        await self.bring()
        await self.press("Забрать всё", exact=False)
        await self.look()
        for label in ("Для чтения (Markdown)", "Для программ (JSON)"):
            async with page.expect_download() as downloading:
                await self.press(label)
            download = await downloading.value
            file = await download.path()
            self.exports[download.suggested_filename.rpartition(".")[2]] = await asyncio.to_thread(
                file.read_text, encoding="utf-8"
            )
        await self.back()
        await self.press("Язык", exact=False)
        await self.look()
        for label, menu in (("English", "More"), ("Українська", "Ще"), ("Русский", "Ещё")):
            await self.press(label)
            await page.get_by_role("heading", name=menu, exact=True).wait_for()
            await self.press({"More": "Language", "Ще": "Мова"}.get(menu, "Язык"), exact=False)
        await self.back()

    async def bring(self) -> None:
        """Bring a list of memories from another program, and decline."""
        page, name = self.page, "Перенести из другой программы"
        await self.press(name, exact=False)
        await self.look("import")
        memories = {"name": "memory.txt", "mimeType": "text/plain", "buffer": MEMORIES}
        await page.locator("input[type=file]").set_input_files(memories)
        await self.press("Отмена")
        await self.look()
        talk = {"name": "conversations.json", "mimeType": "application/json", "buffer": TALKED}
        await page.locator("input[type=file]").set_input_files(talk)
        await self.press(say("import_search", "ru"))
        done = say("import_done", "ru", name="ChatGPT", count="1")
        await page.get_by_text(done, exact=True).wait_for()
        await self.back()

    async def erase(self) -> None:
        """Decline the erasure, then confirm it twice."""
        page = self.page
        await self.press("Стереть всё обо мне", exact=False)
        await self.look()
        await self.press("Нет, оставить")
        await self.press("Стереть всё обо мне", exact=False)
        await self.press("Стереть всё")
        await self.look()
        await self.press("Да, стереть навсегда")
        await page.get_by_role("navigation").wait_for(state="detached")
        await self.look()

    async def unused(self) -> set[str]:
        """Return the controls that were on a screen but not used."""
        return self.seen - set(await self.page.evaluate("[...window.used]"))


async def tour_page(
    world: World,
    bot: BotProcess,
    browser: Browser,
    user: int,
    folder: Path,
    *,
    width: int = 390,
    schemes: Sequence[str] = tuple(THEMES),
) -> Tour:
    """Talk to the bot, tour all screens, and write the pictures to the folder."""
    await talk(world, user)
    await eventually(lambda: not world.query("SELECT 1 FROM unindexed_messages"), "the index")
    size = {**PHONE, "width": width}
    async with open_phone(browser, bot, world.telegram.token, user=user, size=size) as page:
        tour = Tour(page, folder, schemes)
        for part in (tour.facts, tour.talk, tour.reminders, tour.menu, tour.erase):
            await part()
        unused = await tour.unused()
        assert not unused, f"on a screen, and not used: {unused}"
    return tour
