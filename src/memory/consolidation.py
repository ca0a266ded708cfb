"""Consolidation: repeated facts, contradicted ones, and names of one person are merged."""

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Any, Literal

from src.base.metrics import Metrics
from src.base.owners import Owner
from src.memory import memory_repo
from src.memory.embedding_space import ServingSpace
from src.memory.memory_repo import Memory, NewMemory, Similar, StoredFacts
from src.memory.writer import MemoryWriter
from src.pg.client import PgClient, Record, Repository, Transaction
from src.pg.connection import PATIENT
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.pg.locks import lock_facts
from src.reading.words import same_name

logger = logging.getLogger(__name__)

Kind = Literal["duplicate", "contradiction", "entity"]


@dataclass(frozen=True)
class Due:
    """An owner whose facts changed since they were last compared (None: never), as of ``now``."""

    owner: Owner
    since: datetime | None
    now: datetime


SELECT_DUE = """
SELECT o.telegram_user_id, o.thread_id, o.consolidated_at, now() FROM owners o
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
SELECT_STORED = memory_repo.memory_query("""
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

INSERT_DONE = """
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

# The facts of both hang on both, unless an operator took them apart.
LINK = """
WITH added AS (
    INSERT INTO memory_entities (memory_id, entity_id)
    SELECT * FROM (
        SELECT memory_id, %(kept)s::bigint FROM memory_entities WHERE entity_id = %(id)s
        UNION SELECT memory_id, %(id)s FROM memory_entities WHERE entity_id = %(kept)s) AS pair
    WHERE NOT EXISTS (
        SELECT 1 FROM consolidations
        WHERE undone_at IS NOT NULL AND (entity_id, kept_entity_id)
              IN ((%(id)s, %(kept)s), (%(kept)s, %(id)s)))
    ON CONFLICT DO NOTHING RETURNING jsonb_build_array(memory_id, entity_id) AS link
)
INSERT INTO consolidations (kind, entity_id, kept_entity_id, details)
SELECT 'entity', %(id)s, %(kept)s, jsonb_build_object('links', jsonb_agg(link)) FROM added
HAVING count(*) > 0
"""

# What was put together: the one that holds no more (``gone``) and the other that does (``kept``).
SELECT_DONE = """
WITH own AS (
    SELECT c.id, f.text AS gone FROM memories f JOIN consolidations c ON c.memory_id = f.id
    WHERE f.owner_id = %(owner)s
    UNION ALL
    SELECT c.id, e.name FROM entities e JOIN consolidations c ON c.entity_id = e.id
    WHERE e.owner_id = %(owner)s
)
SELECT c.id, c.kind, own.gone, coalesce(kf.text, ke.name) AS kept, c.done_at, c.undone_at
FROM own JOIN consolidations c USING (id)
LEFT JOIN memories kf ON kf.id = c.kept_memory_id
LEFT JOIN entities ke ON ke.id = c.kept_entity_id
WHERE NOT c.details ? 'by'  -- what the user keeps apart was never merged
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
USING consolidations c, jsonb_array_elements(c.details -> 'links') AS link
WHERE c.id = %(number)s AND l.memory_id = (link ->> 0)::bigint
  AND l.entity_id = (link ->> 1)::bigint
"""

MARK_UNDONE = "UPDATE consolidations SET undone_at = now() WHERE id = %(number)s"


class ConsolidationRepository(Repository):
    """Reads what to compare, and keeps what was done; every method blocks."""

    def list_due(self, *, limit: int) -> list[Due]:
        """Owners whose facts changed since they were looked at, those never looked at first."""
        return self._all(
            lambda user, thread, *times: Due(Owner(user, thread), *times), SELECT_DUE,
            limit=limit, limits=PATIENT,
        )  # fmt: skip

    def list_overfull(self, limit: int) -> list[Owner]:
        """Owners with more than ``limit`` living facts."""
        return self._all(Owner, SELECT_OVERFULL, limit=limit, limits=PATIENT)

    def mark(self, due: Due) -> None:
        """The owner's facts were looked through, as they were then."""
        self._client.execute(MARK, due.owner, at=due.now)

    def list_changed(self, due: Due, *, limit: int) -> list[int]:
        """Living facts that changed, the newest changes first."""
        return self._all(int, SELECT_CHANGED, due.owner, since=due.since, limit=limit)

    def list_entities(self, owner: Owner) -> list[tuple[int, str]]:
        """Whom and what the owner's living facts are about, the oldest first."""
        return self._all(lambda *entity: entity, SELECT_ENTITIES, owner)

    def link(self, owner: Owner, entity_id: int, kept: int) -> bool:
        """Hang the facts of both on both; False when they do already, or were taken apart."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            return transaction.execute(LINK, id=entity_id, kept=kept) > 0

        return self._client.in_transaction(work)

    def list_done(self, owner: Owner, *, limit: int = 50) -> list[Record]:
        """What was put together for the owner, the newest first."""
        return self._client.fetch_records(SELECT_DONE, owner, limit=limit)

    def undo(self, owner: Owner, number: int) -> bool:
        """Take one change back, for good; False when it cannot be, or is not the owner's."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            row = transaction.fetch_one(SELECT_TO_UNDO, owner, number=number)
            if row is None:
                return False
            kind, memory_id, kept, details = row
            if kind == "entity":
                transaction.execute(UNLINK, number=number)
            else:
                if not transaction.execute(
                    memory_repo.RESTORE, owner, id=memory_id, successor=kept,
                    until=details.get("until"), reasons=["duplicate", "contradicted"],
                ):  # fmt: skip
                    return False
                if kind == "duplicate":
                    transaction.execute(FORGET_SOURCES, details, kept=kept)
                    transaction.execute(RESET_KEPT, owner, **details, kept=kept)
            transaction.execute(MARK_UNDONE, number=number)
            return True

        return self._client.in_transaction(work)


class ComparedFacts(StoredFacts):
    """Compares a fact with the others of its owner, and retires one for another."""

    def load(self, memory_id: int, model_id: int) -> tuple[Memory, NewMemory] | None:
        """A living fact, and the same as if it were new."""
        rows = self._rows(SELECT_STORED, id=memory_id, model=model_id)
        if not rows:
            return None
        *columns, language, origin, content_hash, vector = rows[0]
        memory = Memory(*columns)
        source = memory_repo.Source(memory.message_id or 0, memory.quote or "", memory.said_at)
        new = NewMemory(
            memory.fact, language, origin, content_hash, source,
            terms=memory_repo.fact_terms(memory.text, memory.relation), vector=vector,
            model_id=model_id, speaker_id=memory.speaker_id, speaker=memory.speaker,
        )  # fmt: skip
        return memory, new

    def list_others(self, memory_id: int, new: NewMemory) -> list[Similar]:
        """Living facts that are like it, without those that were taken apart from it."""
        apart = {memory_id, *(number for (number,) in self._rows(SELECT_APART, id=memory_id))}
        similar = self.list_similar(new)
        return [one for one in similar if one.retired_at is None and one.id not in apart]

    def retire_for(self, gone: Memory, kept: Memory, kind: Kind) -> Kind | None:
        """Retire a fact for another one, which of a duplicate takes the sources."""
        is_same = kind == "duplicate"
        reason, until = ("duplicate", None) if is_same else ("contradicted", kept.said_at)
        if not self.retire([gone.id], successor=kept.id, reason=reason, until=until):
            return None
        details: dict[str, Any] = {}
        if is_same:
            sources = [number for (number,) in self._rows(COPY_SOURCES, id=gone.id, kept=kept.id)]
            self.touch(kept.id, gone)
            details = {"importance": kept.importance, "pinned": kept.pinned, "sources": sources}
        elif not gone.valid_until:
            details = {"until": kept.said_at.isoformat()}
        self._run(INSERT_DONE, kind=kind, id=gone.id, kept=kept.id, details=json.dumps(details))
        return kind


OWNERS = 50  # of one job: others take their turns
FACTS = 300  # of one owner in one night, those that changed last
MAX_NAMES = 300  # of one owner that are compared


@dataclass(eq=False, repr=False)
class ConsolidationService:
    """Compares changed facts by the rules of ``MemoryWriter``.

    Duplicates are mostly facts that were stored while the embedder was away, or before a
    threshold changed. Every change can be undone on the admin page, for good.
    """

    _client: PgClient
    _writer: MemoryWriter
    _space: ServingSpace
    _settings: GlobalSettingsRepository
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._repo = ConsolidationRepository(self._client)

    async def run(self) -> bool:
        """Consolidate some owners; returns whether there may be more.

        Raises:
            TransientError: The database is away, or the embedding model is not known yet.
        """
        limit = (await self._settings.fetch()).max_memories_per_user
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
            return StoredFacts(transaction, owner).retire_surplus(limit)

        return self._client.in_transaction(work)

    def _consolidate(self, due: Due, model_id: int) -> None:
        """Compare all changed facts of one owner; newer changes wait for the next night."""
        for memory_id in self._repo.list_changed(due, limit=FACTS):
            compare = partial(self._compare, due.owner, memory_id, model_id)
            for kind in filter(None, self._client.in_transaction(compare)):
                self._metrics.consolidated.labels(kind).inc()
        self._link_names(due.owner)
        self._repo.mark(due)

    def _compare(
        self, owner: Owner, memory_id: int, model_id: int, transaction: Transaction
    ) -> list[Kind | None]:
        """Compare one fact with similar ones; returns what was found."""
        lock_facts(transaction, owner)
        facts = ComparedFacts(transaction, owner)
        loaded = facts.load(memory_id, model_id)
        if loaded is None:
            return []
        memory, new = loaded
        same, rivals = self._writer.compare(new, facts.list_others(memory_id, new))
        if same:  # the older one stays
            kept, gone = sorted((memory, same[0]), key=lambda fact: fact.id)
            return [facts.retire_for(gone, kept, "duplicate")]
        found: list[Kind | None] = []
        for rival in rivals:
            older, newer = sorted((memory, rival), key=lambda m: (m.said_at, m.id))
            if not older.pinned:
                found.append(facts.retire_for(older, newer, "contradiction"))
                if older is memory:
                    break
        return found

    def _link_names(self, owner: Owner) -> None:
        """Link names of one person to the facts of both."""
        entities = self._repo.list_entities(owner)[:MAX_NAMES]
        for (kept, kept_name), (id_, name) in combinations(entities, 2):
            if same_name(kept_name, name) and self._repo.link(owner, id_, kept):
                self._metrics.consolidated.labels("entity").inc()
