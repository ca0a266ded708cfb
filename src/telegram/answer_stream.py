"""Showing an answer while the model writes it: drafts in private chats, edits in groups.

All of it is best effort: whatever goes wrong here is passed over, because the final message is
stored and sent by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiogram import Bot
from aiogram.enums import ChatAction
from aiogram.exceptions import AiogramError, TelegramRetryAfter
from aiogram.types import ReplyParameters
from telegramify_markdown import split_entities
from telegramify_markdown.stream import DraftStream, EditStream

from src.telegram.delivery import MAX_UTF16, Address, to_entities
from src.telegram.errors import is_not_modified, is_unknown_method

logger = logging.getLogger(__name__)

DRAFT_SECONDS = 0.5  # between two drafts
EDIT_SECONDS = 1.5  # between two edits of a message
TYPING_AFTER = 0.4  # seconds of silence before "typing…" is shown
TYPING_EVERY = 4.5  # seconds; Telegram shows it for at most 5
TYPING_MAX = 300.0  # seconds; a turn that takes longer looks stuck anyway
REQUEST_TIMEOUT = 10  # seconds


class DraftSupport:
    """Whether the Bot API server knows drafts; learnt from its first refusal."""

    def __init__(self) -> None:
        """Assume that it does."""
        self.available = True


class AnswerStream:
    """One answer on its way: ``feed`` it, and ``close`` it before the final message."""

    def __init__(
        self,
        bot: Bot,
        address: Address,
        *,
        drafts: DraftSupport,
        draft_id: int,
        on_message: Callable[[int], Awaitable[None]],
        message_id: int | None = None,
    ) -> None:
        """Stream to ``address``.

        Args:
            bot: Sends.
            address: Where to; a group's id is negative.
            drafts: Whether drafts may be used in a private chat.
            draft_id: Names the draft; a press of its Stop button brings it back.
            on_message: Told the id of the message that is being edited, as soon as there is one.
            message_id: Such a message from an earlier attempt at this turn.
        """
        self._bot = bot
        self._address = address
        self._drafts = drafts
        self._draft_id = draft_id
        self._on_message = on_message
        self.message_id = message_id
        self._uses_drafts = address.chat_id > 0 and drafts.available
        self._quiet_until = 0.0
        self._fed = 0
        self._closed = False
        self._sending = asyncio.Lock()
        self._stream = self._make_stream()
        self._typing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin; "typing…" appears when the model takes its time."""
        await self._stream.__aenter__()
        self._typing = asyncio.create_task(self._show_typing())

    def feed(self, text: str) -> None:
        """The next piece of the answer."""
        if not self._closed:
            self._fed += len(text)
            self._stream.feed(text)

    async def close(self) -> None:
        """Stop showing; when this returns, no draft or edit is under way any more."""
        self._closed = True
        if self._typing is not None:
            self._typing.cancel()
        await self._stream.cancel()
        async with self._sending:
            pass

    def _make_stream(self) -> DraftStream | EditStream:
        if self._uses_drafts:
            return DraftStream(
                self._best_effort(self._send_draft),
                self._ignore,
                mode="entity",
                draft_id=self._draft_id,
                interval=DRAFT_SECONDS,
                thinking_delay=None,
                cancel_clears_draft=False,
            )
        return EditStream(
            self._best_effort(self._send_or_edit),
            self._best_effort(self._edit),
            mode="entity",
            interval=EDIT_SECONDS,
        )

    def _best_effort(self, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def attempt(*arguments: Any) -> Any:
            async with self._sending:
                if self._closed:
                    return self.message_id
                fed, result = self._fed, self.message_id
                if time.monotonic() >= self._quiet_until:
                    result = await self._try(send, *arguments)
                if fed != self._fed or time.monotonic() < self._quiet_until:
                    # The stream takes everything for shown now: remind it of what is not.
                    asyncio.get_running_loop().call_soon(self.feed, "")
                return result

        return attempt

    async def _try(self, send: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        try:
            return await send(*arguments)
        except TelegramRetryAfter as error:
            self._quiet_until = time.monotonic() + error.retry_after
        except AiogramError as error:
            self._note(error)
        return self.message_id

    def _note(self, error: AiogramError) -> None:
        if is_not_modified(error):
            return
        if self._uses_drafts and is_unknown_method(error):
            self._drafts.available = False
            logger.warning("this Bot API server knows no drafts; answers are edited instead")
        self._quiet_until = time.monotonic() + EDIT_SECONDS * 2

    async def _send_draft(self, payload: Any) -> None:
        if not self._drafts.available:
            return
        await self._bot.send_message_draft(
            chat_id=self._address.chat_id,
            draft_id=payload.draft_id,
            message_thread_id=self._address.thread_id or None,
            text=payload.text,
            entities=to_entities(payload.entities) or None,
            can_stop=True,
            request_timeout=REQUEST_TIMEOUT,
        )

    async def _send_or_edit(self, payload: Any) -> int | None:
        """The first frame: a message of its own, or the one of an earlier attempt."""
        if self.message_id is not None:
            await self._edit(self.message_id, payload)
            return self.message_id
        text, entities = _first_part(payload)
        if not text:
            return None
        reply_to = self._address.reply_to
        message = await self._bot.send_message(
            chat_id=self._address.chat_id,
            text=text,
            message_thread_id=self._address.thread_id or None,
            entities=to_entities(entities) or None,
            reply_parameters=ReplyParameters(message_id=reply_to, allow_sending_without_reply=True)
            if reply_to
            else None,
            request_timeout=REQUEST_TIMEOUT,
        )
        self.message_id = message.message_id
        await self._on_message(message.message_id)
        return message.message_id

    async def _edit(self, message_id: int, payload: Any) -> None:
        text, entities = _first_part(payload)
        await self._bot.edit_message_text(
            text=text,
            chat_id=self._address.chat_id,
            message_id=message_id,
            entities=to_entities(entities) or None,
            request_timeout=REQUEST_TIMEOUT,
        )

    async def _ignore(self, _payload: Any) -> None:
        """The final message is the delivery's."""

    async def _show_typing(self) -> None:
        """Best effort: an error ends it, and nobody else notices."""
        deadline = time.monotonic() + TYPING_MAX
        await asyncio.sleep(TYPING_AFTER)
        with contextlib.suppress(AiogramError):
            while time.monotonic() < deadline:
                await self._bot.send_chat_action(
                    self._address.chat_id,
                    ChatAction.TYPING,
                    message_thread_id=self._address.thread_id or None,
                    request_timeout=REQUEST_TIMEOUT,
                )
                await asyncio.sleep(TYPING_EVERY)


def _first_part(payload: Any) -> tuple[str, list[Any]]:
    """The part of a growing answer that fits one message."""
    parts = split_entities(payload.text, payload.entities, MAX_UTF16)
    return parts[0] if parts else ("", [])
