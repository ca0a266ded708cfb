"""Periodic tasks: recovery of lost jobs, expiry of messages, pruning."""

import logging
from functools import partial

from procrastinate import App

from src.core import Core
from src.memory.memory_repo import MemoryRepository
from src.memory.purge_repo import PurgeRepository
from src.pg.records import RecordsRepository
from src.queue.job_repo import BACKGROUND_QUEUE
from src.queue.workers import schedule
from src.reminders.reminder_repo import ReminderRepository

logger = logging.getLogger(__name__)

LOST_AFTER = 30.0  # seconds; an update and its job are stored at once, so no job is under way
KEEP_UPDATES_HOURS = 72  # Telegram may repeat an update for 24
KEEP_REMINDERS_DAYS = 60  # of delivered or cancelled reminders; until then a button postpones one
KEEP_JOBS_HOURS = 24 * 7  # of failed and aborted jobs; finished ones are deleted at once


class Housekeeping:
    """Tasks of every minute or hour; any worker executes them."""

    def __init__(self, core: Core) -> None:
        """Maintain the data of ``core``."""
        self._core = core
        self._run = core.client.run
        self._purge = PurgeRepository(core.client)

    def register(self, app: App) -> None:
        """Register the tasks and their schedules in the queue."""
        schedule("* * * * *", app, BACKGROUND_QUEUE, "recover_jobs", self.recover_jobs)
        schedule("17 * * * *", app, BACKGROUND_QUEUE, "prune", partial(self.prune, app))
        schedule("* * * * *", app, BACKGROUND_QUEUE, "purge_forgotten", self.purge_forgotten)
        schedule("37 * * * *", app, BACKGROUND_QUEUE, "delete_aged", self.delete_aged)

    async def recover_jobs(self) -> None:
        """Queue updates whose job is lost."""
        recover = self._core.updates.requeue_orphaned
        lost = await self._run(recover, older_than=LOST_AFTER)
        if lost:
            logger.warning("updates had lost their jobs", extra={"updates": lost})

    async def purge_forgotten(self) -> None:
        """Delete forgotten messages and facts for good, once they can no longer be restored."""
        purged = await self._run(self._purge.purge_forgotten)
        if purged:
            logger.info("purged what was forgotten", extra={"messages": purged})

    async def prune(self, app: App) -> None:
        """Delete old updates, jobs, reminders and records; update the daily sums."""
        run, client = self._run, self._core.client
        pruned = await run(self._core.updates.prune, hours=KEEP_UPDATES_HOURS)
        await app.job_manager.delete_old_jobs(
            nb_hours=KEEP_JOBS_HOURS,
            include_failed=True,
            include_cancelled=True,
            include_aborted=True,
        )
        await run(ReminderRepository(client).prune, days=KEEP_REMINDERS_DAYS)
        records, zone = RecordsRepository(client), self._core.settings.timezone
        await run(records.prune)
        await run(records.roll_up, zone=zone)
        facts = await run(MemoryRepository(client).count_all)
        await run(records.count_growth, zone=zone, facts=facts)
        logger.info("pruned", extra={"updates": pruned})

    async def delete_aged(self) -> None:
        """Delete messages older than the operator's retention period."""
        settings = await self._core.memory.settings.fetch()
        if not settings.message_retention_days:
            return
        deleted = await self._run(
            self._purge.delete_aged,
            days=settings.message_retention_days,
            reads=settings.memory_extraction_enabled,
        )
        self._core.metrics.expired.inc(deleted)
        if deleted:
            logger.info("deleted old messages", extra={"messages": deleted})
