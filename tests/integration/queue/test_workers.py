"""Workers of this process: woken when a lock is free, and alive after a lost connection."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg2
import pytest
from procrastinate import App

from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.queue.workers import DeadJobs, Workers, build_queue
from tests.conftest import query
from tests.e2e.bot_process import eventually

pytestmark = pytest.mark.own_database

# Waits, 10,000 ms at most for each, until it has ended.
CUT_OFF = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s
"""

LEFT = "SELECT id FROM procrastinate_jobs WHERE task_name = 'count'"


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with build_queue(dsn).open_async() as opened:
        yield opened


@pytest.mark.parametrize("ending", [
    "procrastinate_finish_job_v1(%s, 'succeeded', true)",
    "procrastinate_finish_job_v1(%s, 'failed', false)",
])  # fmt: skip
def test_the_end_of_a_job_tells_of_the_next_one_of_its_chat(
    dsn: str, client: PgClient, ending: str
) -> None:
    """Procrastinate alone would find it when it polls the next time."""
    updates = [NewUpdate(n, "message", {}, chat_id=7, user_id=7) for n in (1, 2, 3)]
    UpdateRepository(client).store(1, updates)
    first, second, _ = (job for (job,) in query(dsn, "SELECT id FROM procrastinate_jobs"))
    query(dsn, "SELECT 1 FROM procrastinate_fetch_job_v2(ARRAY['people'], NULL)")
    listener = psycopg2.connect(dsn)
    listener.autocommit = True
    with listener.cursor() as cursor:
        cursor.execute('LISTEN "procrastinate_queue_v1#people"')
    query(dsn, f"SELECT {ending}", first)
    assert select.select([listener], [], [], 10)[0]
    listener.poll()
    assert [f'"job_id" : {second}' in one.payload for one in listener.notifies] == [True]
    listener.close()


async def test_a_statement_of_the_queue_has_a_time_limit(app: App) -> None:
    limit = "SELECT current_setting('statement_timeout') AS value"
    assert await app.connector.execute_query_one_async(limit) == {"value": "10s"}


async def test_a_connection_that_the_server_closed_is_replaced(app: App, dsn: str) -> None:
    own = "SELECT pg_backend_pid() AS pid"
    before = await app.connector.execute_query_one_async(own)
    query(dsn, "SELECT pg_terminate_backend(%s, 10000)", before["pid"])  # ms until it has ended
    assert await app.connector.execute_query_one_async(own) != before


async def test_workers_outlive_their_connections(app: App, dsn: str, client: PgClient) -> None:
    """A job whose end could not be stored begins once more, and its lock is free then."""
    done: set[int] = set()

    @app.task(name="count", queue="people", lock="one at a time")
    async def count(number: int) -> None:
        done.add(number)

    workers = Workers(app, DeadJobs(app, client, Metrics()), concurrency=2, shutdown_timeout=1.0)
    working = asyncio.create_task(workers.run())
    try:
        for number in range(3):
            await count.defer_async(number=number)
            await eventually(lambda number=number: number in done, "the job", 30)
            await asyncio.to_thread(query, dsn, CUT_OFF, "pomni queue")
        await eventually(lambda: not query(dsn, LEFT), "all ends to be stored", 30)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
