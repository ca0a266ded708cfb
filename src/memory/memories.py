"""The memory as the graph, its tools and the commands use it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from src.base.errors import StorageError
from src.base.owners import Owner
from src.memory.forgetter import MAX_NEAREST, Forgetter, Forgotten, Named
from src.memory.forgetting_repo import ForgettingRepository, Undone, UndoRepository
from src.memory.memory_page_repo import MemoryPageRepository
from src.memory.memory_repo import Memory, MemoryRepository
from src.memory.retriever import Query, Retriever
from src.memory.writer import MemoryWriter, fact_terms
from src.pg.client import PgClient, Transaction
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.pg.locks import lock_history
from src.reading.facts import fact_uid
from src.texts.morphology import terms

logger = logging.getLogger(__name__)

KEY_FACT_IMPORTANCE = 7  # facts of at least so much are always in the prompt
MAX_KEY_FACTS = 20


NEAR = 0.72  # least similarity of a fact that is named as the nearest when none fits


class Memories:
    """One owner at a time: search, remember, forget, undo.

    Attributes:
        facts: The stored facts; its methods block.
        retriever: Searches.
        writer: Remembers.
    """

    def __init__(
        self,
        client: PgClient,
        retriever: Retriever,
        writer: MemoryWriter,
        settings: GlobalSettingsRepository,
    ) -> None:
        """``settings`` are the operator's."""
        self._client = client
        self._forgetting = ForgettingRepository(terms)
        self._undoing = UndoRepository(terms, fact_terms)
        self._pages = MemoryPageRepository(client)
        self._settings = settings
        self.facts = MemoryRepository(client)
        self.retriever = retriever
        self.writer = writer

    async def settings(self) -> GlobalSettings:
        """The operator's settings, at most a few seconds old; the last known ones in an outage."""
        try:
            return await self._client.run(self._settings.get)
        except StorageError as error:
            logger.warning("the settings could not be read", exc_info=error)
            return self._settings.last_known

    async def get_user_facts(self, owner: Owner) -> list[Memory]:
        """The key facts: pinned ones, then the most important.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(
            self.facts.list_key_facts, owner, importance=KEY_FACT_IMPORTANCE, limit=MAX_KEY_FACTS
        )

    async def forget(
        self,
        owner: Owner,
        ids: Sequence[str],
        *,
        about: str = "",
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> Forgotten:
        """Forget these facts and whole messages; the arguments are those of ``Forgetter``."""
        asked = {"request_id": request_id, "speaker_id": speaker_id}
        return await self._client.run(
            self._client.in_transaction,
            lambda t: Forgetter(self._forgetting, t, owner, **asked).forget(ids, about),
        )

    async def forget_about(
        self,
        owner: Owner,
        about: str,
        *,
        everything: bool = False,
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> Forgotten:
        """Forget what a request surely means; when nothing does, say what comes nearest."""

        def work(transaction: Transaction) -> Forgotten:
            asked = {"request_id": request_id, "speaker_id": speaker_id}
            forgetter = Forgetter(self._forgetting, transaction, owner, **asked)
            return forgetter.forget_about(about, everything=everything)

        found: Forgotten = await self._client.run(self._client.in_transaction, work)
        if found.texts or found.ask or found.nearest or not about.strip():
            return found
        now = datetime.now(UTC)
        query = Query(
            owner, about, now, MAX_NEAREST, NEAR, kinds=("memory",), speaker_id=speaker_id
        )
        hits = [hit for hit in await self.retriever.search(query) if hit.kind == "memory"]
        near = tuple(Named(fact_uid(hit.source_id), hit.text) for hit in hits[:MAX_NEAREST])
        return Forgotten(nearest=near)

    async def pin(
        self, owner: Owner, memory_id: int, *, pinned: bool, asker: int | None = None
    ) -> bool:
        """Keep a fact always in the prompt, or no more; False when it is gone, or another's."""
        pin = self._pages.set_pinned
        return await self._client.run(pin, owner, memory_id, pinned=pinned, asker=asker)

    async def keep_private(self, owner: Owner, message_id: int) -> None:
        """Let a message, and the answer to it, be remembered nowhere but in the window."""

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            self._forgetting.keep_private(transaction, owner, message_id)

        await self._client.run(self._client.in_transaction, work)

    async def undo(
        self, owner: Owner, memory_id: int | None = None, *, asker: int | None = None
    ) -> Undone | None:
        """Undo the last replacement or forgetting, or the storing of ``memory_id``.

        In a group only what ``asker`` told, or wanted forgotten.
        """
        return await self._client.run(
            self._client.in_transaction, lambda t: self._undoing.undo(t, owner, memory_id, asker)
        )

    async def undo_forgetting(
        self, owner: Owner, number: int, *, asker: int | None = None
    ) -> Undone | None:
        """Undo a certain forgetting, if it is not too late and the asker wanted it."""
        return await self._client.run(
            self._client.in_transaction,
            lambda t: self._undoing.undo_forgetting(t, owner, number, asker),
        )
