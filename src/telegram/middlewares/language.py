"""Each handler gets the language to answer in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiogram import BaseMiddleware
from aiogram.types import TelegramObject, User

from src.storage.update_repo import WaitingUpdate
from src.texts import choose_language


class LanguageMiddleware(BaseMiddleware):
    """Adds ``language``: the user's own choice, else the language of their Telegram."""

    async def __call__(
        self,
        handler: Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]],
        event: TelegramObject,
        data: dict[str, Any],
    ) -> Any:
        """Choose, and go on."""
        stored: WaitingUpdate = data["stored"]
        user: User | None = data.get("event_from_user")
        data["language"] = choose_language(stored.language, user.language_code if user else None)
        return await handler(event, data)
