"""Job that stores imports, or takes them back, and shows its progress."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from procrastinate import App

from src.base.errors import AppError, TransientError
from src.imports.import_repo import Import
from src.imports.service import ImportService
from src.pg.client import PgClient
from src.queue.job_repo import BACKGROUND_QUEUE, STORE_IMPORTS, JobRepository
from src.queue.workers import schedule

logger = logging.getLogger(__name__)

SHOW_SECONDS = 3.0  # between two edits of a progress
SLOW_PRIORITY = -1

Show = Callable[[Import], Awaitable[None]]


@dataclass(eq=False, repr=False)
class ImportTasks:
    """The job of imports, for all owners; ``_show`` shows an import as it is now."""

    _client: PgClient
    _service: ImportService
    _show: Show

    def register(self, app: App) -> None:
        """Register the task and its schedules."""
        task = app.task(name=STORE_IMPORTS, queue=BACKGROUND_QUEUE, priority=SLOW_PRIORITY)
        task(self.store)
        schedule("* * * * *", app, BACKGROUND_QUEUE, "resume_imports", self.resume)
        schedule("23 * * * *", app, BACKGROUND_QUEUE, "drop_imports", self.drop_abandoned)

    async def store(self) -> None:
        """Advance all imports under way by turns, until none is left.

        What is interrupted, or fails for a reason that may pass, is resumed within a minute.
        """
        try:
            await self.run_all()
        except asyncio.CancelledError:
            logger.info("imports go on after the restart")
        except TransientError as error:
            logger.warning("imports go on in a minute", exc_info=error)

    async def run_all(self) -> None:
        """Advance all imports under way by turns; one that fails waits for the next call.

        Raises:
            TransientError: The database is away.
        """
        failed, shown_at, after = set[int](), dict[int, float](), 0
        while True:
            import_ = await self._client.run(self._service.rows.find_under_way, after)
            if import_ is None and after == 0:
                return
            after = import_.id if import_ is not None else 0
            if import_ is None or import_.id in failed:
                if failed and import_ is None:
                    return
                continue
            try:
                outcome = await self._service.advance(import_)
            except TransientError:
                raise
            except AppError as error:
                failed.add(import_.id)
                logger.error("an import failed", extra={"import": import_.id}, exc_info=error)  # noqa: TRY400
                continue
            is_due = time.monotonic() - shown_at.get(import_.id, 0.0) >= SHOW_SECONDS
            if outcome == "done" or is_due:
                shown_at[import_.id] = time.monotonic()
                await self._show(import_)

    async def resume(self) -> None:
        """Every minute: queue the job if an import is under way whose job is gone."""
        if await self._client.run(self._service.rows.find_under_way) is not None:
            await self._client.run(JobRepository(self._client).defer_indexing, STORE_IMPORTS)

    async def drop_abandoned(self) -> None:
        """Every hour: drop imports on which nobody decided."""
        await self._client.run(self._service.rows.delete_abandoned)
