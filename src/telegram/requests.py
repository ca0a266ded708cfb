"""Requests to Telegram, with errors of our own: retried at once, left to the queue, optional."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from aiogram import exceptions
from aiohttp import ClientConnectorError

from src.base import errors
from src.telegram.places import is_refusal, refusal_error

T = TypeVar("T")
P = ParamSpec("P")

QUICK_RETRIES = 3  # immediate retries of requests that certainly did not arrive
MAX_QUICK_WAIT = 5.0  # seconds; a longer retry_after is left to the queue
BEST_EFFORT_SECONDS = 10  # seconds for optional requests


def delivery_error(error: Exception) -> errors.AppError:
    """Convert aiogram's error to ours: worth a retry, of unknown effect, or final."""
    if isinstance(error, errors.AppError):
        return error
    name = type(error).__name__
    if isinstance(error, exceptions.TelegramRetryAfter):
        delayed = errors.DeliveryError(f"Telegram asks to wait {error.retry_after} s")
        delayed.retry_after = float(error.retry_after)
        return delayed
    if isinstance(error, exceptions.TelegramNetworkError) and not isinstance(
        error, exceptions.TelegramEntityTooLarge
    ):
        if isinstance(error.__cause__, ClientConnectorError):
            return errors.DeliveryError("Telegram could not be reached")
        return errors.DeliveryUnknownError(f"no answer from Telegram ({name})")
    if isinstance(error, exceptions.ClientDecodeError):
        return errors.DeliveryNonsenseError("Telegram's answer was not the Bot API's")
    if isinstance(error, exceptions.TelegramServerError | exceptions.TelegramUnauthorizedError):
        return errors.DeliveryError(f"Telegram failed ({name})")
    return refusal_error(error)


def is_not_modified(error: BaseException | None) -> bool:
    """Return True if the edit changed nothing, which is a success."""
    return is_refusal(error, "message is not modified")


def is_unknown_method(error: BaseException) -> bool:
    """Return True if the Bot API server is too old to know the method."""
    return isinstance(error, exceptions.TelegramNotFound) or is_refusal(error, "method not found")


async def with_quick_retries(
    send: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Send a request; retry at once if it certainly did not arrive, else leave it to the queue.

    Raises:
        AppError: See ``Delivery.send_answer``; its cause is aiogram's error.
    """
    for attempt in range(QUICK_RETRIES + 1):
        try:
            return await send(*args, **kwargs)
        except exceptions.AiogramError as error:
            failure = delivery_error(error)
            is_certain = type(failure) is errors.DeliveryError
            wait = failure.retry_after if failure.retry_after is not None else 0.2 * 2**attempt
            if not is_certain or attempt == QUICK_RETRIES or wait > MAX_QUICK_WAIT:
                raise failure from error
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


async def best_effort(request: Awaitable[Any]) -> Exception | None:
    """Await an optional request such as ``query.answer()``; return its failure, if it failed."""
    try:
        async with asyncio.timeout(BEST_EFFORT_SECONDS):
            await request
    except (exceptions.AiogramError, TimeoutError) as error:
        return error
    return None
