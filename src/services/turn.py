"""A turn: the message that is answered, what is loaded with it, and who shows its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from src.gate.voices import TYPED, Voice
from src.media.attachments import Enclosed
from src.storage.conversation_repo import HistoryMessage, TelegramOrigin
from src.storage.owner import Owner
from src.storage.turn_repo import StoredAnswer
from src.storage.update_repo import UpdateKind
from src.storage.user_settings_repo import AnswerLength, Mode
from src.texts import Language

# No sender, a channel's post, an anonymous admin: Telegram's ids of those who are nobody.
CHAT_VOICES = frozenset({0, 777000, 1087968824})


@dataclass(frozen=True)
class Teaching:
    """That a message is to be remembered as it stands, without a model.

    Attributes:
        corrects: The fact that it takes the place of.
    """

    corrects: int | None = None


@dataclass(frozen=True)
class IncomingMessage:
    """A message to answer.

    Attributes:
        owner: Whose memory it is: the person's, or the group and topic's.
        text: What was written.
        moment: When (aware).
        language: For the sentences that the bot says itself.
        time_zone: The owner's zone.
        mode: ``assistant`` or ``strict``.
        origin: Where in Telegram it stands; None in the console.
        voice: Whose words it holds.
        newer: What was known to wait behind it, and will be answered instead of it.
        teaching: Where it is to be remembered as it stands; then it is answered for itself.
        enclosed: What was read out of its attachment.
        heard: What was heard in it, to be shown with the answer.
        answer_length: How long the user wants answers.
        memory_on: Whether anything is remembered, and recalled.
        problem: A sentence about its attachment, to be shown under the answer.
    """

    owner: Owner
    text: str
    moment: datetime
    language: Language
    time_zone: str
    mode: Mode = "assistant"
    origin: TelegramOrigin | None = None
    voice: Voice = TYPED
    newer: UpdateKind | None = None
    teaching: Teaching | None = None
    enclosed: Enclosed | None = None
    heard: str = ""
    problem: str = ""
    answer_length: AnswerLength = "normal"
    memory_on: bool = True

    @property
    def speaker_id(self) -> int | None:
        """Who says "I", where the owner is a group."""
        return self.origin.sender_id if self.origin and self.owner.is_group else None

    @property
    def sender_id(self) -> int:
        """Who wrote it; the chat, where one writes in the chat's name."""
        sender = self.origin.sender_id if self.origin else 0
        return self.owner.telegram_user_id if sender in CHAT_VOICES else sender

    @property
    def update(self) -> int | None:
        """The row id of the stored update that brought it."""
        return self.origin.update if self.origin else None


@dataclass(frozen=True)
class Turn:
    """A stored message that waits for its answer, or has it already (after a crash).

    Attributes:
        incoming: The message.
        conversation_id: Where it is stored.
        message_id: Its id there.
        is_new: Whether it was stored just now, so that this is the first attempt.
        newer: What waits behind it and is answered instead of it, with it in the history.
        is_ended: Whether /new or /stop waits behind it.
        history: The last 30 messages, oldest first, this one last.
        window_start: Position of the first message that the model sees.
        summaries: Of what lies before it, oldest first.
        answer: Its answer, when an earlier attempt got that far.
        shown_in: Telegram's number of the message in which an earlier attempt began to show it.
        is_private: Whether it says that it shall not be remembered.
    """

    incoming: IncomingMessage
    conversation_id: UUID
    message_id: int
    is_new: bool = True
    newer: UpdateKind | None = None
    is_ended: bool = False
    history: tuple[HistoryMessage, ...] = ()
    window_start: int = 1
    summaries: tuple[str, ...] = ()
    answer: StoredAnswer | None = None
    shown_in: int | None = None
    is_private: bool = False


class AnswerView(Protocol):
    """Where one answer appears: a chat in Telegram, or the console."""

    sent_ids: list[int]  # of the Telegram messages that show the answer, as they arrive

    async def open(self, turn: Turn, on_message: Callable[[int], Awaitable[None]]) -> None:
        """The model begins.

        Args:
            turn: What is answered.
            on_message: To be told the number of the message that shows the beginning, if any.
        """

    def feed(self, text: str) -> None:
        """The next piece of the answer."""

    async def close(self) -> None:
        """The model has ended; nothing of the beginning is shown any more when this returns."""

    async def deliver(
        self, turn: Turn, answer: StoredAnswer, on_part: Callable[[int], Awaitable[None]]
    ) -> int:
        """Show the answer for good, except for the parts that have arrived already.

        Args:
            turn: What is answered.
            answer: The answer.
            on_part: To be told how many parts have arrived, after each but the last.

        Returns:
            How many parts it took.

        Raises:
            DeliveryError: Worth another try; what has arrived is not sent again then.
        """
