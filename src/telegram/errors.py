"""Telegram's errors as ours: worth another try, unknown, or final."""

from __future__ import annotations

from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiohttp import ClientConnectorError

from src.base.errors import (
    AppError,
    ChatUnavailableError,
    DeliveryError,
    DeliveryRefusedError,
    DeliveryUnknownError,
)

# How Telegram says (as 400 or 403) that nothing can be sent to a chat.
UNREACHABLE = (
    "chat not found",
    "user not found",
    "user is deactivated",
    "group chat was deactivated",
    "bot was blocked",
    "bot was kicked",
    "bot is not a member",
    "can't initiate conversation",
    "can't send messages to",
    "not enough rights to send",
    "have no rights to send",
    "chat_write_forbidden",
    "peer_id_invalid",
    "topic_closed",
    "user_is_blocked",
)


def delivery_error(error: Exception) -> AppError:
    """The error to raise instead of aiogram's own when something could not be sent."""
    if isinstance(error, AppError):
        return error
    name = type(error).__name__
    if isinstance(error, TelegramRetryAfter):
        delayed = DeliveryError(f"Telegram asks to wait {error.retry_after} s")
        delayed.retry_after = float(error.retry_after)
        return delayed
    if isinstance(error, TelegramNetworkError) and not isinstance(error, TelegramEntityTooLarge):
        if isinstance(error.__cause__, ClientConnectorError):
            return DeliveryError("Telegram could not be reached")
        return DeliveryUnknownError(f"no answer from Telegram ({name})")
    if isinstance(error, ClientDecodeError):
        return DeliveryUnknownError("Telegram's answer was not the Bot API's")
    if isinstance(error, TelegramServerError | TelegramUnauthorizedError):
        return DeliveryError(f"Telegram failed ({name})")
    if is_unreachable(error):
        return ChatUnavailableError(f"nothing can be sent to this chat ({name})")
    return DeliveryRefusedError(f"Telegram refused a message ({name})")


def is_unreachable(error: Exception) -> bool:
    """Whether the user blocked the bot, or the chat is gone or closed to it."""
    return isinstance(error, TelegramForbiddenError | TelegramBadRequest) and _mentions(
        error, *UNREACHABLE
    )


def is_not_modified(error: Exception) -> bool:
    """An edit that changes nothing: success."""
    return isinstance(error, TelegramBadRequest) and _mentions(error, "message is not modified")


def is_unparsable(error: Exception) -> bool:
    """Telegram does not accept the formatting; plain text will do."""
    return isinstance(error, TelegramBadRequest) and _mentions(
        error, "can't parse entities", "entity", "entities"
    )


def is_unknown_method(error: Exception) -> bool:
    """An older Bot API server, which does not have the method."""
    if isinstance(error, TelegramNotFound):
        return True
    return isinstance(error, TelegramBadRequest) and _mentions(error, "method not found")


def _mentions(error: TelegramAPIError, *parts: str) -> bool:
    message = error.message.lower()
    return any(part in message for part in parts)
