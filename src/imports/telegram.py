"""Reader of Telegram Desktop's ``result.json``, of one chat or of all."""

from dataclasses import replace
from functools import partial
from typing import Any

from src.imports.files import walk_json
from src.imports.records import (
    Broken,
    Opened,
    Reading,
    Record,
    Records,
    read_moment,
    read_or_name,
    title_of,
)

LISTS = ("", "chats.list.item.", "left_chats.list.item.")  # prefixes of a chat
MESSAGES = frozenset(f"{prefix}messages.item" for prefix in LISTS)
FIELDS = frozenset(f"{prefix}{field}" for prefix in LISTS for field in ("name", "type", "id"))
OTHERS = ("forwarded_from", "forwarded_from_id", "saved_from", "via_bot")


def read(file: Opened, reading: Reading) -> Records:
    """Yield what people wrote themselves; only the user's, if the file tells who that is.

    Otherwise ``who`` names each writer, and ``details`` has the name.
    """
    own, chat = f"user{reading.user_id}", dict[str, Any]()
    for prefix, value in walk_json(file, MESSAGES):
        if isinstance(value, Broken):
            yield value
        elif prefix == "personal_information.user_id":
            own = f"user{value}"
        elif prefix in MESSAGES:
            read_one = partial(_read_message, chat=chat, own=own, reading=reading)
            yield from read_or_name(read_one, value, title_of(chat.get("name")) or "?")
        elif prefix in FIELDS:
            field = prefix.rpartition(".")[2]
            if field == "name" or field in chat:  # the next chat; Saved Messages has no name
                chat = {}
            chat[field] = value


def _read_message(
    message: dict[str, Any], chat: dict[str, Any], own: str, reading: Reading
) -> Records:
    """Yield a message if its sender wrote it."""
    if message.get("type", "message") != "message" or any(key in message for key in OTHERS):
        return
    text, sender = _join(message.get("text")), message.get("from_id")
    if isinstance(sender, int):  # exports until 2021
        sender = f"user{sender & 0xFFFFFFFF}"
    if not text or not str(sender).startswith("user"):  # a channel, or nobody
        return
    said_at = read_moment(message.get("date_unixtime"))
    said_at = said_at or read_moment(message["date"], reading.time_zone)
    title = title_of(chat.get("name"))
    chat_id = str(chat.get("id", title))
    if chat.get("type") == "saved_messages" and not title:
        title = "Saved Messages"
    source_id, name = f"{chat_id}:{message['id']}", title_of(message.get("from"))
    record = Record("telegram", chat_id, title, source_id, text, said_at)
    if sender != own:
        record = replace(record, who=str(sender), details={"name": name} if name else {})
    yield record


def _join(text: Any) -> str:
    """Return a text that is a string, or a list of strings and of objects with a text."""
    parts = text if isinstance(text, list) else [text]
    words = []
    for part in parts:
        word = part.get("text") if isinstance(part, dict) else part
        if isinstance(word, str):
            words.append(word)
    return "".join(words).strip()
