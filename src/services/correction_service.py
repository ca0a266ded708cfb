"""A fact corrected outside the chat: the same turn as there, whose answer is shown elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from src.services.agent_service import AgentService
from src.services.called import Called
from src.services.turn_state import AnswerView, IncomingMessage, Teaching, Turn
from src.storage.memory_job_repo import MemoryJobRepository
from src.storage.memory_page_repo import MemoryPageRepository
from src.storage.pg_client import PgClient
from src.storage.turn_repo import StoredAnswer
from src.storage.user_settings_repo import Mode


@dataclass(frozen=True)
class Correction:
    """What became of a correction.

    Attributes:
        text: What the user is told, in his language.
        fact: The new fact, through which it can be taken back; None when nothing is new.
    """

    text: str
    fact: int | None


class CorrectionService:
    """Puts what the user says in the place of a fact; no model is asked."""

    def __init__(self, agent: AgentService, pages: MemoryPageRepository, client: PgClient) -> None:
        """Look the fact up in ``pages``, and let ``agent`` run the turn."""
        self._agent = agent
        self._pages = pages
        self._client = client
        self._jobs = MemoryJobRepository(client)

    async def correct(
        self, called: Called, memory_id: int, text: str, *, mode: Mode
    ) -> Correction | None:
        """Store the text as a message, the source of what holds instead of a fact, and answer it.

        Args:
            called: Whose fact it is, in a private chat.
            memory_id: The fact.
            text: What is right.
            mode: In which the user talks with the bot.

        Returns:
            None when the fact is not there, or holds no more; nothing is stored then.

        Raises:
            AppError: It did not work; the message may be stored.
        """
        card = await self._client.run(self._pages.find_card, called.owner, memory_id)
        if card is None or card.memory.retired_at is not None:
            return None
        incoming = IncomingMessage(
            called.owner, text, called.moment, called.language, called.time_zone, mode,
            teaching=Teaching(corrects=memory_id),
        )  # fmt: skip
        view = _KeptAnswer()
        await self._agent.run_turn(incoming, view)
        await self._client.run(self._jobs.defer_indexing)  # else an update brings that about
        return view.correction


class _KeptAnswer(AnswerView):
    """Keeps an answer for whoever waits for it, instead of showing it."""

    def __init__(self) -> None:
        super().__init__()
        self.correction: Correction | None = None

    async def deliver(
        self,
        turn: Turn,  # noqa: ARG002
        answer: StoredAnswer,
        on_part: Callable[[int], Awaitable[None]],  # noqa: ARG002
    ) -> int:
        """Keep it, in one part."""
        changed = (*answer.changes.replaced_by, *answer.changes.saved)
        self.correction = Correction(answer.text, changed[0] if changed else None)
        return 1
