"""After a turn: index it, fold old messages into summaries, read closed windows for facts."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from uuid import UUID

from src.base.errors import AppError, ModelError, ModelUnavailableError, PostponedError
from src.history.new_messages import window_start
from src.memory.compaction import MAX_FOLDS, NEXT_TURN, CompactionService
from src.memory.digest_repo import BatchRepository, DigestState, ExtractionRepository
from src.memory.embedding_space import EmbeddingSpace
from src.memory.extraction import MAX_BATCH_TRIES, MAX_WINDOWS, ExtractionService
from src.memory.indexer import Indexer
from src.memory.purge_repo import PurgeRepository
from src.memory.search_index_repo import SearchIndexRepository
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 600.0  # of back-off after an embedding model refused everything
REEMBED_BATCHES = 20  # of 64 documents, in one job: others take their turns
Then = Callable[[UUID], Awaitable[None]]
QUIET_SECONDS = 5.0  # without a new message, after which a flood counts as over


async def do_nothing(_conversation_id: UUID) -> None:
    """Where nothing is to be digested afterwards."""


class DigestService:
    """The background work on new messages; every step is idempotent."""

    def __init__(
        self,
        client: PgClient,
        settings: GlobalSettingsRepository,
        indexer: Indexer,
        compaction: CompactionService,
        extraction: ExtractionService,
    ) -> None:
        """``settings`` are the operator's."""
        self._client = client
        self._settings = settings
        self._extraction_repo = ExtractionRepository(client)
        self._batches = BatchRepository(client)
        self._index = SearchIndexRepository(client)
        self._indexer = indexer
        self._compaction = compaction
        self._extraction = extraction
        self._refused_until = float("-inf")

    async def index_pending(self, then: Then = do_nothing) -> None:
        """Index the new messages of every conversation.

        Args:
            then: Called with each that has something to digest, as soon as it is known.

        Raises:
            StorageError: The database is away; what went in stays in.
        """
        settings = await self._client.run(self._settings.get)
        done: set[UUID] = set()
        while pending := [
            conversation_id
            for conversation_id in await self._client.run(self._index.list_conversations_to_index)
            if conversation_id not in done  # newer messages wait for the next job
        ]:
            for conversation_id in pending:
                done.add(conversation_id)
                note = partial(_note_need, then, conversation_id, settings)
                await self._indexer.index_conversation(conversation_id, note)
        for conversation_id in await self._client.run(self._extraction_repo.list_parted):
            await then(conversation_id)

    async def read_parting(self) -> None:
        """Extract facts from messages that /new deleted, where no jobs run (the console).

        Raises:
            AppError: The database or the model is away.
        """
        for conversation_id in await self._client.run(self._extraction_repo.list_parted):
            with suppress(PostponedError):
                await self._extraction.read_parting(conversation_id)

    async def wait_for_quiet(self, conversation_id: UUID) -> None:
        """Return when no flood of messages is coming in.

        Messages that come together are read in fewer calls, and not while they are answered.

        Raises:
            PostponedError: The newest message is a moment old, and not answered yet.
            StorageError: The database is away.
        """
        state = await self._client.run(self._extraction_repo.find_state, conversation_id)
        if state is not None and state.is_unanswered and state.silent_seconds < QUIET_SECONDS:
            raise PostponedError("messages are still coming", seconds=QUIET_SECONDS)

    async def digest(self, conversation_id: UUID) -> bool:
        """Compact a conversation; read its closed windows, and what /new left, for facts.

        The two may have different models: when one is away, the other does its work.

        Returns:
            Whether there may be more to do: one call of this method is bounded.

        Raises:
            PostponedError: The owner's model calls of this hour are used up.
            TransientError: The database or a model is away; worth another try.
            ModelError: A provider refuses the bot.
        """
        failures: list[AppError] = []
        is_bounded = False
        for step, most in (
            (self._compaction.compact, MAX_FOLDS),
            (self._extraction.extract, MAX_WINDOWS),
            (self._extraction.read_parting, MAX_WINDOWS),
        ):
            try:
                is_bounded |= await step(conversation_id) == most
            except (ModelError, ModelUnavailableError, PostponedError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return is_bounded

    async def embed(self) -> int:
        """Embed what has no vector yet; returns how many documents.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        return await self._indexer.embed_pending()

    async def changes_model(self) -> bool:
        """Whether documents are to be embedded with another model than the serving one.

        Raises:
            StorageError: The database is away.
        """
        return await self._find_coming() is not None

    async def reembed(self) -> bool:
        """Give some documents a vector of the wanted model; returns whether more may be left.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        space = await self._find_coming()  # a job may have been due before the model refused
        if space is None:
            return False

        def report(done: int, total: int) -> None:
            log = {"model": space.name, "done": done, "documents": total}
            logger.info("embedded anew", extra=log)

        try:
            return await self._indexer.reembed(space, batches=REEMBED_BATCHES, on_progress=report)
        except ModelError as error:
            self._refused_until = time.monotonic() + REFUSED_SECONDS
            log = {"model": space.name}
            logger.warning("it embeds nothing: the model before serves", extra=log, exc_info=error)
            return False

    async def _find_coming(self) -> EmbeddingSpace | None:
        """The wanted model while another one serves, unless it has just refused everything."""
        if time.monotonic() < self._refused_until:
            return None
        return await self._indexer.find_coming()

    async def delete_unused_vectors(self) -> int:
        """Delete the vectors of replaced models; returns how many models there were.

        Raises:
            AppError: The database or the endpoint is away.
        """
        return await self._indexer.delete_unused_vectors()

    async def remember_turn(self, conversation_id: UUID) -> None:
        """Do all of it for one conversation, where no jobs run (the console).

        Raises:
            AppError: The database or the model is away.
        """
        state = await self._indexer.index_conversation(conversation_id)
        await self.embed()
        if await self.changes_model():
            await self.reembed()
        settings = await self._client.run(self._settings.get)
        if state is not None and needs_digest(state, settings):
            with suppress(PostponedError):  # a later turn does it
                await self.digest(conversation_id)
        await self._client.run(PurgeRepository(self._client).purge_forgotten)

    async def list_silent(self) -> list[UUID]:
        """Silent conversations with unread messages."""
        settings = await self._client.run(self._settings.get)
        if not settings.memory_extraction_enabled:
            return []
        if settings.memory_extraction_provider != "immediate":
            return await self._client.run(self._batches.list_given_up, MAX_BATCH_TRIES)
        return await self._client.run(
            self._extraction_repo.list_silent,
            settings.memory_extraction_silence_minutes,
            window=settings.memory_extraction_window,
        )


async def _note_need(
    then: Then, conversation_id: UUID, settings: GlobalSettings, state: DigestState
) -> None:
    if needs_digest(state, settings):
        await then(conversation_id)


def needs_digest(state: DigestState, settings: GlobalSettings) -> bool:
    """Whether messages left the window, or it moves now, or a window of extraction is full."""
    window, step = settings.history_messages, settings.history_step
    start = partial(window_start, window=window, step=step)
    last = state.last_position
    left = start(last + NEXT_TURN) - 1
    moves = start(last + 1) > start(last + 1 - NEXT_TURN)
    is_full = last - state.extracted_position >= settings.memory_extraction_window
    is_closed = is_full and settings.memory_extraction_enabled
    return left > state.summarised_position or moves or is_closed
