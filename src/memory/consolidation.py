"""Consolidation: duplicate facts, contradicted facts and names of one person are merged."""

import json
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

MergeKind = Literal["duplicate", "contradiction", "entity"]


@dataclass(frozen=True)
class DueOwner:
    """An owner whose facts changed since they were last compared (None: never), as of ``now``."""

    owner: Owner
    since: datetime | None
    now: datetime


# Owners whose facts changed since they were compared, those never compared first.
SELECT_DUE = """
SELECT o.telegram_user_id, o.thread_id, o.consolidated_at, now() FROM owners o
WHERE EXISTS (SELECT 1 FROM memories f
              WHERE f.owner_id = o.id
                AND f.updated_at > coalesce(o.consolidated_at, '-infinity'))
ORDER BY o.consolidated_at NULLS FIRST, o.id LIMIT %(limit)s
"""

# Owners over the fact limit (an operator lowered it).
SELECT_OVERFULL = """
SELECT o.telegram_user_id, o.thread_id
FROM memories f JOIN owners o ON o.id = f.owner_id WHERE f.retired_at IS NULL
GROUP BY o.id HAVING count(*) > %(limit)s LIMIT 1000
"""

# Mark an owner's facts as compared.
MARK = "UPDATE owners SET consolidated_at = %(at)s WHERE id = %(owner)s"

# Changed facts, to compare with all others, the newest changes first.
SELECT_CHANGED = """
SELECT id FROM memories
WHERE owner_id = %(owner)s AND retired_at IS NULL
  AND updated_at > coalesce(%(since)s, '-infinity'::timestamptz)
ORDER BY updated_at DESC, id DESC LIMIT %(limit)s
"""

# A current fact with the columns of a new one, and its vector.
SELECT_STORED = memory_repo.memory_query("""
SELECT {memory}, own.language, own.origin, f.content_hash, e.embedding::text
FROM facts f
JOIN memories own ON own.id = f.id
LEFT JOIN search_documents d ON d.memory_id = f.id
LEFT JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
WHERE f.id = %(id)s AND f.owner_id = %(owner)s
  AND f.retired_at IS NULL
""")

# Facts that must not be merged with this one: an operator undid the merge, or the user keeps both
# (``question_repo``).
SELECT_APART = """
SELECT CASE memory_id WHEN %(id)s THEN kept_memory_id ELSE memory_id END FROM consolidations
WHERE (memory_id = %(id)s OR kept_memory_id = %(id)s) AND undone_at IS NOT NULL
"""

# Copy the sources of a duplicate to its survivor.
COPY_SOURCES = """
INSERT INTO memory_sources (memory_id, message_id, sender_id, author_id, uid, episode, quote,
                            said_at)
SELECT %(kept)s, message_id, sender_id, author_id, uid, episode, quote, said_at
FROM memory_sources WHERE memory_id = %(id)s ORDER BY id
ON CONFLICT ON CONSTRAINT memory_sources_once DO NOTHING
RETURNING id
"""

# A merge of two facts, with the data of its undo.
INSERT_MERGE = """
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details)
VALUES (%(kind)s, %(id)s, %(kept)s, %(details)s)
"""

# Entities of current facts.
SELECT_ENTITIES = """
SELECT e.id, e.name FROM entities e
WHERE e.owner_id = %(owner)s
  AND EXISTS (SELECT 1 FROM memory_entities l JOIN memories f ON f.id = l.memory_id
              WHERE l.entity_id = e.id AND f.retired_at IS NULL)
ORDER BY e.id LIMIT 1000
"""

# Link the facts of two entities to both, unless an operator undid that.
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

# Merges: the duplicate or retired fact (``gone``) and its survivor (``kept``).
SELECT_MERGES = """
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

# A merge to undo.
SELECT_TO_UNDO = """
SELECT c.kind, c.memory_id, c.kept_memory_id, c.details FROM consolidations c
LEFT JOIN memories f ON f.id = c.memory_id LEFT JOIN entities e ON e.id = c.entity_id
WHERE c.id = %(number)s AND c.undone_at IS NULL
  AND coalesce(f.owner_id, e.owner_id) = %(owner)s
FOR UPDATE OF c
"""

# Sources that a survivor got from its duplicate.
DELETE_SOURCES = "DELETE FROM memory_sources WHERE id = ANY(%(sources)s) AND memory_id = %(kept)s"

# Give a survivor the values that it had before the merge.
RESET_SURVIVOR = """
UPDATE memories SET importance = %(importance)s, pinned = %(pinned)s
WHERE id = %(kept)s AND owner_id = %(owner)s
"""

# Links that a merge of entities added.
UNLINK = """
DELETE FROM memory_entities l
USING consolidations c, jsonb_array_elements(c.details -> 'links') AS link
WHERE c.id = %(number)s AND l.memory_id = (link ->> 0)::bigint
  AND l.entity_id = (link ->> 1)::bigint
"""

# Mark a merge as undone, for good.
MARK_UNDONE = "UPDATE consolidations SET undone_at = now() WHERE id = %(number)s"


class ConsolidationRepository(Repository):
    """Lists facts to compare and stores merges; every method blocks (see ``PgClient.run``)."""

    def list_due(self, *, limit: int) -> list[DueOwner]:
        """List owners whose facts changed since they were compared, never compared ones first."""
        return self._all(
            lambda user, thread, *times: DueOwner(Owner(user, thread), *times),
            SELECT_DUE,
            limit=limit,
            limits=PATIENT,
        )

    def list_overfull(self, limit: int) -> list[Owner]:
        """List owners with more than ``limit`` current facts."""
        return self._all(Owner, SELECT_OVERFULL, limit=limit, limits=PATIENT)

    def mark(self, due: DueOwner) -> None:
        """Mark the owner's facts as compared, as of ``due.now``."""
        self._client.execute(MARK, due.owner, at=due.now)

    def list_changed(self, due: DueOwner, *, limit: int) -> list[int]:
        """List ids of changed current facts, the newest changes first."""
        return self._all(int, SELECT_CHANGED, due.owner, since=due.since, limit=limit)

    def list_entities(self, owner: Owner) -> list[tuple[int, str]]:
        """List id and name of the entities of the owner's current facts, oldest first."""
        return self._all(lambda *entity: entity, SELECT_ENTITIES, owner)

    def link(self, owner: Owner, entity_id: int, kept: int) -> bool:
        """Link the facts of two entities to both; False if they are, or an operator undid it."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            return transaction.execute(LINK, id=entity_id, kept=kept) > 0

        return self._client.in_transaction(work)

    def list_merges(self, owner: Owner, *, limit: int = 50) -> list[Record]:
        """List the owner's merges, newest first."""
        return self._client.fetch_records(SELECT_MERGES, owner, limit=limit)

    def undo(self, owner: Owner, number: int) -> bool:
        """Undo a merge for good; False if that is impossible, or it is of another owner."""

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
                    memory_repo.RESTORE,
                    owner,
                    id=memory_id,
                    successor=kept,
                    until=details.get("until"),
                    reasons=["duplicate", "contradicted"],
                ):
                    return False
                if kind == "duplicate":
                    transaction.execute(DELETE_SOURCES, details, kept=kept)
                    transaction.execute(RESET_SURVIVOR, owner, **details, kept=kept)
            transaction.execute(MARK_UNDONE, number=number)
            return True

        return self._client.in_transaction(work)


class ComparedFacts(StoredFacts):
    """Compares a fact with the others of its owner, and retires one for another."""

    def load(self, memory_id: int, model_id: int) -> tuple[Memory, NewMemory] | None:
        """Return a current fact, also in the form of a new one; None if there is none."""
        rows = self._rows(SELECT_STORED, id=memory_id, model=model_id)
        if not rows:
            return None
        *columns, language, origin, content_hash, vector = rows[0]
        memory = Memory(*columns)
        source = memory_repo.Source(memory.message_id or 0, memory.quote or "", memory.said_at)
        new = NewMemory(
            memory.fact,
            language,
            origin,
            content_hash,
            source,
            terms=memory_repo.fact_terms(memory.text, memory.relation),
            vector=vector,
            model_id=model_id,
            speaker_id=memory.speaker_id,
            speaker=memory.speaker,
        )
        return memory, new

    def list_others(self, memory_id: int, new: NewMemory) -> list[Similar]:
        """List similar current facts, without those whose merge was undone."""
        apart = {memory_id, *(number for (number,) in self._rows(SELECT_APART, id=memory_id))}
        return [f for f in self.list_similar(new) if f.retired_at is None and f.id not in apart]

    def retire_for(self, fact: Memory, other: Memory, kind: MergeKind) -> MergeKind | None:
        """Retire a fact in favour of another one, which gets the sources of a duplicate.

        Returns:
            The kind; None if the fact was retired meanwhile.
        """
        is_same = kind == "duplicate"
        reason, until = ("duplicate", None) if is_same else ("contradicted", other.said_at)
        if not self.retire([fact.id], successor=other.id, reason=reason, until=until):
            return None
        details: dict[str, Any] = {}
        if is_same:
            sources = [number for (number,) in self._rows(COPY_SOURCES, id=fact.id, kept=other.id)]
            self.touch(other.id, fact)
            details = {"importance": other.importance, "pinned": other.pinned, "sources": sources}
        elif not fact.valid_until:
            details = {"until": other.said_at.isoformat()}
        self._run(INSERT_MERGE, kind=kind, id=fact.id, kept=other.id, details=json.dumps(details))
        return kind


OWNERS = 50  # owners of one job; others wait for the next one
FACTS = 300  # facts of one owner per night, the newest changes
MAX_NAMES = 300  # compared names of one owner


@dataclass(eq=False, repr=False)
class ConsolidationService:
    """Compares changed facts by the rules of ``MemoryWriter``.

    Most duplicates were stored while the embedder was away, or before a threshold changed. An
    operator can undo every merge on the admin page, for good.
    """

    _client: PgClient
    _writer: MemoryWriter
    _space: ServingSpace
    _settings: GlobalSettingsRepository
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._repo = ConsolidationRepository(self._client)

    async def run(self) -> bool:
        """Consolidate some owners; returns True if there may be more.

        Raises:
            TransientError: The database is away, or the embedding model is not known yet.
        """
        limit = (await self._settings.fetch()).max_memories_per_user
        for owner in await self._client.run(self._repo.list_overfull, limit):
            retire = partial(_retire_surplus, owner, limit)
            retired = await self._client.run(self._client.in_transaction, retire)
            self._metrics.consolidated.labels("surplus").inc(retired)
        model = await self._space.model()
        due = await self._client.run(self._repo.list_due, limit=OWNERS)
        for entry in due:
            await self._client.run(self._consolidate, entry, model.id)
        return len(due) == OWNERS

    def _consolidate(self, due: DueOwner, model_id: int) -> None:
        """Compare the changed facts of one owner; later changes wait for the next night."""
        for memory_id in self._repo.list_changed(due, limit=FACTS):
            compare = partial(self._compare, due.owner, memory_id, model_id)
            for kind in filter(None, self._client.in_transaction(compare)):
                self._metrics.consolidated.labels(kind).inc()
        self._link_names(due.owner)
        self._repo.mark(due)

    def _compare(
        self, owner: Owner, memory_id: int, model_id: int, transaction: Transaction
    ) -> list[MergeKind | None]:
        lock_facts(transaction, owner)
        facts = ComparedFacts(transaction, owner)
        loaded = facts.load(memory_id, model_id)
        if loaded is None:
            return []
        memory, new = loaded
        same, rivals = self._writer.compare(new, facts.list_others(memory_id, new))
        if same:  # the older one survives
            older, newer = sorted((memory, same[0]), key=lambda fact: fact.id)
            return [facts.retire_for(newer, older, "duplicate")]
        found: list[MergeKind | None] = []
        for rival in rivals:
            older, newer = sorted((memory, rival), key=lambda m: (m.said_at, m.id))
            if not memory_repo.is_important(older):
                found.append(facts.retire_for(older, newer, "contradiction"))
                if older is memory:
                    break
        return found

    def _link_names(self, owner: Owner) -> None:
        entities = self._repo.list_entities(owner)[:MAX_NAMES]
        for (older_id, older_name), (id_, name) in combinations(entities, 2):
            if same_name(older_name, name) and self._repo.link(owner, id_, older_id):
                self._metrics.consolidated.labels("entity").inc()


def _retire_surplus(owner: Owner, limit: int, transaction: Transaction) -> int:
    lock_facts(transaction, owner)
    return StoredFacts(transaction, owner).retire_surplus(limit)
