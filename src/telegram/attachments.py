"""What a message that is no text holds: words of its own, and perhaps a file, within bounds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramBadRequest
from aiogram.types import Message, PhotoSize

from src.base.errors import DeliveryError, DocumentBrokenError, DocumentTooLargeError
from src.media.attachments import Attachment, AttachmentKind
from src.media.document_reader import MAX_BYTES
from src.telegram.errors import delivery_error
from src.texts import Language, say

LARGEST_SIDE = 1600  # pixels; models scale larger pictures down, and charge for them
MAX_OPTIONS = 12  # of a poll
MAX_PLACES = 5  # decimal ones of a coordinate: a metre


@dataclass(frozen=True)
class Content:
    """What there is to answer.

    Attributes:
        text: The sender's words: a caption, or what a place, contact, poll or sticker says.
        attachment: The file to read, if any.
        problem: The key of the sentence for what cannot be read at all.
    """

    text: str = ""
    attachment: Attachment | None = None
    problem: str | None = None


def read_content(message: Message, language: Language) -> Content:
    """What a message without a text holds."""
    caption = (message.caption or "").strip()
    attachment = _attachment(message)
    if attachment is not None:
        return Content(caption, attachment)
    said = _said(message, language)
    if said:
        return Content("\n".join(filter(None, (caption, said))))
    return Content(caption, problem="cannot_read")


def _attachment(message: Message) -> Attachment | None:
    if message.photo:
        photo = _best(message.photo)
        return Attachment("picture", photo.file_id, photo.file_size or 0, "photo.jpg")
    for file, kind, name in (
        (message.voice, "sound", "voice.ogg"),
        (message.video_note, "sound", "video_note.mp4"),
        (message.audio, "sound", "audio.mp3"),
        (message.video, "sound", "video.mp4"),
        (message.document, "document", "file"),
    ):
        if file is not None and message.animation is None:
            named = getattr(file, "file_name", None) or name
            return _of(file.file_id, file.file_size, kind, named)
    return None


def _of(file_id: str, size: int | None, kind: str, name: str) -> Attachment:
    kinds: dict[str, AttachmentKind] = {"sound": "sound", "document": "document"}
    return Attachment(kinds[kind], file_id, size or 0, name)


def _best(sizes: list[PhotoSize]) -> PhotoSize:
    """The largest one that is no larger than models look at."""
    ordered = sorted(sizes, key=lambda size: size.width * size.height)
    fitting = [size for size in ordered if max(size.width, size.height) <= LARGEST_SIDE]
    return (fitting or ordered)[-1 if fitting else 0]


def _said(message: Message, language: Language) -> str:
    """A message of a kind of its own, as its sender would say it."""
    if message.venue is not None:
        venue = message.venue
        place = f"{venue.title}, {venue.address}"
        return say("said_venue", language, place=place, at=_coordinates(message))
    if message.location is not None:
        return say("said_location", language, at=_coordinates(message))
    if message.contact is not None:
        contact = message.contact
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        return say("said_contact", language, name=name, phone=contact.phone_number)
    if message.poll is not None:
        options = "; ".join(option.text for option in message.poll.options[:MAX_OPTIONS])
        return say("said_poll", language, question=message.poll.question, options=options)
    if message.sticker is not None and message.sticker.emoji:
        return message.sticker.emoji
    if message.dice is not None:
        return f"{message.dice.emoji} {message.dice.value}"
    return ""


def _coordinates(message: Message) -> str:
    location = message.location or (message.venue.location if message.venue else None)
    if location is None:
        return ""
    return f"{location.latitude:.{MAX_PLACES}f}, {location.longitude:.{MAX_PLACES}f}"


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
