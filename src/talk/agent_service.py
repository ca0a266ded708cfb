"""One turn: store the message, load the last ones, answer, store the answer, deliver it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast
from uuid import UUID

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphRecursionError

from src.base.errors import StorageError
from src.base.logs import log_extra
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.base.zones import local_time
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import add_time_label, asked_text, new_messages, voice_of
from src.history.turn_repo import Changes, NewAnswer, StoredAnswer
from src.llm.embeddings import QuietMoments
from src.llm.reply import ModelUsage
from src.memory.budget import DailyCeilings
from src.memory.compaction import window_start
from src.memory.memories import Memories
from src.memory.repositories import Repositories
from src.memory.retriever import Hit
from src.memory.turn_context import TurnContext
from src.pg.client import Transaction, storable
from src.pg.global_settings_repo import GlobalSettings
from src.privacy.erasure_repo import ErasureRepository
from src.queue.update_repo import Behind, UpdateOutcome
from src.reading.requests import asks_to_keep_private
from src.reading.voices import clean_name
from src.talk.answers import (
    GrowingReferences,
    asked_before,
    cited_sources,
    question_before,
    reads_as_choice,
    reads_as_yes,
    repeats_private,
)
from src.talk.conversation_state import ConversationState
from src.talk.main_graph import Graph
from src.talk.questions import QuestionService
from src.talk.teaching import TeachingService
from src.talk.tool_history import ToolHistoryService
from src.talk.turn import (
    AnswerView,
    IncomingMessage,
    Turn,
    TurnControl,
    TurnCutError,
    TurnStoppedError,
    Writing,
    bounded,
    stoppable_delivery,
)
from src.texts import say
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

# Of the graph, as a net below ``assistant.MAX_ROUNDS``: eight rounds that each save a fact take
# six steps each, and what comes before and after them ten.
MAX_STEPS = 60
CALLERS = ("assistant", "summarize", "classify_intent")  # the nodes that call a model first


class AgentService:
    """Answers messages; the one place where a turn's order is written down."""

    def __init__(  # noqa: PLR0913  (each has its part in a turn)
        self,
        repositories: Repositories,
        graph: Graph,
        memories: Memories,
        *,
        teaching: TeachingService,
        questions: QuestionService,
        tool_history: ToolHistoryService,
        metrics: Metrics,
        ceilings: DailyCeilings,
        quiet: QuietMoments | None = None,
    ) -> None:
        """Answer with ``graph``, search ahead in ``memories``."""
        self._client = repositories.client
        self._repos = repositories
        self._erasure = ErasureRepository(repositories.client)
        self._graph = graph
        self._memories = memories
        self._teaching = teaching
        self._questions = questions
        self._tool_history = tool_history
        self._metrics = metrics
        self._ceilings = ceilings
        self._quiet = quiet or QuietMoments()

    async def run_turn(
        self, incoming: IncomingMessage, view: AnswerView, control: TurnControl | None = None
    ) -> UpdateOutcome:
        """Store the message, load what belongs to it, answer, show, and note that it is done.

        It may be called again after a crash at any point: nothing is done twice.

        Args:
            incoming: The message.
            view: Where its answer appears.
            control: The user's Stop ends what runs through it.

        Raises:
            TransientError: Worth another try.
            ConversationGoneError: /new wiped the conversation meanwhile.
            AppError: There is no answer.
        """
        with self._quiet.turn():
            return await self._run_turn(incoming, view, control or TurnControl())

    async def _run_turn(
        self, incoming: IncomingMessage, view: AnswerView, control: TurnControl
    ) -> UpdateOutcome:
        turn = await self.begin_turn(incoming)
        if turn.answer is None and turn.newer is not None:
            return "left to a later message"
        if turn.answer is not None and turn.is_ended:
            return await self._end_delivery(turn, turn.answer, turn.answer.delivered_parts)
        answer = turn.answer or await self._generate(turn, view, control)
        if control.stopped and await self._is_wiped_soon(turn):
            return "wiped"  # nobody wants the beginning of an answer that /new is about to delete
        parts = answer.delivered_parts

        async def remember_parts(arrived: int) -> None:
            nonlocal parts
            parts = arrived
            mark = self._repos.turns.mark_delivered_parts
            sent = list(view.sent_ids)
            await self._client.run(mark, turn.conversation_id, answer.id, arrived, sent=sent)

        try:
            with stoppable_delivery(control), self._metrics.stage("deliver"):
                if not answer.delivered:
                    parts = await view.deliver(turn, answer, remember_parts)
        except TurnStoppedError:
            return await self._end_delivery(turn, answer, parts, view.sent_ids)
        await self.mark_delivered(turn, answer, parts=parts, sent=view.sent_ids)
        return "done"

    async def begin_turn(self, incoming: IncomingMessage) -> Turn:
        """Store the message with its time before it, and load the last 30, in one transaction.

        A message that is stored already (the turn was interrupted) is found, with its answer
        if it has one. One whose answer is left to a later message is only stored.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            QuestionMovedError: It was changed by an erasure, and is to be read again.
            StorageError: The database is away.
        """
        is_private = incoming.voice.is_own and asks_to_keep_private(incoming.text)
        is_taught = incoming.teaching is not None
        is_private = is_private and not is_taught
        is_left = incoming.newer is not None or is_private or is_taught
        is_left = is_left or not incoming.memory_on
        if incoming.mode == "assistant" and not is_left and incoming.text.strip():
            self._memories.prepare_search(incoming.text)  # it takes as long as all the rest
        with self._metrics.stage("store"):
            return await self._client.run(self._begin, incoming, is_private)

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
        ready = (
            turn.answer
            or await self._teach(turn)
            or await self._answer_to_question(turn)
            or await self._settle(turn)
            or await self._refuse_over_ceiling(turn)
        )
        if ready is not None:
            return ready
        control = control or TurnControl()
        limits = self._repos.settings.last_known
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
        if state.get("disputed_facts"):
            text = await self._ask_which(context, state, text)
        answer = await self._save(turn, text, context, tools=tuple(state.get("tools_used", ())))
        return replace(answer, intent=state.get("intent"))

    async def preview_prompt(self, incoming: IncomingMessage) -> list[AnyMessage]:
        """The prompt that a message would be answered with; no model is called, nothing stored.

        A long one would be summarised first; it is shown as it is before that. In strict mode
        there is no one prompt, so the list is empty.
        """
        turn = await self._client.run(self._pretend, incoming)
        state = await self._graph.ainvoke(
            {"history": list(turn.history), "summaries": list(turn.summaries)},
            context=self._context(turn, lambda _text: None, [], []),
            interrupt_before=CALLERS,
        )
        return list(state.get("messages", ()))

    async def mark_delivered(
        self,
        turn: Turn,
        answer: StoredAnswer,
        *,
        parts: int = 1,
        update: int | None = None,
        sent: Sequence[int] = (),
    ) -> None:
        """The user has the answer, and the update that asked for it (its row id) is done.

        ``sent`` are the ids of the Telegram messages that show it, as far as they are known. The
        memory's jobs are asked to take the turn in, where there are jobs.
        """
        await self._client.run(
            self._repos.turns.mark_delivered,
            turn.conversation_id,
            answer.id,
            parts=parts,
            update=update if update is not None else turn.incoming.update,
            sent=list(sent),
        )

    async def start_new_conversation(self, owner: Owner) -> UUID:
        """/new: delete the owner's conversations with all that hangs on them, start another.

        What nobody has read for facts yet is read by a job afterwards.
        """
        await self._tool_history.clear(owner)
        settings = await self._client.run(self._repos.settings.get)
        return await self._client.run(
            self._repos.conversations.create_new_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
            keep_unread=settings.memory_extraction_enabled,
        )

    async def confirm_erasure(self, owner: Owner, *, agreed: bool) -> str:
        """What a button under the question does; the key of the sentence that says so."""
        if not agreed:
            return "erase_kept"
        conversation_id = await self.conversation_of(owner)
        newest = await self._client.run(
            self._repos.conversations.load_last_messages, conversation_id
        )
        asked = [entry for entry in newest if entry["role"] == "assistant"][-1:]
        if not asked or asked[0].get("asks") != "erase_all":
            return "erase_late"
        await self.erase(owner.telegram_user_id)
        return "erase_done"

    async def conversation_of(self, owner: Owner) -> UUID:
        """The owner's conversation; it begins when there is none."""
        return await self._client.run(
            self._repos.conversations.get_or_create_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
        )

    async def erase_facts(self, owner: Owner) -> None:
        """Delete every fact of an owner; what was said stays."""
        await self._client.run(self._erasure.erase_facts, owner)

    async def was_stopped(self, owner: Owner) -> bool:
        """Whether the answer to the owner's newest message was stopped."""
        return await self._client.run(self._repos.turns.was_newest_stopped, owner)

    def _begin(self, incoming: IncomingMessage, is_private: bool) -> Turn:
        """See ``begin_turn``; it blocks. The settings come first: they may need a connection."""
        settings = self._repos.settings.get()
        return self._client.in_transaction(
            lambda transaction: self._begin_within(transaction, incoming, is_private, settings)
        )

    def _begin_within(
        self,
        transaction: Transaction,
        incoming: IncomingMessage,
        is_private: bool,
        settings: GlobalSettings,
    ) -> Turn:
        repositories, origin = self._repos, incoming.origin
        behind = Behind(incoming.newer)
        if origin is not None and origin.update is not None:
            behind = repositories.updates.hold(transaction, origin.update, origin.revision)
        if incoming.teaching is not None:
            behind = Behind()  # what comes next answers none of it
        self._store_enclosed(transaction, incoming)
        message = repositories.conversations.store_message(
            transaction,
            incoming.owner,
            add_time_label(incoming.text, incoming.moment, incoming.time_zone),
            origin=origin,
            said_at=incoming.moment,
            voice=replace(incoming.voice, is_private=is_private),
        )
        conversation_id = message.conversation_id
        turn = Turn(
            incoming, conversation_id, message.id, message.is_new, behind.newer, behind.is_ended,
            is_private=is_private,
        )  # fmt: skip
        turns = repositories.turns
        if not message.is_new:
            shown_in = turns.find_stream_message(conversation_id, message.id, within=transaction)
            answer = turns.find_answer(conversation_id, message.id, within=transaction)
            turn = replace(turn, answer=answer, shown_in=shown_in)
        if turn.answer is not None:
            return turn
        if turn.newer is not None:
            if turn.newer in ("new", "stop"):
                turns.mark_stopped(conversation_id, message.id, within=transaction)
            return turn
        with self._metrics.stage("load"):
            return self._with_history(transaction, turn, settings)

    def _store_enclosed(self, transaction: Transaction, incoming: IncomingMessage) -> None:
        """What was read out of an attachment, as a message of its own before the caption.

        Its place in Telegram is the same; the negative number keeps the two apart.
        """
        enclosed, origin = incoming.enclosed, incoming.origin
        if enclosed is None or origin is None:
            return
        self._repos.conversations.store_message(
            transaction,
            incoming.owner,
            add_time_label(enclosed.text, incoming.moment, incoming.time_zone),
            origin=replace(origin, message_id=-origin.message_id, mentions=()),
            said_at=incoming.moment,
            voice=replace(
                incoming.voice, provenance="file", origin=clean_name(enclosed.name), quoted=None
            ),
        )

    def _pretend(self, incoming: IncomingMessage) -> Turn:
        """A turn as ``_begin`` would make it, of a message that is not stored; it blocks."""
        settings, owner = self._repos.settings.get(), incoming.owner
        conversation_id = self._repos.conversations.find_conversation(owner)
        turn = Turn(incoming, conversation_id or UUID(int=0), 0, is_new=True)
        turn = self._client.in_transaction(
            lambda transaction: self._with_history(transaction, turn, settings, pretended=1)
        )
        message: HistoryMessage = {
            "id": 0,
            "role": "user",
            "content": add_time_label(incoming.text, incoming.moment, incoming.time_zone),
            "position": turn.history[-1]["position"] + 1 if turn.history else 1,
            "sender_id": incoming.sender_id,
        }
        return replace(turn, history=(*turn.history, message))

    def _with_history(
        self,
        transaction: Transaction,
        turn: Turn,
        settings: GlobalSettings,
        *,
        pretended: int = 0,
    ) -> Turn:
        """The turn with the last messages; and summaries, once some have left the window.

        ``pretended`` messages, which are not stored, follow them.
        """
        history = tuple(
            self._repos.conversations.load_last_messages(
                turn.conversation_id, settings.history_messages - pretended, within=transaction
            )
        )
        last = (history[-1]["position"] if history else 0) + pretended
        start = window_start(last, window=settings.history_messages, step=settings.history_step)
        summaries: tuple[str, ...] = ()
        if start > 1:
            shown = self._repos.summaries.list_shown(
                turn.conversation_id, start, limit=settings.summaries_shown, within=transaction
            )
            summaries = tuple(summary.content for summary in shown)
        return replace(turn, history=history, window_start=start, summaries=summaries)

    async def _generate(self, turn: Turn, view: AnswerView, control: TurnControl) -> StoredAnswer:
        """The answer, shown while it is written."""

        async def remember_message(number: int) -> None:
            note = self._repos.turns.set_stream_message
            await self._client.run(note, turn.conversation_id, turn.message_id, number)

        await view.open(turn, remember_message)
        try:
            return await self.answer(turn, control=control, on_text=view.feed)
        finally:
            await view.close()

    async def _is_wiped_soon(self, turn: Turn) -> bool:
        if turn.incoming.update is None:
            return False
        find = partial(self._repos.updates.find_newer, turn.incoming.update, kinds=("new",))
        return await self._client.run(find) is not None

    async def _end_delivery(
        self, turn: Turn, answer: StoredAnswer, parts: int, sent: Sequence[int] = ()
    ) -> UpdateOutcome:
        """The user stopped it: what has arrived of the answer is all that he gets."""
        await self._client.run(
            self._repos.turns.mark_stopped, turn.conversation_id, turn.message_id
        )
        await self.mark_delivered(turn, answer, parts=parts, sent=sent)
        return "done"

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
            answer_length=incoming.answer_length,
            memory_on=incoming.memory_on,
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
                {"history": list(turn.history), "summaries": list(turn.summaries)},
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
        text, sources = cited_sources(text, context)
        text = text.strip() if is_visible(text) else ""
        if not text and not stopped:  # or it consisted of references to nothing
            text = say("empty_answer", turn.incoming.language)
        if stopped:
            mark = say("stopped_early", turn.incoming.language)
            text = f"{text}\n\n{mark}".strip()
        is_private = repeats_private(text, turn.history) or any(
            voice_of(entry).is_private for entry in new_messages(turn.history)
        )
        answer = NewAnswer(
            turn.conversation_id, turn.message_id, text, tools, tuple(context.usage), stopped,
            sources, context.asks if not stopped else None, is_private,
            Changes(
                tuple(context.saved), tuple(context.replacements), context.forgetting,
                tuple(sorted(set(context.reminders))),  # set at once, they come in any order
            ), turn.incoming.mode,
        )  # fmt: skip
        with self._metrics.stage("save"):
            stored = await self._client.run(self._repos.turns.save_answer, answer)
        self._metrics.turns.labels("stopped" if stopped else "answered").inc()
        return stored

    async def erase(self, telegram_user_id: int) -> None:
        """Delete everything of an owner, as ``python bot.py erase`` does."""
        await self._client.run(self._erasure.erase, telegram_user_id)

    async def _teach(self, turn: Turn) -> StoredAnswer | None:
        """What became of a message that is to be remembered as it stands; None for others."""
        if turn.incoming.teaching is None:
            return None
        context = self._context(turn, lambda _text: None, [], [])
        return await self._save(turn, await self._teaching.teach(turn, context), context)

    async def _answer_to_question(self, turn: Turn) -> StoredAnswer | None:
        """What follows a yes or a no to the question whether to erase; None for other messages.

        After a yes nothing is stored of it either.
        """
        agreed = reads_as_yes(turn.incoming.text) if turn.incoming.voice.is_own else None
        if agreed is None or asked_before(turn.history) != "erase_all":
            return None
        language = turn.incoming.language
        if agreed:
            await self.erase(turn.incoming.owner.telegram_user_id)
            return StoredAnswer(0, say("erase_done", language), False, 0)
        context = self._context(turn, lambda _text: None, [], [])
        return await self._save(turn, say("erase_kept", language), context)

    async def _ask_which(self, context: TurnContext, state: ConversationState, text: str) -> str:
        """What was stored without a question, and the question about the rest."""
        question = await self._questions.ask(context, state)
        context.asks = "conflict"
        return f"{text}\n\n{question}".strip()

    async def _settle(self, turn: Turn) -> StoredAnswer | None:
        """What follows a decision in words, right after the question; None for other messages.

        The answer is stored before the question is closed: an attempt that dies in between finds
        the one, and nothing is lost but the note below the other.
        """
        incoming = turn.incoming
        resolution = reads_as_choice(incoming.text) if incoming.voice.is_own else None
        question = question_before(turn.history) if resolution is not None else None
        if resolution is None or question is None or question.get("asks") != "conflict":
            return None
        settlement = await self._questions.settle(
            incoming.owner, question["id"], resolution, asker=incoming.speaker_id,
            language=incoming.language, time_zone=incoming.time_zone,
        )  # fmt: skip
        if settlement.kind in ("over", "gone"):
            return None
        context = self._context(turn, lambda _text: None, [], [])
        context.saved += settlement.changes.saved
        context.replacements += settlement.changes.replaced_by
        answer = await self._save(turn, settlement.said, context)
        await self._questions.close(incoming.owner, settlement)
        return answer

    async def _refuse_over_ceiling(self, turn: Turn) -> StoredAnswer | None:
        """What is said instead of an answer when a ceiling of the day is reached."""
        reached = await self._ceilings.find_reached(
            turn.incoming.sender_id,
            turn.incoming.owner.telegram_user_id,
            conversation_id=turn.conversation_id,
            is_new=turn.is_new,
        )
        if reached is None:
            return None
        incoming = turn.incoming
        until = local_time(reached.until, incoming.time_zone)
        key = "limit_user" if reached.is_of_user else "limit_bot"
        time = f"{until:%H:%M}"
        if reached.ceiling == "messages_per_minute_per_user":
            key, time = "limit_minute", f"{until:%H:%M:%S}"
        text = say(key, incoming.language, day=f"{until:%d.%m.%Y}", time=time)
        answer = NewAnswer(
            turn.conversation_id, turn.message_id, text, is_private=True, mode=incoming.mode
        )
        self._metrics.turns.labels("over ceiling").inc()
        return await self._client.run(self._repos.turns.save_answer, answer)

    async def _save_usage(self, turn: Turn, usage: list[ModelUsage]) -> None:
        """Record the calls of a turn that failed; its error matters more than a failure here."""
        try:
            await self._client.run(self._repos.turns.add_usage, turn.conversation_id, tuple(usage))
        except StorageError as error:
            logger.warning("model usage not recorded", exc_info=error)
