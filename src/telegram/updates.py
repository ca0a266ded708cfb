"""Classification of raw updates: pure functions from Telegram's JSON to ``NewUpdate``.

Any input may be malformed; aiogram parses it, or at least its essential fields. Updates without a
handler are not stored. Of a user who may not use the bot, only ids are stored, never content.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from aiogram import enums, types
from pydantic import ValidationError

from src.pg.client import storable
from src.queue.update_repo import NewUpdate, UpdateKind, WaitingUpdate
from src.talk.commands import COMMANDS, Command, parse_command
from src.telegram.incoming import CONTENT, replies_to, sender_id_of
from src.telegram.words import Json, gather_words
from src.texts.reply import Question

Fields = dict[str, Any]  # of a NewUpdate

MAX_ID = 2**52  # Telegram: ids have at most 52 significant bits
MAX_UPDATE_ID = 2**62
DISLIKE = "👎"
HALT = re.compile(r"halt:(\d{1,18})")  # data of the Stop button: the message that is answered
MESSAGES = ("message", "edited_message")
ASKED = "pomni_asked"  # key of a payload, which no update of Telegram has: see ``with_question``
MAX_DEPTH = 60  # nesting of an update; a genuine one has a fraction of it
MIGRATION_FIELDS = ("migrate_to_chat_id", "migrate_from_chat_id")


BOT_NAMES = ("Помни", "Pomni")  # as in /start; the vocative is the same form


@dataclass(frozen=True)
class BotIdentity:
    """The bot's identity in Telegram.

    Attributes:
        id: User id.
        username: Without the ``@``.
        name: Display name.
        reads_all: True if the bot receives every message of a group (privacy mode is off).
    """

    id: int
    username: str
    name: str = ""
    reads_all: bool = False

    def is_addressed(self, text: str) -> bool:
        """Return True if a text contains ``@username`` or begins with one of the bot's names."""
        if self.mention_pattern.search(text):
            return True
        return self.address_pattern.match(text) is not None

    @property
    def mention_pattern(self) -> re.Pattern[str]:
        """Pattern for ``@username``, but not in an e-mail address."""
        name = rf"@{re.escape(self.username)}\b"
        return re.compile(rf"(?:(?<!\w){name}|{name}(?!\.\w))[,:]?", re.IGNORECASE)

    @property
    def address_pattern(self) -> re.Pattern[str]:
        """Pattern for a name of the bot as an address at the beginning of a text: "Помни, ...".

        The names are the display name in Telegram and BOT_NAMES.
        """
        names = "|".join(re.escape(name) for name in (self.name, *BOT_NAMES) if name)
        return re.compile(rf"\s*(?:{names})\s*[,:!?—–-]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class AllowList:
    """The users and chats that may use the bot; all if ``allowed`` is empty."""

    allowed: frozenset[int] = frozenset()

    def permits(self, user_id: int | None, chat_id: int | None) -> bool:
        """Return True if this user, or any member of this chat, may use the bot."""
        return not self.allowed or user_id in self.allowed or chat_id in self.allowed


def classify(raw: Any, bot: BotIdentity, access: AllowList) -> NewUpdate | None:
    """Return the update in the form to store, or None if there is nothing to handle."""
    update_id = update_id_of(raw)
    if update_id is None:
        return None
    field = next((field for field in READERS if isinstance(raw.get(field), dict)), None)
    if field is None:
        return None
    content = _to_jsonb(raw[field])
    if field in MESSAGES:
        content = _readable(gather_words(content))
    try:
        update = types.Update.model_validate({"update_id": update_id, field: content})
        fields = READERS[field](getattr(update, field), bot)
        _check_ids(fields)
    except ValueError:  # ours, or pydantic's
        return None
    payload = {"update_id": update_id, field: fields.pop("content", content)}
    new_update = NewUpdate(update_id, payload=payload, **fields)
    is_move = new_update.kind == "member" and field == "message"
    if is_move or access.permits(new_update.user_id, new_update.chat_id):
        return new_update
    return _redact_stranger(new_update, field)


def replied_message(update: NewUpdate, bot: BotIdentity) -> tuple[int, int] | None:
    """Return chat and number of the bot's message to which an update replies, if any."""
    match update.payload:
        case {
            "message": {"reply_to_message": {"message_id": int(number), "from": {"id": bot.id}}}
        }:
            if abs(number) <= MAX_ID:
                return update.chat_id, number
    return None


def with_question(update: NewUpdate, question: Question | None) -> NewUpdate:
    """Return an update with the question that it answers, if any, in its payload."""
    if question is None:
        return update
    kind = update.kind
    if kind == "message":
        kind = "command"
        if question["asks"] == "correction":
            kind = "teach"
    return replace(update, kind=kind, payload={**update.payload, ASKED: question})


def asked_by_bot(stored: WaitingUpdate) -> Question:
    """Return the question that an update answers, empty if none."""
    return cast("Question", stored.payload.get(ASKED, {}))


def update_id_of(raw: Any) -> int | None:
    """Return Telegram's number of an update, or None without a valid one."""
    if isinstance(raw, dict) and type(raw.get("update_id")) is int:
        number: int = raw["update_id"]
        if abs(number) <= MAX_UPDATE_ID:
            return number
    return None


def _readable(message: Json) -> Json:
    """Return a message without the fields that aiogram refuses: some are newer than it."""
    refused = _refused_fields(message)
    readable = {field: value for field, value in message.items() if field not in refused}
    if not refused.isdisjoint(CONTENT):
        readable["unread"] = True  # content that is unknown gets an answer
    if "from" in refused:
        readable["from"] = _user(message.get("from"))
    if "forward_origin" in refused:  # the words stay those of others
        readable["forward_origin"] = {"type": "hidden_user", "date": 0, "sender_user_name": ""}
    if "reply_to_message" in refused and isinstance(message.get("reply_to_message"), dict):
        replied = _readable(message["reply_to_message"])
        if not _refused_fields(replied):
            readable["reply_to_message"] = replied
    return readable


def _refused_fields(message: Json) -> set[str | int]:
    try:
        types.Message.model_validate(message)
    except ValidationError as error:
        return {entry["loc"][0] for entry in error.errors() if entry["loc"]}
    return set()


def _check_ids(fields: Fields) -> None:
    if any(abs(one) > MAX_ID for one in fields.values() if isinstance(one, int)):
        raise UnhandledError


class UnhandledError(ValueError):
    """An update has no handler."""


# Readers by kind of update. They return the fields to store beside the payload; a ``content`` of
# these is stored in place of the original. They raise ``UnhandledError``.


def read_message(message: types.Message, bot: BotIdentity) -> Fields:
    """A command, a message to answer, a part of an album, or the move of a group."""
    if message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None:
        return _read_migration(message)
    command = command_of(message, bot)
    fields = _message_ids(message)
    # Something to answer, even if aiogram does not know it.
    is_unknown = message.content_type == enums.ContentType.UNKNOWN and bool(message.model_extra)
    has_content = is_unknown or any(getattr(message, field) for field in CONTENT)
    if command is not None:
        kind = _command_kind(message, command, bot)
        entry = COMMANDS.get(command.name)
        fields["at_once"] = kind == "command" and (entry is None or entry.is_at_once)
    elif not (has_content or text_of(message)):
        raise UnhandledError
    elif is_addressed(message, bot):
        kind = "message"
    elif message.media_group_id:
        kind = "media"
    else:
        raise UnhandledError
    group = message.media_group_id and message.media_group_id[:100]
    interrupts = kind in ("new", "stop")
    return {**fields, "kind": kind, "media_group_id": group, "interrupts": interrupts}


def _command_kind(message: types.Message, command: Command, bot: BotIdentity) -> UpdateKind:
    entry = COMMANDS.get(command.name)
    is_known = entry is not None or command.addressee or is_addressed(message, bot)
    if not (command.is_for(bot.username) and is_known):
        raise UnhandledError
    # In a group only admins may wipe it: check that before a running answer is interrupted.
    if entry is None or (entry.is_for_admins and message.chat.type != "private"):
        return "command"
    return entry.kind


def command_of(message: types.Message, bot: BotIdentity) -> Command | None:
    """Return the command at the beginning of a text or caption, or behind the bot's name there.

    Forwarded words order nothing.
    """
    if message.forward_origin is not None:
        return None
    text = text_of(message)
    name = bot.mention_pattern.match(text) or bot.address_pattern.match(text)
    if name is not None:
        text = text[name.end() :].lstrip()
    return parse_command(text)


def is_addressed(message: types.Message, bot: BotIdentity) -> bool:
    """Return True if a message is for the bot: by its place, as a reply, or by the bot's name."""
    if message.chat.type == "private" or replies_to(message, bot.id):
        return True
    entities = message.entities or message.caption_entities or ()
    is_linked = any(one.user is not None and one.user.id == bot.id for one in entities)
    return is_linked or bot.is_addressed(text_of(message))


def text_of(message: types.Message) -> str:
    """Return the text or the caption of a message, with all words (see ``gather_words``)."""
    return message.text or message.caption or ""


def _read_migration(message: types.Message) -> Fields:
    """The user who caused it is not stored."""
    ids = {field: getattr(message, field) for field in MIGRATION_FIELDS}
    moved = {field: chat_id for field, chat_id in ids.items() if chat_id is not None}
    chat_id, message_id = message.chat.id, message.message_id
    if any(one >= 0 for one in (chat_id, *moved.values())):
        raise UnhandledError
    _check_ids(moved)
    chat = {"id": chat_id, "type": "supergroup"}
    content = {"message_id": message_id, "date": 0, "chat": chat, **moved}
    fields = {"chat_id": chat_id, "message_id": message_id or None}
    return {"kind": "member", "content": content, **fields}


def read_edit(message: types.Message, _bot: BotIdentity) -> Fields:
    """An edit that leaves words."""
    if not text_of(message):
        raise UnhandledError
    return {"kind": "edit", **_message_ids(message)}


def read_callback(query: types.CallbackQuery, _bot: BotIdentity) -> Fields:
    """A pressed button; Stop interrupts."""
    if query.message is None:
        raise UnhandledError
    fields = {"kind": "callback", "at_once": True, **_ids(query.message, query.from_user.id)}
    stop = HALT.fullmatch(query.data or "")
    if stop is not None:
        fields |= {"interrupts": True, "draft_id": int(stop[1])}
    return fields


def read_member(change: types.ChatMemberUpdated, _bot: BotIdentity) -> Fields:
    """The bot was added, removed, blocked or unblocked."""
    return {"kind": "member", "chat_id": change.chat.id, "user_id": change.from_user.id}


def read_stop(stopped: types.MessageGenerationStopped, _bot: BotIdentity) -> Fields:
    """The stop of a draft; drafts exist in private chats only."""
    fields = {"chat_id": stopped.chat.id, "user_id": stopped.chat.id, "draft_id": stopped.draft_id}
    return {"kind": "other", **fields, "interrupts": True, "at_once": True}


def read_reaction(reaction: types.MessageReactionUpdated, _bot: BotIdentity) -> Fields:
    """A new dislike."""
    added = [one for one in reaction.new_reaction if one not in reaction.old_reaction]
    is_dislike = any(getattr(one, "emoji", None) == DISLIKE for one in added)
    if reaction.user is None or not is_dislike:
        raise UnhandledError
    fields = {"chat_id": reaction.chat.id, "user_id": reaction.user.id}
    return {"kind": "other", **fields, "message_id": reaction.message_id, "at_once": True}


READERS: Mapping[str, Callable[[Any, BotIdentity], Fields]] = {
    "message": read_message,
    "edited_message": read_edit,
    "callback_query": read_callback,
    "my_chat_member": read_member,
    "stopped_message_generation": read_stop,
    "message_reaction": read_reaction,
}
# Kinds of updates to request from Telegram; other kinds have no handler.
ALLOWED_UPDATES = list(READERS)


def _redact_stranger(update: NewUpdate, field: str) -> NewUpdate | None:
    content, fields = update.payload[field], Json()
    if field == "message" and update.kind != "media":
        chat = {"id": content["chat"]["id"], "type": content["chat"]["type"]}
        fields = {"message_id": update.message_id, "date": 0, "chat": chat}
    elif field == "callback_query":
        fields = {"id": content["id"], "chat_instance": "-"}
    else:
        return None
    return replace(
        update,
        kind="refused",
        payload={"update_id": update.update_id, field: fields | {"from": _user(content["from"])}},
        media_group_id=None,
        interrupts=False,
        draft_id=None,
        at_once=True,
    )


def _user(sender: Any) -> Json:
    """Return id and language, and placeholders for aiogram's required fields."""
    fields: Json = {"first_name": "-", "is_bot": False}
    if isinstance(sender, dict):
        known = ("id", "is_bot", "language_code")
        fields |= {field: sender[field] for field in known if field in sender}
    return fields


def _message_ids(message: types.Message) -> Fields:
    """Messages of bots are ignored; behind some of Telegram's bots a member writes as a chat."""
    sender = message.from_user
    if sender is None or (sender.is_bot and message.sender_chat is None):
        raise UnhandledError
    return _ids(message, sender_id_of(message))


def _ids(message: types.Message | types.InaccessibleMessage, sender: int) -> Fields:
    """The direct messages of a channel are one chat, in which each person has a topic apart."""
    chat = message.chat
    is_known = chat.type in ("private", "group", "supergroup") and not chat.is_direct_messages
    if message.message_id <= 0 or not (is_known and chat.id and sender):
        raise UnhandledError
    thread_id = 0
    if isinstance(message, types.Message) and message.is_topic_message:
        thread_id = message.message_thread_id or 0
    ids = {"chat_id": chat.id, "thread_id": thread_id, "user_id": sender}
    return {**ids, "message_id": message.message_id}


def _to_jsonb(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _to_jsonb(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_to_jsonb(entry, depth + 1) for entry in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_UPDATE_ID:
        return None
    return value
