"""Requests to Telegram stay within its limits, and are counted."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from aiogram import Bot
from aiogram.client.session.middlewares.base import (
    BaseRequestMiddleware,
    NextRequestMiddlewareType,
)
from aiogram.methods import EditMessageText, Response, SendMessage, TelegramMethod
from aiogram.methods.base import TelegramType
from aiolimiter import AsyncLimiter

from src.metrics import Metrics
from src.services.turn_control import wait_unless_stopped

# Telegram: about one message a second in a chat (short bursts pass), 20 a minute in a group.
PRIVATE_BURST, PRIVATE_SECONDS = 5, 5.0
GROUP_BURST, GROUP_SECONDS = 20, 60.0
MAX_CHATS = 10_000  # limiters kept; the least recently used goes first


class ThrottleMiddleware(BaseRequestMiddleware):
    """Delays messages above Telegram's limits instead of running into 429."""

    def __init__(self, messages_per_second: int, metrics: Metrics) -> None:
        """Allow so many messages a second over all chats (Telegram's default is 30)."""
        self._all = AsyncLimiter(messages_per_second, 1.0)
        self._chats: OrderedDict[int, AsyncLimiter] = OrderedDict()
        self._metrics = metrics

    async def __call__(
        self,
        make_request: NextRequestMiddlewareType[TelegramType],
        bot: Bot,
        method: TelegramMethod[TelegramType],
    ) -> Response[TelegramType]:
        """Wait for a place (a stopped delivery does not), send, count."""
        if isinstance(method, SendMessage | EditMessageText):
            await wait_unless_stopped(self._wait_for_place(method.chat_id))
        result = "error"
        try:
            response: Any = await make_request(bot, method)
            result = "ok"
            return response  # type: ignore[no-any-return]
        finally:
            self._metrics.requests.labels(method.__api_method__, result).inc()

    async def _wait_for_place(self, chat_id: int | str | None) -> None:
        await self._chat_limiter(chat_id).acquire()
        await self._all.acquire()

    def _chat_limiter(self, chat_id: int | str | None) -> AsyncLimiter:
        key = chat_id if isinstance(chat_id, int) else 0
        limiter = self._chats.get(key)
        if limiter is None:
            is_group = key < 0
            limiter = AsyncLimiter(
                GROUP_BURST if is_group else PRIVATE_BURST,
                GROUP_SECONDS if is_group else PRIVATE_SECONDS,
            )
            self._chats[key] = limiter
            if len(self._chats) > MAX_CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(key)
        return limiter
