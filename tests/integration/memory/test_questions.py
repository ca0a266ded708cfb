"""Strict mode asks before it replaces what is pinned or important, and waits for the answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.history.turn_repo import StoredAnswer
from src.memory.purge_repo import PurgeRepository
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.talk.edits import take_edit
from src.talk.questions import choice_rows
from src.talk.turn_state import RESOLUTIONS, Resolution
from src.texts import Language, say
from src.texts.reply import Reply as SourceText
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Agents,
    Json,
    Person,
    asked,
    denied,
    fact,
    forms,
    incoming,
    open_person,
    taught,
)
from tests.tables import columns_that_hold

OMSK, TOMSK, PERM = (
    fact(f"Я живу в городе {city}", relation="lives_in", object=city, importance=7)
    for city in ("Омск", "Томск", "Пермь")
)
CAT = fact("Кота зовут Барсик", subject="cat", relation="name", object="Барсик")
BOT = 77


@pytest.fixture
async def person(agents: Agents) -> Person:
    opened = await agents.person()
    opened.mode = "strict"
    return opened


def pin(person: Person) -> None:
    sql = "UPDATE memories SET pinned = true WHERE owner_id = %(owner)s"
    person.client.execute(sql, person.owner.columns())


async def ask(person: Person, new: Json = TOMSK, known: Json = OMSK) -> StoredAnswer:
    """The bot asks whether a new fact replaces a pinned one."""
    await person.remember(known)
    pin(person)
    return await teach(person, new)


def teaches(*facts: Json) -> Callable[[ChatRequest], Reply | str]:
    """A model for which a message teaches these facts, and denies nothing that is known."""

    def reply(request: ChatRequest) -> Reply | str:
        forms_of = {"Understanding": taught(*facts), "Conflicts": denied()}
        return forms_of.get(forms([request])[0], "Хорошо")

    return reply


async def teach(person: Person, new: Json, **changes: Any) -> StoredAnswer:
    """The user says something; the model sees no conflict, but a rule may."""
    person.model.reply = teaches(new)
    return await person.say(new["text"], **changes)


async def chat(person: Person, text: str, **changes: Any) -> StoredAnswer:
    """The user says something that teaches nothing."""
    person.model.reply = lambda _request: asked()
    return await person.say(text, **changes)


async def press(
    person: Person,
    answer: StoredAnswer,
    choice: Resolution,
    *,
    core: Core | None = None,
    user: int | None = None,
    language: Language = "ru",
    **called: Any,
) -> SourceText:
    [button] = choice_rows(answer.id, language)[RESOLUTIONS.index(choice)]
    whose = person.user if user is None else user
    caller = person.rig.called(whose, language, **called)
    reply = await (core or person.core).commands.press(button.action, caller)
    assert reply.is_screen or reply.is_note
    return reply


def ending(answer: StoredAnswer, reply: SourceText) -> str:
    """What stands below the question now."""
    question, _, told = reply.text.partition("\n\n")
    assert question == answer.text
    return told


def open_answers(person: Person) -> list[int]:
    """The ids of the person's answers that hold the data of a question."""
    sql = """
    SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE c.telegram_user_id = %(user)s AND m.question IS NOT NULL ORDER BY m.id
    """
    return [id_ for (id_,) in person.rows(sql)]


def is_over(person: Person) -> bool:
    return open_answers(person) == []


# --- when it asks


@pytest.mark.parametrize(("importance", "asks"), [(7, False), (8, True), (10, True)])
async def test_family_and_health_are_asked_about_a_home_is_not(
    person: Person, importance: int, asks: bool
) -> None:
    await person.remember({**OMSK, "importance": importance})
    answer = await teach(person, TOMSK)
    assert (answer.asks == "conflict") is asks
    assert person.facts() == [(OMSK if asks else TOMSK)["text"]]
    if asks:
        told = say("conflict_important", "ru", old=OMSK["text"], new=TOMSK["text"])
        assert answer.text.startswith(told)


async def test_the_rest_of_the_message_is_stored_at_once(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    text = f"{CAT['text']}. {TOMSK['text']}"
    answer = await person.say(text, taught(CAT, TOMSK), denied())
    first, _, question = answer.text.partition("\n\n")
    assert first == say("taught_new", "ru", text=CAT["text"]) and TOMSK["text"] in question
    assert person.facts() == [OMSK["text"], CAT["text"]] and len(answer.changes.saved) == 1
    await press(person, answer, "replace")
    assert person.facts() == [CAT["text"], TOMSK["text"]] and is_over(person)


async def test_assistant_mode_asks_below_the_answer(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    person.mode = "assistant"
    save = Reply(tool_calls=[("save_user_fact", TOMSK)])
    answer = await person.say(TOMSK["text"], save, "Понял")
    told = say("conflict_pinned", "ru", old=OMSK["text"], new=TOMSK["text"])
    assert answer.asks == "conflict" and answer.text.startswith(f"Понял\n\n{told}")
    assert person.facts() == [OMSK["text"]]
    await press(person, answer, "replace")
    assert person.facts() == [TOMSK["text"]] and is_over(person)


# --- what the answer does


@pytest.mark.parametrize(
    ("choice", "facts", "told"),
    [
        ("replace", ["Томск"], say("taught_update", "ru", text=TOMSK["text"], old=OMSK["text"])),
        ("both", ["Омск", "Томск"],
         say("taught_beside", "ru", text=TOMSK["text"], old=OMSK["text"])),
        ("old", ["Омск"], say("taught_kept", "ru", text=TOMSK["text"], old=OMSK["text"])),
    ],
)  # fmt: skip
async def test_a_button_decides_and_what_came_of_it_stands_below_the_question(
    person: Person, choice: Resolution, facts: list[str], told: str
) -> None:
    answer = await ask(person)
    calls = len(person.requests)
    reply = await press(person, answer, choice)
    assert ending(answer, reply) == told
    assert [text.rpartition(" ")[2] for text in person.facts()] == facts
    assert is_over(person) and len(person.requests) == calls, "no model is asked"
    assert person.rig.stored(person.user)[-1] == ("assistant", reply.text)
    again = await press(person, answer, "replace")
    assert (again.text, again.rows) == (reply.text, reply.rows), "and what can be taken back"
    assert [text.rpartition(" ")[2] for text in person.facts()] == facts


@pytest.mark.parametrize(
    ("language", "words", "facts"),
    [
        ("ru", "Замени!", 1), ("uk", "Залиш обидва", 2), ("en", "keep the old one", 1),
        ("uk", "лиш заміни", None),
    ],
)  # fmt: skip
async def test_a_decision_in_words_right_after_the_question_counts(
    person: Person, language: Language, words: str, facts: int | None
) -> None:
    person.language = language
    answer = await ask(person)
    calls = len(person.requests)
    if facts is None:
        said = await chat(person, words)
        assert len(person.requests) > calls and open_answers(person) == [answer.id]
        return
    said = await person.say(words)
    assert len(person.requests) == calls and len(person.facts()) == facts and is_over(person)
    shown = await press(person, answer, "old", language=language)
    assert ending(answer, shown) == said.text, "the buttons are over as well"


async def test_another_message_is_no_answer_and_leaves_the_question_open(person: Person) -> None:
    answer = await ask(person)
    cat = await teach(person, CAT)
    assert cat.text == say("taught_new", "ru", text=CAT["text"])
    late = await chat(person, "замени")
    assert late.text != answer.text and OMSK["text"] in person.facts(), "not right after it"
    await press(person, answer, "replace")
    assert person.facts() == [CAT["text"], TOMSK["text"]]


async def test_the_words_of_others_decide_nothing(person: Person) -> None:
    answer = await ask(person)
    forwarded = replace(incoming("x").voice, provenance="forwarded", origin="Боря")
    await chat(person, "замени", voice=forwarded)
    assert person.facts() == [OMSK["text"]] and open_answers(person) == [answer.id]


async def test_both_stay_apart_also_at_night(person: Person) -> None:
    await person.remember({**OMSK, "importance": 9})
    answer = await teach(person, TOMSK)
    await press(person, answer, "both")
    await person.core.memory.consolidation.run()
    assert person.facts() == [OMSK["text"], TOMSK["text"]]


@pytest.mark.parametrize("choice", [None, "old"])
async def test_the_background_does_not_decide_instead(
    person: Person, choice: Resolution | None
) -> None:
    answer = await ask(person)
    if choice is not None:
        await press(person, answer, choice)
    message = max(person.messages())
    said = replace(person.write("x"), message_id=message, text=TOMSK["text"])
    outcome = await person.tell(said=said, origin="extraction", **TOMSK)
    assert (outcome.kind, outcome.reason) == ("refused", "disputed")
    await person.core.commands.forgetting.start_new_conversation(person.owner)
    left = "SELECT content FROM parting_messages WHERE owner_id = %(owner)s"
    assert all(TOMSK["text"] not in content for (content,) in person.rows(left))
    assert person.facts() == [OMSK["text"]]


# --- restarts, crashes, races


async def test_two_presses_at_once_store_one_fact(person: Person) -> None:
    answer = await ask(person)
    other = Core(person.core.settings, person.client)
    await asyncio.gather(
        press(person, answer, "replace"), press(person, answer, "replace", core=other),
        return_exceptions=True,
    )  # fmt: skip
    await press(person, answer, "replace")
    assert person.facts() == [TOMSK["text"]] and is_over(person)
    await other.close()


# --- what happens meanwhile


async def forget(person: Person) -> None:
    [memory] = await person.living()
    await person.core.memory.memories.forget(person.owner, [f"fact-{memory.id}"])


async def replaced(person: Person) -> None:
    await press(person, await teach(person, PERM), "replace")


async def wipe_facts(person: Person) -> None:
    ErasureRepository(person.client).erase_facts(person.owner)


async def begin_anew(person: Person) -> None:
    await person.core.commands.forgetting.start_new_conversation(person.owner)


async def edited(person: Person) -> None:
    origin = TelegramOrigin(BOT, person.user, 5, person.user)
    await person.client.run(
        take_edit, person.client, person.owner, origin, "Я люблю Томск", is_own=True
    )


async def purged(person: Person) -> None:
    person.client.execute("UPDATE messages SET created_at = created_at - interval '100 days'")
    PurgeRepository(person.client).delete_aged(days=30, reads=False)


@pytest.mark.parametrize(
    ("meanwhile", "facts"),
    [(forget, 0), (replaced, 1), (wipe_facts, 0), (begin_anew, 1), (edited, 1), (purged, 1)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_a_press_after_the_fact_or_the_message_has_changed_stores_nothing(
    person: Person, meanwhile: Callable[[Person], Any], facts: int
) -> None:
    await person.remember(OMSK)
    pin(person)
    origin = TelegramOrigin(BOT, person.user, 5, person.user)
    answer = await teach(person, TOMSK, origin=origin)
    await meanwhile(person)
    reply = await press(person, answer, "replace")
    assert reply.text.endswith(say("conflict_gone", "ru")) and not reply.rows
    assert len(person.facts()) == facts and TOMSK["text"] not in person.facts()
    assert is_over(person)


async def test_the_message_is_forgotten_with_the_question(person: Person) -> None:
    answer = await ask(
        person, fact("Я живу в городе Zqtown", relation="lives_in", object="Zqtown")
    )
    assert "messages.question" in columns_that_hold(person.core.dsn, "Zqtown")
    message = max(person.messages())
    await person.core.memory.memories.forget(person.owner, [f"msg-{message}"])
    assert is_over(person)
    PurgeRepository(person.client).purge_forgotten(older_than=0)
    assert columns_that_hold(person.core.dsn, "Zqtown") == set()
    assert (await press(person, answer, "replace")).text == say("conflict_gone", "ru")


async def test_in_a_group_only_who_said_it_answers(shared: PgClient) -> None:
    async with open_person(shared) as opened:
        group = replace(opened, user=-opened.user, mode="strict")
        anna, boris = opened.user, opened.user + 10**6
        number = iter(range(1, 99))

        async def says(who: int, text: str, *replies: Reply) -> StoredAnswer:
            origin = TelegramOrigin(BOT, group.user, next(number), who)
            return await group.say(text, *replies, origin=origin)

        await says(anna, OMSK["text"], taught(OMSK))
        pin(group)
        answer = await says(anna, TOMSK["text"], taught(TOMSK), denied())
        assert answer.asks == "conflict"
        for _ in range(2):
            reply = await press(group, answer, "replace", member=boris)
            assert ending(answer, reply) == say("conflict_not_yours", "ru")
            assert reply.is_note and reply.keeps_button
        said = await says(boris, "замени")
        assert said.text == say("conflict_not_yours", "ru") and group.facts() == [OMSK["text"]]
        await press(group, answer, "replace", member=anna)
        assert group.facts() == [TOMSK["text"]] and is_over(group)


# --- everything, in any order


@pytest.mark.parametrize("seed", range(2))
async def test_in_any_order_a_pinned_fact_goes_only_when_the_user_says_so(
    person: Person, seed: int
) -> None:
    """Teach, teach again, press any button of any question, /new, chat."""
    chance = random.Random(seed)
    await person.remember(OMSK)
    pin(person)
    questions: list[StoredAnswer] = []
    pinned = OMSK["text"]
    for _ in range(8):
        move = chance.choice(["teach", "teach", "press", "press", "press", "new", "chat"])
        if move == "teach":
            answer = await teach(person, chance.choice([TOMSK, PERM, OMSK]))
            questions += [answer] if answer.asks else []
        elif move == "press" and questions:
            choice = chance.choice(RESOLUTIONS)
            before, answer = person.facts(), chance.choice(questions)
            reply = await press(person, answer, choice)
            if person.facts() != before:
                assert choice != "old", "what is kept changes nothing"
                assert reply.text.startswith(answer.text)
            if choice == "replace" and pinned not in person.facts():
                pin(person)
                pinned = person.facts()[0]
        elif move == "new":
            await begin_anew(person)
        else:
            await chat(person, "Спасибо")
        assert pinned in person.facts(), move
