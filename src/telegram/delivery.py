"""Sending answers: formatted, split, plain when the formatting is refused, and to the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramMigrateToChat
from aiogram.types import InlineKeyboardMarkup, MessageEntity, ReplyParameters
from telegramify_markdown import split_entities, telegramify
from telegramify_markdown.content import Text

from src.errors import DeliveryError, DeliveryUnknownError
from src.telegram.errors import (
    delivery_error,
    is_edit_gone,
    is_not_modified,
    is_unparsable,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_UTF16 = 4096  # UTF-16 code units of one message
SEND_TIMEOUT = 30  # seconds
QUICK_RETRIES = 3  # at once, for what certainly did not arrive
SHORT_WAIT = 5.0  # seconds of retry_after that are waited for on the spot
# How Telegram says (as 400) that the message to reply to is gone; the words changed over time.
REPLY_GONE = (
    "message to be replied not found",
    "replied message not found",
    "reply message not found",
)


@dataclass(frozen=True)
class Address:
    """Where an answer goes.

    Attributes:
        chat_id: The chat.
        thread_id: The topic, or 0.
        reply_to: The message that is answered, quoted in groups; None in private chats.
    """

    chat_id: int
    thread_id: int = 0
    reply_to: int | None = None


@dataclass(frozen=True)
class Part:
    """One Telegram message of an answer.

    Attributes:
        text: At most 4096 UTF-16 units.
        entities: Its formatting.
        keyboard: The buttons under it.
    """

    text: str
    entities: list[MessageEntity]
    keyboard: InlineKeyboardMarkup | None = None


async def render(markdown: str) -> list[Part]:
    """An answer as Telegram messages: Markdown to entities first, split second."""
    segments = await telegramify(
        markdown, max_message_length=MAX_UTF16, render_mermaid=False, min_file_lines=0
    )
    return [
        Part(segment.text, to_entities(segment.entities))
        for segment in segments
        if isinstance(segment, Text) and segment.text.strip()
    ]


def to_entities(entities: Sequence[Any]) -> list[MessageEntity]:
    """Telegramify's entities as aiogram's."""
    return [MessageEntity(**entity.to_dict()) for entity in entities]


class Delivery:
    """Sends answers of a bot."""

    def __init__(self, bot: Bot, on_migration: Callable[[int, int], Awaitable[None]]) -> None:
        """Send through ``bot``; ``on_migration(old, new)`` learns of groups that moved."""
        self._bot = bot
        self._on_migration = on_migration

    async def send_answer(
        self,
        address: Address,
        markdown: str,
        *,
        keyboard: InlineKeyboardMarkup | None = None,
        skip: int = 0,
        edit: int | None = None,
        on_part: Callable[[int], Awaitable[None]] | None = None,
    ) -> int:
        """Send a whole answer, in as many messages as it needs.

        Args:
            address: Where to.
            markdown: What.
            keyboard: Buttons for the last of its messages.
            skip: How many of its messages have arrived already.
            edit: A message that shows the beginning of the answer and becomes its first part.
            on_part: Called with the number of messages that have arrived, while more follow.

        Returns:
            How many messages it took.

        Raises:
            DeliveryError: It did not arrive; worth another try.
            DeliveryUnknownError: It may have arrived.
            ChatUnavailableError: Nothing can be sent to this chat.
        """
        parts = await render(markdown) or [Part(markdown.strip()[:MAX_UTF16] or "…", [])]
        parts[-1] = replace(parts[-1], keyboard=keyboard)
        for number, part in enumerate(parts[skip:], start=skip):
            if number == 0 and edit is not None:
                await self._edit(address, edit, part)
            else:
                await self._send_part(address, part)
            if on_part is not None and number + 1 < len(parts):
                await on_part(number + 1)
        return len(parts)

    async def send_text(self, address: Address, text: str) -> None:
        """Send a sentence of our own as it stands."""
        for chunk, _ in split_entities(text, [], MAX_UTF16):
            await self._send_part(address, Part(chunk, []))

    async def send_reply(self, address: Address, text: str) -> bool:
        """Send a sentence of our own as a reply to ``address.reply_to``, or not at all.

        Returns:
            False, with nothing sent, when that message is gone.
        """
        part = Part(text, [])
        try:
            await _with_quick_retries(lambda: self._send(address, part, must_reply=True))
        except TelegramMigrateToChat:
            return False  # it stayed in the old group
        except AiogramError as error:
            if _is_reply_gone(error):
                return False
            raise delivery_error(error) from error
        return True

    async def _edit(self, address: Address, message_id: int, part: Part) -> None:
        async def edit(shown: Part) -> None:
            await self._bot.edit_message_text(
                text=shown.text,
                chat_id=address.chat_id,
                message_id=message_id,
                entities=shown.entities or None,
                reply_markup=shown.keyboard,
                request_timeout=SEND_TIMEOUT,
            )

        try:
            await self._formatted_or_plain(edit, part)
        except TelegramMigrateToChat:
            await self._send_part(address, part)  # which learns of the move, and follows
        except AiogramError as error:
            if is_not_modified(error):
                return
            if is_edit_gone(error):
                await self._send_part(address, part)
                return
            raise delivery_error(error) from error

    async def _send_part(self, address: Address, part: Part) -> None:
        try:
            await self._formatted_or_plain(lambda shown: self._send(address, shown), part)
        except TelegramMigrateToChat as error:
            await self._on_migration(address.chat_id, error.migrate_to_chat_id)
            moved = Address(error.migrate_to_chat_id, address.thread_id)
            await self._send_part(moved, part)
        except AiogramError as error:
            raise delivery_error(error) from error

    async def _send(self, address: Address, part: Part, *, must_reply: bool = False) -> None:
        await self._bot.send_message(
            chat_id=address.chat_id,
            text=part.text,
            message_thread_id=address.thread_id or None,
            entities=part.entities or None,
            reply_markup=part.keyboard,
            reply_parameters=_reply(address, must_reply=must_reply),
            request_timeout=SEND_TIMEOUT,
        )

    async def _formatted_or_plain(
        self, send: Callable[[Part], Awaitable[None]], part: Part
    ) -> None:
        try:
            await _with_quick_retries(lambda: send(part))
        except AiogramError as error:
            if not (part.entities and is_unparsable(error)):
                raise
            logger.warning("Telegram refused the formatting; sending plain text")
            await _with_quick_retries(lambda: send(replace(part, entities=[])))


async def _with_quick_retries(send: Callable[[], Awaitable[T]]) -> T:
    """Try again at once what certainly did not arrive; everything else is the queue's."""
    for attempt in range(QUICK_RETRIES + 1):
        try:
            return await send()
        except TelegramMigrateToChat:
            raise
        except AiogramError as error:
            ours = delivery_error(error)
            certain = isinstance(ours, DeliveryError) and not isinstance(
                ours, DeliveryUnknownError
            )
            wait = ours.retry_after if ours.retry_after is not None else 0.2 * 2**attempt
            if not certain or attempt == QUICK_RETRIES or wait > SHORT_WAIT:
                raise
            await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _reply(address: Address, *, must_reply: bool) -> ReplyParameters | None:
    if address.reply_to is None:
        return None
    return ReplyParameters(
        message_id=address.reply_to,
        chat_id=address.chat_id if must_reply else None,
        allow_sending_without_reply=not must_reply,
    )


def _is_reply_gone(error: AiogramError) -> bool:
    if not isinstance(error, TelegramBadRequest):
        return False
    return any(words in error.message.lower() for words in REPLY_GONE)
