"""Turns: storing a message, answering it and delivering the answer.

A turn is one list of steps. Each step takes the turn and returns None to go on, or the outcome
that ends the turn. A process may die at any step: a retry goes through the same list, and nothing
is done twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from langchain_core.messages import AnyMessage

from src.base.errors import ModelRefusedError, StorageError
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.base.zones import local_time
from src.history.conversation_repo import ConversationRepository, HistoryMessage, StoredMessage
from src.history.new_messages import add_time_label
from src.history.turn_repo import Changes, NewAnswer, StoredAnswer, TurnRepository
from src.memory import compaction, digest_repo, forgetting_repo
from src.memory.budget import DailyCeilings
from src.memory.memory_repo import count_recalls
from src.memory.question_repo import mark_disputed
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import Window, is_private_answer
from src.pg.client import PgClient, Transaction, storable
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository, UserSettingsRepository
from src.queue.update_repo import (
    ANSWERED_SEPARATELY,
    SUPERSEDING,
    NewerUpdates,
    UpdateKind,
    UpdateOutcome,
    UpdateRepository,
)
from src.reading import requests
from src.reading.facts import PRIVATE
from src.reading.gate import MASK, clean_name, may_be_secret, redact, refers_back, secrets_of
from src.talk import graph_run
from src.talk.main_graph import Graph
from src.talk.orders import Orders
from src.talk.settings import follow_language
from src.talk.turn_state import NOWHERE, IncomingMessage, Turn, TurnResult, TurnStoppedError
from src.texts import say
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.5  # between two looks for more of a message, while its answer is made
LONG_HISTORY = 4000  # characters; a shorter one fits the smallest context
CONTINUING = (*SUPERSEDING, *ANSWERED_SEPARATELY)  # kinds of updates that follow a message

Step = Callable[[Turn], Awaitable[UpdateOutcome | None]]


class AgentService:
    """Takes messages through a turn.

    Attributes:
        steps: The steps, in their order.
    """

    def __init__(
        self,
        client: PgClient,
        graph: Graph,
        orders: Orders,
        *,
        settings: GlobalSettingsRepository,
        ceilings: DailyCeilings,
        metrics: Metrics,
    ) -> None:
        """Answer with ``orders`` what they know, everything else with ``graph``."""
        self._client, self._graph = client, graph
        self._settings, self._ceilings, self._metrics = settings, ceilings, metrics
        self._conversations = ConversationRepository(client)
        self._turns = TurnRepository(client)
        self.steps: tuple[Step, ...] = (
            self.hear_language,
            self.store,
            self.resume,
            orders.answer,
            self.refuse_over_ceiling,
            self.ask_model,
            self.check_sources,
            self.save,
            self.deliver,
            self.mark_delivered,
        )

    async def run_turn(self, turn: Turn) -> UpdateOutcome:
        """Store the message, load its context, answer, deliver, and mark the update as done.

        It is idempotent, and may be retried after a crash at any point.

        Raises:
            TransientError: Worth a retry.
            ConversationGoneError: /new wiped the conversation meanwhile.
            AppError: There is no answer.
        """
        try:
            for step in self.steps:
                outcome = await step(turn)
                if outcome is not None:
                    return outcome
        finally:
            await turn.view.close()
        raise AssertionError("the last step ends every turn")

    async def hear_language(self, turn: Turn) -> None:
        """Answer in the language of the message, if it is the sender's own words."""
        incoming = turn.incoming
        if incoming.voice.is_own:
            owner, text = incoming.owner, incoming.text
            heard = await follow_language(self._client, owner, incoming.preferences, text)
            caller = replace(incoming.caller, preferences=heard)
            turn.incoming = replace(incoming, caller=caller)

    async def store(self, turn: Turn) -> UpdateOutcome | None:
        """Store the message without its secrets, and load the last 30 (see ``store_message``).

        If a newer message is answered instead, with this one in the history, the turn ends.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            MessageMovedError: An erasure changed it, and it is to be read again.
            StorageError: The database is away.
        """
        incoming = turn.incoming.without_secrets()
        if may_be_secret(incoming.text) or refers_back(incoming.text):
            find = self._conversations.find_text_before
            before = await self._client.run(find, incoming.owner, incoming.origin, incoming.moment)
            incoming = incoming.following(before)
        turn.incoming = incoming
        with self._metrics.stage("store"):
            work = partial(store_message, turn, await self._settings.fetch())
            await self._client.run(self._client.in_transaction, work)
        if turn.answer is None and turn.behind.newer is not None:
            return "left to a later message"
        return None

    async def resume(self, turn: Turn) -> UpdateOutcome | None:
        """Continue with the answer of an earlier attempt; delivered parts are not sent again.

        After a /stop or /new the user gets no more of it.
        """
        if turn.answer is None or not turn.behind.is_ended:
            return None
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)
        return await self.mark_delivered(turn)

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
        key, time = ("limit_user" if reached.is_of_user else "limit_bot"), f"{until:%H:%M}"
        if reached.ceiling == "messages_per_minute_per_user":
            key, time = "limit_minute", f"{until:%H:%M:%S}"
        text = say(key, incoming.language, day=f"{until:%d.%m.%Y}", time=time)
        turn.result = TurnResult(text, ended="over ceiling")
        return None

    async def ask_model(self, turn: Turn) -> UpdateOutcome | None:
        """Let the graph answer, streamed to the turn's view.

        What its sender wrote before any of the answer was shown is answered together with the
        message, so the turn is left to it. An act that belongs together comes in pieces (a
        comment and its forward, a long paste), a moment apart: a fast answer waits for it.

        Raises:
            ModelUnavailableError: Worth a retry.
            ModelError: The model refused.
            ConversationGoneError: /new wiped the conversation meanwhile.
        """
        if turn.has_answer:
            return None
        progress = graph_run.Progress(turn, self._settings.last_known)
        # Another attempt continues in the message that shows the beginning.
        store = partial(self._turns.set_stream_message, turn.conversation_id, turn.message_id)
        turn.view.draft = progress.draft
        await turn.view.open(turn, partial(self._client.run, store))
        watch = asyncio.create_task(self._watch_for_more(turn))
        try:
            with self._metrics.stage("model"):
                turn.result = await graph_run.run(self._graph, progress)
        except Exception as error:
            await self._record_failure(turn, progress, error)
            raise
        finally:
            watch.cancel()
        if turn.may_be_left:
            await turn.view.close()
            if turn.view.answer_after is not None:
                left = (turn.view.answer_after - datetime.now(UTC)).total_seconds()
                await asyncio.sleep(max(0.0, left))
            turn.control.is_left = await self.is_continued(turn.incoming)
        if not turn.control.is_left:
            return None
        usage = turn.result.usage
        await self._client.run(self._turns.add_usage, turn.conversation_id, usage)
        return "left to a later message"

    async def _watch_for_more(self, turn: Turn) -> None:
        """End the model's work if the sender goes on before any of it is shown."""
        while turn.may_be_left:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(StorageError):  # the next look will do
                if await self.is_continued(turn.incoming) and turn.may_be_left:
                    turn.control.is_left = True
                    turn.control.cut()

    async def _record_failure(
        self, turn: Turn, progress: graph_run.Progress, error: Exception
    ) -> None:
        """Record the usage of a failed run; leave what the model refused out of later prompts."""
        conversation_id = turn.conversation_id
        try:
            await self._client.run(self._turns.add_usage, conversation_id, tuple(progress.usage))
            if isinstance(error, ModelRefusedError):
                await self._client.run(self._turns.mark_left_out, conversation_id, turn.new_ids)
        except StorageError as second:  # which must not hide the first one
            logger.warning("the failed run was not recorded", exc_info=second)

    async def check_sources(self, turn: Turn) -> None:
        """Verify the references, and number them as the answer mentions them."""
        result, language = turn.result, turn.incoming.language
        if result is None:
            return
        text, sources = graph_run.resolve_citations(result.text, result.found, asked=turn.asked)
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
        if result.changes.names_zone:  # they are told of it, and may still name another
            change, owner = UserSettingsRepository(self._client).change, turn.incoming.owner
            zone = turn.incoming.time_zone
            await self._client.run(change, owner.telegram_user_id, time_zone=zone)

    async def deliver(self, turn: Turn) -> UpdateOutcome | None:
        """Deliver the answer, except for the parts that have arrived already."""
        answer = turn.answer
        assert answer is not None, "the graph always says something, and it is saved"
        await turn.view.close()
        if turn.control.stopped and await self._find_newer(turn.incoming, ("new",)):
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
        except TurnStoppedError:  # the parts that have arrived stay
            ids = turn.conversation_id, turn.message_id
            await self._client.run(self._turns.mark_stopped, *ids)
            return await self.mark_delivered(turn)
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

    async def _find_newer(
        self, incoming: IncomingMessage, kinds: Sequence[UpdateKind]
    ) -> UpdateKind | None:
        """Return the kind of the next waiting update of these kinds; None if there is none."""
        if incoming.update is None:
            return None
        find = UpdateRepository(self._client).find_newer
        return await self._client.run(find, incoming.update, kinds=kinds)

    async def is_continued(self, incoming: IncomingMessage) -> bool:
        """Return True if the sender has written more, to be answered with this message."""
        return await self._find_newer(incoming, CONTINUING) == "message"

    async def preview_prompt(self, incoming: IncomingMessage) -> list[AnyMessage]:
        """Return the prompt for a message, without calling a model or storing anything.

        A long prompt is returned as it is before its summary. In strict mode there is no single
        prompt, so the list is empty.
        """
        work = partial(simulate_turn, incoming, await self._settings.fetch())
        turn = await self._client.run(self._client.in_transaction, work)
        return await graph_run.preview(self._graph, turn)

    async def get_or_create_conversation(self, owner: Owner) -> UUID:
        """Return the owner's conversation; create it if there is none."""
        get = self._conversations.get_or_create_conversation
        return await self._client.run(get, owner.telegram_user_id, thread_id=owner.thread_id)


def _add_zones(turn: Turn, result: TurnResult) -> Changes:
    """Return an answer's changes with zones to offer, and whether it names the user's zone."""
    incoming, changes = turn.incoming, result.changes
    offers = changes.zones
    is_own = incoming.voice.is_own and not incoming.owner.is_group
    if is_own and not offers:
        homes = requests.home_zones(incoming.text)
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


# The beginning of a turn, one transaction: its message is stored, and what its answer needs is
# loaded.


def store_message(turn: Turn, settings: GlobalSettings, transaction: Transaction) -> None:
    """Store the message with its time label, and load the last 30.

    If it is stored already (the turn was interrupted), it is found, with its answer if it has
    one.

    Args:
        turn: The turn, which is filled.
        settings: The operator's settings.
        transaction: The transaction.
    """
    incoming = turn.incoming
    turn.behind = _lock_update(transaction, incoming)
    if incoming.is_masked and incoming.update is not None:
        hidden = incoming.announced_secret or MASK
        UpdateRepository(transaction).rewrite(
            transaction, incoming.update, lambda text: redact(text.replace(hidden, MASK))
        )
    _store_enclosed(transaction, incoming)
    voice = replace(incoming.voice, is_private=incoming.is_private)
    message = _append(transaction, replace(incoming, voice=voice))
    turn.conversation_id, turn.message_id = message.conversation_id, message.id
    turn.is_new = message.is_new
    secret = incoming.revealed_secret
    if secret is not None:
        forgetting = forgetting_repo.ForgettingRepository(transaction, incoming.owner)
        forgetting.mask(secret.id, secret.text)
    turns, ids = TurnRepository(transaction), (turn.conversation_id, turn.message_id)
    if not turn.is_new:
        if MASK in incoming.text and not incoming.is_masked:
            turn.incoming = incoming.with_mask_note()
        turn.view.shown_in = turns.find_stream_message(*ids)
        turn.answer = turns.find_answer(*ids)
    if turn.answer is not None:
        return
    if turn.behind.newer in ("new", "stop"):
        turns.mark_stopped(*ids)
    if turn.behind.newer is None:
        _load_context(turn, settings, transaction)


def simulate_turn(
    incoming: IncomingMessage, settings: GlobalSettings, transaction: Transaction
) -> Turn:
    """Return a turn as ``store_message`` would fill it, without storing the message."""
    incoming = incoming.without_secrets()
    conversation_id = ConversationRepository(transaction).find_conversation(incoming.owner)
    turn = Turn(incoming, conversation_id=conversation_id or NOWHERE)
    _load_context(turn, settings, transaction, unstored=1)
    message: HistoryMessage = {
        "id": 0,
        "role": "user",
        "content": add_time_label(incoming.text, incoming.moment, incoming.time_zone),
        "position": max((entry["position"] for entry in turn.history), default=0) + 1,
        "sender_id": incoming.sender_id,
    }
    turn.history = (*turn.history, message)
    return turn


def _lock_update(transaction: Transaction, incoming: IncomingMessage) -> NewerUpdates:
    """Lock the message's update until the transaction ends; return what waits behind it.

    A taught message is answered for itself, whatever comes next.
    """
    origin = incoming.origin
    if origin is None or origin.update is None:
        return NewerUpdates()
    updates = UpdateRepository(transaction)
    behind = updates.lock_update(transaction, origin.update, origin.revision)
    return behind if incoming.teaching is None else NewerUpdates()


def _store_enclosed(transaction: Transaction, incoming: IncomingMessage) -> None:
    """Store the text of an attachment as a message of its own before the caption.

    It has the caption's Telegram message id, but negative to keep the two apart.
    """
    enclosed, origin = incoming.enclosed, incoming.origin
    if enclosed is None or origin is None:
        return
    number, file_id = -origin.message_id, enclosed.file_id
    author = enclosed.author_id or origin.author_id
    origin = replace(origin, message_id=number, mentions=(), file_id=file_id, author_id=author)
    name = clean_name(enclosed.name)
    voice = replace(incoming.voice, provenance="file", origin=name, quoted=None)
    _append(transaction, replace(incoming, text=enclosed.text, origin=origin, voice=voice))


def _append(transaction: Transaction, incoming: IncomingMessage) -> StoredMessage:
    return ConversationRepository(transaction).store_message(
        transaction,
        incoming.owner,
        add_time_label(incoming.text, incoming.moment, incoming.time_zone),
        origin=incoming.origin,
        said_at=incoming.moment,
        voice=incoming.voice,
    )


def _load_context(
    turn: Turn, settings: GlobalSettings, transaction: Transaction, *, unstored: int = 0
) -> None:
    """Load the last messages, and the summaries once the window has moved.

    ``unstored`` is the number of messages that follow without being stored.
    """
    conversations, limit = ConversationRepository(transaction), settings.history_messages
    turn.history = tuple(conversations.load_last_messages(turn.conversation_id, limit - unstored))
    last = max((entry["position"] for entry in turn.history), default=0) + unstored
    start = compaction.start_of_window(last, settings)
    summaries: Sequence[digest_repo.Summary] = ()
    length = sum(len(entry["content"]) for entry in turn.history)
    if start > 1 or length > LONG_HISTORY:  # a turn may have summarised the beginning
        list_summaries = digest_repo.SummaryRepository(transaction).list_summaries
        summaries = list_summaries(turn.conversation_id)
    end = max((summary.last_position for summary in summaries), default=0)
    if end >= compaction.start_of_window(last + compaction.NEXT_TURN, settings):
        start = end + 1  # a turn made it, as its prompt was too long
    fresh_start = start
    if start > 1:
        fresh_start += settings.history_messages - settings.history_step
        turn.summaries = digest_repo.choose_for_prompt(
            summaries, start, limit=settings.summaries_shown
        )
    fresh = (entry["id"] for entry in turn.history if entry["position"] >= fresh_start)
    turn.window = Window(start, next(fresh, None))
