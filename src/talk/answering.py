"""The middle of a turn: the ceilings, the model, the references of its answer."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from src.base.errors import ModelRefusedError, StorageError
from src.base.zones import local_time
from src.history.turn_repo import Changes, TurnRepository
from src.memory.budget import DailyCeilings
from src.pg.client import PgClient
from src.queue.update_repo import UpdateOutcome
from src.reading import requests, zone_phrases
from src.talk.graph_run import GraphRun, resolve_citations
from src.talk.intake import Intake
from src.talk.turn_state import Turn, TurnResult
from src.texts import say
from src.texts.plain_text import is_visible

WATCH_SECONDS = 0.5  # between two looks for more of a message, while its answer is made


@dataclass(eq=False, repr=False)
class Answering:
    """Steps of a turn in which the model answers, unless an earlier step has answered."""

    _client: PgClient
    _intake: Intake
    _graph: GraphRun
    _ceilings: DailyCeilings

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._turns = TurnRepository(self._client)

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
        key = "limit_user" if reached.is_of_user else "limit_bot"
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
                if await self._intake.is_continued(turn.incoming) and turn.may_be_left:
                    turn.is_left = True
                    turn.control.cut()

    async def _leave_to_continuation(self, turn: Turn, result: TurnResult) -> UpdateOutcome | None:
        """Leave the turn to what its sender wrote before any of its answer was shown.

        An act that belongs together comes in pieces (a comment and its forward, a long paste), a
        moment apart: a fast answer waits for that moment.
        """
        if turn.may_be_left:
            await turn.view.close()
            if turn.answer_after is not None:
                left = (turn.answer_after - datetime.now(UTC)).total_seconds()
                await asyncio.sleep(max(0.0, left))
            turn.is_left = await self._intake.is_continued(turn.incoming)
        if not turn.is_left:
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
        is_wordless, text = not text, text or say("empty_answer", language)
        changes = result.changes
        if result.ended == "answered":
            changes = _add_zones(turn, result)
        turn.result = replace(
            result, text=text, sources=sources, changes=changes, is_wordless=is_wordless
        )


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
    is_of_clock = is_untold and (bool(changes.reminders) or asks_time)
    return replace(changes, zones=offers, names_zone=is_of_clock)
