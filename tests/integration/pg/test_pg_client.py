"""The PostgreSQL client: its pool, its transactions, its errors and its bridge to asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from src.base.errors import StorageRejectedError, StorageTimeoutError, StorageUnavailableError
from src.pg.client import PgClient
from tests.conftest import query

pytestmark = pytest.mark.own_database

# How many connections others than this one keep to this database.
COUNT_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type = 'client backend'
"""


@contextmanager
def opened(dsn: str, **options: float) -> Iterator[PgClient]:
    client = PgClient(dsn, **options)  # type: ignore[arg-type]
    client.open()
    yield client
    client.close()


def count_connections(dsn: str) -> int:
    return int(query(dsn, COUNT_CONNECTIONS)[0][0])


def count_sleeping(dsn: str) -> int:
    sleeping = "SELECT 1 FROM pg_stat_activity WHERE query LIKE %s AND state = 'active'"
    return len(query(dsn, sleeping, "SELECT pg_sleep%"))


def wait_until_all_are_closed(dsn: str) -> None:
    """The server takes a moment to notice that a connection was closed."""
    deadline = time.monotonic() + 10
    while count_connections(dsn):
        assert time.monotonic() < deadline


def test_a_caller_who_finds_no_free_connection_waits_within_bounds(dsn: str) -> None:
    with opened(dsn, max_connections=2, wait_timeout=0.3) as client:
        with client.transaction(), client.transaction():
            for call in (client.fetch_one, client.execute):
                with pytest.raises(StorageUnavailableError, match="PG_POOL_MAX is 2"):
                    call("SELECT 1")
            assert client.statements == 0
        assert client.fetch_one("SELECT 1") == (1,)


def test_a_transaction_is_rolled_back_on_any_error(client: PgClient) -> None:
    client.execute("CREATE TABLE notes (text text)")
    with pytest.raises(KeyError), client.transaction() as transaction:
        transaction.execute("INSERT INTO notes VALUES ('one')")
        raise KeyError("ours")
    with pytest.raises(StorageRejectedError), client.transaction() as transaction:
        transaction.execute("INSERT INTO notes VALUES ('two')")
        transaction.execute("SELECT 1 / 0")
    assert client.fetch_all("SELECT text FROM notes") == []
    with client.transaction() as transaction:
        assert transaction.execute("INSERT INTO notes VALUES ('a'), ('b'), ('c')") == 3
        assert transaction.execute("DELETE FROM notes WHERE text = 'a'") == 1
    assert client.fetch_all("SELECT text FROM notes ORDER BY 1") == [("b",), ("c",)]


def test_a_single_statement_is_sent_without_begin_and_commit(client: PgClient) -> None:
    moments = "SELECT transaction_timestamp() = statement_timestamp()"
    assert client.fetch_one(moments) == (True,)
    with client.transaction() as transaction:
        assert transaction.fetch_one(moments) == (False,)


def test_a_refused_statement_keeps_its_code_and_not_the_row(client: PgClient) -> None:
    client.execute("CREATE TABLE notes (text text UNIQUE CHECK (text <> 'my secret'))")
    client.execute("INSERT INTO notes VALUES ('my diary')")
    refusals = [
        ("INSERT INTO notes VALUES (%(text)s)", "my diary", "23505"),
        ("INSERT INTO notes VALUES (%(text)s)", "my secret", "23514"),
        ("SELECT %(text)s::integer", "my secret", "22P02"),
        ("SELECT no_such_column, %(text)s", "my secret", "42703"),
        # The driver calls this an operational error, like a lost connection.
        ("INSERT INTO notes SELECT %(text)s || string_agg(md5(n::text), '')"
         " FROM generate_series(1, 999) n", "my", "54000"),
        ("SELECT %(text)s", "my \x00 byte", None), ("SELECT %(text)s", "my \ud800 half", None),
    ]  # fmt: skip
    for sql, text, code in refusals:
        with pytest.raises(StorageRejectedError) as caught:
            client.execute(sql, {"text": text})
        assert caught.value.sqlstate == code
        assert "my" not in str(caught.value)


def test_a_closed_client_says_so(dsn: str) -> None:
    client = PgClient(dsn)
    for _ in range(2):
        with pytest.raises(StorageUnavailableError, match="closed"):
            client.fetch_one("SELECT 1")
        with pytest.raises(StorageUnavailableError, match="closed"), client.transaction():
            raise AssertionError("the block must not run")
        with pytest.raises(StorageUnavailableError, match="closed"):
            asyncio.run(client.run(client.fetch_one, "SELECT 1"))
        client.open()
        client.open()
        assert client.fetch_one("SELECT 1") == (1,)
        client.close()
        client.close()
    wait_until_all_are_closed(dsn)


async def test_closing_cancels_a_running_statement(dsn: str) -> None:
    client = PgClient(dsn)
    client.open()
    running = asyncio.create_task(client.run(client.fetch_one, "SELECT pg_sleep(60)"))
    while not await asyncio.to_thread(count_sleeping, dsn):
        assert not running.done()
    await asyncio.to_thread(client.close)
    with pytest.raises(StorageTimeoutError):
        await running
