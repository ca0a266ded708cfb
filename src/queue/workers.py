"""This process's procrastinate workers, retry delays, periodic tasks, rescue of dead jobs."""

import asyncio
import logging
import random
import select
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.jobs import Job
from procrastinate.utils import utcnow
from procrastinate.worker import Worker
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from src.base import errors
from src.base.metrics import Metrics
from src.pg.client import LIBPQ_OPTIONS, PgClient
from src.queue import job_repo

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
        seconds = 0.0
        if isinstance(exception, errors.TransientError):
            seconds = retry_delay(exception, job.attempts)
        elif not isinstance(exception, asyncio.CancelledError | JobAborted):
            return None
        return RetryDecision(retry_at=utcnow() + timedelta(seconds=seconds))


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
    cron: str,
    app: App,
    queue: str,
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    priority: int = 0,
) -> None:
    """Register ``work`` as a periodic task that runs on one worker at the times of ``cron``."""

    async def run(timestamp: int) -> None:  # noqa: ARG001
        await work()

    task = app.task(name=name, queue=queue, lock=name, queueing_lock=name, priority=priority)
    app.periodic(cron=cron)(task(run))


# Attempts to reach the database that a pool makes, in seconds; then the next caller starts over.
RECONNECT_SECONDS = 3.0
QUEUE_CONNECTIONS = 8
LIMITS = "SELECT set_config('statement_timeout', '10s', false)"
HEARTBEAT_SECONDS = 5.0
FORGET_WORKER_SECONDS = 600.0  # without a heartbeat, until a starting worker deletes another one
RESCUE_SECONDS = 5.0  # between two searches for dead workers
RESTART_PAUSE = 1.0
CONTROL_SLOTS = 16
BACKGROUND_SLOTS = 4
# Seconds between two looks for jobs of which no notification tells: retries and reminders that
# become due, and those whose notification was lost.
POLLING = 4.0
# Seconds that background jobs get at a shutdown: no user waits for them, and the next start
# retries them.
BACKGROUND_SECONDS = 0.3


async def check_open(connection: AsyncConnection[Any]) -> None:
    """Check a connection of which the server has said something: an idle one is silent.

    Procrastinate's own check asks the server each time, which is a third of a turn's transactions.

    Raises:
        Error: The server has closed it.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(connection)


def build_queue(dsn: str) -> App:
    """Create procrastinate's app on the bot's database; callers register the tasks."""

    def build_pool(**options: Any) -> AsyncConnectionPool[AsyncConnection[Any]]:
        return AsyncConnectionPool(**options | {"check": check_open})

    async def configure(connection: AsyncConnection[Any]) -> None:
        await connection.set_autocommit(True)  # each statement is a transaction
        await connection.execute(LIMITS)

    connector = PsycopgConnector(
        pool_factory=build_pool,
        conninfo=dsn,
        min_size=1,
        max_size=QUEUE_CONNECTIONS,
        timeout=10.0,
        reconnect_timeout=RECONNECT_SECONDS,
        configure=configure,
        kwargs={"application_name": job_repo.APPLICATION_NAME, **LIBPQ_OPTIONS},
    )
    return App(connector=connector)


# A worker without a heartbeat for so many seconds is dead. The chats of a killed process wait that
# long, unless no other process lives (``JobRepository.delete_dead_workers``).
DEAD_AFTER = 10.0


class DeadJobs:
    """Finds the jobs of dead workers, with logs and metrics."""

    def __init__(self, app: App, client: PgClient, metrics: Metrics) -> None:
        """Find them in the queue of ``app``."""
        self._app = app
        self._client = client
        self._deaths = job_repo.JobDeathRepository(client)
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
            if deaths < job_repo.MAX_DEATHS:
                logger.info("took up a job of a dead worker", extra=log)
            else:
                logger.error("put aside what kills its process: see bot.py jobs", extra=log)
        self._suspected = found


@dataclass(frozen=True)
class Workers:
    """Three workers of procrastinate: for people, for control and for the background.

    A lost database connection costs a pause, not the process.

    Attributes:
        app: The queue, opened.
        dead_jobs: Rescues the jobs of dead workers.
        concurrency: Number of turns that run concurrently.
        shutdown_timeout: Seconds that running jobs get to finish; background jobs get less.
    """

    app: App
    dead_jobs: DeadJobs
    concurrency: int
    shutdown_timeout: float

    async def run(self) -> None:
        """Work until cancelled; then the running jobs get time to finish."""
        timeout = self.shutdown_timeout
        short = min(timeout, BACKGROUND_SECONDS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rescue())
            group.create_task(self._work(job_repo.PEOPLE_QUEUE, self.concurrency, timeout))
            group.create_task(self._work(job_repo.CONTROL_QUEUE, CONTROL_SLOTS, timeout))
            group.create_task(self._work(job_repo.BACKGROUND_QUEUE, BACKGROUND_SLOTS, short))

    async def _work(self, queue: str, concurrency: int, shutdown_timeout: float) -> None:
        while True:
            try:
                await self.app.run_worker_async(
                    queues=[queue],
                    name=f"pomni-{queue}",
                    concurrency=concurrency,
                    fetch_job_polling_interval=POLLING,
                    shutdown_graceful_timeout=shutdown_timeout,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=FORGET_WORKER_SECONDS,
                    worker_middleware=[self.dead_jobs.note_end],
                    delete_jobs="successful",
                    install_signal_handlers=False,
                )
            except ConnectorException as error:
                log = {"queue": queue}
                logger.warning("a worker ended; starting another", extra=log, exc_info=error)
            await asyncio.sleep(RESTART_PAUSE)

    async def _rescue(self) -> None:
        while True:
            try:
                await self.dead_jobs.rescue()
            except (ConnectorException, errors.StorageError) as error:
                logger.debug("cannot look for dead workers", exc_info=error)
            await asyncio.sleep(RESCUE_SECONDS)
