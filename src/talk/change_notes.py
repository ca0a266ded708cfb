"""Corrections of facts by their owner, and the notes that tell what an answer changed."""

from src.base.owners import Called
from src.history.turn_repo import StoredAnswer
from src.memory.memory_repo import FactQuery, Memory, MemoryRepository
from src.pg.client import PgClient
from src.pg.user_settings_repo import Mode
from src.queue.job_repo import MemoryJobRepository
from src.talk.turn import AgentService
from src.talk.turn_state import IncomingMessage, Teaching, Turn
from src.texts import say
from src.texts.plain_text import shortened

MAX_NOTED = 4  # facts; the rest is counted
MAX_TEXT = 120  # characters of each


class ChangeNotes:
    """Describes what an answer changed; facts that are gone again are left out."""

    def __init__(self, client: PgClient) -> None:
        """Look them up through ``client``."""
        self._facts = MemoryRepository(client)
        self._client = client

    async def describe(self, turn: Turn, answer: StoredAnswer) -> str:
        """The line, in the language of the turn; empty when there is nothing to tell.

        A confirmation (strict mode, /remember) tells it all itself.
        """
        incoming, changes = turn.incoming, answer.changes
        ids = [*changes.replaced_by, *changes.saved]
        if not ids or incoming.mode == "strict" or incoming.teaching is not None:
            return ""
        found = await self._client.run(self._facts.list_facts, incoming.owner, FactQuery(ids=ids))
        found.sort(key=lambda fact: ids.index(fact.id))
        if len(ids) > 1:  # their buttons have these numbers
            noted = [f"{ids.index(fact.id) + 1}. {_line(turn, fact)}" for fact in found]
        else:
            noted = [_line(turn, fact) for fact in found if fact.text not in answer.text]
        lines = noted[:MAX_NOTED]
        if len(noted) > MAX_NOTED:
            lines.append(say("note_more", incoming.language, count=len(noted) - MAX_NOTED))
        return "\n".join(lines)


def _line(turn: Turn, fact: Memory) -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    return say("note_replaced", language, text=text, old=shortened(fact.past[0].text, MAX_TEXT))


class CorrectionService:
    """Puts what the user says in the place of a fact; no model is asked."""

    def __init__(self, agent: AgentService, client: PgClient) -> None:
        """Let ``agent`` run the turn."""
        self._agent = agent
        self._facts = MemoryRepository(client)
        self._client = client
        self._jobs = MemoryJobRepository(client)

    async def correct(
        self, called: Called, memory_id: int, text: str, *, mode: Mode
    ) -> StoredAnswer | None:
        """Store the text as a message, the source of what holds instead of a fact, and answer it.

        Args:
            called: Whose fact it is, in a private chat.
            memory_id: The fact.
            text: What is right.
            mode: In which the user talks with the bot.

        Returns:
            The answer, which says what it changed; None when the fact is not there, or holds no
            more: nothing is stored then.

        Raises:
            AppError: It did not work; the message may be stored.
        """
        fact = await self._client.run(self._facts.find_fact, called.owner, memory_id)
        if fact is None or fact.retired_at is not None:
            return None
        incoming = IncomingMessage(
            called.owner, text, called.moment, called.language, called.time_zone, mode,
            teaching=Teaching(corrects=memory_id),
        )  # fmt: skip
        turn = Turn(incoming)
        await self._agent.run_turn(turn)
        await self._client.run(self._jobs.defer_indexing)  # else an update brings that about
        return turn.answer
