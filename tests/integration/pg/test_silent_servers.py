"""Servers that say nothing: every call ends by itself, in the pool and the locks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from src.base.errors import StorageTimeoutError, StorageUnavailableError
from src.pg import client as pg_client
from src.pg import locks as advisory_lock
from src.pg.client import Limits, PgClient
from src.pg.locks import POLLER_LOCK, AdvisoryLock
from tests.conftest import execute
from tests.fakes.tcp_proxy import SwallowingProxy

pytestmark = pytest.mark.own_database


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, so that a test need not wait for the true ones."""
    monkeypatch.setattr(pg_client, "ORDINARY", Limits(statement=1.0, lock=0.5))
    monkeypatch.setitem(pg_client.LIBPQ_OPTIONS, "connect_timeout", 2)


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
