"""A procrastinate worker that polls only while a job may be available."""

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
from psycopg import OperationalError, errors

from src.queue.update_repo import FETCH_JOB, NEWER_KINDS

logger = logging.getLogger(__name__)

UNKNOWN_NUMBER = 1 << 30  # of jobs
# Keys of a job's additional context: the update that was fetched with the job (None: read it), and
# whether the job is finished with its update already.
FETCHED_UPDATE, FINISHED = "waiting", "finished"
END_PAUSE = 1.0  # seconds between attempts to persist a status while the database is unavailable


class AnnouncedJobs(JobManager):
    """Job manager that queries the database only while announced jobs are expected.

    Attributes:
        expected: Number of jobs that may be available.
        is_blocked: True if an announced job was not available: another job may hold its lock.
        waiting: Updates that were fetched with jobs, by the ids of the jobs.
    """

    def __init__(self, connector: BaseConnector) -> None:
        """Expect an unknown number of jobs at first."""
        super().__init__(connector)
        self.expected = UNKNOWN_NUMBER
        self.is_blocked = False
        self.waiting: dict[int, dict[str, Any]] = {}

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Fetch a job with its update if one is expected; see ``JobManager``."""
        expected = self.expected
        if not expected:
            return None
        row = await self.connector.execute_query_one_async(
            FETCH_JOB, queues=queues, worker_id=worker_id, **NEWER_KINDS
        )
        job = None if row["id"] is None else Job.from_row(row)
        if row["waiting"] is not None:
            self.waiting[row["id"]] = row["waiting"]
        self.expected -= 1 if job else expected
        self.is_blocked = job is None and expected < UNKNOWN_NUMBER
        return job


class WokenWorker(Worker):
    """A worker that is woken by its process and misses no wake-up while it fetches."""

    def __init__(
        self, app: App, *, on_end: Callable[[], None], is_clock: bool, **kwargs: Any
    ) -> None:
        """Create a worker that does not listen itself.

        Args:
            app: The queue.
            on_end: Called when a job has ended, as another one may be due now or later.
            is_clock: True if it defers the periodic jobs; one worker per process does.
            kwargs: Arguments of procrastinate's worker.
        """
        own_app = copy(app)
        own_app.job_manager = self._jobs = AnnouncedJobs(app.connector)
        super().__init__(own_app, **kwargs)
        self._on_end = on_end
        self._is_clock = is_clock

    def wake(self, jobs: int = UNKNOWN_NUMBER) -> None:
        """Fetch jobs now, or once more if a fetch is in progress."""
        self._jobs.expected += jobs
        self._new_job_event.set()

    def handle_notification(self, notification: Notification) -> None:
        """Handle a notification about a job of this worker's queues."""
        if notification["type"] == "job_inserted":
            self.wake(1)
        else:
            self._handle_abort_jobs_requested([notification["job_id"]])

    async def _periodic_deferrer(self) -> None:
        if self._is_clock:
            await super()._periodic_deferrer()  # type: ignore[no-untyped-call]
        await asyncio.Event().wait()  # a side task that ends would leave the others unwatched

    async def _fetch_and_process_jobs(self) -> None:
        """Repeat when woken in between: procrastinate would forget the wake-up."""
        while self._jobs.expected and not self._stop_event.is_set():
            await super()._fetch_and_process_jobs()  # type: ignore[no-untyped-call]

    async def _persist_job_status(self, *args: Any, **kwargs: Any) -> None:
        """Retry until the status is stored: no other worker recovers jobs of a living one."""
        if kwargs["context"].additional_context.get(FINISHED):
            self._job_ids_to_abort.pop(kwargs["job"].id, None)
            return
        while True:
            try:
                await super()._persist_job_status(*args, **kwargs)
            except ConnectorException as error:
                if isinstance(error.__cause__, errors.RaiseException):
                    return  # no such job: it was finished with its update, then interrupted
                if self._stop_event.is_set() or not isinstance(error.__cause__, OperationalError):
                    raise
                logger.debug("the end of a job waits for the database", exc_info=error)
                await asyncio.sleep(END_PAUSE)
            else:
                return

    async def _process_job(self, context: JobContext) -> None:
        waiting = self._jobs.waiting.pop(context.job.id or 0, None)
        context.additional_context[FETCHED_UPDATE] = waiting
        try:
            await super()._process_job(context)
        finally:
            if self._jobs.is_blocked:
                self.wake()
            self._on_end()
