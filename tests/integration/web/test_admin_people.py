"""The admin pages of people: found, sorted, shown whole, exported, blocked, erased."""

from __future__ import annotations

import json
import re

from src.queue.update_repo import NewUpdate, UpdateRepository
from src.texts import say
from src.web.admin_people import ORDERS
from tests.integration.admin_browser import USER, Browser, token
from tests.integration.person import Person, Rig
from tests.integration.web_page import open_page

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
    """The ids on the page, in their order."""
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
