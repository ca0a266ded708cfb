"""One's memory outside Telegram, of a running bot: in a browser by a link, and lent over MCP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import Browser, Page

from src.texts import say
from src.web.app_api import TELEGRAM_SCRIPT
from tests.e2e.admin_tour import CHROMIUM, open_browser
from tests.e2e.bot_process import BotProcess, World, open_world
from tests.e2e.web_app_tour import PUBLIC, open_tab
from tests.integration.person import new_user

FACT = "У меня аллергия на орехи"


@pytest.fixture(scope="module")
async def bot(shared_dsn: str) -> AsyncIterator[tuple[World, BotProcess]]:
    """A bot with both ways to the memory, for the whole file; each test is somebody else."""
    async with open_world(shared_dsn) as world:
        yield world, await world.start(**PUBLIC, MEMORY_SERVER="on")


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium to look at the page with")
    async with open_browser() as opened:
        yield opened


async def say_to_bot(world: World, user: int, text: str) -> str:
    """Write to the bot; returns its answer."""
    number = len(world.answers(user)) + 1
    await world.telegram.send_text(user, text, language_code="ru")
    return (await world.telegram.wait_sent(user, number))[-1].text


async def test_a_link_opens_the_memory_in_a_browser_once(
    bot: tuple[World, BotProcess], browser: Browser
) -> None:
    world, process = bot
    user = new_user()
    await say_to_bot(world, user, f"/remember {FACT}")
    text = await say_to_bot(world, user, "/page")
    [link] = re.findall(r"#enter=[\w-]{43}", text)
    asked: list[str] = []
    context = await browser.new_context(locale="uk-UA")
    page = await context.new_page()
    page.on("request", lambda request: asked.append(f"{request.url} {request.headers}"))
    page.on("pageerror", lambda error: asked.append(f"error: {error}"))
    await page.goto(f"{process.http}/app/page{link}")
    await page.get_by_text(say("enter_about", "uk")).wait_for()
    assert "enter=" not in page.url
    assert world.query("SELECT opened_at FROM page_sessions WHERE link_hash IS NOT NULL")
    await page.get_by_role("button", name=say("enter_button", "uk")).click()
    await page.get_by_text(FACT).wait_for()
    await page.reload()
    await page.get_by_text(FACT).wait_for()
    [(message,)] = world.query(
        "SELECT message_id FROM facts WHERE telegram_user_id = %s AND text = %s", user, FACT
    )
    await page.goto("about:blank")
    await page.goto(f"{process.http}/app/page#msg-{message}")  # as another assistant cites it
    await page.locator(f'.found[data-message="{message}"]').wait_for()
    await page.goto("about:blank")
    await page.goto(f"{process.http}/app/page{link}")  # once more, in the browser that used it
    await page.get_by_role("button", name=say("enter_button", "uk")).click()
    await page.get_by_text(FACT).wait_for()

    other = await browser.new_context(locale="uk-UA")
    late = await other.new_page()
    await late.goto(f"{process.http}/app/page{link}")
    await late.get_by_role("button", name=say("enter_button", "uk")).click()
    await refusal(late, say("enter_over", "uk"))
    await other.close()

    await open_tab(page, say("page_menu", "ru"))  # in the language that the person speaks
    await page.get_by_role("button", name=say("page_leave", "ru")).click()
    await page.get_by_text(say("page_left", "ru")).wait_for()
    await page.reload()
    await refusal(page, say("enter_needed", "uk"))
    await context.close()
    token = link.partition("=")[2]
    assert not [one for one in asked if token in one or "error:" in one]
    assert not [one for one in asked if TELEGRAM_SCRIPT in one]
    assert token not in process.logs()


async def refusal(page: Page, sentence: str) -> None:
    """Wait for the sentence that says why nothing is shown."""
    await page.get_by_role("alert").filter(has_text=sentence).wait_for()


async def test_another_assistant_reads_and_stores_by_a_token_of_the_chat(
    bot: tuple[World, BotProcess],
) -> None:
    world, process = bot
    user = new_user()
    await say_to_bot(world, user, f"/remember {FACT}")
    shown = await say_to_bot(world, user, "/connect Claude Code")
    token = re.findall(r"pomni_[\w-]{43}", shown)[0]
    world.query(
        "UPDATE memory_tokens SET may_remember = true WHERE owner_id = add_owner(%s, 0)"
        " RETURNING id",
        user,
    )
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30) as http,
        streamable_http_client(f"{process.http}/mcp", http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        found = await session.call_tool("search", {"query": "аллергия"})
        assert found.structuredContent is not None
        [cited] = [
            one["url"] for one in found.structuredContent["results"] if one["title"] == FACT
        ]
        assert re.fullmatch(r"http://127\.0\.0\.1:1/app/page#msg-\d+", cited)
        stored = await session.call_tool("remember", {"text": "Пишет на Rust"})
        assert stored.structuredContent is not None and stored.structuredContent["saved"]
    kept = "SELECT speaker FROM facts WHERE telegram_user_id = %s AND origin = 'connected'"
    assert world.query(kept, user) == [("Claude Code",)]
    assert token not in process.logs() and "аллергия" not in process.logs()
    calls = [line for line in process.lines if line.get("event") == "a lent tool was called"]
    assert {line["tool"] for line in calls} == {"search", "remember"}
    assert {line["user_id"] for line in calls} == {user}
