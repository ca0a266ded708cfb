"""The admin page in a browser: what is changed there holds elsewhere, and nothing hostile runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.e2e.admin_tour import CHROMIUM, PASSWORD, PHONE, log_in, open_browser
from tests.e2e.bot_command import Machine, say_to
from tests.e2e.bot_process import BotProcess, World, open_world
from tests.fakes import PATIENCE
from tests.integration.person import new_user

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="the admin page is not looked at: there is no chromium"
)

MARK = "window.__xss=(window.__xss||0)+1"
# Of the usual kinds: elements, attributes, addresses, templates, encodings, ends of contexts.
HOSTILE = (
    f"<script>{MARK}</script>",
    f"<ScRiPt>{MARK}</sCrIpT>",
    f'<img src=x onerror="{MARK}">',
    f"<svg onload={MARK}>",
    f"<svg><script>{MARK}</script></svg>",
    f"<body onload={MARK}>",
    f"<iframe srcdoc='<script>parent.{MARK}</script>'>",
    f'<iframe src="javascript:{MARK}">',
    f'<a href="javascript:{MARK}">x</a>',
    f"javascript:{MARK}",
    f"<details open ontoggle={MARK}>",
    f"<input autofocus onfocus={MARK}>",
    f"<video><source onerror={MARK}></video>",
    f"<math><mtext><img src=x onerror={MARK}></mtext></math>",
    "<style>@import 'x'</style>",
    f"<style>*{{background:url(javascript:{MARK})}}</style>",
    "<link rel=stylesheet href=//x.invalid>",
    f'<meta http-equiv=refresh content="0;url=javascript:{MARK}">',
    "<base href=//x.invalid/>",
    "<form action=//x.invalid><button>x</button></form>",
    f'<object data="javascript:{MARK}">',
    f'<embed src="javascript:{MARK}">',
    f'"><script>{MARK}</script>',
    f"'><script>{MARK}</script>",
    f"</textarea><script>{MARK}</script>",
    f"</title><script>{MARK}</script>",
    f"</style><script>{MARK}</script>",
    f"</pre><script>{MARK}</script>",
    f"--><script>{MARK}</script>",
    f"]]><script>{MARK}</script>",
    f'" autofocus onfocus="{MARK}',
    f"' onmouseover='{MARK}",
    "{{ 7*7 }}{% include '/etc/passwd' %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    f"&lt;script&gt;{MARK}&lt;/script&gt;",
    f"&#60;script&#62;{MARK}&#60;/script&#62;",
    f"\\u003cscript\\u003e{MARK}\\u003c/script\\u003e",
    f"%3Cscript%3E{MARK}%3C/script%3E",
    f"<scr\u200bipt>{MARK}</scr\u200bipt>",
    f"\u202e<script>{MARK}</script>",
    f"<template><script>{MARK}</script></template>",
    f"<noscript><img src=x onerror={MARK}></noscript>",
    "x" * 900,
    "слово " * 80,
)
FACT = """
INSERT INTO memories (owner_id, memory_type, text, language, subject, relation, object,
                      importance, origin, content_hash)
SELECT add_owner(%s, 0), 'user_fact', t, 'en', left(t, 60), 'likes', left(t, 60), 5, 'tool', md5(t)
FROM unnest(%s::text[]) AS t RETURNING id
"""
MESSAGES = """
WITH chat AS (INSERT INTO conversations (owner_id, telegram_user_id)
              SELECT add_owner(u, 0), u FROM (SELECT %s::bigint AS u) AS who RETURNING id)
INSERT INTO messages (conversation_id, role, content, speaker, position)
SELECT chat.id, 'user', t, left(t, 60), n FROM chat, unnest(%s::text[]) WITH ORDINALITY AS h (t, n)
RETURNING id
"""
ANSWERS = (
    MESSAGES.replace("(owner_id, telegram_user_id)", "(owner_id, telegram_user_id, thread_id)")
    .replace("0), u FROM", "0), u, 1 FROM")
    .replace("'user'", "'assistant'")
)
REFUSED = """
INSERT INTO rejected_facts (owner_id, reason, text, origin)
SELECT add_owner(%s, 0), 'r', t, 'tool' FROM unnest(%s::text[]) AS t RETURNING id
"""
SPENT = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms)
SELECT add_owner(%s, 0), 'answer', left(t, 190), 5, 1, 2, 3
FROM unnest(%s::text[]) AS t RETURNING id
"""


LIMIT = "UPDATE global_settings SET daily_messages_per_user = %s RETURNING 1"


@pytest.fixture(scope="module")
async def world(shared_dsn: str) -> AsyncIterator[World]:
    """A world for the whole file; each test looks at somebody else."""
    async with open_world(shared_dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
async def bot(world: World) -> BotProcess:
    """A bot with an admin page, for the whole file."""
    return await world.start(ADMIN_PASSWORD=PASSWORD)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser that asks nobody for anything."""
    async with open_browser() as opened:
        yield opened


@pytest.fixture
async def page(browser: Browser, bot: BotProcess) -> AsyncIterator[Page]:
    """A tab on a phone in which somebody has logged in."""
    context = await browser.new_context(viewport=PHONE, has_touch=True)  # type: ignore[arg-type]
    opened = await context.new_page()
    await log_in(opened, bot.http)
    yield opened
    await context.close()


async def test_a_setting_is_in_force_in_another_process_without_a_restart(
    world: World, bot: BotProcess, page: Page, tmp_path: Path
) -> None:
    [(before,)] = world.query("SELECT daily_messages_per_user FROM global_settings")
    console = await Machine(tmp_path, {"DATABASE_URL": world.dsn}).start("console", "--json")
    assert "limit" not in (await say_to(console, "Hello there")).lower()
    await page.goto(f"{bot.http}/admin/settings")
    field = page.get_by_label("Messages a day, each user")
    await field.fill("1")
    await field.press("Enter")  # saves; it sets nothing back
    await page.get_by_text(re.compile("^Saved. Messages a day, each user: . → 1")).wait_for()
    assert await field.input_value() == "1"

    reply = ""
    async with asyncio.timeout(PATIENCE):
        while "сегодня ваш лимит" not in reply:
            await asyncio.sleep(0.2)
            reply = json.loads(await say_to(console, "And now?"))["reply"]
    console.kill()
    await console.wait()
    world.query(LIMIT, before)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.proof)])
async def test_hostile_texts_run_nowhere_and_fit_on_a_phone(
    world: World, bot: BotProcess, page: Page, every: int
) -> None:
    anna, texts = new_user(), list(HOSTILE)
    for statement in (MESSAGES, ANSWERS, FACT, REFUSED, SPENT):
        assert len(world.query(statement, anna, texts)) >= 40
    heard: list[str] = []
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    page.on("console", lambda line: heard.append(line.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    of_anna = f"users/{anna}/0"
    views = ["", "usage", "settings", "audit", "users", "batches", "queue", of_anna]
    views += [f"users/{anna}/1", f"users/{anna}/1?after=0", f"{of_anna}/facts"]
    views += [f"{of_anna}/facts?state=refused", f"{of_anna}/recall?q=likes"]
    for view in views:
        await page.goto(f"{bot.http}/admin/{view}")
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], f"/{view} is {width} wide"
        assert await page.evaluate("window.__xss") is None, view
        counted = (
            "document.querySelectorAll('script, iframe, object, embed, img, base, video').length"
        )
        assert await page.evaluate(counted) == 0, view
    shown = await _texts_of(page, f"{bot.http}/admin/{of_anna}", ".bubble .text")
    assert shown == texts[-len(shown) :] and len(shown) >= 40, "shown as they were written"
    await page.goto(f"{bot.http}/admin/{of_anna}/recall")
    for text in texts[::every]:  # typed into the field in which the one before stands
        await page.get_by_label("Question").fill(text)
        await page.get_by_role("button", name="Recall").click()
        assert await page.evaluate("window.__xss") is None, text
    assert heard == [], "nothing ran, and nothing had to be kept from running"
    assert all(url.startswith((bot.http, "data:")) for url in asked)


async def _texts_of(page: Page, address: str, selector: str) -> list[str]:
    await page.goto(address)
    return [str(await found.text_content()) for found in await page.locator(selector).all()]
