"""Chats and messages of the fake Telegram."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.telegram_types import ApiError, Draft, Json, SentMessage, bad_request


@dataclass
class TelegramState:
    """State that survives a restart of the listener."""

    bot_id: int = 42
    username: str = "pomni_test_bot"
    next_message_id: int = 1
    next_callback_id: int = 1
    sent: list[SentMessage] = field(default_factory=list)
    sent_by_chat: dict[int, list[SentMessage]] = field(default_factory=lambda: defaultdict(list))
    sent_by_key: dict[tuple[int, int], SentMessage] = field(default_factory=dict)
    messages: dict[tuple[int, int], Json] = field(default_factory=dict)
    chats: dict[int, Json] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    closed: set[tuple[int, int]] = field(default_factory=set)  # topics, 0 is the general one
    deleted_topics: set[tuple[int, int]] = field(default_factory=set)
    refusals: dict[int, ApiError] = field(default_factory=dict)  # of sends, by chat
    is_modern: bool = True  # it knows disabled buttons and ephemeral messages
    files: dict[str, bytes] = field(default_factory=dict)
    lost_files: set[str] = field(default_factory=set)  # which are not at the path of getFile
    admins: dict[int, set[int]] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    callback_ids: set[str] = field(default_factory=set)
    commands: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    menu_button: Json = field(default_factory=lambda: {"type": "default"})
    on_shown: Callable[[SentMessage], None] = lambda _message: None  # sent, or its text edited

    @property
    def bot(self) -> Json:
        """The bot as a User."""
        return {
            "id": self.bot_id,
            "is_bot": True,
            "first_name": "Помни",
            "username": self.username,
        }

    def new_message_id(self) -> int:
        """Return the next message id; ids increase across all chats of the bot."""
        message_id = self.next_message_id
        self.next_message_id += 1
        return message_id

    def chat(self, chat_id: Any) -> Json:
        """Return the chat.

        Raises:
            ApiError: 400 for what is no chat; any integer is one.
        """
        known = self.chats.get(chat_id) if isinstance(chat_id, int) else None
        if known is not None:
            return known
        if not isinstance(chat_id, int) or chat_id == 0:
            raise bad_request("chat not found")
        self.chats[chat_id] = new_chat(chat_id, _type_of(chat_id))
        return self.chats[chat_id]

    def remember(self, message: Json) -> None:
        """Store a message so that it can be replied to, edited or pressed."""
        chat = message["chat"]
        self.chats.setdefault(chat["id"], chat)
        self.messages[chat["id"], message["message_id"]] = message

    def add_sent(self, message: SentMessage) -> Json:
        """Store a message of the bot, and return it as JSON."""
        self.sent.append(message)
        self.on_shown(message)
        self.sent_by_chat[message.chat_id].append(message)
        self.sent_by_key[message.chat_id, message.message_id] = message
        return self.store_json(message)

    def store_json(self, sent: SentMessage) -> Json:
        """Build the Message of a message of the bot, and store it."""
        message: Json = {
            "message_id": sent.message_id,
            "date": int(time.time()),
            "chat": self.chat(sent.chat_id),
            "from": self.bot,
        }
        if sent.method == "sendMessage":
            message["text"] = sent.text
        elif sent.text:
            message["caption"] = sent.text
        optional: Json = {
            "entities": sent.entities,
            "message_thread_id": sent.thread_id,
            "is_topic_message": sent.thread_id is not None,
            "reply_markup": _inline_only(sent.reply_markup),
            "reply_to_message": self.reply_of(sent.chat_id, sent.reply_to),
        }
        message |= {name: value for name, value in optional.items() if value}
        if sent.edits:
            message["edit_date"] = int(time.time())
        self.messages[sent.chat_id, sent.message_id] = message
        return message

    def reply_of(self, chat_id: int, message_id: int | None) -> Json | None:
        """Return the replied-to message, without its own reply."""
        if message_id is None:
            return None
        message = self.messages.get((chat_id, message_id))
        if message is None:
            return None
        return {name: value for name, value in message.items() if name != "reply_to_message"}

    def delete(self, chat_id: int, message_id: int) -> bool:
        """Delete a message; return False if it does not exist."""
        sent = self.sent_by_key.get((chat_id, message_id))
        if sent is not None:
            sent.deleted = True
        return self.messages.pop((chat_id, message_id), None) is not None


def new_chat(chat_id: int, chat_type: str, first_name: str = "") -> Json:
    """Return a Chat of the given type."""
    if chat_type == "private":
        return {"id": chat_id, "type": "private", "first_name": first_name or "Анна"}
    return {"id": chat_id, "type": chat_type, "title": f"Группа {abs(chat_id)}"}


def _type_of(chat_id: int) -> str:
    if chat_id > 0:
        return "private"
    return "supergroup" if chat_id < -1_000_000_000_000 else "group"


def _inline_only(markup: Json | None) -> Json | None:
    """Return the markup if it is part of the Message, as only inline keyboards are."""
    return markup if markup and "inline_keyboard" in markup else None
