"""The embedding model that serves now, while another one may be on its way in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from src.llm.embeddings import Embedder
from src.memory.embedding_space import EmbeddingSpace
from src.storage.embedding_repo import EmbeddingModel, EmbeddingRepository
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.pg_client import PgClient

LOOK_EVERY = 3.0  # seconds between two looks whether the wanted model can serve
GIVEN_UP_AFTER = 5  # queries in a row that the model before does not embed
LINGER = 30.0  # seconds for which one that serves no more stays open: searches may be under way


class ServingSpace:
    """Serves with the model that the operator wants as soon as every document has its vector.

    Until then the one before serves: its vectors are all there. Every process finds out for
    itself, by the documents; the job ``reembed`` (or the command) gives them their vectors. When
    the one before answers no more, the wanted one serves at once, with the vectors that there are.
    """

    def __init__(
        self,
        build: Callable[[str], Embedder],
        settings: GlobalSettingsRepository,
        default: str,
        *,
        client: PgClient,
        repository: EmbeddingRepository,
    ) -> None:
        """``build`` makes the embedder of a name; ``default`` is wanted when no setting is."""
        self._build = build
        self._settings = settings
        self._default = default
        self._client = client
        self._repository = repository
        self._spaces: dict[str, EmbeddingSpace] = {}
        self._serving: EmbeddingSpace | None = None
        self._looked_at = float("-inf")
        self._leaving: set[asyncio.Task[None]] = set()

    async def current(self) -> EmbeddingSpace:
        """The space in which to embed and to search now; it stays usable for a while.

        Raises:
            StorageError: The database is away, and nothing serves yet.
        """
        serving = self._serving
        if serving is None:
            await self._client.run(self._settings.get)
            self._looked_at = time.monotonic()
            self._serving = self._space(await self._find_serving(self._wanted))
            return self._serving
        wanted = self._wanted
        just_looked = time.monotonic() - self._looked_at < LOOK_EVERY
        if serving.name == wanted or just_looked:
            return serving
        self._looked_at = time.monotonic()
        given_up = serving.failures >= GIVEN_UP_AFTER
        if not given_up and await self._find_serving(wanted) != wanted:
            return serving
        self._leave(serving)
        self._serving = self._space(wanted)
        return self._serving

    def coming(self) -> EmbeddingSpace | None:
        """The wanted model's space while another one serves; None when it serves itself."""
        wanted = self._wanted
        if self._serving is not None and self._serving.name == wanted:
            return None
        return self._space(wanted)

    async def model(self) -> EmbeddingModel:
        """The model that serves; see ``EmbeddingSpace``."""
        return await (await self.current()).model()

    async def embed_query(self, text: str) -> str:
        """See ``EmbeddingSpace``."""
        return await (await self.current()).embed_query(text)

    def similarity(self, cosine: float) -> float:
        """See ``EmbeddingSpace``."""
        return self._serving.similarity(cosine) if self._serving is not None else 0.0

    async def close(self) -> None:
        """Close all that was opened."""
        for task in self._leaving:
            task.cancel()
        for space in self._spaces.values():
            await space.close()

    async def _find_serving(self, wanted: str) -> str:
        return await self._client.run(self._repository.find_serving, wanted)

    @property
    def _wanted(self) -> str:
        return self._settings.last_known.embedding_name or self._default

    def _space(self, name: str) -> EmbeddingSpace:
        """The space of a model, opened once."""
        if name not in self._spaces:
            self._spaces[name] = EmbeddingSpace(self._build(name), self._client, self._repository)
        return self._spaces[name]

    def _leave(self, space: EmbeddingSpace) -> None:
        """Close it when nobody can be at it any more."""

        async def close() -> None:
            await asyncio.sleep(LINGER)
            if self._serving is not space:
                self._spaces.pop(space.name, None)
                await space.close()

        task = asyncio.create_task(close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
