"""The answer of a turn: its limits, the model, its sources, notes about what it changed."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from src.base.errors import ModelRefusedError, StorageError
from src.base.metrics import Metrics
from src.base.zones import local_time
from src.history.turn_repo import Changes, NewAnswer, StoredAnswer, TurnRepository
from src.memory.budget import DailyCeilings
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact, count_recalls
from src.memory.question_repo import mark_disputed
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import is_private_answer
from src.pg.client import PgClient, storable
from src.queue.update_repo import UpdateOutcome
from src.reading import requests, zone_phrases
from src.reading.facts import PRIVATE
from src.reading.gate import MASK, secrets_of
from src.talk.graph_run import GraphRun, resolve_citations
from src.talk.intake import Intake
from src.talk.turn_state import Turn, TurnResult, TurnStoppedError
from src.talk.zones import ZoneService
from src.texts import say
from src.texts.plain_text import is_visible, shortened

WATCH_SECONDS = 0.5  # between two looks for more of a message, while its answer is made
MAX_NOTED = 4  # facts, or as many as replaced others; the rest is only counted
MAX_NOTED_TEXT = 120  # characters of each fact


@dataclass(eq=False, repr=False)
class Answering:
    """Steps of a turn from the limits to the delivered answer.

    The model answers unless an earlier step has; a retry goes on where the earlier attempt ended.
    """

    _client: PgClient
    _intake: Intake
    _graph: GraphRun
    _ceilings: DailyCeilings
    _zones: ZoneService
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._turns = TurnRepository(self._client)

    async def resume(self, turn: Turn) -> UpdateOutcome | None:
        """Continue with the answer of an earlier attempt; delivered parts are not sent again.

        After a /stop or /new the user gets no more of it.
        """
        if turn.answer is None or not turn.behind.is_ended:
            return None
        return await self._end_stopped(turn)

    async def refuse_over_ceiling(self, turn: Turn) -> UpdateOutcome | None:
        """Refuse once to answer over a limit; until it ends, messages are only stored."""
        if turn.has_answer:
            return None
        incoming = turn.incoming
        reached = await self._ceilings.find_reached(
            incoming.sender_id,
            incoming.owner.telegram_user_id,
            conversation_id=turn.conversation_id,
            is_new=turn.is_new,
        )
        if reached is None:
            return None
        is_first = await self._ceilings.mark_told(incoming.sender_id, reached.until)
        if turn.is_new and not is_first:
            return "refused silently"
        until = local_time(reached.until, incoming.time_zone)
        key = "limit_bot"
        if reached.is_of_user:
            key = "limit_user"
        time = f"{until:%H:%M}"
        if reached.ceiling == "messages_per_minute_per_user":
            key, time = "limit_minute", f"{until:%H:%M:%S}"
        text = say(key, incoming.language, day=f"{until:%d.%m.%Y}", time=time)
        turn.result = TurnResult(text, ended="over ceiling")
        return None

    async def ask_model(self, turn: Turn) -> UpdateOutcome | None:
        """Let the model answer, unless an earlier step has answered."""
        if turn.has_answer:
            return None
        watch = asyncio.create_task(self._watch_for_more(turn))
        try:
            turn.result = await self._graph.run(turn)
        except ModelRefusedError:
            # Later prompts leave out what the model refused: only these messages are new.
            leave_out, ids = self._turns.mark_left_out, turn.new_ids
            await self._client.run(leave_out, turn.conversation_id, ids)
            raise
        finally:
            watch.cancel()
        return await self._leave_to_continuation(turn, turn.result)

    async def _watch_for_more(self, turn: Turn) -> None:
        """End the model's work if the sender goes on before any of it is shown."""
        while turn.may_be_left:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(StorageError):  # the next look will do
                newer = await self._intake.find_newer(turn.incoming)
                if newer == "message" and turn.may_be_left:
                    turn.control.is_left = True
                    turn.control.cut()

    async def _leave_to_continuation(self, turn: Turn, result: TurnResult) -> UpdateOutcome | None:
        """Leave the turn to what its sender wrote before any of its answer was shown.

        An act that belongs together comes in pieces (a comment and its forward, a long paste), a
        moment apart: a fast answer waits for that moment.
        """
        if turn.may_be_left:
            await turn.view.close()
            if turn.view.answer_after is not None:
                left = (turn.view.answer_after - datetime.now(UTC)).total_seconds()
                await asyncio.sleep(max(0.0, left))
            turn.control.is_left = await self._intake.find_newer(turn.incoming) == "message"
        if not turn.control.is_left:
            return None
        add = self._turns.add_usage
        await self._client.run(add, turn.conversation_id, result.usage)
        return "left to a later message"

    async def check_sources(self, turn: Turn) -> None:
        """Verify the references, and number them as the answer mentions them."""
        result, language = turn.result, turn.incoming.language
        if result is None:
            return
        text, sources = resolve_citations(result.text, result.found, asked=turn.asked)
        text = text.strip() if is_visible(text) else ""
        if turn.lead is not None:
            text = f"{turn.lead.text}\n\n{text}".strip()
            zones = turn.lead.changes.zones or result.changes.zones
            changes = replace(result.changes, zones=zones)
            result = replace(result, asks=turn.lead.asks or result.asks, changes=changes)
        if result.ended == "stopped":
            result = replace(result, asks=None)
            text = f"{text}\n\n{say('stopped_early', language)}".strip()
        # An answer of nothing but invalid references is empty.
        is_wordless = result.is_wordless or not text
        text = text or say("empty_answer", language)
        changes = result.changes
        if result.ended == "answered":
            changes = replace(_add_zones(turn, result), wish=turn.wish)
        turn.result = replace(
            result, text=text, sources=sources, changes=changes, is_wordless=is_wordless
        )

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
        full_text = result.text
        if stored.text != storable(text):
            full_text = stored.text
        turn.answer = replace(stored, intent=result.intent, text=storable(full_text))
        if result.is_filtered or result.is_wordless:  # models repeat what they see themselves say
            left_out = turn.new_ids if result.is_filtered else [turn.answer.id]
            leave_out = self._turns.mark_left_out
            await self._client.run(leave_out, turn.conversation_id, left_out)
        if result.changes.names_zone:
            await self._zones.note(turn.incoming.owner, turn.incoming.time_zone)

    async def deliver(self, turn: Turn) -> UpdateOutcome | None:
        """Deliver the answer, except for the parts that have arrived already."""
        answer = turn.answer
        assert answer is not None, "the graph always says something, and it is saved"
        await turn.view.close()
        if turn.control.stopped and await self._intake.find_newer(turn.incoming, ("new",)):
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
        answer = turn.answer
        assert answer is not None
        await self._client.run(
            self._turns.mark_delivered,
            turn.conversation_id,
            answer.id,
            parts=answer.delivered_parts,
            update=turn.incoming.update,
            sent=list(turn.view.sent_ids),
            first_word_at=turn.view.first_word_at,
        )
        return "done"

    async def _end_stopped(self, turn: Turn) -> UpdateOutcome:
        """End a turn that the user stopped; the parts that have arrived stay."""
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)
        return await self.mark_delivered(turn)


def _add_zones(turn: Turn, result: TurnResult) -> Changes:
    """Return an answer's changes with zones to offer, and whether it names the user's zone."""
    incoming, changes = turn.incoming, result.changes
    offers = changes.zones
    is_own = incoming.voice.is_own and not incoming.owner.is_group
    if is_own and not offers:
        homes = zone_phrases.home_zones(incoming.text)
        offers = () if incoming.time_zone in homes else tuple(homes)
    if "set_time_zone" in result.tools:  # the answer speaks of it
        return replace(changes, zones=offers)
    place = requests.asked_place(incoming.text)
    asks_time = place == "" or (place is None and "current_time" in result.tools)
    is_untold = not (incoming.preferences.has_zone or incoming.owner.is_group)
    names_times = bool(changes.reminders) or changes.names_zone
    is_of_clock = is_untold and (names_times or asks_time)
    return replace(changes, zones=offers, names_zone=is_of_clock)


def without_private(text: str, found: Sequence[Hit]) -> str:
    """Mask what an answer says of private facts."""
    for hit in found:
        if hit.memory_type == PRIVATE:
            for code in secrets_of(hit.text):
                text = text.replace(code, MASK)
    return text


async def describe_changes(
    client: PgClient, turn: Turn, answer: StoredAnswer
) -> tuple[str, Changes]:
    """Return notes about what changed with an answer, and in the background since the one before.

    All replaced facts are named. Facts that are retired meanwhile are left out, and all that the
    answer itself tells in the order of its buttons. A confirmation (strict mode, /remember)
    reports the changes of its own turn itself.

    Returns:
        The notes, and the changes in the order of their buttons.
    """
    incoming, changes = turn.incoming, answer.changes
    facts = MemoryRepository(client)
    behind = await client.run(
        facts.list_replaced_behind, incoming.owner, turn.conversation_id, answer.id
    )
    lines = [_note(turn, fact, "note_replaced_behind") for fact in behind]
    ids = [*changes.replaced_by, *changes.saved]
    if not ids or incoming.preferences.mode == "strict" or incoming.teaching is not None:
        return "\n".join(lines), changes
    found = await client.run(facts.list_facts, incoming.owner, FactQuery(ids=ids))
    places = dict.fromkeys(ids, -1) | {fact.id: answer.text.find(fact.text) for fact in found}
    saved, replacing = (
        tuple(sorted(some, key=lambda id_: places[id_]))
        for some in (changes.saved, changes.replaced_by)
    )
    changes, ids = replace(changes, saved=saved, replaced_by=replacing), [*replacing, *saved]
    if not replacing and -1 not in places.values():
        return "\n".join(lines), changes
    found.sort(key=lambda fact: ids.index(fact.id))
    notes = [_note(turn, fact) for fact in found]
    if len(ids) > 1:  # their buttons have these numbers
        notes = [f"{ids.index(fact.id) + 1}. {_note(turn, fact)}" for fact in found]
    shown = max(MAX_NOTED, len(changes.replaced_by))
    lines += notes[:shown]
    if len(notes) > shown:
        lines.append(say("note_more", incoming.language, count=len(notes) - shown))
    return "\n".join(lines), changes


def _note(turn: Turn, fact: StoredFact, replaced: str = "note_replaced") -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_NOTED_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    old = "; ".join(shortened(one.text, MAX_NOTED_TEXT) for one in fact.past)
    if replaced == "note_replaced":
        return say("note_replaced", language, text=text, old=old)
    return say("note_replaced_behind", language, text=text, old=old)
