"""``python -m benchmarks.retrieval.latency``: how long the search takes in a big database.

A million documents of a thousand users, and one user with ten thousand of them. The documents of
all users arrive in turn, as they do in life, so that nobody's rows stand together in the tables.
Vectors and words are random: what is measured is time, not quality.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg2

from benchmarks.world import measure_embeddings, percentile
from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core
from src.memory.embedding_space import as_literal
from src.memory.queries import Query
from src.memory.retrieval_repo import RetrievalRepository, SearchRequest
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate

FIRST_USER = 2**40
BIG_USER = FIRST_USER - 1
VECTORS = 4000  # different ones; each stands in many rows
QUESTIONS = 400
WARM = 20  # of each kind before them: a connection plans the statement in its first searches

# Conversations, messages, documents, words (9 of 20,000, few of them frequent) and vectors.
FILL = """
INSERT INTO conversations (owner_id, telegram_user_id)
SELECT add_owner(person, 0), person
FROM (SELECT {big} UNION ALL
      SELECT {first} + n FROM generate_series(0, {users} - 1) n) AS people (person);

CREATE TEMP TABLE arriving AS
SELECT row_number() OVER (ORDER BY place, telegram_user_id) AS id, *
FROM (
    SELECT c.id AS conversation_id, c.telegram_user_id, n AS position,
           n::float / CASE WHEN c.telegram_user_id = {big} THEN {of_big} ELSE {each} END AS place
    FROM conversations c,
         generate_series(1, CASE WHEN c.telegram_user_id = {big} THEN {of_big} ELSE {each} END) n
) AS everything;

INSERT INTO messages (conversation_id, role, content, position, said_at)
SELECT conversation_id, 'user', 'сообщение номер ' || id || ' о том, что было сегодня и вчера',
       position, now() - (1 - place) * interval '300 days'
FROM arriving ORDER BY id;

INSERT INTO search_documents (owner_id, position, kind, message_id, speaker, said_at, length,
                              model_id)
SELECT c.owner_id, m.position, 'message', m.id, 'user', m.said_at, 9, {model}
FROM messages m JOIN conversations c ON c.id = m.conversation_id ORDER BY m.id;

INSERT INTO document_embeddings (owner_id, model_id, position, document_id, embedding)
SELECT d.owner_id, {model}, d.position, d.id, v.embedding
FROM search_documents d JOIN sample_vectors v ON v.id = d.id % {vectors} ORDER BY d.id;

INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, document_id)
SELECT d.owner_id, 'w' || w, d.position, 1, 9, true, d.id
FROM search_documents d,
     LATERAL (SELECT DISTINCT floor(20000 * random() ^ 3)::int AS w
              FROM generate_series(1, 9) WHERE d.id > 0) AS words
ORDER BY d.id;

INSERT INTO search_owners (owner_id, next_position, documents, terms)
SELECT owner_id, count(*), count(*), 9 * count(*) FROM search_documents GROUP BY 1;
"""


def fill(dsn: str, *, users: int, each: int, of_big: int) -> None:
    """Fill an empty database; indexes grow with the rows, as they do in life."""
    migrate(dsn)
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(VECTORS, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; SET work_mem = '256MB'")
        model = asyncio.run(measure_embeddings(dsn)).id
        cursor.execute("CREATE TABLE sample_vectors (id int PRIMARY KEY, embedding halfvec)")
        for number, vector in enumerate(vectors):
            cursor.execute(
                "INSERT INTO sample_vectors VALUES (%s, %s)", (number, as_literal(vector))
            )
        statements = FILL.format(
            big=BIG_USER, first=FIRST_USER, users=users, each=each, of_big=of_big,
            model=model, vectors=VECTORS,
        ).split(";\n")  # fmt: skip
        for statement in statements:
            if statement.strip():
                cursor.execute(statement)
        cursor.execute("VACUUM ANALYZE")
    connection.close()


def measure_search(dsn: str) -> dict[str, float]:
    """Milliseconds of the search statement, for the big user and for ordinary ones."""
    client = PgClient(dsn)
    client.open()
    repository = RetrievalRepository(client)
    [[model]] = client.fetch_all("SELECT id FROM embedding_models")
    picker = random.Random(2)
    rows = client.fetch_all("SELECT embedding::text FROM sample_vectors LIMIT 500")
    vectors = [row[0] for row in rows]
    figures: dict[str, float] = {}
    for name, users in (("10000", [BIG_USER]), ("1000", range(FIRST_USER, FIRST_USER + 900))):
        times = []
        for _ in range(WARM + QUESTIONS):
            terms = [f"w{int(20000 * picker.random() ** 3)}" for _ in range(5)]
            request = SearchRequest(
                Owner(picker.choice(users)),
                [[term] for term in terms],
                terms,
                picker.choice(vectors),
                model,
            )
            start = time.perf_counter()
            repository.search(request)
            times.append(1000 * (time.perf_counter() - start))
        del times[:WARM]
        figures[f"search_of_{name}_p50_ms"] = percentile(times, 0.5)
        figures[f"search_of_{name}_p99_ms"] = percentile(times, 0.99)
    client.close()
    return figures


async def measure_with_embedding(dsn: str) -> dict[str, float]:
    """Milliseconds of a whole search, the local embedding of the question included."""
    client = PgClient(dsn)
    client.open()
    core = Core(Settings(), client)
    await core.warm_up()
    questions = [f"Что я говорил о встрече номер {n}?" for n in range(100)]
    times = []
    for question in questions:
        start = time.perf_counter()
        await core.memory.retriever.search(Query(Owner(BIG_USER), question, datetime.now(UTC)))
        times.append(1000 * (time.perf_counter() - start))
    client.close()
    return {
        "retrieval_with_local_embedding_p50_ms": percentile(times, 0.5),
        "retrieval_with_local_embedding_p99_ms": percentile(times, 0.99),
    }


def measure_latency(*, scale: int = 1) -> dict[str, float]:
    """Fill a database of its own and measure; ``scale`` divides everything."""
    with tempfile.TemporaryDirectory(prefix="pomni-latency-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            fill(dsn, users=1000 // scale, each=990, of_big=10_000)
            return measure_search(dsn) | asyncio.run(measure_with_embedding(dsn))
        finally:
            server.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval.latency")
    parser.add_argument("--scale", type=int, default=1, help="divide the thousand users by this")
    for name, value in measure_latency(scale=parser.parse_args().scale).items():
        print(f"{name:44}{value:9.2f}")


if __name__ == "__main__":
    main()
