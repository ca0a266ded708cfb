"""``reembed``: another embedding model for everything, while the bot goes on answering."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from src.llm.prompts.assistant import SYSTEM_PROMPT
from src.storage.conversation_repo import ConversationRepository
from src.storage.pg_client import PgClient
from tests.conftest import query
from tests.e2e.bot_command import Machine
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.fakes.telegram_server import FakeTelegram

PERSON = 2**41 + 7
MESSAGES = 150  # more than two batches
DOG = "А ещё у меня есть собака Рекс"
DONE = (
    "Done. A bot with EMBEDDING_MODEL=openai:new searches with it from now on, and deletes the "
    "vectors of other models within an hour."
)
WANT_NEW = "UPDATE global_settings SET embedding_provider = 'openai', embedding_model = 'new'"
# What the hour's clock does.
DEFER_CLEANING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('memory', 'delete_unused_vectors', 0, NULL,
    'delete_unused_vectors', '{"timestamp": 0}', NULL)::procrastinate_job_to_defer_v1])
"""


# What the minute's clock does.
DEFER_MISSED = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('memory', 'remember_missed', 0, NULL,
    'remember_missed', '{"timestamp": 0}', NULL)::procrastinate_job_to_defer_v1])
"""


def only_answers(request: ChatRequest) -> Reply:
    """An answer; no summaries, which would come as documents of their own at any moment."""
    return Reply(text="ответ") if SYSTEM_PROMPT in request.system_text else Reply(status=400)


class TwoModels(FakeOpenAI):
    """Serves the embedding models "old" and "new"; the second batch of "new" can be held back.

    Attributes:
        embedded: The texts that each model embedded.
        gate: Until it is set, the new model's second batch waits.
        gone: Models that the server has no more.
    """

    def __init__(self) -> None:
        super().__init__(reply=only_answers)
        self.embedded: dict[str, list[str]] = defaultdict(list)
        self.gate = asyncio.Event()
        self.is_held = False
        self.gone: set[str] = set()
        self._batches = 0

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        name, texts = body["model"], body["input"]
        if name in self.gone:
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        self._batches += name == "new" and len(texts) == 64
        if name == "new" and self._batches == 2:
            self.is_held = True
            self.changes.notify()
            await self.gate.wait()
        self.embedded[name] += texts
        return await super()._embeddings(request)


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


def by_model(world: World) -> dict[str | None, int]:
    """How many documents have a vector of which model, as the newest one."""
    rows = world.query(
        "SELECT m.name, count(*) FROM search_documents d"
        " LEFT JOIN embedding_models m ON m.id = d.model_id GROUP BY 1"
    )
    return {name: int(count) for name, count in rows}


def vectors(world: World) -> dict[str, int]:
    """How many vectors there are of each model."""
    rows = world.query(
        "SELECT m.name, count(*) FROM document_embeddings e"
        " JOIN embedding_models m ON m.id = e.model_id GROUP BY 1"
    )
    return {name: int(count) for name, count in rows}


def tell(dsn: str) -> None:
    """A long talk, which the bot finds when it starts."""
    client = PgClient(dsn)
    client.open()
    conversations = ConversationRepository(client)
    conversation_id = conversations.get_or_create_conversation(PERSON)
    for number in range(MESSAGES):
        text = DOG if number == 10 else f"Реплика номер {number}"
        conversations.append_message(conversation_id, "user", text)
    client.close()


async def start_with_old(world: World) -> BotProcess:
    """A bot with a long talk behind it, which the old model has embedded."""
    tell(world.dsn)
    bot = await world.start(EMBEDDING_MODEL="openai:old")
    await ask(world, "Привет")
    await eventually(lambda: by_model(world) == {"openai:old": MESSAGES + 2}, "the index", 30)
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


def memories(request: ChatRequest) -> str:
    """What the model was reminded of."""
    texts = [text_of(m["content"]) for m in request.messages if m.get("name") == "memories"]
    return "".join(texts)


async def searched_with_new(world: World, model: TwoModels) -> int:
    """Ask until the new model embeds a question; returns how often it took."""
    for number in range(1, 100):
        question = f"Погода хорошая, раз {number}?"
        await ask(world, question)
        if question in model.embedded["new"]:
            return number
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


async def test_everything_gets_a_vector_of_the_new_model_while_the_bot_works(
    world: World, model: TwoModels, tmp_path: Path
) -> None:
    bot = await start_with_old(world)
    total = MESSAGES + 2

    async with reembedding(world, tmp_path, "openai:new") as reembed:
        assert await next_line(reembed) == f"openai:new: 0 of {total} documents have a vector."
        assert await next_line(reembed) == f"64 of {total}"
        await model.wait_for(lambda: model.is_held, 30)
        assert by_model(world) == {"openai:new": 64, "openai:old": total - 64}

        # The bot searches in the vectors that it has, and embeds nothing but what is said now.
        model.embedded["old"].clear()
        assert DOG in memories(await ask(world, "Как зовут мою собаку?"))
        await eventually(
            lambda: by_model(world).get("openai:old") == total - 64 + 2, "its own", 30
        )
        assert by_model(world)["openai:new"] == 64
        assert vectors(world)["openai:old"] == total + 2
        embedded = [
            text for text in model.embedded["old"] if "Реплика" in text and "\n" not in text
        ]
        assert embedded == [], "what reembed has done is left alone"

        model.gate.set()
        lines = [await next_line(reembed) for _ in range(3)]
        assert lines == [f"128 of {total}", f"{total + 2} of {total}", DONE]
        assert await reembed.communicate() == (b"", b"")
        assert reembed.returncode == 0
        assert by_model(world) == {"openai:new": total + 2}

    # The old bot goes on; the new one finishes what it said meanwhile, and tidies up.
    assert DOG in memories(await ask(world, "Напомни, как зовут собаку?"))
    await eventually(lambda: by_model(world).get("openai:old") == 2, "its own", 30)
    assert await bot.terminate() == 0
    await world.start(EMBEDDING_MODEL="openai:new")
    assert DOG in memories(await ask(world, "И всё-таки, как зовут собаку?"))
    await eventually(lambda: by_model(world) == {"openai:new": total + 6}, "the rest", 30)
    asked = await searched_with_new(world, model)
    total += 2 * asked
    await eventually(lambda: by_model(world) == {"openai:new": total + 6}, "the rest", 30)
    world.query("UPDATE embedding_models SET created_at = created_at - interval '2 hours'")
    world.query(DEFER_CLEANING)
    await eventually(lambda: vectors(world) == {"openai:new": total + 6}, "the tidying", 30)
    assert DOG in memories(await ask(world, "Ещё раз: как зовут собаку?"))


async def test_from_an_endpoint_to_the_local_model_and_back(
    world: World, model: TwoModels, tmp_path: Path
) -> None:
    """Also when the database knows the model already and has other documents since."""
    model.gate.set()
    settings = {"DATABASE_URL": world.dsn, "OPENAI_BASE_URL": model.url}
    old = Machine(tmp_path, {**settings, "EMBEDDING_MODEL": "openai:old"})
    local = Machine(tmp_path, {**settings, "EMBEDDING_MODEL": "local"})
    told = await old.run_beside("console", stdin="Меня зовут Анна\nЯ живу в Туле\n")
    assert told.status == 0
    total = sum(by_model(world).values())
    assert by_model(world) == {"openai:old": total} and total >= 4
    for machine, name in ((local, "local"), (old, "openai:old")):
        done = await machine.run_beside("reembed")
        assert (done.status, done.stderr) == (0, "")
        first, *progress, last = done.replies
        assert first == f"{name}: 0 of {total} documents have a vector."
        assert progress == [f"{total} of {total}"] and f"EMBEDDING_MODEL={name} " in last
        assert by_model(world) == {name: total}
        found = await machine.run_beside("console", stdin="Как меня зовут?\n")
        assert "Анна" in found.stdout
        total = sum(by_model(world).values())
    again = await old.run_beside("reembed")
    assert again.replies == [f"openai:old: {total} of {total} documents have a vector.", last]


def test_without_its_endpoint_it_says_so_and_changes_nothing(dsn: str, tmp_path: Path) -> None:
    away = {"EMBEDDING_MODEL": "openai:new", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    done = Machine(tmp_path, {"DATABASE_URL": dsn, **away}).run("reembed")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("Pomni stopped: ") and "Traceback" not in done.stderr
    assert query(dsn, "SELECT name FROM embedding_models") == [("local",)]


async def test_a_setting_changes_the_model_while_two_processes_work(
    world: World, model: TwoModels
) -> None:
    """Nobody restarts anything; the old vectors serve until the new ones are all there."""
    await start_with_old(world)
    await world.start("worker", EMBEDDING_MODEL="openai:old")
    total = MESSAGES + 2
    world.query(WANT_NEW)
    world.query(DEFER_MISSED)
    await model.wait_for(lambda: model.is_held, 30)
    assert by_model(world) == {"openai:new": 64, "openai:old": total - 64}
    assert DOG in memories(await ask(world, "Как зовут мою собаку?"))
    progress = "SELECT embedded, documents FROM embedding_models WHERE name = 'openai:new'"
    assert world.query(progress) == [(64, total)]
    model.gate.set()
    await eventually(lambda: by_model(world) == {"openai:new": total + 2}, "the rest", 60)
    await searched_with_new(world, model)


async def test_a_wanted_model_that_refuses_everything_is_told_once(
    world: World, model: TwoModels
) -> None:
    bot = await start_with_old(world)
    model.gone.add("new")
    world.query(WANT_NEW)
    for number in range(3):
        assert DOG in memories(await ask(world, f"Как зовут мою собаку? {number}"))
    refused = "it embeds nothing: the model before serves"
    await bot.wait_event(refused)
    assert DOG in memories(await ask(world, "Как зовут мою собаку?"))
    assert sum(line.get("event") == refused for line in bot.lines) == 1
    failed = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'"
    assert world.query(failed) == [(0,)]


async def test_a_model_that_answers_no_more_is_left_at_once(
    world: World, model: TwoModels
) -> None:
    """The operator changes it because it is gone: what has a new vector is found by meaning."""
    bot = await start_with_old(world)
    assert await bot.terminate() == 0
    model.gone.add("old")
    await world.start(EMBEDDING_MODEL="openai:new")  # its second batch is held back
    await searched_with_new(world, model)
