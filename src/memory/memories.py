"""The memory as the graph, its tools and the commands use it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from src.base.errors import StorageError
from src.base.owners import Owner
from src.memory.forgetter import MAX_NEAREST, Forgetter, Forgotten, Named
from src.memory.forgetting_repo import ForgettingRepository, Undone
from src.memory.memory_repo import FactQuery, Memory, MemoryRepository
from src.memory.retriever import Query, Retriever
from src.memory.writer import MemoryWriter
from src.pg.client import PgClient, Transaction
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.pg.locks import lock_history
from src.queue.job_repo import MemoryJobRepository
from src.reading.facts import WISH, fact_uid
from src.reading.words import speaks_of

T = TypeVar("T")
logger = logging.getLogger(__name__)

# The facts that hold now, the pinned first, then the most important: more than a prompt has room
# for.
KEY_FACTS = FactQuery("weight", is_valid=True, limit=60)
NEAR = 0.72  # least similarity of a fact that is named as the nearest when none fits


def list_user_facts(facts: MemoryRepository, owner: Owner) -> list[Memory]:
    """See ``Memories.get_user_facts``; it blocks."""
    found = facts.list_facts(owner, KEY_FACTS)
    return sorted(found, key=lambda fact: (not fact.pinned, fact.relation != WISH))


@dataclass(eq=False, repr=False)
class Memories:
    """One owner at a time: search, remember, forget, undo.

    Attributes:
        facts: The stored facts; its methods block.
        retriever: Searches.
        writer: Remembers.
    """

    _client: PgClient
    retriever: Retriever
    writer: MemoryWriter
    _settings: GlobalSettingsRepository

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self.facts = MemoryRepository(self._client)

    async def settings(self) -> GlobalSettings:
        """The operator's settings, at most a few seconds old; the last known ones in an outage."""
        try:
            return await self._settings.fetch()
        except StorageError as error:
            logger.warning("the settings could not be read", exc_info=error)
            return self._settings.last_known

    async def get_user_facts(self, owner: Owner) -> list[Memory]:
        """What a prompt shows of the facts, best first: pinned, wishes, then by importance.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(list_user_facts, self.facts, owner)

    async def find_facts(self, owner: Owner, words: str, wanted: FactQuery) -> list[Memory]:
        """The facts of a query that have all of these words, in whatever form.

        Raises:
            StorageError: The database is away.
        """
        facts = await self._client.run(self.facts.list_facts, owner, wanted)
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
        """Forget these facts and whole messages; else what a request surely means.

        When a request means nothing that is known, say what comes nearest.

        Args:
            owner: Whose they are.
            ids: ``fact-12`` or ``msg-12``.
            about: What of these messages is meant; without ids the request, in the user's words.
            everything: All that fits the request, unasked.
            request_id: The message in which the user asks for it.
            speaker_id: In a group, who asks.
        """

        def work(transaction: Transaction) -> Forgotten:
            asked = {"request_id": request_id, "speaker_id": speaker_id}
            forgetter = Forgetter(transaction, owner, **asked)
            if ids:
                return forgetter.forget(ids, about)
            return forgetter.forget_about(about, everything=everything)

        found = await self._run(work)
        if ids or found.texts or found.ask or found.nearest or not about.strip():
            return found
        now = datetime.now(UTC)
        query = Query(
            owner, about, now, MAX_NEAREST, NEAR, kinds=("memory",), speaker_id=speaker_id
        )
        hits = [hit for hit in await self.retriever.search(query) if hit.kind == "memory"]
        near = tuple(Named(fact_uid(hit.source_id), hit.text) for hit in hits[:MAX_NEAREST])
        return Forgotten(nearest=near)

    async def forget_once(self, owner: Owner, uid: str, *, asker: int | None) -> Forgotten:
        """Forget a fact or message; called again, say the same while it can be taken back.

        Args:
            owner: Whose it is.
            uid: ``fact-12`` or ``msg-12``.
            asker: In a group, who asks.
        """

        def work(transaction: Transaction) -> Forgotten:
            found = Forgetter(transaction, owner, speaker_id=asker).forget([uid])
            if found.texts:
                return found
            before = ForgettingRepository(transaction, owner).find_forgetting(uid, asker)
            return Forgotten(tuple(before[1]), number=before[0]) if before else found

        return await self._run(work)

    async def pin(
        self, owner: Owner, memory_id: int, *, pinned: bool, asker: int | None = None
    ) -> bool:
        """Keep a fact always in the prompt, or no more; False when it is gone, or another's."""
        pin = self.facts.set_pinned
        return await self._client.run(pin, owner, memory_id, pinned=pinned, asker=asker)

    async def keep_private(self, owner: Owner, message_id: int) -> None:
        """Let a message, and the answer to it, be remembered nowhere but in the window."""

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            ForgettingRepository(transaction, owner).keep_private(message_id)

        await self._run(work)

    async def undo(
        self, owner: Owner, memory_id: int | None = None, *, asker: int | None = None
    ) -> Undone | None:
        """Undo the last replacement or forgetting, or the storing of ``memory_id``.

        In a group only what ``asker`` told, or wanted forgotten.
        """
        return await self._take_back(
            lambda t: ForgettingRepository(t, owner).undo(memory_id, asker)
        )

    async def undo_forgetting(
        self, owner: Owner, number: int, *, asker: int | None = None
    ) -> Undone | None:
        """Undo a certain forgetting, if it is not too late and the asker wanted it."""
        return await self._take_back(
            lambda t: ForgettingRepository(t, owner).undo_forgetting(number, asker)
        )

    async def _take_back(self, work: Callable[[Transaction], Undone | None]) -> Undone | None:
        """What came back is indexed soon, also where no turn follows."""
        undone = await self._run(work)
        if undone is not None:
            await self._client.run(MemoryJobRepository(self._client).defer_indexing)
        return undone

    async def _run(self, work: Callable[[Transaction], T]) -> T:
        return await self._client.run(self._client.in_transaction, work)
