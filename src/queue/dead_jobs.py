"""Jobs whose process died: given back to the queue, counted, and kept from dying for ever.

That a job ran when the process died proves little: others ran beside it, and an operator may have
killed the process. So one that ran at two deaths is a suspect: it runs before the queues open (see
``Workers``), and when its process dies while it runs alone it is put aside.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import JobContext
from procrastinate.worker import Worker

from src.base.errors import PostponedError
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.queue.job_death_repo import SUSPECT_DEATHS, JobDeathRepository

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
# A worker without a heartbeat for so long is dead, and its jobs are given to others. Who is killed
# keeps his chats waiting for this, and for one look more.
DEAD_AFTER = 9.0

FEW = 4  # suspects that are tried one by one at once
TOGETHER = 32  # places for more of them
JOB_SECONDS = 10.0  # of one suspect; doubled every second time if it does not recur
TRIAL_SECONDS = 40.0  # of all of them, before the queues open


class DeadJobs:
    """Counts who ran when a process died, and knows whom to try alone."""

    def __init__(
        self,
        client: PgClient,
        deaths: JobDeathRepository,
        metrics: Metrics,
    ) -> None:
        """Keep the count in ``deaths``."""
        self._client = client
        self._deaths = deaths
        self._metrics = metrics
        self._ends_at = 0.0  # when the trial is over

    async def recover(self, *, dead_after: float, counts: bool = True) -> int:
        """Give the jobs of dead workers back; returns how many there were.

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
        return found.jobs

    async def has_suspects(self) -> bool:
        """Whether a suspect waits to be tried.

        Raises:
            StorageError: The database is away.
        """
        return (await self._client.run(self._deaths.count_suspects))[0] > 0

    async def begin_trial(self) -> int:
        """How many suspects are to be tried at once; 0 when there is none.

        One by one when they are few, or when they died together in a trial. An operator's kills
        make suspects of all that runs; then nobody shall wait for each of them.

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
