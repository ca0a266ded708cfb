"""Facts as their owner looks through them: in pages by kind, one by one with their past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from src.base.owners import Owner
from src.memory.memory_repo import Memory, memory_query
from src.pg.client import Repository
from src.reading.facts import MEMORY_TYPES

# The living facts kind by kind, of each kind the pinned first, then the newest.
SELECT_PAGE = memory_query("""
SELECT {memory} FROM facts f
WHERE f.owner_id = %(owner)s AND f.retired_at IS NULL
  AND (%(kind)s::text IS NULL OR f.memory_type = %(kind)s)
ORDER BY array_position(%(kinds)s::text[], f.memory_type), f.pinned DESC, f.created_at DESC,
         f.id DESC
LIMIT %(limit)s OFFSET %(offset)s
""")

# How many living facts there are of each kind.
COUNT_KINDS = """
SELECT memory_type, count(*) FROM memories
WHERE owner_id = %(owner)s AND retired_at IS NULL
GROUP BY memory_type
"""

# A fact, living or not.
SELECT_FACT = memory_query("""
SELECT {memory} FROM facts f
WHERE f.id = %(memory_id)s AND f.owner_id = %(owner)s
""")

# What facts replaced, the latest first.
SELECT_REPLACED = """
SELECT superseded_by, text, valid_until FROM memories
WHERE superseded_by = ANY(%(ids)s) AND retired_reason = 'replaced' AND owner_id = %(owner)s
ORDER BY retired_at DESC, id DESC LIMIT 100
"""

# What holds instead of a fact.
SELECT_SUCCESSOR = """
SELECT s.text FROM memories f JOIN memories s ON s.id = f.superseded_by
WHERE f.id = %(memory_id)s AND f.owner_id = %(owner)s AND s.owner_id = %(owner)s
"""

# The user wants it always in view, or does not; in a group only who told it may say so.
UPDATE_PINNED = """
UPDATE memories SET pinned = %(pinned)s, updated_at = now()
WHERE id = %(memory_id)s AND owner_id = %(owner)s
  AND retired_at IS NULL
  AND (%(asker)s::bigint IS NULL OR speaker_id IS NULL OR speaker_id = %(asker)s)
"""

# Living facts by their numbers, in their order.
SELECT_TEXTS = """
SELECT id, text FROM memories
WHERE id = ANY(%(ids)s) AND owner_id = %(owner)s
  AND retired_at IS NULL
ORDER BY array_position(%(ids)s::bigint[], id)
"""


@dataclass(frozen=True)
class Replaced:
    """What a fact took the place of.

    Attributes:
        by: The fact that holds now.
        text: What held before.
        until: Until when, as far as that is known.
    """

    by: int
    text: str
    until: datetime | None


@dataclass(frozen=True)
class FactCard:
    """A fact with its past and, where it holds no more, what holds instead."""

    memory: Memory
    replaced: tuple[Replaced, ...] = ()
    successor: str | None = None


class MemoryPageRepository(Repository):
    """Reads pages of facts and pins; every method blocks (see ``PgClient.run``)."""

    def list_page(
        self, owner: Owner, *, kind: str | None = None, limit: int = 10, offset: int = 0
    ) -> list[Memory]:
        """Living facts, kind by kind in the order of ``MEMORY_TYPES``, or those of one kind."""
        parameters = {
            **owner.columns(), "kind": kind, "kinds": list(MEMORY_TYPES),
            "limit": limit, "offset": max(0, offset),
        }  # fmt: skip
        return [Memory(*row) for row in self._client.fetch_all(SELECT_PAGE, parameters)]

    def count_kinds(self, owner: Owner) -> dict[str, int]:
        """How many living facts there are of each kind that has some, in order."""
        found: dict[str, int] = dict(self._client.fetch_all(COUNT_KINDS, owner.columns()))
        return {kind: found[kind] for kind in MEMORY_TYPES if found.get(kind)}

    def list_replaced(self, owner: Owner, ids: list[int]) -> list[Replaced]:
        """What these facts replaced, the latest first."""
        rows = self._client.fetch_all(SELECT_REPLACED, {**owner.columns(), "ids": ids})
        return [Replaced(*row) for row in rows]

    def find_card(self, owner: Owner, memory_id: int) -> FactCard | None:
        """A fact of the owner's, living or retired; None when there is none."""
        parameters = {**owner.columns(), "memory_id": memory_id}
        row = self._client.fetch_one(SELECT_FACT, parameters)
        if row is None:
            return None
        replaced = self.list_replaced(owner, [memory_id])
        successor = self._client.fetch_one(SELECT_SUCCESSOR, parameters)
        return FactCard(Memory(*row), tuple(replaced), successor[0] if successor else None)

    def set_pinned(
        self, owner: Owner, memory_id: int, *, pinned: bool, asker: int | None = None
    ) -> bool:
        """Pin a living fact, or let it go; False when it is not there, or another's."""
        parameters = {
            **owner.columns(), "memory_id": memory_id, "pinned": pinned, "asker": asker,
        }  # fmt: skip
        return self._client.execute(UPDATE_PINNED, parameters) > 0

    def list_texts(self, owner: Owner, ids: list[int]) -> list[tuple[int, str]]:
        """Number and text of those of these facts that hold, in the order of ``ids``."""
        rows = self._client.fetch_all(SELECT_TEXTS, {**owner.columns(), "ids": ids})
        return [(int(id_), str(text)) for id_, text in rows]
