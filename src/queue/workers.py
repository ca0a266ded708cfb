"""This process's procrastinate workers, retry delays and periodic tasks."""

import asyncio
import logging
import random
import select
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.jobs import Job
from procrastinate.utils import utcnow
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from src.base import errors
from src.pg.connection import LIBPQ_OPTIONS
from src.queue import job_repo
from src.queue.dead_jobs import DeadJobs

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


def _build_pool(**options: Any) -> AsyncConnectionPool[AsyncConnection[Any]]:
    return AsyncConnectionPool(**options | {"check": check_open})


async def _configure(connection: AsyncConnection[Any]) -> None:
    """Make each of procrastinate's statements a transaction, and limit its time."""
    await connection.set_autocommit(True)
    await connection.execute(LIMITS)


def build_queue(dsn: str) -> App:
    """Create procrastinate's app on the bot's database; callers register the tasks."""
    connector = PsycopgConnector(
        pool_factory=_build_pool,
        conninfo=dsn,
        min_size=1,
        max_size=QUEUE_CONNECTIONS,
        timeout=10.0,
        reconnect_timeout=RECONNECT_SECONDS,
        configure=_configure,
        kwargs={"application_name": job_repo.APPLICATION_NAME, **LIBPQ_OPTIONS},
    )
    return App(connector=connector)


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
