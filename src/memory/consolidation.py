"""Consolidation: repeated facts, contradicted ones, and names of one person are merged."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Any, Literal

from src.base.metrics import Metrics
from src.base.owners import Owner
from src.memory.embedding_space import ServingSpace
from src.memory.memory_repo import (
    RESTORE,
    Memory,
    MemoryRepository,
    NewMemory,
    Source,
    fact_terms,
    memory_query,
)
from src.memory.writer import MemoryWriter
from src.pg.client import PgClient, Repository, Transaction
from src.pg.connection import PATIENT
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.pg.locks import lock_facts
from src.reading.facts import Fact
from src.reading.words import same_name

logger = logging.getLogger(__name__)

Kind = Literal["duplicate", "contradiction", "entity"]


@dataclass(frozen=True)
class Due:
    """An owner whose facts changed since they were last compared; None: never."""

    owner: Owner
    since: datetime | None


@dataclass(frozen=True)
class Entity:
    """A person, place or thing of an owner."""

    id: int
    name: str


@dataclass(frozen=True)
class Consolidation:
    """One change of the nightly job, as the admin page shows it.

    Attributes:
        id: Its number.
        kind: What was found.
        gone: The fact that holds no more, or the one name.
        kept: The fact that holds, or the other name.
        done_at: When.
        undone_at: When an operator took it back.
    """

    id: int
    kind: str
    gone: str
    kept: str
    done_at: datetime
    undone_at: datetime | None


SELECT_DUE = """
SELECT o.telegram_user_id, o.thread_id, o.consolidated_at FROM owners o
WHERE EXISTS (SELECT 1 FROM memories f
              WHERE f.owner_id = o.id
                AND f.updated_at > coalesce(o.consolidated_at, '-infinity'))
ORDER BY o.consolidated_at NULLS FIRST, o.id LIMIT %(limit)s
"""

# More facts than there may be: the limit was lowered.
SELECT_OVERFULL = """
SELECT o.telegram_user_id, o.thread_id
FROM memories f JOIN owners o ON o.id = f.owner_id WHERE f.retired_at IS NULL
GROUP BY o.id HAVING count(*) > %(limit)s LIMIT 1000
"""

MARK = "UPDATE owners SET consolidated_at = %(at)s WHERE id = %(owner)s"

# Facts to compare with all others, those that changed last first.
SELECT_CHANGED = """
SELECT id FROM memories
WHERE owner_id = %(owner)s AND retired_at IS NULL
  AND updated_at > coalesce(%(since)s, '-infinity'::timestamptz)
ORDER BY updated_at DESC, id DESC LIMIT %(limit)s
"""

# A living fact as it would be stored now, with its vector.
SELECT_STORED = memory_query("""
SELECT {memory}, own.language, own.origin, f.content_hash, e.embedding::text
FROM facts f
JOIN memories own ON own.id = f.id
LEFT JOIN search_documents d ON d.memory_id = f.id
LEFT JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
WHERE f.id = %(id)s AND f.owner_id = %(owner)s
  AND f.retired_at IS NULL
""")

# What an operator took apart again, or the user wants beside each other (``question_repo``).
SELECT_APART = """
SELECT CASE memory_id WHEN %(id)s THEN kept_memory_id ELSE memory_id END FROM consolidations
WHERE (memory_id = %(id)s OR kept_memory_id = %(id)s) AND undone_at IS NOT NULL
"""

# The fact that stays was said wherever the other one was.
COPY_SOURCES = """
INSERT INTO memory_sources (memory_id, message_id, sender_id, author_id, uid, episode, quote,
                            said_at)
SELECT %(kept)s, message_id, sender_id, author_id, uid, episode, quote, said_at
FROM memory_sources WHERE memory_id = %(id)s ORDER BY id
ON CONFLICT ON CONSTRAINT memory_sources_once DO NOTHING
RETURNING id
"""

INSERT_OF_FACTS = """
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details)
VALUES (%(kind)s, %(id)s, %(kept)s, %(details)s)
"""

SELECT_ENTITIES = """
SELECT e.id, e.name FROM entities e
WHERE e.owner_id = %(owner)s
  AND EXISTS (SELECT 1 FROM memory_entities l JOIN memories f ON f.id = l.memory_id
              WHERE l.entity_id = e.id AND f.retired_at IS NULL)
ORDER BY e.id LIMIT 1000
"""

SELECT_ENTITIES_APART = """
SELECT c.entity_id, c.kept_entity_id FROM consolidations c JOIN entities e ON e.id = c.entity_id
WHERE owner_id = %(owner)s AND c.undone_at IS NOT NULL
"""

# The facts of both hang on both.
LINK = """
INSERT INTO memory_entities (memory_id, entity_id)
SELECT memory_id, %(kept)s FROM memory_entities WHERE entity_id = %(id)s
UNION SELECT memory_id, %(id)s FROM memory_entities WHERE entity_id = %(kept)s
ON CONFLICT DO NOTHING RETURNING memory_id, entity_id
"""

INSERT_OF_ENTITIES = """
INSERT INTO consolidations (kind, entity_id, kept_entity_id, details)
VALUES ('entity', %(id)s, %(kept)s, %(details)s)
"""

SELECT_DONE = """
SELECT c.id, c.kind, coalesce(f.text, e.name), coalesce(kf.text, ke.name), c.done_at, c.undone_at
FROM consolidations c
LEFT JOIN memories f ON f.id = c.memory_id LEFT JOIN memories kf ON kf.id = c.kept_memory_id
LEFT JOIN entities e ON e.id = c.entity_id LEFT JOIN entities ke ON ke.id = c.kept_entity_id
WHERE coalesce(f.owner_id, e.owner_id) = %(owner)s
  AND NOT c.details ? 'by'  -- what the user himself keeps apart was never put together
ORDER BY c.id DESC LIMIT %(limit)s
"""

SELECT_TO_UNDO = """
SELECT c.kind, c.memory_id, c.kept_memory_id, c.details FROM consolidations c
LEFT JOIN memories f ON f.id = c.memory_id LEFT JOIN entities e ON e.id = c.entity_id
WHERE c.id = %(number)s AND c.undone_at IS NULL
  AND coalesce(f.owner_id, e.owner_id) = %(owner)s
FOR UPDATE OF c
"""

FORGET_SOURCES = "DELETE FROM memory_sources WHERE id = ANY(%(sources)s) AND memory_id = %(kept)s"

RESET_KEPT = """
UPDATE memories SET importance = %(importance)s, pinned = %(pinned)s
WHERE id = %(kept)s AND owner_id = %(owner)s
"""

UNLINK = """
DELETE FROM memory_entities l
USING unnest(%(memories)s::bigint[], %(entities)s::bigint[]) AS added (memory_id, entity_id)
WHERE l.memory_id = added.memory_id AND l.entity_id = added.entity_id
"""

MARK_UNDONE = "UPDATE consolidations SET undone_at = now() WHERE id = %(number)s"


class ConsolidationRepository(Repository):
    """Reads what to compare, and keeps what was done; every method blocks."""

    def list_due(self, *, limit: int) -> list[Due]:
        """Owners whose facts changed since they were looked at, those never looked at first."""
        rows = self._client.fetch_all(SELECT_DUE, {"limit": limit}, limits=PATIENT)
        return [Due(Owner(user, thread), since) for user, thread, since in rows]

    def list_overfull(self, limit: int) -> list[Owner]:
        """Owners with more than ``limit`` living facts."""
        rows = self._client.fetch_all(SELECT_OVERFULL, {"limit": limit}, limits=PATIENT)
        return [Owner(*row) for row in rows]

    def mark(self, owner: Owner, at: datetime) -> None:
        """The owner's facts were looked through, as they were ``at``."""
        self._client.execute(MARK, {**owner.columns(), "at": at})

    def now(self) -> datetime:
        """The database's time."""
        row = self._client.fetch_one("SELECT now()")
        assert row is not None
        moment: datetime = row[0]
        return moment

    def list_changed(self, due: Due, *, limit: int) -> list[int]:
        """Living facts that changed, the newest changes first."""
        parameters = {**due.owner.columns(), "since": due.since, "limit": limit}
        return [int(number) for (number,) in self._client.fetch_all(SELECT_CHANGED, parameters)]

    def load(
        self, transaction: Transaction, owner: Owner, memory_id: int, model_id: int
    ) -> tuple[Memory, NewMemory] | None:
        """A living fact, and the same as if it were new (without its search terms)."""
        parameters = {**owner.columns(), "id": memory_id, "model": model_id}
        row = transaction.fetch_one(SELECT_STORED, parameters)
        if row is None:
            return None
        memory = Memory(*row[:-4])
        language, origin, content_hash, vector = row[-4:]
        source = Source(memory.message_id or 0, memory.quote or "", memory.said_at)
        fact = Fact.model_construct(
            **{name: value for name, value in vars(memory).items() if name in Fact.model_fields}
        )
        new = NewMemory(
            fact=fact, language=language, origin=origin, content_hash=content_hash, source=source,
            terms=[], vector=vector, entities=[], speaker_id=memory.speaker_id,
            speaker=memory.speaker,
        )  # fmt: skip
        return memory, new

    def list_apart(self, transaction: Transaction, memory_id: int) -> frozenset[int]:
        """Facts that an operator took apart from this one."""
        rows = transaction.fetch_all(SELECT_APART, {"id": memory_id})
        return frozenset(int(number) for (number,) in rows)

    def copy_sources(self, transaction: Transaction, memory_id: int, kept: int) -> list[int]:
        """Note for a fact where the other one was said too; returns the new sources' ids."""
        rows = transaction.fetch_all(COPY_SOURCES, {"id": memory_id, "kept": kept})
        return [int(number) for (number,) in rows]

    def add(
        self,
        transaction: Transaction,
        kind: Kind,
        memory_id: int,
        kept: int,
        details: dict[str, Any],
    ) -> None:
        """Note which fact was retired for which, and what undoing it needs."""
        columns = {
            "kind": kind, "id": memory_id, "kept": kept, "details": json.dumps(details),
        }  # fmt: skip
        transaction.execute(INSERT_OF_FACTS, columns)

    def list_entities(self, owner: Owner) -> list[Entity]:
        """Whom and what the owner's living facts are about, the oldest first."""
        return [Entity(*row) for row in self._client.fetch_all(SELECT_ENTITIES, owner.columns())]

    def list_entities_apart(self, owner: Owner) -> set[frozenset[int]]:
        """Pairs of entities that an operator took apart."""
        rows = self._client.fetch_all(SELECT_ENTITIES_APART, owner.columns())
        return {frozenset(row) for row in rows}

    def link(self, owner: Owner, entity_id: int, kept: int) -> bool:
        """Hang the facts of both on both; False when they do already."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            pair = {"id": entity_id, "kept": kept}
            added = transaction.fetch_all(LINK, pair)
            if added:
                details = {"links": [list(row) for row in added]}
                transaction.execute(INSERT_OF_ENTITIES, {**pair, "details": json.dumps(details)})
            return bool(added)

        return self._client.in_transaction(work)

    def list_done(self, owner: Owner, *, limit: int = 50) -> list[Consolidation]:
        """What was put together for the owner, the newest first."""
        rows = self._client.fetch_all(SELECT_DONE, {**owner.columns(), "limit": limit})
        return [Consolidation(*row) for row in rows]

    def undo(self, owner: Owner, number: int) -> bool:
        """Take one change back, for good; False when it cannot be, or is not the owner's."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            found = {**owner.columns(), "number": number}
            row = transaction.fetch_one(SELECT_TO_UNDO, found)
            if row is None:
                return False
            kind, memory_id, kept, details = row
            if kind == "entity":
                memories, entities = _columns(details["links"])
                transaction.execute(UNLINK, {"memories": memories, "entities": entities})
            else:
                facts = {**owner.columns(), "id": memory_id, "kept": kept}
                if not transaction.execute(
                    RESTORE, owner, id=memory_id, successor=kept, until=details.get("until"),
                    reasons=["duplicate", "contradicted"],
                ):  # fmt: skip
                    return False
                if kind == "duplicate":
                    transaction.execute(FORGET_SOURCES, {**facts, **details})
                    transaction.execute(RESET_KEPT, {**facts, **details})
            transaction.execute(MARK_UNDONE, found)
            return True

        return self._client.in_transaction(work)


def _columns(links: Collection[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Pairs as two columns."""
    return [memory for memory, _ in links], [entity for _, entity in links]


OWNERS = 50  # of one job: others take their turns
FACTS = 300  # of one owner in one night, those that changed last
MAX_NAMES = 300  # of one owner that are compared


class ConsolidationService:
    """Compares changed facts by the rules of ``MemoryWriter``.

    Duplicates are mostly facts that were stored while the embedder was away, or before a
    threshold changed. Every change can be undone on the admin page, for good.
    """

    def __init__(
        self,
        client: PgClient,
        writer: MemoryWriter,
        space: ServingSpace,
        settings: GlobalSettingsRepository,
        metrics: Metrics,
    ) -> None:
        """Compare as ``writer`` does, in ``space``."""
        self._client = client
        self._writer = writer
        self._memories = MemoryRepository(client)
        self._space = space
        self._settings = settings
        self._metrics = metrics
        self._repo = ConsolidationRepository(client)

    async def run(self) -> bool:
        """Consolidate some owners; returns whether there may be more.

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
        """Compare all changed facts of one owner; newer changes wait for the next night."""
        began = self._repo.now()
        for memory_id in self._repo.list_changed(due, limit=FACTS):
            self._client.in_transaction(
                partial(self._compare, owner=due.owner, memory_id=memory_id, model_id=model_id)
            )
        self._link_names(due.owner)
        self._repo.mark(due.owner, began)

    def _compare(
        self, transaction: Transaction, owner: Owner, memory_id: int, model_id: int
    ) -> None:
        """Compare one fact with similar ones."""
        lock_facts(transaction, owner)
        loaded = self._repo.load(transaction, owner, memory_id, model_id)
        if loaded is None:
            return
        memory, new = loaded
        new = replace(new, terms=fact_terms(new.fact.text, new.fact.relation))
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
        """Merge two equal facts: the older stays, with the sources of both."""
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
        """Retire the older of two contradicting facts."""
        if self._memories.retire(
            transaction, owner, [older.id], successor=newer.id, reason="contradicted",
            until=newer.said_at,
        ):  # fmt: skip
            details = {} if older.valid_until else {"until": newer.said_at.isoformat()}
            self._repo.add(transaction, "contradiction", older.id, newer.id, details)
            self._metrics.consolidated.labels("contradiction").inc()

    def _link_names(self, owner: Owner) -> None:
        """Link names of one person to the facts of both."""
        entities = self._repo.list_entities(owner)[:MAX_NAMES]
        apart = self._repo.list_entities_apart(owner)
        for kept, entity in combinations(entities, 2):
            if frozenset({kept.id, entity.id}) in apart:
                continue
            if same_name(kept.name, entity.name) and self._repo.link(owner, entity.id, kept.id):
                self._metrics.consolidated.labels("entity").inc()
