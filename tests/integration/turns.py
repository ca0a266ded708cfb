"""A turn in pieces, for what happens between them: it is stored, answered, marked as delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from src.history.turn_repo import StoredAnswer
from src.talk.turn import AgentService
from src.talk.turn_state import AnswerView, IncomingMessage, Turn, TurnControl


class WatchedView(AnswerView):
    """Passes the pieces of an answer on, and shows it to nobody."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        super().__init__()
        self._on_text = on_text

    def feed(self, text: str) -> None:
        self._on_text(text)


async def begin_turn(agent: AgentService, incoming: IncomingMessage) -> Turn:
    """The first step alone."""
    turn = Turn(incoming)
    await agent.steps[0](turn)
    return turn


async def answer_turn(
    agent: AgentService,
    turn: Turn,
    *,
    control: TurnControl | None = None,
    on_text: Callable[[str], None] = lambda _text: None,
) -> StoredAnswer:
    """The steps from a begun turn, which stays as it is, to its stored answer."""
    own = replace(turn, view=WatchedView(on_text), control=control or TurnControl())
    for step in agent.steps[3:-2]:
        await step(own)
    assert own.answer is not None
    return own.answer


async def mark_turn(agent: AgentService, turn: Turn, answer: StoredAnswer) -> None:
    """The last step alone."""
    await agent.steps[-1](replace(turn, answer=answer))
