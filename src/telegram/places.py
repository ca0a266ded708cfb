"""Places of messages: what each refusal of Telegram means, and where a message goes instead."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from aiogram import exceptions

from src.base import errors
from src.base.owners import Caller
from src.texts import Language, say

Scope = Literal["reply", "topic", "chat", "everywhere"]


@dataclass(frozen=True)
class Refusal:
    """Meaning of a refusal.

    Attributes:
        scope: What it concerns. ``reply``: the message replied to, so the message goes without
            it. ``topic``: only this topic; the message goes to the general one, else to the person
            in private. ``chat``: this chat, in which the bot may not write now; the message goes
            to the person in private, and the next one is tried here again. ``everywhere``: the
            chat or the person is gone until they write again; nothing goes there any more.
        reason: Key of the words that say why a message comes elsewhere in its chat; in private
            it ends in ``_group``.
        phrases: Parts of Telegram's descriptions that have this meaning, in lower case.
    """

    scope: Scope
    reason: str
    phrases: tuple[str, ...]


REFUSALS = (
    Refusal("reply", "", (
        "message to be replied not found", "replied message not found", "reply message not found",
        "message to reply not found", "reply_message_id_invalid", "reply_to_invalid",
    )),
    Refusal("topic", "place_closed", ("topic_closed", "topic closed", "topic is closed")),
    Refusal("topic", "place_gone", (
        "topic_deleted", "topic deleted", "topic was deleted", "topic_id_invalid",
        "topic not found", "thread not found", "thread_invalid", "message_thread_id_invalid",
        "invalid message thread", "invalid message_thread_id", "chat is not a forum",
    )),
    Refusal("chat", "place_mute", (
        "not enough rights", "have no rights to send", "chat_write_forbidden", "chat_restricted",
        "chat_send_", "chat_guest_send_forbidden", "user_restricted", "user_banned_in_channel",
        "chat_admin_required", "administrator rights",
    )),
    Refusal("everywhere", "", (
        "chat not found", "user not found", "user is deactivated", "user_deactivated",
        "user_is_deactivated", "bot was blocked", "blocked by the user", "user_is_blocked",
        "you_blocked_user", "bot was kicked", "bot is not a member", "chat was deactivated",
        "chat was deleted", "can't initiate conversation", "can't send messages to",
        "chat_forbidden", "channel_private", "channel_invalid",
        "chat_id_invalid", "peer_id_invalid", "user_id_invalid",
    )),
)  # fmt: skip
SLOW_MODE = re.compile(r"slowmode_wait_(\d+)")
# Buttons whose record is found wherever they are pressed (``RecordRepository``); of a message that
# goes to another chat the others would act on what is there.
ACT_ANYWHERE = frozenset({"later", "done", "norepeat"})


def find_refusal(error: BaseException | None) -> Refusal | None:
    """Return the meaning of Telegram's 400 or 403; None if it concerns only this message."""
    return next((one for one in REFUSALS if is_refusal(error, *one.phrases)), None)


def is_refusal(error: BaseException | None, *phrases: str) -> bool:
    """Return True for a 400 or 403 whose description has one of the phrases (in lower case)."""
    if not isinstance(error, exceptions.TelegramBadRequest | exceptions.TelegramForbiddenError):
        return False
    return any(phrase in str(error).lower() for phrase in phrases)


def refusal_error(error: Exception) -> errors.AppError:
    """Convert Telegram's refusal to our error."""
    name, slow = type(error).__name__, SLOW_MODE.search(str(error).lower())
    if slow is not None:
        delayed = errors.DeliveryError(f"slow mode asks to wait {slow[1]} s")
        delayed.retry_after = float(slow[1])
        return delayed
    refusal = find_refusal(error)
    if refusal is None or refusal.scope == "reply":
        return errors.DeliveryRefusedError(f"Telegram refused a message ({name})")
    if refusal.scope == "everywhere":
        return errors.ChatUnavailableError(f"nothing can be sent to this chat ({name})")
    return errors.PlaceLostError(refusal.scope, refusal.reason)


@dataclass(frozen=True)
class Address:
    """Destination of an answer.

    Attributes:
        chat_id: The chat.
        thread_id: The topic, or 0.
        reply_to: Message to reply to, in groups; None in private chats.
        person: In a group, the member for whom it is; they get it in private if the group cannot.
        language: Language of the words that say why it comes elsewhere.
    """

    chat_id: int
    thread_id: int = 0
    reply_to: int | None = None
    person: int | None = None
    language: Language = "en"

    @classmethod
    def of(cls, caller: Caller, reply_to: int | None = None) -> Self:
        """Return the address of a caller: their chat and topic."""
        return cls(*caller.owner, reply_to, caller.asker, caller.language)

    @property
    def private_chat(self) -> int | None:
        """The private chat of a group's member; None for one who writes as a channel or group."""
        if self.chat_id < 0 and self.person is not None and self.person > 0:
            return self.person
        return None

    @property
    def chat_fields(self) -> dict[str, Any]:
        """Chat and topic as arguments of Telegram's methods."""
        return {"chat_id": self.chat_id, "message_thread_id": self.thread_id or None}


class Route:
    """Way of one answer: to its address, or to the next place that takes it.

    Attributes:
        address: Where it goes now.
        lost: The first place of the way that took nothing, if any.
        is_told: True if a message has arrived here, with the words that say why it comes here.
        has_migrated: True if its group became a supergroup meanwhile.
    """

    def __init__(self, address: Address) -> None:
        """Start at ``address``."""
        self.address = address
        self.lost: errors.PlaceLostError | None = None
        self.is_told = self.has_migrated = False
        self._chat_id = address.chat_id

    @property
    def is_elsewhere(self) -> bool:
        """True if it goes to another chat than meant."""
        return self.address.chat_id != self._chat_id

    @property
    def reason(self) -> str:
        """The words that say why a message comes here, until they have arrived."""
        if self.lost is None or self.is_told:
            return ""
        ending = ""
        if self.is_elsewhere:
            ending = "_group"
        return say(f"{self.lost.reason}{ending}", self.address.language)

    def leave(self, lost: errors.PlaceLostError) -> None:
        """Go on to the general topic, then to the person in private.

        Raises:
            PlaceLostError: Nothing is left; it tells of the first place of the way.
        """
        here = self.address
        if self.lost is None:
            self.lost = lost
        self.is_told = False
        if here.thread_id and lost.scope == "topic":
            self.address = replace(here, thread_id=0, reply_to=None)
        elif here.private_chat is not None:
            self.address = Address(here.private_chat, language=here.language)
        else:
            raise self.lost

    def migrate(self, chat_id: int) -> None:
        """Follow a group that became a supergroup; its old messages cannot be replied to."""
        self.address = replace(self.address, chat_id=chat_id, reply_to=None)
        self._chat_id, self.has_migrated = chat_id, True
