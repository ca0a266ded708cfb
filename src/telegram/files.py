"""Files that people send: fetched from Telegram, within bounds."""

from __future__ import annotations

import asyncio

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramBadRequest

from src.errors import DeliveryError, DocumentBrokenError, DocumentTooLargeError
from src.media.document_reader import MAX_BYTES
from src.telegram.errors import delivery_error

GET_TIMEOUT = 15  # seconds
FETCH_TIMEOUT = 120  # seconds for 20 MB
CHUNK = 1 << 16


async def fetch_file(bot: Bot, file_id: str) -> bytes:
    """The bytes of a file.

    Raises:
        DocumentTooLargeError: Telegram gives no file of this size to a bot.
        DocumentBrokenError: Telegram does not have it (any more).
        DeliveryError: Telegram cannot be reached; worth another try.
    """
    try:
        file = await bot.get_file(file_id, request_timeout=GET_TIMEOUT)
    except TelegramBadRequest as error:
        if "too big" in error.message:
            raise DocumentTooLargeError("Telegram calls it too big") from error
        raise DocumentBrokenError("Telegram does not have the file") from error
    except AiogramError as error:
        raise delivery_error(error) from error
    if file.file_path is None:
        raise DocumentBrokenError("Telegram does not say where the file is")
    url = bot.session.api.file_url(bot.token, file.file_path)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(FETCH_TIMEOUT):
            async for piece in bot.session.stream_content(
                url, timeout=FETCH_TIMEOUT, chunk_size=CHUNK, raise_for_status=True
            ):
                size += len(piece)
                if size > MAX_BYTES:
                    raise DocumentTooLargeError("more bytes than a bot may fetch")
                pieces.append(piece)
    except (AiogramError, OSError, TimeoutError) as error:
        raise DeliveryError(f"a file did not come ({type(error).__name__})") from error
    return b"".join(pieces)
