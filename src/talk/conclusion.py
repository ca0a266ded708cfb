"""The end of a turn: its answer is stored, shown, and marked as delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from src.base.metrics import Metrics
from src.history.turn_repo import NewAnswer, StoredAnswer, TurnRepository
from src.memory.memory_repo import count_recalls
from src.memory.question_repo import mark_disputed
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import is_private_answer
from src.pg.client import PgClient, storable
from src.queue.update_repo import UpdateOutcome
from src.reading.facts import PRIVATE
from src.reading.gate import MASK, secrets_of
from src.talk.intake import Intake
from src.talk.turn_control import TurnStoppedError
from src.talk.turn_state import Turn
from src.talk.zones import ZoneService


@dataclass(eq=False, repr=False)
class Conclusion:
    """Steps of a turn that has an answer; a retry goes on where the earlier attempt ended."""

    _client: PgClient
    _intake: Intake
    _zones: ZoneService
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._turns = TurnRepository(self._client)

    async def resume(self, turn: Turn) -> UpdateOutcome | None:
        """Continue with the answer of an earlier attempt; delivered parts are not sent again.

        After a /stop or /new the user gets no more of it.
        """
        if turn.answer is None:
            return None
        return await self._end_stopped(turn) if turn.behind.is_ended else None

    async def save(self, turn: Turn) -> None:
        """Store the answer with its usage and sources; after an erasure store nothing."""
        result = turn.result
        if result is None:
            return
        if result.ended == "erased":
            turn.answer = StoredAnswer(0, result.text, False, 0)
            return
        is_private = result.ended == "over ceiling" or is_private_answer(result.text, turn.history)
        text = without_private(result.text, result.found)
        answer = NewAnswer(
            turn.conversation_id,
            turn.message_id,
            text,
            tools=result.tools,
            usage=result.usage,
            stopped=result.ended == "stopped",
            sources=result.sources,
            asks=result.asks,
            is_private=is_private,
            changes=result.changes,
            mode=turn.incoming.preferences.mode,
            recall=result.recall,
            question=[dispute.as_record() for dispute in result.disputes],
        )
        with self._metrics.stage("save"):
            stored = await self._client.run(
                self._turns.save_answer, answer, count_recalls, mark_disputed
            )
        self._metrics.turns.labels(result.ended).inc()
        full_text = result.text if stored.text == storable(text) else stored.text
        turn.answer = replace(stored, intent=result.intent, text=storable(full_text))
        left_out: Sequence[int] = ()
        if result.is_filtered:
            left_out = turn.new_ids
        elif result.is_wordless:  # models repeat what they see themselves say
            left_out = [turn.answer.id]
        if left_out:
            leave_out = self._turns.mark_left_out
            await self._client.run(leave_out, turn.conversation_id, left_out)
        if result.changes.names_zone:
            await self._zones.note(turn.incoming.owner, turn.incoming.time_zone)

    async def deliver(self, turn: Turn) -> UpdateOutcome | None:
        """Deliver the answer, except for the parts that have arrived already."""
        answer = _stored_answer(turn)
        await turn.view.close()
        if turn.control.stopped and await self._intake.is_wiped(turn.incoming):
            return "wiped"  # the answer is about to be deleted, so its beginning is not sent

        async def store_parts(arrived: int) -> None:
            turn.answer = replace(answer, delivered_parts=arrived)
            mark = self._turns.mark_delivered_parts
            sent = list(turn.view.sent_ids)
            await self._client.run(mark, turn.conversation_id, answer.id, arrived, sent=sent)
            turn.control.check()

        try:
            with self._metrics.stage("deliver"):
                turn.control.check()
                if not answer.delivered:
                    parts = await turn.view.deliver(turn, answer, store_parts)
                    turn.answer = replace(answer, delivered_parts=parts)
        except TurnStoppedError:
            return await self._end_stopped(turn)
        return None

    async def mark_delivered(self, turn: Turn) -> UpdateOutcome:
        """Mark the answer as delivered and the update as done.

        In Telegram the memory's jobs are deferred too.
        """
        answer = _stored_answer(turn)
        await self._client.run(
            self._turns.mark_delivered,
            turn.conversation_id,
            answer.id,
            parts=answer.delivered_parts,
            update=turn.incoming.update,
            sent=list(turn.view.sent_ids),
            first_word_at=turn.first_word_at,
        )
        return "done"

    async def _end_stopped(self, turn: Turn) -> UpdateOutcome:
        """End a turn that the user stopped; the parts that have arrived stay."""
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)
        return await self.mark_delivered(turn)


def without_private(text: str, found: Sequence[Hit]) -> str:
    """Mask what an answer says of private facts."""
    for hit in found:
        if hit.memory_type == PRIVATE:
            for code in secrets_of(hit.text):
                text = text.replace(code, MASK)
    return text


def _stored_answer(turn: Turn) -> StoredAnswer:
    assert turn.answer is not None, "the graph always says something, and it is saved"
    return turn.answer
