"""Facts remembered as written: /remember, and corrections of facts."""

import re
from itertools import pairwise

from src.base.zones import local_time
from src.memory import memory_repo, turn_context, writer
from src.memory.memories import Memories
from src.pg.client import PgClient, storable
from src.reading.facts import Fact
from src.reading.gate import MASK, redact
from src.reading.plain_facts import plain_facts
from src.reading.sentences import sentences
from src.talk.strict import confirmation_text
from src.talk.turn_state import Turn, TurnResult
from src.texts import say

SENTENCE_END = re.compile(r"[.!?…]\s+|\n")
IMPORTANCE = 7  # at least, of taught facts: so they are always in the prompt


class TeachingService:
    """Storing of facts by rule: immediate, and possible without a model.

    The background reads the message as any other, so a model still finds what the rules do not.
    """

    def __init__(self, client: PgClient, memories: Memories) -> None:
        """Store in ``memories``."""
        self._memories = memories
        self._client = client

    async def teach(self, turn: Turn) -> TurnResult | None:
        """Store what the message of a turn teaches, and confirm it.

        It is idempotent.

        Returns:
            None for a message that is not to be remembered as written.

        Raises:
            StorageError: The database is away.
        """
        incoming, corrected = turn.incoming, None
        if incoming.teaching is None:
            return None
        if not incoming.preferences.memory_on:
            return TurnResult(say("remember_off", incoming.language))
        if incoming.teaching.corrects is not None:
            corrected = await self._find_corrected(turn, incoming.teaching.corrects)
            if corrected is None:
                return TurnResult(say("memory_gone", incoming.language))
        text = storable(incoming.text).strip()
        said = writer.SourceText(
            turn.message_id, text, local_time(incoming.moment, incoming.time_zone)
        )
        contradicts = {corrected.id} if corrected is not None else ()
        if incoming.kept_private:
            text = redact(storable(incoming.kept_private), household=True).strip()
            outcome = await self._memories.writer.keep_private(
                incoming.owner, text, incoming.kept_private, said, contradicts=contradicts
            )
            key = "private_kept_group" if incoming.owner.is_group else "private_kept"
            confirmation = say(key, incoming.language, text=text)
        else:
            fact = taught_fact(text, corrected)
            outcome = await self._memories.writer.remember(
                incoming.owner,
                fact,
                said,
                origin="command",
                contradicts=contradicts,
                is_decided=corrected is not None,
            )
            confirmation = confirmation_text([outcome], incoming.language)
        return TurnResult(confirmation, changes=turn_context.changes_of([outcome]))

    async def _find_corrected(self, turn: Turn, number: int) -> memory_repo.Memory | None:
        """Return the user's fact to correct, if it is current or this message has replaced it."""
        find = self._memories.facts.find_fact
        fact = await self._client.run(find, turn.incoming.owner, number)
        speaker = turn.incoming.speaker_id
        if fact is None or (speaker is not None and fact.speaker_id not in (None, speaker)):
            return None
        was_retired = fact.retired_at is not None and turn.is_new
        return None if was_retired else fact


def taught_fact(text: str, corrected: memory_repo.Memory | None = None) -> Fact:
    """Return a text as one fact, word for word; with a masked secret, the sentences without one.

    Its subject and relation are read by the rules if it is one sentence.

    Args:
        text: The user's text.
        corrected: The fact that it replaces, with the same subject.
    """
    if MASK in text:
        return Fact(text=_longest_unmasked(text) or text)
    facts = plain_facts(text) if len(list(sentences(text))) == 1 else []
    fact = facts[0] if len(facts) == 1 else Fact(text=text)
    importance = max(fact.importance, IMPORTANCE)
    fact = fact.model_copy(update={"text": text, "quote": text, "importance": importance})
    if corrected is None or fact.relation != "other":
        return fact
    same = {"subject": corrected.subject, "relation": corrected.relation}
    return fact.model_copy(update={**same, "memory_type": corrected.memory_type})


def _longest_unmasked(text: str) -> str:
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    runs = [""]
    for start, end in pairwise(ends):
        runs = [*runs, ""] if MASK in text[start:end] else [*runs[:-1], runs[-1] + text[start:end]]
    return max(runs, key=len).strip()
