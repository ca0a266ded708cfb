"""Whose words a Telegram message holds: what is forwarded, quoted, or of another bot."""

from __future__ import annotations

from aiogram.types import (
    Chat,
    ExternalReplyInfo,
    Message,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
)
from aiogram.types.message_origin_union import MessageOriginUnion

from src.reading.voices import Provenance, Voice, clean_name, clean_quote


def read_voice(message: Message) -> Voice:
    """Whose words the text of a message is, what the sender is called, and what he replies to."""
    provenance: Provenance = "typed"
    origin = None
    if message.forward_origin is not None:
        provenance, origin = "forwarded", name_of(message.forward_origin)
    elif message.via_bot is not None:
        provenance, origin = "bot", message.via_bot.full_name
    quoted, author = _quoted(message)
    is_group = message.chat.type != "private"
    return Voice(
        provenance=provenance,
        speaker=clean_name(_sender(message)) if is_group else None,
        origin=clean_name(origin),
        quoted=clean_quote(quoted),
        quoted_author_id=author if quoted else None,
    )


def author_of(origin: MessageOriginUnion | None) -> int | None:
    """Who wrote a forwarded message, unless he hides it."""
    if isinstance(origin, MessageOriginUser):
        return origin.sender_user.id
    if isinstance(origin, MessageOriginChat):
        return origin.sender_chat.id
    return origin.chat.id if isinstance(origin, MessageOriginChannel) else None


def name_of(origin: MessageOriginUnion) -> str | None:
    """What he is called."""
    if isinstance(origin, MessageOriginUser):
        return origin.sender_user.full_name
    if isinstance(origin, MessageOriginHiddenUser):
        return origin.sender_user_name
    return _title(origin.sender_chat if isinstance(origin, MessageOriginChat) else origin.chat)


def _sender(message: Message) -> str | None:
    """What the sender is called; an anonymous admin writes as his group."""
    if message.sender_chat is not None:
        return _title(message.sender_chat)
    return message.from_user.full_name if message.from_user else None


def _quoted(message: Message) -> tuple[str | None, int | None]:
    """The words to which a message replies, and who wrote them: the part that he chose, or all."""
    replied: Message | ExternalReplyInfo | None = message.external_reply
    text, author = None, None
    if isinstance(message.reply_to_message, Message):
        replied = message.reply_to_message
        text = replied.text or replied.caption
        author = replied.from_user.id if replied.from_user else None
        author = author_of(replied.forward_origin) or author
    elif replied is not None:
        author = author_of(message.external_reply.origin if message.external_reply else None)
    return (message.quote.text if message.quote else text), author


def _title(chat: Chat) -> str | None:
    return chat.title or chat.full_name
