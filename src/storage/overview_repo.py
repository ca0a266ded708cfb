"""What is known, listed by kind and by time instead of searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from src.storage.memory_rows import Memory, memory_query
from src.storage.owner import Owner
from src.storage.repository import Repository
from src.storage.retrieval_repo import CandidateDocument

FAMILY = (
    "mother", "father", "parents", "brother", "sister", "son", "daughter", "child", "wife",
    "husband", "partner", "grandmother", "grandfather", "aunt", "uncle", "cousin", "family",
)  # fmt: skip
# The subjects and the relations of what is told of them.
ABOUT: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "family": (FAMILY, ("has_child", "has_sibling", "has_parent", "married_to", "partner")),
    "work": ((), ("works_as", "works_at", "studies_at", "studies")),
    "wishes": ((), ("wish",)),
}


# The facts that hold, by kind, the most important first. A period is that of their newest source.
SELECT_FACTS = memory_query("""
SELECT {memory} FROM facts f
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
  AND (f.valid_until IS NULL OR f.valid_until > now() OR f.valid_until <= f.said_at)
  AND (%(speaker_id)s::bigint IS NULL OR f.speaker_id = %(speaker_id)s)
  AND (%(types)s::text[] IS NULL OR f.memory_type = ANY(%(types)s))
  AND (%(subjects)s::text[] IS NULL OR f.subject = ANY(%(subjects)s)
       OR f.relation = ANY(%(relations)s))
  AND (%(since)s::timestamptz IS NULL OR f.said_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR f.said_at < %(until)s)
ORDER BY f.pinned DESC, f.importance DESC, f.said_at DESC, f.id DESC
LIMIT %(limit)s
""")

# What holds instead of retired facts, at the end of each line of replacements.
SELECT_SUCCESSORS = memory_query("""
WITH RECURSIVE line AS (
    SELECT f.id AS retired, f.superseded_by AS next, 1 AS step FROM memories f
    WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s
      AND (f.id = ANY(%(ids)s) OR f.id IN (
          SELECT memory_id FROM memory_sources WHERE message_id = ANY(%(messages)s)))
    UNION ALL
    SELECT line.retired, f.superseded_by, line.step + 1
    FROM line JOIN memories f ON f.id = line.next
    WHERE f.retired_at IS NOT NULL AND line.step < 50
)
SELECT line.retired, ARRAY(SELECT message_id FROM memory_sources WHERE memory_id = line.retired),
       {memory}
FROM line JOIN facts f ON f.id = line.next
WHERE f.telegram_user_id = %(owner)s AND f.thread_id = %(thread_id)s AND f.retired_at IS NULL
""")

# What the user said in a period, oldest first; of too much the newest.
SELECT_MESSAGES = """
SELECT kind, id, message_id, uid, 'user', said_at, text, provenance, author, author_id FROM (
    SELECT 'message' AS kind, m.id, m.id AS message_id, 'msg-' || m.id AS uid,
           left(message_text(m.content), 2000) AS text, m.said_at,
           m.provenance, coalesce(m.origin, m.speaker) AS author,
           CASE WHEN c.telegram_user_id < 0 THEN m.sender_id END AS author_id
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE c.telegram_user_id = %(owner)s AND c.thread_id = %(thread_id)s AND m.role = 'user'
      AND NOT m.is_forgotten AND NOT m.is_private
      AND (%(since)s::timestamptz IS NULL OR m.said_at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR m.said_at < %(until)s)
      AND NOT coalesce(m.conversation_id = %(conversation_id)s::uuid
                       AND m.position >= %(before_position)s, false)
    ORDER BY m.said_at DESC, m.id DESC LIMIT %(limit)s
) AS newest ORDER BY said_at, id
"""


class OverviewRepository(Repository):
    """Lists what is known; every method blocks (see ``PgClient.run``)."""

    def list_facts(
        self,
        owner: Owner,
        *,
        types: Sequence[str] | None = None,
        about: Literal["family", "work", "wishes"] | None = None,
        period: tuple[datetime | None, datetime | None] = (None, None),
        speaker_id: int | None = None,
        limit: int = 20,
    ) -> list[CandidateDocument]:
        """The facts that hold: of certain types, about kin or wishes alone, told in a period.

        In a group those that the member ``speaker_id`` told.
        """
        subjects, relations = ABOUT[about] if about is not None else (None, ())
        wanted = {
            **owner.columns(), "since": period[0], "until": period[1], "limit": limit,
            "types": list(types) if types is not None else None, "speaker_id": speaker_id,
            "subjects": list(subjects) if subjects is not None else None,
            "relations": list(relations),
        }  # fmt: skip
        return [_listed(Memory(*row)) for row in self._client.fetch_all(SELECT_FACTS, wanted)]

    def find_successors(
        self, owner: Owner, *, facts: Sequence[int], messages: Sequence[int]
    ) -> dict[tuple[str, int], CandidateDocument]:
        """What holds instead of retired facts and of what messages told, by kind and id of those.

        A message that told several such facts has the successor of one of them.
        """
        ids = {**owner.columns(), "ids": list(facts), "messages": list(messages)}
        rows = self._client.fetch_all(SELECT_SUCCESSORS, ids)
        found: dict[tuple[str, int], CandidateDocument] = {}
        for retired, told_in, *row in rows:
            fact = _listed(Memory(*row))
            found["memory", int(retired)] = fact
            found |= {("message", int(id_)): fact for id_ in told_in if id_ is not None}
        return found

    def list_messages(
        self,
        owner: Owner,
        *,
        period: tuple[datetime | None, datetime | None],
        conversation_id: UUID | None = None,
        before_position: int = 0,
        limit: int = 20,
    ) -> list[CandidateDocument]:
        """What the user said in a period, oldest first, before a position of a conversation."""
        wanted = {
            **owner.columns(), "since": period[0], "until": period[1], "limit": limit,
            "conversation_id": str(conversation_id) if conversation_id else None,
            "before_position": before_position,
        }  # fmt: skip
        return [CandidateDocument(*row) for row in self._client.fetch_all(SELECT_MESSAGES, wanted)]


def _listed(fact: Memory) -> CandidateDocument:
    return CandidateDocument(
        "memory", fact.id, fact.message_id, fact.uid, "user", fact.said_at, fact.text,
        memory_type=fact.memory_type, author=fact.speaker, author_id=fact.speaker_id,
        quote=fact.quote,
    )  # fmt: skip
