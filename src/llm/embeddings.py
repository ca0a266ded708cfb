"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint.

Includes a cache of query vectors.
"""

import asyncio
import base64
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from socksio import ProtocolError

from src.base.config import LOCAL_EMBEDDINGS, Settings
from src.base.errors import BadVectorsError, ModelRefusedError
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS
from src.llm.embedding_engine import ENVIRONMENT, EmbeddingEngine, clean_end, clean_start
from src.llm.errors import model_error

Vectors = NDArray[np.float32]

# Longer vectors are cut (Matryoshka): a vector and its key must fit into an index page.
MAX_DIMENSIONS = 1024


def read_vectors(reply: Any, count: int) -> tuple[list[int], Vectors]:
    """Return which texts an ``/embeddings`` reply has vectors of, and those, with length 1.

    Rows without an ``index`` are in the order of the texts; if only one lacks it, that is the
    first, whose zero some servers leave out.

    Args:
        reply: The endpoint's JSON, unvalidated.
        count: Number of texts.

    Raises:
        BadVectorsError: It holds something else than vectors of finite numbers, all of one length.
    """
    try:
        rows = list(reply["data"])
        places = [int(row.get("index") or 0) for row in rows]
        if len(rows) == count and all(row.get("index") is None for row in rows):
            places = list(range(count))
        if not rows or len(set(places)) < len(places) or not set(places) <= set(range(count)):
            raise BadVectorsError("the reply does not tell whose vectors it holds")
        vectors = np.array([_numbers(row["embedding"]) for row in rows], dtype=np.float64)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadVectorsError(f"the reply holds no vectors ({type(error).__name__})") from error
    if vectors.ndim == 3 and vectors.shape[1] == 1:  # llama.cpp's own form
        vectors = vectors[:, 0]
    if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
        raise BadVectorsError("the reply holds something else than vectors of finite numbers")
    return places, unit(vectors[:, :MAX_DIMENSIONS])


def _numbers(vector: Any) -> Any:
    if isinstance(vector, str):  # base64, which some servers send unasked
        return np.frombuffer(base64.b64decode(vector), "<f4")
    return vector


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """Scale vectors to length 1 along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


# Characters that the local model reads; it accepts 512 tokens, which take it a second.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
MAX_TEXTS = 2048  # in a request; OpenAI's limit
MIN_HALVED = 500  # characters of a refused text; no model reads less
MAX_CACHED = 500  # cached query vectors; 1.5 KB each


class Embedder(ABC):
    """Converts texts to vectors of length 1, and caches those of the latest queries.

    Attributes:
        name: As in ``EMBEDDING_MODEL``.
        dimensions: Vectors of any other length are refused; None: not known yet.
    """

    name: str
    dimensions: int | None = None

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector of shape (dimensions,); in the hot path.

        Concurrent callers with the same text share one computation, which outlives them.

        Raises:
            ModelError: The endpoint refused; the local model crashes on the text.
            ModelUnavailableError: The endpoint is unreachable, or returned no vector; the local
                model does not start.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self._embed_query(text))
            task.add_done_callback(_succeeded)  # looks at its failure, which all may have left
            # Of a longer text, a query embeds the end, a document the start.
            if len(text) <= MAX_QUERY:
                self._queries[text] = task
                if len(self._queries) > MAX_CACHED:
                    self._queries.popitem(last=False)
        return await asyncio.shield(task)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (len(texts), dimensions); in background jobs.

        Texts cached as queries are not embedded again.

        Raises:
            ModelError: As for ``embed_query``, for any of the texts.
            ModelUnavailableError: As for ``embed_query``, or a vector is missing.
        """
        tasks = {text: self._queries.get(text) for text in texts}
        known = {text: task.result() for text, task in tasks.items() if task and _succeeded(task)}
        missing = [text for text in tasks if text not in known]
        if missing:
            known |= zip(missing, await self._embed_documents(missing), strict=True)
        return np.array([known[text] for text in texts] or np.zeros((0, 0)), dtype=np.float32)

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, or end the processes."""

    @abstractmethod
    async def _embed_query(self, text: str) -> Vectors: ...

    @abstractmethod
    async def _embed_documents(self, texts: Sequence[str]) -> Vectors: ...


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def build_embedder(settings: Settings, name: str, metrics: Metrics) -> Embedder:
    """Build the embedder named as in ``EMBEDDING_MODEL``; nothing starts or connects yet."""
    if name == LOCAL_EMBEDDINGS:
        return LocalEmbedder(metrics)
    return OpenAIEmbedder(name, settings)


class LocalEmbedder(Embedder):
    """multilingual-e5-small in a child process.

    Queries and documents have a queue each: one document at a time waits among the queries for the
    engine, so a query waits for at most one document. Both sides use the ``query:`` prefix, which
    finds more than ``passage:`` for documents.

    Attributes:
        engine: The child process.
    """

    name = LOCAL_EMBEDDINGS

    def __init__(self, metrics: Metrics, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        """Count failures in ``metrics``; nothing starts before the first text."""
        super().__init__()
        self.engine = EmbeddingEngine(metrics, environment=environment)
        self._documents = asyncio.Lock()

    async def _embed_query(self, text: str) -> Vectors:
        """Embed the end of a long text, where the question is."""
        return await self.engine.embed(clean_end(text, MAX_QUERY))

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        rows = []
        for text in texts:
            async with self._documents:
                rows.append(await self.engine.embed(clean_start(text, MAX_DOCUMENT)))
        return np.vstack(rows)

    async def close(self) -> None:
        """End the process."""
        await self.engine.close()


class OpenAIEmbedder(Embedder):
    """Client of any endpoint with OpenAI's ``/embeddings``."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Use a model named like ``openai:text-embedding-3-small`` at ``OPENAI_BASE_URL``."""
        from openai import APIError, AsyncOpenAI, DefaultAsyncHttpxClient  # takes 0.5 s to import

        super().__init__()
        self.name = name
        self._model = name.partition(":")[2]
        self._api_error = APIError
        self._most = MAX_TEXTS  # in a request that this endpoint takes
        provider = PROVIDERS["openai"]
        self._client = AsyncOpenAI(
            api_key=provider.secret(settings).get_secret_value(),
            base_url=settings.openai_base_url,
            timeout=settings.llm_timeout,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(proxy=provider.proxy(settings)),
        )

    async def _embed_query(self, text: str) -> Vectors:
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed(self, texts: list[str]) -> Vectors:
        """Embed texts in as few requests as the endpoint takes.

        A refused request is halved, and the size that worked is kept; a text that is refused
        alone is halved too, as its model may read less of it. Texts without a vector are asked
        for again.
        """
        vectors: dict[int, Vectors] = {}
        pending, most = list(range(len(texts))), self._most
        while pending:
            batch = pending[:most]
            try:
                places, rows = await self._request([texts[n] for n in batch])
            except ModelRefusedError:
                if len(batch) > 1:
                    most = len(batch) // 2
                    continue
                [n] = batch  # it is the text, not their number
                if len(texts[n]) < MIN_HALVED:
                    raise
                texts[n], most = texts[n][: len(texts[n]) // 2], self._most
                continue
            vectors |= {batch[place]: row for place, row in zip(places, rows, strict=True)}
            pending = [n for n in pending if n not in vectors]
        self._most = most
        return np.vstack([vectors[n] for n in range(len(texts))])

    async def _request(self, texts: Sequence[str]) -> tuple[list[int], Vectors]:
        try:
            # Raw: the SDK would create an object for each number.
            answer = await self._client.embeddings.with_raw_response.create(
                model=self._model,
                # As JSON can carry it; an empty text is refused.
                input=[text.encode("utf-8", "replace").decode().strip() or "-" for text in texts],
                encoding_format="float",
            )
            reply = answer.http_response.json()
        except (self._api_error, ProtocolError) as error:
            raise model_error(error) from error
        except Exception as error:
            raise BadVectorsError(f"the reply cannot be read ({type(error).__name__})") from error
        places, vectors = read_vectors(reply, len(texts))
        if self.dimensions not in (None, vectors.shape[1]):
            problem = f"the vectors have {vectors.shape[1]} numbers, not {self.dimensions}"
            raise BadVectorsError(problem)
        return places, vectors
