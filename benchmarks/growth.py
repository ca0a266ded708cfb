"""Growth of the bot's costs with the data: turns, searches, nightly jobs, bytes per message.

    python -m benchmarks.growth                   one owner of 100 to 1,000,000 messages
    python -m benchmarks.growth 100 10000         of these numbers of messages

Each number gets a new database, with 10,000 other owners of ten messages each. Everything is
indexed and embedded, as in real use. The turns run in this process, with a model that answers at
once, so only our own work and the database's are measured. Prints tables for docs/measured.md.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.retrieval.latency import BIG_USER, fill
from benchmarks.world import percentile
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core
from src.memory.consolidation import ConsolidationService
from src.memory.memory_repo import MemoryRepository
from src.memory.purge_repo import PurgeRepository
from src.memory.queries import Query
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.pg.records import RecordsRepository
from src.talk.turn_state import IncomingMessage, Turn
from tests.fakes.openai_server import FakeOpenAI

SIZES = (100, 10_000, 100_000, 1_000_000)
OWNERS, EACH = 10_000, 10
TURNS, WARM = 60, 10
ZONE = "Europe/Moscow"
QUESTIONS = ("Что я говорил о встрече номер {n}?", "Где я оставил ключи, {n}-й раз спрашиваю?")

# Select the bytes of each table and index.
SELECT_SIZES = """
SELECT c.relname, i.indrelid IS NOT NULL AS is_index, pg_relation_size(c.oid) AS bytes
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
  AND coalesce(i.indrelid, c.oid) IN ('messages'::regclass, 'search_documents'::regclass,
                                      'search_postings'::regclass, 'document_embeddings'::regclass)
  AND pg_relation_size(c.oid) > 100000
ORDER BY 3 DESC
"""


def main() -> None:
    """Measure each size and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="MESSAGES")
    sizes: list[int] = parser.parse_args().sizes
    grown = [measure(size) for size in sizes]
    columns = " | ".join(f"{size:,}" for size in sizes)
    print(f"| messages of one owner | {columns} |\n|---|{'---|' * len(sizes)}")
    for name in grown[0]:
        print(f"| {name} | {' | '.join(figures[name] for figures in grown)} |")


def measure(size: int) -> dict[str, str]:
    """Return the figures for one owner with ``size`` messages; print the bytes per message."""
    with tempfile.TemporaryDirectory(prefix="pomni-growth-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            fill(dsn, users=OWNERS, each=EACH, of_big=size)
            client = PgClient(dsn)
            client.open()
            client.execute("DROP TABLE sample_vectors")
            show_bytes(client, size + OWNERS * EACH)
            figures = asyncio.run(measure_owner(client))
            client.close()
        finally:
            server.stop()
    return figures


def show_bytes(client: PgClient, messages: int) -> None:
    """Print the bytes per message of each table and index."""
    print(f"\nOf {messages:,} messages:\n\n| bytes a message | table | index |\n|---|---|---|")
    total = 0
    for name, is_index, size in client.fetch_all(SELECT_SIZES):
        total += size
        print(f"| {name} | {'' if is_index else size // messages}"
              f" | {size // messages if is_index else ''} |")  # fmt: skip
    print(f"| in all | {total // messages} | |\n")


async def measure_owner(client: PgClient) -> dict[str, str]:
    """Measure turns and searches of that owner, and the nightly jobs."""
    owner, model = Owner(BIG_USER), FakeOpenAI(keep_requests=False)
    await model.start()
    settings = Settings(llm_model="openai:bench", openai_base_url=model.url, openai_api_key="none")
    core = Core(settings, client)
    await core.warm_up()

    async def turn(number: int) -> None:
        text = QUESTIONS[number % 2].format(n=number)
        caller = Caller(owner, Preferences("ru", ZONE), datetime.now(UTC))
        await core.agent.run_turn(Turn(IncomingMessage(caller, text)))

    async def search(number: int) -> None:
        question = QUESTIONS[number % 2].format(n=number)
        await core.memory.retriever.search(Query(owner, question, datetime.now(UTC)))

    turns, statements = await times_of(turn, client)
    searches, _ = await times_of(search, client)
    records = RecordsRepository(client)
    facts = MemoryRepository(client).count_all
    jobs: dict[str, Callable[[], object]] = {
        "sum up the usage": lambda: records.roll_up(zone=ZONE),
        "count the growth": lambda: records.count_growth(zone=ZONE, facts=facts()),
        "purge what was forgotten": PurgeRepository(client).purge_forgotten,
        "find lost updates": lambda: core.updates.requeue_orphaned(older_than=60),
        "delete messages of 290 days": lambda: PurgeRepository(client).delete_aged(
            days=290, reads=False
        ),
    }
    nightly = {f"{name}, s": seconds_of(job) for name, job in jobs.items()}
    consolidation: ConsolidationService = core.memory.consolidation
    began = time.perf_counter()
    await consolidation.run()
    await model.stop()
    nightly["consolidate, s"] = f"{time.perf_counter() - began:.2f}"
    return {
        "turn, p50 ms": f"{percentile(turns, 0.5):.0f}",
        "turn, p95 ms": f"{percentile(turns, 0.95):.0f}",
        "statements of a turn": f"{statements:.0f}",
        "search, p50 ms": f"{percentile(searches, 0.5):.0f}",
        "search, p95 ms": f"{percentile(searches, 0.95):.0f}",
        **nightly,
    }


async def times_of(
    work: Callable[[int], Awaitable[None]], client: PgClient
) -> tuple[list[float], float]:
    """Return the milliseconds of each run of ``work``, and the statements per run."""
    times = []
    for number in range(WARM + TURNS):
        if number == WARM:
            before = client.statements
        began = time.perf_counter()
        await work(number)
        times.append(1000 * (time.perf_counter() - began))
    return times[WARM:], (client.statements - before) / TURNS


def seconds_of(job: Callable[[], object]) -> str:
    """Return the duration of a job in seconds."""
    began = time.perf_counter()
    job()
    return f"{time.perf_counter() - began:.2f}"


if __name__ == "__main__":
    main()
