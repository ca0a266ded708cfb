"""Supervision of this process's procrastinate workers, retry delays and periodic tasks."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.jobs import Job, Notification
from procrastinate.utils import utcnow
from psycopg import OperationalError

from src.base import errors
from src.pg.async_connection import QueueConnection, limit, queue_pool
from src.pg.connection import LIBPQ_OPTIONS
from src.pg.locks import AdvisoryLock
from src.queue import job_repo
from src.queue.dead_jobs import DEAD_AFTER, HEARTBEAT_SECONDS, TRIAL_SECONDS, DeadJobs
from src.queue.woken_worker import WokenWorker

logger = logging.getLogger(__name__)

FIRST_PAUSE = 1.0  # seconds; doubled with every attempt
MAX_PAUSE = 60.0
UNKNOWN_PAUSE = 5.0  # minimum if a message may have arrived: no blind retry
REFUSED_PAUSE = 10.0  # minimum if Telegram refused a message for an unknown reason
MAX_REQUESTED_PAUSE = 86_400.0  # seconds; limits the delay that an error asks for


class BackOff(BaseRetryStrategy):
    """Retries transient errors and jobs that a shutdown interrupted.

    The number of attempts is up to the task, which raises another error to give up.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Retry at once after a shutdown, else after a delay."""
        if isinstance(exception, asyncio.CancelledError | JobAborted):
            return RetryDecision(retry_at=utcnow())
        if not isinstance(exception, errors.TransientError):
            return None
        return RetryDecision(
            retry_at=utcnow() + timedelta(seconds=retry_delay(exception, job.attempts))
        )


def retry_delay(error: errors.TransientError, attempts: int) -> float:
    """Return seconds until the next attempt, with jitter to spread the retries of many chats."""
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), MAX_REQUESTED_PAUSE)
    seconds: float = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(attempts, 16))
    if isinstance(error, errors.DeliveryUnknownError):
        seconds = max(seconds, UNKNOWN_PAUSE)
    if isinstance(error, errors.DeliveryRefusedError):
        seconds = max(seconds, REFUSED_PAUSE)
    return seconds * random.uniform(0.75, 1.25)


def schedule(
    cron: str, app: App, queue: str, name: str, work: Callable[[], Awaitable[None]],
    *, priority: int = 0,
) -> None:  # fmt: skip
    """Register ``work`` as a periodic task that runs on one worker at the times of ``cron``."""

    async def run(timestamp: int) -> None:  # noqa: ARG001
        await work()

    task = app.task(name=name, queue=queue, lock=name, queueing_lock=name, priority=priority)
    app.periodic(cron=cron)(task(run))


# Number of jobs by queue that can run now, and the seconds until the next check at the latest.
SELECT_DUE = """
SELECT (SELECT coalesce(json_object_agg(queue, jobs), '{}')
        FROM unnest(%(queues)s::text[]) AS q (queue) CROSS JOIN LATERAL (
            SELECT count(*) AS jobs FROM (
                SELECT 1 FROM procrastinate_jobs j
                WHERE j.queue_name = q.queue AND j.status = 'todo'
                  AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
                  AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs d
                                  WHERE d.lock = j.lock AND d.status = 'doing')
                LIMIT %(most)s) AS due) AS counted
        WHERE jobs > 0) AS due,
       (SELECT least(extract(epoch FROM min(scheduled_at) - now())::float, %(longest)s)
        FROM procrastinate_jobs
        WHERE status = 'todo' AND scheduled_at > now()) AS seconds
"""
MAX_COUNTED = 100  # due jobs per queue; the next check finds the others
MIN_CHECK_SECONDS = 0.5  # between two checks for due jobs
MAX_CHECK_SECONDS = 5.0  # finds jobs whose notification was lost
# Concurrency of the queues where it does not depend on the number of turns.
CONCURRENCY = {
    (job_repo.COMMANDS_QUEUE,): 16,  # they wait for Telegram and never for a model
    (job_repo.CONTROL_QUEUE, job_repo.HOUSEKEEPING_QUEUE): 4,
    (job_repo.REMINDERS_QUEUE,): 8,  # many are due at the same full hour
    (job_repo.MEMORY_QUEUE,): 3,
    (job_repo.DIGEST_QUEUE,): 3,  # conversations
}
# A shutdown interrupts these, as no user waits for them; they are retried at the next start.
BACKGROUND = (job_repo.MEMORY_QUEUE, job_repo.DIGEST_QUEUE)
BACKGROUND_SECONDS = 0.3  # to finish at a shutdown
TURN_QUEUES = (job_repo.TURNS_QUEUE, job_repo.BESIDE_QUEUE)
TURNS_PER_BESIDE_SLOT = 4  # slots of the turns' queue for each one of the beside queue
# Procrastinate deletes a dead worker after that; until then its jobs count as deaths.
FORGET_WORKER_SECONDS = 86_400.0
NEVER = FORGET_WORKER_SECONDS  # finds jobs of forgotten or unregistered workers only
RESTART_PAUSE = 1.0
QUEUE_CONNECTIONS = 8
# A pool retries to connect after 1, 2, 4, … seconds, up to this total; then the next caller starts
# over, so that none waits half a minute for a server that is back.
RECONNECT_SECONDS = 3.0


def build_queue(dsn: str) -> App:
    """Create procrastinate's app on the bot's database; callers register the tasks."""
    connector = PsycopgConnector(
        conninfo=dsn,
        min_size=1,
        max_size=QUEUE_CONNECTIONS,
        timeout=10.0,
        reconnect_timeout=RECONNECT_SECONDS,
        connection_class=QueueConnection,
        configure=limit,
        pool_factory=queue_pool,
        kwargs={"application_name": "pomni queue", **LIBPQ_OPTIONS},
    )
    return App(connector=connector)


@dataclass(eq=False, repr=False)
class Workers:
    """Runs jobs until stopped; a lost database connection costs a pause, not the process.

    Attributes:
        app: The queue, opened.
        alive: Lock shared by all processes with workers. A process that gets it exclusively knows
            that every running job is an orphan.
        trial: Held while this process closes its queues to try suspects, so that other processes
            keep theirs open.
        dead_jobs: Recovers orphans and tries suspects.
        concurrency: Number of turns that run concurrently; commands have slots of their own.
        shutdown_timeout: Seconds that running jobs get to finish; background jobs get less.
    """

    app: App
    alive: AdvisoryLock
    trial: AdvisoryLock
    dead_jobs: DeadJobs
    concurrency: int
    shutdown_timeout: float

    def __post_init__(self) -> None:
        """Close the queues until ``run`` opens them."""
        self.opened = asyncio.Event()  # set when the queues open for the first time
        self._stopping = asyncio.Event()
        self._closing = asyncio.Event()  # set while the queues are closed or closing
        self._closing.set()
        self._ended_ids: set[int] = set()  # ids of ended workers that are still registered
        self._workers: set[WokenWorker] = set()
        self._due_changed = asyncio.Event()  # a job may be due sooner than the last check found
        self._late_trials: set[asyncio.Future[None]] = set()  # those whose job exceeds its time

    def stop(self) -> None:
        """Take no more jobs; ``run`` returns when the running ones are done or timed out."""
        self._stopping.set()
        self._closing.set()

    async def run(self) -> None:
        """Work until stopped: first suspects alone, then all queues.

        Suspects are jobs that ran at two deaths of their process. If the process dies while one
        runs alone, that job is the cause.
        """
        works = (self._hold_alive_lock, self._send_heartbeats, self._wake_when_due, self._listen)
        side_tasks = {asyncio.ensure_future(work()) for work in works}
        while not self._stopping.is_set():
            await self._try_all_suspects()
            await asyncio.to_thread(self.trial.release)
            if not self._stopping.is_set():
                self._closing.clear()
                self.opened.set()
                await self._run_workers()
        while unfinished := {task for task in side_tasks if not task.done()}:
            for task in unfinished:  # they may be waiting for an unresponsive database
                task.cancel()
            # Cancel repeatedly, as Python 3.11 may swallow a cancel.
            await asyncio.wait(unfinished, timeout=RESTART_PAUSE)
        await asyncio.gather(*side_tasks, *self._late_trials, return_exceptions=True)
        await asyncio.to_thread(self.alive.release)

    async def _run_workers(self) -> None:
        beside_slots = max(1, self.concurrency // TURNS_PER_BESIDE_SLOT)
        turns, others = TURN_QUEUES
        limits = {(turns,): self.concurrency, (others,): beside_slots, **CONCURRENCY}
        await asyncio.gather(
            *(self._supervise(list(queues), limit) for queues, limit in limits.items())
        )

    async def _try_all_suspects(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(errors.StorageError):
                if await self._recover_own() and await self._try_suspects():
                    return
            await self._pause(RESTART_PAUSE)

    async def _try_suspects(self) -> bool:
        """Return True if every suspect has had its trial."""
        concurrency = await self.dead_jobs.begin_trial()
        if not concurrency:
            return True
        result = await self._run_worker([job_repo.TRIAL_QUEUE], concurrency, until=self._stopping)
        if isinstance(result, Exception):
            logger.warning("suspects have to wait", exc_info=result)
            return False
        if not self._stopping.is_set():
            await self.dead_jobs.acquit()  # those blocked by another job of their chat
        return True

    async def register_presence(self) -> None:
        """Take the lock of living workers; recover all orphaned jobs if no other process has it.

        Raises:
            StorageError: The database is unavailable.
        """
        is_alone = await asyncio.to_thread(self.alive.try_exclusive)
        if is_alone:
            await self.dead_jobs.recover(dead_after=0)
        await asyncio.to_thread(self.alive.take_shared)
        if is_alone:
            await asyncio.to_thread(self.alive.leave_exclusive)

    async def _hold_alive_lock(self) -> None:
        while not self._stopping.is_set():
            if self.alive.needs_check():
                await asyncio.to_thread(self.alive.check_alive)
            if not self.alive.is_connected():
                try:
                    await asyncio.to_thread(self.alive.try_shared)
                except errors.StorageError:
                    logger.warning("the database is away; the workers wait for it")
            await self._pause(RESTART_PAUSE)

    async def _listen(self) -> None:
        queues = [*TURN_QUEUES, job_repo.TRIAL_QUEUE, *chain.from_iterable(CONCURRENCY)]
        while not self._stopping.is_set():
            try:
                await self.app.job_manager.listen_for_jobs(
                    on_notification=self._forward_notification, queues=queues
                )
            except ConnectorException as error:
                logger.debug("cannot listen for jobs", exc_info=error)
            await self._pause(RESTART_PAUSE)

    async def _forward_notification(self, *, channel: str, notification: Notification) -> None:
        """Forward a notification to the workers of its queue, which ``channel`` names.

        Most jobs of the memory queue are scheduled for later, and none is urgent. So their
        insertions are not forwarded: the check for due jobs finds them.
        """
        queue = channel.partition("#")[2]
        is_ignored = queue == job_repo.MEMORY_QUEUE and notification["type"] == "job_inserted"
        for worker in self._workers:
            if queue in (worker.queues or ()) and not is_ignored:
                worker.handle_notification(notification)
        self._due_changed.set()

    async def _wake_when_due(self) -> None:
        """Wake workers for jobs without a notification, or with a lost one.

        These are scheduled jobs that become due, and jobs whose lock is released.
        """
        while not self._stopping.is_set():
            self._due_changed.clear()
            due, seconds = await self._count_due_jobs()
            for worker in self._workers:
                jobs = sum(due.get(queue, 0) for queue in worker.queues or ())
                if jobs:
                    worker.wake(jobs)
            await self._pause(MIN_CHECK_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, seconds - MIN_CHECK_SECONDS)):
                    await self._due_changed.wait()

    async def _count_due_jobs(self) -> tuple[dict[str, int], float]:
        queues = [queue for worker in self._workers for queue in worker.queues or ()]
        try:
            row = await self.app.connector.execute_query_one_async(
                SELECT_DUE, queues=queues, most=MAX_COUNTED, longest=MAX_CHECK_SECONDS
            )
        except ConnectorException as error:
            logger.debug("cannot look for due jobs", exc_info=error)
            return {}, MAX_CHECK_SECONDS
        return row["due"], row["seconds"]

    async def _send_heartbeats(self) -> None:
        """Send heartbeats and recover the jobs of dead workers.

        An unreachable database stops all heartbeats. So workers count as dead only after the
        database has answered steadily for as long as a heartbeat may be late.
        """
        last_answer, steady_since = -math.inf, math.inf
        while not self._stopping.is_set():
            try:
                now = time.monotonic()
                if now - last_answer > 2 * HEARTBEAT_SECONDS:  # a stall here or in the database
                    steady_since = now
                is_steady = now - steady_since >= DEAD_AFTER + HEARTBEAT_SECONDS
                after = DEAD_AFTER if is_steady else NEVER
                ids = [one.worker_id for one in self._workers if one.worker_id is not None]
                found = await self.dead_jobs.send_heartbeat(ids, dead_after=after)
                last_answer = now
                if found.jobs:
                    self._due_changed.set()
                if found.suspects:
                    await self._close_for_suspects()
            except (ConnectorException, OperationalError, errors.StorageError) as error:
                logger.debug("cannot look for dead workers", exc_info=error)
            await self._pause(HEARTBEAT_SECONDS)

    async def _close_for_suspects(self) -> None:
        """Close our queues if suspects are pending and no other process has closed its own.

        A job becomes a suspect during our lifetime when another process dies with it.
        """
        if self._closing.is_set():
            return
        if await asyncio.to_thread(self.trial.try_exclusive):
            self._closing.set()
        else:
            await asyncio.to_thread(self.trial.release)

    async def _supervise(self, queues: list[str], concurrency: int) -> None:
        has_ended = False
        while not self._closing.is_set():
            if has_ended and not await self._recover_own():
                await self._pause(RESTART_PAUSE)
                continue
            result = await self._run_worker(queues, concurrency, until=self._closing)
            if self._closing.is_set():
                return
            extra = {"queues": queues}
            logger.warning("a worker ended; starting another", extra=extra, exc_info=result)
            has_ended = True
            await self._pause(RESTART_PAUSE)

    async def _run_worker(
        self, queues: list[str], concurrency: int, *, until: asyncio.Event
    ) -> BaseException | None:
        """Run one worker until it ends or ``until`` is set; return its exception, if any."""
        worker = asyncio.ensure_future(self._process_queues(queues, concurrency))
        stop = asyncio.ensure_future(until.wait())
        await asyncio.wait(
            {worker, stop},
            timeout=TRIAL_SECONDS if queues == [job_repo.TRIAL_QUEUE] else None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        stop.cancel()
        if not worker.done():
            worker.cancel()  # procrastinate finishes the running jobs first
            for living in self._workers:
                if living.queues == queues:  # Python 3.11 may swallow a cancel while it registers
                    living.stop()  # type: ignore[no-untyped-call]
            if not until.is_set():
                self._late_trials.add(worker)  # the queues open although it still runs
                return None
        [result] = await asyncio.gather(worker, return_exceptions=True)
        return result

    async def _process_queues(self, queues: list[str], concurrency: int) -> None:
        """The worker of the trial queue ends when it is empty."""
        is_trial = queues == [job_repo.TRIAL_QUEUE]
        shutdown_timeout = self.shutdown_timeout
        if queues[0] in BACKGROUND:
            shutdown_timeout = min(shutdown_timeout, BACKGROUND_SECONDS)
        worker = WokenWorker(
            self.app,
            queues=queues,
            name=f"pomni-{queues[0]}",
            concurrency=concurrency,
            wait=not is_trial,
            listen_notify=False,
            on_end=self._due_changed.set,
            is_clock=job_repo.HOUSEKEEPING_QUEUE in queues,
            fetch_job_polling_interval=NEVER,
            shutdown_graceful_timeout=shutdown_timeout,
            update_heartbeat_interval=NEVER,
            stalled_worker_timeout=FORGET_WORKER_SECONDS,
            worker_middleware=[self.dead_jobs.try_alone] if is_trial else [],
            delete_jobs="successful",
            install_signal_handlers=False,
        )
        self._workers.add(worker)
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            self._workers.discard(worker)
            if worker.worker_id is not None:
                self._ended_ids.add(worker.worker_id)

    async def _recover_own(self) -> bool:
        """Requeue the jobs of our ended workers; other processes would recover them only later.

        Returns:
            True if the database is available and the jobs are requeued, before the next worker
            starts.
        """
        try:
            for worker_id in sorted(self._ended_ids):
                await self.app.job_manager.unregister_worker(worker_id)
                self._ended_ids.discard(worker_id)
            await self.dead_jobs.recover(dead_after=NEVER, counts=False)
        except (ConnectorException, OperationalError, errors.StorageError):
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
