"""A worker of procrastinate's that asks the database for jobs only while there may be one."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from procrastinate import App, JobContext
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg import OperationalError
from psycopg.errors import RaiseException

from src.queue.update_repo import BEHIND, FETCH_JOB

logger = logging.getLogger(__name__)

MANY = 1 << 30  # jobs: nobody knows how many
# In the additional context of a job: the update that it handles, as it was fetched with it (None:
# it is to be read), and whether the job ended with it.
WAITING, FINISHED = "waiting", "finished"
END_PAUSE = 1.0  # seconds until the end of a job is said once more to a database that was away


class AnnouncedJobs(JobManager):
    """Asks the database for jobs only while there may be one: each is announced to its queue.

    Attributes:
        is_blocked: Whether an announced job could not be had: another one may hold its lock.
        waiting: Of the jobs that were taken, by their ids, the updates that came along.
    """

    def __init__(self, connector: BaseConnector) -> None:
        """Nobody knows yet what waits."""
        super().__init__(connector)
        self._expected = MANY
        self.is_blocked = False
        self.waiting: dict[int, dict[str, Any]] = {}

    @property
    def expects_any(self) -> bool:
        """Whether there may be one."""
        return self._expected > 0

    def announce(self, jobs: int) -> None:
        """So many jobs may have come."""
        self._expected += jobs

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """See ``JobManager``."""
        expected = self._expected
        if not expected:
            return None
        row = await self.connector.execute_query_one_async(
            FETCH_JOB, queues=queues, worker_id=worker_id, **BEHIND
        )
        job = None if row["id"] is None else Job.from_row(row)
        if row["waiting"] is not None:
            self.waiting[row["id"]] = row["waiting"]
        self._expected -= 1 if job else expected
        self.is_blocked = job is None and expected < MANY
        return job


class WokenWorker(Worker):
    """Procrastinate's worker, which can be woken, and sleeps through no notification."""

    def __init__(
        self, app: App, *, on_end: Callable[[], None], is_clock: bool, **kwargs: Any
    ) -> None:
        """As procrastinate's.

        Args:
            app: The queue.
            on_end: Called when a job has ended: another may be due, now or later.
            is_clock: Whether it queues the periodic jobs; one worker does for all.
            kwargs: Of procrastinate's worker.
        """
        own = copy(app)
        own.job_manager = self._jobs = AnnouncedJobs(app.connector)
        super().__init__(own, **kwargs)
        self._on_end = on_end
        self._is_clock = is_clock

    def wake(self, jobs: int = MANY) -> None:
        """Ask for jobs now; once more, if it is asking just then."""
        self._jobs.announce(jobs)
        self._new_job_event.set()

    def hear(self, notification: Notification) -> None:
        """Take what the listener of this process was told about a job of this worker's queues."""
        if notification["type"] == "job_inserted":
            self.wake(1)
        else:
            self._handle_abort_jobs_requested([notification["job_id"]])

    async def _periodic_deferrer(self) -> None:
        if self._is_clock:
            await super()._periodic_deferrer()  # type: ignore[no-untyped-call]
        await asyncio.Event().wait()  # a side task that ends would leave the others unwatched

    async def _fetch_and_process_jobs(self) -> None:
        """Ask again when woken meanwhile: procrastinate forgets then that it was."""
        while self._jobs.expects_any and not self._stop_event.is_set():
            await super()._fetch_and_process_jobs()  # type: ignore[no-untyped-call]

    async def _persist_job_status(self, *args: Any, **kwargs: Any) -> None:
        """Say how a job ended as often as it takes: while we live nobody else gives it back."""
        if kwargs["context"].additional_context.get(FINISHED):
            self._job_ids_to_abort.pop(kwargs["job"].id, None)
            return
        while True:
            try:
                await super()._persist_job_status(*args, **kwargs)
            except ConnectorException as error:
                if isinstance(error.__cause__, RaiseException):
                    return  # the job is gone: we were interrupted while it ended with its update
                if self._stop_event.is_set() or not isinstance(error.__cause__, OperationalError):
                    raise
                logger.debug("the end of a job waits for the database", exc_info=error)
                await asyncio.sleep(END_PAUSE)
            else:
                return

    async def _process_job(self, context: JobContext) -> None:
        waiting = self._jobs.waiting.pop(context.job.id or 0, None)
        context.additional_context[WAITING] = waiting
        try:
            await super()._process_job(context)
        finally:
            if self._jobs.is_blocked:
                self.wake()
            self._on_end()
