"""Answers messages, and begins anew: what doors call of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from langchain_core.messages import AnyMessage

from src.base.owners import Owner
from src.history.conversation_repo import ConversationRepository
from src.history.turn_repo import StoredAnswer, TurnRepository
from src.llm.embeddings import QuietMoments
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.queue.update_repo import UpdateOutcome
from src.talk.tool_history import ToolHistoryService
from src.talk.turn import TurnSteps
from src.talk.turn_state import AnswerView, IncomingMessage, Turn, TurnControl


class AgentService:
    """Takes messages through a turn, and ends what was said before."""

    def __init__(
        self,
        client: PgClient,
        steps: TurnSteps,
        settings: GlobalSettingsRepository,
        tool_history: ToolHistoryService,
        quiet: QuietMoments,
    ) -> None:
        """Answer by ``steps``; the background rests while ``quiet`` says so."""
        self._client = client
        self._steps = steps
        self._conversations = ConversationRepository(client)
        self._turns = TurnRepository(client)
        self._erasure = ErasureRepository(client)
        self._settings = settings
        self._tool_history = tool_history
        self._quiet = quiet

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
            outcome = await self._steps.run(Turn(incoming, view, control or TurnControl()))
        assert outcome is not None, "the last step ends every turn"
        return outcome

    async def begin_turn(self, incoming: IncomingMessage) -> Turn:
        """The first step of a turn alone: store the message; raises what ``run_turn`` raises."""
        turn = Turn(incoming)
        await self._steps.intake.store(turn)
        return turn

    async def answer(
        self,
        turn: Turn,
        *,
        control: TurnControl | None = None,
        on_text: Callable[[str], None] = lambda _text: None,
    ) -> StoredAnswer:
        """The steps between a begun turn and its stored answer, which nobody is shown.

        Args:
            turn: A begun turn; it stays as it is. One that has an answer gets that one, without
                a model call.
            control: Ends the generation when the user stops it; what was written is kept. So it
                is when the answer reaches one of its bounds.
            on_text: Called with each piece of the answer as it is written.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The model refused.
            ConversationGoneError: /new wiped the conversation meanwhile.
        """
        own = replace(turn, view=AnswerView(on_text), control=control or TurnControl())
        return await self._steps.answer(own)

    async def mark_delivered(
        self, turn: Turn, answer: StoredAnswer, *, update: int | None = None
    ) -> None:
        """The last step alone: the user has the answer, and ``update`` (its row id) is done."""
        await self._client.run(
            self._turns.mark_delivered,
            turn.conversation_id,
            answer.id,
            update=turn.incoming.update if update is None else update,
        )

    async def is_left_to_newer(self, incoming: IncomingMessage) -> bool:
        """Whether a later message is answered instead of one of which nothing is stored."""
        return await self._steps.newer.answers(incoming)

    async def preview_prompt(self, incoming: IncomingMessage) -> list[AnyMessage]:
        """The prompt that a message would be answered with; no model is called, nothing stored.

        A long one would be summarised first; it is shown as it is before that. In strict mode
        there is no one prompt, so the list is empty.
        """
        turn = await self._client.run(self._steps.intake.pretend, incoming)
        return await self._steps.graph.preview(turn)

    async def start_new_conversation(self, owner: Owner) -> UUID:
        """/new: delete the owner's conversations with all that hangs on them, start another.

        What nobody has read for facts yet is read by a job afterwards.
        """
        await self._tool_history.clear(owner)
        settings = await self._client.run(self._settings.get)
        return await self._client.run(
            self._conversations.create_new_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
            keep_unread=settings.memory_extraction_enabled,
        )

    async def confirm_erasure(self, owner: Owner, *, agreed: bool) -> str:
        """What a button under the question does; the key of the sentence that says so."""
        if not agreed:
            return "erase_kept"
        conversation_id = await self.conversation_of(owner)
        newest = await self._client.run(self._conversations.load_last_messages, conversation_id)
        asked = [entry for entry in newest if entry["role"] == "assistant"][-1:]
        if not asked or asked[0].get("asks") != "erase_all":
            return "erase_late"
        await self.erase(owner.telegram_user_id)
        return "erase_done"

    async def conversation_of(self, owner: Owner) -> UUID:
        """The owner's conversation; it begins when there is none."""
        return await self._client.run(
            self._conversations.get_or_create_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
        )

    async def erase(self, telegram_user_id: int) -> None:
        """Delete everything of an owner, as ``python bot.py erase`` does."""
        await self._client.run(self._erasure.erase, telegram_user_id)

    async def erase_facts(self, owner: Owner) -> None:
        """Delete every fact of an owner; what was said stays."""
        await self._client.run(self._erasure.erase_facts, owner)

    async def was_stopped(self, owner: Owner) -> bool:
        """Whether the answer to the owner's newest message was stopped."""
        return await self._client.run(self._turns.was_newest_stopped, owner)
