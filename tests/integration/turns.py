"""Steps of a turn for tests of the states in between: stored, answered, delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from src.history.turn_repo import StoredAnswer
from src.talk.turn import AgentService
from src.talk.turn_state import AnswerView, IncomingMessage, Turn, TurnControl


class WatchedView(AnswerView):
    """View that passes the pieces of an answer to a callback."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        super().__init__()
        self._on_text = on_text
        self._shown = ""

    def grow(self) -> None:
        before, self._shown = self._shown, self.draft()
        self._on_text(self._shown.removeprefix(before))


async def begin_turn(agent: AgentService, incoming: IncomingMessage) -> Turn:
    """Run the first two steps: hear its language, store the message."""
    turn = Turn(incoming)
    for step in agent.steps[:2]:
        await step(turn)
    return turn


async def answer_turn(
    agent: AgentService,
    turn: Turn,
    *,
    control: TurnControl | None = None,
    on_text: Callable[[str], None] = lambda _text: None,
) -> StoredAnswer:
    """Run the steps from a begun turn, which is not modified, to its stored answer."""
    own = replace(turn, view=WatchedView(on_text), control=control or TurnControl())
    for step in agent.steps[3:-2]:
        await step(own)
    assert own.answer is not None
    return own.answer


async def mark_turn(agent: AgentService, turn: Turn, answer: StoredAnswer) -> None:
    """Run the last step: mark the answer as delivered."""
    await agent.steps[-1](replace(turn, answer=replace(answer, delivered_parts=1)))
