"""Effects and results of the Bot API methods in the fake."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.fakes.telegram_checks import (
    check_caption,
    check_commands,
    check_markup,
    check_text,
    check_web_app,
)
from tests.fakes.telegram_state import TelegramState
from tests.fakes.telegram_types import ApiError, Draft, Json, Params, SentMessage, bad_request

NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the "
    "same as a current content and reply markup of the message"
)
MAX_FILE = 20 << 20  # bytes that a bot may fetch


class BotMethods:
    """Bot API methods that read or change the state, by name."""

    def __init__(self, state: TelegramState) -> None:
        self.state = state
        self._handlers: dict[str, Callable[[Params], Any]] = {
            "getMe": self._get_me,
            "sendMessage": self._send_message,
            "sendDocument": self._send_document,
            "sendMessageDraft": self._send_draft,
            "editMessageText": self._edit_text,
            "editMessageReplyMarkup": self._edit_markup,
            "deleteMessage": self._delete,
            "deleteMessages": self._delete_many,
            "setMyCommands": self._set_commands,
            "getMyCommands": self._get_commands,
            "setChatMenuButton": self._set_menu_button,
            "getChatMenuButton": self._get_menu_button,
            "answerCallbackQuery": self._answer_callback,
            "getFile": self._get_file,
            "getChatMember": self._get_member,
        }

    def call(self, method: str, params: Params) -> Any:
        """Execute a method and return its result; a method without a handler returns True.

        Raises:
            ApiError: Telegram would refuse the call.
        """
        self._check_chat(params)
        handler = self._handlers.get(method)
        if handler is not None:
            return handler(params)
        return True

    def _check_chat(self, params: Params) -> None:
        if "chat_id" not in params:
            return
        chat = self.state.chat(params["chat_id"])
        if chat["id"] in self.state.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")

    def _check_place(self, chat_id: int, thread_id: int | None) -> None:
        """Refuse what is sent to a lost topic, or to a chat in which the bot may not write."""
        if chat_id in self.state.refusals:
            raise self.state.refusals[chat_id]
        if (chat_id, thread_id or 0) in self.state.deleted_topics:
            raise bad_request("message thread not found")
        if (chat_id, thread_id or 0) in self.state.closed:
            raise bad_request("TOPIC_CLOSED")

    def _get_me(self, _params: Params) -> Json:
        return self.state.bot | {
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    def _send_message(self, params: Params) -> Json:
        return self._send(params, "sendMessage", check_text(params), params.get("entities"))

    def _send_document(self, params: Params) -> Json:
        caption = check_caption(params)
        return self._send(params, "sendDocument", caption, params.get("caption_entities"))

    def _send(self, params: Params, method: str, text: str, entities: Any) -> Json:
        chat_id = self._required_chat(params)
        markup = self._check_markup(params)
        self._check_place(chat_id, params.get("message_thread_id"))
        receiver = self._receiver(chat_id, params)
        reply_to = self._reply_target(chat_id, params)
        return self.state.add_sent(
            SentMessage(
                message_id=0 if receiver is not None else self.state.new_message_id(),
                chat_id=chat_id,
                text=text,
                entities=entities or [],
                thread_id=params.get("message_thread_id"),
                reply_to=reply_to,
                reply_markup=markup,
                at=time.monotonic(),
                method=method,
                parse_mode=params.get("parse_mode"),
                link_preview=params.get("link_preview_options"),
                receiver=receiver,
            )
        )

    def _check_markup(self, params: Params) -> Json | None:
        return check_markup(params.get("reply_markup"), knows_disabled=self.state.is_modern)

    def _receiver(self, chat_id: int, params: Params) -> int | None:
        """Return the only member who sees the message; an older server ignores the parameter."""
        ephemeral = params.get("ephemeral_message_parameters")
        if not ephemeral or not self.state.is_modern:
            return None
        if chat_id > 0:
            raise bad_request("EPHEMERAL_PEER_INVALID")
        return int(ephemeral["receiver_user_id"])

    def _get_member(self, params: Params) -> Json:
        """Return "creator" for users in ``TelegramState.admins``, else "member"."""
        user_id = params["user_id"]
        person = {"id": user_id, "is_bot": False, "first_name": "Анна"}
        if user_id not in self.state.admins.get(params["chat_id"], ()):
            return {"status": "member", "user": person}
        return {"status": "creator", "user": person, "is_anonymous": False}

    def _required_chat(self, params: Params) -> int:
        if "chat_id" not in params:
            raise bad_request("chat_id is empty")
        return int(self.state.chat(params["chat_id"])["id"])

    def _reply_target(self, chat_id: int, params: Params) -> int | None:
        reply: Json = params.get("reply_parameters") or {}
        message_id = reply.get("message_id", params.get("reply_to_message_id"))
        if message_id is None:
            return None
        if (reply.get("chat_id", chat_id), message_id) in self.state.messages:
            return int(message_id)
        if reply.get("allow_sending_without_reply") or params.get("allow_sending_without_reply"):
            return None
        raise bad_request("message to be replied not found")

    def _send_draft(self, params: Params) -> bool:
        text, chat_id = check_text(params, may_be_empty=True), self._required_chat(params)
        if self.state.chat(chat_id)["type"] != "private":
            raise bad_request("TEXTDRAFT_PEER_INVALID")
        self._check_place(chat_id, params.get("message_thread_id"))
        if not params.get("draft_id"):
            raise bad_request("invalid draft_id specified")
        self.state.drafts.append(
            Draft(
                chat_id=chat_id,
                draft_id=params["draft_id"],
                text=text,
                entities=params.get("entities") or [],
                thread_id=params.get("message_thread_id"),
                can_stop=bool(params.get("can_stop")),
                at=time.monotonic(),
            )
        )
        return True

    def _edit_text(self, params: Params) -> Json:
        text = check_text(params)
        entities = params.get("entities") or []
        markup = self._check_markup(params)
        sent = self._editable(params)
        if (text, entities, markup) == (sent.text, sent.entities, sent.reply_markup):
            raise bad_request(NOT_MODIFIED)
        sent.link_preview = params.get("link_preview_options")
        sent.text, sent.entities, sent.reply_markup = text, entities, markup
        sent.parse_mode = params.get("parse_mode")
        sent.edits.append(text)
        self.state.on_shown(sent)
        return self.state.store_json(sent)

    def _edit_markup(self, params: Params) -> Json:
        markup = self._check_markup(params)
        sent = self._editable(params)
        if markup == sent.reply_markup:
            raise bad_request(NOT_MODIFIED)
        sent.reply_markup = markup
        return self.state.store_json(sent)

    def _editable(self, params: Params) -> SentMessage:
        key = (self._required_chat(params), int(params.get("message_id") or 0))
        if key not in self.state.messages:
            raise bad_request("message to edit not found")
        if key not in self.state.sent_by_key:
            raise bad_request("message can't be edited")
        sent = self.state.sent_by_key[key]
        self._check_place(sent.chat_id, sent.thread_id)
        return sent

    def _delete(self, params: Params) -> bool:
        chat_id = self._required_chat(params)
        if not self.state.delete(chat_id, int(params.get("message_id") or 0)):
            raise bad_request("message to delete not found")
        return True

    def _delete_many(self, params: Params) -> bool:
        chat_id = self._required_chat(params)
        for message_id in params.get("message_ids") or []:
            self.state.delete(chat_id, message_id)
        return True

    def _set_commands(self, params: Params) -> bool:
        self.state.commands[_commands_key(params)] = check_commands(params.get("commands"))
        return True

    def _get_commands(self, params: Params) -> list[Json]:
        return self.state.commands.get(_commands_key(params), [])

    def _set_menu_button(self, params: Params) -> bool:
        button = params.get("menu_button") or {"type": "default"}
        if button["type"] == "web_app":
            check_web_app(button)
        self.state.menu_button = button
        return True

    def _get_menu_button(self, _params: Params) -> Json:
        return self.state.menu_button

    def _answer_callback(self, params: Params) -> bool:
        if params.get("callback_query_id") not in self.state.callback_ids:
            raise bad_request(
                "query is too old and response timeout expired or query ID is invalid"
            )
        return True

    def _get_file(self, params: Params) -> Json:
        file_id = str(params.get("file_id"))
        if file_id not in self.state.files:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        if len(self.state.files[file_id]) > MAX_FILE:
            raise bad_request("file is too big")
        return {"file_id": file_id, "file_unique_id": file_id, "file_path": f"files/{file_id}"}


def _commands_key(params: Params) -> tuple[str, str]:
    """Return (scope, language): the scope's type, with the chat's id if it names one."""
    scope: Json = params.get("scope") or {"type": "default"}
    parts = [str(scope[name]) for name in ("type", "chat_id", "user_id") if name in scope]
    return ":".join(parts), str(params.get("language_code") or "")
