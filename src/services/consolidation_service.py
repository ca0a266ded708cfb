"""At night: what is stored twice, what contradicts itself, and names of one person."""

from __future__ import annotations

import logging
from functools import partial
from itertools import combinations

from src.language.names import same_name
from src.memory.serving_space import ServingSpace
from src.memory.writer import MemoryWriter
from src.metrics import Metrics
from src.storage.consolidation_repo import ConsolidationRepository, Due
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.locks import lock_facts
from src.storage.memory_repo import MemoryRepository
from src.storage.memory_rows import Memory
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction

logger = logging.getLogger(__name__)

OWNERS = 50  # of one job: others take their turns
FACTS = 300  # of one owner in one night, those that changed last
MAX_NAMES = 300  # of one owner that are compared


class ConsolidationService:
    """Looks through facts that changed, by the rules of ``MemoryWriter``.

    What slipped in is mostly what was stored while the embedder was away, or before a threshold
    was changed. Whatever is done can be taken back on the admin page, and then stays so.
    """

    def __init__(
        self,
        client: PgClient,
        writer: MemoryWriter,
        memories: MemoryRepository,
        space: ServingSpace,
        settings: GlobalSettingsRepository,
        metrics: Metrics,
    ) -> None:
        """Compare as ``writer`` does, in ``space``."""
        self._client = client
        self._writer = writer
        self._memories = memories
        self._space = space
        self._settings = settings
        self._metrics = metrics
        self._repo = ConsolidationRepository(client)

    async def run(self) -> bool:
        """Look through some owners; returns whether there may be more.

        Raises:
            TransientError: The database is away, or the embedding model is not known yet.
        """
        limit = (await self._client.run(self._settings.get)).max_memories_per_user
        for owner in await self._client.run(self._repo.list_overfull, limit):
            retired = await self._client.run(self._keep_limit, owner, limit)
            self._metrics.consolidated.labels("surplus").inc(retired)
        model = await self._space.model()
        due = await self._client.run(self._repo.list_due, limit=OWNERS)
        for entry in due:
            await self._client.run(self._consolidate, entry, model.id)
        return len(due) == OWNERS

    def _keep_limit(self, owner: Owner, limit: int) -> int:
        def work(transaction: Transaction) -> int:
            lock_facts(transaction, owner)
            return self._memories.retire_surplus(transaction, owner, limit)

        return self._client.in_transaction(work)

    def _consolidate(self, due: Due, model_id: int) -> None:
        """Everything of one owner; what he says meanwhile is for the next night."""
        began = self._repo.now()
        for memory_id in self._repo.list_changed(due, limit=FACTS):
            compare = partial(
                self._compare, owner=due.owner, memory_id=memory_id, model_id=model_id
            )
            self._client.in_transaction(compare)
        self._link_names(due.owner)
        self._repo.mark(due.owner, began)

    def _compare(
        self, transaction: Transaction, owner: Owner, memory_id: int, model_id: int
    ) -> None:
        """One fact with those that it might repeat or contradict."""
        lock_facts(transaction, owner)
        loaded = self._repo.load(transaction, owner, memory_id, model_id)
        if loaded is None:
            return
        memory, new = loaded
        new = self._writer.with_terms(new)
        apart = self._repo.list_apart(transaction, memory_id)
        similar = [
            entry
            for entry in self._memories.list_similar(transaction, owner, new, model_id)
            if entry.memory.id != memory_id
            and entry.memory.id not in apart
            and entry.memory.retired_at is None
        ]
        same, rivals = self._writer.compare(new, similar)
        if same:
            self._merge(transaction, owner, memory, same[0].memory)
            return
        for rival in rivals:
            older, newer = sorted((memory, rival.memory), key=lambda m: (m.said_at, m.id))
            if not older.pinned:
                self._end(transaction, owner, older, newer)
            if older is memory and not older.pinned:
                return

    def _merge(self, transaction: Transaction, owner: Owner, one: Memory, other: Memory) -> None:
        """The older of two equal facts stays, with the sources of both."""
        kept, gone = sorted((one, other), key=lambda memory: memory.id)
        if not self._memories.retire(
            transaction, owner, [gone.id], successor=kept.id, reason="duplicate"
        ):
            return
        before = {"importance": kept.importance, "pinned": kept.pinned}
        sources = self._repo.copy_sources(transaction, gone.id, kept.id)
        self._memories.touch(transaction, owner, kept.id, gone)
        details = {**before, "sources": sources}
        self._repo.add(transaction, "duplicate", gone.id, kept.id, details)
        self._metrics.consolidated.labels("duplicate").inc()

    def _end(self, transaction: Transaction, owner: Owner, older: Memory, newer: Memory) -> None:
        """Of two facts that cannot both hold, what was said last does."""
        if self._memories.retire(
            transaction, owner, [older.id], successor=newer.id, reason="contradicted",
            until=newer.said_at,
        ):  # fmt: skip
            details = {} if older.valid_until else {"until": newer.said_at.isoformat()}
            self._repo.add(transaction, "contradiction", older.id, newer.id, details)
            self._metrics.consolidated.labels("contradiction").inc()

    def _link_names(self, owner: Owner) -> None:
        """Names of one person lead to the facts of both."""
        entities = self._repo.list_entities(owner)[:MAX_NAMES]
        apart = self._repo.list_entities_apart(owner)
        for kept, entity in combinations(entities, 2):
            if frozenset({kept.id, entity.id}) in apart:
                continue
            if same_name(kept.name, entity.name) and self._repo.link(owner, entity.id, kept.id):
                self._metrics.consolidated.labels("entity").inc()
