"""Facts as the database gives them, and as it takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from src.facts.fact import Fact, Origin, fact_number


@dataclass(frozen=True)
class Memory:
    """A fact.

    Attributes:
        id: Its number.
        text: What it says, in the user's language.
        memory_type: One of ``MEMORY_TYPES``.
        subject: Whom it is about, canonical: ``user``, ``brother``, a name.
        relation: Canonical: ``lives_in``.
        object: As it was said.
        importance: 1 to 10.
        pinned: Whether the user wants it always in view.
        valid_from: Since when it holds in the world, if known.
        valid_until: Until when.
        retired_at: Since when it is not believed any more.
        uid: ``msg-<id>`` of its newest source.
        said_at: When that was said.
        message_id: That message, if it is still there.
        quote: Its exact words.
        speaker_id: In a group, the member who told it, and whom "user" means in it.
        speaker: What he is called.
    """

    id: int
    text: str
    memory_type: str
    subject: str
    relation: str
    object: str
    importance: int
    pinned: bool
    valid_from: datetime | None
    valid_until: datetime | None
    retired_at: datetime | None
    uid: str
    said_at: datetime
    message_id: int | None
    quote: str | None = None
    speaker_id: int | None = None
    speaker: str | None = None


def memory_query(sql: str) -> str:
    """A statement on the view ``facts f``; ``{memory}`` are a Memory's columns.

    The view calls them what the class does.
    """
    return sql.replace("{memory}", ", ".join(f"f.{field.name}" for field in fields(Memory)))


@dataclass(frozen=True)
class Telling:
    """A message that tells a fact, as it is stored now.

    Attributes:
        text: Without the time label.
        is_own: Whether the sender typed it himself.
        speaker_id: Who he is, in a group.
        speaker: What he is called there.
        is_disputed: Whether he is, or was, asked what it is to replace.
    """

    text: str
    is_own: bool
    speaker_id: int | None = None
    speaker: str | None = None
    is_disputed: bool = False


@dataclass(frozen=True)
class Similar:
    """A fact that a new one might repeat or replace."""

    memory: Memory
    content_hash: str
    cosine: float | None


@dataclass(frozen=True)
class Source:
    """Where a fact was said: the message, its exact words, and when."""

    message_id: int
    quote: str
    said_at: datetime

    @property
    def uid(self) -> str:
        """The name of the message in references."""
        return f"msg-{self.message_id}"

    @property
    def episode(self) -> str:
        """The name of the teaching."""
        return f"teach_{self.uid}"


@dataclass(frozen=True)
class SourceMessage:
    """Where something was said.

    Attributes:
        text: The message, or the quote when the message is gone.
        said_at: When.
        chat_id: With ``telegram_message_id``: where the message stands in Telegram, if it is
            still known.
        telegram_message_id: See ``chat_id``.
        bot_id: The bot that numbered it so.
        is_bots: Whether the bot said it.
    """

    text: str
    said_at: datetime
    chat_id: int | None = None
    telegram_message_id: int | None = None
    bot_id: int | None = None
    is_bots: bool = False


@dataclass(frozen=True)
class NewMemory:
    """A fact to store, its subject and relation canonical, and what the row has beside it.

    Attributes:
        fact: The fact.
        language: Of its text.
        origin: What kind of call stores it.
        content_hash: Of its text.
        source: Where it was said.
        terms: Its search terms.
        vector: Its embedding, if there is one yet.
        entities: (name, normalised name) of whom and what it is about.
        speaker_id: See ``Memory``.
        speaker: See ``Memory``.
    """

    fact: Fact
    language: str
    origin: Origin
    content_hash: str
    source: Source
    terms: Sequence[str]
    vector: str | None = None
    entities: Sequence[tuple[str, str]] = ()
    speaker_id: int | None = None
    speaker: str | None = None


def message_number(uid: str) -> int | None:
    """12 for ``msg-12``; None for anything else."""
    return fact_number(uid, "msg-")
