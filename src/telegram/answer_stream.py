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

from aiogram import Bot
from aiogram.enums import ChatAction
from aiogram.exceptions import AiogramError, TelegramRetryAfter

from src.base.errors import AppError
from src.pg.client import storable
from src.telegram.delivery import Address, reply_parameters
from src.telegram.errors import is_not_modified, is_unknown_method
from src.telegram.rendering import MAX_UTF16, Part, Renderer

logger = logging.getLogger(__name__)

DRAFT_SECONDS = 0.5  # between two drafts
EDIT_SECONDS = 1.5  # between two edits of a message
DRAFT_REMINDER = 25.0  # seconds after which an unchanged draft is sent again; it lasts 30
TYPING_AFTER = 0.4  # seconds of silence before "typing…" is shown
TYPING_EVERY = 4.5  # seconds; Telegram shows it for at most 5
TYPING_MAX = 300.0  # seconds; a turn that takes longer looks stuck anyway
REQUEST_TIMEOUT = 10  # seconds
# UTF-16 units of the answer that one frame formats: its end in a draft, which leaves room for what
# the formatting adds, its beginning in a message, which may well be more than fits.
DRAFT_WINDOW, EDIT_WINDOW = MAX_UTF16 - 500, 2 * MAX_UTF16


class DraftSupport:
    """What all growing answers share: who formats them, and whether the server knows drafts.

    Attributes:
        available: Whether it does; learnt from its first refusal.
    """

    def __init__(self, renderer: Renderer) -> None:
        """Assume that it does."""
        self.renderer = renderer
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
        self._pieces: list[str] = []
        self._news = asyncio.Event()
        self._shown: Part | None = None
        self._quiet_until = 0.0
        self._closed = False
        self._sending = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin; "typing…" appears when the model takes its time."""
        self._tasks = [
            asyncio.create_task(self._show_typing()),
            asyncio.create_task(self._show_growth()),
        ]

    def feed(self, text: str) -> None:
        """The next piece of the answer."""
        if not self._closed:
            self._pieces.append(text)
            self._news.set()

    async def close(self) -> None:
        """Stop showing; when this returns, no draft or edit is under way any more."""
        self._closed = True
        async with self._sending:
            pass
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _show_growth(self) -> None:
        """A frame after each piece, but not too often, and now and then one without news."""
        interval = DRAFT_SECONDS if self._uses_drafts else EDIT_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAFT_REMINDER):
                    await self._news.wait()
            await asyncio.sleep(max(interval, self._quiet_until - time.monotonic()))
            is_reminder = not self._news.is_set()
            self._news.clear()
            part = await self._drafts.renderer.render_start(self._window())
            if part is not None and (part != self._shown or (is_reminder and self._uses_drafts)):
                await self._show(part)

    def _window(self) -> str:
        """The piece of the answer that a frame shows."""
        units = storable("".join(self._pieces)).encode("utf-16-le")
        piece = units[-2 * DRAFT_WINDOW :] if self._uses_drafts else units[: 2 * EDIT_WINDOW]
        return piece.decode("utf-16-le", "ignore")

    async def _show(self, part: Part) -> None:
        async with self._sending:
            if self._closed:
                return
            try:
                await (self._send_draft(part) if self._uses_drafts else self._send_or_edit(part))
                self._shown = part
            except TelegramRetryAfter as error:
                self._quiet_until = time.monotonic() + error.retry_after
                self._news.set()
            except AiogramError as error:
                self._note(error)
            except AppError as error:
                logger.warning("the growing answer is not shown", exc_info=error)

    def _note(self, error: AiogramError) -> None:
        if is_not_modified(error):
            return
        if self._uses_drafts and is_unknown_method(error):
            self._drafts.available = False
            logger.warning("this Bot API server knows no drafts; answers are edited instead")
        self._quiet_until = time.monotonic() + EDIT_SECONDS * 2
        self._news.set()

    async def _send_draft(self, part: Part) -> None:
        if not self._drafts.available:
            return
        await self._bot.send_message_draft(
            chat_id=self._address.chat_id,
            draft_id=self._draft_id,
            message_thread_id=self._address.thread_id or None,
            text=part.text,
            entities=part.entities or None,
            can_stop=True,
            request_timeout=REQUEST_TIMEOUT,
        )

    async def _send_or_edit(self, part: Part) -> None:
        """Into a message of its own, or the one of an earlier attempt."""
        if self.message_id is not None:
            await self._bot.edit_message_text(
                text=part.text,
                chat_id=self._address.chat_id,
                message_id=self.message_id,
                entities=part.entities or None,
                request_timeout=REQUEST_TIMEOUT,
            )
            return
        message = await self._bot.send_message(
            chat_id=self._address.chat_id,
            text=part.text,
            message_thread_id=self._address.thread_id or None,
            entities=part.entities or None,
            reply_parameters=reply_parameters(self._address),
            request_timeout=REQUEST_TIMEOUT,
        )
        self.message_id = message.message_id
        await self._on_message(message.message_id)

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
