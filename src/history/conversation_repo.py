"""Repository of conversations and their messages."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, cast
from uuid import UUID

from src.base.errors import AppError, ConversationGoneError
from src.base.owners import Owner
from src.pg.client import PATIENT, Repository, Transaction, storable
from src.reading.gate import TYPED, Voice

Role = Literal["user", "assistant", "tool", "system"]
FOREIGN_KEY_VIOLATION = "23503"
MAX_PARTING = 200  # unread messages that outlive /new: as many as extraction reads at once
MAX_HOLDS = 5  # attempts to lock a conversation while others delete it
ASKED_MINUTES = 10  # during which a yes confirms that everything is to be erased


class HistoryMessage(TypedDict):
    """Message as the graph's state holds it.

    Attributes:
        id: Its id.
        role: Its role.
        content: Its text, with the time label if the user wrote it.
        position: Its position in the conversation, from 1.
        asks: What the bot asked with it, while an answer still counts.
        voice: Whose words it holds, and whether they are private.
        sender_id: Telegram id of its sender.
        is_open: False if its answer was stopped or given up.
    """

    id: int
    role: Role
    content: str
    position: int
    asks: NotRequired[str | None]
    voice: NotRequired[Voice]
    sender_id: NotRequired[int | None]
    is_open: NotRequired[bool]


@dataclass(frozen=True)
class PastMessage:
    """Message of the history, for summaries and extraction.

    Attributes:
        id: Its id.
        position: Its position in the conversation, from 1.
        role: ``user`` or ``assistant``.
        text: Its text without the time label.
        said_at: When it was written.
        voice: Whose words it holds.
    """

    id: int
    position: int
    role: str
    text: str
    said_at: datetime
    voice: Voice = TYPED


@dataclass(frozen=True)
class StoredMessage:
    """Id and conversation of a message; ``is_new`` is False if it had been stored before."""

    id: int
    is_new: bool
    conversation_id: UUID


@dataclass(frozen=True)
class NearbyMessage:
    """User message next to another one; empty if there is none.

    Attributes:
        id: Its id.
        text: Its text without the time label.
        telegram_message_id: Its Telegram message id; None if it came from elsewhere.
    """

    id: int = 0
    text: str = field(default="", repr=False)
    telegram_message_id: int | None = None


@dataclass(frozen=True)
class TelegramOrigin:
    """Origin of a user message in Telegram, which makes it unique.

    Attributes:
        bot_id: The bot that received it.
        chat_id: The chat in which it was written.
        message_id: Its Telegram message id within that chat.
        sender_id: Its sender.
        author_id: The author of a forwarded message: a person, a group or a channel.
        mentions: Ids and names of people mentioned without a user name.
        update: Row id of the stored update that brought it. The message is stored only while the
            update waits, so an erasure in the middle of a turn is final.
        revision: Revision of that update when it was read; if it changed since, it is read again.
        file_id: Telegram's file id of a picture that is described.
    """

    bot_id: int
    chat_id: int
    message_id: int
    sender_id: int
    author_id: int | None = None
    mentions: tuple[tuple[int, str], ...] = ()
    update: int | None = None
    revision: int = 0
    file_id: str | None = None

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statements that store a message."""
        columns = vars(self) | {"mentions": None}
        if self.mentions:
            mentions = [{"id": user, "name": storable(name)} for user, name in self.mentions]
            columns["mentions"] = json.dumps(mentions, ensure_ascii=False)
        return columns


NO_ORIGIN = dict.fromkeys(TelegramOrigin.__dataclass_fields__)


def _origin_columns(origin: TelegramOrigin | None) -> dict[str, Any]:
    if origin is None:
        return NO_ORIGIN
    return origin.columns()


# The owner's current conversation.
SELECT_CONVERSATION = """
SELECT id FROM conversations
WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s
ORDER BY created_at DESC, id LIMIT 1
"""

# The owner's current conversation, locked against deletion until the transaction ends.
HOLD_CONVERSATION = SELECT_CONVERSATION + "FOR KEY SHARE"

# Create a first conversation; the constraint admits one of two concurrent inserts.
INSERT_CONVERSATION = """
INSERT INTO conversations (owner_id, telegram_user_id, thread_id)
VALUES (add_owner(%(user)s, %(thread_id)s), %(user)s, %(thread_id)s)
ON CONFLICT ON CONSTRAINT conversations_one_per_owner DO NOTHING
RETURNING id
"""

# Delete the owner's conversations, and by cascade what refers to them.
DELETE_CONVERSATIONS = """
DELETE FROM conversations
WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s
"""

# Store a message once per Telegram message in the conversation ``held``; a duplicate returns no
# row. Unless it is private, it is queued for the search index. What another assistant stores, a
# ``bot`` without a Telegram message, takes no place in the conversation: it shares the last one.
STORE_MESSAGE = """
, stored AS (
    INSERT INTO messages (conversation_id, role, content, position, said_at, bot_id, chat_id,
                          telegram_message_id, sender_id, author_id, mentions, is_private,
                          provenance, speaker, origin, quoted, quoted_author_id, file_id)
    SELECT c.id, %(role)s, %(content)s,
           greatest(1, (%(provenance)s <> 'bot' OR %(message_id)s::bigint IS NOT NULL)::int
               + greatest(c.last_position, (SELECT max(position) FROM messages
                                            WHERE conversation_id = c.id))),
           coalesce(%(said_at)s, now()), %(bot_id)s, %(chat_id)s, %(message_id)s, %(sender_id)s,
           %(author_id)s, %(mentions)s, %(is_private)s, %(provenance)s,
           %(speaker)s, %(origin)s, %(quoted)s, %(quoted_author_id)s, %(file_id)s
    FROM conversations c JOIN held ON held.id = c.id
    ON CONFLICT (bot_id, chat_id, telegram_message_id) WHERE telegram_message_id IS NOT NULL
    DO NOTHING
    RETURNING id, conversation_id, role, is_private
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM stored
    WHERE role IN ('user', 'assistant') AND NOT is_private
)
SELECT id, conversation_id FROM stored
"""
INSERT_MESSAGE = "WITH held AS (SELECT %(conversation_id)s::uuid AS id)" + STORE_MESSAGE

# Store a message in the owner's current conversation, locked until the transaction ends.
INSERT_IN_CURRENT = f"WITH held AS ({HOLD_CONVERSATION})" + STORE_MESSAGE

# The message stored earlier for the same Telegram message, in the same conversation.
SELECT_BY_ORIGIN = """
SELECT m.id, m.conversation_id FROM messages m
WHERE m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s AND m.conversation_id = %(conversation_id)s
"""

# The text stored for a Telegram message.
SELECT_TEXT = """
SELECT message_text(m.content)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s AND c.owner_id = %(owner)s
"""

# The last message that the same sender wrote in the ten minutes before a message, which itself
# may not be stored yet.
SELECT_TEXT_BEFORE = """
SELECT m.id, message_text(m.content), m.telegram_message_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND c.thread_id = %(thread_id)s
  AND m.role = 'user' AND NOT m.is_forgotten
  AND m.sender_id IS NOT DISTINCT FROM %(sender_id)s
  AND (m.telegram_message_id = %(message_id)s) IS NOT TRUE
  AND m.said_at BETWEEN %(moment)s - interval '10 minutes' AND %(moment)s
ORDER BY m.position DESC, m.id DESC LIMIT 1
"""

# The newest messages of a conversation, without forgotten ones and those of other assistants.
SELECT_LAST_MESSAGES = """
SELECT id, role, content, position,
       CASE WHEN asks <> 'erase_all'  -- which must not be confirmed by a late yes
              OR created_at > now() - make_interval(mins => %(asked_minutes)s) THEN asks END,
       sender_id, stopped_at IS NULL AND failed_at IS NULL,
       provenance, speaker, origin, quoted, quoted_author_id, is_private
FROM messages
WHERE conversation_id = %(conversation_id)s AND NOT is_forgotten
  AND (failed_at IS NULL OR NOT is_private)  -- not those left out: see UPDATE_LEFT_OUT
  AND (provenance <> 'bot' OR telegram_message_id IS NOT NULL)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s
"""

# The position of the newest message.
SELECT_LAST_POSITION = """
SELECT coalesce(max(position), 0) FROM messages WHERE conversation_id = %(conversation_id)s
"""

# Messages between two positions, without forgotten and private ones and other assistants'.
SELECT_MESSAGES = """
SELECT id, position, role, message_text(content), said_at,
       provenance, speaker, origin, quoted, quoted_author_id
FROM messages
WHERE conversation_id = %(conversation_id)s AND position BETWEEN %(first)s AND %(last)s
  AND role IN ('user', 'assistant') AND NOT is_forgotten AND NOT is_private
  AND (provenance <> 'bot' OR telegram_message_id IS NOT NULL)
ORDER BY position, id LIMIT 1000
"""

# Copy typed messages that are not read for facts yet, before they are deleted. Not the disputed
# ones: the background would decide without the user.
KEEP_UNREAD = """
INSERT INTO parting_messages (message_id, owner_id, position, content, said_at, sender_id, speaker,
                              mentions)
SELECT m.id, c.owner_id, m.position, m.content, m.said_at, m.sender_id, m.speaker, m.mentions
FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.telegram_user_id = %(user)s AND c.thread_id = %(thread_id)s
  AND m.position > c.extracted_position AND m.role = 'user' AND m.provenance = 'typed'
  AND NOT m.is_forgotten AND NOT m.is_private AND NOT m.is_disputed
ORDER BY m.position DESC LIMIT %(limit)s
ON CONFLICT DO NOTHING
"""

# Empty a conversation but keep it. Its positions restart at 1, so nothing counts as extracted, and
# its summaries are deleted too.
DELETE_MESSAGES = """
WITH digested AS (
    UPDATE conversations SET extracted_position = 0, last_position = 0
    WHERE id = %(conversation_id)s
), summarised AS (
    DELETE FROM conversation_summaries WHERE conversation_id = %(conversation_id)s
)
DELETE FROM messages WHERE conversation_id = %(conversation_id)s
"""


class ConversationRepository(Repository):
    """Conversations and messages in the database; every method blocks (see ``PgClient.run``)."""

    def get_or_create_conversation(self, telegram_user_id: int, *, thread_id: int = 0) -> UUID:
        """Return the id of the owner's current conversation; create it if there is none.

        Args:
            telegram_user_id: The person, or the negative chat id of a group.
            thread_id: The topic of a forum group, else 0.
        """
        owner = Owner(telegram_user_id, thread_id)
        return self._client.in_transaction(lambda t: self.hold_conversation(t, owner))

    def find_conversation(self, owner: Owner) -> UUID | None:
        """Return the id of the owner's conversation, or None."""
        return self._first(lambda id_: id_, SELECT_CONVERSATION, owner)

    def hold_conversation(self, transaction: Transaction, owner: Owner) -> UUID:
        """Get or create the owner's conversation, and lock it until the transaction ends.

        No other transaction can delete it meanwhile.

        Raises:
            ConversationGoneError: Others deleted it at every attempt.
        """
        for statement in MAX_HOLDS * (HOLD_CONVERSATION, INSERT_CONVERSATION):
            row = transaction.fetch_one(statement, owner)
            if row is not None:
                return cast("UUID", row[0])
        raise ConversationGoneError("the conversation is deleted again and again")

    def append_message(
        self,
        conversation_id: UUID,
        role: Role,
        content: str,
        *,
        origin: TelegramOrigin | None = None,
        said_at: datetime | None = None,
    ) -> int:
        """Store a message at the end of a conversation, once, and return its id."""
        parameters = _parameters(conversation_id, role, content, origin, said_at) | vars(TYPED)
        return self._client.in_transaction(lambda t: _insert_message(t, parameters)).id

    def store_message(
        self,
        transaction: Transaction,
        owner: Owner,
        content: str,
        *,
        origin: TelegramOrigin | None = None,
        said_at: datetime | None = None,
        voice: Voice = TYPED,
    ) -> StoredMessage:
        """Store a user's message at the end of the owner's current conversation, once.

        The conversation is created if there is none, and locked until the transaction ends. NUL
        bytes and lone surrogates, which PostgreSQL cannot hold, become U+FFFD.

        Args:
            transaction: The caller's transaction.
            owner: The owner.
            content: The text with its time label.
            origin: Its origin in Telegram; a message whose origin is stored is not stored again.
            said_at: When it was written, by default now.
            voice: Whose words it holds, and whether they are private, so that nothing else stores
                them.

        Raises:
            ConversationGoneError: The message belongs to a conversation that was deleted.
        """
        parameters = _parameters(None, "user", content, origin, said_at) | vars(voice)
        row = transaction.fetch_one(INSERT_IN_CURRENT, parameters | owner.columns())
        if row is not None:
            return StoredMessage(row[0], True, row[1])
        conversation_id = self.hold_conversation(transaction, owner)
        return _insert_message(transaction, parameters | {"conversation_id": conversation_id})

    def find_text(self, owner: Owner, origin: TelegramOrigin) -> str | None:
        """Return the text that an earlier attempt stored for a Telegram message, or None."""
        return self._first(str, SELECT_TEXT, owner, **origin.columns())

    def find_text_before(
        self, owner: Owner, origin: TelegramOrigin | None, moment: datetime
    ) -> NearbyMessage:
        """Return the last message of the same sender in the ten minutes before; empty if none."""
        columns = _origin_columns(origin)
        found = self._first(NearbyMessage, SELECT_TEXT_BEFORE, owner, **columns, moment=moment)
        return found or NearbyMessage()

    def load_last_messages(self, conversation_id: UUID, limit: int = 30) -> list[HistoryMessage]:
        """Return the newest ``limit`` messages, in order ``created_at ASC, id ASC``."""
        page = {"conversation_id": conversation_id, "limit": max(0, limit)}
        newest_first = self._all(
            _history_message, SELECT_LAST_MESSAGES, page, asked_minutes=ASKED_MINUTES
        )
        return newest_first[::-1]

    def get_last_position(self, conversation_id: UUID) -> int:
        """Return the position of the newest message, 0 for an empty conversation."""
        return self._first(int, SELECT_LAST_POSITION, conversation_id=conversation_id) or 0

    def list_messages(self, conversation_id: UUID, first: int, last: int) -> list[PastMessage]:
        """List messages of user and assistant from position ``first`` to ``last``, inclusive."""
        parameters = {"conversation_id": conversation_id, "first": first, "last": last}
        return self._all(past_message, SELECT_MESSAGES, parameters)

    def create_new_conversation(
        self, telegram_user_id: int, *, thread_id: int = 0, keep_unread: bool = False
    ) -> UUID:
        """Delete the owner's conversations and what refers to them; return the id of a new one.

        Args:
            telegram_user_id: The owner.
            thread_id: The topic of a forum group, else 0.
            keep_unread: True to keep, for some minutes, messages not read for facts yet.
        """
        owner = Owner(telegram_user_id, thread_id)

        def replace(transaction: Transaction) -> UUID:
            if keep_unread:
                transaction.execute(KEEP_UNREAD, owner, limit=MAX_PARTING)
            transaction.execute(DELETE_CONVERSATIONS, owner)
            return self.hold_conversation(transaction, owner)

        return self._client.in_transaction(replace, limits=PATIENT)

    def clear_conversation_messages(self, conversation_id: UUID) -> int:
        """Delete the conversation's messages but keep the conversation; return their number."""
        return self._client.execute(
            DELETE_MESSAGES, conversation_id=conversation_id, limits=PATIENT
        )


def _parameters(
    conversation_id: UUID | None,
    role: Role,
    content: str,
    origin: TelegramOrigin | None,
    said_at: datetime | None,
) -> dict[str, object]:
    message = {"conversation_id": conversation_id, "role": role, "content": storable(content)}
    return {**message, "said_at": said_at, **_origin_columns(origin)}


def _insert_message(transaction: Transaction, parameters: dict[str, object]) -> StoredMessage:
    row = transaction.fetch_one(INSERT_MESSAGE, parameters)
    if row is not None:
        return StoredMessage(row[0], True, row[1])
    row = transaction.fetch_one(SELECT_BY_ORIGIN, parameters)
    if row is None:
        raise ConversationGoneError("the message belongs to a conversation that is gone")
    return StoredMessage(row[0], False, row[1])


def _history_message(*row: Any) -> HistoryMessage:
    id_, role, content, position, asks, sender_id, is_open, *voice = row
    message = HistoryMessage(id=id_, role=role, content=content, position=position)
    message.update({"asks": asks, "sender_id": sender_id, "is_open": is_open})
    message["voice"] = Voice(*voice)
    return message


def past_message(*row: Any) -> PastMessage:
    """Build a ``PastMessage`` from a row of ``SELECT_MESSAGES``."""
    id_, position, role, text, said_at, *voice = row
    return PastMessage(id_, position, role, text, said_at, Voice(*voice))


_lock = threading.Lock()
_repository: ConversationRepository | None = None
_factory: Callable[[], ConversationRepository] | None = None


def set_conversation_repo_factory(factory: Callable[[], ConversationRepository] | None) -> None:
    """Set the factory with which ``get_conversation_repo`` creates its instance."""
    global _factory, _repository
    with _lock:
        _factory, _repository = factory, None


def get_conversation_repo() -> ConversationRepository:
    """Return the repository of this process, created at the first call.

    For scripts and the interactive shell; the bot's own code is handed the object.

    Raises:
        AppError: No factory is set.
    """
    global _repository
    with _lock:
        if _repository is None:
            if _factory is None:
                raise AppError("call set_conversation_repo_factory first")
            _repository = _factory()
        return _repository
