"""The admin page over HTTP: nothing without the password, forms of ours alone, texts as texts."""

from __future__ import annotations

import asyncio
import html
import re
from urllib.parse import unquote
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from src.web.admin_access import AdminAccess, Role
from src.web.admin_lists import LIST_PAGES
from src.web.admin_pages import HEADERS, admin_routes, build_admin_app
from src.web.admin_site import AdminSite
from src.web.http_server import HttpServer
from tests.integration.admin_browser import (
    PASSWORD,
    USER,
    Browser,
    access,
    browser,
    log_in,
    token,
)
from tests.integration.person import Person, Rig

READER = "only the figures"
HOSTILE = (
    "<script>window.__xss=1</script>", "<img src=x onerror=window.__xss=1>",
    "\"><svg onload=window.__xss=1>",
    "{{7*7}}${7*7}", "'-alert(1)-'", "javascript:window.__xss=1", "</textarea><script>1</script>",
)  # fmt: skip


def requests(rig: Rig) -> list[tuple[str, str]]:
    """Method and path of all that the page answers, but for the login and what is static."""
    found = []
    for route in admin_routes(AdminSite(rig.core, access())):
        if not isinstance(route, Route) or route.path.startswith("/log"):
            continue
        path = route.path.replace("{user}", str(USER)).replace("{action:str}", "forget")
        path = re.sub(r"{\w+:uuid}", str(UUID(int=0)), re.sub(r"{\w+:int}", "0", path))
        found += [(method, path) for method in sorted((route.methods or set()) - {"HEAD"})]
    assert len(found) > 15
    return found


async def test_nothing_is_shown_or_done_without_the_password(rig: Rig, http: Browser) -> None:
    somebody = Person(rig, user=USER)
    await somebody.say("секретный кот", "ответ")
    for method, path in [*requests(rig), ("POST", "/logout")]:
        for cookie in ("", "pomni_admin=forged", "pomni_admin="):
            response = await http.request(method, path, headers={"cookie": cookie})
            there = response.headers["location"].partition("?next=")
            assert (response.status_code, there[0]) == (303, "/login"), path
            is_shown = method == "GET" and path != "/"
            assert unquote(there[2]) == (path if is_shown else "")
            assert response.text == ""
            for name, value in HEADERS.items():
                assert response.headers[name] == value
    assert (await http.get("/static/admin.css")).status_code == 200
    for path in ("/static/../admin_pages.py", "/static/%2e%2e/admin_pages.py", "/nowhere"):
        assert (await http.get(path)).status_code in (404, 405)


def from_address(app: Starlette, address: str, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://bot", headers=headers)


async def test_guesses_are_slowed_down_and_keep_no_operator_out(rig: Rig) -> None:
    app = build_admin_app(rig.core, access())
    async with from_address(app, "203.0.113.1") as own:
        assert await log_in(own) == 303
        statuses = []
        for number in range(40):
            async with from_address(app, f"2001:db8:0:{number // 4}::{number}") as stranger:
                statuses.append(await log_in(stranger, f"guess {number}"))
        # Three of a network of the sixth version, twenty of all; one more in five seconds.
        assert 20 <= statuses.count(401) <= 24 and set(statuses) == {401, 429}
        assert all(statuses[n] == 429 for n in range(3, 40, 4))
        async with from_address(app, "203.0.113.9") as newcomer:
            late = await newcomer.post("/login", data={"password": PASSWORD})
        assert late.status_code == 429 and int(late.headers["retry-after"]) >= 1
        assert "pomni_admin" not in late.cookies
        own.cookies.delete("pomni_admin")
        assert await log_in(own, "oops") == 401 and await log_in(own) == 303
        assert [await log_in(own, "oops") for _ in range(4)] == [401, 401, 429, 429]
    by_proxy = {"x-forwarded-for": "127.0.0.1"}
    async with from_address(app, "127.0.0.1", **by_proxy) as stranger:
        assert await log_in(stranger) == 429
    async with from_address(app, "127.0.0.1") as tunnel:
        assert await log_in(tunnel) == 303


@pytest.mark.parametrize(("proxies", "told"), [
    ((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.0/8",), "198.51.100.7"),
])  # fmt: skip
async def test_only_trusted_proxies_tell_who_asks(
    rig: Rig, proxies: tuple[str, ...], told: str
) -> None:
    """What the client wrote before the proxy's own word is believed of nobody."""
    app = Starlette(routes=[Mount("/admin", build_admin_app(rig.core, access()))])
    server = HttpServer(app, "127.0.0.1", 0, proxies)
    server.bind()
    running = asyncio.create_task(server.serve_bound())
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/admin") as client:
            forged = {"x-forwarded-for": "192.0.2.1, 198.51.100.7"}
            await client.post("/login", data={"password": "no"}, headers=forged)
    finally:
        server.stop()
        await running
    assert rig.rows("SELECT who, address, action FROM admin_actions") == [
        ("", told, "wrong password")
    ]


async def test_a_session_ends_with_its_logout_everywhere_and_with_the_password(
    rig: Rig, http: Browser
) -> None:
    secure = await http.post(
        "/login", data={"password": PASSWORD}, headers={"x-forwarded-proto": "https"}
    )
    assert secure.headers["set-cookie"].count("Secure") == 2
    done = await http.post("/login", data={"password": PASSWORD})
    for cookie in done.headers.get_list("set-cookie"):
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    value = http.cookies["pomni_admin"]
    session = access().read_session(value)
    assert session is not None and session.role == Role.OPERATOR
    assert AdminAccess("another", PASSWORD + "!").read_session(value) is None
    assert access().read_session(value[:-2] + "xx") is None
    async with browser(build_admin_app(rig.core, access()), http.cookies) as restarted:
        assert (await restarted.get("/users")).status_code == 200
        await http.post("/logout", data={"token": session.form_token})
        assert "pomni_admin" not in http.cookies
        for client in (http, restarted):
            there = await client.get("/users", headers={"cookie": f"pomni_admin={value}"})
            assert there.headers["location"] == "/login?next=%2Fusers"
    assert "login" in [row[0] for row in rig.rows("SELECT action FROM admin_actions")]


@pytest.mark.parametrize(("asked", "told"), [
    ("/users/1/0?before=7", "/users/1/0?before=7"), ("/users/-1/5/recall?q=%D0%BA+x", "same"),
    ("//evil.example/", "/"), ("/\\evil.example", "/"), ("https://evil.example", "/"),
    ("users", "/"), ("/a\r\nSet-Cookie: x", "/"), ("/" + "a" * 2000, "/"), ("", "/"),
])  # fmt: skip
async def test_a_deep_link_survives_the_login_and_leads_nowhere_else(
    http: Browser, asked: str, told: str
) -> None:
    page = await http.get("/login", params={"next": asked})
    [kept] = re.findall(r'name="next" value="([^"]*)"', page.text)
    wrong = await http.post("/login", data={"password": "no", "next": html.unescape(kept)})
    [kept] = re.findall(r'name="next" value="([^"]*)"', wrong.text)
    done = await http.post("/login", data={"password": PASSWORD, "next": html.unescape(kept)})
    assert done.headers["location"] == (asked if told == "same" else told)
    again = await http.get("/login", params={"next": asked})
    assert again.headers["location"] == done.headers["location"], "inside there is no login"


async def test_a_reader_sees_figures_and_no_texts(rig: Rig) -> None:
    somebody = Person(rig, user=USER)
    await somebody.say("секретный кот", "ответ")
    async with browser(build_admin_app(rig.core, access(READER))) as reader:
        assert await log_in(reader, READER) == 303
        form = {"token": await token(reader)}
        allowed = set()
        for method, path in requests(rig):
            response = await reader.request(method, path, data=form if method == "POST" else None)
            if response.status_code != 403:
                allowed.add(f"{method} {path}".replace(str(UUID(int=0)), "0"))
            assert "секретный" not in response.text
        assert "audit" not in str(allowed)
        lists = {page.path for page in LIST_PAGES if page.role == Role.READER}
        assert allowed == {
            f"GET {page}" for page in ("/", "/usage", "/usage.csv", "/batches/0", *lists)
        }
        assert "/settings" not in (await reader.get("/")).text, "nothing leads where they may not"
        done = await reader.post("/logout", data=form)
        assert done.headers["location"] == "/login"
    whose = "SELECT DISTINCT split_part(who, ' ', 1) FROM admin_actions"
    assert rig.rows(whose) == [("reader",)]


async def test_the_audit_says_who_read_and_only_what_happened(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER)
    await somebody.tell("У меня кот Барсик")
    [memory] = await somebody.living()
    form, base = {"token": await token(inside)}, f"/users/{USER}/0"
    await inside.post("/login", data={"password": "no"})
    for path in ("", "/facts", "/recall?q=кот"):
        await inside.get(base + path)
    for action in ("unpin", "undo"):  # it is not pinned; nothing was forgotten
        await inside.post(f"{base}/facts/{memory.id + 10}/{action}", data=form)
    await inside.post(f"{base}/facts/{memory.id}/forget", data=form)
    await inside.post(f"{base}/facts/{memory.id}/forget", data=form)
    noted = rig.rows("SELECT split_part(who, ' ', 1), action, target FROM admin_actions")
    of = f"users/{USER}/0"
    assert [row for row in noted if row[1] != "login"] == [
        ("", "wrong password", ""), ("operator", "read talk", of), ("operator", "read facts", of),
        ("operator", "read recall", of),
        ("operator", f"forget fact {memory.id}", of),
    ]  # fmt: skip
    inner, outer = (await inside.get("/audit")).text, (await inside.get("/audit?of=guesses")).text
    assert f'href="/{of}">{USER}/0</a>' in inner and "wrong password" not in inner
    assert "wrong password" in outer and "read talk" not in outer


async def test_a_form_without_our_token_does_nothing(rig: Rig, inside: Browser) -> None:
    for data in ({}, {"token": ""}, {"token": "0" * 64}):
        response = await inside.post("/settings", data={**data, "summaries_shown": "5"})
        assert response.status_code == 403
    foreign = {"sec-fetch-site": "cross-site"}
    login = await inside.post("/login", data={"password": PASSWORD}, headers=foreign)
    assert login.status_code == 403
    assert rig.rows("SELECT summaries_shown FROM global_settings") == [(3,)]
    huge = await inside.post("/settings", content=b"a=" + b"x" * 200_000)
    assert huge.status_code == 413


async def test_a_fact_is_pinned_forgotten_and_taken_back(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER)
    await somebody.tell("У меня кот Барсик")
    other = Person(rig, user=USER + 1)
    await other.tell("У меня пёс")
    [memory] = await somebody.living()
    [foreign] = await other.living()
    base, form = f"/users/{USER}/0/facts", {"token": await token(inside)}
    page = (await inside.get(f"{base}?fact={memory.id}")).text  # where the links to it lead
    assert f'id="fact-{memory.id}"' in page and "У меня кот Барсик" in page and "пёс" not in page
    await inside.post(f"{base}/{memory.id}/pin", data=form)
    assert [m.fact.pinned for m in await somebody.living()] == [True]
    await inside.post(f"{base}/{foreign.id}/pin", data=form)
    await inside.post(f"{base}/{foreign.id}/forget", data=form)
    assert [m.fact.pinned for m in await other.living()] == [False], "another's is left alone"
    await inside.post(f"{base}/{memory.id}/unpin", data=form)
    await inside.post(f"{base}/{memory.id}/forget", data=form)
    assert await somebody.living() == []
    await inside.post(f"{base}/0/undo", data=form)
    assert await somebody.texts() == ["У меня кот Барсик"]
    assert (await inside.post(f"{base}/{memory.id}/explode", data=form)).status_code == 404
    audit = (await inside.get("/audit")).text
    assert all(f"{action} fact" in audit for action in ("pin", "unpin", "forget", "undo"))
    nothing = await inside.post(f"{base}/{memory.id + 99}/pin?state=past&q=кот", data=form)
    assert nothing.headers["location"] == f"{base}?state=past&q=%D0%BA%D0%BE%D1%82&done=nothing"
    assert "Nothing was changed" in (await inside.get(nothing.headers["location"])).text


async def test_a_fact_stands_once_with_whoever_told_it_and_is_found_by_what_it_is(
    rig: Rig, inside: Browser
) -> None:
    somebody = Person(rig, user=USER + 20)
    await somebody.tell("Живу в Омске", relation="lives_in", object="Омск")
    await somebody.tell("Люблю чай", memory_type="preference", relation="likes", object="чай")
    await somebody.tell("Живу в Томске", relation="lives_in", object="Томск", contradicts=[])
    await somebody.tell("Люблю чай", memory_type="preference", relation="likes", object="чай")
    await somebody.tell("Мой пароль: Xk9#mP2$vL", relation="other", object="x")
    await somebody.tell("У меня есть кот?")
    tea = next(fact for fact in await somebody.living() if "чай" in fact.text)
    base = f"/users/{USER + 20}/0/facts"

    async def listed(query: str) -> list[str]:
        page = (await inside.get(f"{base}?{query}")).text
        return re.findall(r'<p class="text" dir="auto">(?:<span.*</span> )?(.*?)</p>', page)

    page = (await inside.get(base)).text
    assert page.count("Люблю чай") == 1 and "Also told" in page, "its quote says the same"
    assert f"?msg={tea.source.message_id}#msg-{tea.source.message_id}" in page
    assert await listed("") == ["Живу в Томске", "Люблю чай"]
    assert await listed("state=past") == ["Живу в Омске"]
    assert await listed("state=all&q=ЖИВУ") == ["Живу в Томске", "Живу в Омске"]
    assert await listed("kind=preference") == ["Люблю чай"] == await listed(f"fact={tea.id}")
    assert await listed("state=pinned") == [] == await listed("q=%00нет")
    assert await listed("state=refused") == ["У меня есть кот?", "••••"]
    assert await listed("state=refused&q=кот&kind=event") == ["У меня есть кот?"]
    rig.client.execute(
        "UPDATE rejected_facts SET text = 'Код 4471 от двери', reason = 'question'"
        " WHERE text IS NOT NULL AND owner_id = add_owner(%(user)s, 0)", {"user": USER + 20},
    )  # fmt: skip
    assert "4471" not in (await inside.get(f"{base}?state=refused")).text
    assert f'action="{base}/{tea.id}/forget"' in page


async def test_what_the_night_put_together_is_taken_apart(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER)
    await somebody.tell("Живу в Омске", relation="lives_in", object="Омск")
    rig.client.execute("UPDATE memories SET retired_at = now()")
    await somebody.tell("Живу в Туле", relation="lives_in", object="Тула")
    rig.client.execute("UPDATE memories SET retired_at = NULL")
    await rig.core.memory.consolidation.run()
    base, form = f"/users/{USER}/0", {"token": await token(inside)}
    assert "Put together at night (1)" in (await inside.get(f"{base}/facts")).text
    [(number,)] = rig.rows("SELECT id FROM changes WHERE kind = 'merged'")
    stranger = f"/users/{USER + 1}/0/consolidations/{number}/undo"
    await inside.post(stranger, data=form)
    undone = "SELECT count(undone_at) FROM changes"
    assert rig.rows(undone) == [(0,)]
    await inside.post(f"{base}/consolidations/{number}/undo", data=form)
    assert rig.rows(undone) == [(1,)]
    assert "taken apart" in (await inside.get(f"{base}/facts")).text
    assert "undo consolidation" in (await inside.get("/audit")).text


async def test_the_prompt_that_is_shown_is_the_one_that_is_sent(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER + 9)
    await somebody.tell("Мою собаку зовут Рекс")
    await somebody.index()
    for number in range(3):
        await somebody.say(f"разговор {number}", f"ответ {number}")
    question = "Как зовут мою собаку?"
    known = rig.stored(USER + 9)
    calls = len(rig.model.requests)
    page = (await inside.get(f"/users/{USER + 9}/0/recall", params={"q": question})).text
    assert rig.stored(USER + 9) == known and len(rig.model.requests) == calls
    assert re.search(r'<td class="number">0\.\d{3}</td>', page), "what is recalled has its score"
    assert re.search(rf'href="/users/{USER + 9}/0\?msg=(\d+)#msg-\1">msg-\1</a>', page)
    texts = re.findall(r'<pre class="text" dir="auto">(.*?)</pre>', page, re.S)
    shown = [html.unescape(re.sub("</?a[^>]*>", "", text)) for text in texts]
    await somebody.say(question, "Рекс")
    sent = [text for _role, text in rig.prompt()]
    moment = re.compile(r"\d{4}-\d\d-\d\d|msg-\d+|\d\d:\d\d")  # it is asked at another one
    assert [moment.sub("", text) for text in shown] == [moment.sub("", text) for text in sent]
    missing = await inside.get("/users/12345/0/recall", params={"q": question})
    assert missing.status_code == 200 and question in html.unescape(missing.text)
    assert rig.rows("SELECT 1 FROM conversations WHERE telegram_user_id = 12345") == []


async def test_hostile_texts_are_shown_as_texts(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER)
    rig.fill(somebody.conversation(), *(("user", text) for text in HOSTILE))
    for text in HOSTILE:
        rig.client.execute(
            "INSERT INTO rejected_facts (owner_id, reason, text, origin)"
            " VALUES (add_owner(%(user)s, 0), 'r', %(text)s, 'tool')",
            {"user": USER, "text": text},
        )
    for path in ("", "/facts?state=refused"):
        page = (await inside.get(f"/users/{USER}/0{path}")).text
        for text in HOSTILE:
            assert html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page
        assert "<script" not in page and "onerror" not in re.sub(r"&lt;.*?&gt;", "", page)
    reflected = (await inside.get(f"/users/{USER}/0/recall", params={"q": HOSTILE[2]})).text
    assert "<svg onload" not in reflected
    found = (await inside.get("/users", params={"q": HOSTILE[0]})).text
    assert "<script" not in found


@pytest.mark.parametrize("path", [
    "/users/abc/0", "/users/9999999999999999999/0", "/users/1/x", "/users/1/0?before=abc",
    "/users?page=x&sort=x&kind=x", "/usage?days=abc", "/usage?days=99999999",
    "/users?q=%00&page=999999999",
    "/users/1/0/recall?q=%00%ff", "/nowhere", "/audit?before=x&of=guesses",
    "/usage?days=abc&by=x", "/usage.csv?days=-1&by=%00", "/failures?days=999&part=%00&before=x",
    "/failures?before=99999999999",
])  # fmt: skip
async def test_an_odd_address_is_no_error_of_ours(inside: Browser, path: str) -> None:
    page = await inside.get(path)
    assert page.status_code == 200 or (page.status_code == 404 and "no such page" in page.text)


@pytest.mark.own_database
async def test_a_lost_database_is_a_sentence(rig: Rig, inside: Browser) -> None:
    form = await token(inside)
    rig.client.close()
    response = await inside.get("/users")
    assert response.status_code == 503 and "did not work" in response.text
    assert (await inside.post("/prices", data={"token": form, "model": "m"})).status_code == 503
