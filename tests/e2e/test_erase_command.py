"""``python bot.py erase`` as a process, beside a bot that runs: nothing of a person is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bot import parse_arguments
from src.base.owners import Owner
from tests.e2e.bot_command import Finished, Machine
from tests.e2e.bot_process import World, eventually, open_world
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_people import Sender
from tests.tables import (
    ROWS_OF_OWNER,
    bring,
    columns_that_hold,
    count_death,
    fail_embedding,
    lend,
    open_question,
    part,
    remind,
    rows_of,
    send_batch,
)

ANNA, BORIS = 2**41 + 301, 2**41 + 302
GROUP = Sender(chat_id=-1_000_000_000_333, chat_type="supergroup", thread_id=7)
OTHER_TOPIC = Sender(chat_id=-1_000_000_000_333, chat_type="supergroup", thread_id=9)
TOPIC = Owner(-1_000_000_000_333, 7)
NAME = "@pomni_test_bot"
# What Anna wrote, taught, was told, is called: in Latin letters, which the index keeps whole.
WORDS = {
    "written": "qzwritten",
    "taught": "qztaught",
    "moved": "qzmoved",
    "refused": "qzrefused",
    "edited": "qzedited",
    "forgotten": "qzforgotten",
    "told": "qztold",
    "summary": "qzsummary",
    "extracted": "qzextracted",
    "name": "qzname",
    "group": "qzgroup",
    "group_told": "qzanswer",
}
MESSAGES = 40  # so that some leave the window, and a window of extraction is full
BORING = "boris"


def answer(request: ChatRequest) -> Reply | str:
    """A model that uses its tools as it is told, and repeats what it reads."""
    read = str(request.raw)
    choice = request.raw.get("tool_choice")
    if isinstance(choice, dict):
        quote = f"Люблю {WORDS['extracted']}"
        facts = [{"text": quote, "quote": quote}] if quote in read else []
        return Reply(tool_calls=[(choice["function"]["name"], {"facts": facts})])
    if "one or two sentences" in request.system_text:
        return f"Говорили о {WORDS['summary'] if WORDS['written'] in read else BORING}."
    text = request.last_user_text
    for beginning, call in TOOLS.items():
        if text.startswith(beginning) and request.messages[-1]["role"] == "user":
            return call(text.removeprefix(beginning))
    if WORDS["group"] in text:
        return f"Вот: {WORDS['group_told']}"
    is_annas = any(word in text for word in WORDS.values())
    return f"Вот: {WORDS['told'] if is_annas else BORING} [1]"


def save(text: str, **fact: Any) -> Reply:
    """The model saves what stands there."""
    return Reply(tool_calls=[("save_user_fact", {"text": text, "quote": text, **fact})])


TOOLS: dict[str, Callable[[str], Reply]] = {
    "Запомни: ": save,
    "Переезд: ": lambda text: save(text, relation="lives_in", object=text.split()[-1]),
    "Возраст: ": lambda text: save(f"{text}, ей 40 лет", quote=f"{text}, ей 40 лет"),  # unsaid
    "Забудь: ": lambda text: Reply(tool_calls=[("forget_fact", {"about": text})]),
    "Найди: ": lambda text: Reply(tool_calls=[("search_memory", {"query": text})]),
}


@pytest.fixture(scope="module")
async def filled(shared_dsn: str) -> AsyncIterator[World]:
    """Anna and Boris have talked to the bot, in private and in a group; a bot runs."""
    async with open_world(shared_dsn) as world:
        await fill(world)
        yield world


async def fill(world: World) -> None:
    """Let them talk, until the background has done its work."""
    world.model.reply = answer
    await world.start(EMBEDDING_MODEL="openai:fake-embedding")
    await talk(world, BORIS, dict.fromkeys(WORDS, BORING))
    await talk(world, ANNA, WORDS)
    await talk_in_group(world)
    await digested(world)
    await world.telegram.send_text(ANNA, f"Найди: {WORDS['taught']}", first_name=WORDS["name"])
    await world.telegram.send_text(BORIS, f"Найди: {BORING}")
    await digested(world)
    unembedded = "SELECT 1 FROM search_documents WHERE model_id IS NULL"
    await eventually(lambda: not world.query(unembedded), "the vectors")


async def talk(world: World, person: int, words: dict[str, str]) -> None:
    """A private chat that leaves a row in every table."""
    telegram, name = world.telegram, {"first_name": words["name"]}

    async def say(text: str) -> int:
        number = await telegram.send_text(person, text, **name)  # type: ignore[arg-type]
        await telegram.wait_sent(person, len(telegram.sent_to(person)) + 1)
        return number

    await say("/mode assistant")
    await say(f"Запомни: Видела кино {words['forgotten']}")
    await say("Забудь: про кино")
    await say(f"Переезд: Живу в городе {words['taught']}")
    await say(f"Переезд: Живу в городе {words['moved']}")
    await say(f"Возраст: Знает {words['refused']}")
    mistaken = await say("опечатка")
    await telegram.wait_confirmed(
        await telegram.edit_text(person, mistaken, f"исправлено {words['edited']}")
    )
    for number in range(MESSAGES):  # the last of them is answered
        text = f"{words['written']} {number}. Люблю {words['extracted']}"
        await telegram.send_text(person, text, **name)  # type: ignore[arg-type]


async def talk_in_group(world: World) -> None:
    """A topic of a group, in which Boris answers to what Anna said and was told."""
    telegram, group = world.telegram, TOPIC.telegram_user_id

    async def say(person: int, text: str, **fields: Any) -> int:
        number = await telegram.send_text(person, f"{NAME} {text}", **{**GROUP, **fields})
        await telegram.wait_sent(group, len(telegram.sent_to(group)) + 1)
        return number

    anna: dict[str, Any] = {"first_name": WORDS["name"]}
    said = await say(ANNA, f"что такое {WORDS['group']}?", **anna)
    told = telegram.sent_to(group)[-1].message_id
    await say(BORIS, "а что сказала она?", reply_to=said)
    await say(BORIS, "а что сказал ты?", reply_to=told)
    await say(BORIS, "Запомни: Боря любит чай")


async def digested(world: World) -> None:
    """Return once every message is answered, and the background has done its work."""
    await world.telegram.wait_for(lambda: not world.telegram.pending_updates)
    await world.settled()
    waiting = """
    SELECT 'job' FROM procrastinate_jobs
    WHERE queue_name = 'background' AND status IN ('todo', 'doing')
    UNION ALL SELECT 'message' FROM unindexed_messages
    """
    await eventually(lambda: not world.query(waiting), lambda: world.query(waiting))


async def erase(world: World, folder: Path, *arguments: str) -> Finished:
    """The operator's command."""
    return await Machine(folder, world.settings()).run_beside("erase", *arguments)


async def test_erase_leaves_nothing_of_a_person_and_all_of_the_others(
    filled: World, tmp_path: Path
) -> None:
    world = filled
    held = {name: columns_that_hold(world.dsn, word) for name, word in WORDS.items()}
    assert "messages.content" in held["written"]
    assert held["forgotten"] >= {"changes.before"}
    assert held["taught"] >= {
        "memories.text", "memory_sources.quote", "entities.name", "search_postings.term",
        "tool_results.arguments", "tool_results.result",
    }  # fmt: skip
    assert "rejected_facts.text" in held["refused"]
    assert "messages.content" in held["edited"] and "messages.content" in held["told"]
    assert "memories.text" in held["extracted"]
    assert "conversation_summaries.content" in held["summary"]
    named = {"messages.speaker", "search_documents.speaker", "owners.name"}
    assert held["name"] == named, "who speaks, or is spoken with; a handled update has no words"
    assert "messages.content" in held["group"] and "messages.content" in held["group_told"]
    for person in (ANNA, BORIS):
        count_death(world.dsn, Owner(person))
        fail_embedding(world.dsn, Owner(person))
        part(world.dsn, Owner(person))
        send_batch(world.dsn, Owner(person))
        open_question(world.dsn, Owner(person))
        remind(world.dsn, Owner(person))
        lend(world.dsn, Owner(person))
        bring(world.dsn, Owner(person))
    filled = ROWS_OF_OWNER.keys() - {"unindexed_messages"}  # all of them are digested
    assert {table for table, _ in rows_of(world.dsn, Owner(ANNA))} == filled
    others = [rows_of(world.dsn, Owner(BORIS)), of_boris_in_group(world)]
    assert {table for table, _ in others[0]} == filled and len(others[1]) == 7

    done = await erase(world, tmp_path, "--user-id", str(ANNA))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Erased user {ANNA}: ")
    assert columns_that_hold(world.dsn, *WORDS.values()) == set()
    assert rows_of(world.dsn, Owner(ANNA)) == []
    assert [rows_of(world.dsn, Owner(BORIS)), of_boris_in_group(world)] == others
    facts = "SELECT text FROM facts WHERE telegram_user_id = %s"
    assert world.query(facts, TOPIC.telegram_user_id) == [("Боря любит чай",)]

    world.model.requests.clear()
    sent = len(world.telegram.sent_to(ANNA))
    await world.telegram.send_text(ANNA, "Найди: город")
    await world.telegram.wait_sent(ANNA, sent + 1)
    await digested(world)
    seen = str([request.raw for request in world.model.requests])
    assert not [word for word in WORDS.values() if word in seen], "the bot knows a stranger"
    assert [role for role, _ in world.history(ANNA)] == ["user", "assistant", "system"]


def of_boris_in_group(world: World) -> list[Any]:
    """His messages there with the answers to them, and the tools that these took.

    Without what his replies quote, which is another's.
    """
    return world.query(
        "SELECT (to_jsonb(m) - 'quoted' - 'quoted_author_id')::text"
        " FROM messages m LEFT JOIN messages q ON q.id = m.reply_to_id"
        " WHERE coalesce(q.sender_id, m.sender_id) = %s AND m.conversation_id IN"
        " (SELECT id FROM conversations WHERE telegram_user_id = %s) ORDER BY m.id",
        BORIS,
        TOPIC.telegram_user_id,
    )


async def test_erase_of_a_group_takes_all_its_topics_and_nobody_s_own_chat(
    filled: World, tmp_path: Path
) -> None:
    world = filled
    await talk_in_group(world)  # again: what Anna said there may be erased
    told = len(world.telegram.sent_to(TOPIC.telegram_user_id))
    await world.telegram.send_text(BORIS, f"{NAME} и здесь {WORDS['group']}", **OTHER_TOPIC)
    await world.telegram.wait_sent(TOPIC.telegram_user_id, told + 1)
    await digested(world)
    people = [rows_of(world.dsn, Owner(person)) for person in (ANNA, BORIS)]
    done = await erase(world, tmp_path, "--user-id", str(TOPIC.telegram_user_id))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Erased group {TOPIC.telegram_user_id}: ")
    held = columns_that_hold(world.dsn, WORDS["group"], WORDS["group_told"], "Боря любит")
    assert held == set()
    assert columns_that_hold(world.dsn, str(TOPIC.telegram_user_id)) == set()
    assert [rows_of(world.dsn, Owner(person)) for person in (ANNA, BORIS)] == people


@pytest.mark.parametrize("wrong", ["", "anna", "0", str(2**52), str(-(2**52))])
def test_what_is_no_user_id_erases_nothing(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_arguments(["erase", *(["--user-id", wrong] if wrong else [])])
    assert refused.value.code == 2 and "--user-id" in capsys.readouterr().err
