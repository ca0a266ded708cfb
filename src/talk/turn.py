"""A turn as one list of steps, from a message to the answer that its sender has.

Each step takes the turn and returns nothing, to go on, or the outcome with which it ends there.
Any of them may be the last of a process that dies: the next attempt goes through the same list,
and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from src.base.metrics import Metrics
from src.base.zones import local_time
from src.history.turn_repo import NewAnswer, StoredAnswer, TurnRepository
from src.memory.budget import DailyCeilings
from src.memory.discretion import is_private_answer
from src.memory.memories import Memories
from src.memory.memory_repo import count_recalls
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.queue.update_repo import UpdateOutcome
from src.talk.answers import (
    asked_before,
    cited_sources,
    question_before,
    reads_as_choice,
    reads_as_yes,
)
from src.talk.graph_run import GraphRun
from src.talk.intake import Intake, Newer
from src.talk.main_graph import Graph
from src.talk.questions import QuestionService
from src.talk.teaching import TeachingService
from src.talk.turn_state import Turn, TurnResult, TurnStoppedError, stoppable_delivery
from src.texts import say
from src.texts.plain_text import is_visible

Step = Callable[[Turn], Awaitable[UpdateOutcome | None]]


def until_answered(answer: Callable[[Turn], Awaitable[TurnResult | None]]) -> Step:
    """The step that lets ``answer`` say something, where nobody before it has."""

    async def step(turn: Turn) -> None:
        if turn.result is None and turn.answer is None:
            turn.result = await answer(turn)

    return step


class TurnSteps:
    """The one place where a turn's order is written down."""

    def __init__(  # noqa: PLR0913  (each has its part in a turn)
        self,
        client: PgClient,
        graph: Graph,
        memories: Memories,
        *,
        settings: GlobalSettingsRepository,
        questions: QuestionService,
        ceilings: DailyCeilings,
        metrics: Metrics,
    ) -> None:
        """Answer with ``graph``, search ahead and teach in ``memories``."""
        self._client = client
        self._turns = TurnRepository(client)
        self._erasure = ErasureRepository(client)
        self._questions = questions
        self._ceilings = ceilings
        self._metrics = metrics
        self.newer = Newer(client)
        self.intake = Intake(client, self.newer, memories, settings, metrics)
        self.graph = GraphRun(client, graph, questions, settings, metrics)
        self.all: tuple[Step, ...] = (
            self.intake.store,
            self._leave_to_newer,
            self._resume,
            until_answered(TeachingService(client, memories).teach),
            until_answered(self._confirm_erasure),
            until_answered(self._choose_fact),
            until_answered(self._refuse_over_ceiling),
            until_answered(self.graph.run),
            self._check_sources,
            self._save,
            self._show,
            self.mark,
        )

    async def run(self, turn: Turn, steps: Sequence[Step] | None = None) -> UpdateOutcome | None:
        """Take a turn through its steps, by default all of them.

        Returns:
            How it ended; None when it is to go on.

        Raises:
            TransientError: Worth another try.
            ConversationGoneError: /new wiped the conversation meanwhile.
            AppError: There is no answer.
        """
        try:
            for step in self.all if steps is None else steps:
                if (outcome := await step(turn)) is not None:
                    return outcome
        finally:
            await turn.view.close()
        return None

    async def answer(self, turn: Turn) -> StoredAnswer:
        """Only what brings a stored message to a stored answer; raises what ``run`` raises."""
        first, end = self.all.index(self._resume) + 1, self.all.index(self._show)
        await self.run(turn, self.all[first:end])
        return _answer_of(turn)

    async def mark(self, turn: Turn) -> UpdateOutcome:
        """The user has the answer, and the update that asked for it is done.

        The memory's jobs are asked to take the turn in, where there are jobs.
        """
        await self._client.run(
            self._turns.mark_delivered,
            turn.conversation_id,
            _answer_of(turn).id,
            parts=turn.parts,
            update=turn.incoming.update,
            sent=list(turn.view.sent_ids),
        )
        return "done"

    async def _leave_to_newer(self, turn: Turn) -> UpdateOutcome | None:
        """What waits behind the message is answered instead of it, with it in the history."""
        is_left = turn.answer is None and turn.newer is not None
        return "left to a later message" if is_left else None

    async def _resume(self, turn: Turn) -> UpdateOutcome | None:
        """An earlier attempt got as far as an answer; what it showed of it is not shown again.

        After a /stop or /new that is all that the user gets.
        """
        if turn.answer is None:
            return None
        turn.parts = turn.answer.delivered_parts
        return await self._end(turn) if turn.is_ended else None

    async def _confirm_erasure(self, turn: Turn) -> TurnResult | None:
        """What follows a yes or a no to the question whether to erase; None for other messages."""
        incoming = turn.incoming
        agreed = reads_as_yes(incoming.text) if incoming.voice.is_own else None
        if agreed is None or asked_before(turn.history) != "erase_all":
            return None
        if not agreed:
            return TurnResult(say("erase_kept", incoming.language))
        await self._client.run(self._erasure.erase, incoming.owner.telegram_user_id)
        return TurnResult(say("erase_done", incoming.language), ended="erased")

    async def _choose_fact(self, turn: Turn) -> TurnResult | None:
        """What follows a decision in words, right after the question; None for other messages."""
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
        return TurnResult(settlement.said, changes=settlement.changes, settlement=settlement)

    async def _refuse_over_ceiling(self, turn: Turn) -> TurnResult | None:
        """What is said instead of an answer; None when no ceiling keeps it from being given."""
        incoming = turn.incoming
        reached = await self._ceilings.find_reached(
            incoming.sender_id,
            incoming.owner.telegram_user_id,
            conversation_id=turn.conversation_id,
            is_new=turn.is_new,
        )
        if reached is None:
            return None
        until = local_time(reached.until, incoming.time_zone)
        key = "limit_user" if reached.is_of_user else "limit_bot"
        time = f"{until:%H:%M}"
        if reached.ceiling == "messages_per_minute_per_user":
            key, time = "limit_minute", f"{until:%H:%M:%S}"
        text = say(key, incoming.language, day=f"{until:%d.%m.%Y}", time=time)
        return TurnResult(text, ended="over ceiling")

    async def _check_sources(self, turn: Turn) -> None:
        """References lead to what the model was shown, numbered as the answer mentions them."""
        result, language = turn.result, turn.incoming.language
        if result is None:
            return
        text, sources = cited_sources(result.text, result.found, asked=turn.asked)
        text = text.strip() if is_visible(text) else ""
        if result.ended == "stopped":
            text = f"{text}\n\n{say('stopped_early', language)}".strip()
        # or it consisted of references to nothing
        turn.result = replace(result, text=text or say("empty_answer", language), sources=sources)

    async def _save(self, turn: Turn) -> None:
        """Store the answer with what it used and cost; after an erasure nothing is stored of it.

        It is stored before the question that it settles is closed: an attempt that dies in
        between finds the one, and nothing is lost but the note below the other.
        """
        result = turn.result
        if result is None:
            return
        if result.ended == "erased":
            turn.answer = StoredAnswer(0, result.text, False, 0)
            return
        is_stopped = result.ended == "stopped"
        is_private = result.ended == "over ceiling" or is_private_answer(result.text, turn.history)
        answer = NewAnswer(
            turn.conversation_id, turn.message_id, result.text, result.tools, result.usage,
            is_stopped, result.sources, None if is_stopped else result.asks,
            is_private, result.changes, turn.incoming.mode,
        )  # fmt: skip
        with self._metrics.stage("save"):
            stored = await self._client.run(self._turns.save_answer, answer, count_recalls)
        self._metrics.turns.labels(result.ended).inc()
        turn.answer = replace(stored, intent=result.intent)
        if result.settlement is not None:
            await self._questions.close(turn.incoming.owner, result.settlement)

    async def _show(self, turn: Turn) -> UpdateOutcome | None:
        """Show the answer for good, except for the parts that have arrived already."""
        answer = _answer_of(turn)
        await turn.view.close()
        if turn.control.stopped and await self.newer.wipes(turn.incoming):
            return "wiped"  # nobody wants the beginning of an answer that is about to be deleted
        turn.parts = answer.delivered_parts

        async def remember_parts(arrived: int) -> None:
            turn.parts = arrived
            mark = self._turns.mark_delivered_parts
            sent = list(turn.view.sent_ids)
            await self._client.run(mark, turn.conversation_id, answer.id, arrived, sent=sent)

        try:
            with stoppable_delivery(turn.control), self._metrics.stage("deliver"):
                if not answer.delivered:
                    turn.parts = await turn.view.deliver(turn, answer, remember_parts)
        except TurnStoppedError:
            return await self._end(turn)
        return None

    async def _end(self, turn: Turn) -> UpdateOutcome:
        """The user stopped it: what has arrived of the answer is all that he gets."""
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)
        return await self.mark(turn)


def _answer_of(turn: Turn) -> StoredAnswer:
    assert turn.answer is not None, "the graph always says something, and it is saved"
    return turn.answer
