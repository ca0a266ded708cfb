"""Embedding spaces: centred vectors of a model, and the choice of the model that serves."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from src.base.config import LOCAL_EMBEDDINGS
from src.base.errors import AppError, BadVectorsError, ModelError, ModelUnavailableError
from src.llm.embeddings import Embedder, Vectors, unit
from src.memory.search_index_repo import EmbeddingModel, EmbeddingRepository, Scale
from src.memory.thresholds import RELATED
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettingsRepository
from src.reading import lexicon
from src.texts import detect_language

logger = logging.getLogger(__name__)

# An embedding space is one embedding model as the search uses it: centred vectors, and a scale for
# similarity.
#
# A raw cosine says little, since unrelated sentences have high ones too. Two things are measured
# once per model and stored with it. The *means*: the part that generic statements, or generic
# questions, of a language share is subtracted from every such text. So a question finds its answer
# rather than another question, and a Ukrainian question an English fact. The *scale* maps a
# centred cosine to a similarity from 0 (unrelated texts) to 1 (the same text).

# Result of ``measure_scale`` for the local model, so that a first start need not embed a hundred
# texts. ``python -m benchmarks.embedding_scale`` rewrites it; a test compares it.
LOCAL_SCALE = Path(__file__).with_name("local_scale.json")


async def measure_scale(embedder: Embedder) -> Scale:
    """Embed ordinary texts (``generic`` in the lexicon) to measure the scale of a model.

    Raises:
        ModelError: The endpoint is away, or its vectors differ in length.
    """
    means: dict[str, list[float]] = {}
    cosines: list[float] = []
    for group in ("generic.statement", "generic.question"):
        for language, texts in lexicon.by_language(group):
            vectors = await embedder.embed_documents(texts)
            mean = vectors.mean(axis=0)
            form = group.removeprefix("generic.")
            means[f"{language} {form}"] = [round(value, 6) for value in mean.tolist()]
            centred = unit(vectors - mean)
            cosines += (centred @ centred.T)[np.triu_indices(len(texts), 1)].tolist()
    if len({len(mean) for mean in means.values()}) > 1:
        raise BadVectorsError(f"{embedder.name} returned vectors of many lengths")
    return Scale(means, float(np.median(cosines)), float(np.quantile(cosines, 0.95)))


class EmbeddingSpace:
    """Space of one embedding model, which embeds and centres texts.

    What is stored of the model is read once.

    Attributes:
        embedder: The embedder.
        known: The model, once it is read or measured.
    """

    def __init__(self, embedder: Embedder, client: PgClient) -> None:
        """Embed with ``embedder``; store its scale through ``client``."""
        self.embedder = embedder
        self._client = client
        self._repository = EmbeddingRepository(client)
        self.known: EmbeddingModel | None = None
        self._means: dict[str, Vectors] = {}
        self._model_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model's name, as in ``EMBEDDING_MODEL``."""
        return self.embedder.name

    async def model(self) -> EmbeddingModel:
        """Return the model; measure it if it is new to this database.

        Raises:
            ModelError: The endpoint is away, or returns vectors of another length than before.
            StorageError: The database is away.
        """
        async with self._model_lock:
            if self.known is None:
                model = await self._client.run(self._repository.find_model, self.name)
                if model is None:
                    if self.name == LOCAL_EMBEDDINGS:
                        scale = Scale(*json.loads(LOCAL_SCALE.read_text()).values())
                    else:
                        scale = await measure_scale(self.embedder)
                    model = await self._client.run(self._repository.add_model, self.name, scale)
                self.embedder.dimensions = model.dimensions
                self._means = {
                    key: np.array(mean, dtype=np.float32) for key, mean in model.means.items()
                }
                self.known = model
            return self.known

    async def embed_query(self, text: str) -> str:
        """Return the centred vector of a query in PostgreSQL's notation: ``[0.1,...]``.

        Raises:
            ModelError: The endpoint is away.
            StorageError: The database is away.
        """
        await self.model()
        vectors = (await self.embedder.embed_query(text))[np.newaxis]
        form = "question" if text.rstrip().endswith("?") else "statement"
        return as_literal(self._centre(vectors, [text], form)[0])

    async def embed_documents(self, texts: Sequence[str]) -> list[str]:
        """Return the centred vectors of documents in PostgreSQL's notation.

        Raises:
            ModelError: The endpoint is away.
            StorageError: The database is away.
        """
        if not texts:
            return []
        await self.model()
        vectors = await self.embedder.embed_documents(texts)
        return [as_literal(vector) for vector in self._centre(vectors, texts, "statement")]

    def similarity(self, cosine: float | None) -> float:
        """Return a centred cosine on the model's own scale, 0 to 1; 0 if either is not known.

        0 is the median of unrelated texts, 0.6 their 95th percentile, 1 the same text, with linear
        interpolation. So a threshold means the same for every model.
        """
        if self.known is None or cosine is None:
            return 0.0
        scale = (self.known.unrelated_median, self.known.unrelated_high, 1.0)
        return float(np.interp(cosine, scale, (0.0, RELATED, 1.0)))

    def _centre(self, vectors: Vectors, texts: Sequence[str], form: str) -> Vectors:
        means = np.vstack([self._means[f"{detect_language(text)} {form}"] for text in texts])
        if vectors.shape != means.shape:
            raise ModelError(
                f"{self.name} returned vectors of shape {vectors.shape}, not {means.shape}"
            )
        return unit(vectors - means)


def as_literal(vector: Vectors) -> str:
    """Return a vector as pgvector's text, ``[0.1,-0.2]``, with the four digits of halfvec."""
    return "[" + ",".join(f"{value:.4f}" for value in vector.tolist()) + "]"


LINE_DEADLINE = 1.0  # seconds to embed a line that is to be classified
CHECK_EVERY = 3.0  # seconds between checks whether the wanted model can serve


@dataclass(eq=False, repr=False)
class ServingSpace:
    """Space of the serving model: the wanted one as soon as every document has its vector.

    Until then the earlier model serves, whose vectors are complete. Every process decides this
    itself, from the stored documents; the job ``reembed`` (or the command) computes the missing
    vectors.

    ``_build`` makes the embedder of a name; ``_default`` is the wanted model without a setting.
    """

    _build: Callable[[str], Embedder]
    _settings: GlobalSettingsRepository
    _default: str
    _client: PgClient

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._repository = EmbeddingRepository(self._client)
        self._spaces: dict[str, EmbeddingSpace] = {}
        self._serving: EmbeddingSpace | None = None
        self._checked_at = float("-inf")

    async def current(self) -> EmbeddingSpace:
        """Return the space to embed and search in.

        Raises:
            StorageError: The database is away, and nothing serves yet.
        """
        serving = self._serving
        if serving is None:
            await self._client.run(self._settings.get)
        elif serving.name == self._wanted or time.monotonic() - self._checked_at < CHECK_EVERY:
            return serving
        self._checked_at = time.monotonic()
        name = await self._client.run(self._repository.find_serving, self._wanted)
        self._serving = self._get_space(name)
        return self._serving

    async def coming(self) -> EmbeddingSpace | None:
        """Return the wanted model's space while another one serves; None if it serves itself.

        Raises:
            StorageError: The database is away, and nothing serves yet.
        """
        serving = await self.current()
        return None if serving.name == self._wanted else self._get_space(self._wanted)

    async def model(self) -> EmbeddingModel:
        """Return the serving model; see ``EmbeddingSpace``."""
        return await (await self.current()).model()

    async def embed_within(
        self, seconds: float, text: str, *, is_query: bool, otherwise: str
    ) -> tuple[str | None, int | None]:
        """Return the vector of a text and the id of its model; log ``otherwise`` without them.

        Returns:
            Two Nones if the model is away, refuses the text, or takes longer than ``seconds``.

        Raises:
            StorageError: The database is away.
        """
        try:
            async with asyncio.timeout(seconds):
                space = await self.current()
                if is_query:
                    vector = await space.embed_query(text)
                else:
                    [vector] = await space.embed_documents([text])
                return vector, (await space.model()).id
        except (ModelError, ModelUnavailableError, TimeoutError) as error:
            logger.warning(otherwise, exc_info=error)
            return None, None

    async def embed_line(self, text: str) -> Vectors | None:
        """Return the local model's vector of a line, not centred; None if it does not serve."""
        with suppress(AppError, TimeoutError):
            async with asyncio.timeout(LINE_DEADLINE):
                space = await self.current()
                if space.name == LOCAL_EMBEDDINGS:
                    return await space.embedder.embed_query(text)
        return None

    def similarity(self, cosine: float | None) -> float:
        """Return a similarity in the serving space; see ``EmbeddingSpace``."""
        return self._serving.similarity(cosine) if self._serving is not None else 0.0

    async def close(self) -> None:
        """Close every open space; a replaced one may still be in use until then."""
        for space in self._spaces.values():
            await space.embedder.close()

    @property
    def _wanted(self) -> str:
        return self._settings.last_known.embedding_name or self._default

    def _get_space(self, name: str) -> EmbeddingSpace:
        if name not in self._spaces:
            self._spaces[name] = EmbeddingSpace(self._build(name), self._client)
        return self._spaces[name]
