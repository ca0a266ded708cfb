"""The tools of the memory, through whole turns: saving, searching, forgetting; and sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.texts import say
from tests.fakes.openai_server import ChatRequest
from tests.integration.person import (
    Agents,
    Json,
    Person,
    called,
    fact,
    named,
    results,
    saved,
)
from tests.integration.turns import answer_turn

CAT = fact("Моего кота зовут Барсик", subject="cat", relation="name", object="Барсик")
DOG = fact("Моего пса зовут Рекс", subject="dog", relation="name", object="Рекс")
OMSK = fact("Живу в Омске", relation="lives_in", object="Омск", importance=7)
OFF_TOPIC = "Понятно."


@pytest.fixture
async def person(agents: Agents) -> Person:
    opened = await agents.person()
    opened.model.reply = lambda _request: OFF_TOPIC
    return opened


def outcome(person: Person, number: int = -1) -> Json:
    """What ``save_user_fact`` answered, as the model sees it."""
    [text] = results(person.requests[number])
    return dict(json.loads(text))


def found(request: ChatRequest) -> list[Json]:
    return [memory for text in results(request) for memory in json.loads(text).get("memories", ())]


def shown(request: ChatRequest) -> list[Json]:
    blocks = ("user_facts", "memories")
    text = "\n".join(text for name, text in named(request) if name in blocks)
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def said(person: Person) -> dict[str, int]:
    return {text: number for number, text in person.messages().items()}


def hidden(person: Person, role: str = "user") -> list[str]:
    """What was forgotten of the user's messages, or of the answers."""
    return [*person.messages(role, forgotten=True).values()]


# save_user_fact


async def test_a_fact_is_saved_with_the_words_that_said_it(person: Person) -> None:
    known = {**CAT, "quote": "кота зовут Барсик"}
    answer = await person.say("Кстати, моего кота зовут Барсик!", saved(known), "Запомнил.")
    [number] = person.rows("SELECT id FROM facts WHERE telegram_user_id = %(user)s")[0]
    assert outcome(person) == {
        "saved": True, "outcome": "new", "id": f"fact-{number}", "text": CAT["text"],
        "replaced": [], "reason": None,
    }  # fmt: skip
    assert answer.tools == ("save_user_fact",)
    [message] = said(person).values()
    assert person.rows(
        "SELECT f.text, f.origin, s.message_id, s.uid, s.episode, s.quote, s.said_at"
        " FROM memories f JOIN memory_sources s ON s.memory_id = f.id"
        " WHERE f.owner_id = %(owner)s"
    ) == [
        (
            CAT["text"], "tool", message, f"msg-{message}", f"teach_msg-{message}",
            "кота зовут Барсик", person.moment,
        )
    ]  # fmt: skip


async def test_one_call_saves_all_facts_of_a_message(person: Person) -> None:
    text = f"{CAT['text']}, а ещё {DOG['text'].lower()}"
    dog = {**DOG, "quote": DOG["text"].lower()}
    answer = await person.say(text, called("save_user_fact", facts=[CAT, dog, fact("Я в Праге")]))
    outcomes = [(one["saved"], one["reason"]) for one in outcome(person)["facts"]]
    assert outcomes == [(True, None), (True, None), (False, "quote_not_said")]
    assert person.facts() == [CAT["text"], DOG["text"]]
    assert len(answer.changes.saved) == 2 and answer.tools == ("save_user_fact",)


@pytest.mark.parametrize("facts", [CAT, [CAT], {"fact": CAT}, {"fact": [CAT]}])
async def test_one_fact_may_stand_for_the_list(person: Person, facts: Any) -> None:
    await person.say(CAT["text"], called("save_user_fact", facts=facts))
    assert outcome(person)["saved"] and person.facts() == [CAT["text"]]


# search_memory


async def test_the_numbers_of_a_search_go_on_after_those_of_the_prompt(person: Person) -> None:
    await person.remember(CAT)
    await person.remember(DOG)
    person.core.conversations.create_new_conversation(person.user)
    await person.say(
        "Как зовут кота?", called("search_memory", query="кот"),
        called("search_memory", query="пёс Рекс"), "Барсик [1]",
    )  # fmt: skip
    before = {memory["text"]: memory["n"] for memory in shown(person.requests[0])}
    assert before == {DOG["text"]: 1, CAT["text"]: 2}, "each stands once"
    numbers: dict[str, set[int]] = {}
    for memory in [*shown(person.requests[-1]), *found(person.requests[-1])]:
        numbers.setdefault(memory["text"], set()).add(memory["n"])
    assert numbers == {CAT["text"]: {2}, DOG["text"]: {1}}


ADVICE = "Посмотрите «Сталкер», это лучший фильм о желаниях"


async def test_the_bot_s_own_words_are_found_when_they_are_asked_for(person: Person) -> None:
    await person.say("Скучно", ADVICE)
    await person.say("Брат хвалил фильм Сталкер")
    await person.index()
    for question, is_about_the_bot in (
        ("Какой фильм ты мне посоветовал?", True), ("Що ви мені порадили?", True),
        ("Which film have you told me about?", True), ("Что ты посоветуешь?", False),
        ("Що казав мій брат?", False), ("What film would you recommend?", False),
    ):  # fmt: skip
        await person.say(question, called("search_memory", query="Сталкер фильм", limit=20))
        notes = {memory["text"]: memory.get("note") for memory in found(person.requests[-1])}
        assert (notes.get(ADVICE) == "your own words") == is_about_the_bot, question
        assert (ADVICE in notes) == is_about_the_bot, question
        assert notes["Брат хвалил фильм Сталкер"] is None


async def test_the_bot_s_own_words_are_no_source(person: Person) -> None:
    await person.say("Скучно", ADVICE)
    await person.index()
    search = called("search_memory", query="Сталкер фильм")
    answer = await person.say("Какой фильм ты мне посоветовал?", search, "«Сталкер» [1]")
    assert found(person.requests[-1])[0]["text"] == ADVICE
    assert (answer.text, answer.sources) == ("«Сталкер»", ()), "a reference leads to the user"


# forget_fact


async def forget(person: Person, *texts: str, request: str = "Забудь это") -> list[str]:
    """Have the messages with these texts forgotten; what the tool says."""
    uids = [f"msg-{said(person)[text]}" for text in texts]
    await person.say(request, called("forget_fact", ids=uids), "Готово.")
    return list(json.loads(results(person.requests[-1])[0])["forgotten"])


async def test_what_is_forgotten_is_in_no_prompt_and_no_search_any_more(person: Person) -> None:
    home = {**OMSK, "importance": 9}
    await person.say(OMSK["text"], saved(home))
    await person.say("В Омске у меня дача")
    await person.say(CAT["text"], saved(CAT))
    await person.index()
    assert await forget(person, OMSK["text"], "В Омске у меня дача") == [OMSK["text"]]
    assert hidden(person) == [OMSK["text"], "В Омске у меня дача", "Забудь это"]
    assert person.facts() == [CAT["text"]]

    search = called("search_memory", query="Омск дача где живу", limit=20)
    await person.say("Где я живу?", search, "Не знаю.")
    for request in person.requests[-2:]:
        assert "Омск" not in json.dumps(request.messages[:-2], ensure_ascii=False)
        assert "Омск" not in str(results(request))
    prompt = [text for name, text in named(person.requests[-2]) if name == "user"]
    assert not any("Забудь это" in text for text in prompt), "the request names what to forget"
    assert person.rows(
        "SELECT count(*) FROM search_documents d JOIN messages m ON m.id = d.message_id"
        " WHERE d.owner_id = %(owner)s AND m.is_forgotten"
    ) == [(0,)]


async def test_the_answers_that_repeat_what_is_forgotten_go_too(person: Person) -> None:
    known = {**CAT, "importance": 9}
    await person.say(CAT["text"], saved(known), "Запомнила: Барсик.")
    await person.say("Привет", "Здравствуйте! Как там Барсику живётся?")
    await person.say("Какая погода?", "Солнечно.")
    await person.say("Кто у меня живёт?", called("search_memory", query="кот"), "Он [1]")
    assert await forget(person, CAT["text"]) == [CAT["text"]]
    assert hidden(person, "assistant") == [
        "Запомнила: Барсик.", "Здравствуйте! Как там Барсику живётся?", "Он [1]", "Готово.",
    ]  # fmt: skip
    kept = person.rows(
        "SELECT t.name, t.arguments, t.result FROM tool_results t"
        " JOIN conversations c ON c.id = t.conversation_id WHERE c.telegram_user_id = %(user)s"
    )
    assert kept == [("forget_fact", {}, "")]


# Sources


async def ask_about_the_cat(person: Person, reply: str, **changes: Any) -> Any:
    """A fact from an earlier conversation, and an answer that cites it."""
    await person.remember(CAT)
    person.core.conversations.create_new_conversation(person.user)
    person.model.queue(reply)
    turn = await person.begin("Как зовут кота?", **changes)
    return turn, await answer_turn(person.core.agent, turn)


async def test_an_answer_of_only_references_to_nothing_becomes_a_sentence(person: Person) -> None:
    assert (await person.say("?", "[7] [8, 9]")).text == say("empty_answer", "ru")
    assert (await person.say("?", "[7] Привет [8]")).text == "Привет"


async def test_what_was_shown_and_not_cited_is_no_source(person: Person) -> None:
    _, answer = await ask_about_the_cat(person, "Барсик.")
    assert shown(person.requests[-1]) != [] and answer.sources == ()


async def test_a_cited_fact_counts_as_recalled(person: Person) -> None:
    await ask_about_the_cat(person, "Барсик [1], да, Барсик [1]")
    assert person.rows("SELECT recalls FROM memories WHERE owner_id = %(owner)s") == [(1,)]
