"""Servers that say nothing, on both pools and the locks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest
from procrastinate.exceptions import ConnectorException

from src.base.errors import StorageTimeoutError, StorageUnavailableError
from src.pg import async_connection as queue_connection
from src.pg import connection as pg_connection
from src.pg import locks as advisory_lock
from src.pg.client import PgClient
from src.pg.connection import Limits, connect
from src.pg.locks import POLLER_LOCK, AdvisoryLock
from src.queue.workers import build_queue
from tests.conftest import execute, query
from tests.fakes.tcp_proxy import SwallowingProxy

pytestmark = pytest.mark.own_database


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, so that a test need not wait for the true ones."""
    monkeypatch.setattr(pg_connection, "ORDINARY", Limits(statement=1.0, lock=0.5))
    monkeypatch.setitem(pg_connection.LIBPQ_OPTIONS, "connect_timeout", 2)
    monkeypatch.setattr(queue_connection, "WAIT_SECONDS", 1.0)


@pytest.fixture
def proxy(dsn: str) -> Iterator[SwallowingProxy]:
    with SwallowingProxy(dsn) as opened:
        yield opened


@pytest.fixture
def client(proxy: SwallowingProxy) -> Iterator[PgClient]:
    opened = PgClient(proxy.dsn, max_connections=8)
    opened.open()
    yield opened
    proxy.fail_over()
    opened.close()


def fill(client: PgClient) -> None:
    """Open every connection that the pool may have."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: client.fetch_one("SELECT pg_sleep(0.2)"), range(8)))


def test_a_statement_that_nobody_answers_is_run_again_after_the_fail_over(
    proxy: SwallowingProxy, client: PgClient
) -> None:
    fill(client)
    proxy.swallow()
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(client.fetch_one, "SELECT 42") for _ in range(8)]
        while proxy.swallowed == 0:
            assert not any(call.done() for call in calls)
        proxy.fail_over()
        assert [call.result(timeout=60) for call in calls] == [(42,)] * 8


def test_a_server_that_is_silent_from_the_start_is_reported(proxy: SwallowingProxy) -> None:
    proxy.swallow()
    with pytest.raises(StorageUnavailableError, match="did not answer in time"):
        PgClient(proxy.dsn).open()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(dsn: str) -> None:
    client = PgClient(dsn)
    client.open()
    before = client.statements
    with pytest.raises(StorageTimeoutError):
        client.fetch_one("SELECT pg_sleep(30)")
    assert client.statements == before + 1, "it would take as long again"
    assert client.fetch_one("SELECT pg_sleep(1.6)", limits=Limits(30, 1)) is not None
    with pytest.raises(StorageTimeoutError):
        client.fetch_one("SELECT pg_sleep(30)")
    client.close()


def test_a_lock_is_not_waited_for_for_ever(dsn: str) -> None:
    execute(dsn, "CREATE TABLE notes (number int)")
    client = PgClient(dsn)
    client.open()
    with closing(psycopg2.connect(dsn)) as holder:
        holder.cursor().execute("LOCK TABLE notes")
        with pytest.raises(StorageTimeoutError, match="LockNotAvailable"):
            client.fetch_one("SELECT * FROM notes")
    assert client.fetch_one("SELECT * FROM notes") is None
    client.close()


def test_every_connection_carries_the_time_outs(dsn: str) -> None:
    shown = "SELECT current_setting(%s)"
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        for name, value in (
            ("statement_timeout", "1s"),
            ("lock_timeout", "500ms"),
            ("idle_in_transaction_session_timeout", "15s"),
        ):
            cursor.execute(shown, (name,))
            assert cursor.fetchone() == (value,)
        told = connection.get_dsn_parameters()
    assert told["tcp_user_timeout"] == "10000" and told["keepalives_count"] == "3"


def test_a_held_lock_is_proven_now_and_then(
    proxy: SwallowingProxy, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisory_lock, "PROOF_SECONDS", 0.0)
    lock = AdvisoryLock(proxy.dsn, POLLER_LOCK, 1)
    assert lock.try_exclusive() and lock.needs_check() and lock.check_alive()
    proxy.fail_over()
    assert not lock.check_alive()
    assert not lock.is_connected()
    execute(dsn, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    assert lock.try_exclusive() and lock.check_alive()
    lock.release()


def test_a_lock_whose_holder_is_cut_off_is_given_up_by_the_server(
    proxy: SwallowingProxy, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisory_lock, "IDLE_SECONDS", 1)
    holder, other = AdvisoryLock(proxy.dsn, POLLER_LOCK, 1), AdvisoryLock(dsn, POLLER_LOCK, 1)
    assert holder.try_exclusive()
    proxy.swallow()
    deadline = time.monotonic() + 60
    while not other.try_exclusive():
        assert time.monotonic() < deadline
    other.release()
    holder.release()


def test_waiting_for_a_lock_outlasts_the_time_out_of_a_statement(dsn: str) -> None:
    holder, waiter = AdvisoryLock(dsn, POLLER_LOCK, 1), AdvisoryLock(dsn, POLLER_LOCK, 1)
    assert holder.try_exclusive()
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(waiter.take_shared)
        time.sleep(1.2)  # longer than lock_timeout
        assert not taking.done()
        holder.release()
        taking.result(timeout=30)
    waiter.release()


async def test_the_queue_s_statements_end_and_its_other_connections_with_them(
    proxy: SwallowingProxy,
) -> None:
    app = build_queue(proxy.dsn)
    async with app.open_async():
        ask = app.connector.execute_query_one_async
        await asyncio.gather(*(ask("SELECT pg_sleep(0.2)") for _ in range(6)))
        proxy.swallow()
        with pytest.raises(ConnectorException):
            await ask("SELECT 1 AS one")
        proxy.fail_over()
        swallowed = proxy.swallowed
        async with asyncio.timeout(60):
            while True:
                try:
                    rows = await asyncio.gather(*(ask("SELECT 1 AS one") for _ in range(6)))
                    break
                except ConnectorException:
                    continue
        assert rows == [{"one": 1}] * 6
        assert proxy.swallowed == swallowed, "no old connection was used again"
        limits = "SELECT current_setting('statement_timeout') AS value"
        assert await ask(limits) == {"value": "1s"}, "what ORDINARY says here"


async def test_a_listener_may_wait_for_any_time(proxy: SwallowingProxy) -> None:
    app = build_queue(proxy.dsn)
    heard: list[str] = []

    async def hear(*, channel: str, payload: str) -> None:
        heard.append(payload)

    async with app.open_async():
        listening = asyncio.ensure_future(app.connector.listen_notify(hear, ["news"]))
        await asyncio.sleep(2 * queue_connection.WAIT_SECONDS)
        assert not listening.done()
        while not heard:
            query(proxy.dsn, "SELECT pg_notify('news', 'now')")
            await asyncio.sleep(0.05)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
