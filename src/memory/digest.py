"""After a turn: index it, fold old messages into summaries, read closed windows for facts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from src.base.errors import AppError, ModelError, ModelUnavailableError, PostponedError
from src.llm.embeddings import MAX_WAIT, QuietMoments
from src.memory.compaction import MAX_FOLDS, NEXT_TURN, CompactionService, start_of_window
from src.memory.digest_repo import BatchRepository, DigestState, ExtractionRepository
from src.memory.extraction import MAX_BATCH_TRIES, MAX_WINDOWS, ExtractionService
from src.memory.indexer import Indexer
from src.memory.purge_repo import PurgeRepository
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository

Then = Callable[[UUID], Awaitable[None]]
MOST_STATES = 200  # conversations of one look
QUIET_SECONDS = 5.0  # without a new message, after which a flood counts as over
STEP_SECONDS = 0.05  # between the beginnings of two steps, whichever conversations they are of


async def do_nothing(_conversation_id: UUID) -> None:
    """Where nothing is to be digested afterwards."""


@dataclass(eq=False, repr=False)
class DigestService:
    """The background work on new messages; every step is idempotent.

    Attributes:
        indexer: Indexes and embeds them.
    """

    _client: PgClient
    _settings: GlobalSettingsRepository
    indexer: Indexer
    _compaction: CompactionService
    _extraction: ExtractionService
    _quiet: QuietMoments

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._extraction_repo = ExtractionRepository(self._client)
        self._batches = BatchRepository(self._client)
        self._door = asyncio.Lock()

    async def index_pending(self, then: Then = do_nothing) -> None:
        """Index the new messages of every conversation.

        Args:
            then: Called with each that has something to digest, as soon as it is known.

        Raises:
            StorageError: The database is away; what went in stays in.
        """
        settings = await self._settings.fetch()
        done, parted, is_full = set[UUID](), list[UUID](), True
        while is_full:
            found, parted = await self._client.run(self._extraction_repo.list_news, MOST_STATES)
            # newer messages wait for the next job
            pending = [state for state in found if state.conversation_id not in done]
            is_full = bool(pending) and len(found) == MOST_STATES
            for state in pending:  # who dies in between finds the messages again
                done.add(state.conversation_id)
                if needs_digest(state, settings):
                    await then(state.conversation_id)
            await self.indexer.index_conversations(pending)
        for conversation_id in parted:
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

        The two may have different models: when one is away, the other does its work. Steps of
        many conversations fall due in the same second, and would take the processor from the
        embedding that every turn waits for: they begin one after the other, each when no turn is
        under way, or a moment later.

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
            async with self._door:
                await asyncio.sleep(STEP_SECONDS)
                await self._quiet.wait(MAX_WAIT)
            try:
                is_bounded |= await step(conversation_id) == most
            except (ModelError, ModelUnavailableError, PostponedError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return is_bounded

    async def remember_turn(self, conversation_id: UUID) -> None:
        """Do all of it for one conversation, where no jobs run (the console).

        Raises:
            AppError: The database or the model is away.
        """
        state = await self.indexer.index_conversation(conversation_id)
        await self.indexer.embed_pending()
        await self.indexer.change_model()
        settings = await self._settings.fetch()
        if state is not None and needs_digest(state, settings):
            with suppress(PostponedError):  # a later turn does it
                await self.digest(conversation_id)
        await self._client.run(PurgeRepository(self._client).purge_forgotten)

    async def list_silent(self) -> list[UUID]:
        """Silent conversations with unread messages."""
        settings = await self._settings.fetch()
        if not settings.memory_extraction_enabled:
            return []
        if settings.memory_extraction_provider != "immediate":
            return await self._client.run(self._batches.list_given_up, MAX_BATCH_TRIES)
        return await self._client.run(
            self._extraction_repo.list_unread,
            window=settings.memory_extraction_window,
            minutes=settings.memory_extraction_silence_minutes,
        )


def needs_digest(state: DigestState, settings: GlobalSettings) -> bool:
    """Whether messages left the window, summaries may be merged, or a window is full of unread."""
    last = state.last_position
    left = start_of_window(last + NEXT_TURN, settings) - 1
    start = start_of_window(last + 1, settings)
    moves = start > start_of_window(last + 1 - NEXT_TURN, settings)
    merges = moves and state.summaries > settings.summaries_kept
    is_full = last - state.extracted_position >= settings.memory_extraction_window
    is_closed = is_full and settings.memory_extraction_enabled
    return left > state.summarised_position or merges or is_closed
