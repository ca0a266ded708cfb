"""The page outside Telegram: its one-time links, its sessions, and who is kept out."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from src.base.config import Settings
from src.base.owners import Owner
from src.outside.connections import PageSessionRepository
from src.privacy.erasure_repo import ErasureRepository
from src.texts import LANGUAGES, Language, say
from src.web.app_api import HEADERS, TELEGRAM_SCRIPT, build_web_app
from src.web.app_gate import COOKIE
from tests.integration.person import Person, new_user
from tests.integration.web_page import STRANGER, TOKEN
from tests.tables import rows_of

PUBLIC = "https://bot.example.org"
pytestmark = pytest.mark.core(public_url=PUBLIC)
SAME = {"Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def open_browser(person: Person, token: str = TOKEN) -> AsyncIterator[httpx.AsyncClient]:
    app = build_web_app(person.core, token, lambda user_id: user_id != STRANGER)
    mounted = Starlette(routes=[Mount("/app", app)])
    transport = httpx.ASGITransport(mounted, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=PUBLIC, headers=SAME) as browser:
        browser.headers["Accept-Language"] = "uk-UA"
        yield browser


@pytest.fixture
async def browser(person: Person) -> AsyncIterator[httpx.AsyncClient]:
    async with open_browser(person) as opened:
        yield opened


async def ask_link(person: Person, user: int | None = None) -> str:
    """Write /page; returns the token of the link."""
    reply = await person.rig.run_command("page", user or person.user)
    [(address, token)] = re.findall(r"(https://\S+)#enter=([\w-]{43})(?=\s)", reply.text)
    assert address == f"{PUBLIC}/app/page"
    return str(token)


async def enter(browser: httpx.AsyncClient, link: Any, **headers: str) -> httpx.Response:
    return await browser.post("/app/api/enter", json={"link": link}, headers=headers)


def set_cookie(browser: httpx.AsyncClient, value: str) -> None:
    browser.cookies.clear()
    browser.cookies.set(COOKIE, value, domain="bot.example.org", path="/app/")


async def test_a_link_opens_the_page_once(person: Person, browser: httpx.AsyncClient) -> None:
    await person.tell("Я живу в Одессе")
    link = await ask_link(person)
    assert link not in json.dumps(rows_of(person.client.dsn, person.owner))
    assert (await browser.get("/app/api/facts")).status_code == 401
    entered = await enter(browser, link)
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "secure", "path=/app/", "max-age=2592000"):
        assert part in cookie
    found = (await browser.get("/app/api/facts")).json()
    assert [fact["text"] for fact in found["facts"]] == ["Я живу в Одессе"]
    async with open_browser(person) as other:
        again = await enter(other, link)
        assert again.status_code == 401 and again.json() == {"error": say("enter_over", "uk")}
        assert "set-cookie" not in again.headers
        refused = await other.get("/app/api/facts")
        assert refused.json() == {"error": say("enter_needed", "uk")}


async def test_a_link_is_void_after_ten_minutes_a_newer_one_or_an_erasure(
    person: Person, browser: httpx.AsyncClient
) -> None:
    old, link = await ask_link(person), await ask_link(person)
    assert (await enter(browser, old)).status_code == 401
    left = person.rows(
        "SELECT ends_at BETWEEN now() + interval '9 minutes' AND now() + interval '10 minutes'"
        " FROM page_sessions WHERE owner_id = %(owner)s"
    )
    assert left == [(True,)]
    person.client.execute("UPDATE page_sessions SET ends_at = now() - interval '1 second'")
    assert (await enter(browser, link)).status_code == 401
    link = await ask_link(person)
    ErasureRepository(person.client).erase(person.user)
    assert (await enter(browser, link)).status_code == 401


@pytest.mark.parametrize(
    "link", ["", "x", "A" * 43, "A" * 44, "A" * 20_000, 7, None, ["x"], "х" * 43]
)
async def test_forged_links_open_nothing(browser: httpx.AsyncClient, link: Any) -> None:
    response = await enter(browser, link)
    assert response.status_code == 401 and "set-cookie" not in response.headers


async def test_forged_cookies_open_nothing(person: Person, browser: httpx.AsyncClient) -> None:
    async with open_browser(person, "654321:other_token") as other:
        await enter(other, await ask_link(person))
        foreign = other.cookies[COOKIE]
    await enter(browser, await ask_link(person))
    good = browser.cookies[COOKIE]
    for cookie in (foreign, good[:-2], f"{good}x", good.swapcase(), "x", "", "a.b.c"):
        set_cookie(browser, cookie)
        assert (await browser.get("/app/api/facts")).status_code == 401
    set_cookie(browser, good)
    assert (await browser.get("/app/api/facts")).status_code == 200


async def test_other_sites_can_neither_enter_nor_act(
    person: Person, browser: httpx.AsyncClient
) -> None:
    await enter(browser, await ask_link(person))
    del browser.headers["Sec-Fetch-Site"]
    body = {"text": "кот"}
    for headers, status in (
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403), ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403), ({}, 403), ({"Origin": PUBLIC}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ):  # fmt: skip
        response = await browser.post("/app/api/search", json=body, headers=headers)
        assert response.status_code == status, headers
    link = await ask_link(person)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        response = await browser.post("/app/api/enter", json={"link": link}, headers=headers)
        assert response.status_code == 403 and "set-cookie" not in response.headers
    form = await browser.post("/app/api/enter", data={"link": link}, headers={"Origin": PUBLIC})
    assert form.status_code == 415
    assert (await enter(browser, link, Origin=PUBLIC)).status_code == 200


async def test_a_session_ends_by_logout_button_erasure_and_time(
    person: Person, browser: httpx.AsyncClient
) -> None:
    sessions = PageSessionRepository(person.client)
    await enter(browser, await ask_link(person))
    left = await browser.post("/app/api/leave", json={})
    assert left.status_code == 200 and f'{COOKIE}=""' in left.headers["set-cookie"]
    assert (await browser.get("/app/api/facts")).status_code == 401
    await enter(browser, await ask_link(person))
    reply = await person.rig.run_command("page", person.user)
    [[close]] = reply.rows
    assert close.label == say("enter_close", "ru", count=1)
    stranger = new_user()
    assert (await person.rig.press(close, stranger)).text == say("enter_none", "ru")
    assert (await browser.get("/app/api/facts")).status_code == 200
    assert (await person.rig.press(close, person.user)).text == say("enter_closed", "ru")
    assert (await browser.get("/app/api/facts")).status_code == 401
    assert (await person.rig.press(close, person.user)).text == say("enter_none", "ru")
    await enter(browser, await ask_link(person))
    ErasureRepository(person.client).erase(person.user)
    assert (await browser.get("/app/api/facts")).status_code == 401
    await enter(browser, await ask_link(person))
    assert (await browser.get("/app/api/facts")).status_code == 200
    assert sessions.count_open(person.owner) == 1
    person.client.execute("UPDATE page_sessions SET ends_at = now() - interval '1 second'")
    assert (await browser.get("/app/api/facts")).status_code == 401


async def test_the_blocked_and_strangers_are_kept_out(
    person: Person, browser: httpx.AsyncClient
) -> None:
    await enter(browser, await ask_link(person))
    person.core.user_settings.set_blocked(person.user, is_blocked=True)
    assert (await browser.get("/app/api/facts")).status_code == 403
    await enter(browser, await ask_link(person, STRANGER))
    assert (await browser.get("/app/api/facts")).status_code == 403


async def test_nobody_acts_in_the_session_of_another(
    person: Person, browser: httpx.AsyncClient
) -> None:
    other = Person(person.rig, new_user())
    await other.tell("Я живу в Секретограде")
    [theirs] = await other.living()
    await enter(browser, await ask_link(person))
    assert (await browser.post(f"/app/api/facts/{theirs.id}/forget", json={})).status_code == 404
    session = other.rows("SELECT 1 FROM page_sessions WHERE owner_id = %(owner)s")
    assert session == []
    sessions = PageSessionRepository(person.client)
    link = sessions.add_link(other.owner)
    opened = sessions.open(link)
    assert sessions.close(Owner(person.user)) == 1, "one's own alone"
    assert opened is not None and sessions.count_open(other.owner) == 1


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_page_needs_no_telegram_and_tells_nobody_where_it_was(
    person: Person, browser: httpx.AsyncClient, language: Language
) -> None:
    page = await browser.get("/app/page", headers={"Accept-Language": language})
    assert TELEGRAM_SCRIPT not in page.text and "{" not in page.text
    assert say("enter_about", language) in page.text
    assert page.headers["referrer-policy"] == HEADERS["Referrer-Policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    inside = await browser.get("/app/")
    assert TELEGRAM_SCRIPT in inside.text and 'id="enter"' not in inside.text
    reply = await person.rig.run_command("page", -person.user, language=language)
    assert reply.text == say("enter_in_private", language)


async def test_too_many_tries_are_refused(browser: httpx.AsyncClient) -> None:
    statuses = [(await enter(browser, "x")).status_code for _ in range(260)]
    assert statuses[:200] == [401] * 200 and statuses[-1] == 429


@pytest.mark.core
async def test_without_a_public_address_there_is_none(person: Person) -> None:
    assert Settings().page_url is None
    reply = await person.rig.run_command("page", person.user)
    assert reply.text == say("enter_off", "ru")
    async with open_browser(person) as browser:
        assert (await browser.get("/app/page")).status_code == 404
        assert (await browser.post("/app/api/enter", json={"link": "x"})).status_code in (404, 405)
