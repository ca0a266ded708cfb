"""Embeds a message once: as a query while it is answered, as a document afterwards."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from src.llm.embeddings import MAX_QUERY, Embedder
from src.llm.vectors import Vectors

KEPT = 500  # texts; 1.5 KB each


class CachingEmbedder:
    """Remembers the vectors of the newest queries, also those that are still on their way."""

    def __init__(self, embedder: Embedder) -> None:
        """Ask ``embedder`` for what is not known."""
        self._embedder = embedder
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    @property
    def name(self) -> str:
        """See ``Embedder``."""
        return self._embedder.name

    async def embed_query(self, text: str) -> Vectors:
        """See ``Embedder``; who asks meanwhile for the same text waits for the same vector.

        A caller that gives up does not take the vector away from the others.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self._embedder.embed_query(text))
            if len(text) <= MAX_QUERY:  # of a longer one a query is the end, a document the start
                self._queries[text] = task
                if len(self._queries) > KEPT:
                    self._queries.popitem(last=False)
        return await asyncio.shield(task)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See ``Embedder``; texts that were queries are not embedded again."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        known: dict[str, Vectors] = {}
        for text in texts:
            task = self._queries.get(text)
            if task is not None and _succeeded(task):
                known[text] = task.result()
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            vectors = await self._embedder.embed_documents(missing)
            known |= dict(zip(missing, vectors, strict=True))
        return np.vstack([known[text] for text in texts])

    def expect(self, dimensions: int) -> None:
        """See ``Embedder``."""
        self._embedder.expect(dimensions)

    async def close(self) -> None:
        """See ``Embedder``."""
        await self._embedder.close()


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
