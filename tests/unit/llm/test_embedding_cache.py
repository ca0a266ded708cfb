"""The vectors of queries are kept, shared while on their way, and reused for documents."""

from __future__ import annotations

import asyncio
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from src.base.errors import ModelUnavailableError
from src.llm.embeddings import (
    MAX_CACHED,
    MAX_MARKS,
    MAX_QUERY,
    Embedder,
    Vectors,
    clean_end,
    clean_start,
)


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

    async def compute_query(self, text: str) -> Vectors:
        self.queries.append(text)
        await self.gate.wait()
        if self.failing:
            raise ModelUnavailableError("away")
        return np.array([len(text), 1], dtype=np.float32)

    async def compute_documents(self, texts: Sequence[str]) -> Vectors:
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
    assert (await embedder.embed_documents([])).shape == (0, 0)
    long = "а" * (MAX_QUERY + 1)  # only a part of which is a query
    await embedder.embed_query(long)
    assert (await embedder.embed_documents([long])).tolist() == [[len(long), 2]]


@pytest.mark.parametrize("leaving", [1, 3])
async def test_those_who_ask_at_once_share_the_vector_and_may_give_up(
    embedder: Recorder, leaving: int
) -> None:
    embedder.gate.clear()
    waiting = [asyncio.create_task(embedder.embed_query("кот")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting[:leaving]:
        task.cancel()
    await asyncio.sleep(0)
    embedder.gate.set()
    vectors = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in vectors[:leaving])
    vectors = [*vectors[leaving:], await embedder.embed_query("кот")]
    assert [v.tolist() for v in vectors] == [[3, 1]] * (4 - leaving)  # type: ignore[union-attr]
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


async def test_the_oldest_are_let_go(embedder: Recorder) -> None:
    for number in range(MAX_CACHED + 1):
        await embedder.embed_query(f"{number}")
    await embedder.embed_documents(["0", "1"])
    assert embedder.documents == ["0"]


SALUTATION = "\ufdfa"  # becomes 18 characters, more than any other


@pytest.mark.parametrize("text", [
    "Где я живу?", "Їжачок з'їв ґудзик", "It's 5 o'clock; 20 % off!", "😀👍🏽 Ok", "日本語です",
    "a  b",
])  # fmt: skip
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean_start(text, 100) == clean_end(text, 100) == text


def test_a_text_is_bounded_by_its_expanded_length() -> None:
    expanded = unicodedata.normalize("NFKC", SALUTATION)
    assert len(expanded) == 18
    assert clean_start(SALUTATION * 100, 50) == (expanded * 3)[:50]
    assert clean_end(SALUTATION * 100, 50) == (expanded * 3)[-50:]


def test_of_a_long_text_the_query_keeps_its_end_and_the_document_its_start() -> None:
    text = "начало " + "x" * 5000 + " конец"
    assert clean_start(text, 20) == "начало " + "x" * 13
    assert clean_end(text, 20) == "x" * 14 + " конец"


@pytest.mark.parametrize(("text", "cleaned"), [
    ("a\x00b\x07c", "abc"), ("a\nb\tc\r\nd", "a b c  d"), ("a\ud800b\udfffc", "a b c"),
    ("a\ue000b\U000f0000c", "a b c"), ("a\u0378b\U000e0fffc", "a b c"), ("и\u0306", "й"),
    ("x" + "\u0301" * 2000 + "y", "x\u0301".join(("", "\u0301" * (MAX_MARKS - 1) + "y"))),
])  # fmt: skip
def test_what_means_nothing_is_no_part_of_it(text: str, cleaned: str) -> None:
    assert clean_start(text, 1500) == clean_end(text, 1500) == cleaned


def test_nothing_is_left_that_the_engine_would_expand() -> None:
    """It decomposes each character by itself, into at most four times its bytes."""
    characters = map(chr, range(sys.maxunicode + 1))
    cleaned = {part for character in characters for part in clean_start(character, 100)}
    growing = [c for c in cleaned if len(unicodedata.normalize("NFKC", c)) > len(c.encode())]
    assert growing == []
