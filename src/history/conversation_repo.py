"""Conversations and their messages."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, cast
from uuid import UUID

from src.base.errors import AppError, ConversationGoneError
from src.base.owners import Owner
from src.pg.client import PreparedStatement, Repository, Transaction, storable
from src.pg.connection import PATIENT
from src.reading.voices import TYPED, Voice

Role = Literal["user", "assistant", "tool", "system"]
FOREIGN_KEY_VIOLATION = "23503"
MAX_PARTING = 200  # messages that /new leaves to be read: as many as extraction reads at once
MAX_HOLDS = 5  # attempts to keep a conversation that others delete meanwhile
ASKED_MINUTES = 10  # for so long an answer to a question of the bot's counts


class HistoryMessage(TypedDict):
    """One message as the graph's state holds it; ``position`` counts from 1.

    ``asks`` is what the bot asked with it, as long as an answer to it counts. ``voice`` says whose
    words it holds, and whether they are to be remembered nowhere else, ``sender_id`` who sent it,
    ``is_open`` whether nobody stopped its answer, or gave it up.
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
    """A message of the history, for summaries and extraction.

    Attributes:
        id: Its number.
        position: Its number within the conversation.
        role: ``user`` or ``assistant``.
        text: Without the time label.
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
    """A message's id and conversation, and whether it was stored just now or had been before."""

    id: int
    is_new: bool
    conversation_id: UUID


@dataclass(frozen=True)
class Written:
    """A message of a user beside another one; empty where there is none.

    Attributes:
        id: Its number.
        text: What it says, without the time label.
        telegram_message_id: Telegram's number of it, if it came from there.
    """

    id: int = 0
    text: str = field(default="", repr=False)
    telegram_message_id: int | None = None


@dataclass(frozen=True)
class TelegramOrigin:
    """Where in Telegram a user message came from; makes it unique.

    Attributes:
        bot_id: The bot that received it.
        chat_id: The chat in which it was written.
        message_id: Telegram's number of it within that chat.
        sender_id: Who sent it.
        author_id: Who wrote it, when it is forwarded: a person, a group or a channel.
        mentions: Ids of people whom the text mentions without a user name, and what it calls them.
        update: The row id of the stored update that brought it. The message is stored only while
            that one waits: an erasure that deletes it in the middle of a turn is final.
        revision: Of that update, as it was read: one that was changed since is to be read again.
        job: That handles the update, and ends with it.
        file_id: Of a picture that is described: under which Telegram gives it to the bot.
    """

    bot_id: int
    chat_id: int
    message_id: int
    sender_id: int
    author_id: int | None = None
    mentions: tuple[tuple[int, str], ...] = ()
    update: int | None = None
    revision: int = 0
    job: int | None = None
    file_id: str | None = None

    def columns(self) -> dict[str, Any]:
        """The parameters of the statements that store a message."""
        mentions = [{"id": user, "name": storable(name)} for user, name in self.mentions]
        return {
            **vars(self),
            "mentions": json.dumps(mentions, ensure_ascii=False) if mentions else None,
        }


NO_ORIGIN = dict.fromkeys(TelegramOrigin.__dataclass_fields__)


# The owner's current conversation.
SELECT_CONVERSATION = """
SELECT id FROM conversations
WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s
ORDER BY created_at DESC, id LIMIT 1
"""

# The same, which nobody deletes before the transaction ends.
HOLD_CONVERSATION = SELECT_CONVERSATION + "FOR KEY SHARE"

# A first conversation; of two made at once the constraint keeps one.
INSERT_CONVERSATION = """
INSERT INTO conversations (owner_id, telegram_user_id, thread_id)
VALUES (add_owner(%(user)s, %(thread_id)s), %(user)s, %(thread_id)s)
ON CONFLICT ON CONSTRAINT conversations_one_per_owner DO NOTHING
RETURNING id
"""

# Everything that hangs on the owner's conversations goes with them.
DELETE_CONVERSATIONS = """
DELETE FROM conversations
WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s
"""

# A message, once per Telegram message: a second time no row comes back. It waits for the search,
# unless it is private.
INSERT_MESSAGE = """
WITH stored AS (
    INSERT INTO messages (conversation_id, role, content, position, said_at, bot_id, chat_id,
                          telegram_message_id, sender_id, author_id, mentions, is_private,
                          provenance, speaker, origin, quoted, quoted_author_id, file_id)
    SELECT c.id, %(role)s, %(content)s,
           1 + greatest(c.last_position, (SELECT max(position) FROM messages
                                          WHERE conversation_id = c.id)),
           coalesce(%(said_at)s, now()), %(bot_id)s, %(chat_id)s, %(message_id)s, %(sender_id)s,
           %(author_id)s, %(mentions)s, %(is_private)s, %(provenance)s, %(speaker)s, %(origin)s,
           %(quoted)s, %(quoted_author_id)s, %(file_id)s
    FROM conversations c
    WHERE c.id = %(conversation_id)s
    ON CONFLICT (bot_id, chat_id, telegram_message_id) WHERE telegram_message_id IS NOT NULL
    DO NOTHING
    RETURNING id, conversation_id, role, is_private
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM stored
    WHERE role IN ('user', 'assistant') AND NOT is_private
)
SELECT id, conversation_id FROM stored
"""

# The same for the owner's current conversation, which nobody deletes before the transaction ends.
INSERT_IN_CURRENT = PreparedStatement(
    INSERT_MESSAGE.replace(
        "FROM conversations c\n    WHERE c.id = %(conversation_id)s",
        f"FROM conversations c JOIN ({HOLD_CONVERSATION}) AS held ON held.id = c.id",
    ),
)

# The message that was stored earlier for the same Telegram message, if it is still there.
SELECT_BY_ORIGIN = """
SELECT m.id, m.conversation_id FROM messages m
WHERE m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s AND m.conversation_id = %(conversation_id)s
"""

# What was stored for a Telegram message.
SELECT_TEXT = """
SELECT message_text(m.content)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.bot_id = %(bot_id)s AND m.chat_id = %(chat_id)s
  AND m.telegram_message_id = %(message_id)s AND c.owner_id = %(owner)s
"""

# What the writer of a message, that is or will be stored, wrote in the minutes before it.
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

# The newest messages of a conversation that the user did not ask to forget.
SELECT_LAST_MESSAGES = PreparedStatement("""
SELECT id, role, content, position,
       CASE WHEN asks = 'conflict'  -- which waits for days
              OR created_at > now() - make_interval(mins => %(asked_minutes)s) THEN asks END,
       sender_id, stopped_at IS NULL AND failed_at IS NULL,
       provenance, speaker, origin, quoted, quoted_author_id, is_private
FROM messages
WHERE conversation_id = %(conversation_id)s AND NOT is_forgotten
ORDER BY created_at DESC, id DESC LIMIT %(limit)s
""")

# The position of the newest message.
SELECT_LAST_POSITION = """
SELECT coalesce(max(position), 0) FROM messages WHERE conversation_id = %(conversation_id)s
"""

# What was said between two positions, without what the user wants forgotten.
SELECT_MESSAGES = """
SELECT id, position, role, message_text(content), said_at,
       provenance, speaker, origin, quoted, quoted_author_id
FROM messages
WHERE conversation_id = %(conversation_id)s AND position BETWEEN %(first)s AND %(last)s
  AND role IN ('user', 'assistant') AND NOT is_forgotten AND NOT is_private
ORDER BY position, id LIMIT 1000
"""

# Typed messages that were not read for facts yet, before they are deleted; disputed ones stay out,
# since the background would decide without the user.
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

# Empties a conversation and keeps it; positions start again, so nothing of them is digested.
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
    """Stores conversations and messages; every method blocks (see ``PgClient.run``)."""

    def get_or_create_conversation(self, telegram_user_id: int, *, thread_id: int = 0) -> UUID:
        """The id of the owner's current conversation, which is made when there is none.

        Args:
            telegram_user_id: The person, or the negative chat id of a group.
            thread_id: The topic of a forum group, else 0.
        """
        owner = Owner(telegram_user_id, thread_id)
        return self._client.in_transaction(lambda t: self.hold_conversation(t, owner))

    def find_conversation(self, owner: Owner) -> UUID | None:
        """The owner's conversation; None when there is none yet."""
        return self._first(lambda id_: id_, SELECT_CONVERSATION, owner)

    def hold_conversation(self, transaction: Transaction, owner: Owner) -> UUID:
        """The same, and nobody deletes it before the transaction ends.

        Raises:
            ConversationGoneError: It is deleted as often as it is made.
        """
        for _ in range(MAX_HOLDS):
            for statement in (HOLD_CONVERSATION, INSERT_CONVERSATION):
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
        return self._client.in_transaction(lambda t: _store(t, parameters)).id

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

        The conversation is made when there is none, and stays until the transaction ends. NUL
        bytes and lone surrogates, which PostgreSQL cannot hold, become U+FFFD. A message with an
        ``origin`` that is stored already is not stored again. ``said_at`` is when it was written,
        by default now. ``voice`` says whose words it holds, and whether they are private, so that
        nothing else remembers them.

        Raises:
            ConversationGoneError: The message stands in a conversation that is gone.
        """
        parameters = _parameters(None, "user", content, origin, said_at) | vars(voice)
        if row := transaction.fetch_one(INSERT_IN_CURRENT, parameters | owner.columns()):
            return StoredMessage(row[0], True, row[1])
        conversation_id = self.hold_conversation(transaction, owner)
        return _store(transaction, parameters | {"conversation_id": conversation_id})

    def find_text(self, owner: Owner, origin: TelegramOrigin) -> str | None:
        """What an earlier attempt stored for a Telegram message; None when nothing."""
        return self._first(str, SELECT_TEXT, owner, **origin.columns())

    def find_text_before(
        self, owner: Owner, origin: TelegramOrigin | None, moment: datetime
    ) -> Written:
        """What its writer wrote in the ten minutes before, or nothing."""
        columns = origin.columns() if origin else NO_ORIGIN
        found = self._first(Written, SELECT_TEXT_BEFORE, owner, **columns, moment=moment)
        return found or Written()

    def load_last_messages(self, conversation_id: UUID, limit: int = 30) -> list[HistoryMessage]:
        """The newest ``limit`` messages, in order ``created_at ASC, id ASC``."""
        return self._all(
            _history_message, SELECT_LAST_MESSAGES, asked_minutes=ASKED_MINUTES,
            conversation_id=conversation_id, limit=max(0, limit),
        )[::-1]  # fmt: skip

    def get_last_position(self, conversation_id: UUID) -> int:
        """The position of the newest message; 0 when there is none."""
        return self._first(int, SELECT_LAST_POSITION, conversation_id=conversation_id) or 0

    def list_messages(self, conversation_id: UUID, first: int, last: int) -> list[PastMessage]:
        """What user and assistant said from position ``first`` to ``last``."""
        place = {"conversation_id": conversation_id, "first": first, "last": last}
        return self._all(past_message, SELECT_MESSAGES, place)

    def create_new_conversation(
        self, telegram_user_id: int, *, thread_id: int = 0, keep_unread: bool = False
    ) -> UUID:
        """Delete the owner's conversations with all that hangs on them; start a new one.

        Args:
            telegram_user_id: The owner.
            thread_id: The topic of a forum group, else 0.
            keep_unread: Whether what was not read for facts yet is kept for that, some minutes.

        Returns:
            The new conversation's id.
        """
        owner = Owner(telegram_user_id, thread_id)

        def replace(transaction: Transaction) -> UUID:
            if keep_unread:
                transaction.execute(KEEP_UNREAD, owner, limit=MAX_PARTING)
            transaction.execute(DELETE_CONVERSATIONS, owner)
            row = transaction.fetch_one(INSERT_CONVERSATION, owner)
            return row[0] if row else self.hold_conversation(transaction, owner)

        return self._client.in_transaction(replace, limits=PATIENT)

    def clear_conversation_messages(self, conversation_id: UUID) -> int:
        """Delete the conversation's messages, keep the conversation; returns how many went."""
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
    return {**message, "said_at": said_at, **(origin.columns() if origin else NO_ORIGIN)}


def _store(transaction: Transaction, parameters: dict[str, object]) -> StoredMessage:
    """See ``ConversationRepository.store_message``."""
    if row := transaction.fetch_one(INSERT_MESSAGE, parameters):
        return StoredMessage(row[0], True, row[1])
    row = transaction.fetch_one(SELECT_BY_ORIGIN, parameters)
    if row is None:
        raise ConversationGoneError("the message belongs to a conversation that is gone")
    return StoredMessage(row[0], False, row[1])


def _history_message(*row: Any) -> HistoryMessage:
    id_, role, content, position, asks, sender_id, is_open, *voice = row
    return HistoryMessage(
        id=id_, role=role, content=content, position=position, asks=asks, sender_id=sender_id,
        is_open=is_open, voice=Voice(*voice),
    )  # fmt: skip


def past_message(*row: Any) -> PastMessage:
    """A row of ``SELECT_MESSAGES``."""
    id_, position, role, text, said_at, *voice = row
    return PastMessage(id_, position, role, text, said_at, Voice(*voice))


_lock = threading.Lock()
_repository: ConversationRepository | None = None
_factory: Callable[[], ConversationRepository] | None = None


def set_conversation_repo_factory(factory: Callable[[], ConversationRepository] | None) -> None:
    """Say how ``get_conversation_repo`` makes its one instance."""
    global _factory, _repository
    with _lock:
        _factory, _repository = factory, None


def get_conversation_repo() -> ConversationRepository:
    """The one repository of this process, made at the first call.

    Our own code is handed the object; this is for scripts and the interactive shell.

    Raises:
        AppError: Nobody has said yet how to make it.
    """
    global _repository
    with _lock:
        if _repository is None:
            if _factory is None:
                raise AppError("call set_conversation_repo_factory first")
            _repository = _factory()
        return _repository
