"""Deaths of jobs: counted, suspected, put aside, given back; on a real queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from src.base.errors import PostponedError, StorageRejectedError
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.queue import dead_jobs
from src.queue.dead_jobs import (
    MAX_SEQUENTIAL,
    TRIAL_CONCURRENCY,
    DeadJobs,
    JobDeathRepository,
    QuarantinedJob,
    Recovery,
)
from src.queue.update_repo import NewUpdate, UpdateRepository

BOT, USER = 555, 2**41
JOBS = "SELECT queue_name, task_name, status::text FROM procrastinate_jobs ORDER BY id"


class Queue:
    """The queue's tables, worked off by nobody."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.deaths = JobDeathRepository(client)
        self.updates = UpdateRepository(client)

    def rows(self, sql: str, **parameters: Any) -> list[Any]:
        return self.client.fetch_all(sql, parameters)

    def message(self, number: int, user: int = USER, **changes: Any) -> int:
        """Store an update; returns its job."""
        values = {"chat_id": user, "user_id": user, "message_id": number, **changes}
        payload = {"update_id": number, "message": {"text": "секрет"}}
        self.updates.store(
            BOT, [NewUpdate(number, values.pop("kind", "message"), payload, **values)]
        )
        return self.newest()

    def defer(self, task: str, lock: str | None, **arguments: Any) -> int:
        self.rows(
            "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('memory', %(task)s, 0, %(lock)s,"
            " %(lock)s, %(arguments)s::jsonb, NULL)::procrastinate_job_to_defer_v1])",
            task=task, lock=lock, arguments=json.dumps(arguments),
        )  # fmt: skip
        return self.newest()

    def newest(self) -> int:
        return int(self.rows("SELECT max(id) FROM procrastinate_jobs")[0][0])

    def take(self, *jobs: int, worker: bool = True) -> None:
        """A worker takes the jobs (and none any more when it has said good-bye)."""
        [(number,)] = self.rows("SELECT worker_id FROM procrastinate_register_worker_v1()")
        self.rows(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %(worker)s"
            " WHERE id = ANY(%(jobs)s)",
            worker=number, jobs=list(jobs),
        )  # fmt: skip
        self.rows("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute'")
        if not worker:
            self.rows("SELECT procrastinate_unregister_worker_v1(%(worker)s)", worker=number)

    def die(self, *jobs: int, times: int = 1) -> Recovery:
        """The process dies so many times while the jobs run; another one recovers them."""
        for _ in range(times):
            self.take(*jobs)
            found = self.deaths.recover(dead_after=0)
        return found

    def put_aside_one(self, job: int) -> QuarantinedJob:
        """The job dies twice beside others and once alone."""
        [aside] = self.die(job, times=3).quarantined
        return aside

    def counts(self) -> dict[int, int]:
        return dict(self.rows("SELECT job_id, deaths FROM job_deaths"))

    def jobs(self) -> list[tuple[str, str, str]]:
        return self.rows(JOBS)

    def outcomes(self) -> Sequence[Any]:
        return [row[0] for row in self.rows("SELECT outcome FROM telegram_updates ORDER BY id")]


@pytest.fixture
def queue(client: PgClient) -> Queue:
    return Queue(client)


def test_a_job_that_died_twice_leaves_for_the_quarantine_and_its_count_stays(queue: Queue) -> None:
    job, other = queue.message(1), queue.message(2, USER + 1)
    assert queue.die(job, other) == Recovery(jobs=2, deaths=2)
    assert queue.jobs() == [("turns", "handle_update", "todo")] * 2
    assert queue.deaths.count_suspects() == (0, 0)
    assert queue.die(job) == Recovery(jobs=1, deaths=1, suspects=1)
    assert [row[0] for row in queue.jobs()] == ["quarantine", "turns"]
    assert queue.deaths.count_suspects() == (1, 2)
    assert queue.counts() == {job: 2, other: 1}
    assert queue.outcomes() == [None, None]


@pytest.mark.parametrize("in_hand", [True, False])
def test_an_orderly_end_proves_nothing_against_a_suspect(queue: Queue, in_hand: bool) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    if in_hand:
        queue.take(job, worker=False)
    assert queue.deaths.recover(dead_after=0).deaths == 0
    assert queue.counts() == {job: 2} and queue.jobs()[0][::2] == ("quarantine", "todo")


def test_a_death_of_others_proves_nothing_against_a_suspect_that_waits(queue: Queue) -> None:
    job, other = queue.message(1), queue.message(2, USER + 1)
    queue.die(job, times=2)
    assert queue.die(other) == Recovery(jobs=1, deaths=1)
    assert queue.counts() == {job: 2, other: 1}


def test_jobs_of_a_worker_that_left_or_lost_its_database_have_not_died(queue: Queue) -> None:
    job = queue.message(1)
    queue.take(job, worker=False)
    assert queue.deaths.recover(dead_after=30) == Recovery(jobs=1)
    queue.take(job)
    assert queue.deaths.recover(dead_after=30, counts=False) == Recovery(jobs=1)
    assert queue.jobs() == [("turns", "handle_update", "todo")] and queue.counts() == {}


def test_a_living_worker_keeps_its_jobs(queue: Queue) -> None:
    job = queue.message(1)
    queue.take(job)
    queue.rows("UPDATE procrastinate_workers SET last_heartbeat = now()")
    assert queue.deaths.recover(dead_after=30) == Recovery()
    assert queue.jobs()[0][2] == "doing"


async def test_a_heartbeat_keeps_our_jobs_and_finds_those_of_the_dead(queue: Queue) -> None:
    """One statement while nobody is dead; also after a while in which we stood still."""
    ours, theirs = queue.message(1), queue.message(2, USER + 1)
    queue.take(theirs)
    queue.take(ours)
    [[worker]] = queue.rows("SELECT max(id) FROM procrastinate_workers")
    send_heartbeat = partial(DeadJobs(queue.client, Metrics()).send_heartbeat, [worker])
    assert await send_heartbeat(dead_after=30) == Recovery(jobs=1, deaths=1)
    assert queue.counts() == {theirs: 1}
    assert queue.jobs() == [("turns", "handle_update", status) for status in ("doing", "todo")]
    queue.client.statements = 0
    assert await send_heartbeat(dead_after=30) == Recovery()
    assert queue.client.statements == 1
    queue.die(theirs)
    assert (await send_heartbeat(dead_after=30)).suspects == 1


@pytest.mark.parametrize("dead_after", [0, 30])
def test_a_suspect_that_dies_alone_is_put_aside_and_its_chat_goes_on(
    queue: Queue, dead_after: float
) -> None:
    """Its own next process says so, or another one that lives."""
    job, later = queue.message(1), queue.message(2)
    queue.die(job, times=2)
    queue.take(job)
    found = queue.deaths.recover(dead_after=dead_after)
    [aside] = found.quarantined
    assert (found.jobs, found.deaths, found.suspects) == (1, 1, 0)
    assert (aside.job_id, aside.chat_id, aside.task, aside.deaths) == (
        job, USER, "handle_update", 3,
    )  # fmt: skip
    assert queue.jobs() == [
        ("quarantine", "handle_update", "failed"),
        ("turns", "handle_update", "todo"),
        ("control", "apologise", "todo"),
    ]
    assert queue.outcomes() == ["put aside", None]
    [(first,)] = queue.rows(
        "SELECT task_name FROM procrastinate_fetch_job_v2(ARRAY['turns', 'control'], NULL)"
    )
    assert first == "apologise", "before the chat goes on"
    assert queue.updates.requeue_orphaned(older_than=-1) == 0, "it is not tried again"
    assert later in [row[0] for row in queue.rows("SELECT id FROM procrastinate_jobs")]
    assert queue.deaths.count_suspects() == (0, 0)
    assert queue.deaths.list_all() == [aside] and queue.deaths.count() == 1


def test_a_suspect_that_lived_alone_and_has_not_ended_goes_back_with_one_death(
    queue: Queue,
) -> None:
    first, second, other = queue.message(1), queue.message(2), queue.message(3, USER + 1)
    queue.die(second, other, times=2)
    queue.rows("DELETE FROM job_deaths WHERE job_id = %(other)s", other=other)
    assert queue.deaths.acquit() == 1
    assert queue.jobs() == [("turns", "handle_update", "todo")] * 3, "none is left alone for ever"
    assert queue.counts() == {second: 1} and queue.deaths.count_suspects() == (0, 0)
    assert (queue.die(first).suspects, queue.die(second).suspects) == (0, 1)


def test_what_is_done_is_forgotten(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    queue.rows("SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", job=job)
    assert queue.counts() == {}


def test_retrying_gives_back_the_update_with_a_clean_count(queue: Queue) -> None:
    job = queue.message(1)
    aside = queue.put_aside_one(job)
    assert queue.deaths.retry(aside.id + 1) == 0
    assert queue.updates.prune(hours=0) == 0, "what can be retried is kept"
    assert queue.deaths.retry(aside.id) == 1
    assert queue.jobs() == [("turns", "handle_update", "todo"), ("control", "apologise", "todo")]
    [(update,)] = queue.rows("SELECT id FROM telegram_updates")
    waiting = queue.updates.find_waiting(update)
    assert waiting is not None and waiting.payload["message"] == {"text": "секрет"}
    assert queue.updates.find_quarantined(update) is None
    assert queue.counts() == {}
    queue.die(job, times=2)
    assert queue.counts() == {job: 2}, "it is a suspect again"
    assert queue.deaths.retry() == 0


def test_erasing_a_user_erases_what_was_counted(queue: Queue) -> None:
    queue.put_aside_one(queue.message(1))
    ErasureRepository(queue.client).erase(USER)
    assert queue.deaths.list_all() == [] and queue.counts() == {}


def test_a_suspect_of_an_erased_user_does_not_stay(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    ErasureRepository(queue.client).erase(USER)
    assert queue.die(job).quarantined == []
    assert queue.deaths.count_suspects() == (0, 0) and queue.deaths.list_all() == []


# --- recurring work


def test_work_is_counted_by_its_queueing_lock_whichever_job_does_it(queue: Queue) -> None:
    first = queue.defer("index_messages", "index_messages")
    queue.take(first)
    second = queue.defer("index_messages", "index_messages")
    assert queue.deaths.recover(dead_after=0).suspects == 0
    assert queue.jobs() == [("memory", "index_messages", "todo")], "one does the work of both"
    assert queue.counts() == {first: 1} and second > first
    assert queue.die(first).suspects == 1
    assert queue.jobs() == [("quarantine", "index_messages", "todo")]


def test_recurring_work_that_is_put_aside_rests_and_is_tried_again_after_a_growing_pause(
    queue: Queue,
) -> None:
    job = queue.defer("prune", "prune", timestamp=1)
    queue.die(job, times=2)
    for hours in (1, 2, 4):
        assert len(queue.die(job).quarantined) == 1
        assert queue.jobs() == [("quarantine", "prune", "todo")]
        with pytest.raises(StorageRejectedError):
            queue.defer("prune", "prune", timestamp=2)
        assert queue.deaths.acquit() == 0
        age = "UPDATE procrastinate_jobs SET scheduled_at = scheduled_at - %(age)s::interval"
        queue.rows(age, age=f"{60 * hours - 1} minutes")
        assert queue.deaths.count_suspects()[0] == 0
        queue.rows(age, age="2 minutes")
        assert queue.deaths.count_suspects()[0] == 1
    assert queue.deaths.retry() == 1
    assert queue.jobs() == [("memory", "prune", "todo")] and queue.counts() == {}


def test_suspects_that_died_together_are_told_apart(queue: Queue) -> None:
    jobs = [queue.message(number, USER + number) for number in range(3)]
    assert queue.die(*jobs, times=3) == Recovery(jobs=3, deaths=3, suspects=3)
    assert queue.deaths.count_suspects() == (3, 3) and queue.deaths.count() == 0
    assert queue.deaths.acquit(jobs[0]) == 1
    assert [row[0] for row in queue.jobs()] == ["turns", "quarantine", "quarantine"]
    [aside] = queue.die(jobs[1]).quarantined
    assert (aside.job_id, aside.deaths) == (jobs[1], 4)


@pytest.mark.parametrize(("waiting", "times", "expected"), [
    (0, 2, 0), (MAX_SEQUENTIAL, 2, 1), (MAX_SEQUENTIAL + 1, 2, TRIAL_CONCURRENCY),
    (MAX_SEQUENTIAL + 1, 3, 1),
])  # fmt: skip
async def test_few_suspects_and_those_that_died_together_are_tried_one_by_one(
    queue: Queue, waiting: int, times: int, expected: int
) -> None:
    queue.die(*[queue.message(number, USER + number) for number in range(waiting)], times=times)
    assert await DeadJobs(queue.client, Metrics()).begin_trial() == expected


async def test_a_suspect_that_outlives_its_trial_is_done_again_beside_the_others(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_jobs, "JOB_SECONDS", 0.01)
    job = queue.message(1)
    queue.die(job, times=2)
    context: Any = SimpleNamespace(job=SimpleNamespace(id=job, attempts=3, queueing_lock=None))
    jobs = DeadJobs(queue.client, Metrics())
    assert await jobs.begin_trial() == 1
    queue.take(job)
    with pytest.raises(PostponedError):
        await jobs.try_alone(partial(asyncio.sleep, 60), context, None)  # type: ignore[arg-type]
    assert queue.jobs() == [("turns", "handle_update", "doing")] and queue.counts() == {job: 1}
