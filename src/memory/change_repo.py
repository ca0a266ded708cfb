"""Changes that can be undone, of facts and reminders, with the rows as they were before."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from src.pg.client import OwnerSteps

UNDO_SECONDS = 600  # for which a forgetting and a change of a reminder can be undone
ChangeKind = Literal["saved", "forgotten", "merged", "reminder"]


@dataclass(frozen=True)
class Change:
    """A change that can be undone.

    Attributes:
        id: Its number.
        kind: ``saved``: a fact was stored, and may have replaced others; ``forgotten``;
            ``merged``: a fact was retired at night; ``reminder``: some were cancelled or moved.
        memory_id: The fact that was stored, or that stands for the merged one.
        before: The rows as they were, by ``facts``, ``messages``, ``quotes`` or ``reminders``.
    """

    id: int
    kind: ChangeKind
    memory_id: int | None
    before: Mapping[str, Any]


# Record a change; of the facts that it retires, the state without the texts.
INSERT_CHANGE = """
INSERT INTO changes (owner_id, kind, memory_id, merged_id, asked_by, before)
SELECT %(owner)s, %(kind)s, %(memory_id)s, %(merged_id)s, %(asked_by)s,
       %(before)s::jsonb || jsonb_strip_nulls(jsonb_build_object('facts', jsonb_agg(
           jsonb_build_object(
               'id', id, 'retired_at', retired_at, 'retired_reason', retired_reason,
               'superseded_by', superseded_by, 'valid_until', valid_until,
               'importance', importance, 'pinned', pinned) ORDER BY id)))
FROM memories WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s
RETURNING id
"""

# The last change that can be undone; in a group only of the member who asks. A fact that replaced
# none is taken back as long as the user has written nothing else.
SELECT_CHANGE = """
SELECT c.id, c.kind, c.memory_id, c.before
FROM changes c LEFT JOIN memories f ON f.id = c.memory_id
WHERE c.owner_id = %(owner)s
  AND coalesce(c.asked_by, f.speaker_id, %(asker)s) IS NOT DISTINCT FROM %(asker)s
  AND (%(number)s::bigint IS NULL OR c.id = %(number)s)
  AND c.kind = ANY(%(kinds)s)
  AND c.before @> %(holds)s::jsonb
  AND CASE c.kind
      WHEN 'saved' THEN f.retired_at IS NULL AND (c.before ? 'facts' OR f.created_at >= (
          SELECT max(said.created_at) FROM messages said
          JOIN conversations talk ON talk.id = said.conversation_id
          WHERE talk.owner_id = %(owner)s AND said.role = 'user'))
      WHEN 'merged' THEN c.undone_at IS NULL
      ELSE c.made_at > now() - make_interval(secs => %(seconds)s) END
ORDER BY c.id DESC LIMIT 1
"""

# The changes by which a fact replaced others.
SELECT_SAVED = """
SELECT id, kind, memory_id, before FROM changes
WHERE memory_id = %(memory_id)s AND kind = 'saved' AND owner_id = %(owner)s
ORDER BY id DESC LIMIT 100
"""

# Restore facts that this change retired, and the fact that stands for a merged one. Skip a fact
# that was stored again meanwhile.
RESTORE_FACTS = """
UPDATE memories f
SET retired_at = was.retired_at, retired_reason = was.retired_reason,
    superseded_by = (SELECT id FROM memories WHERE id = was.superseded_by),
    valid_until = was.valid_until, importance = was.importance, pinned = was.pinned,
    updated_at = now()
FROM jsonb_populate_recordset(NULL::memories, %(facts)s::jsonb) AS was
WHERE f.id = was.id AND f.owner_id = %(owner)s
  AND (f.retired_reason = ANY(%(reasons)s) OR (f.id = %(memory_id)s AND f.retired_at IS NULL))
  AND (was.retired_at IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM memories living
      WHERE living.content_hash = f.content_hash AND living.retired_at IS NULL
        AND living.id <> f.id AND living.owner_id = %(owner)s))
RETURNING f.text, f.retired_at IS NULL
"""
REASONS = {
    "saved": ["replaced"],
    "forgotten": ["forgotten"],
    "merged": ["duplicate", "contradicted"],
}

# A change that was undone.
DELETE_CHANGE = "DELETE FROM changes WHERE id = %(id)s AND owner_id = %(owner)s"

# A merge that was undone, so that it is not made again.
MARK_UNDONE = "UPDATE changes SET undone_at = now() WHERE id = %(id)s AND owner_id = %(owner)s"


class ChangeRepository(OwnerSteps):
    """Steps that record and undo changes, in the caller's transaction."""

    def record(
        self,
        kind: ChangeKind,
        *,
        facts: Collection[int] = (),
        memory_id: int | None = None,
        merged_id: int | None = None,
        asked_by: int | None = None,
        **before: Any,
    ) -> int:
        """Record a change that is about to be made; return its number.

        Args:
            kind: See ``Change``.
            facts: Ids of the facts that it retires.
            memory_id: The fact that it stores, or that stands for ``merged_id``.
            merged_id: The fact that a merge retires.
            asked_by: In a group, the member who makes it.
            before: Other rows as they are now.
        """
        [(number,)] = self._rows(
            INSERT_CHANGE,
            kind=kind,
            facts=list(facts),
            memory_id=memory_id,
            merged_id=merged_id,
            asked_by=asked_by,
            before=json.dumps(before, ensure_ascii=False, default=str),
        )
        return int(number)

    def find(
        self,
        asker: int | None = None,
        *,
        number: int | None = None,
        kinds: Sequence[ChangeKind] = ("saved", "forgotten", "reminder"),
        **holds: Any,
    ) -> Change | None:
        """Return the last change that can be undone; in a group only by the member ``asker``.

        Args:
            asker: In a group, the member who asks.
            number: Only the change with this number.
            kinds: Only changes of these kinds.
            holds: Rows, or parts of them, that it must have changed.
        """
        wanted = {"number": number, "kinds": list(kinds), "holds": json.dumps(holds)}
        rows = self._rows(SELECT_CHANGE, asker=asker, seconds=UNDO_SECONDS, **wanted)
        return Change(*rows[0]) if rows else None

    def restore_replaced(self, memory_id: int) -> list[str]:
        """Restore what a fact had replaced, and return the texts."""
        changes = [Change(*row) for row in self._rows(SELECT_SAVED, memory_id=memory_id)]
        return [text for change in changes for text in self.restore(change)]

    def restore(self, change: Change) -> list[str]:
        """Restore the facts of a change, and end it; return the texts of those that hold again."""
        rows = self._rows(
            RESTORE_FACTS,
            facts=json.dumps(change.before.get("facts", [])),
            memory_id=change.memory_id,
            reasons=REASONS[change.kind],
        )
        self.close(change)
        return [text for text, is_current in rows if is_current]

    def close(self, change: Change) -> None:
        """End a change that was undone; a merge is remembered, so that it is not made again."""
        self._run(MARK_UNDONE if change.kind == "merged" else DELETE_CHANGE, id=change.id)
