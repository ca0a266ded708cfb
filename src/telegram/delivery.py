"""Sending answers: formatted, split, plain when they are refused, and to the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramMigrateToChat
from aiogram.types import ForceReply, InlineKeyboardMarkup, InputFile, ReplyParameters

from src.base.errors import DeliveryError, DeliveryRefusedError, DeliveryUnknownError
from src.talk.turn import check_stopped, wait_unless_stopped
from src.telegram.errors import delivery_error, is_not_modified, is_unparsable
from src.telegram.rendering import (
    MAX_PARTS,
    MAX_UTF16,
    Part,
    Renderer,
    split_text,
    with_lead,
    with_note,
)
from src.texts.plain_text import is_visible
from src.texts.reply import ReplyFile

logger = logging.getLogger(__name__)

T = TypeVar("T")
Keyboard = InlineKeyboardMarkup | ForceReply

SEND_TIMEOUT = 30  # seconds
FILE_TIMEOUT = 300  # seconds, for 50 MB on a slow line
CHUNK = 2**16  # bytes
QUICK_RETRIES = 3  # at once, for what certainly did not arrive
SHORT_WAIT = 5.0  # seconds of retry_after that are waited for on the spot
LONG_WAIT = 300.0  # seconds; who may not edit for longer gets a new message


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
class Form:
    """What an answer looks like beside its text.

    Attributes:
        keyboard: Buttons for the last of its messages.
        max_parts: The most messages that it may take.
        ending: Says at the end of the last one that there would be more.
        note: Stands in small under all of it, as it is.
        lead: Stands in small above all of it.
    """

    keyboard: InlineKeyboardMarkup | None = None
    max_parts: int = MAX_PARTS
    ending: str = "…"
    note: str = ""
    lead: str = ""


class OpenFile(InputFile):
    """A file as aiogram sends it: read while it goes out, from its beginning each time."""

    def __init__(self, file: ReplyFile) -> None:
        """Send this one."""
        super().__init__(filename=file.name)
        self._content = file.content

    async def read(self, bot: Bot) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """The bytes, piece by piece."""
        self._content.seek(0)
        while piece := await asyncio.to_thread(self._content.read, CHUNK):
            yield piece


class Delivery:
    """Sends answers of a bot."""

    def __init__(self, bot: Bot, on_migration: Callable[[int, int], Awaitable[None]]) -> None:
        """Send through ``bot``; ``on_migration(old, new)`` learns of groups that moved."""
        self._bot = bot
        self._on_migration = on_migration
        self.renderer = Renderer()

    async def send_answer(  # noqa: PLR0913  (how far an earlier attempt got)
        self,
        address: Address,
        markdown: str,
        *,
        form: Form = Form(),
        skip: int = 0,
        edit: int | None = None,
        on_part: Callable[[int], Awaitable[None]] | None = None,
        sent_ids: list[int] | None = None,
    ) -> int:
        """Send a whole answer, in as many messages as it needs.

        Args:
            address: Where to.
            markdown: What.
            form: Its buttons, and how many messages it may be.
            skip: How many of its messages have arrived already.
            edit: A message that shows the beginning of the answer and becomes its first part.
            on_part: Called with the number of messages that have arrived, while more follow.
            sent_ids: Filled with the ids of those that arrive.

        Returns:
            How many messages it took.

        Raises:
            DeliveryError: It did not arrive; worth another try.
            DeliveryUnknownError: It may have arrived.
            DeliveryRefusedError: Telegram does not want it; worth one more try, later.
            ChatUnavailableError: Nothing can be sent to this chat.
            TurnStoppedError: The user does not want the rest.
        """
        parts = await self.renderer.render(
            markdown, max_parts=form.max_parts, ending=form.ending
        ) or [_unformatted(markdown)]
        if form.lead:
            parts = with_lead(form.lead, parts)
        if form.note:
            parts = with_note(parts, form.note)
        parts[-1] = replace(parts[-1], keyboard=form.keyboard)
        for number, part in enumerate(parts[skip:], start=skip):
            check_stopped()
            is_edit = number == 0 and edit is not None
            arrived = await (
                self._edit(address, edit, part)
                if edit is not None and is_edit
                else self._send_part(address, part)
            )
            if sent_ids is not None:
                sent_ids.append(arrived)
            if on_part is not None and number + 1 < len(parts):
                await on_part(number + 1)
        return len(parts)

    async def send_text(
        self, address: Address, text: str, *, keyboard: Keyboard | None = None
    ) -> None:
        """Send a text of our own as it stands, the last part with its buttons.

        Raises what ``send_answer`` raises.
        """
        *first, last = split_text(text)
        for part in (*first, replace(last, keyboard=keyboard)):
            await self._send_part(address, part)

    async def send_file(self, address: Address, file: ReplyFile) -> None:
        """Send a file; raises what ``send_answer`` raises."""

        async def send() -> None:
            await self._bot.send_document(
                chat_id=address.chat_id,
                document=OpenFile(file),
                message_thread_id=address.thread_id or None,
                request_timeout=FILE_TIMEOUT,
            )

        try:
            await _with_quick_retries(send)
        except AiogramError as error:
            raise delivery_error(error) from error

    async def show_screen(
        self,
        address: Address,
        message_id: int,
        text: str,
        *,
        keyboard: InlineKeyboardMarkup | None = None,
    ) -> None:
        """Let a message of ours show something else; where Telegram does not let us, send it.

        Raises what ``send_answer`` raises.
        """
        first, *rest = split_text(text)
        await self._edit(address, message_id, replace(first, keyboard=keyboard))
        for part in rest:
            await self._send_part(address, part)

    async def change_or_leave(self, chat_id: int, message_id: int, text: str | None) -> None:
        """Let a message of ours show ``text`` and no buttons; None: the same text without them.

        Where Telegram does not let us, it stays as it is.

        Raises what ``send_answer`` raises.
        """

        async def change() -> None:
            if text is None:
                await self._bot.edit_message_reply_markup(chat_id=chat_id, message_id=message_id)
            else:
                await self._bot.edit_message_text(
                    text=text, chat_id=chat_id, message_id=message_id, parse_mode=None,
                    request_timeout=SEND_TIMEOUT,
                )  # fmt: skip

        try:
            await _with_quick_retries(change)
        except AiogramError as error:
            ours = delivery_error(error)
            if not isinstance(ours, DeliveryRefusedError):
                raise ours from error

    async def send_reply(self, address: Address, text: str) -> bool:
        """Send a sentence of our own as a reply to ``address.reply_to``, or not at all.

        Returns:
            False, with nothing sent, when Telegram does not take it: that message is gone.
        """
        part = Part(text, [])
        try:
            await _with_quick_retries(lambda: self._send(address, part, must_reply=True))
        except AiogramError as error:
            ours = delivery_error(error)
            if isinstance(ours, DeliveryRefusedError):  # or it stayed in the group that moved
                return False
            raise ours from error
        return True

    async def _edit(self, address: Address, message_id: int, part: Part) -> int:
        """Make the message show the part; when Telegram does not let us, send it.

        Returns the id of the message that shows it.
        """

        keyboard = part.keyboard if isinstance(part.keyboard, InlineKeyboardMarkup) else None

        async def edit() -> None:
            await self._bot.edit_message_text(
                text=part.text,
                chat_id=address.chat_id,
                message_id=message_id,
                entities=part.entities or None,
                reply_markup=keyboard,
                request_timeout=SEND_TIMEOUT,
            )

        try:
            await _with_quick_retries(edit)
        except AiogramError as error:
            if is_not_modified(error):
                return message_id
            ours = delivery_error(error)
            is_refused = isinstance(ours, DeliveryRefusedError)
            if not is_refused and (ours.retry_after or 0.0) <= LONG_WAIT:
                raise ours from error
            return await self._send_part(address, part)  # which follows a group that moved
        return message_id

    async def _send_part(self, address: Address, part: Part, *, may_move: bool = True) -> int:
        try:
            return await self._formatted_or_plain(address, part)
        except TelegramMigrateToChat as error:
            if not may_move or address.chat_id > 0:
                raise delivery_error(error) from error
            await self._on_migration(address.chat_id, error.migrate_to_chat_id)
            moved = Address(error.migrate_to_chat_id, address.thread_id)
            return await self._send_part(moved, part, may_move=False)
        except AiogramError as error:
            raise delivery_error(error) from error

    async def _formatted_or_plain(self, address: Address, part: Part) -> int:
        """Send the part; if Telegram refuses it for any odd reason, its bare text."""
        try:
            return await _with_quick_retries(lambda: self._send(address, part))
        except TelegramMigrateToChat:
            raise
        except AiogramError as error:
            known = is_unparsable(error)  # then the rest may stay
            bare = replace(part, entities=[], keyboard=part.keyboard if known else None)
            is_bare = bare == part and address.reply_to is None
            if is_bare or not isinstance(delivery_error(error), DeliveryRefusedError):
                raise
            logger.warning("Telegram refused a message; sending plain text", exc_info=error)
            place = address if known else replace(address, reply_to=None)
            return await _with_quick_retries(lambda: self._send(place, bare))

    async def _send(self, address: Address, part: Part, *, must_reply: bool = False) -> int:
        message = await self._bot.send_message(
            chat_id=address.chat_id,
            text=part.text,
            message_thread_id=address.thread_id or None,
            entities=part.entities or None,
            reply_markup=part.keyboard,
            reply_parameters=reply_parameters(address, must_reply=must_reply),
            request_timeout=SEND_TIMEOUT,
        )
        return message.message_id


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
            await wait_unless_stopped(asyncio.sleep(wait))
    raise AssertionError("unreachable")


def reply_parameters(address: Address, *, must_reply: bool = False) -> ReplyParameters | None:
    """What makes a message a reply; where it must be one, it is sent to nobody else."""
    if address.reply_to is None:
        return None
    return ReplyParameters(
        message_id=address.reply_to,
        chat_id=address.chat_id if must_reply else None,
        allow_sending_without_reply=not must_reply,
    )


def _unformatted(markdown: str) -> Part:
    """The message for what shows nothing when it is formatted."""
    text = markdown.strip()[: MAX_UTF16 // 2]
    return Part(text if is_visible(text) else "…", [])
