"""Export and erasure of a user with 100,000 messages while others chat.

    python -m benchmarks.large_owner           100,000 messages of one user, 90,000 of 1,000 others
    python -m benchmarks.large_owner --quick   a tenth

Prints the duration and peak memory of the export, the duration of the erasure, and the time that
others wait until a message is stored and its history loaded, before the erasure and during it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import psycopg2

from benchmarks.world import FIRST_USER, LONG_USER, fill_database
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core, open_core
from src.pg.embedded import EmbeddedPostgres
from src.talk.turn_state import IncomingMessage, Turn
from src.texts.reply import ReplyFile

ROUNDS = 200  # turns of others before the erasure; during it, as many as there is time for
# Index all messages of the user, as in real use, and add facts.
FACTS = """
INSERT INTO search_documents (owner_id, position, kind, message_id, speaker, said_at,
                              length, model_id)
SELECT c.owner_id, m.position, 'message', m.id, m.role, m.said_at, 12,
       (SELECT model_id FROM search_documents WHERE model_id IS NOT NULL LIMIT 1)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.message_id = m.id);
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, document_id)
SELECT d.owner_id, w.term, d.position, count(*), d.length, true, d.id
FROM search_documents d JOIN messages m ON m.id = d.message_id,
     LATERAL string_to_table(message_text(m.content), ' ') AS w (term)
WHERE d.owner_id = (SELECT add_owner(%(owner)s, 0)) AND NOT EXISTS (
    SELECT 1 FROM search_postings p WHERE p.document_id = d.id)
GROUP BY d.id, w.term;
INSERT INTO document_embeddings (owner_id, model_id, position, document_id, embedding)
SELECT d.owner_id, d.model_id, d.position, d.id,
       (SELECT embedding FROM document_embeddings LIMIT 1)
FROM search_documents d
WHERE d.owner_id = (SELECT add_owner(%(owner)s, 0)) AND NOT EXISTS (
    SELECT 1 FROM document_embeddings e WHERE e.document_id = d.id);
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash)
SELECT add_owner(%(owner)s, 0), 'user_fact', 'Факт ' || n, 'user', 'other', 'x', 5, 'tool',
       'large ' || n
FROM generate_series(1, 2000) n;
"""


async def turn_of_another(core: Core, number: int) -> float:
    """Return the milliseconds until another user's message is stored and its history loaded."""
    owner = Owner(FIRST_USER + number % 500)
    caller = Caller(owner, Preferences("ru", "UTC"), datetime.now(UTC))
    incoming = IncomingMessage(caller, f"слово{number}")
    start = time.perf_counter()
    turn = Turn(incoming)
    for step in core.agent.steps[:2]:  # its language, and its storing
        await step(turn)
    return (time.perf_counter() - start) * 1000


async def export(core: Core) -> tuple[ReplyFile, ...]:
    """Return both export files of the user with the long history."""
    called = Caller(Owner(LONG_USER), Preferences("ru", "UTC"), datetime.now(UTC))
    return await core.client.run(core.exports.write_files, called)


async def measure(dsn: str) -> None:
    """Export, then erase during turns of others."""
    settings = Settings(database_url=dsn, llm_model="offline")  # type: ignore[arg-type]
    async with open_core(settings) as core:
        await core.warm_up()
        usual = [await turn_of_another(core, number) for number in range(ROUNDS)]
        start = time.perf_counter()
        files = await export(core)
        taken = time.perf_counter() - start
        tracemalloc.start()  # slows the export down, so it gets a separate run
        await export(core)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        sizes = [f"{file.name} {file.content.seek(0, 2) / 2**20:.1f} MB" for file in files]
        print(f"export: {taken:.1f} s, at most {peak:.1f} MB of memory ({', '.join(sizes)})")
        start = time.perf_counter()
        erasure = asyncio.ensure_future(core.commands.forgetting.erase_owner(LONG_USER))
        meanwhile = []
        while not erasure.done():
            meanwhile.append(await turn_of_another(core, len(meanwhile)))
        await erasure
        print(f"erasure: {time.perf_counter() - start:.1f} s")
    for name, times in (("before", usual), ("meanwhile", meanwhile)):
        p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"others {name}: {len(times)} messages, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def main() -> None:
    """Fill a database, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_owner")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    share = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory(prefix="pomni-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            fill_database(dsn, users=1_000, each=90, long=100_000 // share)
            with psycopg2.connect(dsn) as connection, connection.cursor() as cursor:
                cursor.execute(FACTS, {"owner": LONG_USER})
            connection.close()
            asyncio.run(measure(dsn))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
