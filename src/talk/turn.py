"""Turns: storing a message, answering it and delivering the answer.

A turn is one list of steps. Each step takes the turn and returns None to go on, or the outcome
that ends the turn. A process may die at any step: a retry goes through the same list, and nothing
is done twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from langchain_core.messages import AnyMessage

from src.base.errors import (
    ModelRefusedError,
    StorageError,
    StorageRejectedError,
    StorageTimeoutError,
)
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.base.zone_names import NAME_WORDS
from src.base.zones import local_time
from src.history.conversation_repo import (
    ConversationRepository,
    HistoryMessage,
    StoredMessage,
)
from src.history.new_messages import add_time_label, last_question, new_messages
from src.history.turn_repo import Asks, Changes, NewAnswer, StoredAnswer, TurnRepository
from src.memory import budget, compaction, digest_repo, forgetting_repo, retrieval_repo
from src.memory.memories import Memories, list_user_facts
from src.memory.memory_repo import MemoryRepository, count_recalls
from src.memory.question_repo import mark_disputed
from src.memory.turn_context import is_private_answer
from src.pg.client import PgClient, Transaction, storable
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.pg.user_settings_repo import UserSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.queue.update_repo import (
    ANSWERED_SEPARATELY,
    SUPERSEDING,
    NewerUpdates,
    UpdateOutcome,
    UpdateRepository,
)
from src.reading import lexicon, requests, voices, zone_phrases
from src.reading.facts import PRIVATE
from src.reading.gate import MASK, may_be_secret, redact, refers_back, secrets_of
from src.talk import graph_run, main_graph, spoken, teaching
from src.talk.questions import QuestionService
from src.talk.turn_state import (
    NOWHERE,
    IncomingMessage,
    Resolution,
    Turn,
    TurnResult,
    TurnStoppedError,
    stoppable_delivery,
)
from src.talk.zones import ZoneService
from src.texts import say
from src.texts.plain_text import is_visible, plain

LONG_HISTORY = 4000  # characters; a shorter one fits the smallest context
WATCH_SECONDS = 0.5  # between two looks for more of a message, while its answer is made
MAX_SWITCH = 60  # characters that are read for an order to switch the memory on or off
Step = Callable[[Turn], Awaitable[UpdateOutcome | None]]


def unless_answered(answer: Callable[[Turn], Awaitable[TurnResult | None]]) -> Step:
    """Return a step that runs ``answer`` unless an earlier step has answered."""

    async def step(turn: Turn) -> None:
        if turn.result is None and turn.answer is None:
            turn.result = await answer(turn)

    return step


@dataclass(eq=False, repr=False)
class Intake:
    """Storing of a message and loading of its context, in one transaction; newer updates.

    A message without a stored update (the console's) has only ``newer`` behind it.
    """

    _client: PgClient
    _memories: Memories
    _settings: GlobalSettingsRepository
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._conversations = ConversationRepository(self._client)
        self._updates = UpdateRepository(self._client)

    async def store(self, turn: Turn) -> None:
        """Store the message with its time label, and load the last 30 and the key facts.

        If it is stored already (the turn was interrupted), it is found, with its answer if it has
        one. A message whose answer is left to a later one is only stored.

        Args:
            turn: The turn, which is filled.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            QuestionMovedError: An erasure changed it, and it is to be read again.
            StorageError: The database is away.
        """
        turn.incoming = turn.incoming.without_secrets()
        if may_be_secret(turn.incoming.text) or refers_back(turn.incoming.text):
            find = self._conversations.find_text_before
            before = await self._client.run(
                find, turn.incoming.owner, turn.incoming.origin, turn.incoming.moment
            )
            turn.incoming = turn.incoming.following(before)
        if turn.incoming.has_past and _searches_memory(turn.incoming):
            self._memories.retriever.prepare(turn.incoming.text)  # takes as long as storing
        with self._metrics.stage("store"):
            await self._client.run(self._store_and_load, turn)

    async def is_continued(self, incoming: IncomingMessage) -> bool:
        """Return True if the sender has written more, which is to be answered with this message.

        Raises:
            StorageError: The database is away.
        """
        if incoming.update is None:
            return incoming.newer is not None
        kinds = (*SUPERSEDING, *ANSWERED_SEPARATELY)
        find = partial(self._updates.find_newer, kinds=kinds)
        return await self._client.run(find, incoming.update) == "message"

    async def is_wiped(self, incoming: IncomingMessage) -> bool:
        """Return True if a pending /new is about to delete the message and its answer.

        Raises:
            StorageError: The database is away.
        """
        if incoming.update is None:
            return False
        find = self._updates.find_newer
        return await self._client.run(find, incoming.update, kinds=("new",)) is not None

    def simulate(self, incoming: IncomingMessage) -> Turn:
        """Return a turn as ``store`` would fill it, without storing the message; it blocks.

        Raises:
            StorageError: The database is away.
        """
        settings = self._settings.get()
        incoming = incoming.without_secrets()
        conversation_id = self._conversations.find_conversation(incoming.owner)
        turn = Turn(incoming, conversation_id=conversation_id or NOWHERE)
        self._client.in_transaction(
            lambda transaction: self._load_context(transaction, turn, settings, unstored=1)
        )
        message: HistoryMessage = {
            "id": 0,
            "role": "user",
            "content": _add_label(incoming),
            "position": turn.history[-1]["position"] + 1 if turn.history else 1,
            "sender_id": incoming.sender_id,
        }
        turn.history = (*turn.history, message)
        return turn

    def _store_and_load(self, turn: Turn) -> None:
        settings = self._settings.get()  # first: it may need a connection

        def work(transaction: Transaction, *, with_facts: bool = False) -> None:
            self._store_turn(transaction, turn, settings)
            is_asked = turn.answer is None and turn.newer is None
            if with_facts and is_asked and _shows_memory(turn.incoming):
                facts = MemoryRepository(transaction)
                turn.key_facts = list_user_facts(facts, turn.incoming.owner)

        try:
            self._client.in_transaction(partial(work, with_facts=True))
        except (StorageRejectedError, StorageTimeoutError):
            self._client.in_transaction(work)  # the graph can do without the facts

    def _store_turn(self, transaction: Transaction, turn: Turn, settings: GlobalSettings) -> None:
        incoming = turn.incoming
        behind = self._lock_update(transaction, incoming)
        turn.newer, turn.is_ended = behind.newer, behind.is_ended
        if incoming.is_masked and incoming.update is not None:
            hidden = incoming.announced_secret or MASK
            self._updates.rewrite(
                transaction, incoming.update, lambda text: redact(text.replace(hidden, MASK))
            )
        self._store_enclosed(transaction, incoming)
        voice = replace(incoming.voice, is_private=incoming.is_private)
        message = self._append(transaction, replace(incoming, voice=voice))
        turn.conversation_id, turn.message_id = message.conversation_id, message.id
        turn.is_new = message.is_new
        if (secret := incoming.revealed_secret) is not None:
            forgetting = forgetting_repo.ForgettingRepository(transaction, incoming.owner)
            forgetting.mask(secret.id, secret.text)
        turns, ids = TurnRepository(transaction), (turn.conversation_id, turn.message_id)
        if not turn.is_new:
            if MASK in incoming.text and not incoming.is_masked:
                turn.incoming = incoming.with_mask_note()
            turn.shown_in = turns.find_stream_message(*ids)
            turn.answer = turns.find_answer(*ids)
        if turn.answer is not None:
            return
        if turn.newer in ("new", "stop"):
            turns.mark_stopped(*ids)
        if turn.newer is None:
            with self._metrics.stage("load"):
                self._load_context(transaction, turn, settings)

    def _lock_update(self, transaction: Transaction, incoming: IncomingMessage) -> NewerUpdates:
        """Lock the message's update until the transaction ends; return what waits behind it.

        A taught message is answered for itself, whatever comes next.
        """
        origin, behind = incoming.origin, NewerUpdates(incoming.newer)
        if origin is not None and origin.update is not None:
            behind = self._updates.lock_update(transaction, origin.update, origin.revision)
        return behind if incoming.teaching is None else NewerUpdates()

    def _store_enclosed(self, transaction: Transaction, incoming: IncomingMessage) -> None:
        """Store the text of an attachment as a message of its own before the caption.

        It has the caption's Telegram message id, but negative to keep the two apart.
        """
        enclosed, origin = incoming.enclosed, incoming.origin
        if enclosed is None or origin is None:
            return
        number, file_id = -origin.message_id, enclosed.file_id
        author = enclosed.author_id or origin.author_id
        origin = replace(origin, message_id=number, mentions=(), file_id=file_id, author_id=author)
        voice = replace(
            incoming.voice, provenance="file", origin=voices.clean_name(enclosed.name), quoted=None
        )
        self._append(
            transaction, replace(incoming, text=enclosed.text, origin=origin, voice=voice)
        )

    def _append(self, transaction: Transaction, incoming: IncomingMessage) -> StoredMessage:
        return self._conversations.store_message(
            transaction, incoming.owner, _add_label(incoming),
            origin=incoming.origin, said_at=incoming.moment, voice=incoming.voice,
        )  # fmt: skip

    def _load_context(
        self, transaction: Transaction, turn: Turn, settings: GlobalSettings, *, unstored: int = 0
    ) -> None:
        """Load the last messages, and the summaries once the window has moved.

        Before that, whether there is anything beyond them. ``unstored`` is the number of messages
        that follow without being stored.
        """
        conversations, limit = ConversationRepository(transaction), settings.history_messages
        turn.history = tuple(
            conversations.load_last_messages(turn.conversation_id, limit - unstored)
        )
        last = (turn.history[-1]["position"] if turn.history else 0) + unstored
        turn.window_start = compaction.start_of_window(last, settings)
        summaries: Sequence[digest_repo.Summary] = ()
        if turn.window_start > 1 or _may_be_summarised(turn.history):
            list_summaries = digest_repo.SummaryRepository(transaction).list_summaries
            summaries = list_summaries(turn.conversation_id)
        end = max((summary.last_position for summary in summaries), default=0)
        if end >= compaction.start_of_window(last + compaction.NEXT_TURN, settings):
            turn.window_start = end + 1  # a turn made it, as its prompt was too long
        if turn.window_start > 1:
            overlap = settings.history_messages - settings.history_step
            turn.fresh_from = turn.window_start + overlap
            turn.summaries = digest_repo.choose_for_prompt(
                summaries, turn.window_start, limit=settings.summaries_shown
            )
        elif _shows_memory(turn.incoming):
            beyond = retrieval_repo.RetrievalRepository(transaction).has_documents_outside
            turn.is_all_shown = not beyond(turn.incoming.owner, turn.conversation_id)


def _may_be_summarised(history: Sequence[HistoryMessage]) -> bool:
    """Return True if a turn may have summarised the beginning: only of a long history."""
    return sum(len(entry["content"]) for entry in history) > LONG_HISTORY


def _shows_memory(incoming: IncomingMessage) -> bool:
    is_asked = incoming.newer is None and incoming.teaching is None
    return is_asked and incoming.preferences.memory_on and incoming.preferences.mode == "assistant"


def _searches_memory(incoming: IncomingMessage) -> bool:
    has_words = bool(incoming.text.strip())
    return _shows_memory(incoming) and not incoming.is_private and has_words


def _add_label(incoming: IncomingMessage) -> str:
    return add_time_label(incoming.text, incoming.moment, incoming.time_zone)


class AgentService:
    """Takes messages through a turn, and starts and erases conversations."""

    def __init__(  # noqa: PLR0913  (each has its part in a turn)
        self,
        client: PgClient,
        graph: main_graph.Graph,
        memories: Memories,
        *,
        settings: GlobalSettingsRepository,
        questions: QuestionService,
        ceilings: budget.DailyCeilings,
        metrics: Metrics,
        zones: ZoneService,
    ) -> None:
        """Answer with ``graph``; search ahead and teach in ``memories``."""
        self._client = client
        self._settings = settings
        self._questions = questions
        self._ceilings = ceilings
        self._metrics = metrics
        self._zones = zones
        self._conversations = ConversationRepository(client)
        self._turns = TurnRepository(client)
        self._teaching = teaching.TeachingService(client, memories)
        self._erasure = ErasureRepository(client)
        self._spoken = spoken.SpokenLanguages(client)
        self._intake = Intake(client, memories, settings, metrics)
        self._graph = graph_run.GraphRun(client, graph, settings, metrics)
        # The order of a turn is defined only here.
        self.steps: tuple[Step, ...] = (
            self._spoken.hear,
            self._intake.store,
            self._leave_to_newer,
            self._resume,
            unless_answered(self._teaching.teach),
            unless_answered(self._set_zone),
            unless_answered(self._switch_memory),
            unless_answered(self._confirm_erasure),
            unless_answered(self._choose_fact),
            self._refuse_over_ceiling,
            self._ask_model,
            self._check_sources,
            self._save,
            self._deliver,
            self._mark_delivered,
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

    async def _ask_model(self, turn: Turn) -> UpdateOutcome | None:
        """Let the model answer, unless an earlier step has answered."""
        if turn.result is not None or turn.answer is not None:
            return None
        watch = asyncio.create_task(self._watch_for_more(turn))
        try:
            turn.result = await self._graph.run(turn)
        except ModelRefusedError:
            await self._leave_out(turn)
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

    async def _leave_out(self, turn: Turn) -> None:
        """Leave what the model refused out of later prompts: only these messages are new."""
        ids = [entry["id"] for entry in new_messages(turn.history)]
        await self._client.run(self._turns.mark_left_out, turn.conversation_id, ids)

    async def is_continued(self, incoming: IncomingMessage) -> bool:
        """Return True if the sender has written more, to be answered with this message."""
        return await self._intake.is_continued(incoming)

    async def preview_prompt(self, incoming: IncomingMessage) -> list[AnyMessage]:
        """Return the prompt for a message, without calling a model or storing anything.

        A long prompt is returned as it is before its summary. In strict mode there is no single
        prompt, so the list is empty.
        """
        return await self._graph.preview(await self._client.run(self._intake.simulate, incoming))

    async def start_new_conversation(self, owner: Owner) -> UUID:
        """Delete the owner's conversations and what refers to them, and create a new one (/new).

        A job reads messages that were not read for facts yet.
        """
        settings = await self._settings.fetch()
        return await self._client.run(
            self._conversations.create_new_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
            keep_unread=settings.memory_extraction_enabled,
        )

    async def confirm_erasure(self, owner: Owner, *, agreed: bool) -> str:
        """Handle a button under the question; return the key of the sentence to reply with."""
        if not agreed:
            return "erase_kept"
        conversation_id = await self.get_or_create_conversation(owner)
        newest = await self._client.run(self._conversations.load_last_messages, conversation_id)
        if last_question(newest) != "erase_all":
            return "erase_late"
        await self.erase(owner.telegram_user_id)
        return "erase_done"

    async def get_or_create_conversation(self, owner: Owner) -> UUID:
        """Return the owner's conversation; create it if there is none."""
        get = self._conversations.get_or_create_conversation
        return await self._client.run(get, owner.telegram_user_id, thread_id=owner.thread_id)

    async def erase(self, telegram_user_id: int) -> None:
        """Delete everything of an owner, as ``python bot.py erase`` does."""
        await self._client.run(self._erasure.erase, telegram_user_id)

    async def erase_facts(self, owner: Owner) -> None:
        """Delete every fact of an owner; the messages stay."""
        await self._client.run(self._erasure.erase_facts, owner)

    async def _leave_to_newer(self, turn: Turn) -> UpdateOutcome | None:
        """End the turn if a newer message is answered instead, with this one in the history."""
        return "left to a later message" if turn.answer is None and turn.newer else None

    async def _resume(self, turn: Turn) -> UpdateOutcome | None:
        """Continue with the answer of an earlier attempt; delivered parts are not sent again.

        After a /stop or /new the user gets no more of it.
        """
        if turn.answer is None:
            return None
        turn.parts = turn.answer.delivered_parts
        return await self._end_stopped(turn) if turn.is_ended else None

    async def _set_zone(self, turn: Turn) -> TurnResult | None:
        """Set the zone that the user tells; the rest of the message is answered by its clock."""
        incoming = turn.incoming
        if not incoming.voice.is_own or incoming.owner.is_group:
            return None
        own_zone = incoming.time_zone if incoming.preferences.has_zone else ""
        told = zone_phrases.told_zone(incoming.text, own_zone)
        is_short = len(incoming.text.split()) <= NAME_WORDS
        if told is None and is_short and last_question(turn.history) == "zone":
            sentence = f"my time zone is {incoming.text.replace(',', '')}"
            reply = zone_phrases.told_zone(sentence)
            told = reply if reply and reply.zones else None
        if told is None:
            return None
        if len(told.zones) == 1:
            is_told = incoming.preferences.has_zone and not await self._named_zone_before(turn)
            caller = incoming.caller.with_preferences(has_zone=is_told)
            turn.lead = await self._zones.set(caller, told.zones[0])
            zone = replace(incoming.preferences, time_zone=told.zones[0], has_zone=True)
            turn.incoming = replace(incoming, preferences=zone)
        else:
            key = "zone_which" if told.zones else "zone_unknown"
            turn.lead, turn.offers = say(key, incoming.language), told.zones
            turn.asks = "zone"
        return None if told.rest else TurnResult("")

    async def _named_zone_before(self, turn: Turn) -> bool:
        """Return True if the previous answer named a time zone that was only a guess."""
        ids = [m["id"] for m in turn.history[:-1] if m["role"] == "user"]
        if not ids:
            return False
        answer = await self._client.run(self._turns.find_answer, turn.conversation_id, ids[-1])
        return answer is not None and answer.changes.names_zone

    async def _switch_memory(self, turn: Turn) -> TurnResult | None:
        incoming = turn.incoming
        if not incoming.voice.is_own or incoming.owner.is_group:
            return None
        switch = lexicon.key_of("settings.memory", plain(incoming.text[:MAX_SWITCH]).strip(" .!"))
        if switch is None:
            return None
        change, is_on = UserSettingsRepository(self._client).change, switch == "on"
        await self._client.run(change, incoming.owner.telegram_user_id, memory_on=is_on)
        text = say("memory_switched_on" if is_on else "memory_switched_off", incoming.language)
        return TurnResult(text)

    async def _add_zones(self, turn: Turn, result: TurnResult) -> Changes:
        """Return an answer's changes with zones to offer, and whether it names the user's zone."""
        incoming, changes = turn.incoming, result.changes
        offers = turn.offers or changes.zones
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

    async def _confirm_erasure(self, turn: Turn) -> TurnResult | None:
        """Erase, or not, on a yes or no to that question; None for other messages."""
        incoming = turn.incoming
        agreed = reads_as_yes(incoming.text) if incoming.voice.is_own else None
        if agreed is None or not question_before(turn.history, "erase_all"):
            return None
        if not agreed:
            return TurnResult(say("erase_kept", incoming.language))
        await self.erase(incoming.owner.telegram_user_id)
        return TurnResult(say("erase_done", incoming.language), ended="erased")

    async def _choose_fact(self, turn: Turn) -> TurnResult | None:
        """Settle a question about facts by words, right after it; None for other messages.

        A retried message finds the question that its first attempt has settled.
        """
        incoming = turn.incoming
        resolution = reads_as_choice(incoming.text) if incoming.voice.is_own else None
        question = question_before(turn.history, "conflict", "conflict_over")
        if resolution is None or question is None:
            return None
        settlement = await self._questions.settle(incoming.caller, question["id"], resolution)
        if settlement.kind == "gone" or (settlement.kind == "over" and turn.is_new):
            return None
        return TurnResult(settlement.said, changes=settlement.changes)

    async def _refuse_over_ceiling(self, turn: Turn) -> UpdateOutcome | None:
        """Refuse once to answer over a limit; until it ends, messages are only stored."""
        if turn.result is not None or turn.answer is not None:
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

    async def _check_sources(self, turn: Turn) -> None:
        """Verify the references, and number them as the answer mentions them."""
        result, language = turn.result, turn.incoming.language
        if result is None:
            return
        text, sources = graph_run.resolve_citations(result.text, result.found, asked=turn.asked)
        text = text.strip() if is_visible(text) else ""
        text = f"{turn.lead}\n\n{text}".strip()
        if result.ended == "stopped":
            text = f"{text}\n\n{say('stopped_early', language)}".strip()
        # An answer of nothing but invalid references is empty.
        is_wordless, text = not text, text or say("empty_answer", language)
        changes = result.changes
        if result.ended == "answered":
            changes = await self._add_zones(turn, result)
        if turn.asks is not None:
            result = replace(result, asks=turn.asks)
        turn.result = replace(
            result, text=text, sources=sources, changes=changes, is_wordless=is_wordless
        )

    async def _save(self, turn: Turn) -> None:
        """Store the answer with its usage and sources; after an erasure store nothing."""
        result = turn.result
        if result is None:
            return
        if result.ended == "erased":
            turn.answer = StoredAnswer(0, result.text, False, 0)
            return
        is_stopped = result.ended == "stopped"
        is_private = result.ended == "over ceiling" or is_private_answer(result.text, turn.history)
        text = without_private(result.text, result.found)
        answer = NewAnswer(
            turn.conversation_id, turn.message_id, text, result.tools, result.usage,
            is_stopped, result.sources, None if is_stopped else result.asks,
            is_private, result.changes, turn.incoming.preferences.mode, result.recall,
            [dispute.as_record() for dispute in result.disputes],
        )  # fmt: skip
        with self._metrics.stage("save"):
            stored = await self._client.run(
                self._turns.save_answer, answer, count_recalls, mark_disputed
            )
        self._metrics.turns.labels(result.ended).inc()
        full_text = result.text if stored.text == storable(text) else stored.text
        turn.answer = replace(stored, intent=result.intent, text=storable(full_text))
        if result.is_filtered:
            await self._leave_out(turn)
        elif result.is_wordless:  # models repeat what they see themselves say
            await self._client.run(
                self._turns.mark_left_out, turn.conversation_id, [turn.answer.id]
            )
        if result.changes.names_zone:
            await self._zones.note(turn.incoming.owner, turn.incoming.time_zone)

    async def _deliver(self, turn: Turn) -> UpdateOutcome | None:
        """Deliver the answer, except for the parts that have arrived already."""
        answer = _stored_answer(turn)
        await turn.view.close()
        if turn.control.stopped and await self._intake.is_wiped(turn.incoming):
            return "wiped"  # the answer is about to be deleted, so its beginning is not sent
        turn.parts = answer.delivered_parts

        async def store_parts(arrived: int) -> None:
            turn.parts = arrived
            mark = self._turns.mark_delivered_parts
            sent = list(turn.view.sent_ids)
            await self._client.run(mark, turn.conversation_id, answer.id, arrived, sent=sent)

        try:
            with stoppable_delivery(turn.control), self._metrics.stage("deliver"):
                if not answer.delivered:
                    turn.parts = await turn.view.deliver(turn, answer, store_parts)
        except TurnStoppedError:
            return await self._end_stopped(turn)
        return None

    async def _mark_delivered(self, turn: Turn) -> UpdateOutcome:
        """Mark the answer as delivered and the update as done.

        In Telegram the memory's jobs are deferred too.
        """
        await self._client.run(
            self._turns.mark_delivered,
            turn.conversation_id,
            _stored_answer(turn).id,
            parts=turn.parts,
            update=turn.incoming.update,
            sent=list(turn.view.sent_ids),
            first_word_at=turn.first_word_at,
        )
        return "done"

    async def _end_stopped(self, turn: Turn) -> UpdateOutcome:
        """End a turn that the user stopped; the parts that have arrived stay."""
        await self._client.run(self._turns.mark_stopped, turn.conversation_id, turn.message_id)
        return await self._mark_delivered(turn)


def without_private(text: str, found: Sequence[retrieval_repo.Hit]) -> str:
    """Mask what an answer says of private facts."""
    for hit in found:
        if hit.memory_type == PRIVATE:
            for code in secrets_of(hit.text):
                text = text.replace(code, MASK)
    return text


def _stored_answer(turn: Turn) -> StoredAnswer:
    assert turn.answer is not None, "the graph always says something, and it is saved"
    return turn.answer


YES = lexicon.Expression("(?:<answers.yes>|[, ])+")
NO = lexicon.Expression(r"<answers.no>\b.*")
BEGINS_YES = lexicon.Expression("<answers.begins_yes>")
# Decisions between two facts, by the words of a whole message.
_DECISION = "(?:<answers.keep> )?{}(?: <answers.right>)?"
CHOICES: tuple[tuple[Resolution, lexicon.Expression], ...] = (
    ("both", lexicon.Expression(_DECISION.format("<answers.both>"))),
    ("old", lexicon.Expression(f"{_DECISION.format('<answers.old>')}|<answers.keep_it>")),
    ("replace", lexicon.Expression(f"{_DECISION.format('<answers.new>')}|<answers.replace>")),
)


def reads_as_yes(text: str) -> bool | None:
    """Return True for yes, False for no, None for anything else."""
    flat = plain(text).strip(" .!…")
    if NO.fullmatch(flat):
        return False
    return True if BEGINS_YES.match(flat) and YES.fullmatch(flat) else None


def reads_as_choice(text: str) -> Resolution | None:
    """Return the decision between two facts that a whole message is; None for anything else."""
    flat = plain(text).strip(' .!…«»"')
    return next((choice for choice, words in CHOICES if words.fullmatch(flat)), None)


def question_before(history: Sequence[HistoryMessage], *asks: Asks) -> HistoryMessage | None:
    """Return the bot's answer right before the newest message, if it asks one of these."""
    for entry in reversed(history[:-1]):
        if entry["role"] == "user":
            return None
        if entry["role"] == "assistant":
            return entry if entry.get("asks") in asks else None
    return None
