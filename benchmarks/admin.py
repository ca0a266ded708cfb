"""Response times of the admin pages with a million messages.

    python -m benchmarks.admin           1,000,000 messages of 10,000 users
    python -m benchmarks.admin --quick   a tenth

Every answer of 400 days has a row in ``model_usage``, one user has a conversation of 100,000
messages, and another has 1,000 facts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import psycopg2

from benchmarks.world import FIRST_USER, LONG_USER, fill_database
from src.base.config import Settings
from src.core import open_core
from src.pg.embedded import EmbeddedPostgres
from src.pg.records import RecordsRepository
from src.web.admin_access import AdminAccess
from src.web.admin_pages import build_admin_app
from src.web.admin_people import ORDERS

PASSWORD = "correct horse battery"
LIMIT = 300.0  # milliseconds, for the slowest of ROUNDS
ROUNDS = 7
# Half a million calls in ninety days (more than a bot with a million messages makes), 20,000
# messages a day, and 100,000 failures in two weeks.
FILL = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, created_at)
SELECT c.owner_id, CASE WHEN m.id % 5 = 0 THEN 'summary' ELSE 'answer' END,
       CASE WHEN m.id % 5 = 0 THEN 'openai:gpt-5-nano' ELSE 'openai:gpt-5-mini' END,
       4000 + m.id % 900, 3000, 120, 900 + m.id % 700,
       now() - (m.id % 129600) * interval '1 minute'
FROM messages m JOIN conversations c ON c.id = m.conversation_id WHERE m.role = 'assistant';

INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash)
SELECT add_owner({first}, 0), 'user_fact', 'Факт ' || n, 'user', 'other', 'x', 5, 'tool',
       'bench ' || n
FROM generate_series(1, 1000) n;

INSERT INTO telegram_updates (bot_id, update_id, kind, chat_id, user_id, payload, received_at,
                              first_word_at, handled_at, outcome)
SELECT 1, n, 'message', {first} + n % 5000, {first} + n % 5000, '{{}}', at,
       at + interval '1 s', at + n % 9 * interval '1 s',
       CASE n % 500 WHEN 0 THEN 'failed' ELSE 'done' END
FROM generate_series(1, 60000) n, LATERAL (SELECT now() - n * interval '4 s' AS at) AS t;
INSERT INTO failures (failed_at, part, event, reason, update_id, owner_id)
SELECT now() - n * interval '12 s', 'model', 'will try again', 'HTTP ' || 500 + n % 5, n,
       add_owner({first}, 0) FROM generate_series(1, 100000) n;

UPDATE owners SET name = 'Name ' || id, seen_at = now() - id * interval '1 minute';

VACUUM ANALYZE model_usage; VACUUM ANALYZE memories; VACUUM ANALYZE telegram_updates;
VACUUM ANALYZE failures; VACUUM ANALYZE owners;
"""


def pages() -> list[str]:
    """Return the pages that operators use; of the long conversation also its middle."""
    long, facts = f"/users/{LONG_USER}/0", f"/users/{FIRST_USER}/0"
    return [
        "/", *(f"/users?sort={order}&page=9&kind=people" for order in ORDERS),
        "/users?kind=failed", "/users?q=name+99", f"{long}/about", f"{facts}/about",
        long, f"{long}?before=50000",
        f"{facts}/facts", f"{facts}/facts?state=refused", f"{facts}/facts?q=nothing&state=all",
        f"{long}/recall?q=слово17",
        "/usage", "/usage?days=30", "/usage?days=90",
        "/usage?days=30&by=person", "/usage.csv?days=90", "/failures", "/failures?days=14",
        "/settings", "/batches", "/queue", "/audit",
    ]  # fmt: skip


async def measure(dsn: str) -> dict[str, list[float]]:
    """Return the milliseconds of ROUNDS requests per page, after a warm-up request."""
    settings = Settings(database_url=dsn, llm_model="offline")  # type: ignore[arg-type]
    times: dict[str, list[float]] = {}
    async with open_core(settings) as core:
        await core.warm_up()
        transport = httpx.ASGITransport(build_admin_app(core, AdminAccess(PASSWORD)))
        async with httpx.AsyncClient(transport=transport, base_url="http://bot") as browser:
            records = RecordsRepository(core.client)
            records.roll_up(zone=settings.timezone)  # as the bot does every hour
            await browser.post("/login", data={"password": PASSWORD})
            for page in pages():
                taken = []
                for _ in range(ROUNDS + 1):
                    start = time.perf_counter()
                    response = await browser.get(page)
                    taken.append((time.perf_counter() - start) * 1000)
                    response.raise_for_status()
                times[page] = taken[1:]
    return times


def main() -> None:
    """Fill a database, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    users = 1_000 if parser.parse_args().quick else 10_000
    with tempfile.TemporaryDirectory(prefix="pomni-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            count = fill_database(dsn, users=users, each=90, long=100_000)
            connection = psycopg2.connect(dsn)
            connection.autocommit = True
            with connection.cursor() as cursor:
                for statement in FILL.format(first=FIRST_USER).split(";\n"):
                    for part in statement.split("; "):
                        if part.strip():
                            cursor.execute(part)
            connection.close()
            print(f"{count:,} messages; milliseconds, median and longest of {ROUNDS}")
            for page, times in asyncio.run(measure(dsn)).items():
                verdict = "" if max(times) <= LIMIT else f"  OVER {LIMIT:.0f}"
                print(f"{page:40}{statistics.median(times):8.0f}{max(times):8.0f}{verdict}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
