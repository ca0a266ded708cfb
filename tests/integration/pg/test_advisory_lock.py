"""Advisory locks: held by a connection, and gone with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from src.base.errors import StorageUnavailableError
from src.pg.locks import POLLER_LOCK, AdvisoryLock
from tests.conftest import query

pytestmark = pytest.mark.own_database

BOT, OTHER_KIND = 7_777_777_777, POLLER_LOCK + 1

# Ends the sessions that hold an advisory lock of this database.
TERMINATE_HOLDERS = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM (
    SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS holders
"""


def eventually(take: Callable[[], bool]) -> None:
    """The server takes a moment to notice that a connection was closed."""
    deadline = time.monotonic() + 10
    while not take():
        assert time.monotonic() < deadline


MakeLock = Callable[..., AdvisoryLock]


@pytest.fixture
def make(dsn: str) -> Iterator[MakeLock]:
    """Makes locks of this database, and releases them at the end."""
    made: list[AdvisoryLock] = []

    def new(kind: int = POLLER_LOCK, name: int = BOT) -> AdvisoryLock:
        made.append(AdvisoryLock(dsn, kind, name))
        return made[-1]

    yield new
    for lock in made:
        lock.release()


def test_a_lock_dies_with_its_connection_and_can_be_taken_again(make: MakeLock, dsn: str) -> None:
    lock, other = make(), make()
    assert lock.try_exclusive() is True
    assert query(dsn, TERMINATE_HOLDERS) == [(1,)]
    with pytest.raises(StorageUnavailableError):
        lock.try_exclusive()
    assert other.try_exclusive() is True
    assert lock.try_exclusive() is False
    other.release()
    eventually(lock.try_exclusive)
    assert make().try_exclusive() is False
    elsewhere = AdvisoryLock(dsn.replace("/test_", "/absent_"), POLLER_LOCK, BOT)
    with pytest.raises(StorageUnavailableError):
        elsewhere.try_exclusive()
    elsewhere.release()
