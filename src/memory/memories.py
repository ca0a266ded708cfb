"""The memory as a service for the graph, its tools and the commands."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from src.base.errors import StorageError
from src.base.owners import Owner
from src.memory.change_repo import Change, ChangeRepository
from src.memory.forget_matching import read_request
from src.memory.forgetter import MAX_NEAREST, ForgetMatch, Forgetter, Forgotten
from src.memory.forgetting_repo import ForgettingRepository, UndoResult
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact
from src.memory.queries import Query
from src.memory.retriever import Retriever
from src.memory.thresholds import SUGGESTED
from src.memory.writer import MemoryWriter
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_history
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository
from src.queue.job_repo import JobRepository
from src.reading.facts import WISH, fact_uid
from src.reading.words import speaks_of

T = TypeVar("T")
logger = logging.getLogger(__name__)

# Current facts, the pinned first, then the most important: more than a prompt has room for.
KEY_FACTS = FactQuery("weight", is_valid=True, limit=60)


@dataclass(eq=False, repr=False)
class Memories:
    """Service that searches, stores and forgets what an owner said, and undoes changes.

    Attributes:
        facts: The stored facts; its methods block.
        retriever: The search.
        writer: The writer of facts.
    """

    _client: PgClient
    retriever: Retriever
    writer: MemoryWriter
    _settings: GlobalSettingsRepository

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self.facts = MemoryRepository(self._client)

    async def settings(self) -> GlobalSettings:
        """Return the operator's settings, seconds old at most; the last known in an outage."""
        try:
            return await self._settings.fetch()
        except StorageError as error:
            logger.warning("the settings could not be read", exc_info=error)
            return self._settings.last_known

    async def get_user_facts(self, owner: Owner) -> list[StoredFact]:
        """Return the facts for a prompt, best first: pinned, wishes, then by importance.

        Raises:
            StorageError: The database is away.
        """
        found = await self._client.run(self.facts.list_facts, owner, KEY_FACTS)
        return sorted(found, key=lambda one: (not one.fact.pinned, one.fact.relation != WISH))

    async def find_facts(self, owner: Owner, words: str, query: FactQuery) -> list[StoredFact]:
        """Return the facts of a query that contain all of these words, in any form.

        Raises:
            StorageError: The database is away.
        """
        facts = await self._client.run(self.facts.list_facts, owner, query)
        return await asyncio.to_thread(
            lambda: [fact for fact in facts if speaks_of(fact.text, words)]
        )

    async def forget(
        self,
        owner: Owner,
        ids: Sequence[str] = (),
        *,
        about: str = "",
        everything: bool = False,
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> Forgotten:
        """Forget these facts and whole messages; without ids, what a request clearly means.

        If a request means nothing that is stored, the result names the nearest facts.

        Args:
            owner: Owner of the memory.
            ids: ``fact-12`` or ``msg-12``.
            about: The part of these messages to forget; without ids the request, in the user's
                words.
            everything: True to forget all that fits the request without asking.
            request_id: The message with the request.
            speaker_id: In a group, the asker.
        """

        def work(transaction: Transaction) -> Forgotten:
            forgetter = Forgetter(transaction, owner, request_id=request_id, speaker_id=speaker_id)
            if ids:
                return forgetter.forget(ids, about)
            return forgetter.forget_about(about, everything=everything)

        found = await self._in_transaction(work)
        if ids or found.texts or found.ask or found.nearest or not about.strip():
            return found
        now = datetime.now(UTC)
        query = Query(
            owner, about, now, MAX_NEAREST, SUGGESTED, kinds=("memory",), speaker_id=speaker_id
        )
        hits = [hit for hit in await self.retriever.search(query) if hit.kind == "memory"]
        near = (ForgetMatch(fact_uid(hit.source_id), hit.text) for hit in hits[:MAX_NEAREST])
        return Forgotten(nearest=tuple(near))

    async def find_nearest(
        self, owner: Owner, about: str, *, request_id: int | None, speaker_id: int | None
    ) -> Forgotten:
        """Return as the nearest what has most words of a text; forget nothing."""

        def work(transaction: Transaction) -> Forgotten:
            forgetter = Forgetter(transaction, owner, request_id=request_id, speaker_id=speaker_id)
            return Forgotten(nearest=forgetter.find_nearest(read_request(about)))

        return await self._in_transaction(work)

    async def forget_once(self, owner: Owner, uid: str, *, asker: int | None) -> Forgotten:
        """Forget a fact or message; called again, return the same result while it can be undone.

        Args:
            owner: Owner of the memory.
            uid: ``fact-12`` or ``msg-12``.
            asker: In a group, the asker.
        """

        def work(transaction: Transaction) -> Forgotten:
            found = Forgetter(transaction, owner, speaker_id=asker).forget([uid])
            if found.texts:
                return found
            earlier = ForgettingRepository(transaction, owner).find_forgetting(uid, asker)
            return Forgotten(tuple(earlier[1]), number=earlier[0]) if earlier else found

        return await self._in_transaction(work)

    async def keep_private(self, owner: Owner, message_id: int) -> None:
        """Keep a message, and the answer to it, out of all memory but the window."""

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            ForgettingRepository(transaction, owner).keep_private(message_id)

        await self._in_transaction(work)

    async def find_change(self, owner: Owner, *, asker: int | None = None) -> Change | None:
        """Return the last change that ``/undo`` undoes; in a group only one of ``asker``."""
        return await self._in_transaction(lambda t: ChangeRepository(t, owner).find(asker))

    async def undo(
        self,
        owner: Owner,
        memory_id: int | None = None,
        *,
        number: int | None = None,
        asker: int | None = None,
    ) -> UndoResult | None:
        """Undo the storing of a fact, or a replacement or forgetting.

        Args:
            owner: Owner of the memory.
            memory_id: The fact.
            number: Without a fact, the number of the change; None for the last one.
            asker: In a group, the asker, who must have told the fact or asked to forget it.
        """

        def work(transaction: Transaction) -> UndoResult | None:
            return ForgettingRepository(transaction, owner).undo(memory_id, asker, number=number)

        undone = await self._in_transaction(work)
        if undone is not None:  # restored messages are indexed, even if no turn follows
            await self._client.run(JobRepository(self._client).defer_indexing)
        return undone

    async def _in_transaction(self, work: Callable[[Transaction], T]) -> T:
        return await self._client.run(self._client.in_transaction, work)
