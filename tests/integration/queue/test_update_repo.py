"""Telegram updates: stored with their jobs or not at all, and only once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from src.base.errors import StorageRejectedError
from src.pg.client import PgClient, Row
from src.queue.update_repo import NewUpdate, UpdateRepository
from tests.conftest import execute

BOT, CHAT, USER = 555, 2**41, 2**41

# The jobs in the order in which they were made.
JOBS = """
SELECT task_name, queue_name, priority, lock, queueing_lock, args, status::text, scheduled_at
FROM procrastinate_jobs ORDER BY id
"""


@pytest.fixture
def updates(client: PgClient) -> UpdateRepository:
    return UpdateRepository(client)


def message(update_id: int, **changes: object) -> NewUpdate:
    values = {"chat_id": CHAT, "user_id": USER, "message_id": update_id + 1000, **changes}
    kind = values.pop("kind", "message")
    payload = values.pop("payload", {"update_id": update_id})
    return NewUpdate(update_id, kind, payload, **values)  # type: ignore[arg-type]


def stored(client: PgClient) -> list[int]:
    rows = client.fetch_all("SELECT update_id FROM telegram_updates ORDER BY id")
    return [row[0] for row in rows]


def job(client: PgClient, update_id: int, served_in: int = 0, queue: str = "people") -> Row:
    (row_id,) = client.fetch_all(
        "SELECT id FROM telegram_updates WHERE update_id = %(u)s", {"u": update_id}
    )[0]
    args = {"update": row_id, "message_id": update_id + 1000}
    lock = f"chat:{BOT}:{CHAT}:0"
    return ("handle_update", queue, -served_in, lock, None, args, "todo", None)


def test_a_hundred_updates_are_one_statement_and_keep_their_order(
    updates: UpdateRepository, client: PgClient
) -> None:
    assert updates.store(BOT, []) == 0
    numbers = [*range(500, 550), *range(100, 150)]
    before = client.statements, client.transactions
    assert updates.store(BOT, [message(number) for number in numbers]) == 100
    assert (client.statements, client.transactions) == (before[0] + 1, before[1] + 1)
    assert stored(client) == numbers
    assert client.fetch_all(JOBS) == [job(client, n, place) for place, n in enumerate(numbers)]


def test_an_update_that_comes_again_is_passed_over_without_a_job(
    updates: UpdateRepository, client: PgClient
) -> None:
    updates.store(BOT, [message(1, interrupts=True)])
    before = client.fetch_all(JOBS)
    assert updates.store(BOT, [message(1, interrupts=True)]) == 0
    assert client.fetch_all(JOBS) == before
    assert updates.store(BOT, [message(1), message(2), message(3)]) == 2
    assert client.fetch_all(JOBS)[2:] == [job(client, 2, 1), job(client, 3, 2)]


def test_eight_receivers_of_the_same_updates_store_them_once(
    updates: UpdateRepository, client: PgClient
) -> None:
    together = threading.Barrier(8)

    def receive(_: int) -> int:
        together.wait()
        return updates.store(BOT, [message(number) for number in range(20)])

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(receive, range(8))) == 20
    assert sorted(stored(client)) == list(range(20))
    assert client.fetch_one("SELECT count(*) FROM procrastinate_jobs") == (20,)


def test_an_interruption_gets_a_control_job_first_without_a_lock(
    updates: UpdateRepository, client: PgClient
) -> None:
    updates.store(BOT, [message(1), message(2, kind="stop", interrupts=True, draft_id=2**40)])
    jobs = client.fetch_all(JOBS)
    row_id = job(client, 2)[5]["update"]
    args = {"lock": f"chat:{BOT}:{CHAT}:0", "before": row_id, "draft_id": 2**40}
    control = ("interrupt_turn", "control", 10, None, None, args, "todo", None)
    assert jobs == [job(client, 1), control, job(client, 2, 1, queue="control")]


@pytest.mark.own_database
@pytest.mark.parametrize("size", [1, 3])
def test_when_the_job_cannot_be_stored_the_update_is_not_either(
    updates: UpdateRepository, client: PgClient, dsn: str, size: int
) -> None:
    execute(dsn, "ALTER TABLE procrastinate_jobs RENAME TO away")
    batch = [message(number) for number in range(size)]
    with pytest.raises(StorageRejectedError):
        updates.store(BOT, batch)
    assert stored(client) == []
    execute(dsn, "ALTER TABLE away RENAME TO procrastinate_jobs")
    assert updates.store(BOT, batch) == size
    assert client.fetch_all(JOBS) == [job(client, number, number) for number in range(size)]
