"""A visit to the admin pages about operation: every control pressed once, nobody kept out.

Each page is looked at on a desk and on a phone, light and dark: axe-core finds nothing, nothing is
wider than the screen, and the header takes one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import axe_playwright_python
from playwright.async_api import Browser, Page

from tests.conftest import execute
from tests.e2e.bot_process import BotProcess, World

AXE = (Path(axe_playwright_python.__file__).with_name("axe.min.js")).read_text(encoding="utf-8")
VIOLATIONS = """async () => (await axe.run()).violations.map(
    (one) => [one.id, one.nodes.map((node) => node.html)])"""
SIZES = ((1280, 900), (390, 844))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = {
    "overview": "", "usage": "usage?days=14&by=model", "failures": "failures", "queue": "queue",
    "batches": "batches",
}  # fmt: skip
# What was pressed, and what there is to press: a control by what it says, the same in each row.
WATCH = """
window.nameOf = (node) => (node.getAttribute("aria-label") || node.textContent || node.name)
    .replace(/[0-9]+|openai:\\S+/g, "#").trim();
document.addEventListener("click", (event) => {
    const node = event.target.closest("button, summary, a");
    if (node) window.pressed(nameOf(node));
}, true);
"""
CONTROLS = """[...document.querySelectorAll("main button, main summary, header button")]
    .filter((node) => node.checkVisibility()).map(nameOf)"""

# Two days of a small bot: messages, an outage of the model, jobs that failed, a batch.
FILL = """
INSERT INTO telegram_updates (bot_id, update_id, kind, chat_id, user_id, payload, received_at,
                              first_word_at, handled_at, outcome)
SELECT 7, 9000 + n, 'message', 500 + n % 9, 500 + n % 9, '{}', at,
       at + interval '1 s' * (0.7 + n % 5 * 0.2), at + interval '1 s' * (2 + n % 11 * 0.6),
       CASE WHEN n % 40 = 7 THEN 'failed' ELSE 'done' END
FROM generate_series(1, 190) n,
     LATERAL (SELECT now() - interval '7 min' * (n + n % 13) AS at) AS t;
INSERT INTO failures (failed_at, part, event, reason, owner_id, update_id)
SELECT handled_at, 'model', 'gave up on an update',
       'the model is unavailable (HTTP 429, RateLimitError)', add_owner(user_id, 0), id
FROM telegram_updates WHERE outcome = 'failed';
INSERT INTO failures (failed_at, part, event, reason, times)
VALUES (now() - interval '5 hours', 'embeddings', 'the search goes by words alone',
        'the model could not be reached (ConnectError)', 14),
       (now() - interval '9 hours', 'telegram', 'will try again',
        'Telegram gave no answer within 30 s', 3);
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, created_at, error)
SELECT add_owner(500 + n % 9, 0), (ARRAY['answer', 'summary', 'extract', 'picture'])[1 + n % 4],
       (ARRAY['openai:gpt-5-mini', 'openai:gpt-5-nano'])[1 + (n % 4) / 2],
       9000 + 700 * (n % 7), 6000, 300 + 20 * (n % 9), 900 + 60 * (n % 30),
       now() - interval '95 min' * n,
       CASE WHEN n % 50 = 3 THEN 'the model is unavailable (HTTP 429, RateLimitError)' END
FROM generate_series(1, 200) n;
INSERT INTO model_prices VALUES ('openai:gpt-5-mini', 0.25, 0.025, 2),
                                ('openai:gpt-5-nano', 0.05, 0.005, 0.4);
INSERT INTO growth_days (day, people, messages, facts, bytes)
SELECT current_date - n, 60 - n, 9000 - 210 * n - n % 4 * 40, 1400 - 37 * n - n % 5 * 9,
       48000000 - n * 300000 FROM generate_series(0, 20) n;
INSERT INTO procrastinate_jobs (queue_name, task_name, status, attempts, args)
VALUES ('memory', 'delete_unused_vectors', 'failed', 1, '{"timestamp": 1790000000}'),
       ('housekeeping', 'prune', 'failed', 1, '{"timestamp": 1790000000}'),
       ('turns', 'handle_update', 'failed', 6, '{}'),
       ('turns', 'handle_update', 'failed', 2, '{}'),
       ('turns', 'handle_update', 'failed', 1, '{}');
INSERT INTO failures (failed_at, part, event, reason, job_id)
SELECT now() - interval '2 hours', 'queue', 'job failed', 'defect (KeyError)', id
FROM procrastinate_jobs WHERE task_name = 'prune' AND status = 'failed';
INSERT INTO job_deaths (work, task, queue, job_id, deaths, put_aside_at)
SELECT 'job ' || id, task_name, queue_name, id, 3, now() - interval '3 hours'
FROM procrastinate_jobs WHERE task_name = 'handle_update' AND status = 'failed';
INSERT INTO batch_jobs (provider, model, status, batch_id, requests, succeeded, failed)
VALUES ('openai', 'gpt-5-nano', 'completed', 'batch-1', 40, 38, 2);
UPDATE global_settings SET daily_tokens = 3000000;
"""


def fill_operation(world: World) -> None:
    """Something to be seen on each page."""
    execute(world.dsn, FILL)


class OperationTour:
    """Looks at each page and presses what is there.

    Attributes:
        seen: The controls that were on a page, by name.
        pressed: Those that were pressed.
        made: The pictures.
    """

    def __init__(self, bot: BotProcess, folder: Path) -> None:
        self._address = f"{bot.http}/admin"
        self._folder = folder
        self.seen: set[str] = set()
        self.pressed: set[str] = set()
        self.made: list[Path] = []

    async def take(self, browser: Browser, password: str) -> None:
        """The whole visit."""
        for width, height in SIZES:
            for scheme in SCHEMES:
                context = await browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                await context.expose_function("pressed", lambda name: self.pressed.add(name))
                await context.add_init_script(WATCH)
                page = await context.new_page()
                await page.goto(f"{self._address}/login")
                await page.get_by_label("Password").fill(password)
                await page.get_by_role("button", name="Log in").click()
                await page.get_by_role("heading", name="Overview").wait_for()
                for name, path in PAGES.items():
                    await page.goto(f"{self._address}/{path}")
                    await self._look(page, name, f"{width}_{scheme}")
                if (width, scheme) == (390, "dark"):
                    await self._press_everything(page)
                await context.close()

    async def _look(self, page: Page, name: str, variant: str) -> None:
        await page.evaluate(AXE)
        violations = await page.evaluate(VIOLATIONS)
        assert not violations, f"{name} {variant}: {violations}"
        wide, screen, header = await page.evaluate(
            "[document.documentElement.scrollWidth, innerWidth,"
            " document.querySelector('header').offsetHeight]"
        )
        assert wide <= screen, f"{name} {variant} is {wide} wide"
        assert header <= 60, f"the header of {name} {variant} is {header} high"
        self.seen |= set(await page.evaluate(CONTROLS))
        file = self._folder / f"admin_{name}_{variant}.png"
        await page.screenshot(path=file, full_page=True)
        self.made.append(file)

    async def _press_everything(self, page: Page) -> None:
        """Every button and form, and every link of the tabs and of the menu."""

        async def press(name: str, *, role: Literal["button", "link"] = "button") -> None:
            await page.get_by_role(role, name=name).first.click()

        await page.goto(f"{self._address}/queue")
        await press("Retry job")
        await page.get_by_text("Drop", exact=True).last.click()
        await page.locator("details[open] button").click()
        await page.get_by_text("Quarantined").first.wait_for()
        await press("Retry all")
        await page.get_by_text("no job has killed its process").wait_for()
        await page.goto(f"{self._address}/usage")
        for choice in ("Today", "30 days", "By purpose", "By person", "By day"):
            await press(choice, role="link")
            await page.locator(f"[aria-current]:text-is('{choice}')").wait_for()
        async with page.expect_download() as told:
            await press("Download CSV", role="link")
        assert (await told.value).suggested_filename.endswith(".csv")
        await page.get_by_label("Model", exact=True).fill("openai:other")
        await page.get_by_label("Prompt", exact=True).fill("0,5")
        await press("Set price")
        await page.get_by_role("button", name="Delete the price of openai:other").click()
        await page.get_by_role("button", name="Delete the price of openai:other").wait_for(
            state="detached"
        )
        await page.goto(f"{self._address}/failures")
        for choice in ("7 days", "Telegram"):
            await press(choice, role="link")
        await press("Menu")
        await press("Batches", role="link")
        await page.get_by_role("link", name="20").first.click()
        await press("All batches", role="link")
        await press("Menu")
        await press("Log out")
        await page.get_by_role("button", name="Log in").wait_for()
