"""Job that stores imports, or takes them back, and shows its progress."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued

from src.base.errors import AppError, TransientError
from src.imports.import_repo import Import
from src.imports.service import ImportService
from src.pg.client import PgClient
from src.queue.job_repo import BACKGROUND_QUEUE, STORE_IMPORTS, JobRepository
from src.queue.workers import schedule

logger = logging.getLogger(__name__)

SHOW_SECONDS = 3.0  # between two edits of a progress
SLOW_PRIORITY = -1
SLICE_SECONDS = 10.0  # of one job; the next one goes on

Show = Callable[[Import], Awaitable[None]]


@dataclass(eq=False, repr=False)
class ImportTasks:
    """The job of imports, for all owners; ``_show`` shows an import as it is now."""

    _client: PgClient
    _service: ImportService
    _show: Show

    def __post_init__(self) -> None:
        """Note when each import was last shown."""
        self._shown_at: dict[int, float] = {}

    def register(self, app: App) -> None:
        """Register the task and its schedules."""
        task = app.task(
            name=STORE_IMPORTS, queue=BACKGROUND_QUEUE, priority=SLOW_PRIORITY, pass_context=True
        )
        task(self.store)
        schedule("* * * * *", app, BACKGROUND_QUEUE, "resume_imports", self.resume)
        schedule("23 * * * *", app, BACKGROUND_QUEUE, "drop_imports", self.drop_abandoned)

    async def store(self, context: JobContext) -> None:
        """Advance all imports under way for a while; queue the job again if any is left.

        What is interrupted, or fails for a reason that may pass, is resumed within a minute.
        """
        try:
            if await self.run_all(SLICE_SECONDS, job=context.job.id):
                lock = {"lock": STORE_IMPORTS, "queueing_lock": STORE_IMPORTS}
                again = context.app.configure_task(STORE_IMPORTS, allow_unknown=False, **lock)
                with suppress(AlreadyEnqueued):
                    await again.defer_async()
        except asyncio.CancelledError:
            logger.info("imports go on after the restart")
        except TransientError as error:
            logger.warning("imports go on in a minute", exc_info=error)

    async def run_all(self, seconds: float = float("inf"), job: int | None = None) -> bool:
        """Advance all imports under way by turns; one that fails waits for the next call.

        Args:
            seconds: After so many it stops.
            job: The job that it runs in, see ``ImportService.advance``.

        Returns:
            True if an import is left that did not fail.

        Raises:
            TransientError: The database is away.
        """
        failed, after, end = set[int](), 0, time.monotonic() + seconds
        find = self._service.rows.find_under_way
        while time.monotonic() < end:
            import_ = await self._client.run(find, after, failed)
            if import_ is None and after == 0:
                return False
            after = 0
            if import_ is not None:
                after = import_.id
                if not await self._advance(import_, job):
                    failed.add(import_.id)
        return True

    async def _advance(self, import_: Import, job: int | None) -> bool:
        """Do the next step of an import, and show it from time to time; False if it failed."""
        try:
            outcome = await self._service.advance(import_, job)
        except TransientError:
            raise
        except AppError as error:
            log = {"import": import_.id}
            logger.error("an import failed", extra=log, exc_info=error)  # noqa: TRY400
            return False
        shown_at = self._shown_at.get(import_.id, float("-inf"))
        if outcome == "done":
            self._shown_at.pop(import_.id, None)
            await self._show(import_)
            await self._client.run(self._service.rows.close, import_.id)
        elif time.monotonic() - shown_at >= SHOW_SECONDS:
            self._shown_at[import_.id] = time.monotonic()
            await self._show(import_)
        return True

    async def resume(self) -> None:
        """Every minute: queue the job if an import is under way whose job is gone."""
        if await self._client.run(self._service.rows.find_under_way) is not None:
            await self._client.run(JobRepository(self._client).defer_indexing, STORE_IMPORTS)

    async def drop_abandoned(self) -> None:
        """Every hour: drop imports on which nobody decided."""
        await self._client.run(self._service.rows.delete_abandoned)
