"""The page's API: only for whom Telegram vouches, only his own memory, and as the chat does it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route

from src.base.owners import Caller, Preferences
from src.pg.client import PgClient
from src.reading.gate import TYPED
from src.talk.turn_state import Teaching
from src.texts import LANGUAGES, say
from src.web import app_api as web_api
from src.web.app_api import (
    HEADERS,
    HERE,
    MAX_QUERY,
    MAX_TEXT,
    MESSAGES,
    STATIC_HEADERS,
    Api,
    page_names,
)
from src.web.app_gate import BURST, MAX_BODY, MAX_PEOPLE, Allowance, Gate
from tests.fakes.init_data import signed
from tests.integration.person import NOON, Person, new_user, open_rig
from tests.integration.web_page import STRANGER, TOKEN, Json, WebPage, open_page
from tests.tables import rows_of

XSS = "<img src=x onerror=window.__xss=1>"
LATER = "2099-01-01"


@pytest.fixture
async def page(person: Person) -> AsyncIterator[WebPage]:
    async with open_page(person.rig, person.user) as opened:
        yield opened


def routes(page: WebPage) -> list[tuple[str, str]]:
    """(method, path) of every address of the API."""
    core = page.rig.core
    found = Api(core, Gate(core, TOKEN, lambda _user: True)).routes()
    return [
        (method, re.sub(r"{\w+}", "1", route.path))
        for route in found
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


async def send(page: WebPage, method: str, path: str, **headers: str) -> httpx.Response:
    body = {"json": {"text": "x", "pinned": True}} if method == "POST" else {}
    return await page.http.request(method, f"/api{path}", headers=headers, **body)  # type: ignore[arg-type]


def supersede(page: WebPage, old: str, new: str) -> None:
    page.rig.client.execute(
        "UPDATE memories old SET retired_at = now(), retired_reason = 'replaced',"
        " superseded_by = new.id FROM memories new WHERE old.text = %(old)s AND new.text = %(new)s"
        " AND new.owner_id = old.owner_id AND old.owner_id = add_owner(%(user)s, 0)",
        {"user": page.user, "old": old, "new": new},
    )


# Who is let in


async def test_every_address_refuses_whom_telegram_does_not_vouch_for(page: WebPage) -> None:
    await page.teach("Я живу в Одессе")
    before = rows_of(page.rig.client.dsn, page.owner)
    now = datetime.now(UTC)
    old = signed(TOKEN, page.user, now - timedelta(days=2))
    refused = {
        "": "app_unauthorized",
        "tma ": "app_unauthorized",
        "tma user=1&hash=2": "app_unauthorized",
        f"tma {signed('1:another', page.user, now)}": "app_unauthorized",
        f"tma {signed(TOKEN, page.user, now + timedelta(hours=1))}": "app_unauthorized",
        f"Bearer {signed(TOKEN, page.user, now)}": "app_unauthorized",
        signed(TOKEN, page.user, now): "app_unauthorized",
        f"tma {old}": "app_expired",
        f"tma {'x' * 20_000}": "app_unauthorized",
    }
    found = routes(page)
    assert len(found) == 20
    for method, path in found:
        for value, key in refused.items():
            headers = {"Authorization": value} if value else {}
            response = await send(page, method, path, **headers, **{"Accept-Language": "uk-UA"})
            assert response.status_code == 401, (path, value[:30])
            assert response.json() == {"error": say(key, "uk")}
    in_address = f"?initData={quote(signed(TOKEN, page.user, now))}"
    assert (await page.http.get(f"/api/facts{in_address}")).status_code == 401
    [(name, value)] = page.headers.items()
    twice = await page.http.get("/api/facts", headers=[(name, value), (name, value)])
    assert twice.status_code == 401
    assert ("GET", "/search") not in found, "what is looked for stands in no address"
    assert rows_of(page.rig.client.dsn, page.owner) == before


async def test_strangers_are_told_so(page: WebPage) -> None:
    stranger = page.of(STRANGER).headers["Authorization"]
    for method, path in routes(page):
        response = await send(page, method, path, Authorization=stranger)
        assert response.status_code == 403
        assert response.json() == {"error": say("not_allowed", "ru", user_id=STRANGER)}


async def test_nothing_is_kept_in_caches_cookies_or_for_other_sites(page: WebPage) -> None:
    other = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    responses = [
        await page.http.get("/"), await page.http.get("/api/facts", headers=page.headers),
        await page.http.get("/api/nowhere"), await page.http.get("/nowhere"),
        await page.http.options("/api/facts", headers=other),
        await page.http.get("/api/facts", headers=page.headers | other),
        await page.http.get("/api/export/json", headers=page.headers),
    ]  # fmt: skip
    for response in responses:
        assert "set-cookie" not in response.headers
        assert not [name for name in response.headers if name.startswith("access-control")]
        for name, value in HEADERS.items():
            assert response.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    static = await page.http.get("/static/app.js")
    assert static.headers["cache-control"] == STATIC_HEADERS["Cache-Control"] == "no-cache"


async def test_one_person_s_flood_ends_with_429_and_slows_nobody_else(page: WebPage) -> None:
    answers = [
        (await page.http.get("/api/facts", headers=page.headers)).status_code for _ in range(270)
    ]
    assert answers[:230] == [200] * 230 and answers[-1] == 429
    sentence = await page.refused("facts", status=429)
    assert sentence == say("app_too_often", "ru")
    other = page.of(new_user())
    exports = [
        (await page.http.get("/api/export/json", headers=other.headers)).status_code
        for _ in range(14)
    ]
    assert exports[:12] == [200] * 12 and exports[-1] == 429, "an export takes more of it"
    allowance = Allowance()
    assert await allowance.take(1, BURST) and not await allowance.take(1, 5)
    for user in range(3, MAX_PEOPLE + 5):
        allowance.has(user)
    assert await allowance.take(1, BURST), "who was seen long ago is forgotten"


@pytest.mark.own_database
async def test_without_a_database_it_says_so_and_ends(client: PgClient) -> None:
    async with open_rig(client) as rig, open_page(rig, new_user()) as page:
        assert await page.facts() == []
        client.close()
        for path, body in (("facts", None), ("search", {"text": "кот"}), ("timeline", None)):
            assert await page.refused(path, body, status=503) == say("app_unavailable", "ru")
        assert (await page.http.get("/api/facts")).status_code == 401, "that needs none"
        client.open()


# What is asked


NO_REQUESTS = [
    (b"", "application/json", 400), (b"{", "application/json", 400),
    (b"[]", "application/json", 400), (b"7", "application/json", 400),
    (b'{"text": 7}', "application/json", 400), (b'{"text": null}', "application/json", 400),
    (b'{"text": "   "}', "application/json", 400), (b"{}", "application/json", 400),
    (b"\xff\xfe", "application/json", 400), (b"[" * 60_000, "application/json", 400),
    (b'{"text": "' + b"x" * MAX_BODY + b'"}', "application/json", 413),
    (b'{"text": "' + b"x" * (MAX_TEXT + 1) + b'"}', "application/json", 413),
    (b'{"text": "x"}', "text/plain", 415), (b'{"text": "x"}', "", 415),
    (b"text=x", "application/x-www-form-urlencoded", 415),
]  # fmt: skip


async def test_what_is_no_request_is_refused(page: WebPage) -> None:
    await page.teach("Я живу в Одессе")
    fact = (await page.fact("Я живу в Одессе"))["id"]
    before = rows_of(page.rig.client.dsn, page.owner)
    for content, kind, status in NO_REQUESTS:
        headers = page.headers | ({"Content-Type": kind} if kind else {})
        for path in ("search", "facts/find", "commands/remind", f"facts/{fact}/correct"):
            response = await page.http.post(f"/api/{path}", headers=headers, content=content)
            assert response.status_code == status, (path, content[:30])
            assert list(response.json()) == ["error"]
    assert rows_of(page.rig.client.dsn, page.owner) == before


NOBODYS = [
    "0", "999999999999999999", "9" * 19, "9" * 5000, "-1", "1.5", "abc", "١٢", "1%00", "%F0",
    "null", "1;DROP TABLE memories", "..", "%2e%2e",
]  # fmt: skip


async def test_a_number_that_is_nobody_s_does_nothing(page: WebPage) -> None:
    for number in NOBODYS:
        one = page.of(new_user())  # each may ask so much only
        await one.teach("Я живу в Одессе")
        before = rows_of(page.rig.client.dsn, one.owner)
        paths = [f"facts/{number}/{what}" for what in ("pin", "correct", "forget", "undo")]
        paths += [f"changes/{number}/undo"]
        paths += [f"reminders/{number}/{what}" for what in ("move", "restore")]
        for path in paths:
            body = {"text": "Я живу во Львове", "pinned": True}
            response = await page.http.post(f"/api/{path}", headers=one.headers, json=body)
            assert response.status_code in (404, 405), path
            assert list(response.json()) == ["error"]
        assert rows_of(page.rig.client.dsn, one.owner) == before


async def test_another_s_memory_can_neither_be_read_nor_changed(page: WebPage) -> None:
    them = page.of(new_user())
    await them.teach("Я живу в Секретограде")
    await them.teach("Я живу во Львове")
    supersede(them, "Я живу в Секретограде", "Я живу во Львове")
    [theirs] = await them.facts()
    forgotten = (await them.ask(f"facts/{theirs['id']}/forget", {}))["undo"]
    await them.teach("Моя собака живёт в городе секретоград")
    [held] = await them.facts()
    await them.ask("commands/remind", {"text": "завтра в 9 ехать в Секретоград"})
    await them.ask("commands/remind", {"text": "завтра в 8 выехать из Секретограда"})
    early, reminder = (await them.ask("reminders"))["waiting"]
    called_off = early["id"]
    await them.ask("buttons", {"action": f"unremind:{called_off}:0"})
    before = rows_of(page.rig.client.dsn, them.owner)
    for fact in (theirs["id"], held["id"]):
        for path, body in (
            ("pin", {"pinned": True}), ("correct", {"text": "Я живу в Киеве"}), ("forget", {}),
            ("undo", {}),
        ):  # fmt: skip
            await page.refused(f"facts/{fact}/{path}", body)
    await page.refused(f"changes/{forgotten}/undo", {})
    await page.refused(f"timeline?message={held['message']}")
    await page.refused(f"reminders/{reminder['id']}/move", {"text": "2030-01-01T10:30"})
    await page.refused(f"reminders/{called_off}/restore", {})
    for action in (f"unremind:{reminder['id']}:0", f"later:{reminder['id']}:0:{reminder['due']}"):
        await page.refused("buttons", {"action": action})
    seen = [
        await page.ask("reminders"), await page.ask("settings"),
        await page.ask("facts/find", {"text": "секретоград"}),
        await page.ask("facts"), await page.ask("timeline"),
        await page.ask("search", {"text": "секретоград"}),
        await page.ask("search", {"text": "Что ты обо мне знаешь?"}),
        await page.ask("export/json"),
    ]  # fmt: skip
    assert "секретоград" not in json.dumps(seen[:-1], ensure_ascii=False).lower()
    assert seen[-1]["facts"] == seen[-1]["messages"] == seen[-1]["reminders"] == []
    assert rows_of(page.rig.client.dsn, them.owner) == before
    assert (await them.ask(f"changes/{forgotten}/undo", {}))["text"]


# What is shown


SCRIPTS = [HERE / "static" / "app.js", *sorted((HERE / "static" / "app").glob("*.js"))]


def test_the_scripts_say_each_sentence_and_no_other() -> None:
    script = "\n".join(file.read_text(encoding="utf-8") for file in SCRIPTS)
    said = {name for call in re.findall(r"\bt\(([^()]*)", script)
            for name in re.findall(r'"(\w+)"', call)}  # fmt: skip
    named = re.findall(r"(?:MAKERS = |LATER = |const groups = )[\[{]([^;]*)", script)
    said |= {name for one in named for name in re.findall(r"\b[a-z_]+\b", one)} & page_names()
    assert said == page_names()


async def test_the_page_is_a_few_files_without_a_script_or_style_inside(page: WebPage) -> None:
    response = await page.http.get("/")
    source = response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "{" not in source and "style=" not in source and "<style" not in source
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", source, re.S)
    assert [inside for _, inside in scripts] == ["", ""]
    for language in LANGUAGES:
        assert say("page_unreachable", language) in source
    for name, kind in (
        *((file.relative_to(HERE / "static"), "text/javascript") for file in SCRIPTS),
        ("app.css", "text/css"),
    ):
        found = await page.http.get(f"/static/{name}")
        assert found.headers["content-type"].startswith(kind) and found.status_code == 200
    for path in (
        "/static/../app_api.py",
        "/static/%2e%2e/app_api.py",
        "/static/",
        "/static/page.html",
    ):
        assert (await page.http.get(path)).status_code in (404, 405)
    dangerous = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(")
    for file in SCRIPTS:
        assert not dangerous.search(file.read_text(encoding="utf-8"))
        assert f'static/{file.relative_to(HERE / "static")}"' in source
    loaded = ["", *dict.fromkeys(re.findall(r'"(static/[^"]+)"', source)), "api/start"]
    sizes = [len((await page.http.get(f"/{one}", headers=page.headers)).content) for one in loaded]
    assert sum(sizes) <= 60_000, dict(zip(loaded, sizes, strict=True))


async def test_facts_are_listed_with_kind_source_day_and_past(page: WebPage) -> None:
    await page.teach("Я люблю зелёный чай")
    await page.teach("Я живу в Одессе", moment=NOON - timedelta(days=2))
    await page.teach("Я живу во Львове", moment=NOON)
    supersede(page, "Я живу в Одессе", "Я живу во Львове")
    page.rig.client.execute(
        "UPDATE memories SET memory_type = 'preference' WHERE owner_id = add_owner(%(user)s, 0)"
        " AND text = 'Я люблю зелёный чай'", {"user": page.user},
    )  # fmt: skip
    told = await page.ask("facts")
    lviv, tea = told["facts"]
    assert (lviv["kind"], tea["kind"]) == ("user_fact", "preference")
    assert lviv["text"] == lviv["quote"] == "Я живу во Львове"
    assert [old["text"] for old in lviv["before"]] == ["Я живу в Одессе"]
    assert tea["before"] == [] and tea["pinned"] is False and lviv["day"]
    assert told["counts"] == {"user_fact": 1, "preference": 1} and told["next"] is None
    only = await page.facts("?kind=preference")
    assert [fact["text"] for fact in only] == ["Я люблю зелёный чай"]
    for query in ("?kind=nonsense", "?kind=%00&offset=-1", "?offset=9e9", "?offset=%D9%A3"):
        assert len(await page.facts(query)) == 2
    assert await page.facts("?offset=9999999") == []


async def test_facts_are_found_in_any_form_and_sorted_by_time(page: WebPage) -> None:
    for text in (
        "Кормлю кота рыбой по утрам",
        "Я работаю котельщиком",
        "У меня аллергия на орехи",
    ):
        await page.teach(text)

    async def find(words: str, query: str = "") -> list[str]:
        found = await page.ask(f"facts/find{query}", {"text": words})
        return [fact["text"] for fact in found["facts"]]

    assert await find("рыба кот") == ["Кормлю кота рыбой по утрам"]
    assert await find("орех") == await find("аллер") == ["У меня аллергия на орехи"]
    assert await find("кот рыба орех") == await find("слон") == []
    newest = [fact["text"] for fact in await page.facts("?sort=newest")]
    assert newest[0] == "У меня аллергия на орехи" and len(newest) == 3
    assert await find("кот", "?kind=event") == []
    [asked] = [fact for fact in await page.facts() if "орехи" in fact["text"]]
    around = await page.ask(f"timeline?message={asked['message']}")
    assert asked["asked"] and asked["text"] in texts(around) and around["at"] == asked["message"]


async def test_a_fact_is_pinned_comes_first_and_is_let_go(page: WebPage) -> None:
    await page.teach("У меня аллергия на орехи")
    await page.teach("У меня есть собака Рекс")
    nuts = await page.fact("У меня аллергия на орехи")
    assert (await page.facts())[0]["id"] != nuts["id"]
    assert await page.ask(f"facts/{nuts['id']}/pin", {"pinned": True}) == {"pinned": True}
    assert (await page.facts())[0] == {**nuts, "pinned": True}
    for wrong in ({}, {"pinned": "yes"}, {"pinned": 1}):
        await page.refused(f"facts/{nuts['id']}/pin", wrong, status=400)
    await page.ask(f"facts/{nuts['id']}/pin", {"pinned": False})
    assert (await page.facts())[0]["id"] != nuts["id"]


TRACES = (
    "SELECT m.role, message_text(m.content), m.provenance, m.is_private, m.delivered_at IS NULL,"
    " m.reply_to_id IS NULL, m.changes IS NULL FROM messages m"
    " JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %(user)s"
    " ORDER BY m.position",
    "SELECT text, memory_type, subject, relation, importance, pinned, origin, retired_reason,"
    " retired_at IS NULL, valid_until IS NULL, superseded_by IS NULL FROM memories"
    " WHERE owner_id = %(owner)s ORDER BY id",
    "SELECT f.text, s.quote, message_text(m.content), s.uid = 'msg-' || m.id FROM memories f"
    " JOIN memory_sources s ON s.memory_id = f.id JOIN messages m ON m.id = s.message_id"
    " WHERE f.owner_id = %(owner)s ORDER BY f.id",
)


async def test_a_correction_leaves_the_traces_of_one_in_the_chat(page: WebPage) -> None:
    there = page.of(new_user())
    for one in (page, there):
        await one.teach("Мой брат живёт в Одессе")
        await one.ask(f"facts/{(await one.facts())[0]['id']}/pin", {"pinned": True})
    page.rig.client.execute("DELETE FROM procrastinate_jobs")
    done = await page.ask(
        f"facts/{(await page.facts())[0]['id']}/correct", {"text": " Брат живёт во Львове \n"}
    )
    assert page.rows("SELECT task_name FROM procrastinate_jobs") == [("index_messages",)]
    answer = await there.rig.ask(
        "Брат живёт во Львове", there.user, moment=datetime.now(UTC),
        teaching=Teaching(corrects=(await there.facts())[0]["id"]),
    )  # fmt: skip
    assert done["text"] == answer.text and "Львове" in answer.text
    for sql in TRACES:
        assert page.rows(sql) == there.rows(sql)
    [fact] = await page.facts()
    assert fact["id"] == done["fact"] and fact["text"] == "Брат живёт во Львове"
    assert fact["before"][0]["text"] == "Мой брат живёт в Одессе" and fact["pinned"]
    undone = await page.ask(f"facts/{done['fact']}/undo", {})
    assert "Мой брат живёт в Одессе" in undone["text"]
    assert [one["text"] for one in await page.facts()] == ["Мой брат живёт в Одессе"]


async def test_a_correction_that_is_refused_says_why_and_changes_no_fact(page: WebPage) -> None:
    await page.teach("Я живу в Одессе")
    [fact] = await page.facts()
    told = await page.ask(
        f"facts/{fact['id']}/correct", {"text": "Мой пароль от почты: hunter2-Zx9"}
    )
    assert told == {"text": say("refused_secret", "ru"), "fact": None}
    assert await page.facts() == [fact]
    await page.ask(f"facts/{fact['id']}/forget", {})
    before = page.rows(TRACES[0])
    assert await page.refused(f"facts/{fact['id']}/correct", {"text": "Я живу в Киеве"}) == say(
        "memory_gone", "ru"
    )
    assert page.rows(TRACES[0]) == before, "what corrects nothing is not stored"


async def test_a_fact_is_forgotten_and_taken_back_once(page: WebPage) -> None:
    await page.teach("У меня есть собака Рекс")
    [fact] = await page.facts()
    done = await page.ask(f"facts/{fact['id']}/forget", {})
    assert done["texts"] == ["У меня есть собака Рекс"]
    assert await page.facts() == []
    assert (await page.ask("timeline"))["messages"][-1:] != [fact["text"]]
    undone = await page.ask(f"changes/{done['undo']}/undo", {})
    assert "Рекс" in undone["text"]
    assert [one["text"] for one in await page.facts()] == [fact["text"]]
    late = await page.refused(f"changes/{done['undo']}/undo", {})
    assert late == say("undo_nothing", "ru")
    done = await page.ask(f"facts/{fact['id']}/forget", {})
    page.rig.client.execute("UPDATE changes SET made_at = now() - interval '11 minutes'")
    await page.refused(f"changes/{done['undo']}/undo", {})
    assert await page.facts() == []


async def test_a_search_finds_facts_and_messages_with_their_days(
    page: WebPage, person: Person
) -> None:
    at = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)  # already the third of March in Moscow
    person.write("Ключи от дачи лежат в синей коробке", at=at)
    await page.teach("Мой кот Барсик спит в синей коробке")
    await person.index()
    found = await page.ask("search", {"text": "синяя коробка"})
    hits = {hit["text"]: hit for hit in found["hits"]}
    keys = hits["Ключи от дачи лежат в синей коробке"]
    assert (keys["date"], keys["time"], keys["day"]) == ("2026-03-03", "01:30", "3 марта")
    assert (keys["by"], keys["kind"], keys["retired"]) == ("you", "message", False)
    assert len(hits) >= 2
    nothing = await page.of(new_user()).ask("search", {"text": "синяя коробка"})
    assert nothing == {"hits": [], "nothing": say("search_nothing", "ru")}
    await page.refused("search", {"text": "x" * (MAX_QUERY + 1)}, status=413)


def texts(told: Json) -> list[str]:
    return [message["text"] for message in told["messages"]]


async def test_the_timeline_is_in_reading_order_in_pages_that_new_messages_do_not_shift(
    page: WebPage, person: Person
) -> None:
    said = [f"сообщение {number}" for number in range(MESSAGES + 5)]
    for text in said:
        person.write(text)
    last = await page.ask("timeline")
    assert texts(last) == said[5:] and last["newer"] is None
    person.write("пришло между страницами")
    first = await page.ask(f"timeline?before={last['older']}")
    assert texts(first) == said[:5] and first["older"] is None
    middle = last["messages"][10]
    around = await page.ask(f"timeline?message={middle['id']}")
    assert around["at"] == middle["id"] and middle in around["messages"]
    assert len(around["messages"]) == MESSAGES - 5  # as many follow as can, fifteen come before
    following = await page.ask(f"timeline?from={around['newer']}")
    assert texts(around) + texts(following) == [*said, "пришло между страницами"]
    for wrong in ("", "1", "1.", ".1", "-1.5", "9999999999.1", "1.9999999999999999999", "a.b"):
        await page.refused(f"timeline?before={wrong}", status=400)
        await page.refused(f"timeline?from={wrong}", status=400)


async def test_the_timeline_jumps_to_a_day_of_one_s_own_zone(
    page: WebPage, person: Person
) -> None:
    for hour, text in ((20, "вечер второго"), (22, "ночь третьего")):  # in Moscow three more
        person.write(text, at=datetime(2026, 3, 2, hour, 30, tzinfo=UTC))
    person.write("потом", at=datetime(2026, 3, 9, 9, tzinfo=UTC))

    async def on(day: str) -> str | None:
        told = await page.ask(f"timeline?on={day}")
        assert texts(told) == ["вечер второго", "ночь третьего", "потом"]
        return next((m["text"] for m in told["messages"] if m["id"] == told.get("at")), None)

    assert await on("2026-03-01") == await on("2026-03-02") == "вечер второго"
    assert await on("2026-03-03") == "ночь третьего"
    assert await on("2026-03-04") == "потом" and await on(LATER) is None
    third = (await page.ask("timeline"))["messages"][1]
    assert (third["date"], third["time"], third["by"]) == ("2026-03-03", "01:30", "you")
    for wrong in ("", "yesterday", "2026-02-30", "2026-03-02T00:00", "%00"):
        await page.refused(f"timeline?on={wrong}", status=400)


async def test_the_timeline_shows_what_both_said_but_not_what_is_forgotten(
    page: WebPage, person: Person
) -> None:
    person.write("ё" * 100_000)
    [long] = (await page.ask("timeline"))["messages"]
    assert long["text"] == "ё" * 20_000
    person.core.conversations.create_new_conversation(page.user)
    person.write("это только между нами", voice=TYPED.__class__(is_private=True))
    await page.teach("У меня есть собака Рекс")
    person.rig.fill(person.conversation(), ("system", "Tools used: x"), ("tool", "y"))
    shown = (await page.ask("timeline"))["messages"]
    assert [one["by"] for one in shown] == ["you", "you", "bot"]
    # The answer stands beside what is private, so it is, too.
    assert [one["private"] for one in shown] == [True, False, True]
    assert "Текущее время" not in json.dumps(shown, ensure_ascii=False)
    await page.ask(f"facts/{(await page.facts())[0]['id']}/forget", {})
    left = json.dumps((await page.ask("timeline"))["messages"], ensure_ascii=False)
    assert "Рекс" not in left and "между нами" in left


async def test_messages_of_a_topic_stay_there(page: WebPage, person: Person) -> None:
    said = Person(person.rig, person.user, thread=7).write("в другой теме")
    assert (await page.ask("timeline"))["messages"] == []
    there = await page.ask(f"timeline?message={said.message_id}")
    assert (there["topic"], there["at"]) == (7, said.message_id)
    assert texts(there) == texts(await page.ask("timeline?topic=7")) == ["в другой теме"]


async def test_a_reminder_is_set_put_off_moved_and_cancelled(page: WebPage) -> None:
    done = await page.ask("commands/remind", {"text": "завтра в 9 позвонить маме"})
    assert done["done"] and "позвонить маме" in done["text"]
    [one] = (await page.ask("reminders"))["waiting"]
    assert one["text"] == "позвонить маме" and one["at"].endswith("T09:00")
    assert {"label": say("reminder_cancel_button", "ru"), "action": f"unremind:{one['id']}:0"} in (
        done["buttons"]
    )
    await page.ask("buttons", {"action": f"later:{one['id']}:1:{one['due']}"})
    [later] = (await page.ask("reminders"))["waiting"]
    assert later["id"] == one["id"] and later["due"] < one["due"]
    moved = await page.ask(f"reminders/{one['id']}/move", {"text": "2030-01-01T10:30"})
    assert "10:30" in moved["text"]
    assert (await page.ask("reminders"))["waiting"][0]["at"] == "2030-01-01T10:30"
    for wrong, key in (
        ("когда-нибудь", "reminder_no_time"),
        ("2020-01-01T10:30", "reminder_past"),
    ):
        refused = await page.refused(f"reminders/{one['id']}/move", {"text": wrong}, status=400)
        assert refused == say(key, "ru")  # type: ignore[arg-type]
    cancel = {"action": f"unremind:{one['id']}:0"}
    assert (await page.ask("buttons", cancel))["text"].startswith("Отменил")
    assert await page.refused(f"reminders/{one['id']}/move", {"text": "2030-01-01T10:30"}) == say(
        "reminder_gone", "ru"
    )
    assert (await page.ask("reminders")) == {"waiting": [], "came": []}
    again = await page.ask(f"reminders/{one['id']}/restore", {})
    assert "10:30" in again["text"] and (await page.ask("reminders"))["waiting"] != []
    assert await page.refused(f"reminders/{one['id']}/restore", {}) == say("reminder_gone", "ru")
    [one] = (await page.ask("reminders"))["waiting"]
    page.rig.core.reminders.rows.mark_delivered(one["id"], one["due"], now=datetime.now(UTC))
    listed = await page.ask("reminders")
    assert (listed["waiting"], [came["id"] for came in listed["came"]]) == ([], [one["id"]])
    await page.ask("buttons", {"action": f"later:{one['id']}:0:{one['due']}"})
    listed = await page.ask("reminders")
    assert ([again["id"] for again in listed["waiting"]], listed["came"]) == ([one["id"]], [])
    await page.ask("buttons", cancel)
    page.rig.client.execute("UPDATE changes SET made_at = now() - interval '11 minutes'")
    await page.refused(f"reminders/{one['id']}/restore", {})
    nothing = await page.ask("commands/remind", {"text": "позвонить маме"})
    assert not nothing["done"] and nothing["text"] == say("reminder_no_time", "ru")


async def test_settings_are_those_of_the_chat(page: WebPage) -> None:
    for number, choice in enumerate((await page.ask("settings"))["settings"]):
        if choice["action"] == "zone":
            continue
        other = len(choice["labels"]) - 1
        await page.ask("buttons", {"action": f"{choice['action']}:{other}"})
        now = (await page.ask("settings"))["settings"][number]
        assert now["chosen"] == other and now["value"] == now["labels"][other]
    known = page.rig.core.user_settings.get(page.user)
    assert (known.language, known.mode, known.answer_length, known.memory_on) == (
        "en", "strict", "long", False,
    )  # fmt: skip
    assert (await page.ask("start"))["language"] == "en"
    assert await page.refused("facts/5/forget", {}) == say("memory_gone", "en")


async def test_only_buttons_and_commands_of_the_page_are_there(page: WebPage) -> None:
    await page.teach("Я живу в Одессе")
    before = rows_of(page.rig.client.dsn, page.owner)
    for action in ("wipe:1", "erase:1", "facts:1", "unknown", "mode:x", ":", "зона:1", "zone:7"):
        assert await page.refused("buttons", {"action": action}) == say("tap_unknown", "ru")
    await page.refused("buttons", {"action": "x" * 65}, status=413)
    for name in ("new", "forget", "export", "start", "%00"):
        response = await page.http.post(
            f"/api/commands/{name}", headers=page.headers, json={"text": "x"}
        )
        assert response.status_code in (404, 405), name
    for name in ("remind", "settings"):
        await page.refused(f"commands/{name}", {}, status=400)
    for method, path, status in (
        ("GET", "nowhere", 404), ("GET", "search", 405), ("DELETE", "facts", 405),
        ("GET", "export/pdf", 404),
    ):  # fmt: skip
        response = await page.http.request(method, f"/api/{path}", headers=page.headers)
        assert (response.status_code, list(response.json())) == (status, ["error"])
    assert rows_of(page.rig.client.dsn, page.owner) == before
    for name in ("privacy", "usage"):
        reply = await page.rig.run_command(name, page.user)
        assert (await page.ask(f"commands/{name}", {}))["text"] == reply.text


async def test_the_export_is_the_one_of_the_chat(page: WebPage) -> None:
    await page.teach(f"Я живу в Одессе {XSS}")
    for form, kind, ending in (
        ("json", "application/json", "json"), ("markdown", "text/markdown; charset=utf-8", "md"),
    ):  # fmt: skip
        response = await page.http.get(f"/api/export/{form}", headers=page.headers)
        assert response.headers["content-type"] == kind
        named = re.fullmatch(
            r'attachment; filename="pomni-\d{4}-\d\d-\d\d\.(\w+)"',
            response.headers["content-disposition"],
        )
        assert named is not None and named[1] == ending
        files = page.rig.core.exports.write_files(
            Caller(page.owner, Preferences("ru", "Europe/Moscow"), NOON)
        )
        [same] = [file for file in files if file.name.endswith(ending)]
        same.content.seek(0)
        assert unmoving(response.content) == unmoving(same.content.read())
        for file in files:
            file.content.close()


def unmoving(content: bytes) -> str:
    """An export without the moment of its making."""
    text = content.decode()
    return re.sub(r'"exported_at": "[^"]+"|^# .*$', "", text, flags=re.M)


async def test_logs_hold_neither_what_was_sent_nor_who_vouched(
    page: WebPage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    await page.teach("Я живу в городе секретоград")
    await page.ask("search", {"text": "секретоград"})
    monkeypatch.setattr(web_api, "FACTS", None)
    response = await page.http.get("/api/facts", headers={**page.headers, "Accept-Language": "en"})
    assert response.status_code == 500
    assert response.json() == {"error": say("app_unavailable", "en")}
    ours = [record for record in caplog.records if record.name.startswith("src.web")]
    said = " ".join(record.getMessage() for record in ours)
    assert "секретоград" not in said and "hash" not in said
