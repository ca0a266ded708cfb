"""The optional cross-encoder: a better order in time, the fused order otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from src.base.owners import Owner
from src.llm.endpoints import RERANK_DEADLINE
from src.memory.queries import Query
from src.pg.client import PgClient
from tests.fakes import LoopbackServer, drop_connection, wait_for_client_to_leave
from tests.integration.person import USER, Rig, open_rig

KEY = "rerank-key-7"
TEXTS = [f"Отдал ключ соседке номер {number}" for number in range(1, 6)]
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


class FakeRerank(LoopbackServer):
    """Puts the texts in the reverse of the alphabet's order, as Jina's endpoint replies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.reply: web.Response | dict[str, Any] | str | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/rerank", self._rerank)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/rerank"

    async def _rerank(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        if self.reply == "hang":
            await wait_for_client_to_leave()
        if self.reply == "drop":
            await drop_connection(request)
        if self.reply == "drip":
            return await self._drip(request)
        if isinstance(self.reply, web.Response):
            return self.reply
        if self.reply is not None:
            return web.json_response(self.reply)
        best_first = sorted(enumerate(body["documents"]), key=lambda d: d[1], reverse=True)
        results = [
            {"index": index, "relevance_score": 1 / (place + 1), "document": {"text": text}}
            for place, (index, text) in enumerate(best_first)
        ]
        return web.json_response({"model": body.get("model"), "usage": {}, "results": results})

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """A byte at a time: no single read is ever late."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(RERANK_DEADLINE / 10)


@pytest.fixture
async def server() -> AsyncIterator[FakeRerank]:
    async with FakeRerank() as running:
        yield running


@pytest.fixture
async def rig(client: PgClient, server: FakeRerank) -> AsyncIterator[Rig]:
    """A person who has said the texts, and a bot with a reranker."""
    settings = {
        "embedding_model": "openai:fake-embedding",
        "rerank_url": server.url,
        "rerank_model": "bge-reranker-v2-m3",
        "rerank_api_key": KEY,
    }
    async with open_rig(client, **settings) as rig:
        conversation = rig.conversation()
        for text in TEXTS:
            rig.core.conversations.append_message(conversation, "user", text, said_at=NOON)
        await rig.core.memory.indexer.index_conversation(conversation)
        await rig.core.memory.indexer.embed_pending()
        yield rig


async def found(rig: Rig, limit: int = 5) -> list[str]:
    query = Query(Owner(USER), "Кому я отдал ключ?", NOON + timedelta(days=1), limit=limit)
    return [hit.text for hit in await rig.core.memory.retriever.search(query)]


async def test_the_endpoint_decides_the_order(rig: Rig, server: FakeRerank) -> None:
    assert await found(rig) == TEXTS[::-1]
    assert await found(rig, limit=2) == TEXTS[:2:-1]
    [body, _] = server.bodies
    assert body["model"] == "bge-reranker-v2-m3"
    assert body["query"] == "Кому я отдал ключ?"
    assert sorted(body["documents"]) == TEXTS and body["top_n"] == len(TEXTS)
    assert server.keys == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize("reply", [
    "hang", "drop", "drip", web.Response(status=401, text="bad key rerank-key-7"),
    web.Response(text="<html>"), {"results": [{"index": "first", "relevance_score": 1}]}, {},
], ids=["hangs", "drops", "drips", "401", "html", "no index", "empty"])  # fmt: skip
async def test_the_fused_order_stands_when_the_endpoint_fails(
    rig: Rig, server: FakeRerank, reply: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.reply = reply
    async with asyncio.timeout(RERANK_DEADLINE + 5):
        assert sorted(await found(rig)) == TEXTS
    assert len(server.bodies) == 1, "it is asked once a search"
    [record] = [r for r in caplog.records if "fused order" in r.message]
    assert record.levelname == "WARNING"
    logged = caplog.text
    assert KEY not in logged and TEXTS[0] not in logged


async def test_what_the_endpoint_leaves_out_or_makes_up_changes_no_hit(
    rig: Rig, server: FakeRerank
) -> None:
    server.reply = {
        "results": [
            {"index": 2, "relevance_score": 0.9},
            {"index": 2, "relevance_score": 0.8},
            {"index": -1, "relevance_score": 0.7},
            {"index": 99, "relevance_score": 0.6},
        ]
    }
    texts = await found(rig)
    assert sorted(texts) == TEXTS
    assert texts[0] == server.bodies[0]["documents"][2]
