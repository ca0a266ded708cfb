"""Strict mode asks before it replaces what is pinned or important, and waits for the answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from src.base.errors import ConversationGoneError, StorageUnavailableError
from src.base.owners import Owner
from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.history.turn_repo import StoredAnswer
from src.memory.purge_repo import PurgeRepository
from src.memory.turn_context import TurnContext
from src.memory.writer import Outcome
from src.memory.writer import SourceText as Source
from src.pg.client import PgClient
from src.reading.facts import Fact
from src.talk.command_service import choice_rows
from src.talk.edits import take_edit
from src.talk.graph_run import Progress, build_context
from src.talk.main_graph import checkpoint_serde
from src.talk.questions import CheckpointStore, QuestionService
from src.talk.turn_state import RESOLUTIONS, ConversationState, Resolution, Turn
from src.texts import Language, say
from src.texts.reply import Reply as SourceText
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Agents,
    Json,
    Person,
    Rig,
    asked,
    denied,
    fact,
    forms,
    incoming,
    new_user,
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
    """The user pins all that is known of him."""
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
    """Press one of the three buttons."""
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


OF_PERSON = (
    "(SELECT q.thread_id FROM open_questions q JOIN messages m ON m.id = q.message_id"
    " JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %(user)s)"
)


def held(person: Person) -> dict[str, int]:
    """How many rows of the person's wait for an answer."""
    tables = ("open_questions", "checkpoints", "checkpoint_blobs", "checkpoint_writes")
    count = "SELECT count(*) FROM {table} WHERE thread_id IN " + OF_PERSON
    return {table: person.rows(count.replace("{table}", table))[0][0] for table in tables}


def is_over(person: Person) -> bool:
    """Whether nothing waits; without its question there can be no checkpoint."""
    return set(held(person).values()) == {0}


def wait(person: Person, days: int) -> None:
    """So many days pass."""
    sql = (
        "UPDATE open_questions SET asked_at = asked_at - make_interval(days => %(days)s)"
        f" WHERE thread_id IN {OF_PERSON}"
    )
    person.client.execute(sql, {"days": days, "user": person.user})


# --- when it asks


async def test_what_denies_a_pinned_fact_is_asked_about_and_not_stored(person: Person) -> None:
    answer = await ask(person)
    told = say("conflict_pinned", "ru", old=OMSK["text"], new=TOMSK["text"])
    assert answer.text == f"{told}\n{say('conflict_ask', 'ru')}"
    assert answer.asks == "conflict" and answer.changes.saved == ()
    assert person.facts() == [OMSK["text"]]
    assert held(person) == {
        "open_questions": 1, "checkpoints": 1, "checkpoint_blobs": 2, "checkpoint_writes": 1
    }  # fmt: skip


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


async def test_a_conflict_that_only_the_model_finds_is_asked_about(person: Person) -> None:
    vegan = fact("Я веган", relation="habit", object="веган", importance=9)
    meat = fact("Я каждый день ем мясо", relation="habit", object="мясо")
    outcome = await person.remember(vegan)
    answer = await person.say(meat["text"], taught(meat), denied((0, outcome.memory_id or 0)))
    assert answer.asks == "conflict" and person.facts() == [vegan["text"]]
    await press(person, answer, "replace")
    assert person.facts() == [meat["text"]]


async def test_the_rest_of_the_message_is_stored_at_once(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    text = f"{CAT['text']}. {TOMSK['text']}"
    answer = await person.say(text, taught(CAT, TOMSK), denied())
    first, _, question = answer.text.partition("\n\n")
    assert first == say("taught_new", "ru", text=CAT["text"]) and TOMSK["text"] in question
    assert person.facts() == [OMSK["text"], CAT["text"]] and len(answer.changes.saved) == 1
    wait(person, 8)
    assert await person.core.questions.expire("Europe/Moscow") == 1
    assert person.facts() == [OMSK["text"], CAT["text"]] and is_over(person)


async def test_in_assistant_mode_nothing_is_asked(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    person.mode = "assistant"
    save = Reply(tool_calls=[("save_user_fact", TOMSK)])
    answer = await person.say(TOMSK["text"], save, "Запомнил")
    assert answer.asks is None and person.facts() == [TOMSK["text"]] and is_over(person)


@pytest.mark.own_database
async def test_only_a_turn_that_asks_connects_to_the_checkpoints(rig: Rig) -> None:
    person = Person(rig, new_user(), mode="strict")
    connected = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'pomni questions' AND datname = current_database()
    """
    await person.remember(OMSK)
    await teach(person, TOMSK)
    assert person.facts() == [TOMSK["text"]] and person.rows(connected) == [(0,)]
    pin(person)
    await teach(person, PERM)
    assert person.rows(connected) == [(1,)]


async def test_the_rules_without_a_model_ask_as_well(shared: PgClient) -> None:
    async with open_person(shared, llm_model="offline") as offline:
        offline.mode, offline.language = "strict", "en"
        await offline.say("My wife's name is Olga")
        await offline.say("I live in Paris")
        pin(offline)
        question = await offline.say("I live in Rome")
        told = say("conflict_pinned", "en", old="I live in Paris", new="I live in Rome")
        assert question.text.startswith(told)
        answer = await offline.say("Replace it")
        assert answer.text.startswith("I will remember: I live in Rome")
        assert offline.facts() == ["My wife's name is Olga", "I live in Rome"]


async def test_to_weigh_a_fact_costs_two_statements(
    person: Person,
) -> None:
    """The other modes and intents cost what they did: ``test_agent_service`` counts them."""
    await person.remember(OMSK)
    memories = person.core.memory.memories
    turn = await person.begin(TOMSK["text"])
    said = Source(turn.message_id, TOMSK["text"], turn.incoming.moment)
    statements = person.client.statements
    rivals = await memories.writer.find_important_rivals(person.owner, Fact(**TOMSK), said)
    assert (rivals, person.client.statements - statements) == ([], 2)


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


@pytest.mark.parametrize(("choice", "left"), [("replace", OMSK), ("both", OMSK)])
async def test_the_button_below_takes_the_decision_back(
    person: Person, choice: Resolution, left: Json
) -> None:
    answer = await ask(person)
    reply = await press(person, answer, choice)
    [[button]] = reply.rows
    await person.rig.press(button, person.user)
    assert person.facts() == [left["text"]]


async def test_what_takes_its_place_keeps_the_pin(person: Person) -> None:
    await press(person, await ask(person), "replace")
    [memory] = await person.living()
    assert memory.pinned and memory.text == TOMSK["text"]


@pytest.mark.parametrize(
    ("language", "words", "facts"),
    [
        ("ru", "Замени!", 1), ("uk", "Залиш обидва", 2), ("en", "keep the old one", 1),
        ("en", "replace it", 1), ("ru", "оставь оба", 2), ("uk", "лиш заміни", None),
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
        assert len(person.requests) > calls and held(person)["open_questions"] == 1
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
    await ask(person)
    forwarded = replace(incoming("x").voice, provenance="forwarded", origin="Боря")
    await chat(person, "замени", voice=forwarded)
    assert person.facts() == [OMSK["text"]] and held(person)["open_questions"] == 1


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
    [(message,)] = person.rows(
        "SELECT max(m.id) FROM messages m JOIN conversations c ON c.id = m.conversation_id"
        " WHERE c.telegram_user_id = %(user)s AND m.role = 'user'"
    )
    said = replace(person.write("x"), message_id=message, text=TOMSK["text"])
    outcome = await person.tell(said=said, origin="extraction", **TOMSK)
    assert (outcome.kind, outcome.reason) == ("refused", "disputed")
    await person.core.agent.start_new_conversation(person.owner)
    left = "SELECT content FROM parting_messages WHERE owner_id = %(owner)s"
    assert all(TOMSK["text"] not in content for (content,) in person.rows(left))
    assert person.facts() == [OMSK["text"]]


# --- restarts, crashes, races


async def test_another_process_goes_on_days_later(person: Person) -> None:
    answer = await ask(person)
    wait(person, 6)
    other = Core(person.core.settings, person.client)
    reply = await press(person, answer, "replace", core=other)
    assert ending(answer, reply).startswith("Запомнил") and person.facts() == [TOMSK["text"]]
    await other.close()


class Broken(Exception):
    """The process dies here."""


@pytest.mark.parametrize("choice", RESOLUTIONS)
async def test_a_crash_before_the_question_is_closed_repeats_nothing(
    person: Person, choice: Resolution
) -> None:
    answer = await ask(person)
    first = await person.core.questions.settle(
        person.rig.called(person.user, "ru"), answer.id, choice
    )
    before = person.written()
    other: Resolution = "old" if choice == "replace" else "replace"
    second = await person.core.questions.settle(
        person.rig.called(person.user, "ru"), answer.id, other
    )
    assert second == first, "the first decision stays"
    assert person.written() == before
    await person.core.questions.close(person.owner, second)
    assert is_over(person)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_crash_around_the_storing_is_made_good_by_a_second_attempt(
    person: Person, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await ask(person)
    writer = person.core.memory.memories.writer
    remember = writer.remember
    decided = []

    async def dies(owner: Owner, candidate: Fact, *rest: Any, **more: Any) -> Outcome:
        # A process that is killed writes nothing more: the decision has to be there by now.
        points = "SELECT checkpoint -> 'channel_values' ->> 'resolution' FROM checkpoints"
        decided.extend(person.rows(f"{points} WHERE thread_id IN {OF_PERSON}"))
        if is_stored:
            await remember(owner, candidate, *rest, **more)
        raise Broken

    with monkeypatch.context() as broken:
        broken.setattr(writer, "remember", dies)
        with pytest.raises(Broken):
            await press(person, answer, "replace")
    assert ("replace",) in decided and held(person)["open_questions"] == 1
    await press(person, answer, "old")
    assert person.facts() == [TOMSK["text"]], "the first decision stays"
    assert is_over(person)


async def left_open(person: Person, turn: Turn) -> tuple[TurnContext, ConversationState]:
    """What the graph of a turn comes to, before anything is asked."""
    context, progress = build_context(turn), Progress(turn)
    await person.core.agent._graph._run_graph(turn, context, progress)
    return context, progress.state


async def test_a_turn_that_is_tried_again_asks_once(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    origin = TelegramOrigin(BOT, person.user, 5, person.user)
    answers = []
    for _ in range(2):  # the first attempt dies after it has asked
        person.model.queue(taught(TOMSK), denied())
        turn = await person.begin(TOMSK["text"], origin=origin)
        context, state = await left_open(person, turn)
        answers.append(await person.core.questions.ask(context, state))
    assert answers[0] == answers[1] and held(person)["checkpoints"] == 1


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


async def test_without_the_database_the_question_waits(person: Person) -> None:
    answer = await ask(person)
    nowhere = CheckpointStore("host=127.0.0.1 port=1 dbname=x", checkpoint_serde(), timeout=0.2)
    lost = QuestionService(person.client, person.core.memory.memories, nowhere)
    with pytest.raises(StorageUnavailableError):
        await lost.settle(person.rig.called(person.user, "ru"), answer.id, "replace")
    await lost.aclose()
    await press(person, answer, "replace")
    assert person.facts() == [TOMSK["text"]]


# --- what happens meanwhile


async def forget(person: Person) -> None:
    """The old fact is forgotten."""
    [memory] = await person.living()
    await person.core.memory.memories.forget(person.owner, [f"fact-{memory.id}"])


async def replaced(person: Person) -> None:
    """Another question, answered, has changed it."""
    await press(person, await teach(person, PERM), "replace")


async def wipe_facts(person: Person) -> None:
    """All facts are forgotten."""
    await person.core.agent.erase_facts(person.owner)


async def begin_anew(person: Person) -> None:
    """/new."""
    await person.core.agent.start_new_conversation(person.owner)


async def edited(person: Person) -> None:
    """The message that taught says something else."""
    origin = TelegramOrigin(BOT, person.user, 5, person.user)
    await person.client.run(
        take_edit, person.client, person.owner, origin, "Я люблю Томск", is_own=True
    )


async def purged(person: Person) -> None:
    """The message is older than the operator keeps messages."""
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
    assert "checkpoint_blobs.blob" in columns_that_hold(person.core.dsn, "Zqtown")
    [(message,)] = person.rows(
        "SELECT q.message_id FROM open_questions q JOIN messages m ON m.id = q.message_id"
        " JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %(user)s"
    )
    await person.core.memory.memories.forget(person.owner, [f"msg-{message}"])
    assert is_over(person)
    PurgeRepository(person.client).purge_forgotten(older_than=0)
    assert columns_that_hold(person.core.dsn, "Zqtown") == set()
    assert (await press(person, answer, "replace")).text == say("conflict_gone", "ru")


async def test_erasing_leaves_nothing_of_a_question(person: Person) -> None:
    await ask(person, fact("Я живу в городе Zqville", relation="lives_in", object="Zqville"))
    kept = columns_that_hold(person.core.dsn, "Zqville")
    assert "checkpoint_blobs.blob" in kept and "checkpoint_writes.blob" not in kept
    assert "memories.text" not in kept
    await person.core.agent.erase(person.user)
    assert columns_that_hold(person.core.dsn, "Zqville") == set() and is_over(person)


async def test_the_pause_holds_no_other_words_of_the_conversation(person: Person) -> None:
    await chat(person, "Привет, Zqhello")
    await ask(person)
    held_in = columns_that_hold(person.core.dsn, "Zqhello")
    assert held_in and not any(name.startswith("checkpoint") for name in held_in)


async def test_a_question_of_another_is_none_of_ones_business(person: Person) -> None:
    answer = await ask(person)
    before = person.written()
    reply = await press(person, answer, "replace", user=person.user + 10**6)
    assert reply.text == say("conflict_gone", "ru")
    assert person.written() == before and held(person)["open_questions"] == 1


@pytest.mark.parametrize("numbers", [(), (0,), (1, 99), (2**62, 2**62)])
async def test_a_button_that_nobody_made_is_answered_plainly(
    person: Person, numbers: tuple[int, ...]
) -> None:
    [button] = choice_rows(1, "ru")[0]
    action = replace(button.action, numbers=numbers)
    reply = await person.core.commands.press(action, person.rig.called(person.user, "ru"))
    assert reply is not None and reply.text == say("conflict_gone", "ru")


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


# --- a week later


async def test_a_question_without_an_answer_ends_politely(person: Person) -> None:
    answer = await ask(person)
    wait(person, 8)
    assert await person.core.questions.expire("Europe/Moscow") == 1
    assert await person.core.questions.expire("Europe/Moscow") == 0
    assert person.facts() == [OMSK["text"]] and is_over(person)
    reply = await press(person, answer, "replace")
    assert ending(answer, reply) == say("conflict_expired", "ru")
    assert person.facts() == [OMSK["text"]]


async def test_a_press_before_the_job_but_after_the_week_is_late_too(person: Person) -> None:
    answer = await ask(person)
    wait(person, 8)
    reply = await press(person, answer, "replace")
    assert ending(answer, reply) == say("conflict_expired", "ru")
    assert person.facts() == [OMSK["text"]] and is_over(person)


async def test_a_decision_that_a_crash_left_unsaid_is_no_missing_answer(person: Person) -> None:
    answer = await ask(person)
    await person.core.questions.settle(person.rig.called(person.user, "ru"), answer.id, "replace")
    wait(person, 8)
    await person.core.questions.expire("Europe/Moscow")
    reply = await press(person, answer, "old")
    assert ending(answer, reply).startswith("Запомнил") and is_over(person)


async def test_a_question_that_was_never_asked_expires_with_the_others(person: Person) -> None:
    await ask(person)
    person.client.execute(
        "DELETE FROM messages a USING open_questions q WHERE a.reply_to_id = q.message_id"
    )
    wait(person, 8)
    assert await person.core.questions.expire("Europe/Moscow") == 1 and is_over(person)


async def test_a_message_that_is_gone_is_not_asked_about(person: Person) -> None:
    await person.remember(OMSK)
    pin(person)
    person.model.queue(taught(TOMSK), denied())
    turn = await person.begin(TOMSK["text"])
    context, state = await left_open(person, turn)
    await begin_anew(person)
    with pytest.raises(ConversationGoneError):
        await person.core.questions.ask(context, state)
    assert is_over(person)


# --- everything, in any order


@pytest.mark.parametrize("seed", range(5))
async def test_in_any_order_a_pinned_fact_goes_only_when_the_user_says_so(
    person: Person, seed: int
) -> None:
    """Teach, teach again, press any button of any question, /new, chat, wait a week."""
    chance = random.Random(seed)
    await person.remember(OMSK)
    pin(person)
    questions: list[StoredAnswer] = []
    pinned = OMSK["text"]
    for _ in range(8):
        move = chance.choice(["teach", "teach", "press", "press", "press", "new", "week", "chat"])
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
        elif move == "week":
            wait(person, 8)
            await person.core.questions.expire("Europe/Moscow")
            assert held(person)["open_questions"] == 0
        else:
            await chat(person, "Спасибо")
        assert pinned in person.facts(), move
    person.moment += timedelta(days=8)
    wait(person, 8)
    await person.core.questions.expire("Europe/Moscow")
    assert is_over(person)


async def test_the_form_of_the_conflicts_is_asked_once(person: Person) -> None:
    await ask(person)
    assert forms(person.requests) == ["Understanding", "Conflicts"]
