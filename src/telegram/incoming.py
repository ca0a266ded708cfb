"""Content of incoming messages: author and provenance of the text, attachments, special kinds."""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiogram import Bot, exceptions, types
from aiohttp import ClientConnectionError, ClientPayloadError

from src.base.errors import DeliveryError, DocumentError
from src.base.owners import Caller
from src.media.attachments import Attachment, AttachmentKind
from src.media.document_reader import MAX_BYTES
from src.queue.update_repo import WaitingUpdate
from src.reading.voices import Provenance, Voice, clean_name, clean_quote
from src.talk.turn_state import TurnControl
from src.telegram.delivery import delivery_error
from src.texts import Language, say

LARGEST_SIDE = 1600  # pixels; models scale larger pictures down but charge for them
MAX_OPTIONS = 12  # of a poll
DECIMALS = 5  # decimals of a coordinate: a metre
GET_TIMEOUT = 15  # seconds
FETCH_TIMEOUT = 120  # seconds for 20 MB
CHUNK = 1 << 16


@dataclass(frozen=True)
class Context:
    """Context of an update for its handlers: the stored row, the caller, control of its answer."""

    stored: WaitingUpdate
    caller: Caller
    control: TurnControl


def read_voice(message: types.Message) -> Voice:
    """Return provenance and speaker of a message's text, and the text that it replies to."""
    provenance: Provenance = "typed"
    origin = None
    if message.forward_origin is not None:
        provenance, origin = "forwarded", forward_author(message.forward_origin)[1]
    elif message.via_bot is not None:
        provenance, origin = "bot", message.via_bot.full_name
    quoted, author = _quoted_text(message)
    is_group = message.chat.type != "private"
    return Voice(
        provenance=provenance,
        speaker=clean_name(_sender_name(message)) if is_group else None,
        origin=clean_name(origin),
        quoted=clean_quote(quoted),
        quoted_author_id=author if quoted else None,
    )


def forward_author(origin: types.MessageOriginUnion | None) -> tuple[int | None, str | None]:
    """Return id and name of a forwarded message's author; a hidden user has no id."""
    if origin is None:
        return None, None
    if isinstance(origin, types.MessageOriginHiddenUser):
        return None, origin.sender_user_name
    if isinstance(origin, types.MessageOriginUser):
        return origin.sender_user.id, origin.sender_user.full_name
    chat = origin.sender_chat if isinstance(origin, types.MessageOriginChat) else origin.chat
    return chat.id, chat.full_name


def _sender_name(message: types.Message) -> str | None:
    """An anonymous admin writes as the group."""
    if message.sender_chat is not None:
        return message.sender_chat.full_name
    return message.from_user.full_name if message.from_user else None


def _quoted_text(message: types.Message) -> tuple[str | None, int | None]:
    """Return the quoted part of the replied-to text, or all of it, and its author's id."""
    replied, text, author = message.reply_to_message, None, None
    if replied is not None:
        text = replied.text or replied.caption
        author = replied.from_user.id if replied.from_user else None
        author = forward_author(replied.forward_origin)[0] or author
    elif message.external_reply is not None:
        author = forward_author(message.external_reply.origin)[0]
    return (message.quote.text if message.quote else text), author


@dataclass(frozen=True)
class Content:
    """Content of a message to answer.

    Attributes:
        text: The sender's words: a caption, or the text for a location, contact, poll or sticker.
        attachment: The file to read, if any.
        problem: Sentence about content that cannot be read.
    """

    text: str = ""
    attachment: Attachment | None = None
    problem: str = ""


def read_content(message: types.Message, language: Language) -> Content:
    """Return the content of a message without a text."""
    caption = (message.caption or "").strip()
    if attachment := _find_attachment(message):
        return Content(caption, attachment)
    if description := _describe_in_words(message, language):
        return Content("\n".join(filter(None, (caption, description))))
    return Content(caption, problem=say("cannot_read", language))


def _find_attachment(message: types.Message) -> Attachment | None:
    if message.photo:
        photo = _largest_usable_size(message.photo)
        return Attachment("picture", photo.file_id, photo.file_size or 0, "photo.jpg")
    files: tuple[tuple[Any, AttachmentKind, str], ...] = (
        (message.voice, "sound", "voice.ogg"),
        (message.video_note, "sound", "video_note.mp4"),
        (message.audio, "sound", "audio.mp3"),
        (message.video, "sound", "video.mp4"),
        (message.document, "document", "file"),
    )
    for file, kind, name in files:
        if file is not None and message.animation is None:
            file_name = getattr(file, "file_name", None) or name
            return Attachment(kind, file.file_id, file.file_size or 0, file_name)
    return None


def _largest_usable_size(sizes: list[types.PhotoSize]) -> types.PhotoSize:
    ordered = sorted(sizes, key=lambda size: size.width * size.height)
    usable = [size for size in ordered if max(size.width, size.height) <= LARGEST_SIDE]
    return (usable or ordered)[-1 if usable else 0]


def _describe_in_words(message: types.Message, language: Language) -> str:
    if message.venue is not None:
        venue = message.venue
        place = f"{venue.title}, {venue.address}"
        return say("said_venue", language, place=place, at=_format_coordinates(venue.location))
    if message.location is not None:
        return say("said_location", language, at=_format_coordinates(message.location))
    if message.contact is not None:
        contact = message.contact
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        return say("said_contact", language, name=name, phone=contact.phone_number)
    if message.poll is not None:
        options = "; ".join(option.text for option in message.poll.options[:MAX_OPTIONS])
        return say("said_poll", language, question=message.poll.question, options=options)
    if message.checklist is not None:
        title = say("said_checklist", language, title=message.checklist.title)
        tasks = (f"{'✅' if is_done(one) else '⬜'} {one.text}" for one in message.checklist.tasks)
        return "\n".join([title, *tasks])
    if message.sticker is not None and message.sticker.emoji:
        return message.sticker.emoji
    if message.dice is not None:
        return f"{message.dice.emoji} {message.dice.value}"
    return ""


def is_done(task: types.ChecklistTask) -> bool:
    """Return True if a task is done; Telegram may send 0 as the date of an open one."""
    return bool(task.completed_by_user or task.completed_by_chat or task.completion_date)


def _format_coordinates(location: types.Location) -> str:
    return f"{location.latitude:.{DECIMALS}f}, {location.longitude:.{DECIMALS}f}"


async def fetch_file(bot: Bot, file_id: str) -> bytes:
    """Download a file.

    Raises:
        DocumentError: It is too large for a bot, or Telegram does not have it (any more).
        DeliveryError: Telegram cannot be reached; worth a retry.
    """
    try:
        file = await bot.get_file(file_id, request_timeout=GET_TIMEOUT)
    except exceptions.TelegramBadRequest as error:
        if "too big" in error.message:
            raise DocumentError("too_large", "Telegram calls it too big") from error
        raise DocumentError("broken", "Telegram does not have the file") from error
    except exceptions.AiogramError as error:
        raise delivery_error(error) from error
    if file.file_path is None:
        raise DocumentError("broken", "Telegram does not say where the file is")
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
                    raise DocumentError("too_large", "more bytes than a bot may fetch")
                pieces.append(piece)
    except (exceptions.AiogramError, ClientConnectionError, ClientPayloadError, OSError) as error:
        raise DeliveryError(f"a file did not come ({type(error).__name__})") from error
    return b"".join(pieces)
