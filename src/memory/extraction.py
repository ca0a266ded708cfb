"""Background extraction of facts: one model call for each closed window of a conversation."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from langchain_core.messages import BaseMessage

from src.base import errors, zones
from src.history.conversation_repo import ConversationRepository, PastMessage
from src.llm import chat, reply
from src.memory import compaction, digest_repo, prompts, writer
from src.memory.budget import BackgroundModel, DailyCeilings
from src.memory.memories import Memories
from src.memory.memory_repo import FactQuery
from src.memory.queries import Query
from src.pg.client import PgClient
from src.reading.facts import normalise
from src.reading.gate import holds_secret

logger = logging.getLogger(__name__)

MAX_WINDOWS = 10  # windows of one job; the rest waits for the next turn or the periodic job
MAX_FACTS = 400  # facts of one window
FAR_BEHIND = 60  # messages; three windows
MAX_WINDOW = 200  # messages of one window with a long backlog
MAX_KNOWN = 60  # known facts in the prompt, so that the model repeats none
NEIGHBOURS = 5  # known facts near each message, for owners with more than MAX_KNOWN
MAX_BATCH_TRIES = 3  # of a window; then it is read immediately, outside a batch
MAX_TEXT = 2000  # characters of one message that the model reads


@dataclass(frozen=True)
class Window:
    """Messages that are read for facts together.

    Attributes:
        state: The state of their conversation, or of the one that followed it after /new.
        first: The first position.
        last: The position up to which the conversation is read afterwards.
        messages: The messages, oldest first.
    """

    state: digest_repo.DigestState
    first: int
    last: int
    messages: Sequence[PastMessage]

    @property
    def typed(self) -> list[PastMessage]:
        """Messages that the user typed; all others are context."""
        return [m for m in self.messages if m.role == "user" and m.voice.is_own]


@dataclass(eq=False, repr=False)
class ExtractionService:
    """Extracts facts from messages that no window has covered yet.

    ``_callers`` returns the caller of a model by ``provider:model``, or the environment's for an
    empty name. ``_time_zone`` is the zone of users without their own.
    """

    _client: PgClient
    _memories: Memories
    _callers: Callable[[str], chat.ModelCaller]
    _ceilings: DailyCeilings
    _time_zone: str

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._conversations = ConversationRepository(self._client)
        self._states = digest_repo.ExtractionRepository(self._client)
        self._batches = digest_repo.BatchRepository(self._client)
        self._model = BackgroundModel(self._client, self._ceilings, "a window was not understood")

    async def extract(self, conversation_id: UUID) -> int:
        """Read every closed window: full ones, and a shorter one after a long silence.

        A window is marked as read after its facts are stored: after a crash it is read again, and
        its facts are recognised as known.

        Returns:
            The number of windows read; with MAX_WINDOWS there may be more.

        Raises:
            PostponedError: The owner has no call left in this hour; the rest waits.
            ModelUnavailableError: A retry may succeed; nothing is skipped.
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        if not settings.memory_extraction_enabled:
            return 0
        usual = settings.memory_extraction_window
        is_batched = settings.memory_extraction_provider != "immediate"
        for done in range(MAX_WINDOWS):
            state = await self._find_unread(conversation_id)
            if state is None:
                return done
            unread = state.last_position - state.extracted_position
            silence = 60 * settings.memory_extraction_silence_minutes
            if unread < usual and state.silent_seconds < silence:
                return done
            failures, is_waiting = await self._client.run(
                self._batches.count_tries, conversation_id, state.extracted_position + 1
            )
            if is_waiting or (is_batched and failures < MAX_BATCH_TRIES):
                return done
            size = compaction.portion_size(unread, usual, far=FAR_BEHIND, most=MAX_WINDOW)
            window = await self._load(state, size, usual)
            if window.typed:
                span = conversation_id, window.first, window.last
                await self._extract(window, partial(self._conversations.list_messages, *span))
            await self.advance(window)
        return MAX_WINDOWS

    async def find_window(self, conversation_id: UUID) -> Window | None:
        """Return the next window for a batch, as large as one request may be; None if all is read.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        state = await self._find_unread(conversation_id)
        if state is None:
            return None
        return await self._load(state, MAX_WINDOW, settings.memory_extraction_window)

    async def find_window_again(self, request: digest_repo.BatchWindow) -> Window | None:
        """Reload the window of a batch request; None when its conversation is gone.

        Raises:
            StorageError: The database is away.
        """
        state = await self._client.run(self._states.find_state, request.conversation_id)
        if state is None or not state.memory_on:
            return None
        span = request.conversation_id, request.first, request.last
        messages = await self._client.run(self._conversations.list_messages, *span)
        return Window(state, request.first, request.last, messages)

    async def build_prompt(self, window: Window) -> tuple[list[BaseMessage], dict[int, str]]:
        """Return the prompt for a window, and the known facts in it, by id.

        Raises:
            StorageError: The database is away.
        """
        zone = window.state.time_zone or self._time_zone
        known = await self._load_known(window, zone)
        records = [
            {
                "uid": f"msg-{message.id}",
                "role": message.role,
                "said_at": f"{zones.local_time(message.said_at, zone):%Y-%m-%d %H:%M}",
                **message.voice.fields(),
                "text": message.text[:MAX_TEXT],
            }
            for message in window.messages
        ]
        return prompts.extraction_messages(records, known), known

    async def store_facts(
        self, window: Window, extracted: prompts.ExtractedFacts, known: Collection[int]
    ) -> None:
        """Store the facts that a model extracted from a window; idempotent.

        A fact without a quote of the user is dropped.

        Args:
            window: The window, reloaded without messages that were forgotten meanwhile.
            extracted: The model's reply.
            known: Ids of the facts in the prompt, the only ones that it may replace.

        Raises:
            StorageError: The database is away.
        """
        zone = window.state.time_zone or self._time_zone
        typed = {f"msg-{message.id}": message for message in window.typed}
        texts = {message.id: normalise(message.text) for message in window.typed}
        for fact in extracted.facts[:MAX_FACTS]:
            quote = normalise(fact.quote)
            holders = [m for m in typed.values() if quote and quote in texts[m.id]]
            source = typed.get(fact.message)
            if holders and source not in holders:
                source = holders[0]  # the model named another message than that of the quote
            if source is None or not fact.text:
                continue
            try:
                said_at = zones.local_time(source.said_at, zone)
                await self._memories.writer.remember(
                    window.state.owner,
                    fact,
                    writer.SourceText(source.id, source.text, said_at),
                    origin="extraction",
                    contradicts=fact.replaced_ids() & set(known),
                )
            except errors.StorageRejectedError as error:  # a retry would fail as well
                logger.warning("an extracted fact could not be stored", exc_info=error)

    async def advance(self, window: Window) -> None:
        """Mark a window as read.

        Raises:
            StorageError: The database is away.
        """
        advance, conversation_id = self._states.advance, window.state.conversation_id
        await self._client.run(advance, conversation_id, first=window.first, last=window.last)

    async def read_parting(self, conversation_id: UUID) -> int:
        """Extract facts from messages that the owner's last /new deleted, then purge them.

        Args:
            conversation_id: The owner's conversation since then.

        Returns:
            The number of windows read; with MAX_WINDOWS there may be more.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelUnavailableError: A retry may succeed, within ``PARTING_SECONDS``.
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        state = await self._client.run(self._states.find_state, conversation_id)
        if state is None:
            return 0
        list_parting = partial(self._states.list_parting, state.owner, limit=MAX_WINDOW)
        for done in range(MAX_WINDOWS):
            found = await self._client.run(list_parting)
            if not found:
                return done
            messages = compaction.fitting(found, least=1, longest=MAX_TEXT)
            if settings.memory_extraction_enabled and state.memory_on:
                await self._extract(Window(state, 0, 0, messages), list_parting)
            ids = [message.id for message in messages]
            await self._client.run(self._states.delete_parting, state.owner, ids)
        return MAX_WINDOWS

    async def _find_unread(self, conversation_id: UUID) -> digest_repo.DigestState | None:
        """Return the state of a conversation with unread messages, else None.

        Messages written while the memory is off are skipped for good.
        """
        state = await self._client.run(self._states.find_state, conversation_id)
        if state is None or state.last_position <= state.extracted_position:
            return None
        if not state.memory_on:
            first, last = state.extracted_position + 1, state.last_position
            await self.advance(Window(state, first, last, ()))
            return None
        return state

    async def _load(self, state: digest_repo.DigestState, size: int, least: int) -> Window:
        first = state.extracted_position + 1
        last = min(state.last_position, first + size - 1)
        load = self._conversations.list_messages
        found = await self._client.run(load, state.conversation_id, first, last)
        messages = compaction.fitting(found, least=least, longest=MAX_TEXT)
        if len(messages) < len(found):
            last = messages[-1].position
        return Window(state, first, last, messages)

    async def _extract(self, window: Window, reload: Callable[[], list[PastMessage]]) -> None:
        known: dict[int, str] = {}

        async def call(on_usage: Callable[[reply.ModelUsage], None]) -> prompts.ExtractedFacts:
            prompt, prompt_facts = await self.build_prompt(window)
            known.update(prompt_facts)
            # A name without a provider is for batches.
            name = (await self._memories.settings()).memory_extraction_model
            return await self._callers(name if ":" in name else "").structured(
                prompt, prompts.ExtractedFacts, purpose="extract", on_usage=on_usage
            )

        positions = window.messages[0].position, window.messages[-1].position
        extracted = await self._model.ask(window.state.conversation_id, positions, call)
        if extracted is None:
            return
        messages = await self._client.run(reload)  # without messages forgotten meanwhile
        await self.store_facts(replace(window, messages=messages), extracted, known.keys())

    async def _load_known(self, window: Window, zone: str) -> dict[int, str]:
        """Return known facts for the prompt: the most important ones, and those near a message."""
        owner = window.state.owner
        facts = await self._client.run(
            self._memories.facts.list_facts, owner, FactQuery("weight", limit=MAX_KNOWN)
        )
        known = {fact.id: _with_speaker(fact.source.speaker, fact.text) for fact in facts}
        if len(known) < MAX_KNOWN:
            return known  # all facts of the owner
        threshold = (await self._memories.settings()).memory_dedup_threshold
        for message in window.typed:
            if holds_secret(message.text):
                continue
            moment = zones.local_time(message.said_at, zone)
            near = Query(owner, message.text, moment, NEIGHBOURS, threshold, kinds=("memory",))
            known |= {
                hit.source_id: _with_speaker(hit.author.name, hit.text)
                for hit in await self._memories.retriever.search(near)
                if not hit.retired
            }
        return known


def _with_speaker(speaker: str | None, text: str) -> str:
    return f"{speaker}: {text}" if speaker else text
