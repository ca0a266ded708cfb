"""Summaries of messages that left the recent window: gapless, in order, nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from src.storage.locks import lock_conversations
from src.storage.pg_client import Transaction, storable
from src.storage.repository import Repository
from src.storage.search_index_repo import NewDocument, add_documents


@dataclass(frozen=True)
class Summary:
    """What the messages from ``first_position`` to ``last_position`` were about."""

    id: int
    first_position: int
    last_position: int
    content: str


# The newest summaries of what lies before the rendered window, and before them the oldest, into
# which the others are merged in time: without it all but the last twenty messages would be lost.
SELECT_SHOWN = """
SELECT id, first_position, last_position, content FROM (
    SELECT id, first_position, last_position, content,
           row_number() OVER (ORDER BY first_position) AS from_oldest,
           row_number() OVER (ORDER BY first_position DESC) AS from_newest
    FROM conversation_summaries
    WHERE conversation_id = %(conversation_id)s AND last_position < %(before)s AND content <> ''
) AS all_of_them
WHERE %(limit)s > 0 AND (from_oldest = 1 OR from_newest < %(limit)s)
ORDER BY first_position
"""

# All summaries of a conversation: there are never many, since they are merged.
SELECT_SUMMARIES = """
SELECT id, first_position, last_position, content FROM conversation_summaries
WHERE conversation_id = %(conversation_id)s ORDER BY first_position LIMIT 1000
"""

# How many messages there are to summarise between two positions.
COUNT_MESSAGES = """
SELECT count(*) FROM messages
WHERE conversation_id = %(conversation_id)s AND position BETWEEN %(first)s AND %(last)s
  AND role IN ('user', 'assistant') AND NOT is_forgotten AND NOT is_private
"""

# A summary, unless another one covers a part of it.
INSERT_SUMMARY = """
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT %(conversation_id)s, %(first)s, %(last)s, %(content)s
WHERE NOT EXISTS (SELECT 1 FROM conversation_summaries
                  WHERE conversation_id = %(conversation_id)s
                    AND first_position <= %(last)s AND last_position >= %(first)s)
RETURNING id
"""

# Those that a merged one replaces.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries
WHERE conversation_id = %(conversation_id)s AND id = ANY(%(ids)s)
"""


class SummaryRepository(Repository):
    """Stores summaries; every method blocks (see ``PgClient.run``)."""

    def list_shown(
        self,
        conversation_id: UUID,
        before: int,
        *,
        limit: int = 3,
        within: Transaction | None = None,
    ) -> list[Summary]:
        """The oldest and the newest summaries of messages before ``before``, in their order."""
        rows = (within or self._client).fetch_all(
            SELECT_SHOWN,
            {"conversation_id": str(conversation_id), "before": before, "limit": limit},
        )
        return [Summary(*row) for row in rows]

    def list_summaries(self, conversation_id: UUID) -> list[Summary]:
        """Every summary of a conversation, in order."""
        rows = self._client.fetch_all(SELECT_SUMMARIES, {"conversation_id": str(conversation_id)})
        return [Summary(*row) for row in rows]

    def replace(
        self,
        conversation_id: UUID,
        document: tuple[str, Sequence[str], datetime],
        *,
        first: int,
        last: int,
        merged: Sequence[int] = (),
        made_of: int | None = None,
    ) -> bool:
        """Store a summary of positions ``first`` to ``last``, in place of the ``merged`` ones.

        Args:
            conversation_id: Whose history it is.
            document: The summary, its search terms, and when the last of it was said.
            first: The first position that it covers.
            last: The last one.
            merged: Ids of summaries that it takes in.
            made_of: How many messages it was made from.

        Returns:
            False when a part is covered already, a message was forgotten meanwhile, or the
            conversation is gone: nothing happened.
        """
        content, terms, said_at = document
        parameters = {
            "conversation_id": str(conversation_id), "first": first, "last": last,
            "content": storable(content), "ids": list(merged),
        }  # fmt: skip

        def work(transaction: Transaction) -> bool:
            owners = lock_conversations(transaction, [conversation_id])
            if not owners:
                return False
            if made_of is not None and transaction.fetch_one(COUNT_MESSAGES, parameters) != (
                made_of,
            ):
                return False
            if transaction.execute(DELETE_SUMMARIES, parameters) != len(merged):
                raise _MergedMeanwhileError
            added = transaction.fetch_one(INSERT_SUMMARY, parameters)
            if added is None:
                raise _MergedMeanwhileError
            if content:
                summary = NewDocument("summary", int(added[0]), "user", said_at, terms)
                add_documents(transaction, owners[0], [summary])
            return True

        try:
            return self._client.in_transaction(work)
        except _MergedMeanwhileError:
            return False


class _MergedMeanwhileError(Exception):
    """Another worker was faster; the transaction is rolled back."""
