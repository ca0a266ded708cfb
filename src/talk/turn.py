"""Turns: storing a message, answering it and delivering the answer.

A turn is one list of steps. Each step takes the turn and returns None to go on, or the outcome
that ends the turn. A process may die at any step: a retry goes through the same list, and nothing
is done twice.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from langchain_core.messages import AnyMessage

from src.base.metrics import Metrics
from src.base.owners import Owner
from src.history.conversation_repo import ConversationRepository
from src.memory.budget import DailyCeilings
from src.memory.memories import Memories
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.queue.update_repo import UpdateOutcome
from src.reminders.briefs import BriefScreens
from src.reminders.follow_ups import FollowUpService
from src.reminders.reminder_service import ReminderService
from src.talk.answering import Answering
from src.talk.graph_run import GraphRun
from src.talk.intake import Intake
from src.talk.main_graph import Graph
from src.talk.orders import Orders
from src.talk.questions import QuestionService
from src.talk.settings import SpokenLanguages
from src.talk.turn_state import IncomingMessage, Turn, TurnResult
from src.talk.zones import ZoneService

Step = Callable[[Turn], Awaitable[UpdateOutcome | None]]


def unless_answered(answer: Callable[[Turn], Awaitable[TurnResult | None]]) -> Step:
    """Return a step that runs ``answer`` unless an earlier step has answered."""

    async def step(turn: Turn) -> None:
        if not turn.has_answer:
            turn.result = await answer(turn)

    return step


class AgentService:
    """Takes messages through a turn."""

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
        zones: ZoneService,
        briefs: BriefScreens,
        reminders: ReminderService,
        follow_ups: FollowUpService,
        has_model: bool,
    ) -> None:
        """Answer with ``graph``; teach in ``memories``."""
        self._client = client
        self._conversations = ConversationRepository(client)
        self._intake = intake = Intake(client, settings, metrics)
        self._graph = GraphRun(client, graph, settings, metrics)
        orders = Orders(
            client, memories, zones, questions, briefs, reminders, follow_ups, has_model
        )
        answering = Answering(client, intake, self._graph, ceilings, zones, metrics)
        # The order of a turn is defined only here.
        self.steps: tuple[Step, ...] = (
            SpokenLanguages(client).hear,
            intake.store,
            answering.resume,
            unless_answered(orders.keep_code),
            unless_answered(orders.teach),
            unless_answered(orders.set_zone),
            unless_answered(orders.switch_memory),
            unless_answered(orders.set_brief),
            unless_answered(orders.tell_day),
            unless_answered(orders.finish_reminder),
            unless_answered(orders.end_follow_ups),
            unless_answered(orders.hear_correction),
            unless_answered(orders.keep_wish),
            unless_answered(orders.confirm_erasure),
            unless_answered(orders.choose_fact),
            answering.refuse_over_ceiling,
            answering.ask_model,
            answering.check_sources,
            answering.save,
            answering.deliver,
            answering.mark_delivered,
        )

    async def run_turn(self, turn: Turn) -> UpdateOutcome:
        """Store the message, load its context, answer, deliver, and mark the update as done.

        It is idempotent, and may be retried after a crash at any point.

        Raises:
            TransientError: Worth a retry.
            ConversationGoneError: /new wiped the conversation meanwhile.
            AppError: There is no answer.
        """
        try:
            for step in self.steps:
                outcome = await step(turn)
                if outcome is not None:
                    return outcome
        finally:
            await turn.view.close()
        raise AssertionError("the last step ends every turn")

    async def is_continued(self, incoming: IncomingMessage) -> bool:
        """Return True if the sender has written more, to be answered with this message."""
        return await self._intake.find_newer(incoming) == "message"

    async def preview_prompt(self, incoming: IncomingMessage) -> list[AnyMessage]:
        """Return the prompt for a message, without calling a model or storing anything.

        A long prompt is returned as it is before its summary. In strict mode there is no single
        prompt, so the list is empty.
        """
        return await self._graph.preview(await self._client.run(self._intake.simulate, incoming))

    async def get_or_create_conversation(self, owner: Owner) -> UUID:
        """Return the owner's conversation; create it if there is none."""
        get = self._conversations.get_or_create_conversation
        return await self._client.run(get, owner.telegram_user_id, thread_id=owner.thread_id)
