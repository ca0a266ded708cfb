"""The search index: what it holds of messages, memories and summaries, and what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from src.storage.embedding_repo import INSERT_VECTORS, vector_columns
from src.storage.locks import lock_unindexed
from src.storage.owner import Owner
from src.storage.pg_client import Transaction
from src.storage.repository import Repository

Kind = Literal["message", "memory", "summary"]
POSITION_GAP = 4  # more than the reach of a word into the neighbouring documents


@dataclass(frozen=True)
class NewDocument:
    """A text for the index.

    Attributes:
        kind: What it is; ``source_id`` is the id of that message, memory or summary.
        source_id: See ``kind``.
        speaker: ``user``, ``assistant``, or a name where several people talk.
        said_at: When it was said.
        terms: Its search terms, repeated as often as they occur.
        is_continued: Whether it stands in a talk right after the document before it.
        vector: Its centred embedding as ``[...]``, when there is one already.
    """

    kind: Kind
    source_id: int
    speaker: str
    said_at: datetime
    terms: Sequence[str]
    is_continued: bool = False
    vector: str | None = None


@dataclass(frozen=True)
class UnindexedMessage:
    """A stored message that the search does not know yet; ``speaker`` is a name, if it has one."""

    id: int
    role: str
    text: str
    said_at: datetime
    speaker: str | None


@dataclass(frozen=True)
class Progress:
    """How far a conversation is digested; positions of messages.

    Attributes:
        owner: Whose conversation it is.
        last: Of the newest message.
        summarised: Of the last one that a summary covers.
        extracted: Of the last one that was read for facts.
    """

    owner: Owner
    last: int
    summarised: int
    extracted: int


# One owner's numbers; the row is locked until the transaction ends, so that two workers give out
# no position twice.
RESERVE_POSITIONS = """
INSERT INTO search_owners AS o (telegram_user_id, thread_id, next_position, documents, terms)
VALUES (%(owner)s, %(thread_id)s, %(positions)s, %(documents)s, %(terms)s)
ON CONFLICT (telegram_user_id, thread_id) DO UPDATE
SET next_position = o.next_position + EXCLUDED.next_position,
    documents = o.documents + EXCLUDED.documents, terms = o.terms + EXCLUDED.terms
RETURNING next_position - %(positions)s
"""

# The documents; one that is there already (an edited message) was deleted before.
INSERT_DOCUMENTS = """
INSERT INTO search_documents (telegram_user_id, thread_id, position, kind, message_id, memory_id,
                              summary_id, speaker, said_at, length)
SELECT %(owner)s, %(thread_id)s, d.position, d.kind,
       CASE d.kind WHEN 'message' THEN d.source_id END,
       CASE d.kind WHEN 'memory' THEN d.source_id END,
       CASE d.kind WHEN 'summary' THEN d.source_id END,
       d.speaker, d.said_at, d.length
FROM unnest(%(positions)s::int[], %(kinds)s::text[], %(source_ids)s::bigint[],
            %(speakers)s::text[], %(said_at)s::timestamptz[], %(lengths)s::int[])
     AS d (position, kind, source_id, speaker, said_at, length)
RETURNING id, position
"""

# Which documents hold which words, and how often.
INSERT_POSTINGS = """
INSERT INTO search_postings (telegram_user_id, thread_id, term, position, frequency, length,
                             in_talk, document_id)
SELECT %(owner)s, %(thread_id)s, p.term, p.position, p.frequency, d.length,
       d.kind = 'message', d.id
FROM unnest(%(terms)s::text[], %(term_positions)s::int[], %(frequencies)s::int[])
     AS p (term, position, frequency)
JOIN search_documents d ON d.telegram_user_id = %(owner)s AND d.thread_id = %(thread_id)s
     AND d.position = p.position
"""

# A conversation's messages that the search does not know yet; a file is found by its name as well.
SELECT_UNINDEXED = """
SELECT m.id, m.role,
       concat_ws(E'\\n', CASE WHEN m.provenance = 'file' THEN m.origin END,
                 message_text(m.content)),
       m.said_at, coalesce(m.origin, m.speaker)
FROM messages m
WHERE m.conversation_id = %(conversation_id)s AND m.indexed_at IS NULL
  AND m.role IN ('user', 'assistant') AND NOT m.is_forgotten AND NOT m.is_private
ORDER BY m.id LIMIT %(limit)s
"""

# Whose a conversation is, and how far its history is digested: its newest message, the last one
# that a summary covers, the last one that was read for facts.
SELECT_PROGRESS = """
SELECT c.telegram_user_id, c.thread_id,
       coalesce((SELECT max(position) FROM messages WHERE conversation_id = c.id), 0),
       coalesce((SELECT max(last_position) FROM conversation_summaries
                 WHERE conversation_id = c.id), 0),
       c.extracted_position
FROM conversations c WHERE c.id = %(conversation_id)s
"""

# When the newest message of the owner that is in the index was said, and where it stands.
SELECT_LAST_SAID = """
SELECT d.said_at, d.position = o.next_position - 1
FROM search_owners o
JOIN search_documents d ON d.telegram_user_id = o.telegram_user_id AND d.thread_id = o.thread_id
WHERE o.telegram_user_id = %(owner)s AND o.thread_id = %(thread_id)s AND d.kind = 'message'
ORDER BY d.position DESC LIMIT 1
"""

# An edited message leaves the index before it comes back with its new words.
DELETE_EDITED = """
DELETE FROM search_documents
WHERE telegram_user_id = %(owner)s AND thread_id = %(thread_id)s AND message_id = ANY(%(ids)s)
"""

# The search knows these now.
MARK_INDEXED = """
UPDATE messages SET indexed_at = now()
WHERE id = ANY(%(ids)s) AND conversation_id = %(conversation_id)s
"""

# Conversations with messages that wait for the index, oldest first.
SELECT_CONVERSATIONS_TO_INDEX = """
SELECT DISTINCT conversation_id FROM (
    SELECT conversation_id FROM messages
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten
      AND NOT is_private
    LIMIT 10000
) AS waiting LIMIT %(limit)s
"""

# A document whose message has other words now: it keeps its place.
DELETE_POSTINGS = """
DELETE FROM search_postings p USING search_documents d
WHERE d.message_id = %(message_id)s AND p.document_id = d.id
  AND d.telegram_user_id = %(owner)s AND d.thread_id = %(thread_id)s
"""
UPDATE_LENGTH = """
UPDATE search_documents SET length = %(length)s
WHERE message_id = %(message_id)s AND telegram_user_id = %(owner)s AND thread_id = %(thread_id)s
RETURNING position
"""

# Vectors that know the words of these messages: their own, and those of what was said right after
# them; the background makes them anew.
RESET_VECTORS = """
WITH touched AS (
    SELECT DISTINCT d.id
    FROM search_documents told JOIN search_documents d
         ON d.telegram_user_id = told.telegram_user_id AND d.thread_id = told.thread_id
        AND d.position IN (told.position, told.position + 1)
    WHERE told.message_id = ANY(%(ids)s)
      AND told.telegram_user_id = %(owner)s AND told.thread_id = %(thread_id)s
), gone AS (
    DELETE FROM document_embeddings e USING touched WHERE e.document_id = touched.id
)
UPDATE search_documents d SET model_id = NULL FROM touched WHERE d.id = touched.id
"""


class SearchIndexRepository(Repository):
    """Fills the index; every method blocks (see ``PgClient.run``)."""

    def list_unindexed(self, conversation_id: UUID, limit: int = 200) -> list[UnindexedMessage]:
        """The oldest messages of a conversation that the search does not know."""
        rows = self._client.fetch_all(
            SELECT_UNINDEXED, {"conversation_id": str(conversation_id), "limit": limit}
        )
        return [UnindexedMessage(*row) for row in rows]

    def find_progress(self, conversation_id: UUID) -> Progress | None:
        """Whose conversation it is and how far it is digested; None when it is gone."""
        row = self._client.fetch_one(SELECT_PROGRESS, {"conversation_id": str(conversation_id)})
        return Progress(Owner(*row[:2]), *row[2:]) if row else None

    def find_last_said(self, owner: Owner) -> tuple[datetime, bool] | None:
        """When the owner's newest indexed message was said, and whether nothing came after it."""
        row = self._client.fetch_one(SELECT_LAST_SAID, owner.columns())
        return (row[0], bool(row[1])) if row else None

    def add_messages(
        self,
        owner: Owner,
        conversation_id: UUID,
        documents: Sequence[NewDocument],
        message_ids: Sequence[int],
    ) -> int:
        """Put messages of one conversation into the index, each once; returns how many went in.

        A message that was deleted or indexed by another worker meanwhile is left out.

        Args:
            owner: Whose conversation it is.
            conversation_id: The conversation.
            documents: What goes into the index.
            message_ids: The messages that are dealt with; some may have no document.
        """

        def add(transaction: Transaction) -> int:
            waiting = lock_unindexed(transaction, owner, conversation_id, message_ids)
            new = [document for document in documents if document.source_id in waiting]
            ids = {"ids": sorted(waiting), "conversation_id": str(conversation_id)}
            transaction.execute(DELETE_EDITED, {**owner.columns(), **ids})
            if new:
                add_documents(transaction, owner, new)
            transaction.execute(MARK_INDEXED, ids)
            return len(new)

        return self._client.in_transaction(add)

    def list_conversations_to_index(self, limit: int = 200) -> list[UUID]:
        """Conversations with messages that are not indexed yet."""
        rows = self._client.fetch_all(SELECT_CONVERSATIONS_TO_INDEX, {"limit": limit})
        return [UUID(str(row[0])) for row in rows]


def add_documents(
    transaction: Transaction,
    owner: Owner,
    documents: Sequence[NewDocument],
    *,
    model_id: int | None = None,
) -> None:
    """Put documents into the index within a transaction of the caller's.

    Args:
        transaction: The caller's.
        owner: Whose they are.
        documents: In the order in which they were said.
        model_id: Of their vectors; None when they have none.
    """
    offsets = _offsets(documents)
    positions = offsets[-1] + 1
    row = transaction.fetch_one(
        RESERVE_POSITIONS,
        {
            **owner.columns(),
            "positions": positions,
            "documents": len(documents),
            "terms": sum(len(document.terms) for document in documents),
        },
    )
    first = int(row[0]) if row else 0
    places = [first + offset for offset in offsets]
    rows = transaction.fetch_all(
        INSERT_DOCUMENTS,
        {
            **owner.columns(),
            "positions": places,
            "kinds": [document.kind for document in documents],
            "source_ids": [document.source_id for document in documents],
            "speakers": [document.speaker for document in documents],
            "said_at": [document.said_at for document in documents],
            "lengths": [len(document.terms) for document in documents],
        },
    )
    postings = [
        (term, place, count)
        for document, place in zip(documents, places, strict=True)
        for term, count in Counter(document.terms).items()
    ]
    _insert_postings(transaction, owner, postings)
    ids = {position: int(id_) for id_, position in rows}
    vectors = {
        ids[place]: document.vector
        for place, document in zip(places, documents, strict=True)
        if document.vector is not None
    }
    if vectors and model_id is not None:
        transaction.execute(INSERT_VECTORS, vector_columns(model_id, vectors))


def reword(transaction: Transaction, owner: Owner, message_id: int, terms: Sequence[str]) -> None:
    """Index a message by other words, where it stands; nothing when it is not in the index."""
    parameters = {**owner.columns(), "message_id": message_id, "length": len(terms)}
    transaction.execute(DELETE_POSTINGS, parameters)
    row = transaction.fetch_one(UPDATE_LENGTH, parameters)
    if row is not None:
        postings = [(term, int(row[0]), count) for term, count in Counter(terms).items()]
        _insert_postings(transaction, owner, postings)


def reset_vectors(transaction: Transaction, owner: Owner, message_ids: Sequence[int]) -> None:
    """Have the vectors of these messages, and of what follows each, made anew."""
    transaction.execute(RESET_VECTORS, {**owner.columns(), "ids": list(message_ids)})


def _offsets(documents: Sequence[NewDocument]) -> list[int]:
    """Where each document stands, counted from the owner's next free position."""
    offsets: list[int] = []
    place = -1
    for document in documents:
        place += 1 if document.is_continued else POSITION_GAP
        offsets.append(place)
    return offsets


def _insert_postings(
    transaction: Transaction, owner: Owner, postings: Sequence[tuple[str, int, int]]
) -> None:
    """Words, where they stand and how often."""
    if postings:
        terms, positions, counts = zip(*postings, strict=True)
        frequencies = [min(count, 32767) for count in counts]
        columns = {"terms": [*terms], "term_positions": [*positions], "frequencies": frequencies}
        transaction.execute(INSERT_POSTINGS, owner.columns() | columns)
