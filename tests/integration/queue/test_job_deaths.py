"""Jobs of dead workers: taken up, put aside after three deaths, retried; on a real queue."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from procrastinate import App

from src.base.errors import StorageRejectedError
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.queue.job_repo import MAX_DEATHS, JobDeathRepository, JobRepository
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.queue.workers import DeadJobs, build_queue

pytestmark = pytest.mark.own_database

BOT, USER = 555, 2**41
JOBS = "SELECT queue_name, task_name, status::text FROM procrastinate_jobs ORDER BY id"
WAITING, RUNNING = [("people", "handle_update", "todo")], [("people", "handle_update", "doing")]


class Queue:
    """The queue's tables, worked off by nobody."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.deaths = JobDeathRepository(client)
        self.updates = UpdateRepository(client)

    def rows(self, sql: str, **parameters: Any) -> list[Any]:
        return self.client.fetch_all(sql, parameters)

    def message(self, number: int, user: int = USER) -> int:
        """Store an update; returns its job."""
        payload = {"update_id": number, "message": {"text": "секрет"}}
        update = NewUpdate(
            number, "message", payload, chat_id=user, user_id=user, message_id=number
        )
        self.updates.store(BOT, [update])
        return self.newest()

    def defer(self, task: str, lock: str | None, **arguments: Any) -> int:
        self.rows(
            "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('background', %(task)s, 0, %(lock)s,"
            " %(lock)s, %(arguments)s::jsonb, NULL)::procrastinate_job_to_defer_v1])",
            task=task, lock=lock, arguments=json.dumps(arguments),
        )  # fmt: skip
        return self.newest()

    def newest(self) -> int:
        return int(self.rows("SELECT max(id) FROM procrastinate_jobs")[0][0])

    def take(self, job: int, silent: int = 60) -> int:
        """A worker, silent for so many seconds, takes the job; returns the worker."""
        [(worker,)] = self.rows("SELECT worker_id FROM procrastinate_register_worker_v1()")
        self.rows(
            "WITH late AS (UPDATE procrastinate_workers SET last_heartbeat ="
            " now() - make_interval(secs => %(silent)s) WHERE id = %(worker)s)"
            " UPDATE procrastinate_jobs SET status = 'doing', worker_id = %(worker)s"
            " WHERE id = %(job)s RETURNING id",
            worker=worker, job=job, silent=silent,
        )  # fmt: skip
        return int(worker)

    def die(self, job: int, times: int = 1) -> int | None:
        """The process dies so many times while the job runs; returns its deaths."""
        for _ in range(times):
            deaths = self.deaths.rescue(job, self.take(job))
        return deaths

    def counts(self) -> dict[int, int]:
        return dict(self.rows("SELECT job_id, deaths FROM job_deaths"))

    def jobs(self) -> list[tuple[str, str, str]]:
        return self.rows(JOBS)

    def outcomes(self) -> Sequence[Any]:
        return [row[0] for row in self.rows("SELECT outcome FROM telegram_updates ORDER BY id")]


@pytest.fixture
def queue(client: PgClient) -> Queue:
    return Queue(client)


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with build_queue(dsn).open_async() as opened:
        yield opened


def test_a_job_whose_process_died_is_taken_up_at_once_and_its_deaths_are_counted(
    queue: Queue,
) -> None:
    job, other = queue.message(1), queue.message(2, USER + 1)
    queue.rows("UPDATE procrastinate_jobs SET attempts = 500 RETURNING id")  # retried, not killed
    assert queue.die(job, MAX_DEATHS - 1) == MAX_DEATHS - 1
    assert queue.die(other) == 1
    assert queue.jobs() == 2 * WAITING
    assert queue.counts() == {job: 2, other: 1}
    assert queue.outcomes() == [None, None]
    assert queue.deaths.list_all() == []


def test_two_processes_rescue_a_job_once(queue: Queue) -> None:
    job = queue.message(1)
    worker = queue.take(job)
    assert queue.deaths.rescue(job, worker) == 1
    assert queue.deaths.rescue(job, worker) is None
    queue.take(job)
    assert queue.deaths.rescue(job, worker) is None, "another one runs it now"
    assert queue.jobs() == RUNNING and queue.counts() == {job: 1}


def test_a_job_with_three_deaths_is_put_aside_and_its_chat_goes_on(queue: Queue) -> None:
    job, later = queue.message(1), queue.message(2)
    assert queue.die(job, MAX_DEATHS) == MAX_DEATHS
    [aside] = queue.deaths.list_all()
    assert (aside.id, aside.chat_id, aside.task, aside.deaths) == (job, USER, "handle_update", 3)
    assert queue.jobs() == [
        ("people", "handle_update", "failed"),
        ("people", "handle_update", "todo"),
        ("control", "apologise", "todo"),
    ]
    assert queue.outcomes() == ["put aside", None]
    [(first,)] = queue.rows(
        "SELECT task_name FROM procrastinate_fetch_job_v2(ARRAY['people', 'control'], NULL)"
    )
    assert first == "apologise", "before the chat goes on"
    assert queue.updates.requeue_orphaned(older_than=-1) == 0, "it is not tried again"
    assert later in [row[0] for row in queue.rows("SELECT id FROM procrastinate_jobs")]
    assert queue.deaths.count() == 1


def test_retrying_gives_back_the_update_with_a_clean_count(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, MAX_DEATHS)
    assert queue.deaths.retry(job + 1) == 0
    assert queue.updates.prune(hours=0) == 0, "what can be retried is kept"
    assert queue.deaths.retry(job) == 1
    assert queue.jobs() == [*WAITING, ("control", "apologise", "todo")]
    [(update,)] = queue.rows("SELECT id FROM telegram_updates")
    waiting = queue.updates.find_waiting(update)
    assert waiting is not None and waiting.payload["message"] == {"text": "секрет"}
    assert queue.updates.find_waiting(update, put_aside=True) is None
    assert queue.counts() == {}
    assert queue.die(job) == 1
    assert queue.deaths.retry() == 0


# --- recurring work


def test_a_job_that_waits_under_the_same_queueing_lock_gives_way(queue: Queue) -> None:
    first = queue.defer("index_messages", "index_messages")
    worker = queue.take(first)
    second = queue.defer("index_messages", "index_messages")
    assert queue.deaths.rescue(first, worker) == 1
    assert queue.jobs() == [("background", "index_messages", "todo")], "one does the work of both"
    assert queue.counts() == {first: 1} and second > first


def test_recurring_work_that_is_put_aside_rests_and_is_tried_again_later(queue: Queue) -> None:
    job = queue.defer("prune", "prune", timestamp=1)
    queue.die(job, MAX_DEATHS - 1)
    due = (
        "SELECT round(extract(epoch FROM scheduled_at - now()) / 60)::int FROM procrastinate_jobs"
    )
    for deaths in (3, 4):
        assert queue.die(job) == deaths
        assert queue.rows(due) == [(10,)]
        with pytest.raises(StorageRejectedError):
            queue.defer("prune", "prune", timestamp=2)
        assert [aside.id for aside in queue.deaths.list_all()] == [job]
    assert queue.deaths.retry() == 1
    assert queue.jobs() == [("background", "prune", "todo")] and queue.counts() == {}
    assert queue.rows("SELECT scheduled_at FROM procrastinate_jobs") == [(None,)]


# --- finding them


async def test_a_silent_worker_has_time_for_a_heartbeat_after_an_outage(
    queue: Queue, app: App
) -> None:
    worker = queue.take(queue.message(1))
    dead_jobs = DeadJobs(app, queue.client, Metrics())
    await dead_jobs.rescue()
    await app.job_manager.update_heartbeat(worker)
    await dead_jobs.rescue()
    assert queue.jobs() == RUNNING
    queue.rows("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'")
    await dead_jobs.rescue()
    await dead_jobs.rescue()
    assert queue.jobs() == WAITING


async def test_a_job_without_a_worker_is_taken_up_at_once(queue: Queue, app: App) -> None:
    worker = queue.take(queue.message(1), silent=0)
    await app.job_manager.unregister_worker(worker)
    metrics = Metrics()
    await DeadJobs(app, queue.client, metrics).rescue()
    assert queue.jobs() == WAITING
    assert "pomni_job_deaths_total 1.0" in metrics.render().decode()


async def test_a_job_whose_end_was_not_stored_is_taken_up_and_one_that_began_again_is_not(
    queue: Queue, app: App
) -> None:
    lost, running = queue.message(1), queue.message(2, USER + 1)
    dead_jobs = DeadJobs(app, queue.client, Metrics())

    async def run(job: int, worker: int) -> None:
        async def work() -> None:
            if job == running:
                await dead_jobs.rescue()
                await dead_jobs.rescue()
                assert queue.jobs()[1:] == RUNNING

        context: Any = SimpleNamespace(job=SimpleNamespace(id=job))
        await dead_jobs.note_end(work, context, SimpleNamespace(worker_id=worker))  # type: ignore[arg-type]

    await run(lost, queue.take(lost, silent=0))
    await dead_jobs.rescue()
    assert queue.jobs()[:1] == RUNNING, "its end may be on its way"
    worker = queue.take(running, silent=0)
    await run(running, worker)
    assert queue.jobs()[:1] == WAITING
    await run(running, worker)


async def test_workers_may_live_while_a_process_has_a_connection_of_the_queue(
    queue: Queue, app: App
) -> None:
    queue.take(queue.message(1))
    assert await app.check_connection_async()
    assert JobRepository(queue.client).delete_dead_workers() == 0


def test_workers_are_dead_if_no_process_has_a_connection_of_the_queue(queue: Queue) -> None:
    queue.take(queue.message(1), silent=0)
    assert JobRepository(queue.client).delete_dead_workers() == 1
    assert queue.rows("SELECT worker_id FROM procrastinate_jobs") == [(None,)]
