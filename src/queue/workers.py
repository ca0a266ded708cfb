"""The workers of this process: procrastinate, supervised; and when a job is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from datetime import timedelta

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.jobs import Job
from procrastinate.utils import utcnow
from procrastinate.worker import Worker
from psycopg import OperationalError

from src.base.errors import (
    DeliveryRefusedError,
    DeliveryUnknownError,
    StorageError,
    TransientError,
)
from src.pg.async_connection import QueueConnection, limit, queue_pool
from src.pg.connection import LIBPQ_OPTIONS
from src.pg.locks import AdvisoryLock
from src.queue.dead_jobs import DEAD_AFTER, HEARTBEAT_SECONDS, TRIAL_SECONDS, DeadJobs
from src.queue.job_repo import (
    BESIDE_QUEUE,
    COMMANDS_QUEUE,
    CONTROL_QUEUE,
    DIGEST_QUEUE,
    HOUSEKEEPING_QUEUE,
    MEMORY_QUEUE,
    QUARANTINE_QUEUE,
    REMINDERS_QUEUE,
    TURNS_QUEUE,
)

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
        if not isinstance(exception, TransientError):
            return None
        return RetryDecision(retry_at=utcnow() + timedelta(seconds=pause(exception, job.attempts)))


def pause(error: TransientError, attempts: int) -> float:
    """Seconds until the next attempt, with jitter so that chats do not all come back at once."""
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), MAX_WISH)
    seconds: float = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(attempts, 16))
    if isinstance(error, DeliveryUnknownError):
        seconds = max(seconds, UNKNOWN_PAUSE)
    if isinstance(error, DeliveryRefusedError):
        seconds = max(seconds, REFUSED_PAUSE)
    return seconds * random.uniform(0.75, 1.25)


# Jobs arrive by notification; a notification that comes while the worker is asking for a job is
# lost (procrastinate clears its flag after asking), and a job whose chat's lock becomes free sends
# none. So each queue is also polled, every so many seconds; a poll takes 0.3 ms.
POLL_SECONDS = {TURNS_QUEUE: 0.03, MEMORY_QUEUE: 0.5, DIGEST_QUEUE: 0.5}
OTHER_POLL_SECONDS = 0.1
# How many jobs run side by side, where that does not depend on the number of turns.
CONCURRENCY = {
    (COMMANDS_QUEUE,): 16,  # they wait for Telegram and never for a model
    (CONTROL_QUEUE, HOUSEKEEPING_QUEUE): 4,
    (REMINDERS_QUEUE,): 8,  # as many have to be sent at nine in the morning
    (MEMORY_QUEUE,): 3,
    (DIGEST_QUEUE,): 3,  # conversations
}
# Nobody waits for these: a shutdown interrupts them, and they begin again at the next start.
BACKGROUND = (MEMORY_QUEUE, DIGEST_QUEUE)
BACKGROUND_SECONDS = 0.3  # that they get to finish
BESIDE_SHARE = 4  # one slot to so many turns, for all who want something in several chats at once
CHECK_SECONDS = 2.0  # between two checks for dead workers
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
        self._living: set[Worker] = set()
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
        while not self._stopping.is_set():
            await self._try_all_suspects()
            await asyncio.to_thread(self._trial.release)
            if not self._stopping.is_set():
                self._closing.clear()
                self.opened.set()
                await self._work()
        for task in (presence, watch):  # they may be waiting for a database that says nothing
            task.cancel()
        await asyncio.gather(presence, watch, *self._late, return_exceptions=True)
        await asyncio.to_thread(self._alive.release)

    async def _work(self) -> None:
        """Work off all queues side by side until they are to be closed."""
        beside = max(1, self._concurrency // BESIDE_SHARE)
        every = {(TURNS_QUEUE,): self._concurrency, (BESIDE_QUEUE,): beside, **CONCURRENCY}
        await asyncio.gather(
            *(self._supervise(list(queues), limit) for queues, limit in every.items())
        )

    async def _try_all_suspects(self) -> None:
        """Try suspects until none is left, however often the database goes away."""
        while not self._stopping.is_set():
            with contextlib.suppress(StorageError):
                if await self._recover_own() and await self._try_suspects():
                    return
            await self._pause(RESTART_PAUSE)

    async def _try_suspects(self) -> bool:
        """Whether every suspect has had its trial."""
        at_once = await self._dead_jobs.begin_trial()
        if not at_once:
            return True
        ended = await self._run_worker([QUARANTINE_QUEUE], at_once, until=self._stopping)
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
                except StorageError:
                    logger.warning("the database is away; the workers wait for it")
            await self._pause(RESTART_PAUSE)

    async def _watch_others(self) -> None:
        """Give the jobs of dead workers back.

        A database that cannot be reached ends all heartbeats, so the dead are told from the
        living only after it has answered us steadily for as long as a heartbeat may be late.
        """
        last, steady_since = -math.inf, math.inf
        while not self._stopping.is_set():
            try:
                looked = time.monotonic()
                await self._beat_for_draining()
                if looked - last > 2 * CHECK_SECONDS:  # it, or we, stood still
                    steady_since = looked
                is_steady = looked - steady_since >= DEAD_AFTER + HEARTBEAT_SECONDS
                await self._dead_jobs.recover(dead_after=DEAD_AFTER if is_steady else NEVER)
                last = looked
                await self._close_for_suspects()
            except (ConnectorException, OperationalError, StorageError) as error:
                logger.debug("cannot look for dead workers", exc_info=error)
            await self._pause(CHECK_SECONDS)

    async def _beat_for_draining(self) -> None:
        """Keep draining workers from seeming dead: procrastinate ends their heartbeats."""
        for worker in list(self._living):
            is_draining = self._closing.is_set() or worker.queues == [QUARANTINE_QUEUE]
            if is_draining and worker.worker_id is not None:
                await self._app.job_manager.update_heartbeat(worker.worker_id)

    async def _close_for_suspects(self) -> None:
        """Close our queues when suspects wait and no other process has closed its own for them.

        A job becomes a suspect while we live when it dies in another process.
        """
        if self._closing.is_set() or not await self._dead_jobs.has_suspects():
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
            timeout=TRIAL_SECONDS if queues == [QUARANTINE_QUEUE] else None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        stop.cancel()
        if not worker.done():
            worker.cancel()  # procrastinate finishes the running jobs first
            if not until.is_set():
                self._late.add(worker)  # the others go on beside it
                return None
        [ended] = await asyncio.gather(worker, return_exceptions=True)
        return ended

    async def _work_off(self, queues: list[str], concurrency: int) -> None:
        """Run one worker; the quarantine's ends when its queue is empty."""
        is_trial = queues == [QUARANTINE_QUEUE]
        patience = self._shutdown_timeout
        if queues[0] in BACKGROUND:
            patience = min(patience, BACKGROUND_SECONDS)
        worker = Worker(
            self._app,
            queues=queues,
            name=f"pomni-{queues[0]}",
            concurrency=concurrency,
            wait=not is_trial,
            fetch_job_polling_interval=POLL_SECONDS.get(queues[0], OTHER_POLL_SECONDS),
            shutdown_graceful_timeout=patience,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
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
        except (ConnectorException, OperationalError, StorageError):
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
