"""Visit to the admin pages that checks accessibility and weight and presses every control.

Each page is checked in desktop and phone size, light and dark: axe-core finds no violation,
nothing is wider than the screen, the header takes one line, and the page weighs at most 60 kB.
"""

from __future__ import annotations

import re
from functools import partial
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
USER = 2**41 + 5
OF_USER = f"users/{USER}/0"
PAGES = {
    "overview": "", "usage": "usage?days=14&by=model", "failures": "failures", "queue": "queue",
    "batches": "batches", "people": "users", "person": "users/503/0/about",
    "talk": "users/503/0", "failed_turn": "users/503/0?msg=5041#msg-5041", "short_talk": OF_USER,
    "facts": f"{OF_USER}/facts?state=all", "refused": f"{OF_USER}/facts?state=refused",
    "no_facts": f"{OF_USER}/facts?q=nothing",
    "recall": f"{OF_USER}/recall?q=как+зовут+кота", "settings": "settings",
    "prices": "prices?model=openai:gpt-5-micro", "audit": "audit",
    "guesses": "audit?of=guesses", "missing": "nowhere",
}  # fmt: skip
MAX_BYTES = 60_000  # per page with its style sheet
WEIGHT = """performance.getEntriesByType("navigation")
    .concat(performance.getEntriesByType("resource"))
    .reduce((sum, one) => sum + one.decodedBodySize, 0)"""
PAINT = """new Promise((found) => new PerformanceObserver(
    (list) => found(list.getEntries()[0].startTime)).observe({type: "paint", buffered: true}))"""
# Records pressed controls and lists existing ones, by a label that is equal in all rows.
WATCH = """
window.nameOf = (node) => (node.getAttribute("aria-label") || node.textContent || node.name)
    .replace(/[0-9]+|openai:\\S+/g, "#").trim();
document.addEventListener("click", (event) => {
    const node = event.target.closest("button, summary, a");
    if (node) window.pressed(nameOf(node));
}, true);
"""
CONTROLS = """[...document.querySelectorAll(
    "main button, main summary, main .button, header button")]
    .filter((node) => node.checkVisibility()).map(nameOf)"""

# Two days of a small bot: messages, an outage of the model, failed jobs, a batch.
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
DELETE FROM growth_days;
INSERT INTO growth_days (day, people, messages, facts, bytes)
SELECT current_date - n, 60 - n, 9000 - 210 * n - n % 4 * 40, 1400 - 37 * n - n % 5 * 9,
       48000000 - n * 300000 FROM generate_series(0, 20) n;
INSERT INTO procrastinate_jobs (queue_name, task_name, status, attempts, args)
VALUES ('background', 'delete_unused_vectors', 'failed', 1, '{"timestamp": 1790000000}'),
       ('background', 'prune', 'failed', 1, '{"timestamp": 1790000000}'),
       ('people', 'handle_update', 'failed', 6, '{}'),
       ('people', 'handle_update', 'failed', 2, '{}'),
       ('people', 'handle_update', 'failed', 1, '{}');
INSERT INTO failures (failed_at, part, event, reason, job_id)
SELECT now() - interval '2 hours', 'queue', 'job failed', 'defect (KeyError)', id
FROM procrastinate_jobs WHERE task_name = 'prune' AND status = 'failed';
INSERT INTO job_deaths (job_id, deaths, put_aside_at)
SELECT id, 3, now() - interval '3 hours'
FROM procrastinate_jobs WHERE task_name = 'handle_update' AND status = 'failed';
INSERT INTO batch_jobs (provider, model, status, batch_id, requests, succeeded, failed)
VALUES ('openai', 'gpt-5-nano', 'completed', 'batch-1', 40, 38, 2);
UPDATE global_settings SET daily_tokens = 3000000;
"""

# A conversation of two days: Markdown, tool calls (one failed), sources, a failed turn.
TALK = """
INSERT INTO conversations (owner_id, telegram_user_id) VALUES (add_owner(503, 0), 503);
INSERT INTO messages (id, conversation_id, role, content, position, created_at, delivered_at)
OVERRIDING SYSTEM VALUE
SELECT 5000 + n, id, (ARRAY['user', 'assistant'])[1 + (n + 1) % 2],
       CASE WHEN n % 2 = 1 THEN 'What do I need for the trip, number ' || n || '?' ELSE
'## The list
For **Tbilisi** in May, as you said [1]:

1. A *light* coat; `+12 °C` in the evening
2. The papers of the car: see [the rules](https://example.org/rules)

| What | Where from | msg |
|---|---|---|
| Insurance | at the border | msg-5001 |

> We drive in May' END, n, now() - (60 - n) * interval '40 min', now()
FROM conversations, generate_series(1, 60) n WHERE telegram_user_id = 503;
INSERT INTO tool_results (conversation_id, message_id, name, arguments, result, error, duration_ms)
SELECT conversation_id, m.id, name, '{"query": "the trip in May", "limit": 5}', result, error, ms
FROM messages m, (VALUES
    ('search_memory', '1. We drive in May (msg-5001, fact-7)', NULL, 43),
    ('get_weather', 'The server of this tool does not answer.', 'TimeoutError', 20011)
) AS t (name, result, error, ms) WHERE m.id = 5059;
INSERT INTO answer_sources (answer_id, number, message_id)
SELECT id, 1, 5001 FROM messages WHERE id > 5000 AND id % 4 = 0;
UPDATE messages SET failed_at = created_at WHERE id = 5041;
INSERT INTO failures (failed_at, part, event, reason, owner_id)
SELECT failed_at, 'model', 'gave up on an update',
       'the model is unavailable (HTTP 429, RateLimitError)', add_owner(503, 0)
FROM messages WHERE id = 5041;
DELETE FROM messages WHERE id = 5042;
INSERT INTO owners (telegram_user_id, thread_id) VALUES (-1001, 4);
UPDATE owners SET seen_at = now() - abs(telegram_user_id - 503) * interval '5 h',
    name = (ARRAY['Anna', 'Борис', 'Анна'])[1 + telegram_user_id % 3] || ' '
           || chr(65 + (telegram_user_id % 26)::int) || '.',
    username = CASE WHEN telegram_user_id % 2 = 1 THEN 'user' || telegram_user_id END
WHERE telegram_user_id BETWEEN 500 AND 508;
INSERT INTO user_settings (owner_id, language, time_zone, inactive_since)
SELECT id, 'uk', 'Europe/Kyiv', CASE WHEN telegram_user_id = 506 THEN now() END
FROM owners WHERE telegram_user_id BETWEEN 502 AND 506;
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance, origin,
                      content_hash)
SELECT add_owner(503, 0), 'user_fact', 'I have ' || n || ' cats', 'user', 'other', 'x', 5,
       'tool', 'tour ' || n FROM generate_series(1, 12) n;
INSERT INTO reminders (owner_id, text, due_at, time_zone, language)
VALUES (add_owner(503, 0), 'Call the garage', date_trunc('hour', now()) + interval '2 days',
        'Europe/Kyiv', 'uk');
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT id, 1, 45, 'A trip to Tbilisi by car is planned for May.'
FROM conversations WHERE telegram_user_id = 503;
"""


# Facts of the user who talked: one that replaced another, a pinned one with two sources that
# contradicted another, and rejected ones.
FACTS = """
INSERT INTO memories (owner_id, memory_type, text, language, subject, relation, object,
                      importance, pinned, origin, content_hash, valid_from)
SELECT add_owner({user}, 0), kind, text, 'ru', 'user', relation, object, 6, is_pinned, 'tool',
       md5(text), since
FROM (VALUES ('user_fact', 'Живу в Харькове', 'lives_in', 'Харьков', false, NULL),
             ('user_fact', 'We moved to Prague last week', 'lives_in', 'Prague', false,
              current_date - interval '7 days'),
             ('user_fact', 'У меня кот Барсик', 'has_pet', 'Барсик', true, NULL),
             ('event', 'В мае едем в Грузию', 'travels_to', 'Грузию', false,
              current_date + interval '99 days'),
             ('user_fact', 'Кота зовут Мурзик', 'has_pet', 'Мурзик', false, NULL))
     AS told (kind, text, relation, object, is_pinned, since);
UPDATE memories old SET retired_at = now(), retired_reason = 'replaced', superseded_by = new.id
FROM memories new WHERE old.object = 'Харьков' AND new.object = 'Prague';
UPDATE memories old SET retired_at = now(), retired_reason = 'contradicted', superseded_by = new.id
FROM memories new WHERE old.object = 'Мурзик' AND new.object = 'Барсик';
INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)
SELECT f.id, m.id, 'msg-' || m.id, 'teach_msg-' || m.id, message_text(m.content), m.created_at
FROM memories f, messages m
WHERE m.role = 'user' AND (message_text(m.content) LIKE '%' || f.object || '%'
                           OR f.object = 'Барсик' AND message_text(m.content) LIKE '%кота%');
INSERT INTO rejected_facts (owner_id, message_id, reason, text, origin)
SELECT add_owner({user}, 0), max(id), reason, text, 'extraction' FROM messages,
     (VALUES ('secret', NULL), ('question', 'Как зовут моего кота?'),
             ('number_not_said', 'Барсику восемь лет')) AS refused (reason, text)
GROUP BY reason, text;
INSERT INTO changes (owner_id, kind, memory_id, merged_id, before)
SELECT owner_id, 'merged', superseded_by, id, '{"why": "contradiction", "sources": []}'
FROM memories WHERE object = 'Мурзик'
"""


def keep_facts(world: World) -> None:
    """Store facts of the user who talked."""
    execute(world.dsn, FACTS.replace("{user}", str(USER)))


def fill_operation(world: World) -> None:
    """Fill the database so that no page is empty."""
    execute(world.dsn, FILL + TALK)


async def _press(page: Page, name: str, *, role: Literal["button", "link"] = "button") -> None:
    await page.get_by_role(role, name=name).first.click()


class AdminTour:
    """Visit that checks each page and presses its controls.

    Attributes:
        seen: Names of the controls that were on a page.
        pressed: Names of the controls that were pressed.
        looked: Number of page checks.
        painted: Milliseconds to the first paint by page, with the CPU slowed down four times.
    """

    def __init__(self, bot: BotProcess, folder: Path | None = None, *, is_whole: bool) -> None:
        """Prepare a visit.

        Args:
            bot: The bot to visit.
            folder: Folder for pictures of all pages, or None.
            is_whole: True for all sizes and schemes with paint times; else dark phone only.
        """
        self._address = f"{bot.http}/admin"
        self._folder = folder
        self._is_whole = is_whole
        self.seen: set[str] = set()
        self.pressed: set[str] = set()
        self.looked = 0
        self.painted: dict[str, float] = {}

    async def take(self, browser: Browser, password: str) -> None:
        """Run the visit."""
        for width, height in SIZES:
            for scheme in SCHEMES:
                if not self._is_whole and (width, scheme) != (390, "dark"):
                    continue
                context = await browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                await context.expose_function("pressed", lambda name: self.pressed.add(name))
                await context.add_init_script(WATCH)
                page = await context.new_page()
                if self._is_whole:
                    session = await context.new_cdp_session(page)
                    await session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
                await page.goto(f"{self._address}/login")
                await self._look(page, "login", f"{width}_{scheme}")
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
        weight = await page.evaluate(WEIGHT)
        assert weight <= MAX_BYTES, f"{name} weighs {weight} bytes"
        if self._is_whole:
            self.painted[f"{name}_{variant}"] = await page.evaluate(PAINT)
        await page.evaluate(AXE)
        violations = await page.evaluate(VIOLATIONS)
        assert not violations, f"{name} {variant}: {violations}"
        wide, screen, header = await page.evaluate(
            "[document.documentElement.scrollWidth, innerWidth,"
            " document.querySelector('header')?.offsetHeight]"
        )
        assert wide <= screen, f"{name} {variant} is {wide} wide"
        assert (header or 0) <= 60, f"the header of {name} {variant} is {header} high"
        self.seen |= set(await page.evaluate(CONTROLS))
        self.looked += 1
        if self._folder is not None:
            await page.screenshot(path=self._folder / f"admin_{name}_{variant}.png")

    async def _press_everything(self, page: Page) -> None:
        await self._press_figures(page)
        await self._press_people(page)
        await self._press_facts(page)
        await self._press_the_rest(page)

    async def _press_figures(self, page: Page) -> None:
        """Use the queue, usage with its prices, and failures."""
        press = partial(_press, page)
        await page.goto(f"{self._address}/queue")
        await press("Retry job")
        await page.get_by_text("Drop", exact=True).last.click()
        await page.locator("details[open] button").click()
        await page.get_by_text("Put aside").first.wait_for()
        await press("Retry all")
        await page.get_by_text("no job has killed its process").wait_for()
        await page.goto(f"{self._address}/usage")
        for choice in ("Today", "30 days", "By purpose", "By person", "By day"):
            await press(choice, role="link")
            await page.locator(f"[aria-current]:text-is('{choice}')").wait_for()
        async with page.expect_download() as download:
            await press("Download CSV", role="link")
        assert (await download.value).suggested_filename.endswith(".csv")
        await press("Prices of the models", role="link")
        await page.get_by_label("Model", exact=True).fill("openai:other")
        new_model = page.get_by_role("group", name="One more model")
        for kind in ("Prompt", "Cached", "Completion"):
            await new_model.get_by_label(kind).fill("0,5")
        await new_model.get_by_role("button", name="Save").click()
        await page.get_by_text("Saved: openai:other.").wait_for()
        other = page.get_by_role("group", name="openai:other")
        await other.get_by_role("button", name="Reset").click()
        await other.wait_for(state="detached")
        await page.goto(f"{self._address}/failures")
        for choice in ("7 days", "Telegram"):
            await press(choice, role="link")

    async def _press_people(self, page: Page) -> None:
        """Use the list, one person's pages and conversation, and the erasure."""
        press = partial(_press, page)
        await page.goto(f"{self._address}/users")
        await page.get_by_label("Name, @username").fill("user503")
        await page.get_by_label("Show").select_option("People")
        await page.get_by_label("Sort by").select_option("Name")
        await press("Find")
        await page.get_by_text("@user501").wait_for(state="detached")
        await press("Анна J.", role="link")
        for name in ("Block", "Unblock"):
            await page.get_by_role("button", name=name, exact=True).click()
        for name, end in (("to read", ".md"), ("for programs", ".json")):
            async with page.expect_download() as download:
                await press(name)
            assert (await download.value).suggested_filename.endswith(end)
        await page.get_by_label("What would be recalled").fill("cats")
        await press("Recall")
        await page.get_by_text("The prompt that would be sent").wait_for()
        await press("Talk", role="link")
        await page.get_by_text("This is the newest message.").wait_for()
        assert await page.evaluate("scrollY > 0"), "it opens at its end"
        for name in ("search_memory", "get_weather"):
            await page.get_by_text(name).click()
        await page.get_by_text("1. We drive in May (").get_by_role("link", name="msg-5001").click()
        await page.locator("#msg-5001:target").wait_for()
        await page.get_by_label("Jump to a day").fill("2000-01-01")
        await press("Go")
        await press("Newer", role="link")
        await press("Older", role="link")
        await page.locator("#msg-5040").wait_for()
        await press("Person", role="link")
        await page.get_by_text("Erase everything").click()
        await page.get_by_label("Type 503").fill("503")
        await press("Erase for good")
        await page.get_by_text("erase everything").wait_for()

    async def _press_the_rest(self, page: Page) -> None:
        """Use settings, recall, batches, the menu, and log out."""
        press = partial(_press, page)
        await page.goto(f"{self._address}/settings")
        for group in await page.locator("main summary").all():
            await group.click()
        await press("Reset")
        await page.get_by_text(re.compile("^Saved. Tokens a day")).wait_for()
        await press("Save")
        await page.goto(f"{self._address}/users")
        await page.get_by_label("Name, @username or id").fill(str(USER))
        await press("Find")
        await press("Анна", role="link")
        await press("Recall", role="link")
        await page.get_by_label("Question").fill("кот")
        await press("Recall")
        await press("Menu")
        await press("Batches", role="link")
        await page.get_by_role("link", name="20").first.click()
        await self._look(page, "batch", "390_dark")
        await press("All batches", role="link")
        await press("Menu")
        await press("Log out")
        await page.get_by_role("button", name="Log in").wait_for()

    async def _press_facts(self, page: Page) -> None:
        await page.goto(f"{self._address}/{OF_USER}/facts")

        async def press(name: str, status: str) -> None:
            await page.get_by_role("button", name=re.compile(name)).first.click()
            await page.get_by_role("status").get_by_text(status).wait_for()

        await page.get_by_label("Kind").select_option("event")
        await page.get_by_role("button", name="Search").click()
        await press("^Pin", "Pinned")
        await page.get_by_role("link", name="Pinned").click()
        await press("^Unpin", "No longer pinned")
        await page.goto(f"{self._address}/{OF_USER}/facts")
        await page.get_by_text("Put together at night").click()
        await press("Take apart", "Taken apart")
        await page.goto(f"{self._address}/{OF_USER}/facts?fact=2")
        await page.locator("#fact-2 summary").last.click()
        await press("Undo the replacement", "Taken back")
        await page.goto(f"{self._address}/{OF_USER}/facts?fact=3")
        await page.get_by_label("Forget fact-3").click()
        await press("Forget it", "Forgotten")
        await press("Take back the last", "Taken back")
