"""The jobs of the memory: indexing, embedding in batches, digesting a conversation."""

from __future__ import annotations

import logging
from uuid import UUID

from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued

from src.jobs.retry import BackOff
from src.services.turn_memory import TurnMemory
from src.storage.memory_job_repo import INDEX_MESSAGES, MEMORY_QUEUE

logger = logging.getLogger(__name__)

EMBED_DOCUMENTS = "embed_documents"


class MemoryTasks:
    """Works off what turns leave behind, of all users together."""

    def __init__(self, memory: TurnMemory) -> None:
        """Do the work with ``memory``."""
        self._memory = memory

    def register(self, app: App) -> None:
        """Tell the queue about the tasks, under the names that the stored jobs carry."""
        app.task(
            name=INDEX_MESSAGES,
            queue=MEMORY_QUEUE,
            lock=INDEX_MESSAGES,
            pass_context=True,
            retry=BackOff(),
        )(self.index_messages)
        app.task(name=EMBED_DOCUMENTS, queue=MEMORY_QUEUE, lock=EMBED_DOCUMENTS, retry=BackOff())(
            self.embed_documents
        )
        app.task(name="digest_conversation", queue=MEMORY_QUEUE, retry=BackOff())(
            self.digest_conversation
        )
        missed = app.task(
            name="remember_missed",
            queue=MEMORY_QUEUE,
            queueing_lock="remember_missed",
            pass_context=True,
        )(self.remember_missed)
        app.periodic(cron="* * * * *")(missed)

    async def index_messages(self, context: JobContext) -> None:
        """Index what was said since the last time; a turn asks for it, at most once a second."""
        for conversation_id in await self._memory.index_pending():
            await _defer_digest(context.app, conversation_id)
        await _defer(context.app, EMBED_DOCUMENTS)

    async def embed_documents(self) -> None:
        """Embed everything that has no vector yet, of all users, in batches."""
        done = await self._memory.embed()
        if done:
            logger.info("embedded", extra={"documents": done})

    async def digest_conversation(self, conversation_id: str) -> None:
        """Fold messages that left the window into summaries; read closed windows for facts."""
        await self._memory.digest(UUID(conversation_id))

    async def remember_missed(self, context: JobContext, timestamp: int) -> None:  # noqa: ARG002
        """Every minute: what lost its job, and conversations that fell silent."""
        await _defer(context.app, INDEX_MESSAGES)
        for conversation_id in await self._memory.list_silent():
            await _defer_digest(context.app, conversation_id)


async def _defer_digest(app: App, conversation_id: UUID) -> None:
    await _defer(app, "digest_conversation", str(conversation_id))


async def _defer(app: App, task: str, conversation_id: str | None = None) -> None:
    """Have a task run soon; one job of it (for a conversation) waits at a time."""
    lock = task if conversation_id is None else f"{task}:{conversation_id}"
    arguments = {} if conversation_id is None else {"conversation_id": conversation_id}
    job = app.configure_task(task, queue=MEMORY_QUEUE, lock=lock, queueing_lock=lock)
    try:
        await job.defer_async(**arguments)
    except AlreadyEnqueued:
        return
