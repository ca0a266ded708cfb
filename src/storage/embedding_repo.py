"""Embedding models, and the vectors of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from src.errors import StorageError
from src.storage.pg_client import Transaction
from src.storage.pg_connection import PATIENT
from src.storage.repository import Repository

Form = Literal["statement", "question"]
Means = Mapping[tuple[str, Form], tuple[float, ...]]


@dataclass(frozen=True)
class EmbeddingModel:
    """What is known of an embedding model.

    Attributes:
        id: Its number in ``embedding_models``.
        name: As in ``EMBEDDING_MODEL``.
        dimensions: Length of its vectors.
        means: Of generic texts, by language and form; vectors are centred by them.
        unrelated_median: Centred cosine of two generic texts, in the middle.
        unrelated_high: What 95 of 100 such pairs stay below.
    """

    id: int
    name: str
    dimensions: int
    means: Means
    unrelated_median: float
    unrelated_high: float


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


# A model by its name.
SELECT_MODEL = """
SELECT id, name, dimensions, unrelated_median, unrelated_high
FROM embedding_models WHERE name = %(name)s
"""

# What is subtracted from its vectors.
SELECT_MEANS = """
SELECT language, form, mean FROM embedding_means WHERE model_id = %(model)s
"""

# A model that this database meets for the first time; of two processes one is first.
INSERT_MODEL = """
INSERT INTO embedding_models (name, dimensions, unrelated_median, unrelated_high)
VALUES (%(name)s, %(dimensions)s, %(unrelated_median)s, %(unrelated_high)s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""

# One of its means.
INSERT_MEAN = """
INSERT INTO embedding_means (model_id, language, form, mean)
VALUES (%(model)s, %(language)s, %(form)s, %(mean)s::real[])
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
         SELECT id, row_number() OVER (PARTITION BY telegram_user_id ORDER BY id DESC) AS nth
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
LEFT JOIN search_documents n ON n.telegram_user_id = d.telegram_user_id
     AND n.thread_id = d.thread_id AND n.position = d.position - 1 AND d.kind = 'message'
LEFT JOIN messages b ON b.id = n.message_id
ORDER BY d.id DESC
"""

# Vectors of one model; a document that was deleted meanwhile is passed over. What failed before
# has not failed any more.
INSERT_VECTORS = """
WITH added AS (
    INSERT INTO document_embeddings (telegram_user_id, thread_id, model_id, position, document_id,
                                     embedding)
    SELECT d.telegram_user_id, d.thread_id, %(model)s, d.position, d.id, v.vector::halfvec
    FROM unnest(%(documents)s::bigint[], %(vectors)s::text[]) AS v (document, vector)
    JOIN search_documents d ON d.id = v.document
    ORDER BY d.id FOR UPDATE OF d
    ON CONFLICT (document_id, model_id) DO UPDATE SET embedding = EXCLUDED.embedding
    RETURNING document_id
), mended AS (
    DELETE FROM embedding_failures f USING added
    WHERE f.document_id = added.document_id AND f.model_id = %(model)s
)
UPDATE search_documents SET model_id = %(model)s FROM added WHERE id = added.document_id
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
SELECT_PROGRESS = "SELECT embedded, documents FROM embedding_models WHERE name = %(name)s"

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
        row = self._client.fetch_one(SELECT_MODEL, {"name": name})
        if row is None:
            return None
        means = {
            (language, form): tuple(mean)
            for language, form, mean in self._client.fetch_all(SELECT_MEANS, {"model": row[0]})
        }
        number, name, dimensions, unrelated_median, unrelated_high = row
        return EmbeddingModel(number, name, dimensions, means, unrelated_median, unrelated_high)

    def add_model(
        self, name: str, means: Means, *, unrelated_median: float, unrelated_high: float
    ) -> EmbeddingModel:
        """Store what was measured of a model; whoever came first is right."""
        measured = {
            "name": name, "dimensions": len(next(iter(means.values()))),
            "unrelated_median": unrelated_median, "unrelated_high": unrelated_high,
        }  # fmt: skip

        def add(transaction: Transaction) -> None:
            row = transaction.fetch_one(INSERT_MODEL, measured)
            if row is None:
                return
            for (language, form), mean in means.items():
                transaction.execute(
                    INSERT_MEAN,
                    {"model": row[0], "language": language, "form": form, "mean": list(mean)},
                )

        self._client.in_transaction(add, limits=PATIENT)
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
        parameters = {"model": model_id, "limit": limit, "only_embedded": only_embedded}
        rows = self._client.fetch_all(SELECT_UNEMBEDDED, parameters, limits=PATIENT)
        return [UnembeddedDocument(*row) for row in rows]

    def add_vectors(self, model_id: int, vectors: dict[int, str]) -> None:
        """Store vectors (``[...]``) by document id."""
        self._client.execute(INSERT_VECTORS, vector_columns(model_id, vectors))

    def add_failure(self, model_id: int, document_id: int, *, is_hopeless: bool) -> None:
        """The model did not take this document: try it later, or when hopeless never again."""
        failure = {"model": model_id, "document": document_id, "is_hopeless": is_hopeless}
        self._client.execute(UPSERT_FAILURE, failure)

    def count_embedded(self, model_id: int) -> tuple[int, int]:
        """How many documents have a vector of the model, and how many there are."""
        row = self._client.fetch_one(COUNT_EMBEDDED, {"model": model_id}, limits=PATIENT)
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def find_serving(self, wanted: str) -> str:
        """The name of the model whose vectors are all there: the wanted one, or the one before."""
        row = self._client.fetch_one(SELECT_SERVING, {"wanted": wanted}, limits=PATIENT)
        return str(row[0]) if row else wanted

    def note_progress(self, model_id: int, done: int, total: int) -> None:
        """So many of all documents have a vector of the model now."""
        self._client.execute(NOTE_PROGRESS, {"model": model_id, "done": done, "total": total})

    def find_progress(self, name: str) -> tuple[int, int]:
        """How many of how many documents had a vector of a model when that was noted last."""
        row = self._client.fetch_one(SELECT_PROGRESS, {"name": name})
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def delete_other_models(self, model_id: int) -> int:
        """Delete models that no document uses any more, with their vectors."""
        return self._client.execute(DELETE_OTHER_MODELS, {"model": model_id}, limits=PATIENT)


def vector_columns(model_id: int, vectors: Mapping[int, str]) -> dict[str, object]:
    """The parameters of ``INSERT_VECTORS``."""
    return {"model": model_id, "documents": [*vectors], "vectors": [*vectors.values()]}
