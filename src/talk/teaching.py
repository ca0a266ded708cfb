"""Facts that users want remembered as written: /remember, and the correction of a fact."""

import re
from itertools import pairwise

from src.base.zones import local_time
from src.memory.memories import Memories
from src.memory.memory_repo import Memory
from src.memory.turn_context import changes_of
from src.memory.writer import Said
from src.pg.client import PgClient, storable
from src.reading.facts import Fact
from src.reading.gate import MASK, redact
from src.reading.plain_facts import plain_facts
from src.reading.sentences import sentences
from src.talk.strict import confirmation_text
from src.talk.turn_state import Turn, TurnResult
from src.texts import say

SENTENCE_END = re.compile(r"[.!?…]\s+|\n")
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
        incoming, known = turn.incoming, None
        if incoming.teaching is None:
            return None
        if not incoming.memory_on:
            return TurnResult(say("remember_off", incoming.language))
        if incoming.teaching.corrects is not None:
            known = await self._find(turn, incoming.teaching.corrects)
            if known is None:
                return TurnResult(say("memory_gone", incoming.language))
        text = storable(incoming.text).strip()
        said = Said(turn.message_id, text, local_time(incoming.moment, incoming.time_zone))
        contradicts = {known.id} if known is not None else ()
        if incoming.kept_private:
            text = redact(storable(incoming.kept_private), household=True).strip()
            outcome = await self._memories.writer.keep_private(
                incoming.owner, text, incoming.kept_private, said, contradicts=contradicts
            )
            key = "private_kept_group" if incoming.owner.is_group else "private_kept"
            confirmed = say(key, incoming.language, text=text)
        else:
            outcome = await self._memories.writer.remember(
                incoming.owner, taught_fact(text, known), said, origin="command",
                contradicts=contradicts,
            )  # fmt: skip
            confirmed = confirmation_text([outcome], incoming.language)
        return TurnResult(confirmed, changes=changes_of([outcome]))

    async def _find(self, turn: Turn, number: int) -> Memory | None:
        """The fact to correct: their own, and valid or replaced by this message."""
        find = self._memories.facts.find_fact
        fact = await self._client.run(find, turn.incoming.owner, number)
        speaker = turn.incoming.speaker_id
        if fact is None or (speaker is not None and fact.speaker_id not in (None, speaker)):
            return None
        is_gone = fact.retired_at is not None and turn.is_new
        return None if is_gone else fact


def taught_fact(text: str, known: Memory | None = None) -> Fact:
    """A text as one fact, word for word; beside a masked secret, the sentences without one.

    What it is about is read by the rules where it is one sentence.

    Args:
        text: What the user wrote.
        known: What it takes the place of; it is about the same.
    """
    if MASK in text:
        return Fact(text=_longest_unmasked(text) or text)
    read = plain_facts(text) if len(list(sentences(text))) == 1 else []
    fact = read[0] if len(read) == 1 else Fact(text=text)
    importance = max(fact.importance, IMPORTANCE)
    fact = fact.model_copy(update={"text": text, "quote": text, "importance": importance})
    if known is None or fact.relation != "other":
        return fact
    same = {"subject": known.subject, "relation": known.relation}
    return fact.model_copy(update={**same, "memory_type": known.memory_type})


def _longest_unmasked(text: str) -> str:
    """The longest run of sentences without a masked secret."""
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    runs = [""]
    for start, end in pairwise(ends):
        runs = [*runs, ""] if MASK in text[start:end] else [*runs[:-1], runs[-1] + text[start:end]]
    return max(runs, key=len).strip()
