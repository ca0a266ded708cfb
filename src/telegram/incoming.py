"""Incoming messages: their content, author and provenance of their words, download of their files.

The content is words, files, what is described and what a sentence tells of.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiogram import Bot, exceptions, types
from aiohttp import ClientError, ClientResponseError

from src.base.errors import DeliveryError, DocumentError
from src.base.owners import Caller
from src.media.attachments import Attachment, AttachmentKind
from src.media.document_reader import MAX_BYTES
from src.queue.update_repo import WaitingUpdate
from src.reading.gate import Provenance, Voice, clean_name, clean_quote
from src.talk.turn_state import TurnControl
from src.telegram.rendering import utf16_length
from src.telegram.requests import delivery_error
from src.texts import Language, say
from src.texts.plain_text import is_visible

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
    sender = sender_of(message)
    if sender is None:
        return 0
    return sender.id


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
    # The task of a checklist or the option of a poll to which it replies.
    entries: dict[int | str | None, str] = {}
    if target.checklist is not None:
        entries = {task.id: task.text for task in target.checklist.tasks}
    elif target.poll is not None:
        entries = {option.persistent_id: option.text for option in target.poll.options}
    chosen = message.reply_to_checklist_task_id or message.reply_to_poll_option_id
    return words or entries.get(chosen, "") or describe(target, language)


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


# Content of messages.

LARGEST_SIDE = 1600  # pixels; models scale larger pictures down but charge for them
DECIMALS = 5  # decimals of a coordinate: a metre

FILES: Mapping[str, tuple[AttachmentKind, str]] = {  # kind and default name
    "voice": ("sound", "voice.ogg"),
    "video_note": ("sound", "video_note.mp4"),
    "audio": ("sound", "audio.mp3"),
    "video": ("sound", "video.mp4"),
    "document": ("document", "file"),
}
UNREADABLE = "cannot_read"  # the sentence about anything else
UNSEEN: Mapping[str, str] = {  # the sentence says so
    "story": "unseen_story",
    "animation": "unseen_animation",
    "paid_media": "unseen_paid_media",
    "sticker": "unseen_sticker",
}


@dataclass(frozen=True)
class Content:
    """Content of a message to answer.

    Attributes:
        text: The sender's words: text or caption, and what else the message says.
        attachment: The file to read, if any.
        is_replied: True if the file belongs to the message that is replied to.
        problem: Sentence about content that cannot be read.
    """

    text: str = ""
    attachment: Attachment | None = None
    is_replied: bool = False
    problem: str = ""


def read_content(message: types.Message, bot_id: int, language: Language) -> Content:
    """Return the content of a message; of one without a file, the file that it replies to.

    The bot's own files (an export) are not read. A text without a visible character is none.
    """
    described = describe(message, language)
    words = (message.text or message.caption or "").strip()
    if not is_visible(words):
        words = ""
    text = "\n".join(filter(None, (words, described)))
    attachment = _find_attachment(message)
    if attachment is not None:
        return Content(text, attachment)
    key = _find_unseen(message, described)
    if not key and not text:
        key = UNREADABLE
    elif not key and message.reply_to_story is not None:
        key = UNSEEN["story"]
    target = message.reply_to_message or message.external_reply
    if not key and target is not None and not replies_to(message, bot_id):
        attachment = _find_attachment(target)
        if attachment is not None:
            return Content(text, attachment, is_replied=True)
        key = _find_unseen(target, describe(target, language))
    return Content(text, problem=say(key, language) if key else "")


def _find_unseen(message: types.Message | types.ExternalReplyInfo, described: str) -> str:
    """Return the key of the sentence about content that the bot cannot see; "" for none."""
    if described:
        return ""
    return next((key for field, key in UNSEEN.items() if getattr(message, field)), "")


def replies_to(message: types.Message, user_id: int) -> bool:
    """Return True if a message replies to one of that user."""
    answered = message.reply_to_message
    if answered is None or answered.from_user is None:
        return False
    return answered.from_user.id == user_id


def _find_attachment(message: types.Message | types.ExternalReplyInfo) -> Attachment | None:
    sizes = _picture_sizes(message)
    if sizes:
        usable = [size for size in sizes if max(size.width, size.height) <= LARGEST_SIDE]
        photo = max(usable or sizes[:1], key=lambda size: size.width * size.height)
        return Attachment("picture", photo.file_id, photo.file_size or 0, "photo.jpg")
    for field, (kind, name) in FILES.items():
        file = getattr(message, field)
        if file is not None and message.animation is None:
            file_name = getattr(file, "file_name", None) or name
            return Attachment(kind, file.file_id, file.file_size or 0, file_name)
    return None


def _picture_sizes(message: types.Message | types.ExternalReplyInfo) -> list[types.PhotoSize]:
    if message.photo:
        return message.photo
    if message.live_photo is not None:
        return message.live_photo.photo or []
    if message.paid_media is not None:
        for media in message.paid_media.paid_media:
            if isinstance(media, types.PaidMediaPhoto):
                return media.photo
    return []


def describe(message: types.Message | types.ExternalReplyInfo, language: Language) -> str:
    """Return what a message says without a text: a place, a contact, a poll, ...; "" for none."""
    for field, describer in DESCRIBERS.items():
        value = getattr(message, field, None)
        if value is not None:
            return describer(value, language)
    return ""


def _describe_audio(audio: types.Audio, _language: Language) -> str:
    name = " — ".join(filter(None, (audio.performer, audio.title)))
    return f"🎵 {name}" if name else ""


def _describe_venue(venue: types.Venue, language: Language) -> str:
    place = f"{venue.title}, {venue.address}"
    return say("said_venue", language, place=place, at=_format_coordinates(venue.location))


def _format_coordinates(location: types.Location) -> str:
    return f"{location.latitude:.{DECIMALS}f}, {location.longitude:.{DECIMALS}f}"


def _describe_contact(contact: types.Contact, language: Language) -> str:
    name = " ".join(filter(None, (contact.first_name, contact.last_name)))
    return say("said_contact", language, name=name, phone=contact.phone_number)


def _describe_poll(poll: types.Poll, language: Language) -> str:
    """The right options of a quiz are marked, as far as Telegram tells them."""
    right = poll.correct_option_ids or []
    options = "; ".join(
        f"{option.text} ✅" if number in right else option.text
        for number, option in enumerate(poll.options)
    )
    question = " ".join(filter(None, (poll.question, poll.description)))
    text = say("said_poll", language, question=question, options=options)
    return "\n".join(filter(None, (text, poll.explanation)))


def _describe_checklist(checklist: types.Checklist, language: Language) -> str:
    title = say("said_checklist", language, title=checklist.title)
    tasks = (f"{'✅' if is_done(one) else '⬜'} {one.text}" for one in checklist.tasks)
    return "\n".join([title, *tasks])


def is_done(task: types.ChecklistTask) -> bool:
    """Return True if a task is done; Telegram may send 0 as the date of an open one."""
    return bool(task.completed_by_user or task.completed_by_chat or task.completion_date)


def _describe_giveaway(
    giveaway: types.Giveaway | types.GiveawayWinners, language: Language
) -> str:
    prize = giveaway.prize_description or "🎁"
    text = say("said_giveaway", language, prize=prize, count=giveaway.winner_count)
    winners = ", ".join(user.full_name for user in getattr(giveaway, "winners", ()))
    return " ".join(filter(None, (text, winners)))


def _describe_gift(gift: types.GiftInfo | types.UniqueGiftInfo, language: Language) -> str:
    name = gift.gift.name if isinstance(gift, types.UniqueGiftInfo) else gift.gift.sticker.emoji
    return say("said_gift", language, text=" ".join(filter(None, (name, gift.text))))


# A venue has a location too, so it comes first.
DESCRIBERS: Mapping[str, Callable[[Any, Language], str]] = {
    "venue": _describe_venue,
    "audio": _describe_audio,
    "location": lambda one, language: say("said_location", language, at=_format_coordinates(one)),
    "contact": _describe_contact,
    "poll": _describe_poll,
    "checklist": _describe_checklist,
    "sticker": lambda sticker, _: sticker.emoji or "",
    "dice": lambda dice, _: f"{dice.emoji} {dice.value}",
    "game": lambda game, _: f"🎮 {game.title}: {game.description}\n{game.text or ''}".strip(),
    "invoice": lambda bill, _: f"🧾 {bill.title}: {bill.description} ({bill.currency})",
    "giveaway": _describe_giveaway,
    "giveaway_winners": _describe_giveaway,
    "gift": _describe_gift,
    "unique_gift": _describe_gift,
}

# A message with one of these fields is answered. The table of all fields stands in
# ``tests/unit/telegram/test_message_words.py``.
CONTENT = frozenset({*FILES, *DESCRIBERS, *UNSEEN, "photo", "live_photo"})
