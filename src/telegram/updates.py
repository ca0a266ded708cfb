"""What a raw update is: pure functions from Telegram's JSON to ``NewUpdate``.

Whatever arrives here may be malformed. An update that nobody handles is not stored; of a user
who may not use the bot only who and where is kept, never what was written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aiogram.types import Update
from pydantic import ValidationError

from src.memory.screens import corrected_by
from src.pg.client import storable
from src.queue.update_repo import NewUpdate, UpdateKind
from src.talk.command_service import COMMANDS, Command, parse_command
from src.talk.settings import asks_for_zone

Json = Mapping[str, Any]
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
ESSENTIAL = ("message_id", "date", "text", "message_thread_id", "is_topic_message")


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
    if update_id is None or not isinstance(raw, dict):
        return None
    update = _clean(raw)
    for field, read in _READERS.items():
        content = update.get(field)
        if isinstance(content, dict):
            fields = read(content, bot)
            if fields is None:
                return None
            payload = {"update_id": update_id, field: fields.pop("content", content)}
            return _validated(NewUpdate(update_id, payload=payload, **fields), content, access)
    return None


def update_id_of(raw: Any) -> int | None:
    """Telegram's number of an update, or None when it has no valid one."""
    return _integer(raw.get("update_id"), MAX_UPDATE_ID) if isinstance(raw, dict) else None


# The readers: what is stored of an update beside its payload, or None when nobody handles it. A
# ``content`` among these fields is stored instead of what Telegram sent.


def _read_message(message: Json, bot: BotIdentity) -> Fields | None:
    if _is_migration(message):
        return _read_migration(message)
    place = _place(message)
    kind = _message_kind(message, bot) if place is not None and not _is_bot(message) else None
    if place is None or kind is None:
        return None
    album = message.get("media_group_id")
    return {
        **place,
        "kind": kind,
        "media_group_id": album[:100] if isinstance(album, str) else None,
        "interrupts": kind in ("new", "stop"),
        "at_once": kind == "command" and _is_at_once(message),
    }


def _is_at_once(message: Json) -> bool:
    """Whether a command changes nothing, so that its reply need not wait for an answer."""
    command = parse_command(message["text"])
    entry = COMMANDS.get(command.name) if command is not None else None
    return command is not None and (entry is None or entry.is_at_once)


def _message_kind(message: Json, bot: BotIdentity) -> UpdateKind | None:
    text = message.get("text")
    if isinstance(text, str) and text:
        kind = _text_kind(message, text, bot)
        return _answer_kind(message, bot) or kind if kind == "message" else kind
    if not any(message.get(field) for field in MEDIA):
        return None
    caption = message.get("caption")
    has_words = isinstance(caption, str) and bool(caption)
    is_named = has_words and bot.is_called(str(caption))
    if not (_is_private(message) or is_named or _answers(message, bot)):
        return None
    # Without words it may turn out to be nothing that is answered; the parts of an album are one.
    return "message" if has_words or message.get("media_group_id") else "media"


def _answer_kind(message: Json, bot: BotIdentity) -> UpdateKind | None:
    """What a reply to one of our questions is, which gets an answer of its own."""
    answered = message.get("reply_to_message")
    asked = answered.get("text") if isinstance(answered, dict) else None
    if not isinstance(asked, str) or not _answers(message, bot):
        return None
    if asks_for_zone(asked):
        return "command"
    return "teach" if corrected_by(asked) is not None else None


def _is_migration(message: Any) -> bool:
    """Whether it says that a group became a supergroup; Telegram itself writes such a message."""
    return isinstance(message, dict) and any(
        _integer(message.get(field), MAX_ID) is not None for field in MIGRATION
    )


def _read_migration(message: Json) -> Fields | None:
    """Which chat became which; who caused it does not matter, and is not kept."""
    chat_id = _id_of(message.get("chat"))
    if chat_id is None or chat_id > 0:
        return None
    moved = _only(message, MIGRATION)
    if any(_integer(other, MAX_ID) is None or other >= 0 for other in moved.values()):
        return None
    message_id = _integer(message.get("message_id"), MAX_ID) or 0
    chat = {"id": chat_id, "type": "supergroup"}
    content = {"message_id": message_id, "date": 0, "chat": chat, **moved}
    where = {"chat_id": chat_id, "message_id": message_id or None}
    return {"kind": "member", "content": content, **where}


def _text_kind(message: Json, text: str, bot: BotIdentity) -> UpdateKind | None:
    command = parse_command(text)
    if command is not None:
        return _command_kind(message, command, bot)
    if _is_private(message) or _answers(message, bot) or bot.is_called(text):
        return "message"
    return None


def _command_kind(message: Json, command: Command, bot: BotIdentity) -> UpdateKind | None:
    """A command's kind; in a group, one that is unknown or another bot's is none of ours."""
    if not command.is_for(bot.username):
        return None
    entry = COMMANDS.get(command.name)
    if entry is not None:
        # In a group not everybody may wipe it: that is seen before an answer is given up for it.
        return "command" if entry.is_for_admins and not _is_private(message) else entry.kind
    addressed = _is_private(message) or command.addressee or _answers(message, bot)
    return "command" if addressed else None


def _answers(message: Json, bot: BotIdentity) -> bool:
    answered = message.get("reply_to_message")
    sender = answered.get("from") if isinstance(answered, dict) else None
    return isinstance(sender, dict) and sender.get("id") == bot.id


def _read_edit(message: Json, _bot: BotIdentity) -> Fields | None:
    place = _place(message)
    text = message.get("text") or message.get("caption")
    if place is None or _is_bot(message) or not isinstance(text, str) or not text:
        return None
    return {"kind": "edit", **place}


def _read_callback(query: Json, _bot: BotIdentity) -> Fields | None:
    """A button; its message may be too old for Telegram to say more than where it stands."""
    message = query.get("message")
    place = _place({**message, "from": query.get("from")}) if isinstance(message, dict) else None
    if place is None or not isinstance(query.get("id"), str):
        return None
    return {"kind": "callback", **place, "at_once": True}


def _read_member(change: Json, _bot: BotIdentity) -> Fields | None:
    chat_id, user_id = _id_of(change.get("chat")), _id_of(change.get("from"))
    if chat_id is None or user_id is None:
        return None
    return {"kind": "member", "chat_id": chat_id, "user_id": user_id}


def _read_stop(stopped: Json, _bot: BotIdentity) -> Fields | None:
    """The Stop button of a draft; drafts exist in private chats only."""
    chat_id = _id_of(stopped.get("chat"))
    draft_id = _integer(stopped.get("draft_id"), MAX_ID)
    if chat_id is None or draft_id is None:
        return None
    where = {"chat_id": chat_id, "user_id": chat_id, "draft_id": draft_id}
    return {"kind": "other", **where, "interrupts": True, "at_once": True}


def _read_reaction(reaction: Json, _bot: BotIdentity) -> Fields | None:
    """A dislike; an anonymous reaction is nobody's."""
    chat_id, user_id = _id_of(reaction.get("chat")), _id_of(reaction.get("user"))
    message_id = _integer(reaction.get("message_id"), MAX_ID)
    new = reaction.get("new_reaction")
    if chat_id is None or user_id is None or not message_id or not isinstance(new, list):
        return None
    if not any(isinstance(one, dict) and one.get("emoji") == DISLIKE for one in new):
        return None
    where = {"chat_id": chat_id, "user_id": user_id, "message_id": message_id}
    return {"kind": "other", **where, "at_once": True}


_READERS = {
    "message": _read_message,
    "edited_message": _read_edit,
    "callback_query": _read_callback,
    "my_chat_member": _read_member,
    "stopped_message_generation": _read_stop,
    "message_reaction": _read_reaction,
}
# What Telegram is asked to send; the other kinds of updates have no handler.
ALLOWED_UPDATES = list(_READERS)


def _validated(update: NewUpdate, content: Json, access: Access) -> NewUpdate | None:
    """The update, if aiogram can read it; else its essence; strangers' without content."""
    message = update.payload.get("message")
    if not access.permits(update.user_id, update.chat_id) and not _is_migration(message):
        is_told = update.kind != "member" and (message or update.kind == "callback")
        return _refused(update) if is_told else None
    if _is_readable(update.payload):
        return update
    if update.kind not in ("message", "command", "new", "stop"):
        return None
    return _with_message(update, _essence(content, ESSENTIAL))


def _refused(update: NewUpdate) -> NewUpdate | None:
    """A stranger's message or tap without what was written: only what the refusal needs."""
    refused = replace(
        update, kind="refused", media_group_id=None, interrupts=False, draft_id=None, at_once=True
    )
    if query := update.payload.get("callback_query"):
        sender = _essence({**query, "chat": {}}, ())["from"]
        tap = {"id": query["id"], "from": sender, "chat_instance": "-"}
        payload = {"update_id": update.update_id, "callback_query": tap}
        return replace(refused, payload=payload) if _is_readable(payload) else None
    kept = {"date": 0, **_essence(update.payload["message"], ("message_id",))}
    return _with_message(refused, kept)


def _essence(message: Json, fields: tuple[str, ...]) -> dict[str, Any]:
    """Some fields of a message, and of its chat and sender what tells where and who."""
    sender = {"first_name": "-", "is_bot": False, "id": message["from"]["id"]}
    language = message["from"].get("language_code")
    if isinstance(language, str):
        sender["language_code"] = language[:16]
    chat = _only(message["chat"], ("id", "type"))
    return {**_only(message, fields), "chat": chat, "from": sender}


def _with_message(update: NewUpdate, message: dict[str, Any]) -> NewUpdate | None:
    payload = {"update_id": update.update_id, "message": message}
    return replace(update, payload=payload) if _is_readable(payload) else None


def _is_readable(payload: dict[str, Any]) -> bool:
    try:
        Update.model_validate(payload)
    except (ValidationError, ValueError, TypeError, OverflowError, RecursionError):
        return False
    return True


def _place(message: Json) -> Fields | None:
    """Where a message stands, or None when it does not say."""
    chat, sender = message.get("chat"), message.get("from")
    chat_id, user_id = _id_of(chat), _id_of(sender)
    message_id = _integer(message.get("message_id"), MAX_ID)
    if chat_id is None or user_id is None or not message_id or message_id < 0:
        return None
    if not isinstance(chat, dict) or chat.get("type") not in ("private", "group", "supergroup"):
        return None
    thread_id = 0
    if message.get("is_topic_message") is True:
        thread_id = _integer(message.get("message_thread_id"), MAX_ID) or 0
    ids = {"chat_id": chat_id, "thread_id": thread_id, "user_id": user_id}
    return {**ids, "message_id": message_id}


def _id_of(value: Any) -> int | None:
    """The id of a user or chat; zero is none."""
    return _integer(value.get("id"), MAX_ID) or None if isinstance(value, dict) else None


def _is_private(message: Json) -> bool:
    return bool(message["chat"].get("type") == "private")


def _is_bot(message: Json) -> bool:
    """Whether a bot wrote it; a group's anonymous admins write through one of Telegram's."""
    sender = message.get("from")
    if not isinstance(sender, dict) or sender.get("id") == GROUP_ANONYMOUS_BOT:
        return False
    return sender.get("is_bot") is True


def _integer(value: Any, limit: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > limit:
        return None
    return value


def _only(value: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: value[field] for field in fields if field in value}


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
