"""After a turn: index it, fold old messages into summaries, read closed windows for facts."""

from __future__ import annotations

from uuid import UUID

from src.errors import AppError, ModelError, ModelUnavailableError
from src.memory.indexer import Indexer
from src.memory.window import window_start
from src.services.compaction_service import NEXT_TURN, CompactionService
from src.services.digest_stores import DigestStores
from src.services.extraction_service import ExtractionService
from src.storage.global_settings_repo import GlobalSettings
from src.storage.search_index_repo import Progress, SearchIndexRepository
from src.storage.undo_repo import UndoRepository


class TurnMemory:
    """What background jobs do with what was said; every step can be repeated."""

    def __init__(
        self,
        stores: DigestStores,
        index: SearchIndexRepository,
        indexer: Indexer,
        compaction: CompactionService,
        extraction: ExtractionService,
        undoing: UndoRepository,
    ) -> None:
        """Bring together what ``src/memory_core.py`` built."""
        self._client = stores.client
        self._settings = stores.settings
        self._extraction_repo = stores.extraction
        self._index = index
        self._indexer = indexer
        self._compaction = compaction
        self._extraction = extraction
        self._undoing = undoing

    async def index_pending(self) -> list[UUID]:
        """Index the new messages of every conversation.

        Returns:
            The conversations that have something to digest.

        Raises:
            StorageError: The database is away; what went in stays in.
        """
        settings = await self._client.run(self._settings.get)
        to_digest: list[UUID] = []
        done: set[UUID] = set()
        while pending := [
            conversation_id
            for conversation_id in await self._client.run(self._index.list_conversations_to_index)
            if conversation_id not in done  # messages that came meanwhile wait for the next job
        ]:
            for conversation_id in pending:
                done.add(conversation_id)
                progress = await self._indexer.index_conversation(conversation_id)
                if progress is not None and needs_digest(progress, settings):
                    to_digest.append(conversation_id)
        return to_digest

    async def digest(self, conversation_id: UUID) -> None:
        """Compact a conversation, and read its closed windows for facts.

        The two may have different models: when one is away, the other does its work.

        Raises:
            TransientError: The database or a model is away; worth another try.
            ModelError: A provider refuses the bot.
        """
        failures: list[AppError] = []
        for step in (self._compaction.compact, self._extraction.extract):
            try:
                await step(conversation_id)
            except (ModelError, ModelUnavailableError) as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def embed(self) -> int:
        """Embed what has no vector yet; returns how many documents.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        return await self._indexer.embed_pending()

    async def delete_unused_vectors(self) -> int:
        """Delete the vectors of replaced models; returns how many models there were.

        Raises:
            AppError: The database or the endpoint is away.
        """
        return await self._indexer.delete_unused_vectors()

    async def remember_turn(self, conversation_id: UUID) -> None:
        """All of it for one conversation, where no jobs run (the console).

        Raises:
            AppError: The database or the model is away.
        """
        progress = await self._indexer.index_conversation(conversation_id)
        await self.embed()
        await self.purge_forgotten()
        settings = await self._client.run(self._settings.get)
        if progress is not None and needs_digest(progress, settings):
            await self.digest(conversation_id)

    async def purge_forgotten(self) -> int:
        """Delete for good what was forgotten and can be taken back no longer; how many times.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(self._undoing.purge)

    async def list_silent(self) -> list[UUID]:
        """Conversations that fell silent before their last messages were read for facts."""
        settings = await self._client.run(self._settings.get)
        if not settings.memory_extraction_enabled:
            return []
        return await self._client.run(
            self._extraction_repo.list_silent, settings.memory_extraction_silence_minutes
        )


def needs_digest(progress: Progress, settings: GlobalSettings) -> bool:
    """Whether messages left the window, or it moves now, or a window of extraction is full."""
    step = settings.history_step
    left = window_start(progress.last + NEXT_TURN, step=step) - 1
    next_start = window_start(progress.last + 1, step=step)
    moves = next_start > window_start(progress.last + 1 - NEXT_TURN, step=step)
    unread = progress.last - progress.extracted
    is_full = unread >= settings.memory_extraction_window
    return left > progress.summarised or moves or (is_full and settings.memory_extraction_enabled)
