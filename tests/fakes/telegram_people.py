"""Actions of Telegram users in tests: write, edit, press, block."""

from __future__ import annotations

import re
import time
from typing import Any, TypedDict, TypeGuard, Unpack

from tests.fakes import is_integer
from tests.fakes.telegram_checks import utf16_length
from tests.fakes.telegram_state import TelegramState, new_chat
from tests.fakes.telegram_types import Json
from tests.fakes.telegram_updates import UpdateQueue

_COMMAND = re.compile(r"/[A-Za-z0-9_]{1,64}(@[A-Za-z0-9_]+)?")


class Sender(TypedDict, total=False):
    """Sender and place of a message.

    Attributes:
        chat_id: The private chat with the user by default.
        chat_type: "private" (default), "group", "supergroup" or "channel".
        thread_id: The forum topic or the thread in a private chat.
        language_code: "ru" by default.
        reply_to: Id of the message replied to.
        first_name: The user's name.
    """

    chat_id: int | None
    chat_type: str
    thread_id: int | None
    language_code: str
    reply_to: int | None
    first_name: str


class People:
    """Queues the updates that user actions cause."""

    state: TelegramState
    queue: UpdateQueue

    def __init__(self) -> None:
        self._update_ids: dict[int, int] = {}
        self._languages: dict[int, str] = {}  # language of each user's last message

    async def send_text(
        self,
        user_id: int,
        text: str,
        *,
        entities: list[Json] | None = None,
        **sender: Unpack[Sender],
    ) -> int:
        """Write a text message; a leading command gets its entity. Returns message_id."""
        fields: Json = {"text": text}
        found = command_entities(text) if entities is None else entities
        if found:
            fields["entities"] = found
        return self._write(user_id, sender, fields)

    async def send_message(self, user_id: int, **fields: Any) -> int:
        """Send a message with any content. Returns message_id.

        Args:
            user_id: The author.
            **fields: The keys of `Sender`, and fields of Message such as `photo`, `voice`,
                `sticker`, `caption`, `media_group_id`.
        """
        sender = Sender()
        for name in Sender.__annotations__:
            if name in fields:
                sender[name] = fields.pop(name)  # type: ignore[literal-required]
        return self._write(user_id, sender, fields)

    async def edit_text(
        self, user_id: int, message_id: int, text: str, *, chat_id: int | None = None
    ) -> int:
        """Edit an earlier message of the user. Returns update_id."""
        message = self._message(chat_id or user_id, message_id)
        edited = {name: value for name, value in message.items() if name != "entities"}
        edited |= {"text": text, "edit_date": int(time.time())}
        if entities := command_entities(text):
            edited["entities"] = entities
        self.state.remember(edited)
        return self.queue.add("edited_message", edited)

    async def press_button(
        self,
        user_id: int,
        message_id: int,
        data: str,
        *,
        chat_id: int | None = None,
        is_old: bool = False,
    ) -> int:
        """Press an inline button of a message. Returns update_id.

        Of an old message Telegram tells neither text nor topic.
        """
        message = self._message(chat_id or user_id, message_id)
        if is_old:
            message = {"chat": message["chat"], "message_id": message_id, "date": 0}
        callback_id = str(self.state.next_callback_id)
        self.state.next_callback_id += 1
        self.state.callback_ids.add(callback_id)
        payload = {
            "id": callback_id,
            "from": user(user_id, language_code=self._languages.get(user_id, "ru")),
            "message": message,
            "chat_instance": str(message["chat"]["id"]),
            "data": data,
        }
        return self.queue.add("callback_query", payload)

    async def react(
        self, user_id: int, message_id: int, emoji: str | None, *, chat_id: int | None = None
    ) -> int:
        """Set the reaction to a message, or remove it. Returns update_id."""
        message = self._message(chat_id or user_id, message_id)
        new = [{"type": "emoji", "emoji": emoji}] if emoji else []
        payload = {
            "chat": message["chat"],
            "message_id": message_id,
            "user": user(user_id, language_code=self._languages.get(user_id, "ru")),
            "date": int(time.time()),
            "old_reaction": [],
            "new_reaction": new,
        }
        return self.queue.add("message_reaction", payload)

    async def change_bot_membership(
        self, user_id: int, status: str, *, chat_id: int | None = None
    ) -> int:
        """Block the bot (status "kicked") or unblock it ("member").

        Queues my_chat_member, updates the chat's `block` state, and returns update_id.
        """
        chat = self.state.chat(chat_id or user_id)
        old = "kicked" if chat["id"] in self.state.blocked else "member"
        change = self.state.blocked.add if status == "kicked" else self.state.blocked.discard
        change(chat["id"])
        payload = {
            "chat": chat,
            "from": user(user_id),
            "date": int(time.time()),
            "old_chat_member": self._member(old),
            "new_chat_member": self._member(status),
        }
        return self.queue.add("my_chat_member", payload)

    async def push_raw(self, update: Any) -> None:
        """Queue any object unchanged, even garbage without an update_id."""
        if isinstance(update, dict):
            self._store_raw(update)
        self.queue.add_raw(update)

    async def redeliver(self, update_id: int) -> None:
        """Deliver an old update once more, regardless of the offset that the bot has confirmed."""
        self.queue.redeliver(update_id)

    def update_id_of(self, message_id: int) -> int:
        """Return the id of the update that contained a user's message."""
        return self._update_ids[message_id]

    def _write(self, user_id: int, sender: Sender, fields: Json) -> int:
        message_id = self.state.new_message_id()
        self._languages[user_id] = sender.get("language_code", "ru")
        author = user(user_id, sender.get("first_name"), sender.get("language_code", "ru"))
        message: Json = {
            "message_id": message_id,
            "date": int(time.time()),
            "chat": self._chat(user_id, sender),
            "from": author,
        }
        message |= self._placement(message["chat"], sender) | fields
        self.state.remember(message)
        self._update_ids[message_id] = self.queue.next_update_id
        self.queue.add("message", message)
        return message_id

    def _chat(self, user_id: int, sender: Sender) -> Json:
        chat_type = sender.get("chat_type", "private")
        chat_id = sender.get("chat_id")
        if chat_id is None:
            assert chat_type == "private", "a group needs its chat_id"
            chat_id = user_id
        known = self.state.chats.get(chat_id)
        if known is not None and known["type"] == chat_type:
            return known
        self.state.chats[chat_id] = new_chat(chat_id, chat_type, sender.get("first_name", ""))
        return self.state.chats[chat_id]

    def _placement(self, chat: Json, sender: Sender) -> Json:
        placement: Json = {}
        if (thread_id := sender.get("thread_id")) is not None:
            placement |= {"message_thread_id": thread_id, "is_topic_message": True}
        if (reply_to := sender.get("reply_to")) is not None:
            self._message(chat["id"], reply_to)
            placement["reply_to_message"] = self.state.reply_of(chat["id"], reply_to)
        return placement

    def _message(self, chat_id: int, message_id: int) -> Json:
        message = self.state.messages.get((chat_id, message_id))
        assert message is not None, f"no message {message_id} in chat {chat_id}"
        return message

    def _member(self, status: str) -> Json:
        member: Json = {"status": status, "user": self.state.bot}
        return member | {"until_date": 0} if status == "kicked" else member

    def _store_raw(self, update: Json) -> None:
        """Store the message and the callback id of a raw update for later calls."""
        message = update.get("message")
        if _is_whole(message):
            self.state.remember(message)
            newest = max(self.state.next_message_id, message["message_id"] + 1)
            self.state.next_message_id = newest
        callback = update.get("callback_query")
        if isinstance(callback, dict):
            self.state.callback_ids.add(str(callback.get("id")))


def _is_whole(message: Any) -> TypeGuard[Json]:
    """Return True if a raw message has valid chat and message ids."""
    if not isinstance(message, dict) or not isinstance(message.get("chat"), dict):
        return False
    return is_integer(message["chat"].get("id")) and is_integer(message.get("message_id"))


def user(user_id: int, first_name: str | None = None, language_code: str = "ru") -> Json:
    """Return a User."""
    return {
        "id": user_id,
        "is_bot": False,
        "first_name": first_name or "Анна",
        "language_code": language_code,
    }


def command_entities(text: str) -> list[Json]:
    """Return the entity of a command at the start of the text, if any."""
    found = _COMMAND.match(text)
    if found is None:
        return []
    return [{"type": "bot_command", "offset": 0, "length": utf16_length(found[0])}]
