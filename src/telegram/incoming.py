"""Incoming messages: author and provenance of their words, download of their files."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from aiogram import Bot, exceptions, types
from aiohttp import ClientError, ClientResponseError

from src.base.errors import DeliveryError, DocumentError
from src.base.owners import Caller
from src.media.document_reader import MAX_BYTES
from src.queue.update_repo import WaitingUpdate
from src.reading.gate import Provenance, Voice, clean_name, clean_quote
from src.talk.turn_state import TurnControl
from src.telegram.content import describe
from src.telegram.entities import utf16_length
from src.telegram.requests import delivery_error
from src.texts import Language

FETCH_TIMEOUT = 120  # seconds for 20 MB
# Characters of a full message: Telegram splits a longer paste, and gives Premium users no more.
FULL_MESSAGE = 4000  # UTF-16 units, of 4,096; a cut keeps words whole


@dataclass(frozen=True)
class Context:
    """Context of an update for its handlers.

    Attributes:
        stored: The stored row.
        caller: Its sender.
        control: Control of its answer.
    """

    stored: WaitingUpdate
    caller: Caller
    control: TurnControl


def looks_like_part(stored: WaitingUpdate) -> bool:
    """Return True if a message may come with others: of an album, a forward, a full message."""
    message = stored.payload.get("message", {})
    is_full = utf16_length(str(message.get("text", ""))) >= FULL_MESSAGE
    return stored.media_group_id is not None or "forward_origin" in message or is_full


def may_be_comment(message: types.Message) -> bool:
    """Return True if a message may be the comment to a forward that comes after it."""
    is_reply = message.reply_to_message is not None or message.external_reply is not None
    is_private = message.chat.type == "private"
    return is_private and not is_reply


def read_voice(message: types.Message, language: Language) -> Voice:
    """Return provenance and speaker of a message's text, and the content that it replies to.

    Content without words is described in ``language``.
    """
    provenance: Provenance = "typed"
    origin = None
    if message.forward_origin is not None:
        provenance, origin = "forwarded", forward_author(message.forward_origin)[1]
    elif message.via_bot is not None:
        provenance, origin = "bot", message.via_bot.full_name
    quoted = clean_quote(_quoted_text(message, language))
    speaker, sender = None, sender_of(message)
    if message.chat.type != "private" and sender is not None:
        speaker = clean_name(sender.full_name)
    return Voice(
        provenance=provenance,
        speaker=speaker,
        origin=clean_name(origin),
        quoted=quoted,
        quoted_author_id=replied_author_id(message) if quoted else None,
    )


def sender_of(message: types.Message) -> types.User | types.Chat | None:
    """Return the sender of a message.

    A member may write as a channel, an admin as the group: then it is that chat, since Telegram
    names one and the same bot as the user for all of them.
    """
    if message.sender_chat is not None and message.chat.type != "private":
        return message.sender_chat
    return message.from_user


def sender_id_of(message: types.Message) -> int:
    """Return the id of a message's sender, 0 if it has none."""
    return int(getattr(sender_of(message), "id", 0))


def forward_author(origin: types.MessageOriginUnion | None) -> tuple[int | None, str | None]:
    """Return id and name of a forwarded message's author; a hidden user has no id."""
    for field in ("sender_user", "sender_chat", "chat"):
        author = getattr(origin, field, None)
        if author is not None:
            return author.id, author.full_name
    return None, getattr(origin, "sender_user_name", None)


def _quoted_text(message: types.Message, language: Language) -> str:
    """Return the quoted part of the replied-to text, or all of it."""
    if message.quote is not None:
        return message.quote.text
    replied = message.reply_to_message
    target = replied or message.external_reply
    if target is None:
        return ""
    words = ""
    if replied is not None:
        words = replied.text or replied.caption or ""
    return words or _chosen_entry(message, target) or describe(target, language)


def _chosen_entry(message: types.Message, target: types.Message | types.ExternalReplyInfo) -> str:
    """Return the task of a checklist or the option of a poll to which a message replies."""
    entries: dict[int | str | None, str] = {}
    if target.checklist is not None:
        entries = {task.id: task.text for task in target.checklist.tasks}
    elif target.poll is not None:
        entries = {option.persistent_id: option.text for option in target.poll.options}
    chosen = message.reply_to_checklist_task_id or message.reply_to_poll_option_id
    return entries.get(chosen, "")


def replied_author_id(message: types.Message) -> int | None:
    """Return the author of what a message replies to, if it replies and the author is known."""
    replied = message.reply_to_message
    if replied is not None:
        return forward_author(replied.forward_origin)[0] or sender_id_of(replied) or None
    return forward_author(getattr(message.external_reply, "origin", None))[0]


async def fetch_file(bot: Bot, file_id: str) -> bytes:
    """Download a file.

    Raises:
        DocumentError: It is too large for a bot, or Telegram does not have it (any more).
        DeliveryError: Telegram cannot be reached; worth a retry.
    """
    try:
        file = await bot.get_file(file_id)
    except exceptions.TelegramBadRequest as error:
        if "too big" in str(error):
            raise DocumentError("too_large", "Telegram calls it too big") from error
        raise DocumentError("broken", "Telegram does not have the file") from error
    except exceptions.AiogramError as error:
        raise delivery_error(error) from error
    if file.file_path is None:
        raise DocumentError("broken", "Telegram does not say where the file is")
    if (file.file_size or 0) > MAX_BYTES:
        raise DocumentError("too_large", "more bytes than a bot may fetch")
    try:
        async with asyncio.timeout(FETCH_TIMEOUT):
            content = await bot.download_file(file.file_path, timeout=FETCH_TIMEOUT)
    except (exceptions.AiogramError, ClientError, OSError) as error:
        if isinstance(error, ClientResponseError) and error.status == HTTPStatus.NOT_FOUND:
            raise DocumentError("broken", "the file is not where Telegram says it is") from error
        raise DeliveryError(f"a file did not come ({type(error).__name__})") from error
    assert content is not None
    return content.read()
