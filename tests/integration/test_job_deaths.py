"""Deaths of jobs: counted, suspected, put aside, given back; on a real queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.queue.job_death_repo import JobDeathRepository, PutAsideRepository, Recovered, Suspects
from src.queue.quarantine import FEW, JOBS_TOGETHER, Report, how_many_at_once
from src.queue.update_repo import NewUpdate, UpdateRepository

BOT, USER = 555, 2**41
JOBS = "SELECT queue_name, task_name, status::text FROM procrastinate_jobs ORDER BY id"


class Queue:
    """The queue's tables, worked off by nobody."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.deaths = JobDeathRepository(client)
        self.put_aside = PutAsideRepository(client)
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

    def die(self, *jobs: int, times: int = 1) -> Recovered:
        """The process dies so many times while the jobs run; another one recovers them."""
        for _ in range(times):
            self.take(*jobs)
            found = self.deaths.recover(dead_after=0)
        return found

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
    assert queue.die(job, other) == Recovered(jobs=2, deaths=2, suspects=0)
    assert queue.jobs() == [("turns", "handle_update", "todo")] * 2
    assert queue.die(job) == Recovered(jobs=1, deaths=1, suspects=1)
    assert [row[0] for row in queue.jobs()] == ["quarantine", "turns"]
    assert queue.counts() == {job: 2, other: 1}
    assert queue.outcomes() == [None, None]


@pytest.mark.parametrize("in_hand", [True, False])
def test_a_suspect_is_acquitted_when_a_parent_dies_alone(queue: Queue, in_hand: bool) -> None:
    """An operator's kills must not keep it from ever being tried."""
    job, other = queue.message(1), queue.message(2, USER + 1)
    queue.die(job, times=2)
    assert queue.jobs()[0][0] == "quarantine"
    assert queue.deaths.recover(dead_after=0).deaths == 0
    assert queue.counts() == {job: 2}, "an orderly restart proves nothing"
    assert queue.die(*([job, other] if in_hand else [other])).deaths == 1
    assert [row[0] for row in queue.jobs()] == ["turns", "turns"]
    assert queue.counts() == {job: 1, other: 1}
    assert queue.die(job, other).suspects == 2


def test_other_processes_keep_a_suspect_whose_parent_died(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    queue.take(job)
    assert queue.deaths.recover(dead_after=30) == Recovered(jobs=1)
    assert queue.jobs() == [("quarantine", "handle_update", "todo")]
    assert queue.counts() == {job: 2}


def test_jobs_of_a_worker_that_left_or_lost_its_database_have_not_died(queue: Queue) -> None:
    job = queue.message(1)
    queue.take(job, worker=False)
    assert queue.deaths.recover(dead_after=30) == Recovered(jobs=1)
    queue.take(job)
    assert queue.deaths.recover(dead_after=30, counts=False) == Recovered(jobs=1)
    assert queue.jobs() == [("turns", "handle_update", "todo")] and queue.counts() == {}


def test_a_living_worker_keeps_its_jobs(queue: Queue) -> None:
    job = queue.message(1)
    queue.take(job)
    queue.rows("UPDATE procrastinate_workers SET last_heartbeat = now()")
    assert queue.deaths.recover(dead_after=30) == Recovered()
    assert queue.jobs()[0][2] == "doing"


def test_a_suspect_that_dies_alone_is_put_aside_and_its_chat_goes_on(queue: Queue) -> None:
    job, later = queue.message(1), queue.message(2)
    queue.die(job, times=2)
    assert queue.deaths.count_suspects() == Suspects(1, 2)
    queue.take(job)
    aside = queue.deaths.judge([4711, job])
    assert aside is not None
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
    assert queue.updates.defer_forgotten(older_than=-1) == 0, "it is not tried again"
    assert later in [row[0] for row in queue.rows("SELECT id FROM procrastinate_jobs")]
    assert queue.deaths.judge([job]) is None, "once"
    assert queue.put_aside.count() == 1


def test_of_several_suspects_in_one_process_none_is_put_aside_but_they_are_told_apart(
    queue: Queue,
) -> None:
    jobs = [queue.message(number, USER + number) for number in range(FEW + 2)]
    queue.die(*jobs, times=2)
    assert how_many_at_once(queue.deaths.count_suspects()) == JOBS_TOGETHER
    queue.take(*jobs[:3])
    assert queue.deaths.judge(jobs) is None
    assert queue.counts() == dict(zip(jobs, [3, 3, 3] + [2] * (FEW - 1), strict=True))
    assert how_many_at_once(queue.deaths.count_suspects()) == 1
    queue.take(jobs[1])
    aside = queue.deaths.judge([jobs[0], jobs[1]])
    assert aside is not None and (aside.job_id, aside.deaths) == (jobs[1], 4)


def test_few_suspects_are_tried_one_by_one_at_once() -> None:
    assert how_many_at_once(Suspects(FEW, 2)) == 1 < how_many_at_once(Suspects(FEW + 1, 2))


def test_only_suspects_whose_turn_it_is_are_waited_for(queue: Queue) -> None:
    first, second = queue.message(1), queue.message(2)
    queue.die(second, times=2)
    assert queue.deaths.count_suspects().waiting == 0, "the chat's first message is before it"
    queue.take(first)
    assert queue.deaths.count_suspects().waiting == 0
    queue.rows("SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", job=first)
    assert queue.deaths.count_suspects().waiting == 1


def test_what_is_done_is_forgotten(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    queue.rows("SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", job=job)
    assert queue.counts() == {}


def test_retrying_gives_back_the_update_with_a_clean_count(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    queue.take(job)
    aside = queue.deaths.judge([job])
    assert aside is not None and queue.put_aside.retry(aside.id + 1) == 0
    assert queue.updates.prune(hours=0) == 0, "what can be retried is kept"
    assert queue.put_aside.retry(aside.id) == 1
    assert queue.jobs() == [("control", "apologise", "todo"), ("turns", "handle_update", "todo")]
    [(update,)] = queue.rows("SELECT id FROM telegram_updates")
    waiting = queue.updates.find_waiting(update)
    assert waiting is not None and waiting.payload["message"] == {"text": "секрет"}
    assert queue.updates.find_put_aside(update) is None
    again = queue.newest()
    queue.die(again, times=2)
    assert queue.counts() == {again: 2}, "it is a suspect again"
    assert queue.put_aside.retry() == 0


def test_erasing_a_user_erases_what_was_counted(queue: Queue) -> None:
    job = queue.message(1)
    queue.die(job, times=2)
    queue.take(job)
    queue.deaths.judge([job])
    ErasureRepository(queue.client).erase(USER)
    assert queue.put_aside.list_all() == [] and queue.counts() == {}


# --- work that comes again and again


def test_work_is_counted_by_its_queueing_lock_whichever_job_does_it(queue: Queue) -> None:
    first = queue.defer("index_messages", "index_messages")
    queue.take(first)
    second = queue.defer("index_messages", "index_messages")
    assert queue.deaths.recover(dead_after=0).suspects == 0
    assert queue.jobs() == [("memory", "index_messages", "todo")], "one does the work of both"
    assert queue.counts() == {first: 1} and second > first
    assert queue.die(first).suspects == 1
    assert queue.jobs() == [("quarantine", "index_messages", "todo")]
    assert not queue.deaths.is_suspected("index_messages", first)
    assert queue.deaths.is_suspected("index_messages", second)
    assert not queue.deaths.is_suspected("embed_documents", second)


def test_recurring_work_is_tried_again_after_a_growing_pause(queue: Queue) -> None:
    job = queue.defer("prune", "prune", timestamp=1)
    queue.die(job, times=2)
    for hours in (1, 2, 4):
        queue.take(job)
        assert queue.deaths.judge([job]) is not None
        assert queue.deaths.is_suspected("prune", job + 1), "the next one rests"
        assert queue.put_aside.revive() == 0
        passed = {"minutes": 60 * hours - 1}
        age = "UPDATE job_deaths SET last_at = last_at - make_interval(mins => %(minutes)s)"
        queue.rows(age, **passed)
        assert queue.put_aside.revive() == 0
        queue.rows(age, minutes=2)
        assert queue.put_aside.revive() == 1
        assert queue.jobs() == [("quarantine", "prune", "todo")]
    assert how_many_at_once(queue.deaths.count_suspects()) == 1
    queue.rows("SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", job=job)
    assert not queue.deaths.is_suspected("prune", job + 1)


def test_a_message_of_a_job_for_all_is_put_aside_and_the_job_goes_on(queue: Queue) -> None:
    [(conversation,)] = queue.rows(
        "INSERT INTO conversations (owner_id, telegram_user_id)"
        " VALUES (add_owner(%(user)s, 0), %(user)s) RETURNING id::text",
        user=USER,
    )
    [(message,)] = queue.rows(
        "INSERT INTO messages (conversation_id, role, content, position, said_at)"
        " VALUES (%(conversation)s, 'user', 'яд', 1, now()) RETURNING id",
        conversation=conversation,
    )
    job = queue.defer("index_messages", "index_messages")
    queue.die(job, times=2)
    queue.take(job)
    aside = queue.deaths.judge([job], ("message", message))
    assert aside is not None
    assert (aside.step, str(aside.conversation_id)) == (("message", message), conversation)
    assert queue.jobs() == [("quarantine", "index_messages", "todo")]
    indexed = "SELECT indexed_at IS NOT NULL FROM messages"
    assert queue.rows(indexed) == [(True,)]
    queue.take(job)
    other = queue.deaths.judge([job], ("message", message))
    assert other is not None and other.step is None, "it died of something else now"
    assert queue.put_aside.retry(aside.id) == 1 and queue.rows(indexed) == [(False,)]


def test_the_parent_understands_what_the_child_says() -> None:
    report = Report()
    for line in ("alive\n", "job 5\n", "message 7\n", "rubbish\n", "document 8\n", "job 6\n"):
        report.hear(line)
    assert report == Report(jobs=[5, 6], step=None, ended=False)
    for line in ("message 9\n", "message x\n", "end\n"):
        report.hear(line)
    assert report == Report(jobs=[5, 6], step=("message", 9), ended=True)
