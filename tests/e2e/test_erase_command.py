"""``python bot.py erase`` as a process, beside a bot that runs: nothing of a person is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from src.base.owners import Owner
from tests.e2e.bot_command import Finished, Machine
from tests.e2e.bot_process import World, eventually, open_world
from tests.fakes.telegram_people import Sender
from tests.tables import columns_that_hold, rows_of

ANNA, BORIS = 2**41 + 301, 2**41 + 302
GROUP = Sender(chat_id=-1_000_000_000_333, chat_type="supergroup", thread_id=7)
TOPIC = Owner(-1_000_000_000_333, 7)
NAME = "@pomni_test_bot"
# What each of them writes and is called: in Latin letters, which the index keeps whole.
WORDS = {ANNA: "qzanna", BORIS: "qzboris"}


@pytest.fixture(scope="module")
async def filled(shared_dsn: str) -> AsyncIterator[World]:
    """Anna and Boris have talked to the bot, in private and in a group; a bot runs."""
    async with open_world(shared_dsn) as world:
        await world.start(EMBEDDING_MODEL="openai:fake-embedding")
        for person, word in WORDS.items():
            for text in (f"/remember Живу в городе {word}", f"Помнишь {word}?", "Как дела?"):
                await say(world, person, text)
            await say(world, person, f"/remember{NAME} В группе {word}", **GROUP)
            await say(world, person, f"{NAME} что такое {word}?", **GROUP)
        await digested(world)
        yield world


async def say(world: World, person: int, text: str, **place: Any) -> None:
    """Write, and wait for the answer."""
    chat = place.get("chat_id", person)
    count = len(world.telegram.sent_to(chat)) + 1
    await world.telegram.send_text(person, text, first_name=WORDS[person], **place)
    await world.telegram.wait_sent(chat, count)


async def digested(world: World) -> None:
    """Return once every message is answered, and the background has done its work."""
    await world.settled()
    waiting = """
    SELECT 'job' FROM procrastinate_jobs
    WHERE queue_name = 'background' AND status IN ('todo', 'doing')
    UNION ALL SELECT 'message' FROM unindexed_messages
    UNION ALL SELECT 'vector' FROM search_documents WHERE model_id IS NULL
    """
    await eventually(lambda: not world.query(waiting), lambda: world.query(waiting))


async def erase(world: World, folder: Path, *arguments: str) -> Finished:
    """The operator's command."""
    return await Machine(folder, world.settings()).run_beside("erase", *arguments)


async def test_erase_leaves_nothing_of_a_person_and_all_of_the_others(
    filled: World, tmp_path: Path
) -> None:
    world = filled
    held = columns_that_hold(world.dsn, WORDS[ANNA])
    assert held >= {
        "messages.content", "memories.text", "memory_sources.quote", "search_postings.term",
        "owners.name", "messages.speaker",
    }  # fmt: skip
    others = [rows_of(world.dsn, Owner(BORIS)), of_boris_in_group(world)]
    assert len(others[1]) == 4

    done = await erase(world, tmp_path, "--user-id", str(ANNA))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Erased user {ANNA}: ")
    assert columns_that_hold(world.dsn, WORDS[ANNA]) == set()
    assert rows_of(world.dsn, Owner(ANNA)) == []
    assert [rows_of(world.dsn, Owner(BORIS)), of_boris_in_group(world)] == others
    facts = "SELECT text FROM facts WHERE telegram_user_id = %s"
    assert world.query(facts, TOPIC.telegram_user_id) == [(f"В группе {WORDS[BORIS]}",)]

    world.model.requests.clear()
    await say(world, ANNA, "Где я живу?")
    seen = str([request.raw for request in world.model.requests])
    assert "Живу в городе" not in seen, "the bot knows a stranger"
    assert [role for role, _ in world.history(ANNA)] == ["user", "assistant"]


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
