"""Connections that break, and a server that restarts, cost the caller nothing."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from src.base.errors import StorageUnavailableError
from src.pg.client import PgClient, Transaction
from src.pg.embedded import EmbeddedPostgres
from tests import conftest
from tests.conftest import execute

pytestmark = pytest.mark.own_database

# Ends the connections of this database whose current statement looks like the pattern.
TERMINATE = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type = 'client backend' AND query LIKE %s AND state LIKE %s
"""


def terminate(dsn: str, *, query: str = "%", state: str = "%") -> int:
    return int(conftest.query(dsn, TERMINATE, query, state)[0][0])


def terminate_when_it_runs(dsn: str, query: str) -> None:
    while terminate(dsn, query=query, state="active") == 0:
        pass


def test_a_statement_whose_connection_dies_twice_fails(client: PgClient, dsn: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(client.fetch_one, "SELECT pg_sleep(60)")
        for _ in range(2):
            terminate_when_it_runs(dsn, "SELECT pg_sleep%")
        with pytest.raises(StorageUnavailableError) as caught:
            call.result()
    assert "\n" not in str(caught.value)
    assert not caught.value.is_refusal
    assert client.statements == 2
    assert client.fetch_one("SELECT 1") == (1,)


def test_a_transaction_whose_connection_dies_is_run_once_more_as_a_whole(
    client: PgClient, dsn: str
) -> None:
    client.execute("CREATE TABLE notes (attempt int)")
    attempts: list[int] = []

    def work(transaction: Transaction) -> int:
        attempts.append(len(attempts) + 1)
        transaction.execute("INSERT INTO notes VALUES (%(n)s)", {"n": attempts[-1]})
        if len(attempts) == 1:
            assert terminate(dsn, query="INSERT INTO notes%") == 1
        transaction.execute("INSERT INTO notes VALUES (%(n)s)", {"n": attempts[-1]})
        return attempts[-1]

    assert client.in_transaction(work) == 2
    assert client.fetch_all("SELECT attempt FROM notes") == [(2,), (2,)]


@pytest.fixture
def server() -> Iterator[tuple[EmbeddedPostgres, str]]:
    """A server of one's own, that a test may stop and start."""
    with tempfile.TemporaryDirectory(prefix="pomni-restart-") as folder:
        own = EmbeddedPostgres(Path(folder))
        address = own.start()
        execute(address, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield own, address
        own.stop()


def test_a_restart_of_the_server_costs_no_error(server: tuple[EmbeddedPostgres, str]) -> None:
    own, address = server
    client = PgClient(address, max_connections=4)
    client.open()
    stop, asked = threading.Event(), threading.Semaphore(0)

    def ask() -> int:
        count = 0
        while not stop.is_set():
            assert client.fetch_one("SELECT %(n)s", {"n": count}) == (count,)
            count += 1
            asked.release()
        return count

    with ThreadPoolExecutor(6) as threads:
        callers = [threads.submit(ask) for _ in range(6)]
        assert all(asked.acquire(timeout=20) for _ in range(50))
        own.stop()
        own.start()
        while asked.acquire(blocking=False):
            pass  # what was asked before the restart
        assert all(asked.acquire(timeout=20) for _ in range(50))
        stop.set()
        assert all(caller.result() > 0 for caller in callers)
    client.close()


def test_a_server_that_stays_away_is_reported_after_a_while(
    server: tuple[EmbeddedPostgres, str],
) -> None:
    own, address = server
    client = PgClient(address, reconnect_timeout=0.3)
    client.open()
    own.stop()
    for _ in range(2):
        with pytest.raises(StorageUnavailableError):
            client.fetch_one("SELECT 1")
        with pytest.raises(StorageUnavailableError):
            PgClient(address).open()
    own.start()
    assert client.fetch_one("SELECT 1") == (1,)
    client.close()
