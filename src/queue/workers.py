"""The workers of this process: procrastinate, supervised; and when a job is tried again."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
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
UNKNOWN_PAUSE = 5.0  # the least, when a message may have arrived: no blind retry
REFUSED_PAUSE = 10.0  # the least, when Telegram refused a message without a reason that we know
MAX_WISH = 86_400.0  # seconds; no wait is longer than a day


class BackOff(BaseRetryStrategy):
    """Tries again what is transient, and what a shutdown interrupted.

    How often is the task's own decision: it raises something else when it gives up.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """At once after a shutdown, else after a pause."""
        if isinstance(exception, asyncio.CancelledError | JobAborted):
            return RetryDecision(retry_at=utcnow())
        if not isinstance(exception, errors.TransientError):
            return None
        return RetryDecision(retry_at=utcnow() + timedelta(seconds=pause(exception, job.attempts)))


def pause(error: errors.TransientError, attempts: int) -> float:
    """Seconds until the next attempt, with jitter so that chats do not all come back at once."""
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), MAX_WISH)
    seconds: float = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(attempts, 16))
    if isinstance(error, errors.DeliveryUnknownError):
        seconds = max(seconds, UNKNOWN_PAUSE)
    if isinstance(error, errors.DeliveryRefusedError):
        seconds = max(seconds, REFUSED_PAUSE)
    return seconds * random.uniform(0.75, 1.25)


def every(
    cron: str, app: App, queue: str, name: str, work: Callable[[], Awaitable[None]],
    *, priority: int = 0,
) -> None:  # fmt: skip
    """Have ``work`` done at the times of ``cron`` by whichever worker comes first."""

    async def run(timestamp: int) -> None:  # noqa: ARG001
        await work()

    task = app.task(name=name, queue=queue, lock=name, queueing_lock=name, priority=priority)
    app.periodic(cron=cron)(task(run))


# How many jobs of each queue can run now, and in how many seconds the next one is due.
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
       (SELECT extract(epoch FROM min(scheduled_at) - now())::float FROM procrastinate_jobs
        WHERE status = 'todo' AND scheduled_at > now()) AS seconds
"""
MOST_COUNTED = 100  # jobs of a queue; the rest is found by the next look
LOOK_SECONDS = 0.5  # the least between two looks
POLL_SECONDS = 5.0  # the most: who was not heard is found then
# How many jobs run side by side, where that does not depend on the number of turns.
CONCURRENCY = {
    (job_repo.COMMANDS_QUEUE,): 16,  # they wait for Telegram and never for a model
    (job_repo.CONTROL_QUEUE, job_repo.HOUSEKEEPING_QUEUE): 4,
    (job_repo.REMINDERS_QUEUE,): 8,  # as many have to be sent at nine in the morning
    (job_repo.MEMORY_QUEUE,): 3,
    (job_repo.DIGEST_QUEUE,): 3,  # conversations
}
# Nobody waits for these: a shutdown interrupts them, and they begin again at the next start.
BACKGROUND = (job_repo.MEMORY_QUEUE, job_repo.DIGEST_QUEUE)
BACKGROUND_SECONDS = 0.3  # that they get to finish
TURN_QUEUES = (job_repo.TURNS_QUEUE, job_repo.BESIDE_QUEUE)
BESIDE_SHARE = 4  # one slot to so many turns, for all who want something in several chats at once
# Procrastinate forgets a dead worker then; until it does, its jobs are known to have died.
FORGET_WORKER_SECONDS = 86_400.0
NEVER = FORGET_WORKER_SECONDS  # finds jobs of forgotten or unregistered workers only
RESTART_PAUSE = 1.0
QUEUE_CONNECTIONS = 8
# An attempt to connect is repeated after 1, 2, 4, … seconds, for so long; then the next caller
# starts anew, so that none waits half a minute for a server that is back.
RECONNECT_SECONDS = 3.0


def build_queue(dsn: str) -> App:
    """Procrastinate's app on the same database; the tasks are registered by their owners."""
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


class Workers:
    """Runs jobs until told to stop; a lost database costs a pause, not the process."""

    def __init__(
        self,
        app: App,
        alive: AdvisoryLock,
        trial: AdvisoryLock,
        dead_jobs: DeadJobs,
        *,
        concurrency: int,
        shutdown_timeout: float,
    ) -> None:
        """Run the jobs of ``app``.

        Args:
            app: The queue, opened.
            alive: Held together with the other workers' while this one lives: who gets it alone
                knows that every running job is an orphan.
            trial: Held while this process closes its queues to try suspects, so that others
                keep theirs open.
            dead_jobs: Gives orphans back, and knows the suspects.
            concurrency: How many turns run side by side; commands have places of their own.
            shutdown_timeout: Seconds that running jobs get to finish; those of the memory hardly
                any.
        """
        self._app = app
        self._alive = alive
        self._trial = trial
        self._dead_jobs = dead_jobs
        self._concurrency = concurrency
        self._shutdown_timeout = shutdown_timeout
        self.opened = asyncio.Event()  # set as soon as the queues are worked off
        self._stopping = asyncio.Event()
        self._closing = asyncio.Event()  # the queues are closed, or are to be
        self._closing.set()
        self._ended: set[int] = set()  # our workers that the database does not know have ended
        self._living: set[WokenWorker] = set()
        self._changed = asyncio.Event()  # something may be due sooner than the last look said
        self._late: set[asyncio.Future[None]] = set()  # trials whose job does not end

    def stop(self) -> None:
        """Take no more jobs; ``run`` returns when the running ones are done or out of time."""
        self._stopping.set()
        self._closing.set()

    async def run(self) -> None:
        """Work until told to stop: suspects alone, then everything else.

        Suspects are jobs that ran at two deaths of their process. Whoever dies now has done it.
        """
        presence = asyncio.ensure_future(self._hold_presence())
        watch = asyncio.ensure_future(self._watch_others())
        due = asyncio.ensure_future(self._wake_when_due())
        ear = asyncio.ensure_future(self._listen())
        while not self._stopping.is_set():
            await self._try_all_suspects()
            await asyncio.to_thread(self._trial.release)
            if not self._stopping.is_set():
                self._closing.clear()
                self.opened.set()
                await self._work()
        side_tasks = {presence, watch, due, ear}
        while left := {task for task in side_tasks if not task.done()}:
            for task in left:  # they may be waiting for a database that says nothing
                task.cancel()
            await asyncio.wait(left, timeout=RESTART_PAUSE)  # Python 3.11 may swallow a cancel
        await asyncio.gather(*side_tasks, *self._late, return_exceptions=True)
        await asyncio.to_thread(self._alive.release)

    async def _work(self) -> None:
        """Work off all queues side by side until they are to be closed."""
        beside = max(1, self._concurrency // BESIDE_SHARE)
        turns, others = TURN_QUEUES
        limits = {(turns,): self._concurrency, (others,): beside, **CONCURRENCY}
        await asyncio.gather(
            *(self._supervise(list(queues), limit) for queues, limit in limits.items())
        )

    async def _try_all_suspects(self) -> None:
        """Try suspects until none is left, however often the database goes away."""
        while not self._stopping.is_set():
            with contextlib.suppress(errors.StorageError):
                if await self._recover_own() and await self._try_suspects():
                    return
            await self._pause(RESTART_PAUSE)

    async def _try_suspects(self) -> bool:
        """Whether every suspect has had its trial."""
        at_once = await self._dead_jobs.begin_trial()
        if not at_once:
            return True
        ended = await self._run_worker([job_repo.QUARANTINE_QUEUE], at_once, until=self._stopping)
        if isinstance(ended, Exception):
            logger.warning("suspects have to wait", exc_info=ended)
            return False
        if not self._stopping.is_set():
            await self._dead_jobs.acquit()  # who could not run yet: a job of the same chat waits
        return True

    async def announce(self) -> None:
        """Take the workers' lock; the only worker gives every orphaned job back to the queue.

        Raises:
            StorageError: The database is away.
        """
        alone = await asyncio.to_thread(self._alive.try_exclusive)
        if alone:
            await self._dead_jobs.recover(dead_after=0)
        await asyncio.to_thread(self._alive.take_shared)
        if alone:
            await asyncio.to_thread(self._alive.leave_exclusive)

    async def _hold_presence(self) -> None:
        """Take the lock again when its connection was lost."""
        while not self._stopping.is_set():
            if self._alive.needs_proof():
                await asyncio.to_thread(self._alive.prove)
            if not self._alive.is_connected():
                try:
                    await asyncio.to_thread(self._alive.try_shared)
                except errors.StorageError:
                    logger.warning("the database is away; the workers wait for it")
            await self._pause(RESTART_PAUSE)

    async def _listen(self) -> None:
        """Tell the workers which jobs come; one connection hears for all of them."""
        queues = [*TURN_QUEUES, job_repo.QUARANTINE_QUEUE, *chain.from_iterable(CONCURRENCY)]
        while not self._stopping.is_set():
            try:
                await self._app.job_manager.listen_for_jobs(
                    on_notification=self._tell, queues=queues
                )
            except ConnectorException as error:
                logger.debug("cannot listen for jobs", exc_info=error)
            await self._pause(RESTART_PAUSE)

    async def _tell(self, *, channel: str, notification: Notification) -> None:
        """Pass a notification on, ``channel`` being the queue's.

        Most jobs of the memory are for later, and for none of them anybody waits: the look that
        tells when they are due finds them.
        """
        queue = channel.partition("#")[2]
        is_for_look = queue == job_repo.MEMORY_QUEUE and notification["type"] == "job_inserted"
        for worker in self._living:
            if queue in (worker.queues or ()) and not is_for_look:
                worker.hear(notification)
        self._changed.set()

    async def _wake_when_due(self) -> None:
        """Wake workers for what sends no notification, or was not heard.

        That is a job whose time has come, or whose chat's lock is free again.
        """
        while not self._stopping.is_set():
            self._changed.clear()
            due, seconds = await self._look_for_due()
            for worker in self._living:
                jobs = sum(due.get(queue, 0) for queue in worker.queues or ())
                if jobs:
                    worker.wake(jobs)
            await self._pause(LOOK_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(seconds, POLL_SECONDS) - LOOK_SECONDS)):
                    await self._changed.wait()

    async def _look_for_due(self) -> tuple[dict[str, int], float]:
        """How many jobs of each queue are due, and the seconds until the next one is."""
        queues = [queue for worker in self._living for queue in worker.queues or ()]
        try:
            found = await self._app.connector.execute_query_one_async(
                SELECT_DUE, queues=queues, most=MOST_COUNTED
            )
        except ConnectorException as error:
            logger.debug("cannot look for due jobs", exc_info=error)
            return {}, POLL_SECONDS
        seconds = found["seconds"]
        return found["due"], POLL_SECONDS if seconds is None else seconds

    async def _watch_others(self) -> None:
        """Give the jobs of dead workers back.

        A database that cannot be reached ends all heartbeats, so the dead are told from the
        living only after it has answered us steadily for as long as a heartbeat may be late.
        """
        last, steady_since = -math.inf, math.inf
        while not self._stopping.is_set():
            try:
                looked = time.monotonic()
                if looked - last > 2 * HEARTBEAT_SECONDS:  # it, or we, stood still
                    steady_since = looked
                is_steady = looked - steady_since >= DEAD_AFTER + HEARTBEAT_SECONDS
                after = DEAD_AFTER if is_steady else NEVER
                found = await self._dead_jobs.show_life(self._worker_ids(), dead_after=after)
                last = looked
                if found.jobs:
                    self._changed.set()
                if found.suspects:
                    await self._close_for_suspects()
            except (ConnectorException, OperationalError, errors.StorageError) as error:
                logger.debug("cannot look for dead workers", exc_info=error)
            await self._pause(HEARTBEAT_SECONDS)

    def _worker_ids(self) -> list[int]:
        """Of all workers, also those that take no more jobs."""
        return [w.worker_id for w in self._living if w.worker_id is not None]

    async def _close_for_suspects(self) -> None:
        """Close our queues when suspects wait and no other process has closed its own for them.

        A job becomes a suspect while we live when it dies in another process.
        """
        if self._closing.is_set():
            return
        if await asyncio.to_thread(self._trial.try_exclusive):
            self._closing.set()
        else:
            await asyncio.to_thread(self._trial.release)

    async def _supervise(self, queues: list[str], concurrency: int) -> None:
        """Run a worker, and another one whenever it ended without being told to."""
        has_ended = False
        while not self._closing.is_set():
            if has_ended and not await self._recover_own():
                await self._pause(RESTART_PAUSE)
                continue
            ended = await self._run_worker(queues, concurrency, until=self._closing)
            if self._closing.is_set():
                return
            extra = {"queues": queues}
            logger.warning("a worker ended; starting another", extra=extra, exc_info=ended)
            has_ended = True
            await self._pause(RESTART_PAUSE)

    async def _run_worker(
        self, queues: list[str], concurrency: int, *, until: asyncio.Event
    ) -> BaseException | None:
        """Run one worker until it ends, or has to; returns what it ended with."""
        worker = asyncio.ensure_future(self._work_off(queues, concurrency))
        stop = asyncio.ensure_future(until.wait())
        await asyncio.wait(
            {worker, stop},
            timeout=TRIAL_SECONDS if queues == [job_repo.QUARANTINE_QUEUE] else None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        stop.cancel()
        if not worker.done():
            worker.cancel()  # procrastinate finishes the running jobs first
            for each in self._living:
                if each.queues == queues:  # Python 3.11 may swallow a cancel while it registers
                    each.stop()  # type: ignore[no-untyped-call]
            if not until.is_set():
                self._late.add(worker)  # the others go on beside it
                return None
        [ended] = await asyncio.gather(worker, return_exceptions=True)
        return ended

    async def _work_off(self, queues: list[str], concurrency: int) -> None:
        """Run one worker; the quarantine's ends when its queue is empty."""
        is_trial = queues == [job_repo.QUARANTINE_QUEUE]
        patience = self._shutdown_timeout
        if queues[0] in BACKGROUND:
            patience = min(patience, BACKGROUND_SECONDS)
        worker = WokenWorker(
            self._app,
            queues=queues,
            name=f"pomni-{queues[0]}",
            concurrency=concurrency,
            wait=not is_trial,
            listen_notify=False,
            on_end=self._changed.set,
            is_clock=job_repo.HOUSEKEEPING_QUEUE in queues,
            fetch_job_polling_interval=NEVER,
            shutdown_graceful_timeout=patience,
            update_heartbeat_interval=NEVER,
            stalled_worker_timeout=FORGET_WORKER_SECONDS,
            worker_middleware=[self._dead_jobs.try_alone] if is_trial else [],
            delete_jobs="successful",
            install_signal_handlers=False,
        )
        self._living.add(worker)
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            self._living.discard(worker)
            if worker.worker_id is not None:
                self._ended.add(worker.worker_id)

    async def _recover_own(self) -> bool:
        """Give back what our ended workers left: others would not before they seem dead.

        Returns:
            Whether the database is there; the jobs are given back before the next worker begins.
        """
        try:
            for worker_id in sorted(self._ended):
                await self._app.job_manager.unregister_worker(worker_id)
                self._ended.discard(worker_id)
            await self._dead_jobs.recover(dead_after=NEVER, counts=False)
        except (ConnectorException, OperationalError, errors.StorageError):
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
