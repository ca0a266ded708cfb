"""Messages that their writers edited: the words, and what was made of the words before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from src.base.owners import Owner
from src.history.conversation_repo import AdjacentMessage, TelegramOrigin
from src.history.timeline_repo import DELETE_RESULTS
from src.memory.cutting import spans
from src.memory.forgetting_repo import DELETE_REJECTED, DELETE_SUMMARIES, ForgettingRepository
from src.memory.question_repo import DELETE_QUESTIONS
from src.memory.turn_context import wants_privacy
from src.pg.client import OwnerSteps, PgClient, Transaction, storable
from src.pg.locks import lock_facts, lock_history
from src.reading.gate import completes, holds_secret, redact, refers_back
from src.reminders.reminder_repo import delete_of_message

# The edited message, until the transaction ends; whether nothing came after it but its answer, and
# which Telegram messages show that.
SELECT_EDITED = """
SELECT m.id, c.thread_id, message_text(m.content), m.position <= c.extracted_position,
       NOT EXISTS (SELECT 1 FROM messages later
                   WHERE later.conversation_id = m.conversation_id AND later.role = 'user'
                     AND (later.created_at, later.id) > (m.created_at, m.id)),
       (SELECT a.sent_message_ids FROM messages a
        WHERE a.reply_to_id = m.id AND a.role = 'assistant'),
       m.stream_message_id,
       EXISTS (SELECT 1 FROM messages a WHERE a.reply_to_id = m.id AND a.role = 'assistant')
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %(user)s AND m.role = 'user' AND NOT m.is_forgotten
  AND m.provenance <> 'file'
  AND m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s
FOR UPDATE OF m
"""

# What its writer wrote in the ten minutes before and after it: the nearest of both.
SELECT_BESIDE = """
SELECT n.position > m.position, n.id, message_text(n.content), n.telegram_message_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
JOIN messages n ON n.conversation_id = m.conversation_id AND n.id <> m.id AND n.role = 'user'
    AND NOT n.is_forgotten AND n.sender_id IS NOT DISTINCT FROM m.sender_id
    AND n.said_at BETWEEN m.said_at - interval '10 minutes' AND m.said_at + interval '10 minutes'
WHERE m.id = %(id)s AND c.owner_id = %(owner)s
ORDER BY abs(n.position - m.position), abs(n.id - m.id) LIMIT 4
"""

# Its time label stays, and the search reads it again.
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

# It was read for facts before: a job reads it once more, by itself.
READ_AGAIN = """
INSERT INTO parting_messages (message_id, owner_id, position, content, said_at, sender_id, speaker,
                              mentions)
SELECT m.id, c.owner_id, m.position, m.content, m.said_at, m.sender_id, m.speaker, m.mentions
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(id)s AND c.owner_id = %(owner)s AND m.provenance = 'typed'
  AND NOT m.is_private
ON CONFLICT (message_id) DO UPDATE SET content = EXCLUDED.content, left_at = now()
"""

# The answer to the words before goes, with all that hangs on it; its first message in Telegram
# is where the next one appears.
DELETE_ANSWER = """
DELETE FROM messages a USING messages m, conversations c
WHERE a.reply_to_id = m.id AND m.id = %(id)s AND c.id = m.conversation_id
  AND c.owner_id = %(owner)s
"""
UPDATE_SHOWN = """
UPDATE messages m SET stream_message_id = %(shown)s, stopped_at = NULL, failed_at = NULL
FROM conversations c
WHERE m.id = %(id)s AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""


@dataclass(frozen=True)
class Edited:
    """A message that was edited, as it was before.

    Attributes:
        id: Its number.
        thread_id: Its topic, or 0.
        text: What it said, without the time label.
        was_read: Whether it was read for facts.
        is_last: Whether the writer has written nothing since.
        is_answered: Whether it has an answer.
        shown_in: The Telegram messages that show its answer, or showed it.
    """

    id: int
    thread_id: int
    text: str
    was_read: bool
    is_last: bool
    is_answered: bool
    shown_in: tuple[int, ...]


class EditRepository(OwnerSteps):
    """The steps of an edit (``take_edit``)."""

    def find(self, origin: TelegramOrigin) -> Edited | None:
        """The stored message, held until the transaction ends; None: it is not in the chat."""
        rows = self._rows(SELECT_EDITED, **origin.columns())
        if not rows:
            return None
        [(id_, thread_id, text, was_read, is_last, sent, streamed, is_answered)] = rows
        shown = tuple(sent or ()) or ((streamed,) if streamed is not None else ())
        return Edited(id_, thread_id, text, was_read, is_last, is_answered, shown)

    def beside(self, edited: Edited) -> tuple[AdjacentMessage, AdjacentMessage]:
        """What its writer wrote right before it, and right after."""
        rows = self._rows(SELECT_BESIDE, id=edited.id)
        nearest = {is_after: AdjacentMessage(*message) for is_after, *message in reversed(rows)}
        return nearest.get(False, AdjacentMessage()), nearest.get(True, AdjacentMessage())

    def set_text(self, edited: Edited, origin: TelegramOrigin, text: str) -> None:
        """Let it say ``text``; what was summarised, refused or asked of it is made anew."""
        self._run(UPDATE_TEXT, **origin.columns(), id=edited.id, content=storable(text))
        made = (DELETE_SUMMARIES, DELETE_REJECTED, DELETE_RESULTS, DELETE_QUESTIONS)
        self._run(*made, id=edited.id, ids=[edited.id])

    def read_again(self, edited: Edited) -> None:
        """Let a job read it for facts once more."""
        self._run(READ_AGAIN, id=edited.id)

    def delete_answer(self, edited: Edited) -> None:
        """Delete its answer, with the reminders that it asked for; the next answer appears where
        the first message of this one stands.
        """
        delete_of_message(self._transaction, self._owner, edited.id)
        shown = next(iter(edited.shown_in), None)
        self._run(DELETE_ANSWER, UPDATE_SHOWN, id=edited.id, shown=shown)


What = Literal["unknown", "same", "older", "last"]


@dataclass(frozen=True)
class EditOutcome:
    """What an edit was about.

    Attributes:
        what: ``unknown``: the message is not kept; ``same``: nothing of its words changed;
            ``older``: others came after it; ``last``: it waits for a new answer.
        leftover: Telegram messages of the old answer beside its first, to be deleted.
        secret: The message, it or one beside it, in which a secret was masked; of an older one.
    """

    what: What
    leftover: Sequence[int] = ()
    secret: AdjacentMessage | None = None


def take_edit(
    client: PgClient, owner: Owner, origin: TelegramOrigin, text: str, *, is_own: bool
) -> EditOutcome:
    """Let a message say ``text``; facts that only its old words told are retired.

    What such a fact had replaced holds again. The answer to the last message is deleted, so that
    it is given anew. A second call, after a crash, finds a last message without an answer and
    says so again. All of it is one transaction, and blocks (see ``PgClient.run``).

    Args:
        client: Of the database.
        owner: The chat; the topic is the message's own.
        origin: Where it stands in Telegram.
        text: What it says now.
        is_own: Whether its sender typed it, so that it may ask for privacy.
    """
    said, text = text, redact(text)
    private = holds_secret(text) or wants_privacy(text, is_own=is_own)

    def work(transaction: Transaction) -> EditOutcome:
        lock_history(transaction, owner.telegram_user_id)
        edited = EditRepository(transaction, owner).find(origin)
        if edited is None:
            return EditOutcome("unknown")
        place = Owner(owner.telegram_user_id, edited.thread_id)
        if edited.text == storable(text):
            unanswered = edited.is_last and not edited.is_answered
            return EditOutcome("last" if unanswered else "same")
        lock_facts(transaction, place)
        edits = EditRepository(transaction, place)
        facts = ForgettingRepository(transaction, place)
        edits.set_text(edited, origin, text)
        _withdraw(facts, edited, text)
        this = AdjacentMessage(edited.id, text, origin.message_id)
        apart = _masked_apart(facts, *edits.beside(edited), this)
        secret = apart or (this if text != said else None)
        if private:
            facts.keep_private(edited.id)
        elif edited.was_read:
            edits.read_again(edited)
        if not edited.is_last:
            return EditOutcome("older", secret=secret)
        edits.delete_answer(edited)
        return EditOutcome("last", edited.shown_in[1:])

    return client.in_transaction(work)


def _masked_apart(
    facts: ForgettingRepository,
    before: AdjacentMessage,
    after: AdjacentMessage,
    this: AdjacentMessage,
) -> AdjacentMessage | None:
    """The message that was masked, since the new words and one beside them make a secret.

    The code of a door stays, private.
    """
    pairs = [(before.text, this), (this.text, after)]
    pairs += [(f"{this.text}:", before)] * refers_back(this.text)
    pairs += [(f"{after.text}:", this)] * refers_back(after.text)
    found = [(completes(said, message.text), message) for said, message in pairs]
    for message in {message for secret, message in found if secret and secret.is_household}:
        facts.keep_private(message.id)
    masked = [message for secret, message in found if secret and not secret.is_household]
    for message in masked:
        facts.mask(message.id, message.text)
    return next(iter(masked), None)


def _withdraw(facts: ForgettingRepository, edited: Edited, text: str) -> None:
    """Retire the facts that only its old words told."""
    for memory_id, quote, has_others in facts.list_told(edited.id):
        if not spans(text, quote):
            facts.untell(edited.id, memory_id, has_others=has_others)
