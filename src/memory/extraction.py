"""Extraction in the background: one model call for each closed window of a conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from langchain_core.messages import BaseMessage

from src.base.errors import StorageRejectedError
from src.base.owners import Owner
from src.base.zones import local_time
from src.history.conversation_repo import PastMessage
from src.llm.chat import ModelCaller
from src.llm.reply import ModelUsage
from src.memory.budget import BackgroundModel, DailyCeilings
from src.memory.compaction import fitting, portion_size
from src.memory.digest_repo import ExtractionState
from src.memory.memories import Memories
from src.memory.prompts import ExtractedFacts, extraction_messages
from src.memory.repositories import Repositories
from src.memory.retriever import Query
from src.memory.writer import Said
from src.pg.global_settings_repo import GlobalSettings
from src.reading.facts import Fact, normalise
from src.reading.gate import holds_secret

logger = logging.getLogger(__name__)

MAX_WINDOWS = 10  # of one job; the rest waits for the next turn or the periodic job
MAX_FACTS = 50  # of one window of twenty messages; nobody tells more
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
        conversation_id: Where they stand, or stood before /new.
        state: Whose they are.
        first: The position that it begins with.
        last: The position up to which the conversation has been read then.
        messages: The messages, oldest first.
    """

    conversation_id: UUID
    state: ExtractionState
    first: int
    last: int
    messages: Sequence[PastMessage]

    @property
    def is_told(self) -> bool:
        """Whether the user says something himself in it."""
        return any(message.role == "user" and message.voice.is_own for message in self.messages)


class ExtractionService:
    """Reads what was said since the last time, and remembers what is worth it."""

    def __init__(
        self,
        repositories: Repositories,
        memories: Memories,
        callers: Callable[[str], ModelCaller],
        ceilings: DailyCeilings,
        *,
        time_zone: str,
    ) -> None:
        """Ask below ``ceilings``; ``time_zone`` is that of users without their own.

        ``callers`` returns the caller of a model, by ``provider:model``; of the environment's
        without a name.
        """
        self._client = repositories.client
        self._repos = repositories
        self._memories = memories
        self._callers = callers
        self._time_zone = time_zone
        self._model = BackgroundModel(repositories, ceilings, "a window was not understood")

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
        for done in range(MAX_WINDOWS):
            state = await self._client.run(self._repos.extraction.find_state, conversation_id)
            if state is None:
                return done
            if not state.memory_on:
                await self._skip(conversation_id, state)
                return done
            unread = state.last_position - state.extracted_position
            silence = 60 * settings.memory_extraction_silence_minutes
            is_closed = unread >= settings.memory_extraction_window
            if not is_closed and (unread < 1 or state.silent_seconds < silence):
                return done
            if await self._is_left_to_batch(conversation_id, state, settings):
                return done
            usual = settings.memory_extraction_window
            size = portion_size(unread, usual, far=FAR_BEHIND, most=MAX_WINDOW)
            await self._read_window(await self._load(conversation_id, state, size, usual))
        return MAX_WINDOWS

    async def find_window(self, conversation_id: UUID) -> Window | None:
        """What a batch is to read of a conversation, as much as one request may; None: nothing.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        state = await self._client.run(self._repos.extraction.find_state, conversation_id)
        if state is None or state.last_position <= state.extracted_position:
            return None
        if not state.memory_on:
            await self._skip(conversation_id, state)
            return None
        size = min(state.last_position - state.extracted_position, MAX_WINDOW)
        return await self._load(conversation_id, state, size, settings.memory_extraction_window)

    async def find_window_again(
        self, conversation_id: UUID, first: int, last: int
    ) -> Window | None:
        """A window that was gathered before, as it is now; None when its conversation is gone.

        Raises:
            StorageError: The database is away.
        """
        state = await self._client.run(self._repos.extraction.find_state, conversation_id)
        if state is None or not state.memory_on:
            return None
        messages = await self._client.run(
            self._repos.conversations.list_messages, conversation_id, first, last
        )
        return Window(conversation_id, state, first, last, messages)

    async def build_prompt(self, window: Window) -> tuple[list[BaseMessage], dict[int, str]]:
        """What a model is asked about a window, and the known facts in it, by their ids.

        Raises:
            StorageError: The database is away.
        """
        zone = window.state.time_zone or self._time_zone
        known = await self._known_facts(window.state.owner, window.messages, zone)
        records = [_record(message, zone) for message in window.messages]
        return extraction_messages(records, known), known

    async def store_facts(
        self, window: Window, extracted: ExtractedFacts, known: Collection[int]
    ) -> None:
        """Remember what a model has read in a window; doing it again changes nothing.

        Args:
            window: As it is now: what was forgotten meanwhile is not in it.
            extracted: The model's reply.
            known: Facts that it was shown, and so may replace.

        Raises:
            StorageError: The database is away.
        """
        zone = window.state.time_zone or self._time_zone
        # What the user did not type himself is context.
        said = {f"msg-{m.id}": m for m in window.messages if m.role == "user" and m.voice.is_own}
        most = max(MAX_FACTS, MAX_FACTS_A_MESSAGE * len(window.messages))
        await self._store(window.state.owner, extracted.facts[:most], said, known, zone)

    async def advance(self, window: Window) -> None:
        """A window was read, or has nothing to read.

        Raises:
            StorageError: The database is away.
        """
        await self._client.run(
            self._repos.extraction.advance,
            window.conversation_id,
            first=window.first,
            last=window.last,
        )

    async def _skip(self, conversation_id: UUID, state: ExtractionState) -> None:
        """What was said while the memory is off is never read for facts, also not later."""
        first, last = state.extracted_position + 1, state.last_position
        if last >= first:
            advance = self._repos.extraction.advance
            await self._client.run(advance, conversation_id, first=first, last=last)

    async def _load(
        self, conversation_id: UUID, state: ExtractionState, size: int, least: int
    ) -> Window:
        """The next ``size`` messages, or as many of them as one call may read."""
        first = state.extracted_position + 1
        last = min(state.last_position, first + size - 1)
        found = await self._client.run(
            self._repos.conversations.list_messages, conversation_id, first, last
        )
        messages = fitting(found, least=least, longest=MAX_TEXT)
        if len(messages) < len(found):
            last = messages[-1].position
        return Window(conversation_id, state, first, last, messages)

    async def _is_left_to_batch(
        self, conversation_id: UUID, state: ExtractionState, settings: GlobalSettings
    ) -> bool:
        """Whether a batch reads this window: it has it already, or will, unless it failed to."""
        failures, is_waiting = await self._client.run(
            self._repos.batches.count_tries, conversation_id, state.extracted_position + 1
        )
        is_batched = settings.memory_extraction_provider != "immediate"
        return is_waiting or (is_batched and failures < MAX_BATCH_TRIES)

    async def _read_window(self, window: Window) -> None:
        if window.is_told:
            read_again = partial(
                self._repos.conversations.list_messages,
                window.conversation_id,
                window.messages[0].position,
                window.messages[-1].position,
            )
            await self._remember(window, read_again)
        await self.advance(window)

    async def read_parting(self, conversation_id: UUID) -> int:
        """Read what the owner's last /new deleted unread; it is gone for good afterwards.

        Args:
            conversation_id: His conversation since then.

        Returns:
            How many windows were read; with MAX_WINDOWS there may be more.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelUnavailableError: Worth another try, within ``PARTING_SECONDS``.
            StorageError: The database is away.
        """
        settings = await self._memories.settings()
        state = await self._client.run(self._repos.extraction.find_state, conversation_id)
        if state is None:
            return 0
        list_parting = partial(self._repos.extraction.list_parting, state.owner, limit=MAX_WINDOW)
        for done in range(MAX_WINDOWS):
            found = await self._client.run(list_parting)
            if not found:
                return done
            messages = fitting(found, least=1, longest=MAX_TEXT)
            if settings.memory_extraction_enabled and state.memory_on:
                window = Window(conversation_id, state, 0, 0, messages)
                await self._remember(window, list_parting)
            ids = [message.id for message in messages]
            await self._client.run(self._repos.extraction.delete_parting, state.owner, ids)
        return MAX_WINDOWS

    async def _remember(self, window: Window, reread: Callable[[], list[PastMessage]]) -> None:
        """Read one window; pass over one that the model does not take, now and always."""
        known: dict[int, str] = {}

        async def question(on_usage: Callable[[ModelUsage], None]) -> ExtractedFacts:
            prompt, shown = await self.build_prompt(window)
            known.update(shown)
            return await self._caller().structured(
                prompt, ExtractedFacts, purpose="extract", on_usage=on_usage
            )

        positions = window.messages[0].position, window.messages[-1].position
        extracted = await self._model.ask(window.conversation_id, positions, question)
        if extracted is None:
            return
        left = await self._client.run(reread)  # without what was forgotten meanwhile
        await self.store_facts(replace(window, messages=left), extracted, known.keys())

    def _caller(self) -> ModelCaller:
        """That of the operator's model; a batch's model alone names no provider of its own."""
        name = self._repos.settings.last_known.memory_extraction_model
        return self._callers(name if ":" in name else "")

    async def _store(
        self,
        owner: Owner,
        facts: Sequence[Fact],
        said: Mapping[str, PastMessage],
        known: Collection[int],
        zone: str,
    ) -> None:
        """Remember what has a source; what quotes nobody, or the assistant, is no fact."""
        words = {message.id: normalise(message.text) for message in said.values()}
        for fact in facts:
            source = _source_of(fact.quote, said.get(fact.message), said, words)
            if source is None or not fact.text:
                continue
            moment = local_time(source.said_at, zone)
            try:
                await self._memories.remember(
                    owner,
                    fact,
                    Said(source.id, source.text, moment),
                    origin="extraction",
                    contradicts=fact.replaced_ids() & set(known),
                )
            except StorageRejectedError as error:  # as it would be the next time
                logger.warning("an extracted fact could not be stored", exc_info=error)

    async def _known_facts(
        self, owner: Owner, messages: Sequence[PastMessage], zone: str
    ) -> dict[int, str]:
        """What the model is shown: the most important facts, and those near to what was said."""
        known = await self._client.run(self._repos.extraction.list_known, owner, limit=MAX_KNOWN)
        if len(known) < MAX_KNOWN:
            return known  # these are all
        for message in messages:
            is_told = message.role == "user" and message.voice.is_own
            if is_told and not holds_secret(message.text):
                moment = local_time(message.said_at, zone)
                near = Query(owner, message.text, moment, limit=NEIGHBOURS, kinds=("memory",))
                hits = await self._memories.search(near)
                known |= {
                    hit.source_id: f"{hit.author}: {hit.text}" if hit.author else hit.text
                    for hit in hits
                    if not hit.retired
                }
        return known


def _record(message: PastMessage, zone: str) -> dict[str, str]:
    return {
        "uid": f"msg-{message.id}",
        "role": message.role,
        "said_at": f"{local_time(message.said_at, zone):%Y-%m-%d %H:%M}",
        **message.voice.fields(),
        "text": message.text[:MAX_TEXT],
    }


def _source_of(
    quote: str,
    named: PastMessage | None,
    said: Mapping[str, PastMessage],
    words: Mapping[int, str],
) -> PastMessage | None:
    """The user's message that holds the quote, first of all the one that the model names.

    Args:
        quote: What the model copied.
        named: The message that it names, if it is one.
        said: The user's messages.
        words: Their normalised texts, by id.
    """
    wanted = normalise(quote)
    candidates = [*([named] if named else []), *said.values()]
    holders = (m for m in candidates if wanted and wanted in words[m.id])
    return next(holders, named)
