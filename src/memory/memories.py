"""The memory as the graph, the tools and the commands use it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from src.errors import StorageError
from src.memory.facts import Fact, Origin
from src.memory.retriever import Hit, Query, Retriever
from src.memory.writer import MemoryWriter, Outcome, Said
from src.storage.forgetting_repo import ForgettingRepository
from src.storage.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.storage.memory_rows import Memory
from src.storage.memory_shelf_repo import MemoryShelfRepository, SourceMessage
from src.storage.owner import Owner
from src.storage.pg_client import PgClient

logger = logging.getLogger(__name__)

KEY_FACT_IMPORTANCE = 7  # facts of at least so much are always in the prompt
MAX_KEY_FACTS = 20


class Memories:
    """One owner at a time: search, remember, forget, undo."""

    def __init__(
        self,
        client: PgClient,
        shelf: MemoryShelfRepository,
        forgetting: ForgettingRepository,
        retriever: Retriever,
        writer: MemoryWriter,
        settings: GlobalSettingsRepository,
    ) -> None:
        """Bring together what ``src/application.py`` built."""
        self._client = client
        self._shelf = shelf
        self._forgetting = forgetting
        self._retriever = retriever
        self._writer = writer
        self._settings = settings

    async def settings(self) -> GlobalSettings:
        """What the operator set, at most a few seconds old; in an outage what is known of it."""
        try:
            return await self._client.run(self._settings.get)
        except StorageError as error:
            logger.warning("the settings could not be read", exc_info=error)
            return self._settings.last_known

    async def get_user_facts(self, owner: Owner) -> list[Memory]:
        """The key facts: pinned ones, then the most important (the name is seed 000's).

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(
            self._shelf.list_key_facts, owner, importance=KEY_FACT_IMPORTANCE, limit=MAX_KEY_FACTS
        )

    def prepare_search(self, text: str) -> None:
        """Begin what a search for this text will need; see ``Retriever.prepare``."""
        self._retriever.prepare(text)

    async def search(self, query: Query) -> list[Hit]:
        """What was said that fits the query; never fails."""
        return await self._retriever.search(query)

    async def remember(
        self,
        owner: Owner,
        candidate: Fact,
        said: Said,
        *,
        origin: Origin,
        contradicts: Collection[int] = (),
    ) -> Outcome:
        """Store a fact; see ``MemoryWriter.remember``."""
        return await self._writer.remember(
            owner, candidate, said, origin=origin, contradicts=contradicts
        )

    async def forget(
        self, owner: Owner, uids: Sequence[str], *, request_id: int | None = None
    ) -> list[str]:
        """Forget what was said in these messages; the texts of what is gone."""
        return await self._client.run(self._forgetting.forget, owner, uids, request_id=request_id)

    async def forget_all_facts(self, owner: Owner) -> int:
        """Forget every fact; how many held."""
        return await self._client.run(self._forgetting.forget_all_facts, owner)

    async def list_memories(
        self, owner: Owner, *, limit: int = 10, offset: int = 0
    ) -> list[Memory]:
        """The facts that hold, newest first."""
        return await self._client.run(self._shelf.list_memories, owner, limit=limit, offset=offset)

    async def count(self, owner: Owner) -> int:
        """How many facts hold."""
        return await self._client.run(self._shelf.count, owner)

    async def undo(
        self, owner: Owner, memory_id: int | None = None
    ) -> tuple[str, list[str]] | None:
        """Take back the last replacement; see ``MemoryShelfRepository.undo_replacement``."""
        return await self._client.run(self._shelf.undo_replacement, owner, memory_id)

    async def find_source(self, owner: Owner, uid: str) -> SourceMessage | None:
        """The message behind a reference, or what is kept of it."""
        return await self._client.run(self._shelf.find_source, owner, uid)
