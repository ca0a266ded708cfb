"""A loopback Telegram Bot API with the real semantics of updates, messages and errors.

A real aiogram Bot talks to it through
`AiohttpSession(api=TelegramAPIServer.from_base(fake.url))`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from tests.fakes import PATIENCE, LoopbackServer, drop_connection, wait_for_client_to_leave
from tests.fakes.telegram_faults import Fault, Faults, RawAnswer, send_raw
from tests.fakes.telegram_methods import BotMethods
from tests.fakes.telegram_params import METHODS, read_params
from tests.fakes.telegram_people import People
from tests.fakes.telegram_state import TelegramState
from tests.fakes.telegram_types import (
    ApiError,
    Call,
    Json,
    Params,
    SentMessage,
    When,
    bad_request,
    json_response,
)
from tests.fakes.telegram_updates import UpdateQueue
from tests.fakes.telegram_webhook import Webhook

METHOD_NOT_FOUND = "method not found"
OTHER_POLL = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete "
    "the webhook first"
)
WEBHOOK_SET = "Conflict: terminated by setWebhook request"
CALLS_SHOWN = 15


class FakeTelegram(LoopbackServer, People):
    """Bot API server of one bot.

    User actions (`send_text`, `press_button`, `push_raw`...) are coroutines; settings and faults
    are plain methods.

    Attributes:
        calls: Requests of the bot, unless `keep_calls` is off.
        sent: All messages of the bot, oldest first, with their current texts.
        drafts: All draft frames, oldest first.
        commands: Commands by (scope, language), such as ("default", "") or ("chat:7", "ru").
    """

    def __init__(self, *, keep_calls: bool = True) -> None:
        LoopbackServer.__init__(self)
        People.__init__(self)
        self.token = "42:TEST"
        self.keep_calls = keep_calls
        self.calls: list[Call] = []
        self.state = TelegramState()
        self.sent = self.state.sent
        self.drafts = self.state.drafts
        self.commands = self.state.commands
        self.queue = UpdateQueue(self.changes)
        self.webhook = Webhook(self.queue, self.changes)
        self.faults = Faults()
        self._methods = BotMethods(self.state)
        self._polls = 0
        self._poll_number = 0
        self._poll_conflict = OTHER_POLL

    # Lifecycle

    @property
    def url(self) -> str:
        """Base URL for `TelegramAPIServer.from_base`."""
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of all methods and files under the bot's token."""
        return [
            web.route("*", "/bot{token:[^/]+}/{method}", self._handle),
            web.get("/file/bot{token:[^/]+}/{path:.+}", self._send_file),
        ]

    async def start(self) -> None:
        """Listen, and resume delivering to the webhook if one is set."""
        await super().start()
        self.webhook.start()

    async def stop(self) -> None:
        """Close the listener; updates and messages are kept for the next start."""
        await self.webhook.stop()
        await super().stop()

    # Observation

    @property
    def menu_button(self) -> Json:
        """The default menu button."""
        return self.state.menu_button

    @property
    def pending_updates(self) -> list[Json]:
        """Updates that the bot has not confirmed yet."""
        return self.queue.pending

    @property
    def confirmed_offset(self) -> int:
        """The last offset that confirmed updates; 0 before the first."""
        return self.queue.confirmed_offset

    @property
    def polling(self) -> bool:
        """True while a getUpdates waits for updates."""
        return self._polls > 0

    def sent_to(self, chat_id: int) -> list[SentMessage]:
        """Return the bot's messages in one chat, oldest first."""
        return list(self.state.sent_by_chat.get(chat_id, ()))

    def calls_of(self, method: str) -> list[Call]:
        """Return the recorded calls of one method."""
        return [call for call in self.calls if call.method == method]

    async def wait_sent(
        self, chat_id: int, count: int = 1, timeout: float = PATIENCE
    ) -> list[SentMessage]:
        """Return the chat's messages once there are at least `count`."""
        messages = self.state.sent_by_chat[chat_id]
        what = f"{count} message(s) in chat {chat_id}"
        await self.wait_for(lambda: len(messages) >= count, timeout, what)
        return list(messages)

    async def wait_confirmed(self, update_id: int, timeout: float = PATIENCE) -> None:
        """Return once the bot has confirmed the update."""
        what = f"confirmation of update {update_id}"
        await self.wait_for(lambda: self.queue.is_confirmed(update_id), timeout, what)

    async def wait_polling(self, timeout: float = PATIENCE) -> None:
        """Return once a getUpdates waits for updates."""
        await self.wait_for(lambda: self.polling, timeout, "a waiting getUpdates")

    # Faults

    def fail_next(
        self,
        method: str,
        *,
        times: int = 1,
        status: int = 500,
        description: str = "Internal Server Error",
        parameters: Json | None = None,
    ) -> None:
        """Refuse the next calls without effect."""
        error = ApiError(status, description, parameters)
        self.faults.add(method, Fault("fail", error=error), times)

    def drop_next(self, method: str, times: int = 1, when: When = "before") -> None:
        """Close the connection without an answer, before or after the call takes effect."""
        self.faults.add(method, Fault("drop", when), times)

    def hang_next(
        self,
        method: str,
        times: int = 1,
        when: When = "before",
        *,
        chat_id: int | None = None,
        text: str = "",
    ) -> None:
        """Never answer the next calls (of a chat or text, if given); "after": with effect."""
        self.faults.add(method, Fault("hang", when, chat_id=chat_id, text=text), times)

    def garbage_next(self, method: str, times: int = 1) -> None:
        """Answer the next calls with status 200 and HTML, without effect."""
        page = RawAnswer(200, b"<html>Bad Gateway</html>", "text/html")
        self.answer_next(method, page, times)

    def answer_next(
        self,
        method: str,
        answer: RawAnswer,
        times: int = 1,
        *,
        chat_id: int | None = None,
        when: When = "before",
    ) -> None:
        """Answer the next calls (of a chat, if given) literally; "before": without effect."""
        fault = Fault("answer", when, answer=answer, chat_id=chat_id)
        self.faults.add(method, fault, times)

    def block(self, chat_id: int) -> None:
        """Answer 403 for the chat, as if the user had blocked the bot."""
        self.state.blocked.add(chat_id)

    def close_topic(self, chat_id: int, thread_id: int = 0) -> None:
        """Close a topic to the bot; 0 is the general one."""
        self.state.closed.add((chat_id, thread_id))

    def delete_topic(self, chat_id: int, thread_id: int) -> None:
        """Delete a topic."""
        self.state.deleted_topics.add((chat_id, thread_id))

    def refuse_sends(self, chat_id: int, status: int, description: str) -> None:
        """Refuse all messages and edits in a chat."""
        self.state.refusals[chat_id] = ApiError(status, description)

    def allow_sends(self, chat_id: int) -> None:
        """Undo `refuse_sends`."""
        self.state.refusals.pop(chat_id, None)

    def unblock(self, chat_id: int) -> None:
        """Undo `block`."""
        self.state.blocked.discard(chat_id)

    def disable_method(self, method: str, style: str = "not_found") -> None:
        """Behave like an older server without the method: 404, or 400 with "bad_request"."""
        bad = style == "bad_request"
        prefix = "Bad Request" if bad else "Not Found"
        error = ApiError(400 if bad else 404, f"{prefix}: {METHOD_NOT_FOUND}")
        self.faults.disabled[method] = error

    # Requests

    async def _handle(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != self.token:
            return ApiError(401, "Unauthorized").response()
        name = request.match_info["method"]
        method = METHODS.get(name.lower(), name)
        params: Params = {}
        try:
            params = await read_params(request)
            return await self._answer(request, method, params)
        except ApiError as error:
            self._record(method, params, error.status, error.description)
            return error.response()

    async def _send_file(self, request: web.Request) -> web.Response:
        file_id = request.match_info["path"].removeprefix("files/")
        is_known = file_id in self.state.files and file_id not in self.state.lost_files
        if request.match_info["token"] != self.token or not is_known:
            return web.Response(status=404)
        return web.Response(body=self.state.files[file_id])

    async def _answer(self, request: web.Request, method: str, params: Params) -> web.Response:
        fault = self.faults.take(method, params)
        if fault is not None and fault.when == "before":
            return await self._misbehave(request, method, params, fault)
        result = await self._perform(method, params)
        self.changes.notify()
        if fault is not None:
            return await self._misbehave(request, method, params, fault)
        self._record(method, params, 200)
        return json_response({"ok": True, "result": result})

    async def _perform(self, method: str, params: Params) -> Any:
        if method in self.faults.disabled:
            raise self.faults.disabled[method]
        if method.lower() not in METHODS:
            raise ApiError(404, f"Not Found: {METHOD_NOT_FOUND}")
        if method == "getUpdates":
            return await self._get_updates(params)
        if method in {"setWebhook", "deleteWebhook"}:
            return self._set_webhook(method, params)
        if method == "getWebhookInfo":
            return self.webhook.info()
        return self._methods.call(method, params)

    async def _misbehave(
        self, request: web.Request, method: str, params: Params, fault: Fault
    ) -> web.Response:
        if fault.error is not None:
            raise fault.error
        if fault.answer is not None:
            self._record(method, params, fault.answer.status, "scripted")
            return await send_raw(request, fault.answer)
        self._record(method, params, 0, fault.kind)
        if fault.kind == "drop":
            await drop_connection(request)
        return await wait_for_client_to_leave()

    async def _get_updates(self, params: Params) -> list[Any]:
        if self.webhook.url:
            raise ApiError(409, WEBHOOK_ACTIVE)
        number = self._interrupt_poll(OTHER_POLL)
        self.queue.allow(params.get("allowed_updates"))
        self.queue.apply_offset(params.get("offset") or 0)
        await self._wait_for_updates(number, params.get("timeout") or 0)
        return self.queue.take(params.get("limit") or 0)

    async def _wait_for_updates(self, number: int, timeout: float) -> None:
        self._polls += 1
        self.changes.notify()
        try:
            async with asyncio.timeout(timeout):
                while self.queue.head is None:
                    await self.changes.wait()
                    self._check_poll(number)
        except TimeoutError:
            return
        finally:
            self._polls -= 1
            self.changes.notify()

    def _interrupt_poll(self, conflict: str) -> int:
        """End the waiting getUpdates, and return the number of the next one."""
        self._poll_number += 1
        self._poll_conflict = conflict
        self.changes.notify()
        return self._poll_number

    def _check_poll(self, number: int) -> None:
        if number != self._poll_number:
            raise ApiError(409, self._poll_conflict)

    def _set_webhook(self, method: str, params: Params) -> bool:
        url = str(params.get("url") or "") if method == "setWebhook" else ""
        if url and not url.startswith(("http://", "https://")):
            raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
        if params.get("drop_pending_updates"):
            self.queue.clear()
        if url:
            self.queue.allow(params.get("allowed_updates"))
            self._interrupt_poll(WEBHOOK_SET)
        self.webhook.set(url, str(params.get("secret_token") or ""))
        return True

    def _record(self, method: str, params: Params, status: int, error: str = "") -> None:
        if self.keep_calls:
            ok = status == 200 and not error
            self.calls.append(Call(method, params, time.monotonic(), ok, status, error))
        self.changes.notify()

    def failure(self, what: str, timeout: float) -> str:
        calls = [call for call in self.calls if call.method != "getUpdates"][-CALLS_SHOWN:]
        lines = [
            f"  {call.method} -> {call.status} {call.error} {str(call.params)[:200]}"
            for call in calls
        ]
        header = f"waited {timeout} s in vain for {what}; "
        state = f"{len(self.sent)} sent, {len(self.pending_updates)} unconfirmed updates; calls:"
        return "\n".join([header + state, *lines])
