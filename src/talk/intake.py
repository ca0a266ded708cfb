"""The beginning of a turn: what waits behind its message; it is stored, the rest is loaded."""

from __future__ import annotations

from dataclasses import replace

from src.base.metrics import Metrics
from src.history.conversation_repo import (
    ConversationRepository,
    HistoryMessage,
    StoredMessage,
    TelegramOrigin,
)
from src.history.new_messages import add_time_label
from src.history.turn_repo import TurnRepository
from src.memory.compaction import window_start
from src.memory.digest_repo import SummaryRepository
from src.memory.memories import Memories
from src.pg.client import PgClient, Transaction
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.queue.update_repo import Behind, UpdateRepository
from src.reading.voices import Voice, clean_name
from src.talk.turn_state import NOWHERE, IncomingMessage, Turn


class Intake:
    """Stores a message and loads its context in one transaction; looks up newer updates.

    Nobody else asks that. A message that came with no stored update (the console's) has nothing
    behind it but what it says itself.
    """

    def __init__(
        self,
        client: PgClient,
        memories: Memories,
        settings: GlobalSettingsRepository,
        metrics: Metrics,
    ) -> None:
        """Search ahead in ``memories``."""
        self._client = client
        self._memories = memories
        self._settings = settings
        self._metrics = metrics
        self._conversations = ConversationRepository(client)
        self._turns = TurnRepository(client)
        self._summaries = SummaryRepository(client)
        self._updates = UpdateRepository(client)

    async def store(self, turn: Turn) -> None:
        """Store the message with its time before it, and load the last 30.

        A message that is stored already (the turn was interrupted) is found, with its answer
        if it has one. One whose answer is left to a later message is only stored.

        Args:
            turn: Filled with what is found.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            QuestionMovedError: It was changed by an erasure, and is to be read again.
            StorageError: The database is away.
        """
        if _is_searched(turn.incoming):
            self._memories.retriever.prepare(turn.incoming.text)  # as long as all the rest
        with self._metrics.stage("store"):
            await self._client.run(self._begin, turn)

    async def is_left_to_newer(self, incoming: IncomingMessage) -> bool:
        """Whether a later message of the chat is answered instead of this one.

        Raises:
            StorageError: The database is away.
        """
        if incoming.update is None:
            return incoming.newer is not None
        return await self._client.run(self._updates.find_newer, incoming.update) is not None

    async def is_wiped(self, incoming: IncomingMessage) -> bool:
        """Whether a /new waits, which is about to delete the message and what answers it.

        Raises:
            StorageError: The database is away.
        """
        if incoming.update is None:
            return False
        find = self._updates.find_newer
        return await self._client.run(find, incoming.update, kinds=("new",)) is not None

    def pretend(self, incoming: IncomingMessage) -> Turn:
        """A turn as ``store`` would fill it, of a message that is not stored; it blocks.

        Raises:
            StorageError: The database is away.
        """
        settings = self._settings.get()
        known = self._conversations.find_conversation(incoming.owner)
        turn = Turn(incoming, conversation_id=known or NOWHERE)
        self._client.in_transaction(
            lambda transaction: self._load(transaction, turn, settings, pretended=1)
        )
        message: HistoryMessage = {
            "id": 0,
            "role": "user",
            "content": _labelled(incoming, incoming.text),
            "position": turn.history[-1]["position"] + 1 if turn.history else 1,
            "sender_id": incoming.sender_id,
        }
        turn.history = (*turn.history, message)
        return turn

    def _begin(self, turn: Turn) -> None:
        settings = self._settings.get()  # first: it may need a connection
        self._client.in_transaction(lambda transaction: self._store(transaction, turn, settings))

    def _store(self, transaction: Transaction, turn: Turn, settings: GlobalSettings) -> None:
        behind = self._hold(transaction, turn.incoming)
        turn.newer, turn.is_ended = behind.newer, behind.is_ended
        self._store_enclosed(transaction, turn.incoming)
        self._store_message(transaction, turn)
        ids = turn.conversation_id, turn.message_id
        if not turn.is_new:
            turn.shown_in = self._turns.find_stream_message(*ids, within=transaction)
            turn.answer = self._turns.find_answer(*ids, within=transaction)
        if turn.answer is not None:
            return
        if turn.newer in ("new", "stop"):
            self._turns.mark_stopped(*ids, within=transaction)
        if turn.newer is None:
            with self._metrics.stage("load"):
                self._load(transaction, turn, settings)

    def _hold(self, transaction: Transaction, incoming: IncomingMessage) -> Behind:
        """What waits behind a message, which stays as it was read until the transaction ends.

        What is taught is answered for itself: what comes next answers none of it.
        """
        origin, behind = incoming.origin, Behind(incoming.newer)
        if origin is not None and origin.update is not None:
            behind = self._updates.hold(transaction, origin.update, origin.revision)
        return behind if incoming.teaching is None else Behind()

    def _store_message(self, transaction: Transaction, turn: Turn) -> None:
        incoming = turn.incoming
        voice = replace(incoming.voice, is_private=incoming.is_private)
        message = self._append(transaction, incoming, incoming.text, incoming.origin, voice)
        turn.conversation_id, turn.message_id = message.conversation_id, message.id
        turn.is_new = message.is_new

    def _store_enclosed(self, transaction: Transaction, incoming: IncomingMessage) -> None:
        """What was read out of an attachment, as a message of its own before the caption.

        Its place in Telegram is the same; the negative number keeps the two apart.
        """
        enclosed, origin = incoming.enclosed, incoming.origin
        if enclosed is None or origin is None:
            return
        origin = replace(origin, message_id=-origin.message_id, mentions=())
        voice = replace(
            incoming.voice, provenance="file", origin=clean_name(enclosed.name), quoted=None
        )
        self._append(transaction, incoming, enclosed.text, origin, voice)

    def _append(
        self,
        transaction: Transaction,
        incoming: IncomingMessage,
        text: str,
        origin: TelegramOrigin | None,
        voice: Voice,
    ) -> StoredMessage:
        labelled, moment = _labelled(incoming, text), incoming.moment
        return self._conversations.store_message(
            transaction, incoming.owner, labelled, origin=origin, said_at=moment, voice=voice
        )

    def _load(
        self, transaction: Transaction, turn: Turn, settings: GlobalSettings, *, pretended: int = 0
    ) -> None:
        """The last messages; and summaries, once some have left the window.

        ``pretended`` messages, which are not stored, follow them.
        """
        turn.history = tuple(
            self._conversations.load_last_messages(
                turn.conversation_id, settings.history_messages - pretended, within=transaction
            )
        )
        last = (turn.history[-1]["position"] if turn.history else 0) + pretended
        turn.window_start = window_start(
            last, window=settings.history_messages, step=settings.history_step
        )
        if turn.window_start > 1:
            shown = self._summaries.list_shown(
                turn.conversation_id,
                turn.window_start,
                limit=settings.summaries_shown,
                within=transaction,
            )
            turn.summaries = tuple(summary.content for summary in shown)


def _is_searched(incoming: IncomingMessage) -> bool:
    """Whether the graph is about to search the memory for what is like the message."""
    is_asked = incoming.newer is None and incoming.teaching is None
    is_remembered = incoming.memory_on and not incoming.is_private
    is_searched = incoming.mode == "assistant" and bool(incoming.text.strip())
    return is_asked and is_remembered and is_searched


def _labelled(incoming: IncomingMessage, text: str) -> str:
    return add_time_label(text, incoming.moment, incoming.time_zone)
