"""The search index: embedding models, vectors, and its documents: messages, facts, summaries."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from src.base.errors import StorageError
from src.base.owners import Owner
from src.pg.client import PreparedStatement, Repository, Transaction
from src.pg.connection import PATIENT
from src.pg.locks import take_unindexed

Form = Literal["statement", "question"]
Means = Mapping[tuple[str, Form], tuple[float, ...]]
# Vectors (``[...]``) by the document's id and the character at which the passage begins.
Vectors = Mapping[tuple[int, int], str]


@dataclass(frozen=True)
class Scale:
    """What centres the vectors of a model, and gives their cosines a meaning.

    Attributes:
        means: Of generic texts, by language and form; vectors are centred by them.
        unrelated_median: Centred cosine of two generic texts, in the middle.
        unrelated_high: What 95 of 100 such pairs stay below.
    """

    means: Means
    unrelated_median: float
    unrelated_high: float

    @classmethod
    def of(cls, means: Mapping[str, Sequence[float]], *columns: Any) -> Self:
        """As it is stored: the means by ``language form``, then the other columns."""
        by_form: Any = {tuple(key.split()): tuple(mean) for key, mean in means.items()}
        return cls(by_form, *columns)

    def columns(self) -> dict[str, Any]:
        """As it is stored; the means with six digits, which ``real`` has."""
        means = {" ".join(key): [round(v, 6) for v in mean] for key, mean in self.means.items()}
        return {**vars(self), "means": means}


@dataclass(frozen=True)
class EmbeddingModel(Scale):
    """What is known of an embedding model.

    Attributes:
        id: Its number in ``embedding_models``.
        name: As in ``EMBEDDING_MODEL``.
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
        text: What it says.
        speaker: Who said it.
        before: What was said right before it in the same talk; empty when nothing was.
        before_speaker: Who said that.
    """

    id: int
    text: str
    speaker: str
    before: str
    before_speaker: str


# A model by its name, with what is subtracted from its vectors.
SELECT_MODEL = """
SELECT (SELECT jsonb_object_agg(language || ' ' || form, mean) FROM embedding_means
        WHERE model_id = m.id),
       unrelated_median, unrelated_high, id, name, dimensions
FROM embedding_models m WHERE name = %(name)s
"""

# A model that this database meets for the first time; of two processes one is first.
INSERT_MODEL = """
WITH model AS (
    INSERT INTO embedding_models (name, dimensions, unrelated_median, unrelated_high)
    VALUES (%(name)s, %(dimensions)s, %(unrelated_median)s, %(unrelated_high)s)
    ON CONFLICT (name) DO NOTHING RETURNING id
)
INSERT INTO embedding_means (model_id, language, form, mean)
SELECT id, split_part(key, ' ', 1), split_part(key, ' ', 2),
       ARRAY(SELECT jsonb_array_elements_text(value)::real)
FROM model, jsonb_each(%(means)s::jsonb)
"""

# The model that documents shall have from now on.
CHOOSE_MODEL = "UPDATE embedding_models SET created_at = now() WHERE id = %(model)s"

# Documents without a vector, or with one of a model that was chosen earlier; newest first, since a
# person asks about today sooner than about last year. Owners take turns: one's flood does not keep
# the others' documents from being found. A bot that still runs with the model before leaves alone
# what ``reembed`` has done, or they would undo each other's work for ever. Those that the model
# did not take wait for their time.
SELECT_UNEMBEDDED = """
SELECT d.id,
       coalesce(message_text(m.content), f.text, s.content),
       d.speaker,
       coalesce(message_text(b.content), ''),
       coalesce(n.speaker, '')
FROM (
    (SELECT id FROM (
         SELECT id, row_number() OVER (PARTITION BY owner_id ORDER BY id DESC) AS nth
         FROM search_documents d
         WHERE model_id IS NULL AND NOT %(only_embedded)s AND NOT EXISTS (
             SELECT 1 FROM embedding_failures f
             WHERE f.document_id = d.id AND f.model_id = %(model)s AND f.retry_at > now())
     ) AS new
     ORDER BY nth, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT d.id FROM embedding_models old, LATERAL (
         SELECT id FROM search_documents d
         WHERE model_id = old.id AND NOT EXISTS (
             SELECT 1 FROM embedding_failures f
             WHERE f.document_id = d.id AND f.model_id = %(model)s AND f.retry_at > now())
         ORDER BY id DESC LIMIT %(limit)s
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

# Vectors of one model, for documents that are done with: also those that get none. One that was
# deleted meanwhile is passed over. What failed before has not failed any more.
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
), mended AS (
    DELETE FROM embedding_failures f USING done
    WHERE f.document_id = done.id AND f.model_id = %(model)s
)
UPDATE search_documents d SET model_id = %(model)s FROM done WHERE d.id = done.id
"""

# A model did not take a document: it is tried again after a minute, and then after twice as long
# as the last time, at most a day; or never by this model. A deleted document is passed over.
UPSERT_FAILURE = """
INSERT INTO embedding_failures AS f (document_id, model_id, failures, retry_at)
SELECT id, %(model)s, 1,
       CASE WHEN %(is_hopeless)s THEN 'infinity' ELSE now() + interval '1 minute' END
FROM search_documents WHERE id = %(document)s FOR KEY SHARE
ON CONFLICT (document_id, model_id) DO UPDATE
SET failures = f.failures + 1,
    retry_at = CASE WHEN %(is_hopeless)s THEN 'infinity'
                    ELSE now() + least(interval '1 minute' * 2 ^ least(f.failures, 20),
                                       interval '1 day') END
"""

# How many documents have a vector of the model, and how many there are.
COUNT_EMBEDDED = """
SELECT count(*) FILTER (WHERE model_id = %(model)s), count(*) FROM search_documents
"""

# The model that serves: the wanted one when its vectors are all there, else the one with the most.
# What is said meanwhile has a vector of the model before, so a hundredth may be missing, and 64
# documents at most; those get theirs in a moment. What it does not take counts as done.
SELECT_SERVING = """
WITH missing AS (
    SELECT d.id
    FROM embedding_models old, LATERAL (
        SELECT id FROM search_documents d
        WHERE d.model_id = old.id AND NOT EXISTS (
            SELECT 1 FROM embedding_failures f JOIN embedding_models w ON w.id = f.model_id
            WHERE f.document_id = d.id AND w.name = %(wanted)s)
        LIMIT 65
    ) AS d
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

NOTE_PROGRESS = """
UPDATE embedding_models SET embedded = %(done)s, documents = %(total)s WHERE id = %(model)s
"""
SELECT_EMBEDDED = "SELECT embedded, documents FROM embedding_models WHERE name = %(name)s"

# Vectors that nobody compares with any more. A model that was chosen just now has no documents
# yet and is kept.
DELETE_OTHER_MODELS = """
DELETE FROM embedding_models m
WHERE m.id <> %(model)s AND m.created_at < now() - interval '1 hour'
  AND NOT EXISTS (SELECT 1 FROM search_documents WHERE model_id = m.id)
"""


class EmbeddingRepository(Repository):
    """Stores embedding models and vectors; every method blocks (see ``PgClient.run``)."""

    def find_model(self, name: str) -> EmbeddingModel | None:
        """The model of this name, or None when this database has not met it."""
        return self._first(EmbeddingModel.of, SELECT_MODEL, name=name)

    def add_model(self, name: str, scale: Scale) -> EmbeddingModel:
        """Store what was measured of a model; whoever came first is right."""
        columns = scale.columns()
        dimensions = len(next(iter(scale.means.values())))
        means = json.dumps(columns.pop("means"))
        self._client.execute(
            INSERT_MODEL, columns, name=name, dimensions=dimensions, means=means, limits=PATIENT
        )
        model = self.find_model(name)
        if model is None:
            raise StorageError(f"the embedding model {name} was deleted meanwhile")
        return model

    def choose_model(self, model_id: int) -> None:
        """Documents of every other model shall be embedded with this one."""
        self._client.execute(CHOOSE_MODEL, {"model": model_id})

    def list_unembedded(
        self, model_id: int, limit: int = 64, *, only_embedded: bool = False
    ) -> list[UnembeddedDocument]:
        """Documents without a vector, or with one of a model chosen earlier; newest first.

        With ``only_embedded``, those without any are left out.
        """
        wanted = {"model": model_id, "limit": limit, "only_embedded": only_embedded}
        return self._all(UnembeddedDocument, SELECT_UNEMBEDDED, wanted, limits=PATIENT)

    def add_vectors(self, model_id: int, vectors: Vectors, without: Sequence[int] = ()) -> None:
        """Store vectors; the documents ``without`` any are done with, too."""
        documents = [id_ for id_, _ in vectors]
        self._client.execute(
            INSERT_VECTORS, model=model_id, done=[*documents, *without], documents=documents,
            starts=[start for _, start in vectors], vectors=[*vectors.values()],
        )  # fmt: skip

    def add_failure(self, model_id: int, document_id: int, *, is_hopeless: bool) -> None:
        """The model did not take this document: try it later, or when hopeless never again."""
        failure = {"model": model_id, "document": document_id, "is_hopeless": is_hopeless}
        self._client.execute(UPSERT_FAILURE, failure)

    def count_embedded(self, model_id: int) -> tuple[int, int]:
        """How many documents have a vector of the model, and how many there are."""
        [(done, total)] = self._client.fetch_all(COUNT_EMBEDDED, model=model_id, limits=PATIENT)
        return done, total

    def find_serving(self, wanted: str) -> str:
        """The name of the model whose vectors are all there: the wanted one, or the one before."""
        return self._first(str, SELECT_SERVING, wanted=wanted, limits=PATIENT) or wanted

    def note_progress(self, model_id: int, done: int, total: int) -> None:
        """So many of all documents have a vector of the model now."""
        self._client.execute(NOTE_PROGRESS, {"model": model_id, "done": done, "total": total})

    def find_progress(self, name: str) -> tuple[int, int]:
        """How many of how many documents had a vector of a model when that was noted last."""
        found = self._client.fetch_one(SELECT_EMBEDDED, name=name)
        return (found[0], found[1]) if found else (0, 0)

    def delete_other_models(self, model_id: int) -> int:
        """Delete models that no document uses any more, with their vectors."""
        return self._client.execute(DELETE_OTHER_MODELS, {"model": model_id}, limits=PATIENT)


Kind = Literal["message", "memory", "summary"]
UNNAMED_SPEAKERS = frozenset({"user", "assistant"})
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
        model_id: The model of that; without one, a model of which it gets none.
    """

    kind: Kind
    source_id: int
    speaker: str
    said_at: datetime
    terms: Sequence[str]
    is_continued: bool = False
    vector: str | None = None
    model_id: int | None = None


@dataclass(frozen=True)
class UnindexedMessage:
    """A stored message that the search does not know yet; ``speaker`` is a name, if it has one.

    ``said_at`` is None of one that is gone. ``last_said_at`` is when the last one was said that
    the search does know, if that still is the newest.
    """

    id: int
    role: str
    text: str
    said_at: datetime | None
    speaker: str | None
    last_said_at: datetime | None


# One owner's numbers; the row is locked until the transaction ends, so that two workers give out
# no position twice.
RESERVE_POSITIONS = PreparedStatement(
    "reserve_positions",
    """
INSERT INTO search_owners AS o (owner_id, next_position, documents, terms)
VALUES (%(owner)s, %(positions)s, %(documents)s, %(terms)s)
ON CONFLICT (owner_id) DO UPDATE
SET next_position = o.next_position + EXCLUDED.next_position,
    documents = o.documents + EXCLUDED.documents, terms = o.terms + EXCLUDED.terms
RETURNING next_position - %(positions)s
""",
)

# The documents; one that is there already (an edited message) was deleted before.
INSERT_DOCUMENTS = PreparedStatement(
    "insert_documents",
    """
INSERT INTO search_documents (owner_id, position, kind, message_id, memory_id, summary_id, speaker,
                              said_at, length, model_id)
SELECT %(owner)s, d.position, d.kind, d.message_id, d.memory_id, d.summary_id, d.speaker,
       d.said_at, d.length,
       (SELECT id FROM embedding_models WHERE id = d.model_id)  -- unless it was deleted
FROM jsonb_to_recordset(%(documents)s::jsonb)
     AS d (position int, kind text, message_id bigint, memory_id bigint, summary_id bigint,
           speaker text, said_at timestamptz, length int, model_id smallint)
RETURNING id, position
""",
)

# Which documents hold which words, and how often.
INSERT_POSTINGS = PreparedStatement(
    "insert_postings",
    """
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id)
SELECT %(owner)s, p.term, p.position, p.frequency, d.length,
       d.speaker NOT IN ('user', 'assistant'), d.speaker = 'assistant', d.id
FROM unnest(%(terms)s::text[], %(term_positions)s::int[], %(frequencies)s::int[])
     AS p (term, position, frequency)
JOIN search_documents d ON d.owner_id = %(owner)s
     AND d.position = p.position
""",
)

# A conversation's messages that the search does not know yet, also those that are gone or hidden
# (``take_unindexed`` sorts them out); a file is found by its name as well.
SELECT_UNINDEXED = PreparedStatement(
    "select_unindexed",
    """
SELECT w.message_id, coalesce(m.role, ''),
       concat_ws(E'\\n', CASE WHEN m.provenance = 'file' THEN m.origin END,
                 message_text(m.content)),
       m.said_at, coalesce(m.origin, m.speaker), last.said_at
FROM unindexed_messages w LEFT JOIN messages m
     ON m.id = w.message_id AND m.conversation_id = w.conversation_id
LEFT JOIN (
    SELECT d.said_at,
           d.position = (SELECT next_position - 1 FROM search_owners o
                         WHERE o.owner_id = d.owner_id) AS is_newest
    FROM search_documents d
    JOIN messages i ON i.id = d.message_id AND i.conversation_id = %(conversation_id)s
    WHERE d.owner_id = (SELECT owner_id FROM conversations WHERE id = %(conversation_id)s)
    ORDER BY d.position DESC LIMIT 1
) AS last ON last.is_newest
WHERE w.conversation_id = %(conversation_id)s
ORDER BY w.message_id LIMIT %(limit)s
""",
)

# An edited message leaves the index before it comes back with its new words.
DELETE_EDITED = PreparedStatement(
    "delete_edited",
    """
DELETE FROM search_documents
WHERE owner_id = %(owner)s AND message_id = ANY(%(ids)s)
""",
)

# A document whose message has other words now: it keeps its place.
DELETE_POSTINGS = """
DELETE FROM search_postings p USING search_documents d
WHERE d.message_id = %(message_id)s AND p.document_id = d.id AND d.owner_id = %(owner)s
"""
UPDATE_LENGTH = """
UPDATE search_documents SET length = %(length)s
WHERE message_id = %(message_id)s AND owner_id = %(owner)s
RETURNING position
"""

# Vectors that know the words of these messages: their own, and those of what was said right after
# them; the background makes them anew.
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
    """Fills the index; every method blocks (see ``PgClient.run``)."""

    def list_unindexed(self, conversation_id: UUID, limit: int = 200) -> list[UnindexedMessage]:
        """The oldest messages of a conversation that the search does not know."""
        wanted = {"conversation_id": conversation_id, "limit": limit}
        return self._all(UnindexedMessage, SELECT_UNINDEXED, wanted)

    def add_messages(
        self,
        owner: Owner,
        conversation_id: UUID,
        documents: Sequence[NewDocument],
        message_ids: Sequence[int],
    ) -> int:
        """Put messages of one conversation into the index, each once; returns how many went in.

        A message that was deleted, hidden or indexed by another worker meanwhile is left out.

        Args:
            owner: Whose conversation it is.
            conversation_id: The conversation.
            documents: What goes into the index.
            message_ids: The messages that are dealt with; some may have no document.
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
    """Put documents into the index within a transaction of the caller's.

    Args:
        transaction: The caller's.
        owner: Whose they are.
        documents: In the order in which they were said.
    """
    offsets = _offsets(documents)
    positions = offsets[-1] + 1
    counted = [document for document in documents if document.speaker != "assistant"]
    [(first,)] = transaction.fetch_all(
        RESERVE_POSITIONS, owner, positions=positions, documents=len(counted),
        terms=sum(len(document.terms) for document in counted),
    )  # fmt: skip
    places = [first + offset for offset in offsets]
    placed = [
        {
            "position": place, "kind": one.kind, f"{one.kind}_id": one.source_id,
            "speaker": one.speaker, "said_at": one.said_at.isoformat(), "length": len(one.terms),
            "model_id": one.model_id,
        }
        for place, one in zip(places, documents, strict=True)
    ]  # fmt: skip
    rows = transaction.fetch_all(INSERT_DOCUMENTS, owner, documents=json.dumps(placed))
    postings = [
        (term, place, count)
        for document, place in zip(documents, places, strict=True)
        for term, count in Counter(document.terms).items()
    ]
    _insert_postings(transaction, owner, postings)
    ids = {position: int(id_) for id_, position in rows}
    for place, document in zip(places, documents, strict=True):
        if document.vector is not None and document.model_id is not None:
            vectors = {(ids[place], 0): document.vector}
            EmbeddingRepository(transaction).add_vectors(document.model_id, vectors)


def reword(transaction: Transaction, owner: Owner, message_id: int, terms: Sequence[str]) -> None:
    """Index a message by other words, where it stands; nothing when it is not in the index."""
    transaction.execute(DELETE_POSTINGS, owner, message_id=message_id)
    changed = {"message_id": message_id, "length": len(terms)}
    for (place,) in transaction.fetch_all(UPDATE_LENGTH, owner, **changed):
        postings = [(term, place, count) for term, count in Counter(terms).items()]
        _insert_postings(transaction, owner, postings)


def reset_vectors(transaction: Transaction, owner: Owner, message_ids: Sequence[int]) -> None:
    """Have the vectors of these messages, and of what follows each, made anew."""
    transaction.execute(RESET_VECTORS, owner, ids=list(message_ids))


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
        transaction.execute(INSERT_POSTINGS, owner, **columns)
