"""Jobs whose process died: counted, given back to the queue, quarantined, put aside.

That a job ran when the process died proves little: others ran beside it, and an operator may have
killed the process. So one that ran at two deaths is a suspect: it runs before the queues open (see
``Workers``), and when its process dies while it runs alone it is put aside.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from procrastinate import JobContext
from procrastinate.worker import Worker

from src.base.errors import PostponedError, StorageRejectedError
from src.base.metrics import Metrics
from src.pg.client import PgClient, Repository, Transaction
from src.queue.job_repo import QUARANTINE_QUEUE, TURNS_QUEUE, UNIQUE_VIOLATION

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
# A worker without a heartbeat for so long is dead, and its jobs are given to others: the chats of
# a killed process wait for this, and for one check more.
DEAD_AFTER = 9.0

FEW = 4  # suspects that are tried one by one at once
TOGETHER = 32  # places for more of them
JOB_SECONDS = 10.0  # of one suspect; doubled every second time if it does not recur
TRIAL_SECONDS = 40.0  # of all of them, before the queues open
SUSPECT_DEATHS = 2  # deaths after which a job is tried before others may run beside it
TWIN_RACES = 3  # times that a job may come under a queueing lock while we clear it


@dataclass(frozen=True)
class PutAside:
    """A job that is put aside; ids only.

    Attributes:
        id: What ``retry`` takes.
        task: The task's name.
        job_id: The queue's number of the job.
        chat_id: Where the update came from that the job handles.
        conversation_id: Whose memory it is.
        since: When it was put aside.
        deaths: How often its process died.
    """

    id: int
    task: str
    job_id: int
    chat_id: int | None
    conversation_id: str | None
    since: datetime
    deaths: int


# Everything that is put aside, oldest first.
SELECT_PUT_ASIDE = """
SELECT d.id, d.task, d.job_id, u.chat_id, d.conversation_id, d.put_aside_at, d.deaths
FROM job_deaths d LEFT JOIN telegram_updates u ON u.id = d.update_id
WHERE d.put_aside_at IS NOT NULL
ORDER BY d.put_aside_at, d.id LIMIT 1000
"""

# Jobs that are not being tried at this moment wait again in the queues where they stood, and their
# updates with them; nothing is counted of them any more.
RETRY = """
WITH given AS (
    UPDATE procrastinate_jobs j
    SET status = 'todo', queue_name = d.queue, scheduled_at = NULL, attempts = 0
    FROM job_deaths d
    WHERE d.job_id = j.id AND d.put_aside_at IS NOT NULL AND j.status IN ('failed', 'todo')
      AND (%(id)s::bigint IS NULL OR d.id = %(id)s)
    RETURNING d.id, d.update_id
), reopened AS (
    UPDATE telegram_updates u SET handled_at = NULL, outcome = NULL
    FROM given g WHERE u.id = g.update_id AND u.outcome = 'put aside'
)
DELETE FROM job_deaths d USING given g WHERE d.id = g.id
"""

# How much is put aside.
COUNT_PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"


@dataclass(frozen=True)
class Recovered:
    """Jobs that were given back: how many, how many died, how many are suspects, and the rest.

    Attributes:
        put_aside: What died while it ran alone.
    """

    jobs: int = 0
    deaths: int = 0
    suspects: int = 0
    put_aside: list[PutAside] = field(default_factory=list)


# Jobs of workers that are dead (no heartbeat), or that left without giving them back (no worker).
STALLED = """
FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
WHERE j.status = 'doing'
  AND (j.worker_id IS NULL OR w.last_heartbeat < now() - make_interval(secs => %(dead_after)s))
"""

# Stalled jobs. A death is counted for each that has a worker, or for the recurring work under its
# queueing lock. A suspect that was its worker's only one is put aside.
COUNT_DEATHS = f"""
WITH stalled AS (
    SELECT j.id, j.task_name, j.queue_name, j.queueing_lock, j.args, j.worker_id,
           coalesce(j.queueing_lock, 'job ' || j.id) AS work,
           j.worker_id IS NOT NULL AND %(counts)s AS is_death
    {STALLED}
    FOR UPDATE OF j SKIP LOCKED
), accused AS (
    SELECT s.*, s.is_death AND s.queue_name = %(quarantine)s
                AND count(*) OVER (PARTITION BY s.worker_id) = 1 AS died_alone
    FROM stalled s
), counted AS (
    INSERT INTO job_deaths AS d (work, task, queue, job_id, update_id, conversation_id,
                                 put_aside_at)
    SELECT DISTINCT ON (a.work) a.work, a.task_name, a.queue_name, a.id,
           (SELECT id FROM telegram_updates
            WHERE id = coalesce(a.args ->> 'update', a.args ->> 'before')::bigint),
           (SELECT id FROM conversations WHERE id = (a.args ->> 'conversation_id')::uuid),
           CASE WHEN a.died_alone THEN now() END
    FROM accused a WHERE a.is_death
    ORDER BY a.work, a.id DESC
    ON CONFLICT (work) DO UPDATE
    SET deaths = d.deaths + 1, job_id = EXCLUDED.job_id, last_at = now(),
        put_aside_at = coalesce(d.put_aside_at, EXCLUDED.put_aside_at)
)
SELECT id, queueing_lock, is_death, died_alone FROM accused ORDER BY id
"""  # noqa: S608  (it holds a constant of ours)

# Other jobs under the queueing locks of those that are given back, which do the work of all.
DELETE_TWINS = """
DELETE FROM procrastinate_jobs
WHERE queueing_lock = ANY(%(locks)s) AND (status = 'todo' OR id = ANY(%(jobs)s))
  AND NOT id = ANY(%(kept)s)
"""

# The jobs wait again, suspects in the quarantine's queue. Recurring work that was put aside now is
# tried again after one hour, two, four, at most a day, since the machine may have been at fault;
# until then no other job of it can be deferred.
GIVE_BACK = """
SELECT d.deaths >= %(suspect)s,
       procrastinate_retry_job_v2(j.id,
           CASE WHEN j.id = ANY(%(killers)s)
                THEN now() + least(interval '1 hour' * power(2, least(d.deaths, 10) - 3),
                                   interval '1 day')
                ELSE now() END,
           NULL, CASE WHEN d.deaths >= %(suspect)s THEN %(quarantine)s END, NULL)
FROM unnest(%(jobs)s::bigint[]) AS j (id) LEFT JOIN job_deaths d ON d.job_id = j.id
"""

# The workers of processes that died; none of them lives any more.
DELETE_WORKERS = "DELETE FROM procrastinate_workers"

# Other jobs end; they stay in the table until they are pruned, or given back by hand.
FAIL_JOBS = """
SELECT procrastinate_finish_job_v1(id, 'failed', false) FROM unnest(%(jobs)s::bigint[]) AS id
"""

# Their updates are done with: the chats go on, and no job defers them again. The payload stays,
# for a retry by hand. A message leaves its conversation, with its undelivered answer: whatever
# is wrong with it would meet the next turn too. The user is told before anything else happens.
CLOSE_UPDATES = """
WITH closed AS (
    UPDATE telegram_updates u SET handled_at = now(), outcome = 'put aside'
    FROM job_deaths d
    WHERE d.job_id = ANY(%(jobs)s) AND d.task = 'handle_update' AND u.id = d.update_id
      AND u.handled_at IS NULL
    RETURNING u.id, u.bot_id, u.chat_id, u.thread_id, u.message_id, u.kind
), deleted AS (
    DELETE FROM messages m USING closed c
    WHERE c.kind = 'message' AND m.bot_id = c.bot_id AND m.chat_id = c.chat_id
      AND m.telegram_message_id = c.message_id
)
SELECT procrastinate_defer_jobs_v1(array_agg(
    ROW('control', 'apologise', 100, format('chat:%%s:%%s:%%s', bot_id, chat_id, thread_id), NULL,
        jsonb_build_object('update', id), NULL)::procrastinate_job_to_defer_v1))
FROM closed WHERE chat_id IS NOT NULL HAVING count(*) > 0
"""

# Suspects that could be tried now, and the most deaths of one.
COUNT_SUSPECTS = """
SELECT count(*), coalesce(max(d.deaths), 0)
FROM procrastinate_jobs j LEFT JOIN job_deaths d ON d.job_id = j.id
WHERE j.queue_name = %(quarantine)s AND j.status = 'todo'
  AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
"""

# A heartbeat of our workers, which live and die together; whether a suspect could be tried now,
# and whether a job is stalled.
BEAT = f"""
WITH alive AS (
    UPDATE procrastinate_workers SET last_heartbeat = now()
    WHERE id = ANY(%(workers)s::bigint[])
), suspects AS ({COUNT_SUSPECTS})
SELECT (SELECT count > 0 FROM suspects), EXISTS (SELECT 1 {STALLED})
"""  # noqa: S608  (it holds constants of ours)

# A suspect that has run alone for long enough without harm, or all that could not run: they
# go back to their queues with one death, but for recurring work that waits for its hour.
ACQUIT = """
WITH released AS (
    UPDATE procrastinate_jobs j
    SET queue_name = coalesce((SELECT queue FROM job_deaths WHERE job_id = j.id), %(turns)s)
    WHERE j.queue_name = %(quarantine)s
      AND (j.id = %(job)s OR %(job)s::bigint IS NULL AND j.status = 'todo' AND NOT EXISTS (
               SELECT 1 FROM job_deaths d WHERE d.job_id = j.id
               AND d.put_aside_at IS NOT NULL AND j.scheduled_at > now()))
    RETURNING j.id
)
UPDATE job_deaths d SET deaths = %(suspect)s - 1, put_aside_at = NULL
FROM released r WHERE d.job_id = r.id
"""

QUARANTINE = {
    "quarantine": QUARANTINE_QUEUE, "turns": TURNS_QUEUE, "suspect": SUSPECT_DEATHS,
}  # fmt: skip


class JobDeathRepository(Repository):
    """Keeps the deaths of jobs, and what is put aside; every method blocks."""

    def recover(self, *, dead_after: float, counts: bool = True) -> Recovered:
        """Count the deaths of dead workers' jobs and give the jobs back: suspects apart.

        A suspect that died alone is put aside.

        Args:
            dead_after: Seconds without a heartbeat; 0 when no other worker lives.
            counts: False when the workers died and their process did not.
        """

        def work(transaction: Transaction) -> Recovered:
            rows = transaction.fetch_all(
                COUNT_DEATHS, QUARANTINE, dead_after=dead_after, counts=counts
            )
            if not rows and dead_after > 0:
                return Recovered()
            jobs = [row[0] for row in rows]
            newest = {lock: job for job, lock, _, _ in rows if lock is not None}
            kept = {job: lock for job, lock, _, _ in rows if newest.get(lock, job) == job}
            transaction.execute(DELETE_TWINS, locks=list(newest), jobs=jobs, kept=list(kept))
            killers = [job for job, *_, died_alone in rows if died_alone and job in kept]
            ended = [job for job in killers if kept[job] is None]
            waiting = [job for job in kept if job not in ended]
            given = transaction.fetch_all(GIVE_BACK, QUARANTINE, jobs=waiting, killers=killers)
            if dead_after == 0:
                transaction.execute(DELETE_WORKERS)
            deaths = sum(is_death for _, _, is_death, _ in rows)
            suspects = sum(bool(row[0]) for row in given)
            return Recovered(len(rows), deaths, suspects, _put_aside(transaction, killers, ended))

        return self._despite_twins(work)

    def count_suspects(self) -> tuple[int, int]:
        """How many suspects could be tried now, and the most deaths that one of them has."""
        row = self._client.fetch_one(COUNT_SUSPECTS, QUARANTINE)
        return (row[0], row[1]) if row else (0, 0)

    def beat(self, workers: Sequence[int], *, dead_after: float) -> tuple[bool, bool]:
        """Give workers that live a heartbeat, and look for what to do about those that do not.

        Args:
            workers: Those that live.
            dead_after: Seconds without a heartbeat.

        Returns:
            Whether a suspect waits to be tried, and whether there are jobs to ``recover``.
        """
        row = self._client.fetch_one(
            BEAT, QUARANTINE, workers=list(workers), dead_after=dead_after
        )
        return (row[0], row[1]) if row else (False, False)

    def acquit(self, job: int | None = None) -> int:
        """Give suspects back to their queues; returns how many.

        Args:
            job: One that is running; None for all that wait.
        """
        return self._client.execute(ACQUIT, QUARANTINE, job=job)

    def list_all(self) -> list[PutAside]:
        """What is put aside, oldest first, at most a thousand."""
        return self._all(PutAside, SELECT_PUT_ASIDE)

    def count(self) -> int:
        """How much is put aside."""
        return self._first(int, COUNT_PUT_ASIDE) or 0

    def retry(self, number: int | None = None) -> int:
        """Give what is put aside back to the queue, with a clean count; returns how much.

        Args:
            number: The id of one; None for all.
        """
        return self._client.execute(RETRY, id=number)

    def _despite_twins(self, work: Callable[[Transaction], Recovered]) -> Recovered:
        """Run ``work``, and retry when a job came under a queueing lock meanwhile."""
        for _ in range(TWIN_RACES):
            try:
                return self._client.in_transaction(work)
            except StorageRejectedError as error:
                if error.sqlstate != UNIQUE_VIOLATION:
                    raise
        return self._client.in_transaction(work)


def _put_aside(transaction: Transaction, jobs: list[int], ended: list[int]) -> list[PutAside]:
    if not jobs:
        return []
    for statement in (FAIL_JOBS, CLOSE_UPDATES):
        transaction.execute(statement, jobs=ended)
    every = [PutAside(*row) for row in transaction.fetch_all(SELECT_PUT_ASIDE)]
    return [aside for aside in every if aside.job_id in jobs]


class DeadJobs:
    """Counts who ran when a process died, and knows whom to try alone."""

    def __init__(self, client: PgClient, metrics: Metrics) -> None:
        """Keep the count in the database."""
        self._client = client
        self._deaths = JobDeathRepository(client)
        self._metrics = metrics
        self._ends_at = 0.0  # when the trial is over

    async def recover(self, *, dead_after: float, counts: bool = True) -> Recovered:
        """Give the jobs of dead workers back.

        Args:
            dead_after: Seconds without a heartbeat; 0 when no other worker lives.
            counts: False when the workers died and their process did not.

        Raises:
            StorageError: The database is away.
        """
        found = await self._client.run(self._deaths.recover, dead_after=dead_after, counts=counts)
        self._metrics.deaths.inc(found.deaths)
        if found.jobs:
            log = {"jobs": found.jobs, "deaths": found.deaths, "suspects": found.suspects}
            logger.info("recovered jobs of dead workers", extra=log)
        for job in found.put_aside:
            named = {"id": job.id, "task": job.task, "job": job.job_id, "chat_id": job.chat_id}
            logger.error("put aside what kills its process: see bot.py jobs", extra=named)
        return found

    async def show_life(self, workers: Sequence[int], *, dead_after: float) -> Recovered:
        """Give our workers a heartbeat, and the jobs of dead ones back.

        Args:
            workers: Ours.
            dead_after: Seconds without a heartbeat.

        Returns:
            What was given back, ``suspects`` being all that wait to be tried, if any does.

        Raises:
            StorageError: The database is away.
        """
        beat = partial(self._deaths.beat, workers, dead_after=dead_after)
        has_suspects, is_stalled = await self._client.run(beat)
        found = await self.recover(dead_after=dead_after) if is_stalled else Recovered()
        return replace(found, suspects=found.suspects + has_suspects)

    async def begin_trial(self) -> int:
        """How many suspects are to be tried at once; 0 when there is none.

        One by one when they are few, or when they died together in a trial. An operator's kills
        make suspects of all that runs; then the queues do not wait for each of them.

        Raises:
            StorageError: The database is away.
        """
        waiting, deaths = await self._client.run(self._deaths.count_suspects)
        if not waiting:
            return 0
        at_once = 1 if waiting <= FEW or deaths > SUSPECT_DEATHS else TOGETHER
        log = {"jobs": waiting, "at_once": at_once}
        logger.info("trying suspected jobs before the queues open", extra=log)
        self._ends_at = time.monotonic() + TRIAL_SECONDS
        return at_once

    async def acquit(self, job: int | None = None) -> None:
        """Give suspects back to their queues: a job that runs, or all that wait.

        Raises:
            StorageError: The database is away.
        """
        if acquitted := await self._client.run(self._deaths.acquit, job):
            logger.info("gave suspected jobs back to their queues", extra={"jobs": acquitted})

    async def try_alone(
        self, call_next: Callable[[], Awaitable[Any]], context: JobContext, _worker: Worker
    ) -> Any:
        """Procrastinate's middleware: a job that outlives its trial is no suspect any more.

        Others wait meanwhile, so its time is limited, and grows whenever it comes back. A job
        that has not come to an end by then is done again beside the others.
        """
        job = context.job
        doublings = max(0, job.attempts // 2 - 1) if job.queueing_lock is None else 0
        seconds = JOB_SECONDS * 2**doublings
        limit = asyncio.timeout(min(seconds, self._ends_at - time.monotonic()))
        try:
            async with limit:
                return await call_next()
        except Exception as error:
            await self.acquit(job.id)
            if limit.expired():
                raise PostponedError("it has outlived its trial", seconds=0) from error
            raise
