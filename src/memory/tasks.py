"""Background work after turns, and its jobs: indexing, embedding, summaries, extraction."""

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

from src.base.errors import (
    AppError,
    ModelError,
    ModelUnavailableError,
    PostponedError,
    TransientError,
)
from src.memory import compaction, digest_repo, extraction, purge_repo
from src.memory.batch_extraction import BatchExtractionService
from src.memory.consolidation import ConsolidationService
from src.memory.indexer import INDEX_BATCH, Indexer
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository
from src.queue.job_repo import BACKGROUND_QUEUE, INDEX_MESSAGES
from src.queue.workers import BackOff, retry_delay, schedule

logger = logging.getLogger(__name__)

# Limits of one job. What dies three times is put aside, so jobs are short: a process that is often
# killed still gets on.
MOST_STATES = 200  # conversations that it indexes
MOST_EMBEDDED = 256  # documents that it embeds
QUIET_SECONDS = 5.0  # without a new message, after which a flood counts as over
SILENCE_SECONDS = 180.0  # of everybody, before a slow server nearby works for the background
SLOW_MILLISECONDS = 10_000  # of an answer


async def do_nothing(_conversation_id: UUID) -> None:
    """Default of ``index_pending``: digest nothing afterwards."""


@dataclass(eq=False, repr=False)
class DigestService:
    """Background work on new messages; every step is idempotent.

    Attributes:
        indexer: Indexes and embeds the messages.

    ``_is_near`` is True if the background's models run in the operator's own network.
    """

    _client: PgClient
    _settings: GlobalSettingsRepository
    indexer: Indexer
    _compaction: compaction.CompactionService
    _extraction: extraction.ExtractionService
    _is_near: bool = False

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._states = digest_repo.ExtractionRepository(self._client)
        self._batches = digest_repo.BatchRepository(self._client)

    async def index_pending(self, then: Callable[[UUID], Awaitable[None]] = do_nothing) -> bool:
        """Index some of the new messages of every conversation; return True if more may be left.

        Args:
            then: Called with each conversation to digest, as soon as it is found.

        Raises:
            StorageError: The database is away; messages indexed so far stay indexed.
        """
        settings = await self._settings.fetch()
        states = await self._client.run(self._states.list_to_index, MOST_STATES)
        for state in states:  # after a crash in between the messages are still pending
            if needs_digest(state, settings):
                await then(state.conversation_id)
        is_full = len(states) == MOST_STATES
        for state in states:
            is_full |= await self.indexer.index_some(state) == INDEX_BATCH
        for conversation_id in await self._client.run(self._states.list_with_parting):
            await then(conversation_id)
        return is_full

    async def read_parting(self) -> None:
        """Extract facts from messages that /new deleted, without a job queue (the console).

        Raises:
            AppError: The database or the model is away.
        """
        for conversation_id in await self._client.run(self._states.list_with_parting):
            with suppress(PostponedError):
                await self._wait_for_silence()
                await self._extraction.read_parting(conversation_id)

    async def wait_for_quiet(self, conversation_id: UUID) -> None:
        """Return if no flood of messages is coming in, and nobody needs the model.

        Messages that come together are read in fewer calls, and not while they are answered. A
        slow server of one's own has one prompt in its cache: that of the user who is writing.

        Raises:
            PostponedError: The newest message is unanswered and younger than QUIET_SECONDS; or the
                server is slow, and somebody wrote within SILENCE_SECONDS.
            StorageError: The database is away.
        """
        await self._wait_for_silence()
        state = await self._client.run(self._states.find_state, conversation_id)
        if state is not None and state.is_unanswered and state.silent_seconds < QUIET_SECONDS:
            raise PostponedError("messages are still coming", seconds=QUIET_SECONDS)

    async def _wait_for_silence(self) -> None:
        if not self._is_near:
            return
        silent, longest = await self._client.run(self._states.find_pace)
        left = SILENCE_SECONDS - (SILENCE_SECONDS if silent is None else silent)
        if left > 0 and (longest or 0) >= SLOW_MILLISECONDS:
            raise PostponedError("the server is slow, and needed for answers", seconds=left)

    async def digest(self, conversation_id: UUID) -> bool:
        """Compact a conversation; extract facts from closed windows and from messages of /new.

        Summaries and extraction may have different models: when one is away, the other goes on.

        Returns:
            True if there may be more to do: one call is bounded.

        Raises:
            PostponedError: The owner's model calls of this hour are used up.
            TransientError: The database or a model is away; a retry may succeed.
            ModelError: A provider refuses the bot.
        """
        failures: list[AppError] = []
        is_bounded = False
        state = await self._client.run(self._states.find_state, conversation_id)
        steps = [(self._extraction.extract, extraction.MAX_WINDOWS)]
        if state is None or not state.is_imported:
            steps.insert(0, (self._compaction.compact, compaction.MAX_FOLDS))
            steps.append((self._extraction.read_parting, extraction.MAX_WINDOWS))
        for step, limit in steps:
            try:
                is_bounded |= await step(conversation_id) == limit
            except (ModelError, ModelUnavailableError, PostponedError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return is_bounded

    async def digest_turn(self, conversation_id: UUID) -> None:
        """Index and digest one conversation, without a job queue (the console).

        Raises:
            AppError: The database or the model is away.
        """
        state = await self.indexer.index_conversation(conversation_id)
        await self.indexer.embed_pending()
        await self.indexer.change_model()
        settings = await self._settings.fetch()
        if state is not None and needs_digest(state, settings):
            with suppress(PostponedError):  # a later turn retries, or a pause
                await self._wait_for_silence()
                await self.digest(conversation_id)
        await self._client.run(purge_repo.PurgeRepository(self._client).purge_forgotten)

    async def list_silent(self) -> list[UUID]:
        """List silent conversations with unread messages."""
        settings = await self._settings.fetch()
        if not settings.memory_extraction_enabled:
            return []
        if settings.memory_extraction_provider != "immediate":
            return await self._client.run(self._batches.list_given_up, extraction.MAX_BATCH_TRIES)
        return await self._client.run(
            self._states.list_unread,
            window=settings.memory_extraction_window,
            minutes=settings.memory_extraction_silence_minutes,
        )


def needs_digest(state: digest_repo.DigestState, settings: GlobalSettings) -> bool:
    """Return True if there are messages to summarise, summaries to merge, or a window to read."""
    last = state.last_position
    last_outside = compaction.start_of_window(last + compaction.NEXT_TURN, settings) - 1
    start = compaction.start_of_window(last + 1, settings)
    moves = start > compaction.start_of_window(last + 1 - compaction.NEXT_TURN, settings)
    merges = moves and state.summaries > settings.summaries_kept
    is_full = last - state.extracted_position >= settings.memory_extraction_window
    is_closed = is_full and settings.memory_extraction_enabled
    if state.is_imported:
        return is_closed
    return last_outside > state.summarised_position or merges or is_closed


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
        is_full = await self._memory.index_pending(
            partial(_defer, context.app, DIGEST_CONVERSATION)
        )
        if is_full:
            await _defer(context.app, INDEX_MESSAGES)
        await _defer(context.app, EMBED_DOCUMENTS)

    async def embed_documents(self, context: JobContext) -> None:
        """Embed documents without a vector, of all owners, in batches."""
        done = await self._memory.indexer.embed_pending(MOST_EMBEDDED)
        if done:
            logger.info("embedded", extra={"documents": done})
        if done >= MOST_EMBEDDED:
            await _defer(context.app, EMBED_DOCUMENTS)
        elif await self._memory.indexer.space.coming():
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
