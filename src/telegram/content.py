"""Content of messages: words, files, what is described and what a sentence tells of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiogram import types

from src.media.attachments import Attachment, AttachmentKind
from src.texts import Language, say
from src.texts.plain_text import is_visible

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
