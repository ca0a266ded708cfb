"""Jobs whose process died: given back to the queue, counted, and kept from dying for ever."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import JobContext
from procrastinate.worker import Worker

from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.queue.job_death_repo import JobDeathRepository, PutAside, PutAsideRepository, Step

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
# A worker without a heartbeat for so long is dead, and its jobs are given to others. Who is killed
# keeps his chats waiting for this, and for one look more.
DEAD_AFTER = 9.0


class DeadJobs:
    """Counts who ran when a process died; ``src/queue/quarantine.py`` tries the suspects."""

    def __init__(
        self,
        client: PgClient,
        deaths: JobDeathRepository,
        put_aside: PutAsideRepository,
        metrics: Metrics,
    ) -> None:
        """Keep the count in ``deaths``, and what it ends with in ``put_aside``."""
        self._client = client
        self._deaths = deaths
        self._put_aside = put_aside
        self._metrics = metrics

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
            logger.info("recovered jobs of dead workers", extra=vars(found))
        return found.jobs

    async def revive(self) -> None:
        """Have recurring work that was put aside a while ago tried again, away from the rest.

        Raises:
            StorageError: The database is away.
        """
        revived = await self._client.run(self._put_aside.revive)
        if revived:
            logger.info("trying again what was put aside", extra={"jobs": revived})

    async def judge(self, jobs: list[int], step: Step | None) -> PutAside | None:
        """A process of suspects died by itself: see ``JobDeathRepository.judge``.

        Raises:
            StorageError: The database is away.
        """
        self._metrics.deaths.inc()
        put_aside = await self._client.run(self._deaths.judge, jobs, step)
        if put_aside is not None:
            ids = {name: value for name, value in vars(put_aside).items() if value is not None}
            ids["since"] = put_aside.since.isoformat()
            logger.error("put aside what kills its process: see bot.py jobs", extra=ids)
        return put_aside

    async def guard(
        self, call_next: Callable[[], Awaitable[Any]], context: JobContext, _worker: Worker
    ) -> Any:
        """Procrastinate's middleware: recurring work of which another job is suspected rests.

        That one, which is tried elsewhere or put aside, stands for it.
        """
        job = context.job
        if job.queueing_lock is not None and await self._client.run(
            self._deaths.is_suspected, job.queueing_lock, job.id
        ):
            logger.info("left to a suspected job", extra={"task": job.task_name, "job": job.id})
            return None
        return await call_next()


ON_STEP = "on_step"  # of a worker's additional context: an ``OnStep``
