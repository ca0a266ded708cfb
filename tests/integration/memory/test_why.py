"""Why the bot answered so: what was recalled is kept with the answer, and shown as it was then."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

from src.web.admin_pages import build_admin_app
from tests.fakes.openai_server import Reply
from tests.integration.admin_browser import PASSWORD, access, browser
from tests.integration.memory.test_strict_mode import asked
from tests.integration.person import FAKE_EMBEDDINGS, Person

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

KEY = "Ключ от дачи лежит под синим горшком"
DOG = "Мою собаку зовут Рекс"
WHERE = "Где лежит ключ от дачи?"
SEARCH = Reply(tool_calls=[("search_memory", {"query": "ключ от дачи"})])


def records(person: Person) -> list[dict[str, Any]]:
    """What was recalled for each answer, the newest last."""
    sql = "SELECT recall FROM messages WHERE id = ANY(%(ids)s) ORDER BY id"
    return [record for (record,) in person.rows(sql, ids=[*person.messages("assistant")])]


async def ask_of_old_things(person: Person) -> tuple[int, int]:
    """Ask of a message that left the window, and of a fact; return their ids."""
    fact = (await person.tell(DOG)).memory_id
    told = person.write(KEY).message_id
    for number in range(40):
        person.write(f"Разговор о погоде, день {number}")
    await person.index()
    await person.say(WHERE, SEARCH, "Под горшком")
    assert fact is not None
    return told, fact


async def test_ids_scores_tools_and_model_are_kept_with_the_answer(person: Person) -> None:
    told, fact = await ask_of_old_things(person)
    [record] = records(person)
    assert record["model"] == "openai:fake-model"
    found = {one["id"]: one for one in record["found"]}
    by_key, by_search = found[f"fact-{fact}"], found[f"msg-{told}"]
    assert by_key["by"].split(", ")[0] == "key" and by_key["shown"]
    assert by_search["by"].endswith("search_memory 1") and by_search["shown"]
    assert any("search 1" in one["by"] for one in record["found"])
    assert 0 < by_search["meaning"] < by_search["score"] and by_search["similarity"] <= 1
    assert by_search["words"] > 0 and by_search["link"] is None
    [(mode, model, tools, since, recalled, asked_text)] = person.rows(
        "SELECT mode, model, tools, since, recalled, asked FROM why"
        " WHERE telegram_user_id = %(user)s"
    )
    assert (mode, model, tools, asked_text) == (
        "assistant", record["model"], "search_memory", WHERE,
    )  # fmt: skip
    assert since == f"msg-{record['since']}" and record["since"] > told
    score = f"{by_search['score']}, meaning {by_search['meaning']}, words {by_search['words']}"
    assert f"msg-{told}: {by_search['by']}, score {score}" in recalled.split("\n")


async def test_the_record_holds_no_words(person: Person) -> None:
    await ask_of_old_things(person)
    [record] = records(person)
    allowed = r"(fact|msg|summary)-\d+|(, )?(key|summary|search|search_memory)( \d+)?"
    for one in record.pop("found"):
        for value in (one.pop("id"), one.pop("by")):
            assert re.fullmatch(f"({allowed})+", value)
        assert one.keys() <= {"score", "meaning", "similarity", "words", "link", "shown"}
    assert record.keys() == {"model", "since"}


async def test_a_hit_that_does_not_fit_is_kept_as_not_shown(person: Person) -> None:
    for number in range(8):
        person.write(f"Ключ {number}: " + f"ключ от сарая, полка {number}, ряд {number}. " * 20)
    for number in range(40):
        person.write(f"Погода, день {number}")
    await person.index()
    person.rig.set(memory_retrieve_limit=20, memory_retrieve_threshold=0.0)
    await person.say("Где ключ от сарая?", "На полке")
    [record] = records(person)
    shown = [one["shown"] for one in record["found"]]
    assert shown == sorted(shown, reverse=True) and True in shown and False in shown
    [(recalled,)] = person.rows("SELECT recalled FROM why WHERE telegram_user_id = %(user)s")
    assert recalled.count(", not shown") == shown.count(False)


async def test_strict_mode_keeps_what_the_model_saw(person: Person) -> None:
    told = person.write("Київ - столиця України").message_id
    await person.index()
    await person.say("Яка столиця України?", asked(""), mode="strict", language="uk")
    [record] = records(person)
    assert record["since"] is None and record["model"] == "openai:fake-model"
    [one] = [one for one in record["found"] if one["id"] == f"msg-{told}"]
    assert one["by"].startswith("search ") and one["shown"] and one["score"] > 0


async def test_an_answer_without_a_model_has_no_record_and_new_deletes_all(
    person: Person,
) -> None:
    await person.rig.command("remember", person.user, argument=DOG)
    await person.say("мой часовой пояс Europe/Kyiv")
    assert records(person) == [None]
    await person.say("привет", "ответ")
    assert len([record for record in records(person) if record]) == 1
    await person.core.commands.forgetting.start_new_conversation(person.owner)
    assert records(person) == []
    assert person.rows("SELECT 1 FROM why WHERE telegram_user_id = %(user)s") == []


async def open_page(page: httpx.AsyncClient, path: str) -> str:
    response = await page.get(path)
    assert response.status_code == 200
    return html.unescape(response.text)


async def test_the_recall_page_shows_what_was_recalled_then(person: Person) -> None:
    told, fact = await ask_of_old_things(person)
    [(answer,)] = person.rows("SELECT message_id FROM why WHERE telegram_user_id = %(user)s")
    [record] = records(person)
    score = next(one["score"] for one in record["found"] if one["id"] == f"msg-{told}")
    of_user = f"/users/{person.user}/0"
    async with browser(build_admin_app(person.core, access())) as page:
        await page.post("/login", data={"password": PASSWORD})
        talk = await open_page(page, of_user)
        [link] = re.findall(r'<a href="([^"]+)">Why\?</a>', talk)
        assert link == f"{of_user}/recall?answer={answer}"
        then = await open_page(page, link)
        for words in (WHERE, KEY, DOG, "openai:fake-model", "search_memory", f"{score:.3f}"):
            assert words in then, words
        # Later the memory is another one; the record is not.
        for number in range(5):
            await person.tell(f"Ключ от дачи номер {number} у соседа")
        await person.core.memory.memories.forget(person.owner, [f"fact-{fact}"])
        await person.index()
        later = await open_page(page, link)
        assert f"{score:.3f}" in later and KEY in later and "номер 4" not in later
        assert f"fact-{fact}" in later and DOG not in later and "Forgotten or deleted." in later
        now = await open_page(page, f"{link}&q=ключ от дачи")
        assert "номер 4" in now and "The prompt that would be sent" in now
        stranger = f"/users/{person.user + 10**6}/0/recall?answer={answer}"
        assert f"msg-{answer} is no answer" in await open_page(page, stranger)
        assert "is no answer" in await open_page(page, f"{of_user}/recall?answer={told}")
        odd = await open_page(page, f"{of_user}/recall?answer=x")
        assert "is no answer" not in odd
