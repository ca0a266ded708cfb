"""Forgetting by fact, "don't remember this", and contradictions, through whole turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.memory.queries import Query
from src.texts import say
from tests.fakes.openai_server import ChatRequest
from tests.integration.person import (
    MORNING,
    Agents,
    Json,
    Person,
    called,
    fact,
    named,
    results,
    saved,
)

ANNA = "Меня зовут Анна, я люблю джаз и живу в Харькове"
NAME = fact("Меня зовут Анна", relation="name", object="Анна")
JAZZ = fact("Анна любит джаз", quote="я люблю джаз", relation="likes", object="джаз", importance=8)
HOME = fact(
    "Анна живёт в Харькове", quote="живу в Харькове", relation="lives_in", object="Харьков",
    importance=7,
)  # fmt: skip


@pytest.fixture
async def person(agents: Agents) -> Person:
    opened = await agents.person()
    opened.model.reply = lambda _request: "Понятно."
    return opened


def whole(request: ChatRequest) -> str:
    return "\n".join(text for _, text in named(request)).lower()


def outcome(person: Person) -> Json:
    return dict(json.loads(results(person.requests[-1])[-1]))


async def told(person: Person, *, quote: str | None = None) -> None:
    """Anna tells three things in one message; the answer repeats one."""
    facts = [{**one, **({"quote": quote} if quote else {})} for one in (NAME, JAZZ, HOME)]
    await person.say(ANNA, saved(*facts), "Джаз — это прекрасно!")
    await person.index()


@pytest.mark.parametrize("quote", [None, ANNA], ids=["exact quotes", "one quote for all"])
@pytest.mark.parametrize("by_id", [True, False])
async def test_after_forgetting_one_of_three_facts_the_next_prompt_holds_the_other_two(
    person: Person, quote: str | None, by_id: bool
) -> None:
    await told(person, quote=quote)
    arguments: Json = {"about": "что я люблю джаз"}
    if by_id:
        arguments = {"ids": [f"fact-{person.fact_id(JAZZ['text'])}"]}
    await person.say("Забудь, что я люблю джаз", called("forget_fact", **arguments), "Забыла.")
    assert outcome(person) == {"forgotten": [JAZZ["text"]], "ask": [], "nearest": []}
    await person.index()
    await person.say("Что нового в Харькове?")
    prompt = whole(person.requests[-1])
    assert "джаз" not in prompt
    assert "анна" in prompt and "харьков" in prompt and "[…]" in prompt
    assert {*person.facts()} == {NAME["text"], HOME["text"]}  # tools run side by side


async def test_a_doubtful_request_destroys_nothing_and_shows_what_is_near(person: Person) -> None:
    await person.say("Я курю", saved(fact("Я курю")))
    await person.say("I play chess", saved(fact("I play chess")))
    await person.say("Forget", called("forget_fact", about="that I play football"))
    found = outcome(person)
    assert found["forgotten"] == [] and found["ask"] == []
    assert {one["text"] for one in found["nearest"]} >= {"I play chess"}
    assert person.facts() == ["Я курю", "I play chess"]


async def test_of_several_that_fit_none_is_forgotten_before_one_says_which(person: Person) -> None:
    for name in ("Буран", "Веста"):
        text = f"У меня есть собака {name}"
        await person.say(text, saved(fact(text, relation="has_pet", object=name)))
    await person.say("Забудь про собаку", called("forget_fact", about="про собаку"))
    assert [one["text"][-5:] for one in outcome(person)["ask"]] == ["Буран", "Веста"]
    assert len(person.facts()) == 2
    chosen = outcome(person)["ask"][1]["id"]
    await person.say("Вторую", called("forget_fact", ids=[chosen]))
    assert person.facts() == ["У меня есть собака Буран"]


async def test_earlier_questions_are_hidden_with_it_and_are_never_what_is_forgotten(
    person: Person,
) -> None:
    cat = fact("У меня есть кот Мурзик", relation="has_pet", object="Мурзик")
    await person.say(cat["text"], saved(cat))
    await person.say("Как зовут моего кота?", "Мурзик.")
    await person.say("Забудь кота", called("forget_fact", about="кота"), "Хорошо.")
    assert person.facts() == []
    await person.say("Что у меня есть?")
    prompt = whole(person.requests[-1])
    assert "мурзик" not in prompt and "кота" not in prompt


async def test_undo_brings_back_the_fact_the_words_and_the_answers(person: Person) -> None:
    await told(person)
    await person.say("Забудь про джаз", called("forget_fact", about="про джаз"), "Забыла.")
    reply = await person.rig.command("undo", person.user, language="ru")
    assert reply == say("undo_forgot_done", "ru", restored=JAZZ["text"])
    assert JAZZ["text"] in person.facts()
    await person.say("Что я люблю?")
    prompt = whole(person.requests[-1])
    assert ANNA.lower() in prompt and "прекрасно" in prompt and JAZZ["text"].lower() in prompt
    query = Query(person.owner, "джаз", MORNING, limit=20)
    hits = await person.core.memory.retriever.search(query)
    assert any("джаз" in hit.text for hit in hits)


async def test_all_about_somebody_goes_also_what_no_fact_was_made_of(person: Person) -> None:
    for text in ("Мой бывший Руслан работает в банке", "Я учусь играть на виолончели"):
        await person.say(text, saved(fact(text)))
    await person.say("Вчера я встретила Руслана в парке. Погода чудесная.", "Как здорово!")
    request = "Удали всё про Руслана"
    await person.say(request, called("forget_fact", about=request, everything=True), "Удалила.")
    assert person.facts() == ["Я учусь играть на виолончели"]
    await person.say("Привет")
    prompt = whole(person.requests[-1])
    assert "руслан" not in prompt and "погода чудесная" in prompt


async def test_everything_about_the_user_is_erased_only_after_a_yes(person: Person) -> None:
    await told(person)
    answer = await person.say("Забудь всё", called("forget_everything"), "Готово!")
    assert answer.text == say("erase_ask", "ru") and answer.asks == "erase_all"
    assert len(person.facts()) == 3
    kept = await person.say("нет")
    assert kept.text == say("erase_kept", "ru") and len(person.facts()) == 3
    assert (await person.say("да")).text == "Понятно.", "the question was answered before"
    await person.say("Забудь всё", called("forget_everything"), "Готово!")
    gone = await person.say("Да, всё")
    assert gone.text == say("erase_done", "ru")
    for table in ("conversations", "memories", "changes", "search_documents"):
        query = f"SELECT 1 FROM {table} WHERE owner_id = %(owner)s"
        assert person.rows(query) == [], table


async def test_what_replaces_a_pinned_fact_is_pinned_and_as_important(person: Person) -> None:
    await person.say(
        "Я живу в Омске", saved(fact("Я живу в Омске", relation="lives_in", object="Омск",
                                     importance=9, pinned=True))
    )  # fmt: skip
    moved = fact("Переехала в Тулу", relation="lives_in", object="Тула", importance=2)
    asked = await person.say("Переехала в Тулу", saved(moved))
    assert asked.asks == "conflict" and person.facts() == ["Я живу в Омске"]
    await person.say("Замени")
    rows: list[Any] = person.rows(
        "SELECT text, importance, pinned FROM memories"
        " WHERE owner_id = %(owner)s AND retired_at IS NULL"
    )
    assert rows == [("Переехала в Тулу", 9, True)]


async def test_going_back_to_an_earlier_value_makes_it_hold_again(person: Person) -> None:
    for city in ("Минске", "Варшаве", "Минске"):
        text = f"Я живу в {city}"
        await person.say(text, saved(fact(text, relation="lives_in", object=city)))
    assert person.facts() == ["Я живу в Минске"]


async def test_forgetting_where_one_lives_forgets_what_was_taken_back_too(person: Person) -> None:
    for city in ("Омске", "Томске"):
        text = f"Я живу в {city}"
        await person.say(text, saved(fact(text, relation="lives_in", object=city)))
    await person.rig.command("undo", person.user, language="ru")
    assert person.facts() == ["Я живу в Омске"]
    await person.say("Забудь, где я живу", called("forget_fact", about="где я живу"))
    assert outcome(person)["forgotten"] == ["Я живу в Омске"]
    left = person.rows("SELECT text FROM facts WHERE telegram_user_id = %(user)s")
    assert left == []
    await person.say("Привет")
    assert "живу" not in whole(person.requests[-1])
    assert "Омске" in await person.rig.command("undo", person.user, language="ru")
    assert person.facts() == ["Я живу в Омске"]
