"""The admin page of a talk: pages, days, Markdown, tools, failures; by index however long."""

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
from src.web import admin_facts, admin_failures, admin_overview, admin_people, admin_talk
from tests.fakes.openai_server import Reply
from tests.integration.admin_browser import USER, Browser
from tests.integration.person import Person, Rig
from tests.tables import nodes_of


def texts_of(page: str) -> list[str]:
    """The texts of the bubbles, without marks."""
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
    values: dict[str, Any] = {**owner, "limit": admin_talk.PAGE + 1, "since": "2020-01-01"}
    for statement in (admin_talk.SELECT_OLDER, admin_talk.SELECT_NEWER, admin_talk.SELECT_SINCE):
        [[[plan]]] = rig.client.fetch_all(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", {**values, "position": 15000}
        )
        scans = [
            node for node in nodes_of(plan["Plan"]) if node.get("Relation Name") == "messages"
        ]
        assert scans and all(scan["Node Type"].startswith("Index") for scan in scans)
        assert sum(scan["Actual Rows"] for scan in scans) <= 41


@pytest.mark.parametrize("statement", [
    admin_talk.SELECT_BUBBLES, admin_talk.SELECT_CALLS,
    SELECT_FACTS["newest"], SELECT_MERGES, admin_facts.SELECT_SOURCES, admin_facts.SELECT_REFUSED,
    *(admin_people.page_query("", order) for order in admin_people.ORDERS),
    admin_people.SELECT_PEOPLE, admin_people.SELECT_TALKS, admin_people.SELECT_SUMMARIES,
    admin_people.SELECT_USAGE, admin_people.SELECT_FAILURES,
    admin_overview.SELECT_DAY, admin_overview.SELECT_LAST, admin_overview.SELECT_CALLS,
    admin_failures.SELECT_MESSAGES, admin_failures.SELECT_CALLS,
    admin_failures.SELECT_REASONS, admin_failures.SELECT_FAILURES,
])  # fmt: skip
def test_pages_go_by_index_and_those_of_people_sort_nothing(rig: Rig, statement: str) -> None:
    values = {
        **vars(FactQuery(limit=51, text="a")), **Owner(USER).columns(), "kinds": [], "ids": [1],
        "before": 10**6, "zone": "UTC", "days": 1, "part": "model", "since": datetime.now(UTC),
        "words": "", "offset": 50, "owners": [1, 2],
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
