"""Facts that users want remembered as written: /remember, and the correction of a fact."""

from __future__ import annotations

from src.base.zones import local_time
from src.memory.memories import Memories
from src.memory.memory_repo import Memory
from src.memory.turn_context import changes_of
from src.memory.writer import Outcome, Said
from src.pg.client import PgClient, storable
from src.reading.facts import Fact
from src.reading.gate import holds_secret
from src.reading.plain_facts import plain_facts
from src.reading.sentences import sentences
from src.talk.strict import confirmation_text
from src.talk.turn_state import Turn, TurnResult
from src.texts import say

MAX_FACTS = 20  # of one message
IMPORTANCE = 7  # of taught facts: they are always in the prompt


class TeachingService:
    """Stores facts by rule; no model is asked, so it works without one, and at once.

    The background reads the message as any other, so a model still finds what the rules do not.
    """

    def __init__(self, client: PgClient, memories: Memories) -> None:
        """Store in ``memories``."""
        self._memories = memories
        self._client = client

    async def teach(self, turn: Turn) -> TurnResult | None:
        """Store what the message of a turn teaches, and say what became of it.

        Returns:
            None for a message that is not to be remembered as it stands.

        Raises:
            StorageError: The database is away; a second attempt stores nothing twice.
        """
        incoming = turn.incoming
        if incoming.teaching is None:
            return None
        known = await self._corrected(turn)
        if incoming.teaching.corrects is not None and known is None:
            return TurnResult(say("memory_gone", incoming.language))
        text = storable(incoming.text).strip()
        said = Said(turn.message_id, text, local_time(incoming.moment, incoming.time_zone))
        outcomes: list[Outcome] = []
        for fact in taught_facts(text, known):
            contradicts = {known.id} if known is not None and not outcomes else set()
            outcome = await self._memories.writer.remember(
                incoming.owner, fact, said, origin="command", contradicts=contradicts
            )
            outcomes.append(outcome)
        text = confirmation_text(outcomes, incoming.language)
        return TurnResult(text, changes=changes_of(outcomes))

    async def _corrected(self, turn: Turn) -> Memory | None:
        """The fact to correct: their own, and valid or replaced by this message."""
        teaching, owner = turn.incoming.teaching, turn.incoming.owner
        if teaching is None or teaching.corrects is None:
            return None
        fact = await self._client.run(self._memories.facts.find_fact, owner, teaching.corrects)
        speaker = turn.incoming.speaker_id
        if fact is None or (speaker is not None and fact.speaker_id not in (None, speaker)):
            return None
        is_gone = fact.retired_at is not None and turn.is_new
        return None if is_gone else fact


def taught_facts(text: str, known: Memory | None = None) -> list[Fact]:
    """The facts of a text, every sentence of it: read by the rules, or as it stands.

    Args:
        text: What the user wrote.
        known: What the first of them takes the place of; it is about the same.
    """
    if holds_secret(text):  # to be refused as a whole
        return [Fact(text=text)]
    read = [
        fact
        for sentence in sentences(text)
        if (plain := sentence.strip().rstrip(".!…"))
        for fact in plain_facts(plain) or [Fact(text=plain)]
    ]
    facts = [
        fact.model_copy(update={"importance": max(fact.importance, IMPORTANCE)})
        for fact in read or [Fact(text=text)]
    ][:MAX_FACTS]
    if known is not None and facts[0].relation == "other":
        same = {"subject": known.subject, "relation": known.relation}
        facts[0] = facts[0].model_copy(update={**same, "memory_type": known.memory_type})
    return facts
