"""Repositories of the search index: embedding models, vectors, and indexed documents."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Literal
from uuid import UUID

from src.base.owners import Owner
from src.pg.client import PATIENT, Repository, Transaction
from src.pg.locks import take_unindexed

# Vectors (``[...]``) by document id and start of the passage in characters.
Vectors = Mapping[tuple[int, int], str]


@dataclass(frozen=True)
class Scale:
    """Means that centre a model's vectors, and the range of its cosines.

    Attributes:
        means: Mean vectors of generic texts, which are subtracted, by language and form
            (``uk statement``); with six digits.
        unrelated_median: Median of the centred cosines of two generic texts.
        unrelated_high: Their 95th percentile.
    """

    means: Mapping[str, Sequence[float]]
    unrelated_median: float
    unrelated_high: float


@dataclass(frozen=True)
class EmbeddingModel(Scale):
    """An embedding model with its scale.

    Attributes:
        id: Its number in ``embedding_models``.
        name: Its name as in ``EMBEDDING_MODEL``.
        dimensions: Length of its vectors.
    """

    id: int
    name: str
    dimensions: int


@dataclass(frozen=True)
class UnembeddedDocument:
    """A document without a vector of the current model.

    Attributes:
        id: Its number in ``search_documents``.
        text: Its text.
        speaker: Its speaker.
        before: Text of the message right before it in the same talk; empty if there is none.
        before_speaker: Speaker of that message.
    """

    id: int
    text: str
    speaker: str
    before: str
    before_speaker: str


# A model by its name.
SELECT_MODEL = """
SELECT means, unrelated_median, unrelated_high, id, name, dimensions
FROM embedding_models WHERE name = %(name)s
"""

# Insert a model that is new to this database, and select it; of two processes the first wins.
INSERT_MODEL = """
INSERT INTO embedding_models (name, dimensions, means, unrelated_median, unrelated_high)
VALUES (%(name)s, %(dimensions)s, %(means)s, %(unrelated_median)s, %(unrelated_high)s)
ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
RETURNING means, unrelated_median, unrelated_high, id, name, dimensions
"""

# Make a model the one that documents get vectors of from now on.
CHOOSE_MODEL = "UPDATE embedding_models SET created_at = now() WHERE id = %(model)s"

# Documents without a vector, or with one of a model chosen earlier. Newest first, since users ask
# about today sooner than about last year. Owners take turns: a flood by one does not delay the
# others' documents. A bot that still runs with the earlier model leaves re-embedded documents
# alone; otherwise the two would undo each other's work forever.
SELECT_UNEMBEDDED = """
SELECT d.id,
       coalesce(message_text(m.content), f.text, s.content),
       d.speaker,
       coalesce(message_text(b.content), ''),
       coalesce(n.speaker, '')
FROM (
    (SELECT id FROM (
         SELECT id, row_number() OVER (PARTITION BY owner_id ORDER BY id DESC) AS nth
         FROM search_documents WHERE model_id IS NULL AND NOT %(only_embedded)s
     ) AS new
     ORDER BY nth, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT d.id FROM embedding_models old, LATERAL (
         SELECT id FROM search_documents WHERE model_id = old.id ORDER BY id DESC LIMIT %(limit)s
     ) AS d
     WHERE old.created_at < (SELECT created_at FROM embedding_models WHERE id = %(model)s))
    LIMIT %(limit)s
) AS waiting
JOIN search_documents d ON d.id = waiting.id
LEFT JOIN messages m ON m.id = d.message_id
LEFT JOIN memories f ON f.id = d.memory_id
LEFT JOIN conversation_summaries s ON s.id = d.summary_id
LEFT JOIN search_documents n ON n.owner_id = d.owner_id AND n.position = d.position - 1
     AND d.kind = 'message'
LEFT JOIN messages b ON b.id = n.message_id
ORDER BY d.id DESC
"""

# Store vectors of one model and mark their documents as done, including those that get none. A
# document that was deleted meanwhile is skipped.
INSERT_VECTORS = """
WITH done AS MATERIALIZED (
    SELECT id, owner_id, position, speaker FROM search_documents
    WHERE id = ANY(%(done)s::bigint[]) ORDER BY id FOR UPDATE
), added AS (
    INSERT INTO document_embeddings (owner_id, model_id, is_answer, position, document_id,
                                     starts_at, embedding)
    SELECT d.owner_id, %(model)s, d.speaker = 'assistant', d.position, d.id, v.starts_at,
           v.vector::halfvec
    FROM unnest(%(documents)s::bigint[], %(starts)s::int[], %(vectors)s::text[])
         AS v (document, starts_at, vector)
    JOIN done d ON d.id = v.document
    ON CONFLICT (document_id, model_id, starts_at) DO UPDATE SET embedding = EXCLUDED.embedding
)
UPDATE search_documents d SET model_id = %(model)s FROM done WHERE d.id = done.id
"""

# Number of documents that the model has embedded, and of all documents; it reads a whole index.
COUNT_EMBEDDED = """
SELECT count(*) FILTER (
    WHERE model_id = (SELECT id FROM embedding_models WHERE name = %(name)s)), count(*)
FROM search_documents
"""

# The model that serves: the wanted one if its vectors are complete, else the one with the most.
# New documents get a vector of the earlier model meanwhile, so that a hundredth may be missing, at
# most 64 documents; they are embedded shortly after.
SELECT_SERVING = """
WITH missing AS (
    SELECT 1 FROM embedding_models old JOIN search_documents d ON d.model_id = old.id
    WHERE old.name <> %(wanted)s LIMIT 65
), there AS (
    SELECT 1 FROM embedding_models w JOIN document_embeddings e ON e.model_id = w.id
    WHERE w.name = %(wanted)s LIMIT 6499
)
SELECT m.name FROM embedding_models m
WHERE m.name <> %(wanted)s
  AND 100 * (SELECT count(*) FROM missing) > (SELECT count(*) FROM there)
ORDER BY (SELECT count(*) FROM document_embeddings e WHERE e.model_id = m.id) DESC, m.id
LIMIT 1
"""

# Delete models, and thereby vectors, that no document uses. A model chosen within the last hour
# has no documents yet and is kept.
DELETE_OTHER_MODELS = """
DELETE FROM embedding_models m
WHERE m.id <> %(model)s AND m.created_at < now() - interval '1 hour'
  AND NOT EXISTS (SELECT 1 FROM search_documents WHERE model_id = m.id)
"""


class EmbeddingRepository(Repository):
    """Repository of embedding models and vectors; every method blocks (see ``PgClient.run``)."""

    def find_model(self, name: str) -> EmbeddingModel | None:
        """Return the model of this name; None if it is new to this database."""
        return self._first(EmbeddingModel, SELECT_MODEL, name=name)

    def add_model(self, name: str, scale: Scale) -> EmbeddingModel:
        """Store a model unless another process did; return the stored one."""
        dimensions = len(next(iter(scale.means.values())))
        columns = {**vars(scale), "means": json.dumps(scale.means)}
        [row] = self._client.fetch_all(INSERT_MODEL, columns, name=name, dimensions=dimensions)
        return EmbeddingModel(*row)

    def choose_model(self, model_id: int) -> None:
        """Have the documents of all other models embedded with this one."""
        self._client.execute(CHOOSE_MODEL, {"model": model_id})

    def list_unembedded(
        self, model_id: int, limit: int = 64, *, only_embedded: bool = False
    ) -> list[UnembeddedDocument]:
        """Return documents without a vector, or with one of a model chosen earlier; newest first.

        With ``only_embedded``, documents without any vector are left out.
        """
        params = {"model": model_id, "limit": limit, "only_embedded": only_embedded}
        return self._all(UnembeddedDocument, SELECT_UNEMBEDDED, params, limits=PATIENT)

    def add_vectors(self, model_id: int, vectors: Vectors, documents: Sequence[int] = ()) -> None:
        """Store vectors; mark their documents, and these ``documents``, as done."""
        embedded = [id_ for id_, _ in vectors]
        self._client.execute(
            INSERT_VECTORS,
            model=model_id,
            done=[*embedded, *documents],
            documents=embedded,
            starts=[start for _, start in vectors],
            vectors=[*vectors.values()],
        )

    def count_embedded(self, name: str) -> tuple[int, int]:
        """Return the number of documents that a model has embedded, and of all documents."""
        [(done, total)] = self._client.fetch_all(COUNT_EMBEDDED, name=name, limits=PATIENT)
        return done, total

    def find_serving(self, wanted: str) -> str:
        """Return the name of the model with complete vectors: the wanted or an earlier one."""
        return self._first(str, SELECT_SERVING, wanted=wanted, limits=PATIENT) or wanted

    def delete_other_models(self, model_id: int) -> int:
        """Delete models that no document uses, with their vectors; return how many."""
        return self._client.execute(DELETE_OTHER_MODELS, {"model": model_id}, limits=PATIENT)


DocumentKind = Literal["message", "memory", "summary"]
UNNAMED_SPEAKERS = frozenset({"user", "assistant"})
POSITION_GAP = 4  # more than the distance at which words count for neighbouring documents


@dataclass(frozen=True)
class NewDocument:
    """A document to index.

    Attributes:
        kind: Kind of the document; ``source_id`` is the id of that message, memory or summary.
        source_id: See ``kind``.
        speaker: ``user``, ``assistant``, or a name where several people talk.
        said_at: When it was said.
        terms: Its search terms, each as often as it occurs.
        is_continued: True if it continues the talk of the document before it.
        asks: True if the user only asks in it; it is searched where questions are asked for.
        vector: Its centred embedding as ``[...]``, if there is one already.
        model_id: The model of ``vector``.
    """

    kind: DocumentKind
    source_id: int
    speaker: str
    said_at: datetime
    terms: Sequence[str]
    is_continued: bool = False
    asks: bool = False
    vector: str | None = None
    model_id: int | None = None


@dataclass(frozen=True)
class UnindexedMessage:
    """A stored message that is not indexed yet.

    Attributes:
        id: Its number.
        role: Its role.
        text: Its text; empty if it was deleted.
        said_at: When it was said; None if it was deleted.
        speaker: The name of its speaker, if it has one.
        last_said_at: Time of the conversation's last indexed message, if that is still the owner's
            newest document.
    """

    id: int
    role: str
    text: str
    said_at: datetime | None
    speaker: str | None
    last_said_at: datetime | None


# Reserve positions of one owner. The row is locked until the transaction ends, so that no two
# workers assign the same position.
RESERVE_POSITIONS = """
INSERT INTO search_owners AS o (owner_id, next_position, documents, terms)
VALUES (%(owner)s, %(positions)s, %(documents)s, %(terms)s)
ON CONFLICT (owner_id) DO UPDATE
SET next_position = o.next_position + EXCLUDED.next_position,
    documents = o.documents + EXCLUDED.documents, terms = o.terms + EXCLUDED.terms
RETURNING next_position - %(positions)s
"""

# Insert documents; the old document of an edited message was deleted before.
INSERT_DOCUMENTS = """
INSERT INTO search_documents (owner_id, position, kind, message_id, memory_id, summary_id, speaker,
                              said_at, length, asks)
SELECT %(owner)s, d.position, d.kind, d.message_id, d.memory_id, d.summary_id, d.speaker,
       d.said_at, d.length, d.asks
FROM jsonb_to_recordset(%(documents)s::jsonb)
     AS d (position int, kind text, message_id bigint, memory_id bigint, summary_id bigint,
           speaker text, said_at timestamptz, length int, asks boolean)
RETURNING id, position
"""

# Insert the terms of documents with their frequencies.
INSERT_POSTINGS = """
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id)
SELECT %(owner)s, p.term, p.position, p.frequency, d.length,
       d.speaker NOT IN ('user', 'assistant'), d.speaker = 'assistant' OR d.asks, d.id
FROM unnest(%(terms)s::text[], %(term_positions)s::int[], %(frequencies)s::int[])
     AS p (term, position, frequency)
JOIN search_documents d ON d.owner_id = %(owner)s
     AND d.position = p.position
"""

# Add the terms of facts to the search text of the messages that told them. Such a term goes with
# the document of the message and with that of the fact; of several facts the first one gives it.
INSERT_TOLD = """
WITH sources AS MATERIALIZED (
    SELECT memory_id, message_id FROM memory_sources WHERE memory_id = ANY(%(facts)s)
    UNION
    SELECT memory_id, message_id FROM memory_sources WHERE message_id = ANY(%(messages)s)
), pairs AS MATERIALIZED (
    SELECT d.id, d.owner_id, d.position, d.length, d.speaker, told.id AS told_by
    FROM sources s
    JOIN memories f ON f.id = s.memory_id
    JOIN search_documents told ON told.memory_id = s.memory_id
    JOIN search_documents d ON d.message_id = s.message_id AND d.owner_id = told.owner_id
    WHERE d.speaker <> 'assistant'
      AND coalesce(f.retired_reason, '') NOT IN ('undone', 'edited', 'forgotten')
)
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id, told_by)
SELECT d.owner_id, p.term, d.position, p.frequency, d.length,
       d.speaker NOT IN ('user', 'assistant'), false, d.id, d.told_by
FROM pairs d JOIN search_postings p ON p.document_id = d.told_by
WHERE d.owner_id = %(owner)s
ORDER BY d.told_by
ON CONFLICT DO NOTHING
"""

# Remove the terms of facts from the messages that told them.
DELETE_TOLD = """
DELETE FROM search_postings p USING search_documents d
WHERE p.told_by = d.id AND d.memory_id = ANY(%(ids)s) AND d.owner_id = %(owner)s
"""

# Messages of a conversation that are not indexed yet, including deleted and hidden ones, which
# ``take_unindexed`` sorts out. A file is also found by its name.
SELECT_UNINDEXED = """
SELECT w.message_id, coalesce(m.role, ''),
       concat_ws(E'\\n', CASE WHEN m.provenance = 'file' THEN m.origin END,
                 message_text(m.content)),
       m.said_at,
       CASE WHEN m.provenance <> 'imported' THEN coalesce(m.origin, m.speaker) END,
       (SELECT d.said_at
        FROM search_owners o
        JOIN search_documents d ON d.owner_id = o.owner_id AND d.position = o.next_position - 1
        JOIN messages i ON i.id = d.message_id AND i.conversation_id = %(conversation_id)s
        WHERE o.owner_id = (SELECT owner_id FROM conversations WHERE id = %(conversation_id)s))
FROM unindexed_messages w LEFT JOIN messages m
     ON m.id = w.message_id AND m.conversation_id = w.conversation_id
WHERE w.conversation_id = %(conversation_id)s
ORDER BY w.message_id LIMIT %(limit)s
"""

# Delete the documents of edited messages before they are indexed with their new words.
DELETE_EDITED = """
DELETE FROM search_documents
WHERE owner_id = %(owner)s AND message_id = ANY(%(ids)s)
"""

# Replace the terms of a document whose message was changed; it keeps its position.
DELETE_POSTINGS = """
DELETE FROM search_postings p USING search_documents d
WHERE d.message_id = %(message_id)s AND p.document_id = d.id AND d.owner_id = %(owner)s
"""
UPDATE_LENGTH = """
UPDATE search_documents SET length = %(length)s
WHERE message_id = %(message_id)s AND owner_id = %(owner)s
RETURNING position
"""

# Delete the vectors that contain the words of these messages: their own, and those of the next
# document. The background job embeds both again.
RESET_VECTORS = """
WITH touched AS (
    SELECT DISTINCT d.id
    FROM search_documents told JOIN search_documents d
         ON d.owner_id = told.owner_id
        AND d.position IN (told.position, told.position + 1)
    WHERE told.message_id = ANY(%(ids)s) AND told.owner_id = %(owner)s
), gone AS (
    DELETE FROM document_embeddings e USING touched WHERE e.document_id = touched.id
)
UPDATE search_documents d SET model_id = NULL FROM touched WHERE d.id = touched.id
"""


class SearchIndexRepository(Repository):
    """Repository that fills the index; every method blocks (see ``PgClient.run``)."""

    def list_unindexed(self, conversation_id: UUID, limit: int = 200) -> list[UnindexedMessage]:
        """Return the oldest messages of a conversation that are not indexed yet."""
        params = {"conversation_id": conversation_id, "limit": limit}
        return self._all(UnindexedMessage, SELECT_UNINDEXED, params)

    def add_messages(
        self,
        owner: Owner,
        conversation_id: UUID,
        documents: Sequence[NewDocument],
        message_ids: Sequence[int],
    ) -> int:
        """Index messages of one conversation, each once; return how many were indexed.

        A message that was deleted, hidden or indexed by another worker meanwhile is left out.

        Args:
            owner: Whose conversation it is.
            conversation_id: The conversation.
            documents: The documents to index.
            message_ids: The messages to mark as indexed; some may have no document.
        """

        def work(transaction: Transaction) -> int:
            waiting = take_unindexed(transaction, owner, conversation_id, message_ids)
            new = [document for document in documents if document.source_id in waiting]
            transaction.execute(DELETE_EDITED, owner, ids=sorted(waiting))
            if new:
                add_documents(transaction, owner, new)
            return len(new)

        return self._client.in_transaction(work)


def add_documents(
    transaction: Transaction, owner: Owner, documents: Sequence[NewDocument]
) -> None:
    """Index documents within the caller's transaction.

    Args:
        transaction: The caller's transaction.
        owner: Owner of the documents.
        documents: The documents, in the order in which they were said.
    """
    steps = (1 if document.is_continued else POSITION_GAP for document in documents)
    offsets = list(accumulate(steps))
    counted = [document for document in documents if document.speaker != "assistant"]
    [(first,)] = transaction.fetch_all(
        RESERVE_POSITIONS,
        owner,
        positions=offsets[-1],
        documents=len(counted),
        terms=sum(len(document.terms) for document in counted),
    )
    positions = [first + offset - 1 for offset in offsets]
    records = [
        {
            "position": position,
            "kind": document.kind,
            f"{document.kind}_id": document.source_id,
            "speaker": document.speaker,
            "said_at": document.said_at.isoformat(),
            "length": len(document.terms),
            "asks": document.asks,
        }
        for position, document in zip(positions, documents, strict=True)
    ]
    rows = transaction.fetch_all(INSERT_DOCUMENTS, owner, documents=json.dumps(records))
    terms = [document.terms for document in documents]
    _insert_postings(transaction, owner, dict(zip(positions, terms, strict=True)))
    facts = [document.source_id for document in documents if document.kind == "memory"]
    messages = [document.source_id for document in documents if document.kind == "message"]
    add_told(transaction, owner, facts=facts, messages=messages)
    ids = {position: int(id_) for id_, position in rows}
    for position, document in zip(positions, documents, strict=True):
        if document.vector is not None and document.model_id is not None:
            vectors = {(ids[position], 0): document.vector}
            EmbeddingRepository(transaction).add_vectors(document.model_id, vectors)


def reword(transaction: Transaction, owner: Owner, message_id: int, terms: Sequence[str]) -> None:
    """Index a message with other terms at its position; do nothing if it is not indexed."""
    transaction.execute(DELETE_POSTINGS, owner, message_id=message_id)
    params = {"message_id": message_id, "length": len(terms)}
    for (position,) in transaction.fetch_all(UPDATE_LENGTH, owner, **params):
        _insert_postings(transaction, owner, {position: terms})
    add_told(transaction, owner, messages=[message_id])


def add_told(
    transaction: Transaction,
    owner: Owner,
    *,
    facts: Sequence[int] = (),
    messages: Sequence[int] = (),
) -> None:
    """Have messages found by the words of the facts that they told.

    Args:
        transaction: The caller's transaction.
        owner: Owner of the documents.
        facts: Ids of facts, for all messages that told them.
        messages: Ids of messages, for all facts that they told.
    """
    transaction.execute(INSERT_TOLD, owner, facts=list(facts), messages=list(messages))


def reset_vectors(transaction: Transaction, owner: Owner, message_ids: Sequence[int]) -> None:
    """Have the vectors of these messages, and of the document after each, computed again."""
    transaction.execute(RESET_VECTORS, owner, ids=list(message_ids))


def _insert_postings(
    transaction: Transaction, owner: Owner, terms: Mapping[int, Sequence[str]]
) -> None:
    """Insert the terms of documents, by the documents' positions."""
    postings = [
        (term, position, min(count, 32767))
        for position, occurring in terms.items()
        for term, count in Counter(occurring).items()
    ]
    if postings:
        words, positions, counts = map(list, zip(*postings, strict=True))
        columns = {"terms": words, "term_positions": positions, "frequencies": counts}
        transaction.execute(INSERT_POSTINGS, owner, **columns)
