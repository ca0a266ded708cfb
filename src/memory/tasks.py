"""Jobs of the memory: indexing, embedding in batches, digesting conversations."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued

from src.base.errors import PostponedError, TransientError
from src.memory.batch_extraction import BatchExtractionService
from src.memory.consolidation import ConsolidationService
from src.memory.digest import DigestService
from src.queue.job_repo import BACKGROUND_QUEUE, INDEX_MESSAGES
from src.queue.workers import BackOff, retry_delay, schedule

logger = logging.getLogger(__name__)

EMBED_DOCUMENTS = "embed_documents"
DIGEST_CONVERSATION = "digest_conversation"
REEMBED = "reembed"
CONSOLIDATE = "consolidate"
SLOW_PRIORITY = -1  # of jobs that wait for models: the others of their queue go first
MAX_WAITS = 12  # for a flood to end, or for silence


@dataclass(eq=False, repr=False)
class MemoryTasks:
    """The memory's jobs, for all owners."""

    _memory: DigestService
    _batches: BatchExtractionService
    _consolidation: ConsolidationService

    def register(self, app: App) -> None:
        """Register the tasks and their schedules, under the names of the stored jobs."""
        queue = BACKGROUND_QUEUE
        for name, priority, work in (
            (INDEX_MESSAGES, 0, self.index_messages),
            (EMBED_DOCUMENTS, 0, self.embed_documents),
            (DIGEST_CONVERSATION, SLOW_PRIORITY, self.digest_conversation),
            (REEMBED, SLOW_PRIORITY, self.reembed),
            (CONSOLIDATE, SLOW_PRIORITY, self.consolidate),
        ):
            task = app.task(
                name=name, queue=queue, priority=priority, pass_context=True, retry=BackOff()
            )
            task(partial(_run, work))
        for name, cron, periodic in (
            ("remember_missed", "* * * * *", partial(self.remember_missed, app)),
            ("read_batches", "* * * * *", self.read_batches),
            ("delete_unused_vectors", "43 * * * *", self.delete_unused_vectors),
            ("begin_consolidation", "11 3 * * *", partial(_defer, app, CONSOLIDATE)),
        ):
            schedule(cron, app, queue, name, periodic)

    async def index_messages(self, context: JobContext) -> None:
        """Index new messages of all conversations; turns queue it, and it serves several."""
        await self._memory.index_pending(partial(_defer, context.app, DIGEST_CONVERSATION))
        await _defer(context.app, EMBED_DOCUMENTS)

    async def embed_documents(self, context: JobContext) -> None:
        """Embed all documents without a vector, of all owners, in batches."""
        done = await self._memory.indexer.embed_pending()
        if done:
            logger.info("embedded", extra={"documents": done})
        if await self._memory.indexer.space.coming():
            await _defer(context.app, REEMBED)

    async def reembed(self, context: JobContext) -> None:
        """Embed some documents with the model that the operator has chosen."""
        if await self._memory.indexer.change_model():
            await _defer(context.app, REEMBED)

    async def digest_conversation(self, context: JobContext, conversation_id: str) -> None:
        """Fold messages that left the window into summaries; read closed windows for facts.

        The job waits, within limits, until a flood ends. The work of one job is bounded, so that
        conversations take turns.
        """
        attempts: Any = context.job.task_kwargs.get("attempts", 0)
        if attempts < MAX_WAITS:
            await self._memory.wait_for_quiet(UUID(conversation_id))
        if await self._memory.digest(UUID(conversation_id)):
            await _defer(context.app, DIGEST_CONVERSATION, conversation_id)
        await _defer(context.app, EMBED_DOCUMENTS)  # of new facts and summaries

    async def remember_missed(self, app: App) -> None:
        """Every minute: re-queue messages whose index job is gone, and silent conversations."""
        await _defer(app, INDEX_MESSAGES)
        if await self._memory.indexer.space.coming():
            await _defer(app, REEMBED)
        for conversation_id in await self._memory.list_silent():
            await _defer(app, DIGEST_CONVERSATION, conversation_id)

    async def read_batches(self) -> None:
        """Every minute: advance open batches, and submit one that is due."""
        await self._batches.poll()
        if windows := await self._batches.gather():
            logger.info("sent a batch", extra={"windows": windows})

    async def consolidate(self, context: JobContext) -> None:
        """Consolidate changed facts of some owners."""
        if await self._consolidation.run():
            await _defer(context.app, CONSOLIDATE)

    async def delete_unused_vectors(self) -> None:
        """Every hour: delete vectors of replaced embedding models."""
        models = await self._memory.indexer.delete_unused_vectors()
        if models:
            logger.info("deleted the vectors of unused models", extra={"models": models})


async def _run(
    work: Callable[..., Awaitable[None]], context: JobContext, attempts: int = 0, **arguments: Any
) -> None:
    """Do a job; retry it after a pause if the database, a model or an endpoint is away.

    Postponed work is retried as well, interrupted work at once after a shutdown.

    The retry is a job of its own instead of the queue's retry. While this job runs, a turn may
    have queued another one under the same queueing lock, which allows only one waiting job. The
    queue could not give this one back then, and it would block the other forever.
    """
    task = context.job.task_name
    try:
        await work(context, **arguments)
    except asyncio.CancelledError:
        await _defer(context.app, task, attempts=attempts, **arguments)
    except TransientError as error:
        seconds = retry_delay(error, attempts)
        log = {"task": task, "attempt": attempts, "seconds": round(seconds, 1), **arguments}
        if isinstance(error, PostponedError):
            logger.info("postponed: %s", error, extra=log)
        else:
            logger.warning("will try again", extra=log, exc_info=error)
        await _defer(context.app, task, after=seconds, attempts=attempts + 1, **arguments)


async def _defer(
    app: App,
    task: str,
    conversation_id: UUID | str | None = None,
    *,
    after: float = 0.0,
    **arguments: Any,
) -> None:
    """Queue a task in ``after`` seconds, unless one (for the conversation) is queued already."""
    lock = task
    if conversation_id is not None:
        lock, arguments["conversation_id"] = f"{task}:{conversation_id}", str(conversation_id)
    job = app.configure_task(
        task,
        allow_unknown=False,  # its own queue is used
        lock=lock,
        queueing_lock=lock,
        schedule_in={"milliseconds": round(1000 * after)} if after else None,
    )
    with suppress(AlreadyEnqueued):
        await job.defer_async(**arguments)
