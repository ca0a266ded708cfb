"""What a raw update is: pure functions from Telegram's JSON to ``NewUpdate``.

Whatever arrives here may be malformed; aiogram reads it, or its essence. An update that nobody
handles is not stored; of a user who may not use the bot only who and where is kept, never what
was written.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from aiogram import types
from pydantic import ValidationError

from src.memory.screens import corrected_by
from src.pg.client import storable
from src.queue.update_repo import NewUpdate, UpdateKind
from src.talk.command_service import COMMANDS, Command, parse_command
from src.talk.settings import asks_for_zone

Json = dict[str, Any]
Fields = dict[str, Any]  # of a NewUpdate

MAX_ID = 2**52  # Telegram: ids have at most 52 significant bits
MAX_UPDATE_ID = 2**62
GROUP_ANONYMOUS_BOT = 1087968824  # @GroupAnonymousBot
DISLIKE = "👎"
MAX_DEPTH = 60  # nesting of an update; a true one has a fraction of it
MEDIA = (
    "photo", "voice", "audio", "video", "video_note", "document", "sticker", "animation",
    "location", "venue", "contact", "poll", "dice", "story", "paid_media", "game", "checklist",
)  # fmt: skip
MIGRATION = ("migrate_to_chat_id", "migrate_from_chat_id")
ESSENTIAL = ("message_id", "date", "message_thread_id", "is_topic_message", *MIGRATION)


OWN_NAMES = ("Помни", "Pomni")  # as /start says it; they are their own vocative


@dataclass(frozen=True)
class BotIdentity:
    """Who we are in Telegram.

    Attributes:
        id: Our user id.
        username: Without the ``@``.
        name: What we are called.
        reads_all: Whether we are shown every message of a group (privacy mode is off).
    """

    id: int
    username: str
    name: str = ""
    reads_all: bool = False

    def is_called(self, text: str) -> bool:
        """Whether a text names us: ``@username`` anywhere, or one of our names as an address."""
        if re.search(rf"@{re.escape(self.username)}\b", text, re.IGNORECASE):
            return True
        return self.address.match(text) is not None

    @property
    def address(self) -> re.Pattern[str]:
        """A name of ours at the beginning of a text, as one addresses somebody: "Помни, ...".

        That is our name in Telegram, or what we call ourselves.
        """
        names = "|".join(re.escape(name) for name in (self.name, *OWN_NAMES) if name)
        return re.compile(rf"\s*(?:{names})\s*[,:!?—–-]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Access:
    """Who may use the bot; everybody when ``allowed`` is empty."""

    allowed: frozenset[int] = frozenset()

    def permits(self, user_id: int | None, chat_id: int | None) -> bool:
        """Whether this person, or everybody in this chat, may use the bot."""
        return not self.allowed or user_id in self.allowed or chat_id in self.allowed


def classify(raw: Any, bot: BotIdentity, access: Access) -> NewUpdate | None:
    """The update as it is stored, or None when there is nothing in it to handle."""
    update_id = update_id_of(raw)
    if update_id is None:
        return None
    update = _clean(raw)
    for field, read in _READERS.items():
        content = update.get(field)
        if isinstance(content, dict):
            event = _parsed(field, content)
            if event is None and field == "message":
                content = _essence(content)
                event = _parsed(field, content)
            fields = read(event, bot) if event is not None else None
            if fields is None or not _fits(fields):
                return None
            payload = {"update_id": update_id, field: fields.pop("content", content)}
            found = NewUpdate(update_id, payload=payload, **fields)
            is_move = found.kind == "member" and field == "message"
            is_permitted = is_move or access.permits(found.user_id, found.chat_id)
            return found if is_permitted else _refused(found, field)
    return None


def update_id_of(raw: Any) -> int | None:
    """Telegram's number of an update, or None when it has no valid one."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    return number if type(number) is int and abs(number) <= MAX_UPDATE_ID else None


def _parsed(field: str, content: Json) -> Any:
    """What aiogram makes of the content; None when it cannot read it."""
    with suppress(ValidationError, ValueError, TypeError, OverflowError, RecursionError):
        return getattr(types.Update.model_validate({"update_id": 0, field: content}), field)
    return None


def _fits(fields: Fields) -> bool:
    """Whether all numbers are such as Telegram has, or any database."""
    return all(abs(one) <= MAX_ID for one in fields.values() if isinstance(one, int))


# The readers: what is stored of an update beside its payload, or None when nobody handles it. A
# ``content`` among these fields is stored instead of what Telegram sent.


def _read_message(message: types.Message, bot: BotIdentity) -> Fields | None:
    if message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None:
        return _read_migration(message)
    place = _place(message, message.from_user)
    kind = _message_kind(message, bot) if place is not None and not _is_bot(message) else None
    if place is None or kind is None:
        return None
    return {
        **place,
        "kind": kind,
        "media_group_id": message.media_group_id and message.media_group_id[:100],
        "interrupts": kind in ("new", "stop"),
        "at_once": kind == "command" and _is_at_once(message.text or ""),
    }


def _is_at_once(text: str) -> bool:
    """Whether a command changes nothing, so that its reply need not wait for an answer."""
    command = parse_command(text)
    entry = COMMANDS.get(command.name) if command is not None else None
    return command is not None and (entry is None or entry.is_at_once)


def _message_kind(message: types.Message, bot: BotIdentity) -> UpdateKind | None:
    if message.text:
        kind = _text_kind(message, message.text, bot)
        return _answer_kind(message, bot) or kind if kind == "message" else kind
    if not any(getattr(message, field) for field in MEDIA):
        return None
    is_named = bool(message.caption) and bot.is_called(message.caption or "")
    if not (_is_private(message) or is_named or answered_by(message, bot.id)):
        return None
    # Without words it may turn out to be nothing that is answered; the parts of an album are one.
    return "message" if message.caption or message.media_group_id else "media"


def _answer_kind(message: types.Message, bot: BotIdentity) -> UpdateKind | None:
    """What a reply to one of our questions is, which gets an answer of its own."""
    asked = answered_by(message, bot.id)
    if asked is None or asked.text is None:
        return None
    if asks_for_zone(asked.text):
        return "command"
    return "teach" if corrected_by(asked.text) is not None else None


def _read_migration(message: types.Message) -> Fields | None:
    """Which chat became which; who caused it does not matter, and is not kept."""
    named = {field: getattr(message, field) for field in MIGRATION}
    moved = {field: chat_id for field, chat_id in named.items() if chat_id is not None}
    chat_id, message_id = message.chat.id, message.message_id
    if any(one >= 0 for one in (chat_id, *moved.values())) or not _fits(moved):
        return None
    chat = {"id": chat_id, "type": "supergroup"}
    content = {"message_id": message_id, "date": 0, "chat": chat, **moved}
    where = {"chat_id": chat_id, "message_id": message_id or None}
    return {"kind": "member", "content": content, **where}


def _text_kind(message: types.Message, text: str, bot: BotIdentity) -> UpdateKind | None:
    command = parse_command(text)
    if command is not None:
        return _command_kind(message, command, bot)
    if _is_private(message) or answered_by(message, bot.id) or bot.is_called(text):
        return "message"
    return None


def _command_kind(message: types.Message, command: Command, bot: BotIdentity) -> UpdateKind | None:
    """A command's kind; in a group, one that is unknown or another bot's is none of ours."""
    if not command.is_for(bot.username):
        return None
    entry = COMMANDS.get(command.name)
    if entry is not None:
        # In a group not everybody may wipe it: that is seen before an answer is given up for it.
        return "command" if entry.is_for_admins and not _is_private(message) else entry.kind
    addressed = _is_private(message) or command.addressee or answered_by(message, bot.id)
    return "command" if addressed else None


def answered_by(message: types.Message, bot_id: int) -> types.Message | None:
    """The message of the bot's to which this one replies."""
    answered = message.reply_to_message
    is_ours = answered and answered.from_user and answered.from_user.id == bot_id
    return answered if is_ours else None


def _read_edit(message: types.Message, _bot: BotIdentity) -> Fields | None:
    place = _place(message, message.from_user)
    if place is None or _is_bot(message) or not (message.text or message.caption):
        return None
    return {"kind": "edit", **place}


def _read_callback(query: types.CallbackQuery, _bot: BotIdentity) -> Fields | None:
    """A button; its message may be too old for Telegram to say more than where it stands."""
    place = _place(query.message, query.from_user) if query.message is not None else None
    return None if place is None else {"kind": "callback", **place, "at_once": True}


def _read_member(change: types.ChatMemberUpdated, _bot: BotIdentity) -> Fields | None:
    return {"kind": "member", "chat_id": change.chat.id, "user_id": change.from_user.id}


def _read_stop(stopped: types.MessageGenerationStopped, _bot: BotIdentity) -> Fields | None:
    """The Stop button of a draft; drafts exist in private chats only."""
    where = {"chat_id": stopped.chat.id, "user_id": stopped.chat.id, "draft_id": stopped.draft_id}
    return {"kind": "other", **where, "interrupts": True, "at_once": True}


def _read_reaction(reaction: types.MessageReactionUpdated, _bot: BotIdentity) -> Fields | None:
    """A dislike; an anonymous reaction is nobody's."""
    is_dislike = any(getattr(one, "emoji", None) == DISLIKE for one in reaction.new_reaction)
    if reaction.user is None or not is_dislike:
        return None
    where = {"chat_id": reaction.chat.id, "user_id": reaction.user.id}
    return {"kind": "other", **where, "message_id": reaction.message_id, "at_once": True}


_READERS: Mapping[str, Callable[[Any, BotIdentity], Fields | None]] = {
    "message": _read_message,
    "edited_message": _read_edit,
    "callback_query": _read_callback,
    "my_chat_member": _read_member,
    "stopped_message_generation": _read_stop,
    "message_reaction": _read_reaction,
}
# What Telegram is asked to send; the other kinds of updates have no handler.
ALLOWED_UPDATES = list(_READERS)


def _refused(update: NewUpdate, field: str) -> NewUpdate | None:
    """A stranger's message or tap without what was written: only what the refusal needs."""
    content, kept = update.payload[field], Json()
    if field == "message":
        kept = {"message_id": update.message_id, "date": 0, "chat": _only(content["chat"], "type")}
    elif field == "callback_query":
        kept = {"id": content["id"], "chat_instance": "-"}
    else:
        return None
    payload = {"update_id": update.update_id, field: {**kept, "from": _person(content["from"])}}
    return replace(
        update, kind="refused", payload=payload, media_group_id=None, interrupts=False,
        draft_id=None, at_once=True,
    )  # fmt: skip


def _essence(message: Json) -> Json:
    """What of a message is understood in any case; a caption counts as its text."""
    kept = {field: message[field] for field in ESSENTIAL if field in message}
    if text := message.get("text") or message.get("caption"):
        kept["text"] = text
    kept |= {"chat": _only(message.get("chat"), "type"), "from": _person(message.get("from"))}
    answered = message.get("reply_to_message")
    sender = _person(answered.get("from")) if isinstance(answered, dict) else {}
    if type(sender.get("id")) is int:
        kept["reply_to_message"] = {**kept, "from": sender}
    return kept


def _person(sender: Any) -> Json:
    """A user by their id; of the rest only what aiogram wants, or the language."""
    found = {"first_name": "-", "is_bot": False, **_only(sender, "is_bot")}
    language = sender.get("language_code") if isinstance(sender, dict) else None
    return found | ({"language_code": language[:16]} if isinstance(language, str) else {})


def _only(value: Any, field: str) -> Json:
    """The id of a user or a chat, and another field."""
    fields = ("id", field)
    return {one: value[one] for one in fields if one in value} if isinstance(value, dict) else {}


def _place(
    message: types.Message | types.InaccessibleMessage, sender: types.User | None
) -> Fields | None:
    """Where a message stands, or None when it does not say."""
    chat = message.chat
    if sender is None or message.message_id <= 0 or not (chat.id and sender.id):
        return None
    if chat.type not in ("private", "group", "supergroup"):
        return None
    thread_id = 0
    if isinstance(message, types.Message) and message.is_topic_message:
        thread_id = message.message_thread_id or 0
    ids = {"chat_id": chat.id, "thread_id": thread_id, "user_id": sender.id}
    return {**ids, "message_id": message.message_id}


def _is_private(message: types.Message) -> bool:
    return message.chat.type == "private"


def _is_bot(message: types.Message) -> bool:
    """Whether a bot wrote it; a group's anonymous admins write through one of Telegram's."""
    sender = message.from_user
    return sender is not None and sender.is_bot and sender.id != GROUP_ANONYMOUS_BOT


def _clean(value: Any, depth: int = 0) -> Any:
    """The JSON value as PostgreSQL's jsonb can hold it."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _clean(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_clean(entry, depth + 1) for entry in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_UPDATE_ID:
        return None
    return value
