"""Extraction in the background: one model call for each closed window of a conversation."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from langchain_core.messages import BaseMessage

from src.base.errors import StorageRejectedError
from src.base.zones import local_time
from src.history.conversation_repo import ConversationRepository, PastMessage
from src.llm.chat import ModelCaller
from src.llm.reply import ModelUsage
from src.memory import digest_repo
from src.memory.budget import BackgroundModel, DailyCeilings
from src.memory.compaction import fitting, portion_size
from src.memory.memories import Memories
from src.memory.memory_repo import FactQuery
from src.memory.prompts import ExtractedFacts, extraction_messages
from src.memory.retriever import Query
from src.memory.writer import Said
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.reading.facts import Fact, normalise
from src.reading.gate import holds_secret

logger = logging.getLogger(__name__)

MAX_WINDOWS = 10  # of one job; the rest waits for the next turn or the periodic job
MAX_FACTS = 50  # of one window of twenty messages
MAX_FACTS_A_MESSAGE = 2  # of a larger one
FAR_BEHIND = 60  # messages; three windows
MAX_WINDOW = 200  # messages of one window when it is far behind
MAX_KNOWN = 60  # facts that the model is shown so that it repeats none
NEIGHBOURS = 5  # more of them, near to each message, when there are more
MAX_BATCH_TRIES = 3  # of a window; then it is read at once, outside a batch
MAX_TEXT = 2000  # characters of one message that the model reads


@dataclass(frozen=True)
class Window:
    """Messages that are read for facts together.

    Attributes:
        state: Of the conversation where they stand, or stood before /new.
        first: The position that it begins with.
        last: The position up to which the conversation has been read then.
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

    ``_callers`` returns the caller of a model by ``provider:model``, the environment's without a
    name; ``_time_zone`` is that of users without their own.
    """

    _client: PgClient
    _settings: GlobalSettingsRepository
    _memories: Memories
    _callers: Callable[[str], ModelCaller]
    _ceilings: DailyCeilings
    _time_zone: str

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._conversations = ConversationRepository(self._client)
        self._states = digest_repo.ExtractionRepository(self._client)
        self._batches = digest_repo.BatchRepository(self._client)
        self._model = BackgroundModel(self._client, self._ceilings, "a window was not understood")

    async def extract(self, conversation_id: UUID) -> int:
        """Read every closed window: full ones, and a shorter one after a long silence.

        Returns:
            How many windows were read. A window is marked after its facts are stored: after a
            crash it is read again, and the facts are found to be known. With MAX_WINDOWS there
            may be more to read.

        Raises:
            PostponedError: The owner has no call left in this hour; the rest waits.
            ModelUnavailableError: Worth another try later; nothing is skipped.
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        if not settings.memory_extraction_enabled:
            return 0
        usual = settings.memory_extraction_window
        for done in range(MAX_WINDOWS):
            state = await self._find_unread(conversation_id)
            if state is None:
                return done
            unread = state.last_position - state.extracted_position
            silence = 60 * settings.memory_extraction_silence_minutes
            if unread < usual and state.silent_seconds < silence:
                return done
            if await self._is_left_to_batch(state, settings):
                return done
            size = portion_size(unread, usual, far=FAR_BEHIND, most=MAX_WINDOW)
            window = await self._load(state, size, usual)
            if window.typed:
                first, last = window.messages[0].position, window.messages[-1].position
                load = self._conversations.list_messages
                await self._remember(window, partial(load, conversation_id, first, last))
            await self.advance(window)
        return MAX_WINDOWS

    async def find_window(self, conversation_id: UUID) -> Window | None:
        """The next window for a batch, as large as one request may be; None without messages.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        state = await self._find_unread(conversation_id)
        if state is None:
            return None
        return await self._load(state, MAX_WINDOW, settings.memory_extraction_window)

    async def find_window_again(self, asked: digest_repo.BatchWindow) -> Window | None:
        """Reload the window of a batch request; None when its conversation is gone.

        Raises:
            StorageError: The database is away.
        """
        state = await self._client.run(self._states.find_state, asked.conversation_id)
        if state is None or not state.memory_on:
            return None
        place = asked.conversation_id, asked.first, asked.last
        messages = await self._client.run(self._conversations.list_messages, *place)
        return Window(state, asked.first, asked.last, messages)

    async def build_prompt(self, window: Window) -> tuple[list[BaseMessage], dict[int, str]]:
        """The prompt for a window, and the known facts that it shows, by their ids.

        Raises:
            StorageError: The database is away.
        """
        zone = self._zone(window)
        known = await self._known_facts(window, zone)
        records = [_record(message, zone) for message in window.messages]
        return extraction_messages(records, known), known

    async def store_facts(
        self, window: Window, extracted: ExtractedFacts, known: Collection[int]
    ) -> None:
        """Store the facts that a model extracted from a window; idempotent.

        A fact without a quote of the user is dropped.

        Args:
            window: As it is now: what was forgotten meanwhile is not in it.
            extracted: The model's reply.
            known: Facts that it was shown, and so may replace.

        Raises:
            StorageError: The database is away.
        """
        zone = self._zone(window)
        said = {f"msg-{message.id}": message for message in window.typed}
        words = {message.id: normalise(message.text) for message in window.typed}
        most = max(MAX_FACTS, MAX_FACTS_A_MESSAGE * len(window.messages))
        for fact in extracted.facts[:most]:
            source = _source_of(fact, said, words)
            if source is None or not fact.text:
                continue
            try:
                await self._memories.writer.remember(
                    window.state.owner,
                    fact,
                    Said(source.id, source.text, local_time(source.said_at, zone)),
                    origin="extraction",
                    contradicts=fact.replaced_ids() & set(known),
                )
            except StorageRejectedError as error:  # a retry would fail as well
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
            How many windows were read; with MAX_WINDOWS there may be more.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelUnavailableError: Worth another try, within ``PARTING_SECONDS``.
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
            messages = fitting(found, least=1, longest=MAX_TEXT)
            if settings.memory_extraction_enabled and state.memory_on:
                await self._remember(Window(state, 0, 0, messages), list_parting)
            ids = [message.id for message in messages]
            await self._client.run(self._states.delete_parting, state.owner, ids)
        return MAX_WINDOWS

    async def _find_unread(self, conversation_id: UUID) -> digest_repo.DigestState | None:
        """The state of a conversation with unread messages; None without any.

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
        """The next ``size`` messages, or as many of them as one call may read."""
        first = state.extracted_position + 1
        last = min(state.last_position, first + size - 1)
        load = self._conversations.list_messages
        found = await self._client.run(load, state.conversation_id, first, last)
        messages = fitting(found, least=least, longest=MAX_TEXT)
        if len(messages) < len(found):
            last = messages[-1].position
        return Window(state, first, last, messages)

    async def _is_left_to_batch(
        self, state: digest_repo.DigestState, settings: GlobalSettings
    ) -> bool:
        """Whether this window is in a batch, or will be: batches that failed leave it to us."""
        failures, is_waiting = await self._client.run(
            self._batches.count_tries, state.conversation_id, state.extracted_position + 1
        )
        is_batched = settings.memory_extraction_provider != "immediate"
        return is_waiting or (is_batched and failures < MAX_BATCH_TRIES)

    async def _remember(self, window: Window, reread: Callable[[], list[PastMessage]]) -> None:
        """Extract one window; skip one that the model refuses."""
        known: dict[int, str] = {}

        async def question(on_usage: Callable[[ModelUsage], None]) -> ExtractedFacts:
            prompt, shown = await self.build_prompt(window)
            known.update(shown)
            return await self._caller().structured(
                prompt, ExtractedFacts, purpose="extract", on_usage=on_usage
            )

        positions = window.messages[0].position, window.messages[-1].position
        extracted = await self._model.ask(window.state.conversation_id, positions, question)
        if extracted is None:
            return
        left = await self._client.run(reread)  # without messages forgotten meanwhile
        await self.store_facts(replace(window, messages=left), extracted, known.keys())

    def _caller(self) -> ModelCaller:
        """The caller of the operator's model; a name without a provider is a batch model."""
        name = self._settings.last_known.memory_extraction_model
        return self._callers(name if ":" in name else "")

    def _zone(self, window: Window) -> str:
        return window.state.time_zone or self._time_zone

    async def _known_facts(self, window: Window, zone: str) -> dict[int, str]:
        """Facts for the prompt: the most important ones, and neighbours of each message."""
        owner = window.state.owner
        facts = await self._client.run(
            self._memories.facts.list_facts, owner, FactQuery("weight", limit=MAX_KNOWN)
        )
        known = {fact.id: _told(fact.speaker, fact.text) for fact in facts}
        if len(known) < MAX_KNOWN:
            return known  # these are all
        for message in window.typed:
            if holds_secret(message.text):
                continue
            moment = local_time(message.said_at, zone)
            near = Query(owner, message.text, moment, limit=NEIGHBOURS, kinds=("memory",))
            known |= {
                hit.source_id: _told(hit.author, hit.text)
                for hit in await self._memories.retriever.search(near)
                if not hit.retired
            }
        return known


def _told(speaker: str | None, text: str) -> str:
    """A fact; in a group with who told it."""
    return f"{speaker}: {text}" if speaker else text


def _record(message: PastMessage, zone: str) -> dict[str, str]:
    return {
        "uid": f"msg-{message.id}",
        "role": message.role,
        "said_at": f"{local_time(message.said_at, zone):%Y-%m-%d %H:%M}",
        **message.voice.fields(),
        "text": message.text[:MAX_TEXT],
    }


def _source_of(
    fact: Fact, said: Mapping[str, PastMessage], words: Mapping[int, str]
) -> PastMessage | None:
    """The user's message that holds the fact's quote, first of all the one that it names.

    Args:
        fact: What the model proposes.
        said: The user's messages, by their uids.
        words: Their normalised texts, by id.
    """
    named = said.get(fact.message)
    wanted = normalise(fact.quote)
    candidates = [*([named] if named else []), *said.values()]
    holders = (m for m in candidates if wanted and wanted in words[m.id])
    return next(holders, named)
