"""Jobs of dead workers: retried twice, then put aside until an operator retries them.

A job whose process dies leaves its worker without heartbeats, so procrastinate reports it as
stalled. Here its deaths are counted, beside its ``attempts``: those also count every retry while
Telegram or a model is away, which proves nothing against a job.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from procrastinate import App, JobContext
from procrastinate.worker import Worker

from src.base.metrics import Metrics
from src.pg.client import PgClient, Repository, Transaction

logger = logging.getLogger(__name__)

MAX_DEATHS = 3  # beginnings without an end, after which a job is put aside
# A worker without a heartbeat for so many seconds is dead. The chats of a killed process wait that
# long, unless no other process lives (``JobRepository.delete_dead_workers``).
DEAD_AFTER = 10.0
# Up to so many seconds pass before the last attempt, so that few jobs run beside a killer then.
LAST_PAUSE = 10.0
RECURRING_PAUSE = 600.0  # seconds until recurring work that was put aside is tried again


@dataclass(frozen=True)
class PutAsideJob:
    """A job that was put aside; holds ids only.

    Attributes:
        id: Procrastinate's id of the job, as ``retry`` takes it.
        task: Name of the task.
        chat_id: The chat of the update that the job handles.
        conversation_id: The conversation that the job works on.
        since: Time at which it was put aside.
        deaths: Number of its process deaths.
    """

    id: int
    task: str
    chat_id: int | None
    conversation_id: str | None
    since: datetime
    deaths: int


# Jobs that are put aside, oldest first.
SELECT_PUT_ASIDE = """
SELECT j.id, j.task_name, u.chat_id, j.args ->> 'conversation_id', d.put_aside_at, d.deaths
FROM job_deaths d JOIN procrastinate_jobs j ON j.id = d.job_id
LEFT JOIN telegram_updates u ON u.id = (j.args ->> 'update')::bigint
WHERE d.put_aside_at IS NOT NULL
ORDER BY d.put_aside_at, j.id LIMIT 1000
"""

# Requeue jobs that are put aside, except running ones; reopen their updates and forget their
# deaths.
RETRY = """
WITH given AS (
    UPDATE procrastinate_jobs j SET status = 'todo', scheduled_at = NULL, attempts = 0
    FROM job_deaths d
    WHERE d.job_id = j.id AND d.put_aside_at IS NOT NULL AND j.status IN ('failed', 'todo')
      AND (%(id)s::bigint IS NULL OR j.id = %(id)s)
    RETURNING j.id, (j.args ->> 'update')::bigint AS update
), reopened AS (
    UPDATE telegram_updates u SET handled_at = NULL, outcome = NULL
    FROM given g WHERE u.id = g.update AND u.outcome = 'put aside'
)
DELETE FROM job_deaths d USING given g WHERE d.job_id = g.id
"""

# Number of jobs that are put aside.
COUNT_PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"

# Count one more death of a job that still runs on the worker (a process that rescued it first has
# changed that), and put it aside after the last one.
COUNT_DEATH = """
WITH stalled AS (
    SELECT id, queueing_lock FROM procrastinate_jobs
    WHERE id = %(job)s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %(worker)s
    FOR UPDATE
), counted AS (
    INSERT INTO job_deaths AS d (job_id) SELECT id FROM stalled
    ON CONFLICT (job_id) DO UPDATE
    SET deaths = d.deaths + 1,
        put_aside_at = CASE WHEN d.deaths + 1 >= %(most)s THEN coalesce(d.put_aside_at, now()) END
    RETURNING deaths
)
SELECT deaths, queueing_lock FROM counted, stalled
"""

# Delete the job that waits under the queueing lock: one does the work of both.
DELETE_DUPLICATE = """
DELETE FROM procrastinate_jobs WHERE queueing_lock = %(lock)s AND status = 'todo'
"""

# Requeue a job.
REQUEUE = """
SELECT procrastinate_retry_job_v2(%(job)s, now() + make_interval(secs => %(seconds)s),
                                  NULL, NULL, NULL)
"""

# The deaths of a running job that has got on since.
FORGET_DEATHS = "DELETE FROM job_deaths WHERE job_id = %(job)s"

# Mark a job as failed; it stays in the table until it is pruned or retried by an operator.
FAIL = "SELECT procrastinate_finish_job_v1(%(job)s, 'failed', false)"

# Close the update of a job that is put aside, so that its chat continues and no job defers it
# again. The payload stays, for a retry by an operator. The message is deleted with its undelivered
# answer: what is wrong with it would affect the next turn, too. Defer an apology to the user,
# before everything else of the chat.
CLOSE_UPDATE = """
WITH closed AS (
    UPDATE telegram_updates u SET handled_at = now(), outcome = 'put aside'
    FROM procrastinate_jobs j
    WHERE j.id = %(job)s AND j.task_name = 'handle_update'
      AND u.id = (j.args ->> 'update')::bigint AND u.handled_at IS NULL
    RETURNING u.id, u.bot_id, u.chat_id, u.thread_id, u.message_id, u.kind
), deleted AS (
    DELETE FROM messages m USING closed c
    WHERE c.kind = 'message' AND m.bot_id = c.bot_id AND m.chat_id = c.chat_id
      AND m.telegram_message_id = c.message_id
)
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW('control', 'apologise', 100, format('chat:%%s:%%s:%%s', bot_id, chat_id, thread_id), NULL,
        jsonb_build_object('update', id), NULL)::procrastinate_job_to_defer_v1])
FROM closed WHERE chat_id IS NOT NULL
"""


class JobDeathRepository(Repository):
    """Stores the deaths of jobs; every method blocks."""

    def rescue(self, job: int, worker: int | None) -> int | None:
        """Count the death of a stalled job, and requeue it or put it aside.

        A job that is put aside has failed, with an apology to the user of its update. Recurring
        work waits instead: under its queueing lock no other job of it can be deferred meanwhile.

        Args:
            job: Id of the job.
            worker: Id of the worker that runs it.

        Returns:
            The number of its deaths; None if it does not run on that worker any more.
        """

        def work(transaction: Transaction) -> int | None:
            row = transaction.fetch_one(COUNT_DEATH, job=job, worker=worker, most=MAX_DEATHS)
            if row is None:
                return None
            deaths, lock = row
            if lock is None and deaths >= MAX_DEATHS:
                transaction.execute(FAIL, job=job)
                transaction.execute(CLOSE_UPDATE, job=job)
                return int(deaths)
            pauses = {MAX_DEATHS - 1: random.uniform(0, LAST_PAUSE), MAX_DEATHS: RECURRING_PAUSE}
            transaction.execute(DELETE_DUPLICATE, lock=lock)
            seconds = pauses.get(min(deaths, MAX_DEATHS), 0.0)
            transaction.execute(REQUEUE, job=job, seconds=seconds)
            return int(deaths)

        return self._client.in_transaction(work)

    def forget(self, job: int) -> None:
        """Forget the deaths of a running job: it has stored a part of its work, so it kills none.

        Args:
            job: Id of the job.
        """
        self._client.execute(FORGET_DEATHS, job=job)

    def list_all(self) -> list[PutAsideJob]:
        """List the jobs that are put aside, oldest first, at most a thousand."""
        return self._all(PutAsideJob, SELECT_PUT_ASIDE)

    def count(self) -> int:
        """Return the number of jobs that are put aside."""
        return self._first(int, COUNT_PUT_ASIDE) or 0

    def retry(self, job: int | None = None) -> int:
        """Requeue jobs that are put aside and forget their deaths.

        Args:
            job: Id of one; None for all.

        Returns:
            The number of jobs.
        """
        return self._client.execute(RETRY, id=job)


class DeadJobs:
    """Finds the jobs of dead workers, with logs and metrics."""

    def __init__(self, app: App, client: PgClient, metrics: Metrics) -> None:
        """Find them in the queue of ``app``."""
        self._app = app
        self._client = client
        self._deaths = JobDeathRepository(client)
        self._metrics = metrics
        # Pairs of a job and the worker that runs it.
        self._suspected: set[tuple[int, int | None]] = set()  # by the last round
        self._ended: set[tuple[int, int | None]] = set()  # in this process

    async def note_end(
        self, call_next: Callable[[], Awaitable[Any]], context: JobContext, worker: Worker
    ) -> Any:
        """Worker middleware of procrastinate: note that a job has ended.

        Procrastinate stores its end afterwards, once. If the database is away at that moment, the
        job would run forever on a living worker and block its chat.
        """
        running = (context.job.id or 0, worker.worker_id)
        self._ended.discard(running)
        try:
            return await call_next()
        finally:
            self._ended.add(running)

    async def rescue(self) -> None:
        """Rescue the jobs without a worker, and those that also the last call has found.

        So after an outage of the database each living worker has time for a heartbeat.

        Raises:
            ConnectorException: The database is unavailable.
            StorageError: The same.
        """
        manager = self._app.job_manager
        stalled = await manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER)
        found = {(job.id or 0, job.worker_id) for job in stalled}
        ended = set(self._ended)
        doing = await manager.list_jobs_async(status="doing")
        running = {(job.id or 0, job.worker_id) for job in doing}
        self._ended -= ended - running
        found |= ended & running
        for job, worker in sorted(found, key=lambda one: one[0]):
            if worker is not None and (job, worker) not in self._suspected:
                continue
            deaths = await self._client.run(self._deaths.rescue, job, worker)
            if deaths is None:
                continue
            self._metrics.deaths.inc()
            log = {"job": job, "deaths": deaths}
            if deaths < MAX_DEATHS:
                logger.info("took up a job of a dead worker", extra=log)
            else:
                logger.error("put aside what kills its process: see bot.py jobs", extra=log)
        self._suspected = found
