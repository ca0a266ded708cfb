"""Edits of messages: store the new text and withdraw what was derived from the old one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from src.base.owners import Owner
from src.history.conversation_repo import NearbyMessage, TelegramOrigin
from src.history.timeline_repo import DELETE_RESULTS
from src.memory import turn_context
from src.memory.forget_matching import spans
from src.memory.forgetting_repo import DELETE_REJECTED, DELETE_SUMMARIES, ForgettingRepository
from src.memory.question_repo import CLEAR_QUESTIONS
from src.pg.client import OwnerSteps, PgClient, Transaction, storable
from src.pg.locks import lock_facts, lock_history
from src.reading.gate import holds_secret, read_announced_secret, redact, refers_back
from src.reminders.reminder_repo import delete_of_message

# The edited message, locked until the transaction ends: whether the user wrote nothing after it,
# and which Telegram messages show its answer.
SELECT_EDITED = """
SELECT m.id, message_text(m.content), m.position <= c.extracted_position,
       NOT EXISTS (SELECT 1 FROM messages later
                   WHERE later.conversation_id = m.conversation_id AND later.role = 'user'
                     AND (later.created_at, later.id) > (m.created_at, m.id)),
       (SELECT a.sent_message_ids FROM messages a
        WHERE a.reply_to_id = m.id AND a.role = 'assistant'),
       m.stream_message_id,
       EXISTS (SELECT 1 FROM messages a WHERE a.reply_to_id = m.id AND a.role = 'assistant')
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND m.role = 'user' AND NOT m.is_forgotten
  AND m.provenance <> 'file'
  AND m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s
FOR UPDATE OF m
"""

# A file without a caption, which is read; it gives its number up to the caption that it gets.
FREE_NUMBER = """
UPDATE messages m SET telegram_message_id = -%(message_id)s
FROM conversations c
WHERE c.id = m.conversation_id AND c.owner_id = %(owner)s
  AND m.provenance = 'file' AND NOT m.is_forgotten
  AND m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id IN (%(message_id)s, -%(message_id)s)
  AND NOT EXISTS (SELECT 1 FROM messages o WHERE o.provenance <> 'file' AND o.chat_id = m.chat_id
                  AND o.bot_id = m.bot_id AND o.telegram_message_id = %(message_id)s)
RETURNING m.id
"""

# The nearest messages of the same sender, within ten minutes before and after.
SELECT_NEARBY = """
SELECT n.position > m.position, n.id, message_text(n.content), n.telegram_message_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
JOIN messages n ON n.conversation_id = m.conversation_id AND n.id <> m.id AND n.role = 'user'
    AND NOT n.is_forgotten AND n.sender_id IS NOT DISTINCT FROM m.sender_id
    AND n.said_at BETWEEN m.said_at - interval '10 minutes' AND m.said_at + interval '10 minutes'
WHERE m.id = %(id)s AND c.owner_id = %(owner)s
ORDER BY abs(n.position - m.position), abs(n.id - m.id) LIMIT 4
"""

# Replace the text of a message after its time label, and queue it for the search index.
UPDATE_TEXT = """
WITH changed AS (
    UPDATE messages m
    SET content = left(m.content, length(m.content) - length(message_text(m.content)))
                  || %(content)s,
        mentions = %(mentions)s, edited_at = now(), is_disputed = false
    FROM conversations c
    WHERE m.id = %(id)s AND c.id = m.conversation_id AND c.owner_id = %(owner)s
    RETURNING m.conversation_id, m.id
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed ON CONFLICT DO NOTHING
"""

# Queue a message for extraction once more, on its own.
REQUEUE_FOR_EXTRACTION = """
INSERT INTO parting_messages (message_id, owner_id, position, content, said_at, sender_id, speaker,
                              mentions)
SELECT m.id, c.owner_id, m.position, m.content, m.said_at, m.sender_id, m.speaker, m.mentions
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(id)s AND c.owner_id = %(owner)s AND m.provenance = 'typed'
  AND NOT m.is_private
ON CONFLICT (message_id) DO UPDATE SET content = EXCLUDED.content, left_at = now()
"""

# Delete the answer to the old text, and by cascade what refers to it.
DELETE_ANSWER = """
DELETE FROM messages a USING messages m, conversations c
WHERE a.reply_to_id = m.id AND m.id = %(id)s AND c.id = m.conversation_id
  AND c.owner_id = %(owner)s
"""
# Show the next answer in the first Telegram message of the old one; unset stopped and failed.
UPDATE_STREAM_MESSAGE = """
UPDATE messages m SET stream_message_id = %(shown)s, stopped_at = NULL, failed_at = NULL
FROM conversations c
WHERE m.id = %(id)s AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""


@dataclass(frozen=True)
class EditedMessage:
    """Edited message as it was before the edit.

    Attributes:
        id: Its id.
        text: Its old text, without the time label.
        was_read: True if it was read for facts.
        is_last: True if its sender has written nothing since.
        is_answered: True if it has an answer.
        shown_in: The Telegram messages that show its answer, or showed it.
    """

    id: int
    text: str
    was_read: bool
    is_last: bool
    is_answered: bool
    shown_in: tuple[int, ...]


class EditRepository(OwnerSteps):
    """Steps of an edit (see ``take_edit``)."""

    def find(self, origin: TelegramOrigin) -> EditedMessage | None:
        """Return the stored message, locked until the transaction ends; None: not stored here."""
        rows = self._rows(SELECT_EDITED, **origin.columns())
        if not rows:
            return None
        [(id_, text, was_read, is_last, sent, streamed, is_answered)] = rows
        shown_in = tuple(sent or ()) or ((streamed,) if streamed is not None else ())
        return EditedMessage(id_, text, was_read, is_last, is_answered, shown_in)

    def is_caption(self, origin: TelegramOrigin) -> bool:
        """Return True if it is the first caption of a file, whose number is free then."""
        return bool(self._rows(FREE_NUMBER, **origin.columns()))

    def find_nearby(self, edited: EditedMessage) -> tuple[NearbyMessage, NearbyMessage]:
        """Return what the same sender wrote right before it, and right after."""
        rows = self._rows(SELECT_NEARBY, id=edited.id)
        nearest = {is_after: NearbyMessage(*message) for is_after, *message in reversed(rows)}
        return nearest.get(False, NearbyMessage()), nearest.get(True, NearbyMessage())

    def set_text(self, edited: EditedMessage, origin: TelegramOrigin, text: str) -> None:
        """Replace its text; delete the summaries, refusals, tool results and questions of it.

        Facts that only its old text told are retired.
        """
        self._run(UPDATE_TEXT, **origin.columns(), id=edited.id, content=storable(text))
        derived = (DELETE_SUMMARIES, DELETE_REJECTED, DELETE_RESULTS, CLEAR_QUESTIONS)
        self._run(*derived, id=edited.id, ids=[edited.id])
        facts = ForgettingRepository(self._transaction, self._owner)
        for memory_id, quote, has_others in facts.list_facts_of(edited.id):
            if not spans(text, quote):
                facts.remove_source(edited.id, memory_id, has_others=has_others)

    def requeue_for_extraction(self, edited: EditedMessage) -> None:
        """Queue it to be read for facts once more."""
        self._run(REQUEUE_FOR_EXTRACTION, id=edited.id)

    def delete_answer(self, edited: EditedMessage) -> None:
        """Delete its answer and the reminders that it asked for.

        The next answer appears in the first Telegram message of this one.
        """
        delete_of_message(self._transaction, self._owner, edited.id)
        first = next(iter(edited.shown_in), None)
        self._run(DELETE_ANSWER, UPDATE_STREAM_MESSAGE, id=edited.id, shown=first)


EditKind = Literal["unknown", "caption", "same", "older", "last"]


@dataclass(frozen=True)
class EditOutcome:
    """Result of an edit.

    Attributes:
        what: ``unknown``: the message is not stored; ``caption``: it is the first one of a stored
            file; ``same``: its text did not change;
            ``older``: other messages came after it; ``last``: it waits for a new answer.
        leftover: Telegram messages of the old answer but its first, to be deleted.
        secret: For an older message, the message in which a secret was masked: itself or an
            adjacent one.
    """

    what: EditKind
    leftover: Sequence[int] = ()
    secret: NearbyMessage | None = None


def take_edit(
    client: PgClient, owner: Owner, origin: TelegramOrigin, text: str, *, is_own: bool
) -> EditOutcome:
    """Store the new text of a message, and retire the facts that only its old text told.

    What such a fact had replaced becomes current again. The answer to the last message is
    deleted, so that it is given again. It is idempotent: after a crash it finds a last message
    without an answer and returns ``last`` again. All of it is one transaction, and blocks (see
    ``PgClient.run``).

    Args:
        client: The database.
        owner: The chat and topic.
        origin: Origin of the message in Telegram.
        text: The new text.
        is_own: True if its sender typed it, so that it may ask for privacy.
    """
    original, text = text, redact(text)
    is_private = holds_secret(text) or turn_context.wants_privacy(text, is_own=is_own)

    def work(transaction: Transaction) -> EditOutcome:
        lock_facts(transaction, owner)
        lock_history(transaction, owner.telegram_user_id)
        edits = EditRepository(transaction, owner)
        edited = edits.find(origin)
        if edited is None:
            if edits.is_caption(origin):
                return EditOutcome("caption")
            return EditOutcome("unknown")
        if edited.text == storable(text):
            unanswered = edited.is_last and not edited.is_answered
            return EditOutcome("last" if unanswered else "same")
        facts = ForgettingRepository(transaction, owner)
        edits.set_text(edited, origin, text)
        this = NearbyMessage(edited.id, text, origin.message_id)
        masked = _mask_nearby(facts, *edits.find_nearby(edited), this)
        secret = masked or (this if text != original else None)
        if is_private:
            facts.keep_private(edited.id)
        elif edited.was_read:
            edits.requeue_for_extraction(edited)
        if not edited.is_last:
            return EditOutcome("older", secret=secret)
        edits.delete_answer(edited)
        return EditOutcome("last", edited.shown_in[1:])

    return client.in_transaction(work)


def _mask_nearby(
    facts: ForgettingRepository, before: NearbyMessage, after: NearbyMessage, this: NearbyMessage
) -> NearbyMessage | None:
    """Mask a secret that the new text and an adjacent message form; return the masked message.

    A household secret (the code of a door) stays, but becomes private.
    """
    pairs = [(before.text, this), (this.text, after)]
    if refers_back(this.text):
        pairs.append((f"{this.text}:", before))
    if refers_back(after.text):
        pairs.append((f"{after.text}:", this))
    found = [(read_announced_secret(hint, message.text), message) for hint, message in pairs]
    for message in {message for secret, message in found if secret and secret.is_household}:
        facts.keep_private(message.id)
    masked = [message for secret, message in found if secret and not secret.is_household]
    for message in masked:
        facts.mask(message.id, message.text)
    return next(iter(masked), None)
