"""Growing answers: edits of one message, or drafts in private chats.

Showing them is best effort: its failures are ignored, because the final message is stored and sent
independently.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiogram import enums, exceptions

from src.base.config import Streaming
from src.base.errors import AppError
from src.pg.client import storable
from src.talk.turn_state import AnswerView, Turn
from src.telegram import requests
from src.telegram.buttons import stop_keyboard
from src.telegram.delivery import Address, Delivery
from src.telegram.rendering import MAX_UTF16, Part, render_start
from src.texts import say

logger = logging.getLogger(__name__)

MAX_DRAFT_ID = 2**31 - 1
DRAFT_SECONDS = 0.5  # between two drafts
EDIT_SECONDS = 1.5  # between two edits of a message
DRAFT_REFRESH = 25.0  # seconds until an unchanged draft is sent again; Telegram shows it for 30
TYPING_AFTER = 0.4  # seconds of silence before "typing…" is shown
TYPING_EVERY = 4.5  # seconds; Telegram shows it for at most 5
SLOW_AFTER = 60.0  # seconds without output of a self-hosted model until a line says so
# UTF-16 units of the answer that one frame formats: of its end in a draft, with room for what the
# formatting adds; of its beginning in a message, where a surplus is harmless.
DRAFT_WINDOW, EDIT_WINDOW = MAX_UTF16 - 500, 2 * MAX_UTF16


class AnswerStream(AnswerView):
    """Display of one growing answer: ``close`` it before the final message."""

    def __init__(
        self,
        delivery: Delivery,
        address: Address,
        number: int,
        is_slow: bool = False,
        *,
        streaming: Streaming = "edits",
    ) -> None:
        """Stream to ``address``.

        Args:
            delivery: Sends and formats.
            address: Destination; a group's id is negative.
            number: Id of the message that is answered; updates about the Stop button contain it.
            is_slow: True to show a line in place of the answer after a minute without output.
            streaming: How the answer grows; groups have no drafts.
        """
        super().__init__()
        self._delivery = delivery
        self._address = address
        self._number = number
        self._is_slow = is_slow
        self._language = address.language
        self._on_message: Callable[[int], Awaitable[None]] | None = None
        self.message_id: int | None = None
        self._grows = streaming != "off"
        self._uses_drafts = streaming == "drafts" and address.chat_id > 0
        self._line = ""  # shown in place of the answer
        self._changed = asyncio.Event()
        self._shown: Part | None = None
        self._quiet_until = 0.0
        self._send_lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, turn: Turn, on_message: Callable[[int], Awaitable[None]]) -> None:
        """Start; "typing…" appears when the model takes its time.

        Args:
            turn: The turn that is answered; a message of an earlier attempt is edited.
            on_message: Awaited with the id of the edited message as soon as it is known.
        """
        self._on_message, self.message_id = on_message, self.shown_in
        self._language = turn.incoming.language
        works = [self._show_typing(), self._show_frames()]
        if self._is_slow:
            works.append(self._show_slow_line())
        self._tasks = [asyncio.create_task(work) for work in works]

    def grow(self) -> None:
        """See ``AnswerView``."""
        self._changed.set()

    def think(self) -> None:
        """Show a line in place of the answer until its first piece."""
        if not self._line:
            self._line = say("model_thinking", self._language)
            self._changed.set()

    @property
    def is_shown(self) -> bool:
        """See ``AnswerView``."""
        return self._shown is not None or self.message_id is not None

    async def close(self) -> None:
        """Stop; when this returns, no draft or edit is in progress any more."""
        async with self._send_lock:  # until what is on its way has arrived
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def withdraw(self, *, is_unwanted: bool) -> None:
        """Remove the Stop button of an answer that has not come to its end.

        Args:
            is_unwanted: True to remove the beginning, too: no answer follows it.
        """
        message_id, chat_id = self.message_id or self.shown_in, self._address.chat_id
        if not message_id:
            return
        bot = self._delivery.bot
        if is_unwanted:
            await requests.best_effort(bot.delete_message(chat_id, message_id))
        else:
            edit = bot.edit_message_reply_markup(chat_id=chat_id, message_id=message_id)
            await requests.best_effort(edit)

    async def _show_frames(self) -> None:
        """Show a frame after new pieces at limited frequency, and refresh an unchanged draft."""
        while self._grows:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAFT_REFRESH):
                    await self._changed.wait()
            interval = EDIT_SECONDS
            if self._uses_drafts:
                interval = DRAFT_SECONDS
            await asyncio.sleep(max(interval, self._quiet_until - time.monotonic()))
            is_refresh = self._uses_drafts and not self._changed.is_set()
            self._changed.clear()
            text = storable(self.draft())
            if not text.strip():
                text = self._line
            units = text.encode("utf-16-le")
            piece = units[: 2 * EDIT_WINDOW]
            if self._uses_drafts:
                piece = units[-2 * DRAFT_WINDOW :]
            part = await render_start(piece.decode("utf-16-le", "ignore"))
            if part is not None and (part != self._shown or is_refresh):
                async with self._send_lock:
                    await self._show_part(part)

    async def _show_slow_line(self) -> None:
        await asyncio.sleep(SLOW_AFTER)
        self._line = say("model_slow", self._language)
        self._changed.set()

    async def _show_part(self, part: Part) -> None:
        try:
            if self._uses_drafts:
                await self._delivery.bot.send_message_draft(
                    **self._address.chat_fields,
                    draft_id=self._number % MAX_DRAFT_ID or 1,
                    text=part.text,
                    entities=part.entities or None,
                    can_stop=True,
                )
            else:
                await self._send_or_edit(part)
            self._shown = part
        except (exceptions.AiogramError, AppError) as error:
            refusal = requests.find_refusal(error)
            if requests.is_not_modified(error):
                return
            if refusal is not None and refusal.scope != "reply":
                self._grows = False  # the final answer looks for another place
            if self._uses_drafts and requests.is_unknown_method(error):
                self._uses_drafts = False
                logger.info("this Bot API server knows no drafts; the answer is edited instead")
            pause = getattr(error, "retry_after", None) or 2 * EDIT_SECONDS
            self._quiet_until = time.monotonic() + pause
            self._changed.set()

    async def _send_or_edit(self, part: Part) -> None:
        part = replace(part, keyboard=stop_keyboard(self._number))
        if self.message_id is not None:
            await self._delivery.edit_once(self._address, self.message_id, part)
            return
        self.message_id = await self._delivery.send_once(self._address, part)
        if self._on_message is not None and self.message_id != requests.UNKNOWN_ID:
            await self._on_message(self.message_id)

    async def _show_typing(self) -> None:
        await asyncio.sleep(TYPING_AFTER)
        show, typing = self._delivery.bot.send_chat_action, enums.ChatAction.TYPING
        while True:
            failure = await requests.best_effort(show(**self._address.chat_fields, action=typing))
            await asyncio.sleep(max(TYPING_EVERY, getattr(failure, "retry_after", 0)))
