"""``reembed``: another embedding model for everything, while the bot goes on answering.

What one process shows of it is in ``tests/integration/memory/test_reembed.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg2
import pytest

from src.memory.embedding_space import CHECK_EVERY
from src.pg.client import PgClient
from src.talk.prompt import SYSTEM_PROMPT
from tests.e2e.bot_command import Machine
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import ChatRequest
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.memory.test_reembed import (
    DOG,
    MESSAGES,
    TwoModels,
    by_model,
    memories,
    tell_much,
)

PERSON = 2**41 + 7
DONE = (
    "Done. A bot with EMBEDDING_MODEL=openai:new searches with it from now on, and deletes the "
    "vectors of other models within an hour."
)
WANT = "UPDATE global_settings SET embedding_provider = 'openai', embedding_model = %s"
# What the hour's clock does.
DEFER_CLEANING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('background', 'delete_unused_vectors', 0, NULL,
    'delete_unused_vectors', '{"timestamp": 0}', NULL)::procrastinate_job_to_defer_v1])
"""


# What the minute's clock does.
DEFER_MISSED = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('background', 'remember_missed', 0, NULL,
    'remember_missed', '{"timestamp": 0}', NULL)::procrastinate_job_to_defer_v1])
"""


@pytest.fixture
async def model() -> AsyncIterator[TwoModels]:
    async with TwoModels() as server:
        yield server


@pytest.fixture
async def world(dsn: str, model: TwoModels) -> AsyncIterator[World]:
    async with FakeTelegram() as telegram:
        opened = World(dsn, telegram, model)
        yield opened
        await opened.close()


def vectors(world: World) -> dict[str, int]:
    """How many vectors there are of each model."""
    rows = world.query(
        "SELECT m.name, count(*) FROM document_embeddings e"
        " JOIN embedding_models m ON m.id = e.model_id GROUP BY 1"
    )
    return {name: int(count) for name, count in rows}


async def start_with_old(world: World) -> BotProcess:
    """A bot with a long talk behind it, which the old model has embedded."""
    client = PgClient(world.dsn)
    client.open()
    tell_much(client, PERSON)  # which it finds when it starts
    client.close()
    bot = await world.start(EMBEDDING_MODEL="openai:old")
    await ask(world, "Привет")
    await eventually(lambda: by_model(world.dsn) == {"openai:old": MESSAGES + 2}, "the index")
    return bot


async def ask(world: World, question: str) -> ChatRequest:
    """A turn; the request that reached the chat model."""
    before = len(world.answers(PERSON))
    await world.telegram.send_text(PERSON, question)
    await world.telegram.wait_sent(PERSON, before + 1)
    return next(
        request
        for request in reversed(world.model.requests)
        if question in request.last_user_text and SYSTEM_PROMPT in request.system_text
    )


async def searched_with_new(world: World, model: TwoModels) -> int:
    """Ask until the new model embeds a question; returns how often it took."""
    for number in range(1, 10):
        question = f"Погода хорошая, раз {number}?"
        await ask(world, question)
        if question in model.embedded["new"]:
            return number
        await asyncio.sleep(CHECK_EVERY)  # it looks no sooner
    raise AssertionError("the model before serves for ever")


@contextlib.asynccontextmanager
async def reembedding(world: World, folder: Path, name: str) -> AsyncIterator[Process]:
    """The command at work; a test that fails leaves nothing behind."""
    machine = Machine(folder, {**world.settings(), "EMBEDDING_MODEL": name})
    process = await machine.start("reembed")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def next_line(process: Process) -> str:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    return line.decode().rstrip("\n")


@pytest.mark.proof
async def test_everything_gets_a_vector_of_the_new_model_while_the_bot_works(
    world: World, model: TwoModels, tmp_path: Path
) -> None:
    bot = await start_with_old(world)
    total = MESSAGES + 2

    async with reembedding(world, tmp_path, "openai:new") as reembed:
        assert await next_line(reembed) == f"openai:new: 0 of {total} documents have a vector."
        assert await next_line(reembed) == f"64 of {total}"
        await model.wait_for(lambda: model.is_held)
        assert by_model(world.dsn) == {"openai:new": 64, "openai:old": total - 64}

        # The bot searches in the vectors that it has, and embeds nothing but what is said now.
        model.embedded["old"].clear()
        assert DOG in memories(await ask(world, "Как зовут мою собаку?"))
        await eventually(
            lambda: by_model(world.dsn).get("openai:old") == total - 64 + 2, "its own"
        )
        assert by_model(world.dsn)["openai:new"] == 64
        # Answers, greetings and mere questions have none.
        assert vectors(world)["openai:old"] == MESSAGES
        embedded = [
            text for text in model.embedded["old"] if "Реплика" in text and "\n" not in text
        ]
        assert embedded == [], "what reembed has done is left alone"

        model.gate.set()
        lines = [await next_line(reembed) for _ in range(3)]
        assert lines == [f"128 of {total}", f"{total + 2} of {total}", DONE]
        assert await reembed.communicate() == (b"", b"")
        assert reembed.returncode == 0
        assert by_model(world.dsn) == {"openai:new": total + 2}

    # The old bot goes on; the new one finishes what it said meanwhile, and tidies up.
    assert DOG in memories(await ask(world, "Напомни, как зовут собаку?"))
    await eventually(lambda: by_model(world.dsn).get("openai:old") == 2, "its own")
    assert await bot.terminate() == 0
    await world.start(EMBEDDING_MODEL="openai:new")
    assert DOG in memories(await ask(world, "И всё-таки, как зовут собаку?"))
    await eventually(lambda: by_model(world.dsn) == {"openai:new": total + 6}, "the rest")
    asked = await searched_with_new(world, model)
    total += 2 * asked
    await eventually(lambda: by_model(world.dsn) == {"openai:new": total + 6}, "the rest")
    world.query("UPDATE embedding_models SET created_at = created_at - interval '2 hours'")
    world.query(DEFER_CLEANING)
    with_vector = MESSAGES + 1 + asked  # mere questions have none
    await eventually(lambda: vectors(world) == {"openai:new": with_vector}, "the tidying")
    assert DOG in memories(await ask(world, "Ещё раз: как зовут собаку?"))


@pytest.mark.proof
async def test_a_setting_changes_the_model_while_two_processes_work(
    world: World, model: TwoModels
) -> None:
    """Nobody restarts anything; the old vectors serve until the new ones are all there."""
    await start_with_old(world)
    worker = await world.start("worker", EMBEDDING_MODEL="openai:old")
    total = MESSAGES + 2
    world.query(WANT, "new")
    await missed_until(world, lambda: model.is_held)
    assert by_model(world.dsn) == {"openai:new": 64, "openai:old": total - 64}
    assert DOG in memories(await ask(world, "Как зовут мою собаку?"))
    model.gate.set()
    await eventually(lambda: by_model(world.dsn) == {"openai:new": total + 2}, "the rest")
    await searched_with_new(world, model)
    assert await worker.terminate() == 0


async def missed_until(world: World, condition: Callable[[], bool]) -> None:
    """Look for what was missed, as every minute, until the processes have read the settings."""
    missed = "SELECT 1 FROM procrastinate_jobs WHERE task_name = 'remember_missed'"

    def look() -> bool:
        if not condition() and not world.query(missed):
            with contextlib.suppress(psycopg2.errors.UniqueViolation):  # the minute's own
                world.query(DEFER_MISSED)
        return condition()

    await eventually(look, "the settings to be in force")
