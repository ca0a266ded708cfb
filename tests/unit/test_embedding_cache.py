"""The vectors of queries are kept, shared while on their way, and reused for documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from src.base.errors import ModelUnavailableError
from src.llm.embeddings import MAX_CACHED, MAX_QUERY, Embedder, Vectors


class Recorder(Embedder):
    """An embedder that writes down what it was asked; a text's vector is its length."""

    name = "recorder"

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.documents: list[str] = []
        self.failing = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def _embed_query(self, text: str) -> Vectors:
        self.queries.append(text)
        await self.gate.wait()
        if self.failing:
            raise ModelUnavailableError("away")
        return np.array([len(text), 1], dtype=np.float32)

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.documents += texts
        if self.failing:
            raise ModelUnavailableError("away")
        return np.array([[len(text), 2] for text in texts], dtype=np.float32)

    async def close(self) -> None:
        pass


@pytest.fixture
async def embedder() -> Recorder:
    return Recorder()


async def test_a_query_is_embedded_once_and_serves_as_a_document(embedder: Recorder) -> None:
    first, again = await embedder.embed_query("кот"), await embedder.embed_query("кот")
    assert first.tolist() == again.tolist() == [3, 1]
    vectors = await embedder.embed_documents(["собака", "кот", "собака", "ёж"])
    assert vectors.tolist() == [[6, 2], [3, 1], [6, 2], [2, 2]]
    assert (embedder.queries, embedder.documents) == (["кот"], ["собака", "ёж"])


async def test_no_documents_are_no_request(embedder: Recorder) -> None:
    assert (await embedder.embed_documents([])).shape == (0, 0)
    assert embedder.documents == []


async def test_two_who_ask_at_once_share_the_vector_and_one_may_give_up(
    embedder: Recorder,
) -> None:
    embedder.gate.clear()
    waiting = [asyncio.create_task(embedder.embed_query("кот")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    embedder.gate.set()
    vectors = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(vectors[0], asyncio.CancelledError)
    assert [v.tolist() for v in vectors[1:]] == [[3, 1], [3, 1]]  # type: ignore[union-attr]
    assert embedder.queries == ["кот"]


async def test_when_all_give_up_the_vector_is_there_for_the_next_one(
    embedder: Recorder,
) -> None:
    embedder.gate.clear()
    waiting = [asyncio.create_task(embedder.embed_query("кот")) for _ in range(2)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    embedder.gate.set()
    assert (await embedder.embed_query("кот")).tolist() == [3, 1]
    assert embedder.queries == ["кот"]


async def test_a_failure_is_not_kept(embedder: Recorder) -> None:
    embedder.failing = True
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            await embedder.embed_query("кот")
    with pytest.raises(ModelUnavailableError):
        await embedder.embed_documents(["кот"])
    embedder.failing = False
    assert (await embedder.embed_query("кот")).tolist() == [3, 1]
    assert embedder.queries == ["кот"] * 3


async def test_long_texts_are_not_shared_since_only_a_part_is_a_query(embedder: Recorder) -> None:
    long = "а" * (MAX_QUERY + 1)
    await embedder.embed_query(long)
    assert (await embedder.embed_documents([long])).tolist() == [[len(long), 2]]


async def test_the_oldest_are_let_go(embedder: Recorder) -> None:
    for number in range(MAX_CACHED + 1):
        await embedder.embed_query(f"{number}")
    await embedder.embed_documents(["0", "1"])
    assert embedder.documents == ["0"]
