"""One turn, in the order of seed 001: store, load, answer, store.

Telegram and the console call the same three steps: ``begin_turn``, ``answer``,
``mark_delivered``. Each step can be repeated after a crash without doing its work twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast
from uuid import UUID

from langgraph.errors import GraphRecursionError

from src.errors import ConversationGoneError, StorageError
from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.main_graph import Graph
from src.graph.new_messages import asked_text, new_messages, voice_of
from src.language.requests import asks_to_keep_private
from src.llm.prompts.time_label import add_time_label
from src.logs import log_extra
from src.memory.memories import Memories
from src.memory.retriever import Hit
from src.memory.voices import TYPED, Voice
from src.metrics import Metrics
from src.services.answer_bounds import Writing, bounded
from src.services.confirmation import asked_before, reads_as_yes
from src.services.history_reader import HistoryReader
from src.services.private_answers import repeats_private
from src.services.sources import GrowingReferences, cited_sources
from src.services.tool_history_service import ToolHistoryService
from src.services.turn_control import TurnControl, TurnCutError, TurnStoppedError
from src.storage.conversation_repo import (
    ConversationRepository,
    HistoryMessage,
    TelegramOrigin,
)
from src.storage.erasure_repo import ErasureRepository
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.memory_job_repo import MemoryJobRepository
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, storable
from src.storage.turn_repo import ModelUsage, NewAnswer, StoredAnswer, TurnRepository
from src.storage.user_settings_repo import Mode
from src.texts import Language, say
from src.texts.visible import is_visible

logger = logging.getLogger(__name__)

# Of the graph, as a net below ``tool_calls.MAX_ROUNDS``: eight rounds that each save a fact take
# six steps each, and what comes before and after them ten.
MAX_STEPS = 60


@dataclass(frozen=True)
class IncomingMessage:
    """A message to answer.

    Attributes:
        telegram_user_id: The owner: the person, or the group's negative chat id.
        text: What was written.
        moment: When (aware).
        language: For the sentences that the bot says itself.
        time_zone: The owner's zone.
        mode: ``assistant`` or ``strict``.
        thread_id: The topic of a forum group, else 0.
        origin: Where in Telegram it stands; None in the console.
        voice: Whose words it holds.
    """

    telegram_user_id: int
    text: str
    moment: datetime
    language: Language
    time_zone: str
    mode: Mode = "assistant"
    thread_id: int = 0
    origin: TelegramOrigin | None = None
    voice: Voice = TYPED

    @property
    def speaker_id(self) -> int | None:
        """Who says "I", where the owner is a group."""
        return self.origin.sender_id if self.origin and self.telegram_user_id < 0 else None

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return Owner(self.telegram_user_id, self.thread_id)


@dataclass(frozen=True)
class Turn:
    """A stored message that waits for its answer, or has it already (after a crash).

    Attributes:
        incoming: The message.
        conversation_id: Where it is stored.
        message_id: Its id there.
        is_new: Whether it was stored just now, so that this is the first attempt.
        history: The last 30 messages, oldest first, this one last.
        window_start: Position of the first message that the model sees.
        summaries: Of what lies before it, oldest first.
        answer: Its answer, when an earlier attempt got that far.
        is_private: Whether it says that it shall not be remembered.
    """

    incoming: IncomingMessage
    conversation_id: UUID
    message_id: int
    is_new: bool = True
    history: tuple[HistoryMessage, ...] = ()
    window_start: int = 1
    summaries: tuple[str, ...] = ()
    answer: StoredAnswer | None = None
    is_private: bool = False


@dataclass(frozen=True)
class TurnStores:
    """Where a turn is kept."""

    conversations: ConversationRepository
    turns: TurnRepository
    history: HistoryReader
    memory_jobs: MemoryJobRepository
    settings: GlobalSettingsRepository
    erasure: ErasureRepository


class AgentService:
    """Answers messages; the one place where a turn's order is written down."""

    def __init__(
        self,
        client: PgClient,
        stores: TurnStores,
        graph: Graph,
        memories: Memories,
        *,
        tool_history: ToolHistoryService,
        metrics: Metrics,
    ) -> None:
        """Use what ``src/application.py`` built."""
        self._client = client
        self._conversations = stores.conversations
        self._turns = stores.turns
        self._history = stores.history
        self._memory_jobs = stores.memory_jobs
        self._settings = stores.settings
        self._erasure = stores.erasure
        self._graph = graph
        self._memories = memories
        self._tool_history = tool_history
        self._metrics = metrics

    async def begin_turn(self, incoming: IncomingMessage, *, is_answered: bool = True) -> Turn:
        """Get or create the conversation, store the message with its time before it, load 30.

        A message that is stored already (the turn was interrupted) is found, with its answer
        if it has one. One whose answer is left to a later message is only stored.
        """
        is_private = incoming.voice.is_own and asks_to_keep_private(incoming.text)
        is_searched = is_answered and incoming.mode == "assistant" and not is_private
        if is_searched and incoming.text.strip():
            self._memories.prepare_search(incoming.text)  # it takes as long as all the rest
        with self._metrics.stage("store"):
            return await self._client.run(self._store_message, incoming, is_answered, is_private)

    async def answer(
        self,
        turn: Turn,
        *,
        control: TurnControl | None = None,
        on_text: Callable[[str], None] = lambda _text: None,
    ) -> StoredAnswer:
        """Run the graph on the last 30 messages; store the answer and the tools it used.

        Args:
            turn: A begun turn. One that has an answer gets that one, without a model call.
            control: Ends the generation when the user stops it; what was written is kept. So it
                is when the answer reaches one of its bounds.
            on_text: Called with each piece of the answer as it is written.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The model refused.
            ConversationGoneError: /new wiped the conversation meanwhile.
        """
        ready = turn.answer or await self._answer_to_question(turn)
        if ready is not None:
            return ready
        control = control or TurnControl()
        limits = self._settings.last_known
        sources: list[Hit] = []
        shown = GrowingReferences(on_text, sources, text=turn.incoming.text)
        writing = Writing(shown.feed, limit=limits.answer_max_characters, on_limit=control.cut)
        usage: list[ModelUsage] = []
        context = self._context(turn, writing.add, usage, sources)
        language = turn.incoming.language
        try:
            state = await control.run(
                self._run_graph(turn, context), seconds=limits.answer_max_seconds
            )
        except TurnStoppedError:
            return await self._save(turn, writing.text, context, stopped=True)
        except TurnCutError:
            return await self._save(turn, writing.cut_text(language), context)
        except GraphRecursionError:
            return await self._save(turn, say("too_many_steps", language), context)
        except Exception:
            await self._save_usage(turn, usage)
            raise
        shown.flush()
        text = bounded(state.get("answer") or "", limits.answer_max_characters, language)
        if context.asks == "erase_all":  # the question is ours to word: much depends on it
            text = say("erase_ask", language)
        answer = await self._save(turn, text, context, tools=tuple(state.get("tools_used", ())))
        return replace(answer, intent=state.get("intent"))

    async def mark_delivered(
        self, turn: Turn, answer: StoredAnswer, *, parts: int = 1, update: int | None = None
    ) -> None:
        """The user has the answer; ``update`` is the row id of the update that asked for it.

        Then the memory's jobs are asked to take the turn in, where there are jobs.
        """

        def finish() -> None:
            self._turns.mark_delivered(turn.conversation_id, answer.id, parts=parts, update=update)
            if update is not None:
                self._memory_jobs.defer_indexing()

        await self._client.run(finish)

    async def mark_stopped(self, turn: Turn) -> None:
        """The user stopped the answer before it began."""
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)

    async def start_new_conversation(self, telegram_user_id: int, *, thread_id: int = 0) -> UUID:
        """/new: delete the owner's conversations with all that hangs on them, start another.

        What nobody has read for facts yet is read by a job afterwards.
        """
        await self._tool_history.clear(telegram_user_id, thread_id=thread_id)
        settings = await self._client.run(self._settings.get)
        return await self._client.run(
            self._conversations.create_new_conversation,
            telegram_user_id,
            thread_id=thread_id,
            keep_unread=settings.memory_extraction_enabled,
        )

    async def confirm_erasure(
        self, telegram_user_id: int, *, thread_id: int = 0, agreed: bool
    ) -> str:
        """What a button under the question does; the key of the sentence that says so."""
        if not agreed:
            return "erase_kept"
        conversation_id = await self._client.run(
            self._conversations.get_or_create_conversation, telegram_user_id, thread_id=thread_id
        )
        newest = await self._client.run(self._conversations.load_last_messages, conversation_id)
        asked = [entry for entry in newest if entry["role"] == "assistant"][-1:]
        if not asked or asked[0].get("asks") != "erase_all":
            return "erase_late"
        await self.erase(telegram_user_id)
        return "erase_done"

    async def was_stopped(self, telegram_user_id: int, *, thread_id: int = 0) -> bool:
        """Whether the answer to the owner's newest message was stopped."""
        owner = Owner(telegram_user_id, thread_id)
        return await self._client.run(self._turns.was_newest_stopped, owner)

    def _store_message(
        self, incoming: IncomingMessage, is_answered: bool, is_private: bool
    ) -> Turn:
        content = add_time_label(incoming.text, incoming.moment, incoming.time_zone)
        for last_try in (False, True):
            conversation_id = self._conversations.get_or_create_conversation(
                incoming.telegram_user_id, thread_id=incoming.thread_id
            )
            try:
                message = self._conversations.add_message(
                    conversation_id,
                    "user",
                    content,
                    origin=incoming.origin,
                    said_at=incoming.moment,
                    voice=replace(incoming.voice, is_private=is_private),
                )
                break
            except ConversationGoneError:  # wiped between the two statements
                if last_try:
                    raise
        answer = None
        if not message.is_new:
            answer = self._turns.find_answer(conversation_id, message.id)
        if not is_answered:
            return Turn(incoming, conversation_id, message.id, message.is_new, answer=answer)
        with self._metrics.stage("load"):
            window = self._history.read(conversation_id)
        return Turn(
            incoming,
            conversation_id,
            message.id,
            message.is_new,
            window.history,
            window.start,
            window.summaries,
            answer,
            is_private,
        )

    def _context(
        self,
        turn: Turn,
        on_text: Callable[[str], None],
        usage: list[ModelUsage],
        sources: list[Hit],
    ) -> TurnContext:
        incoming = turn.incoming
        return TurnContext(
            owner=incoming.owner,
            conversation_id=turn.conversation_id,
            message_id=turn.message_id,
            text=asked_text(new_messages(turn.history), storable(incoming.text)),
            moment=incoming.moment,
            time_zone=incoming.time_zone,
            language=incoming.language,
            mode=incoming.mode,
            window_start=turn.window_start,
            on_text=on_text,
            usage=usage,
            sources=sources,
            is_private=turn.is_private,
            speaker_id=incoming.speaker_id,
        )

    async def _run_graph(self, turn: Turn, context: TurnContext) -> ConversationState:
        conversation_id, message_id = str(turn.conversation_id), turn.message_id
        ids = log_extra(conversation_id=conversation_id, message_id=message_id)
        with self._metrics.stage("model"), ids:
            state = await self._graph.ainvoke(
                {
                    "history": list(turn.history),
                    "summaries": list(turn.summaries),
                },
                context=context,
                config={"recursion_limit": MAX_STEPS},
            )
        return cast("ConversationState", state)

    async def _save(
        self,
        turn: Turn,
        text: str,
        context: TurnContext,
        *,
        tools: tuple[str, ...] = (),
        stopped: bool = False,
    ) -> StoredAnswer:
        for call in context.usage:
            self._count(call)
        text, sources = cited_sources(text, context)
        text = text.strip() if is_visible(text) else ""
        if not text and not stopped:  # or it consisted of references to nothing
            text = say("empty_answer", turn.incoming.language)
        if stopped:
            mark = say("stopped_early", turn.incoming.language)
            text = f"{text}\n\n{mark}".strip()
        answer = NewAnswer(
            turn.conversation_id,
            turn.message_id,
            text,
            tools,
            tuple(context.usage),
            stopped,
            sources,
            context.asks if not stopped else None,
            repeats_private(text, turn.history)
            or any(voice_of(entry).is_private for entry in new_messages(turn.history)),
        )
        with self._metrics.stage("save"):
            stored = await self._client.run(self._turns.save_answer, answer)
        self._metrics.turns.labels("stopped" if stopped else "answered").inc()
        return replace(
            stored,
            replaced_by=tuple(context.replacements),
            forgetting=context.forgetting,
            asks=answer.asks,
        )

    async def erase(self, telegram_user_id: int) -> None:
        """Delete everything of an owner, as ``python bot.py erase`` does."""
        await self._client.run(self._erasure.erase, telegram_user_id)

    async def _answer_to_question(self, turn: Turn) -> StoredAnswer | None:
        """What follows a yes or a no to the question whether to erase; None for other messages.

        After a yes nothing is stored of it either.
        """
        agreed = reads_as_yes(turn.incoming.text) if turn.incoming.voice.is_own else None
        if agreed is None or asked_before(turn.history) != "erase_all":
            return None
        language = turn.incoming.language
        if agreed:
            await self.erase(turn.incoming.telegram_user_id)
            return StoredAnswer(0, say("erase_done", language), False, 0)
        context = self._context(turn, lambda _text: None, [], [])
        return await self._save(turn, say("erase_kept", language), context)

    async def _save_usage(self, turn: Turn, usage: list[ModelUsage]) -> None:
        """Record the calls of a turn that failed; its error matters more than a failure here."""
        for call in usage:
            self._count(call)
        try:
            await self._client.run(self._turns.add_usage, turn.conversation_id, tuple(usage))
        except StorageError as error:
            logger.warning("model usage not recorded", exc_info=error)

    def _count(self, call: ModelUsage) -> None:
        for kind, tokens in (
            ("prompt", call.prompt_tokens),
            ("cached", call.cached_tokens),
            ("completion", call.completion_tokens),
        ):
            self._metrics.tokens.labels(call.model, kind).inc(tokens or 0)
