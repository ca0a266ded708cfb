"""Whatever an embeddings endpoint replies is a vector for each text, or one kind of error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from src.base.config import Settings
from src.base.errors import (
    BadVectorsError,
    ModelRefusedError,
    ModelSetupError,
    ModelUnavailableError,
)
from src.llm.embeddings import OpenAIEmbedder
from tests.fakes.openai_server import FakeOpenAI, Reply, pack

Json = dict[str, Any]
TEXTS = ["кот", "собака", "ёж"]


def rows(change: Callable[[list[Any]], Any]) -> Callable[[Json, list[str]], Any]:
    """Spoil the list of vectors."""
    return lambda reply, _texts: reply | {"data": change(reply["data"])}


def each(change: Callable[[Json], Any]) -> Callable[[Json, list[str]], Any]:
    """Spoil each of them."""
    return rows(lambda data: [change(row) for row in data])


def numbers(change: Callable[[list[float]], Any]) -> Callable[[Json, list[str]], Any]:
    """Spoil the numbers of each."""
    return each(lambda row: row | {"embedding": change(row["embedding"])})


BAD: dict[str, Callable[[Json, list[str]], Any]] = {
    "no vectors": rows(lambda data: None),
    "another thing": rows(lambda data: "vectors"),
    "one too few": rows(lambda data: data[1:]),
    "one too many": rows(lambda data: [*data, data[0]]),
    "all of one number": each(lambda row: row | {"index": 0} if row["index"] else {"index": 0}),
    "fewer, without numbers": rows(lambda data: [{"embedding": r["embedding"]} for r in data[1:]]),
    "odd numbers": each(lambda row: row | {"index": [row["index"]]}),
    "null": numbers(lambda vector: None),
    "nothing in it": numbers(lambda vector: []),
    "another length": numbers(lambda vector: vector[:100]),
    "lengths that differ": each(
        lambda row: row | {"embedding": row["embedding"][row["index"] + 1 :]}
    ),
    "NaN": numbers(lambda vector: [float("nan"), *vector[1:]]),
    "more than a number holds": numbers(lambda vector: [10**400, *vector[1:]]),
    "zeros": numbers(lambda vector: [0.0] * len(vector)),
    "words": numbers(lambda vector: ["a"] * len(vector)),
    "one number": numbers(lambda vector: 1.0),
    "base64": numbers(lambda vector: "AACAPwAAgD8="),
    "no JSON": lambda reply, _texts: "<html>502 Bad Gateway</html>",
    "nothing": lambda reply, _texts: "",
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def embedder(fake: FakeOpenAI) -> AsyncIterator[OpenAIEmbedder]:
    """It knows what its model's vectors are like."""
    settings = Settings(openai_api_key="k", openai_base_url=fake.url, llm_timeout=10)
    made = OpenAIEmbedder("openai:m", settings)
    made.dimensions = fake.embedding_dimension
    yield made
    await made.close()


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_reply_is_one_kind_of_error_and_not_kept(
    fake: FakeOpenAI, embedder: OpenAIEmbedder, kind: str
) -> None:
    fake.spoil_embeddings = BAD[kind]
    for _ in range(2):
        with pytest.raises(BadVectorsError):
            await embedder.embed_documents(TEXTS)
        with pytest.raises(BadVectorsError):
            await embedder.embed_query("кот")
    fake.spoil_embeddings = None
    query = await embedder.embed_query("кот")
    documents = await embedder.embed_documents(TEXTS)
    assert documents.shape == (3, fake.embedding_dimension)
    assert np.array_equal(query, documents[0])
    assert np.linalg.norm(documents, axis=1) == pytest.approx(1, abs=1e-6)


def without_index(row: Json) -> Json:
    return {"embedding": row["embedding"]}


GOOD: dict[str, Callable[[Json, list[str]], Any]] = {
    "without numbers": each(without_index),
    "without the zero": each(lambda row: row if row["index"] else without_index(row)),
    "null for zero": each(lambda row: row | {"index": row["index"] or None}),
    "as base64": numbers(pack),
    "each in a list": numbers(lambda vector: [vector]),
    "as texts": each(lambda row: row | {"index": str(row["index"])}),
    "half of them": rows(lambda data: data[: (len(data) + 1) // 2]),
    "only the last": rows(lambda data: data[-1:]),
    "in another order": rows(lambda data: data[::-1]),
    "tiny": numbers(lambda vector: [1e-9 * number for number in vector]),
    "huge": numbers(lambda vector: [1e9 * number for number in vector]),
}


@pytest.mark.parametrize("kind", GOOD)
async def test_a_reply_of_another_form_holds_the_same_vectors(
    fake: FakeOpenAI, embedder: OpenAIEmbedder, kind: str
) -> None:
    expected = await embedder.embed_documents(TEXTS)
    fake.spoil_embeddings = GOOD[kind]
    assert np.allclose(await embedder.embed_documents(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize("most", [1, 2, 10])
async def test_the_number_of_texts_that_an_endpoint_takes_is_found_and_kept(
    fake: FakeOpenAI, embedder: OpenAIEmbedder, most: int
) -> None:
    texts = [f"текст {n}" for n in range(33)]
    expected = await embedder.embed_documents(texts)
    fake.embeddings_most = most
    assert np.allclose(await embedder.embed_documents(texts), expected, atol=1e-6)
    asked = len(fake.embedding_requests)
    await embedder.embed_documents(texts)
    assert all(len(inputs) <= most for inputs in fake.embedding_requests[asked:])


@pytest.mark.parametrize(("status", "error"), [
    (400, "the input length exceeds the context length"),
    (500, "input (900 tokens) is too large to process. increase the physical batch size"),
])  # fmt: skip
async def test_of_a_text_that_is_too_long_the_beginning_is_embedded(
    fake: FakeOpenAI, embedder: OpenAIEmbedder, status: int, error: str
) -> None:
    refusal = Reply(status=status, error=error)
    fake.embeddings_refusal = lambda texts: refusal if max(map(len, texts)) > 2000 else None
    long = "слово " * 900
    vectors = await embedder.embed_documents([*TEXTS, long, "и ещё"])
    assert vectors.shape == (5, 256)
    sent = [text for inputs in fake.embedding_requests for text in inputs]
    assert any(500 < len(text) <= 2000 and long.startswith(text) for text in sent)
    await embedder.embed_documents(["а", "б"])
    assert fake.embedding_requests[-1] == ["а", "б"], "the size of requests stays"


async def test_a_text_that_json_cannot_carry_is_embedded_all_the_same(
    fake: FakeOpenAI, embedder: OpenAIEmbedder
) -> None:
    assert (await embedder.embed_query("кот \ud800 \x00")).shape == (256,)
    assert (await embedder.embed_documents([" \n", "a\udfff"])).shape == (2, 256)


@pytest.mark.parametrize(("status", "kind"), [
    (401, ModelSetupError), (503, ModelUnavailableError), (400, ModelRefusedError),
])  # fmt: skip
async def test_a_refusal_is_told_from_a_bad_reply(
    fake: FakeOpenAI, embedder: OpenAIEmbedder, status: int, kind: type[Exception]
) -> None:
    fake.embeddings_error = Reply(status=status)
    with pytest.raises(kind) as caught:
        await embedder.embed_documents(TEXTS)
    assert not isinstance(caught.value, BadVectorsError)
    fake.embeddings_error = None
    await embedder.embed_documents(TEXTS)
    assert fake.embedding_requests[-1] == TEXTS, "the size of requests stays"
