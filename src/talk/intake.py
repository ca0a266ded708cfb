"""The beginning of a turn: its message is stored, and what the answer needs is loaded.

Both are one transaction; all functions block.
"""

from collections.abc import Sequence
from dataclasses import replace

from src.history.conversation_repo import ConversationRepository, HistoryMessage, StoredMessage
from src.history.new_messages import add_time_label
from src.history.turn_repo import TurnRepository
from src.memory import compaction, digest_repo, forgetting_repo
from src.memory.turn_context import Window
from src.pg.client import Transaction
from src.pg.global_settings_repo import GlobalSettings
from src.queue.update_repo import NewerUpdates, UpdateRepository
from src.reading import gate
from src.reading.gate import MASK, redact
from src.talk.turn_state import NOWHERE, IncomingMessage, Turn

LONG_HISTORY = 4000  # characters; a shorter one fits the smallest context


def store(turn: Turn, settings: GlobalSettings, transaction: Transaction) -> None:
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


def simulate(
    incoming: IncomingMessage, settings: GlobalSettings, transaction: Transaction
) -> Turn:
    """Return a turn as ``store`` would fill it, without storing the message."""
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
    name = gate.clean_name(enclosed.name)
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
