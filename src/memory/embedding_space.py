"""One embedding model as the search uses it: centred vectors, and a scale for similarity.

A raw cosine says little: those of unrelated sentences are high too. Two things are found out once
per model and stored with it. The *means*: what generic statements, and generic questions, of a
language share is subtracted from every such text. So a question finds its answer rather than
another question, and a Ukrainian one an English fact. The *scale* maps a centred cosine to a
similarity from 0 (as unrelated texts) to 1 (the same again).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from src.errors import AppError, BadVectorsError, ModelError
from src.llm.embeddings import Embedder
from src.llm.vectors import Vectors, unit
from src.memory.generic_texts import GENERIC_TEXTS
from src.storage.embedding_repo import EmbeddingModel, EmbeddingRepository, Form
from src.storage.pg_client import PgClient
from src.texts import detect_language

PROBE = "Проверка связи, connection check"  # what no user asks: that would be in the cache
RELATED = 0.6  # similarity from which texts have to do with each other


class EmbeddingSpace:
    """Embeds texts and centres them; asks the database once what it knows of the model.

    Attributes:
        failures: How many queries in a row it could not embed, or not in time.
    """

    def __init__(
        self, embedder: Embedder, client: PgClient, repository: EmbeddingRepository
    ) -> None:
        """Embed with ``embedder``; keep what is measured of it in ``repository``."""
        self._embedder = embedder
        self._client = client
        self._repository = repository
        self._model: EmbeddingModel | None = None
        self._means: dict[tuple[str, Form], Vectors] = {}
        self._opening = asyncio.Lock()
        self.failures = 0

    @property
    def name(self) -> str:
        """The model's, as in ``EMBEDDING_MODEL``."""
        return self._embedder.name

    async def model(self) -> EmbeddingModel:
        """The model, measured now if this database has not met it.

        Raises:
            ModelError: The endpoint is away, or returns vectors of another length than before.
            StorageError: The database is away.
        """
        async with self._opening:
            if self._model is None:
                name = self._embedder.name
                model = await self._client.run(self._repository.find_model, name)
                model = model or await self._measure()
                self._embedder.expect(model.dimensions)
                self._means = {
                    key: np.array(mean, dtype=np.float32) for key, mean in model.means.items()
                }
                self._model = model
            return self._model

    async def embed_query(self, text: str) -> str:
        """The centred vector of a query, as PostgreSQL reads it: ``[0.1,...]``.

        Raises:
            ModelError: The endpoint is away.
            StorageError: The database is away.
        """
        try:
            await self.model()
            vectors = (await self._embedder.embed_query(text))[np.newaxis]
        except (AppError, asyncio.CancelledError):
            self.failures += 1
            raise
        self.failures = 0
        form: Form = "question" if text.rstrip().endswith("?") else "statement"
        return as_literal(self._centre(vectors, [text], form)[0])

    async def embed_documents(self, texts: Sequence[str]) -> list[str]:
        """The centred vectors of documents, as PostgreSQL reads them.

        Raises:
            ModelError: The endpoint is away.
            StorageError: The database is away.
        """
        if not texts:
            return []
        await self.model()
        vectors = await self._embedder.embed_documents(texts)
        return [as_literal(vector) for vector in self._centre(vectors, texts, "statement")]

    async def probe(self) -> None:
        """Embed a text that no embedder refuses, to tell a bad text from a bad embedder.

        Raises:
            ModelError: The endpoint refuses anything.
            ModelUnavailableError: It is away, or returns no vectors; the local model does not
                start.
        """
        await self._embedder.embed_documents([PROBE])

    async def close(self) -> None:
        """Close the embedder's connections, or end its processes."""
        await self._embedder.close()

    def similarity(self, cosine: float) -> float:
        """A centred cosine on the model's own scale, 0 to 1; 0 before the model is known.

        0 is the middle of unrelated texts, 0.6 what 95 of 100 pairs of them stay below, 1 the
        same text; straight lines between. So a threshold means the same for every model.
        """
        if self._model is None:
            return 0.0
        scale = (self._model.unrelated_median, self._model.unrelated_high, 1.0)
        return float(np.interp(cosine, scale, (0.0, RELATED, 1.0)))

    def _centre(self, vectors: Vectors, texts: Sequence[str], form: Form) -> Vectors:
        means = np.vstack([self._means[detect_language(text), form] for text in texts])
        if vectors.shape != means.shape:
            raise ModelError(
                f"{self._embedder.name} returned vectors of shape {vectors.shape}, "
                f"not {means.shape}"
            )
        return unit(vectors - means)

    async def _measure(self) -> EmbeddingModel:
        means: dict[tuple[str, Form], tuple[float, ...]] = {}
        cosines: list[float] = []
        dimensions: set[int] = set()
        for key, texts in GENERIC_TEXTS.items():
            vectors = await self._embedder.embed_documents(texts)
            dimensions.add(vectors.shape[1])
            mean = vectors.mean(axis=0)
            means[key] = tuple(mean.tolist())
            centred = unit(vectors - mean)
            cosines += (centred @ centred.T)[np.triu_indices(len(texts), 1)].tolist()
        if len(dimensions) > 1:
            raise BadVectorsError(f"{self._embedder.name} returned vectors of many lengths")
        return await self._client.run(
            self._repository.add_model,
            self._embedder.name,
            means,
            unrelated_median=float(np.median(cosines)),
            unrelated_high=float(np.quantile(cosines, 0.95)),
        )


def as_literal(vector: Vectors) -> str:
    """A vector as pgvector's text: ``[0.1,-0.2]``, with the four digits that halfvec keeps."""
    return "[" + ",".join(f"{value:.4f}" for value in vector.tolist()) + "]"
