"""Jobs of dead workers: count their deaths, requeue them, try suspects alone, quarantine killers.

A job that ran when its process died need not be the cause: others ran beside it, or an operator
killed the process. A job that ran at two deaths is a suspect. Suspects run before the queues open
(see ``Workers``), in the trial queue. One whose process dies while it runs alone is quarantined.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from procrastinate import JobContext
from procrastinate.worker import Worker

from src.base.errors import PostponedError, StorageRejectedError
from src.base.metrics import Metrics
from src.pg.client import PgClient, Repository, Transaction
from src.queue.job_repo import TRIAL_QUEUE, TURNS_QUEUE, UNIQUE_VIOLATION

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
# A worker without a heartbeat for so many seconds is dead, and its jobs are requeued. The chats of
# a killed process wait that long, and for one more check.
DEAD_AFTER = 9.0

MAX_SEQUENTIAL = 4  # suspects; up to so many are tried one by one
TRIAL_CONCURRENCY = 32  # for more suspects than that
JOB_SECONDS = 10.0  # for one suspect; doubled at every second attempt of a one-time job
TRIAL_SECONDS = 40.0  # for all suspects, before the queues open
SUSPECT_DEATHS = 2  # deaths that make a job a suspect
DUPLICATE_RETRIES = 3  # when a job is deferred under a queueing lock that is being cleared


@dataclass(frozen=True)
class QuarantinedJob:
    """A quarantined job; holds ids only.

    Attributes:
        id: Id of its row, as ``retry`` takes it.
        task: Name of the task.
        job_id: Procrastinate's id of the job.
        chat_id: The chat of the update that the job handles.
        conversation_id: The conversation that the job works on.
        since: Time of the quarantine.
        deaths: Number of its process deaths.
    """

    id: int
    task: str
    job_id: int
    chat_id: int | None
    conversation_id: str | None
    since: datetime
    deaths: int


# Quarantined jobs, oldest first.
SELECT_QUARANTINED = """
SELECT d.id, d.task, d.job_id, u.chat_id, d.conversation_id, d.put_aside_at, d.deaths
FROM job_deaths d LEFT JOIN telegram_updates u ON u.id = d.update_id
WHERE d.put_aside_at IS NOT NULL
ORDER BY d.put_aside_at, d.id LIMIT 1000
"""

# Requeue quarantined jobs, except running ones, in their original queues; reopen their updates and
# forget their deaths.
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

# Number of quarantined jobs.
COUNT_QUARANTINED = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"


@dataclass(frozen=True)
class Recovery:
    """Result of requeuing the jobs of dead workers.

    Attributes:
        jobs: Number of requeued jobs.
        deaths: Number of counted deaths.
        suspects: Number of jobs that are suspects.
        quarantined: Jobs that were quarantined because their process died while they ran alone.
    """

    jobs: int = 0
    deaths: int = 0
    suspects: int = 0
    quarantined: list[QuarantinedJob] = field(default_factory=list)


# Running jobs of dead workers (no heartbeat) or of workers that have unregistered (no worker).
STALLED = """
FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
WHERE j.status = 'doing'
  AND (j.worker_id IS NULL OR w.last_heartbeat < now() - make_interval(secs => %(dead_after)s))
"""

# Lock the stalled jobs and count a death for each that has a worker; for recurring work the count
# belongs to its queueing lock. Quarantine a suspect that was its worker's only job.
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

# Delete duplicates: other jobs under the queueing locks of the jobs that are requeued.
DELETE_DUPLICATES = """
DELETE FROM procrastinate_jobs
WHERE queueing_lock = ANY(%(locks)s) AND (status = 'todo' OR id = ANY(%(jobs)s))
  AND NOT id = ANY(%(kept)s)
"""

# Requeue jobs, suspects in the trial queue. Recurring work that was quarantined just now is
# retried after one hour, two, four, at most a day, since the machine may have been the cause;
# until then no other job of it can be deferred.
REQUEUE = """
SELECT d.deaths >= %(suspect)s,
       procrastinate_retry_job_v2(j.id,
           CASE WHEN j.id = ANY(%(killers)s)
                THEN now() + least(interval '1 hour' * power(2, least(d.deaths, 10) - 3),
                                   interval '1 day')
                ELSE now() END,
           NULL, CASE WHEN d.deaths >= %(suspect)s THEN %(quarantine)s END, NULL)
FROM unnest(%(jobs)s::bigint[]) AS j (id) LEFT JOIN job_deaths d ON d.job_id = j.id
"""

# Remove all workers, none of which is alive.
DELETE_WORKERS = "DELETE FROM procrastinate_workers"

# Mark jobs as failed; they stay in the table until they are pruned or retried by an operator.
FAIL_JOBS = """
SELECT procrastinate_finish_job_v1(id, 'failed', false) FROM unnest(%(jobs)s::bigint[]) AS id
"""

# Close the updates of quarantined jobs, so that their chats continue and no job defers them again.
# The payload stays, for a retry by an operator. Messages are deleted with their undelivered
# answers: what is wrong with them would affect the next turn, too. Defer an apology to the user at
# the highest priority.
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

# Number of suspects that can be tried now, and the largest number of deaths of one.
COUNT_SUSPECTS = """
SELECT count(*), coalesce(max(d.deaths), 0)
FROM procrastinate_jobs j LEFT JOIN job_deaths d ON d.job_id = j.id
WHERE j.queue_name = %(quarantine)s AND j.status = 'todo'
  AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
"""

# Record a heartbeat of this process's workers; return whether a suspect can be tried now, and
# whether any job is stalled.
SEND_HEARTBEAT = f"""
WITH alive AS (
    UPDATE procrastinate_workers SET last_heartbeat = now()
    WHERE id = ANY(%(workers)s::bigint[])
), suspects AS ({COUNT_SUSPECTS})
SELECT (SELECT count > 0 FROM suspects), EXISTS (SELECT 1 {STALLED})
"""  # noqa: S608  (it holds constants of ours)

# Requeue a suspect that has passed its trial, or all pending ones, in their original queues with
# one death; recurring work that waits for a later retry stays.
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

TRIAL = {
    "quarantine": TRIAL_QUEUE, "turns": TURNS_QUEUE, "suspect": SUSPECT_DEATHS,
}  # fmt: skip


class JobDeathRepository(Repository):
    """Stores the deaths of jobs and the quarantine; every method blocks."""

    def recover(self, *, dead_after: float, counts: bool = True) -> Recovery:
        """Count the deaths of dead workers' jobs and requeue them, suspects in the trial queue.

        A suspect that died alone is quarantined.

        Args:
            dead_after: Seconds without a heartbeat; 0 if no other worker is alive.
            counts: False if the workers ended but their process did not.
        """

        def work(transaction: Transaction) -> Recovery:
            rows = transaction.fetch_all(COUNT_DEATHS, TRIAL, dead_after=dead_after, counts=counts)
            if not rows and dead_after > 0:
                return Recovery()
            jobs = [row[0] for row in rows]
            newest = {lock: job for job, lock, _, _ in rows if lock is not None}
            survivors = {job: lock for job, lock, _, _ in rows if newest.get(lock, job) == job}
            transaction.execute(
                DELETE_DUPLICATES, locks=list(newest), jobs=jobs, kept=list(survivors)
            )
            killers = [job for job, *_, died_alone in rows if died_alone and job in survivors]
            failed = [job for job in killers if survivors[job] is None]
            pending = [job for job in survivors if job not in failed]
            requeued = transaction.fetch_all(REQUEUE, TRIAL, jobs=pending, killers=killers)
            if dead_after == 0:
                transaction.execute(DELETE_WORKERS)
            deaths = sum(is_death for _, _, is_death, _ in rows)
            suspects = sum(bool(row[0]) for row in requeued)
            return Recovery(len(rows), deaths, suspects, _quarantine(transaction, killers, failed))

        return self._retry_unique_violations(work)

    def count_suspects(self) -> tuple[int, int]:
        """Return the number of suspects that can be tried now and the most deaths of one."""
        row = self._client.fetch_one(COUNT_SUSPECTS, TRIAL)
        return (row[0], row[1]) if row else (0, 0)

    def acquit(self, job: int | None = None) -> int:
        """Return suspects to their original queues.

        Args:
            job: Id of one running job; None for all pending ones.

        Returns:
            The number of jobs.
        """
        return self._client.execute(ACQUIT, TRIAL, job=job)

    def list_all(self) -> list[QuarantinedJob]:
        """List quarantined jobs, oldest first, at most a thousand."""
        return self._all(QuarantinedJob, SELECT_QUARANTINED)

    def count(self) -> int:
        """Return the number of quarantined jobs."""
        return self._first(int, COUNT_QUARANTINED) or 0

    def retry(self, number: int | None = None) -> int:
        """Requeue quarantined jobs and forget their deaths.

        Args:
            number: Id of one; None for all.

        Returns:
            The number of jobs.
        """
        return self._client.execute(RETRY, id=number)

    def _retry_unique_violations(self, work: Callable[[Transaction], Recovery]) -> Recovery:
        for _ in range(DUPLICATE_RETRIES):
            try:
                return self._client.in_transaction(work)
            except StorageRejectedError as error:
                if error.sqlstate != UNIQUE_VIOLATION:
                    raise
        return self._client.in_transaction(work)


def _quarantine(
    transaction: Transaction, job_ids: list[int], failed: list[int]
) -> list[QuarantinedJob]:
    if not job_ids:
        return []
    for statement in (FAIL_JOBS, CLOSE_UPDATES):
        transaction.execute(statement, jobs=failed)
    return [job for job in JobDeathRepository(transaction).list_all() if job.job_id in job_ids]


class DeadJobs:
    """Recovers the jobs of dead workers and tries suspects, with logs and metrics."""

    def __init__(self, client: PgClient, metrics: Metrics) -> None:
        """Store everything through ``client``."""
        self._client = client
        self._deaths = JobDeathRepository(client)
        self._metrics = metrics
        self._ends_at = 0.0  # monotonic time at which the trial ends

    async def recover(self, *, dead_after: float, counts: bool = True) -> Recovery:
        """Requeue the jobs of dead workers.

        Args:
            dead_after: Seconds without a heartbeat; 0 if no other worker is alive.
            counts: False if the workers ended but their process did not.

        Raises:
            StorageError: The database is unavailable.
        """
        found = await self._client.run(self._deaths.recover, dead_after=dead_after, counts=counts)
        self._metrics.deaths.inc(found.deaths)
        if found.jobs:
            log = {"jobs": found.jobs, "deaths": found.deaths, "suspects": found.suspects}
            logger.info("recovered jobs of dead workers", extra=log)
        for job in found.quarantined:
            ids = {"id": job.id, "task": job.task, "job": job.job_id, "chat_id": job.chat_id}
            logger.error("put aside what kills its process: see bot.py jobs", extra=ids)
        return found

    async def send_heartbeat(self, workers: list[int], *, dead_after: float) -> Recovery:
        """Record a heartbeat of our workers and requeue the jobs of dead ones.

        Args:
            workers: Ids of our workers.
            dead_after: Seconds without a heartbeat.

        Returns:
            The result, whose ``suspects`` also counts one if suspects were pending before.

        Raises:
            StorageError: The database is unavailable.
        """
        [(has_suspects, is_stalled)] = await self._client.run(
            self._client.fetch_all, SEND_HEARTBEAT, TRIAL, workers=workers, dead_after=dead_after
        )
        found = await self.recover(dead_after=dead_after) if is_stalled else Recovery()
        return replace(found, suspects=found.suspects + has_suspects)

    async def begin_trial(self) -> int:
        """Start the clock of a trial and return its concurrency; 0 if there is no suspect.

        Suspects run one by one if they are few or died together in an earlier trial. An operator's
        kill makes suspects of all running jobs; then the queues do not wait for each of them.

        Raises:
            StorageError: The database is unavailable.
        """
        pending, deaths = await self._client.run(self._deaths.count_suspects)
        if not pending:
            return 0
        is_sequential = pending <= MAX_SEQUENTIAL or deaths > SUSPECT_DEATHS
        concurrency = 1 if is_sequential else TRIAL_CONCURRENCY
        log = {"jobs": pending, "at_once": concurrency}
        logger.info("trying suspected jobs before the queues open", extra=log)
        self._ends_at = time.monotonic() + TRIAL_SECONDS
        return concurrency

    async def acquit(self, job: int | None = None) -> None:
        """Return suspects to their original queues: a running job, or all pending ones.

        Raises:
            StorageError: The database is unavailable.
        """
        if acquitted := await self._client.run(self._deaths.acquit, job):
            logger.info("gave suspected jobs back to their queues", extra={"jobs": acquitted})

    async def try_alone(
        self, call_next: Callable[[], Awaitable[Any]], context: JobContext, _worker: Worker
    ) -> Any:
        """Worker middleware of procrastinate: a job that survives its trial is acquitted.

        Other jobs wait meanwhile, so the job has a timeout, which grows with its attempts. A job
        that times out is acquitted as well and runs again beside the others.
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
