"""``reembed`` and a change of the embedding model, as far as one process shows them."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

import bot
from src.base.config import Settings
from src.history.conversation_repo import ConversationRepository
from src.pg.client import PgClient
from src.talk.prompt import SYSTEM_PROMPT
from tests.conftest import query
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.integration.person import open_rig

pytestmark = pytest.mark.own_database

MESSAGES = 150  # more than two batches
DOG = "А ещё у меня есть собака Рекс"


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
        if name == "new" and len(texts) > 60:  # but for answers
            self._batches += 1
            if self._batches == 2:
                self.is_held = True
                self.changes.notify()
                await self.gate.wait()
        self.embedded[name] += texts
        return await super()._embeddings(request)


@pytest.fixture
async def model() -> AsyncIterator[TwoModels]:
    async with TwoModels() as server:
        yield server


def tell_much(client: PgClient, user: int) -> None:
    conversations = ConversationRepository(client)
    conversation_id = conversations.get_or_create_conversation(user)
    for number in range(MESSAGES):
        text = DOG if number == 10 else f"Реплика номер {number}"
        conversations.append_message(conversation_id, "user", text)


def by_model(dsn: str) -> dict[str | None, int]:
    """How many documents have a vector of which model, as the newest one."""
    rows = query(
        dsn,
        "SELECT m.name, count(*) FROM search_documents d"
        " LEFT JOIN embedding_models m ON m.id = d.model_id GROUP BY 1",
    )
    return {name: int(count) for name, count in rows}


def memories(request: ChatRequest) -> str:
    texts = [text_of(m["content"]) for m in request.messages if m.get("name") == "memories"]
    return "".join(texts)


async def test_from_an_endpoint_to_the_local_model_and_back(
    client: PgClient, model: TwoModels, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when the database knows the model already and has other documents since."""
    model.gate.set()
    offline = {"llm_model": "offline", "openai_base_url": model.url}

    async def reembed(name: str) -> list[str]:
        settings = Settings(**{**offline, "database_url": client.dsn, "embedding_model": name})
        assert await bot.reembed(settings, argparse.Namespace(extra_tools=())) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out.splitlines()

    async with open_rig(client, **offline, embedding_model="openai:old") as rig:
        await rig.tell("Меня зовут Анна")
        await rig.tell("Я живу в Туле")
    total = sum(by_model(client.dsn).values())
    assert by_model(client.dsn) == {"openai:old": total} and total >= 4
    for name in ("local", "openai:old"):
        first, *progress, last = await reembed(name)
        assert first == f"{name}: 0 of {total} documents have a vector."
        assert progress == [f"{total} of {total}"] and f"EMBEDDING_MODEL={name} " in last
        assert by_model(client.dsn) == {name: total}
        async with open_rig(client, **offline, embedding_model=name) as rig:
            assert "Анна" in (await rig.tell("Как меня зовут?")).text
        total = sum(by_model(client.dsn).values())
    assert await reembed("openai:old") == [
        f"openai:old: {total} of {total} documents have a vector.", last,
    ]  # fmt: skip
