"""The admin pages of people: found, sorted, shown whole, exported, blocked, erased."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from src.base.owners import Owner
from src.memory.consolidation import SELECT_MERGES
from src.memory.memory_repo import SELECT_FACTS, FactQuery
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.reading.gate import TYPED, Voice
from src.texts import say
from src.web import admin_figures, admin_lists, admin_memory, admin_people
from src.web.admin_people import ORDERS
from tests.fakes.openai_server import Reply
from tests.integration.admin_browser import USER, Browser, token
from tests.integration.person import Person, Rig
from tests.integration.web_page import open_page
from tests.tables import nodes_of

NAMED = """
INSERT INTO owners (telegram_user_id, thread_id, name, username, seen_at)
SELECT 100 + n, 0, 'Анна ' || chr(64 + n), 'user' || n, now() - n * interval '1 day'
FROM generate_series(1, 3) n;
INSERT INTO owners (telegram_user_id, thread_id) VALUES (-9, 7);
INSERT INTO user_settings (owner_id, inactive_since) VALUES (add_owner(101, 0), now());
UPDATE owners SET blocked_at = now() WHERE telegram_user_id = 102;
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance, origin,
                      content_hash)
VALUES (add_owner(102, 0), 'user_fact', 'a', 'user', 'other', 'x', 5, 'tool', 'h');
INSERT INTO model_prices VALUES ('m', 1, 1, 1);
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms)
VALUES (add_owner(103, 0), 'answer', 'm', 2000000, 0, 0, 1);
INSERT INTO failures (failed_at, part, event, reason, owner_id, times)
VALUES (now(), 'model', 'no answer', 'quota', add_owner(103, 0), 4);
"""
LINK = re.compile(r'href="/users/(-?\d+)/(\d+)/about" dir')


async def listed(inside: Browser, **query: str) -> list[int]:
    page = await inside.get("/users", params=query)
    assert page.status_code == 200
    return [int(user) for user, _topic in LINK.findall(page.text)]


async def test_people_are_found_and_sorted(rig: Rig, inside: Browser) -> None:
    rig.client.execute("DELETE FROM owners")
    rig.client.execute(NAMED)
    assert await listed(inside) == await listed(inside, sort="no such") == [-9, 101, 102, 103]
    assert await listed(inside, sort="name") == [101, 102, 103, -9]
    assert await listed(inside, sort="new") == [-9, 103, 102, 101]
    assert await listed(inside, q="анна b") == await listed(inside, q="@USER2") == [102]
    assert await listed(inside, q="103") == [103] and await listed(inside, q="-9") == [-9]
    assert await listed(inside, q="%") == []
    kinds = {"people": [101, 102, 103], "groups": [-9], "failed": [103], "gone": [101],
             "blocked": [102]}  # fmt: skip
    for kind, expected in kinds.items():
        assert await listed(inside, kind=kind) == expected
    page = (await inside.get("/users", params={"q": "103"})).text
    assert "2.00 USD" in page and ">4</a>" in page and "Nobody fits" not in page
    assert "Show everybody" in (await inside.get("/users?q=nobody")).text


async def test_every_order_shows_each_once_over_all_pages(rig: Rig, inside: Browser) -> None:
    rig.client.execute("DELETE FROM owners")
    rig.client.execute(
        "INSERT INTO owners (telegram_user_id) SELECT n FROM generate_series(1, 120) n"
    )
    for order in ORDERS:
        pages = [await listed(inside, sort=order, page=str(n)) for n in range(3)]
        assert [len(page) for page in pages] == [50, 50, 20]
        assert len({user for page in pages for user in page}) == 120


async def test_names_come_with_updates_and_go_with_the_owner(rig: Rig) -> None:
    updates, somebody = UpdateRepository(rig.client), Person(rig, user=USER + 30)
    await somebody.say("привет", "ответ")

    def handle(number: int, **chat: object) -> None:
        content = {"message_id": number, "chat": {"id": USER + 30, "type": "private", **chat}}
        new = NewUpdate(number, "message", {"update_id": number, "message": content},
                        chat_id=USER + 30, user_id=USER + 30, message_id=number)  # fmt: skip
        assert updates.store(1, [new]) == 1
        [(row_id,)] = rig.rows("SELECT max(id) FROM telegram_updates")
        updates.mark_handled(row_id, "done")

    names = "SELECT name, username FROM owners WHERE telegram_user_id = %(id)s"
    handle(1, first_name="Anna", last_name="<b>", username="anna")
    assert rig.rows(names, id=USER + 30) == [("Anna <b>", "anna")]
    rig.client.execute("UPDATE owners SET seen_at = now() - interval '1 hour'")
    handle(2, first_name="Anna")
    assert rig.rows(names + " AND seen_at = now()", id=USER + 30) == []
    assert rig.rows(names + " AND seen_at > now() - interval '9 min'", id=USER + 30) == [
        ("Anna", None)
    ]
    handle(3, username="no name told")
    handle(4, title="x" * 500)
    assert rig.rows(names, id=USER + 30) == [("x" * 200, None)]
    await rig.core.commands.forgetting.erase_owner(USER + 30)
    handle(5, first_name="Anna")
    assert rig.rows(names, id=USER + 30) == [], "who is erased is not added again"


async def test_who_is_blocked_is_neither_stored_nor_reminded(rig: Rig, inside: Browser) -> None:
    user, updates = USER + 32, UpdateRepository(rig.client)
    await Person(rig, user=user).say("привет", "ответ")
    await rig.core.reminders.set_by_words(rig.called(user, "ru"), "напомни через час о чае")
    [(reminder, due)] = rig.rows(
        "SELECT id, extract(epoch FROM due_at)::bigint FROM reminders ORDER BY id DESC LIMIT 1"
    )
    base, form = f"/users/{user}/0", {"token": await token(inside)}

    def count_stored(first: int, *places: tuple[int, int]) -> int:
        return updates.store(2, [
            NewUpdate(first + n, "message", {}, chat_id=chat, user_id=sender, message_id=n)
            for n, (chat, sender) in enumerate(places)
        ])  # fmt: skip

    def is_inactive() -> bool:
        found = rig.core.reminders.rows.find_due(reminder, due)
        assert found is not None
        return found.is_inactive

    assert count_stored(0, (user, user)) == 1 and not is_inactive()
    for _ in range(2):
        done = await inside.post(f"{base}/block", data=form)
        assert done.headers["location"] == f"{base}/about"
    assert count_stored(10, (user, user), (-5, user), (-5, user + 1)) == 1
    assert is_inactive() and rig.core.user_settings.get(user).is_blocked
    async with open_page(rig, user) as app:
        told = await app.refused("facts", status=403)
    assert told == say("not_allowed", "ru", user_id=user)
    assert "blocked since" in (await inside.get(f"{base}/about")).text
    await inside.post(f"{base}/unblock", data=form)
    assert count_stored(20, (user, user)) == 1 and not is_inactive()
    noted = rig.rows("SELECT action FROM admin_actions WHERE target = %(of)s", of=base[1:])
    assert [action for (action,) in noted] == ["block", "read page", "unblock"]


async def test_a_person_is_shown_whole_exported_and_erased_by_a_typed_id(
    rig: Rig, inside: Browser
) -> None:
    user, base = USER + 31, f"/users/{USER + 31}/0"
    somebody = Person(rig, user=user)
    await somebody.tell("У меня кот Барсик")
    await rig.core.reminders.set_by_words(
        rig.called(user, "ru"), "напомни завтра в 9 полить цветы"
    )
    rig.client.execute(
        "INSERT INTO conversation_summaries (conversation_id, first_position, last_position,"
        " content) VALUES (%(id)s::uuid, 1, 2, 'Речь о коте.')",
        {"id": str(somebody.conversation())},
    )
    page = (await inside.get(f"{base}/about")).text
    assert "полить цветы" in page and "Речь о коте." in page and "zone Europe/Moscow" in page
    form = {"token": await token(inside)}
    read = await inside.post(f"{base}/export", data={**form, "form": "md"})
    assert "Барсик" in read.text and ".md" in read.headers["content-disposition"]
    told = json.loads((await inside.post(f"{base}/export", data=form)).text)
    assert told["telegram_user_id"] == user and told["facts"]
    for wrong in ("", "yes", str(user + 1)):
        refused = await inside.post(f"{base}/erase", data={**form, "confirm": wrong})
        assert refused.status_code == 422 and "Nothing was erased" in refused.text
    assert await somebody.living()
    done = await inside.post(f"{base}/erase", data={**form, "confirm": f" {user} "})
    assert done.headers["location"] == "/audit"
    assert "erase everything" in (await inside.get("/audit")).text
    assert rig.rows("SELECT 1 FROM owners WHERE telegram_user_id = %(id)s", id=user) == []
    assert (await inside.get(f"{base}/about")).status_code == 404
    noted = rig.rows("SELECT action FROM admin_actions WHERE target = %(of)s", of=base[1:])
    assert [action for (action,) in noted] == [
        "read page", "export md", "export json", "erase everything",
    ]  # fmt: skip


# The admin page of a talk: pages, days, Markdown, tools, failures; by index however long


def texts_of(page: str) -> list[str]:
    found = re.findall(r'<div class="text[^"]*" dir="auto">(.*?)</div>', page, re.S)
    return [html.unescape(re.sub("<[^>]+>", "", text)) for text in found]


async def test_a_talk_opens_at_its_end_and_is_paged_both_ways(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER + 20)
    rig.fill(somebody.conversation(), *((("user", f"слово{n}")) for n in range(120)))
    address, pages, query = f"/users/{USER + 20}/0", [], ""
    for _ in range(3):
        page = (await inside.get(address + query)).text
        pages.append(texts_of(page))
        older = re.search(r'href="(\?before=\d+)', page)
        query = older[1] if older else ""
    assert not query and [len(one) for one in pages] == [40, 40, 40]
    assert pages[2] + pages[1] + pages[0] == [f"слово{n}" for n in range(120)]
    newer = re.search(r'href="(\?after=\d+)', page)
    assert newer is not None
    assert texts_of((await inside.get(address + newer[1])).text) == pages[1]
    [(number,)] = rig.rows("SELECT id FROM messages WHERE content LIKE '%%слово30'")
    around = await inside.get(f"{address}?msg={number}")
    assert "слово30" in texts_of(around.text) and f'id="msg-{number}"' in around.text
    missing = (await inside.get(f"{address}?msg=999999999999")).text
    assert "msg-999999999999 is no longer in this talk" in missing and "слово119" in missing


async def test_what_assistants_stored_in_a_row_is_paged_too(rig: Rig, inside: Browser) -> None:
    somebody, expected = Person(rig, user=USER + 23), list[str]()
    for number in range(60):
        voice = Voice("bot", origin="Cursor") if number % 30 else TYPED
        somebody.write(f"слово{number}", voice=voice)
        expected.append(f"слово{number}")
    found, query = list[str](), ""
    for _ in range(2):
        page = (await inside.get(f"/users/{USER + 23}/0{query}")).text
        found = texts_of(page) + found
        query = re.findall(r'href="(\?before=\d+)', page)[0] if "?before=" in page else ""
    assert not query and found == expected


async def test_days_are_headings_that_can_be_jumped_to(rig: Rig, inside: Browser) -> None:
    somebody = Person(rig, user=USER + 21)
    rig.fill(somebody.conversation(), *((("user", f"слово{n}")) for n in range(120)))
    rig.client.execute(  # 23:30 in Moscow is the day before; then a day later each ten
        "UPDATE messages SET created_at = timestamptz '2026-03-01 20:30+00'"
        " + position / 10 * interval '1 day'"
    )
    address = f"/users/{USER + 21}/0"
    page = (await inside.get(f"{address}?day=2026-03-05")).text
    assert texts_of(page)[0] == "слово39"
    headings = re.findall(r'<h2 class="day">([^<]*)', page)
    assert headings[0] == "Thursday, 5 March 2026" and len(headings) == 4
    assert "Nothing was said since" in (await inside.get(f"{address}?day=2027-01-01")).text
    for odd in ("2026-13-01", "0001-01-01", "9999-12-31", "x"):
        assert texts_of((await inside.get(address, params={"day": odd})).text)[-1] == "слово119"
    empty = (await inside.get(f"/users/{USER + 22}/0")).text
    assert "Nothing is kept of this talk" in empty


async def test_a_bubble_tells_tools_tokens_sources_and_why_it_failed(
    rig: Rig, inside: Browser
) -> None:
    user = USER + 10
    rig.model.queue(
        Reply(tool_calls=[("search_memory", {"query": "кот"})]), Reply(text="нет **кота** msg-1")
    )
    await rig.ask("Что о коте?", user)
    page = (await inside.get(f"/users/{user}/0")).text
    [call] = re.findall(r'<li class="bubble tool">(.*?)</li>', page, re.S)
    assert "search_memory" in call and re.search(r"· [\d.,]+ m?s", call)
    assert json.loads(html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", call)[0])) == {
        "query": "кот"
    }
    assert re.search(r"[1-9][\d,]* \+ [1-9]\d* tokens", page)
    assert f'<strong>кота</strong> <a href="/users/{user}/0?msg=1#msg-1">msg-1</a>' in page
    turn = await rig.begin("а пёс?", user)
    failed = "UPDATE messages SET failed_at = now() WHERE id = %(id)s"
    rig.client.execute(failed, {"id": turn.message_id})
    page = (await inside.get(f"/users/{user}/0")).text
    assert "Failed: the log no longer tells why" in page
    rig.client.execute(
        "INSERT INTO failures (failed_at, part, event, reason, owner_id)"
        " VALUES (now(), 'model', 'gave up on an update', 'quota', add_owner(%(user)s, 0))",
        {"user": user},
    )
    page = (await inside.get(f"/users/{user}/0")).text
    assert "Failed: gave up on an update: quota" in page


def test_the_newest_page_of_a_long_talk_reads_no_more_than_it_shows(rig: Rig) -> None:
    rig.client.execute(
        "INSERT INTO messages (conversation_id, role, content, position)"
        " SELECT %(id)s::uuid, 'user', 'x', n FROM generate_series(1, 20000) n",
        {"id": str(rig.conversation(USER))},
    )
    rig.client.execute("ANALYZE messages")
    owner = Owner(USER).columns()
    values: dict[str, Any] = {**owner, "limit": admin_memory.MESSAGES + 1, "since": "2020-01-01"}
    for statement in (
        admin_memory.SELECT_OLDER,
        admin_memory.SELECT_NEWER,
        admin_memory.SELECT_SINCE,
    ):
        [[[plan]]] = rig.client.fetch_all(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", {**values, "position": 15000}
        )
        scans = [
            node for node in nodes_of(plan["Plan"]) if node.get("Relation Name") == "messages"
        ]
        assert scans and all(scan["Node Type"].startswith("Index") for scan in scans)
        assert sum(scan["Actual Rows"] for scan in scans) <= 42, "one tells that the page ends"


@pytest.mark.parametrize("statement", [
    admin_memory.SELECT_BUBBLES, admin_memory.SELECT_CALLS,
    SELECT_FACTS["newest"], SELECT_MERGES,
    admin_memory.SELECT_SOURCES, admin_memory.SELECT_REFUSED,
    *(admin_people.page_query("", order) for order in admin_people.ORDERS),
    admin_people.SELECT_PEOPLE, admin_people.SELECT_TALKS, admin_people.SELECT_SUMMARIES,
    admin_people.SELECT_USAGE, admin_people.SELECT_FAILURES,
    admin_figures.SELECT_DAY, admin_figures.SELECT_LAST, admin_figures.SELECT_CALLS,
    admin_lists.SELECT_MESSAGES, admin_lists.SELECT_CALLS,
    admin_lists.SELECT_REASONS, admin_lists.SELECT_FAILURES,
])  # fmt: skip
def test_pages_go_by_index_and_those_of_people_sort_nothing(rig: Rig, statement: str) -> None:
    values = {
        **vars(FactQuery(limit=51, text="a")), **Owner(USER).columns(), "kinds": [], "ids": [1],
        "before": 10**6, "zone": "UTC", "days": 1, "part": "model", "since": datetime.now(UTC),
        "parts": ["model"], "words": "", "offset": 50, "owners": [1, 2],
    }  # fmt: skip
    with rig.client.transaction() as transaction:
        for way in ("seqscan", "bitmapscan", "sort"):  # whatever the statistics say
            transaction.execute(f"SET LOCAL enable_{way} = off")
        [[[plan]]] = transaction.fetch_all(f"EXPLAIN (FORMAT JSON) {statement}", values)
    nodes = nodes_of(plan["Plan"])
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    assert not scanned - {"model_prices"} and "reltuples" not in statement, scanned
    if "FROM owners o\nWHERE" in statement:
        assert "Sort" not in {node["Node Type"] for node in nodes}
