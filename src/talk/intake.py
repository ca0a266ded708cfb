"""The beginning of a turn: its message is stored, and what the answer needs is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from src.base.metrics import Metrics
from src.history.conversation_repo import ConversationRepository, HistoryMessage, StoredMessage
from src.history.new_messages import add_time_label
from src.history.turn_repo import TurnRepository
from src.memory import compaction, digest_repo, forgetting_repo
from src.memory.turn_context import Window
from src.pg.client import PgClient, Transaction
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.queue.update_repo import (
    ANSWERED_SEPARATELY,
    SUPERSEDING,
    NewerUpdates,
    UpdateKind,
    UpdateOutcome,
    UpdateRepository,
)
from src.reading import voices
from src.reading.gate import MASK, may_be_secret, redact, refers_back
from src.talk.turn_state import NOWHERE, IncomingMessage, Turn

LONG_HISTORY = 4000  # characters; a shorter one fits the smallest context
CONTINUING = (*SUPERSEDING, *ANSWERED_SEPARATELY)  # kinds of updates that follow a message


@dataclass(eq=False, repr=False)
class Intake:
    """Storing of a message and loading of its context, in one transaction; newer updates."""

    _client: PgClient
    _settings: GlobalSettingsRepository
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._conversations = ConversationRepository(self._client)
        self._updates = UpdateRepository(self._client)

    async def store(self, turn: Turn) -> UpdateOutcome | None:
        """Store the message with its time label, and load the last 30.

        If it is stored already (the turn was interrupted), it is found, with its answer if it has
        one. If a newer message is answered instead, with this one in the history, the turn ends.

        Args:
            turn: The turn, which is filled.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            MessageMovedError: An erasure changed it, and it is to be read again.
            StorageError: The database is away.
        """
        turn.incoming = turn.incoming.without_secrets()
        if may_be_secret(turn.incoming.text) or refers_back(turn.incoming.text):
            find = self._conversations.find_text_before
            before = await self._client.run(
                find, turn.incoming.owner, turn.incoming.origin, turn.incoming.moment
            )
            turn.incoming = turn.incoming.following(before)
        with self._metrics.stage("store"):
            settings = await self._settings.fetch()
            work = partial(self._store_turn, turn, settings)
            await self._client.run(self._client.in_transaction, work)
        if turn.answer is None and turn.behind.newer is not None:
            return "left to a later message"
        return None

    async def find_newer(
        self, incoming: IncomingMessage, kinds: Sequence[UpdateKind] = CONTINUING
    ) -> UpdateKind | None:
        """Return the kind of the next waiting update of these kinds; None if there is none.

        A ``message`` means that the sender goes on, and that both are answered together.

        Raises:
            StorageError: The database is away.
        """
        if incoming.update is None:
            return None
        return await self._client.run(self._updates.find_newer, incoming.update, kinds=kinds)

    def simulate(self, incoming: IncomingMessage) -> Turn:
        """Return a turn as ``store`` would fill it, without storing the message; it blocks.

        Raises:
            StorageError: The database is away.
        """
        settings = self._settings.get()
        incoming = incoming.without_secrets()
        conversation_id = self._conversations.find_conversation(incoming.owner)
        turn = Turn(incoming, conversation_id=conversation_id or NOWHERE)
        self._client.in_transaction(partial(self._load_context, turn, settings, unstored=1))
        message: HistoryMessage = {
            "id": 0,
            "role": "user",
            "content": _add_label(incoming),
            "position": max((entry["position"] for entry in turn.history), default=0) + 1,
            "sender_id": incoming.sender_id,
        }
        turn.history = (*turn.history, message)
        return turn

    def _store_turn(self, turn: Turn, settings: GlobalSettings, transaction: Transaction) -> None:
        incoming = turn.incoming
        turn.behind = self._lock_update(transaction, incoming)
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
            with self._metrics.stage("load"):
                self._load_context(turn, settings, transaction)

    def _lock_update(self, transaction: Transaction, incoming: IncomingMessage) -> NewerUpdates:
        """Lock the message's update until the transaction ends; return what waits behind it.

        A taught message is answered for itself, whatever comes next.
        """
        origin = incoming.origin
        if origin is None or origin.update is None:
            return NewerUpdates()
        behind = self._updates.lock_update(transaction, origin.update, origin.revision)
        if incoming.teaching is None:
            return behind
        return NewerUpdates()

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
            transaction,
            incoming.owner,
            _add_label(incoming),
            origin=incoming.origin,
            said_at=incoming.moment,
            voice=incoming.voice,
        )

    def _load_context(
        self, turn: Turn, settings: GlobalSettings, transaction: Transaction, *, unstored: int = 0
    ) -> None:
        """Load the last messages, and the summaries once the window has moved.

        ``unstored`` is the number of messages that follow without being stored.
        """
        conversations, limit = ConversationRepository(transaction), settings.history_messages
        turn.history = tuple(
            conversations.load_last_messages(turn.conversation_id, limit - unstored)
        )
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


def _add_label(incoming: IncomingMessage) -> str:
    return add_time_label(incoming.text, incoming.moment, incoming.time_zone)
