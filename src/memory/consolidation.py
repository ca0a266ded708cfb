"""Consolidation at night: duplicate and contradicted facts are merged by the writer's rules."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from src.base.metrics import Metrics
from src.base.owners import Owner
from src.memory import memory_repo
from src.memory.change_repo import ChangeRepository
from src.memory.embedding_space import ServingSpace
from src.memory.memory_repo import Proposal, StoredFact, StoringRepository
from src.memory.writer import MemoryWriter
from src.pg.client import PATIENT, PgClient, Record, Repository, Transaction
from src.pg.locks import lock_facts

MergeKind = Literal["duplicate", "contradiction"]


# Owners whose facts changed since they were compared, those never compared first.
SELECT_DUE = """
SELECT o.telegram_user_id, o.thread_id, o.consolidated_at, now() FROM owners o
WHERE EXISTS (SELECT 1 FROM memories f
              WHERE f.owner_id = o.id
                AND f.updated_at > coalesce(o.consolidated_at, '-infinity'))
ORDER BY o.consolidated_at NULLS FIRST, o.id LIMIT %(limit)s
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

# A current fact, and its vector.
SELECT_STORED = memory_repo.fact_query("""
SELECT {fact}, e.embedding::text
FROM facts f
LEFT JOIN search_documents d ON d.memory_id = f.id
LEFT JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
WHERE f.id = %(id)s AND f.owner_id = %(owner)s
  AND f.retired_at IS NULL
""")

# Facts that must not be merged with this one: an operator undid the merge, or the user keeps both
# (``question_repo``).
SELECT_APART = """
SELECT CASE memory_id WHEN %(id)s THEN merged_id ELSE memory_id END FROM changes
WHERE %(id)s IN (memory_id, merged_id) AND undone_at IS NOT NULL AND owner_id = %(owner)s
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

# Sources that a survivor got from its duplicate.
DELETE_SOURCES = """
DELETE FROM memory_sources s USING memories f
WHERE s.id = ANY(%(sources)s) AND f.id = s.memory_id AND f.owner_id = %(owner)s
"""

# Merges: the retired fact (``gone``), and the one that stands for it (``kept``).
SELECT_MERGES = """
SELECT c.id, c.before ->> 'why' AS kind, gone.text AS gone, kept.text AS kept,
       c.made_at AS done_at, c.undone_at
FROM changes c JOIN facts gone ON gone.id = c.merged_id JOIN facts kept ON kept.id = c.memory_id
WHERE c.owner_id = %(owner)s
  AND NOT c.before ? 'by'  -- what the user keeps apart was never merged
ORDER BY c.id DESC LIMIT %(limit)s
"""


class ConsolidationRepository(Repository):
    """Lists and undoes merges; every method blocks (see ``PgClient.run``)."""

    def list_merges(self, owner: Owner, *, limit: int = 50) -> list[Record]:
        """List the owner's merges, newest first."""
        return self._client.fetch_records(SELECT_MERGES, owner, limit=limit)

    def undo(self, owner: Owner, number: int) -> bool:
        """Undo a merge for good; False if that is impossible, or it is of another owner."""

        def work(transaction: Transaction) -> bool:
            lock_facts(transaction, owner)
            changes = ChangeRepository(transaction, owner)
            change = changes.find(number=number, kinds=("merged",))
            if change is None:
                return False
            transaction.execute(DELETE_SOURCES, owner, sources=change.before["sources"])
            changes.restore(change)
            return True

        return self._client.in_transaction(work)


class _Facts(StoringRepository):
    def load(self, memory_id: int, model_id: int) -> tuple[StoredFact, Proposal] | None:
        """Return a current fact, also in the form of a new one; None if there is none."""
        rows = self._rows(SELECT_STORED, id=memory_id, model=model_id)
        if not rows:
            return None
        *columns, vector = rows[0]
        memory = StoredFact.from_row(*columns)
        new = Proposal(
            memory.fact,
            content_hash=memory.content_hash,
            source=memory.source,
            terms=memory_repo.fact_terms(memory.text, memory.fact.relation),
            vector=vector,
            model_id=model_id,
        )
        return memory, new

    def list_others(self, memory_id: int, new: Proposal) -> list[StoredFact]:
        """List similar current facts, without those whose merge was undone."""
        apart = {memory_id, *(number for (number,) in self._rows(SELECT_APART, id=memory_id))}
        return [f for f in self.list_similar(new) if f.retirement is None and f.id not in apart]

    def merge(self, gone: StoredFact, kept: StoredFact, kind: MergeKind) -> MergeKind:
        """Retire a fact in favour of another one, which gets the sources of a duplicate."""
        is_same, sources = kind == "duplicate", []
        if is_same:
            sources = [number for (number,) in self._rows(COPY_SOURCES, id=gone.id, kept=kept.id)]
        pair = {"memory_id": kept.id, "merged_id": gone.id}
        self.changes.record("merged", facts=pair.values(), **pair, why=kind, sources=sources)
        if is_same:
            self.retire([gone.id], successor=kept.id, reason="duplicate")
            self.touch(kept.id, gone.fact)
        else:
            until = kept.source.said_at
            self.retire([gone.id], successor=kept.id, reason="contradicted", until=until)
        return kind


OWNERS = 50  # owners of one job; others wait for the next one
FACTS = 300  # facts of one owner per night, the newest changes


@dataclass(eq=False, repr=False)
class ConsolidationService:
    """Compares changed facts by the rules of ``MemoryWriter``.

    Most duplicates were stored while the embedder was away, or before a threshold changed. An
    operator can undo every merge on the admin page, for good.
    """

    _client: PgClient
    _writer: MemoryWriter
    _space: ServingSpace
    _metrics: Metrics

    async def run(self) -> bool:
        """Consolidate some owners; returns True if there may be more.

        Raises:
            TransientError: The database is away, or the embedding model is not known yet.
        """
        model = await self._space.model()
        select = self._client.fetch_all
        due = await self._client.run(select, SELECT_DUE, limit=OWNERS, limits=PATIENT)
        for user, thread, since, now in due:  # later changes wait for the next night
            owner = Owner(user, thread)
            changed = await self._client.run(
                select, SELECT_CHANGED, owner, since=since, limit=FACTS
            )
            for (memory_id,) in changed:
                compare = partial(self._compare, owner, memory_id, model.id)
                for kind in await self._client.run(self._client.in_transaction, compare):
                    self._metrics.consolidated.labels(kind).inc()
            await self._client.run(self._client.execute, MARK, owner, at=now)
        return len(due) == OWNERS

    def _compare(
        self, owner: Owner, memory_id: int, model_id: int, transaction: Transaction
    ) -> list[MergeKind]:
        lock_facts(transaction, owner)
        facts = _Facts(transaction, owner)
        loaded = facts.load(memory_id, model_id)
        if loaded is None:
            return []
        memory, new = loaded
        same, rivals = self._writer.compare(new, facts.list_others(memory_id, new))
        if same:  # the person's own survives, else the older one
            kept, gone = sorted((memory, same[0]), key=lambda f: (f.is_of_assistant, f.id))
            return [facts.merge(gone, kept, "duplicate")]
        found: list[MergeKind] = []
        for rival in rivals:
            older, newer = sorted((memory, rival), key=lambda m: (m.source.said_at, m.id))
            is_lent = newer.is_of_assistant and not older.is_of_assistant
            if not is_lent and not older.is_important:
                found.append(facts.merge(older, newer, "contradiction"))
                if older is memory:
                    break
        return found
