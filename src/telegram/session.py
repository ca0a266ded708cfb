"""The HTTP session to Telegram: whatever is answered becomes a result or aiogram's own error.

aiogram's session trusts the Bot API: a body that is no UTF-8, an error without a description, or a
``retry_after`` that is no number, raise what no caller expects, and redirects are followed. Here a
refusal keeps the class that its status asks for, however odd its body.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, cast

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.exceptions import ClientDecodeError, TelegramNetworkError
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiohttp import ClientError, ClientTimeout

MAX_RETRY_AFTER = 86_400  # seconds; whoever asks us to wait for more than a day is mistaken
FLOOD_PAUSE = 3  # seconds to wait after a 429 that names none
MAX_CHAT_ID = 2**52


class TelegramSession(AiohttpSession):
    """aiogram's session with its trust taken out."""

    async def make_request(
        self,
        bot: Bot,
        method: TelegramMethod[TelegramType],
        timeout: int | None = None,  # noqa: ASYNC109  (it is aiogram's)
    ) -> TelegramType:
        """Send one request, and follow no redirect: the Bot API makes none.

        Raises:
            TelegramAPIError: It was refused; each status has its class.
            TelegramNetworkError: No answer; its cause says how far the request came.
            ClientDecodeError: The answer to a request that was taken is not the Bot API's.
        """
        session = await self.create_session()
        url = self.api.api_url(token=bot.token, method=method.__api_method__)
        try:
            async with session.post(
                url,
                data=self.build_form_data(bot=bot, method=method),
                timeout=ClientTimeout(total=self.timeout if timeout is None else timeout),
                allow_redirects=False,
            ) as response:
                body = await response.read()
        except TimeoutError as error:
            raise TelegramNetworkError(method=method, message="Request timeout error") from error
        except (ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise TelegramNetworkError(method=method, message=type(error).__name__) from error
        text = body.decode(errors="replace")
        checked = self.check_response(bot, method, response.status, text)
        return cast("TelegramType", checked.result)

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """The parsed answer; raises what ``make_request`` raises for a refusal."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        known = body if isinstance(body, dict) else {}
        if status_code < HTTPStatus.MULTIPLE_CHOICES and known.get("ok") is not False:
            return self._check_success(bot, method, status_code, content)
        status = status_code
        if status < HTTPStatus.MULTIPLE_CHOICES:
            status = _whole(known.get("error_code"), 400, 599) or HTTPStatus.BAD_REQUEST
        refusal = {
            "ok": False,
            "error_code": status,
            "description": str(known.get("description") or f"HTTP {status}"),
            "parameters": _parameters(known.get("parameters"), status),
        }
        return super().check_response(bot, method, status, json.dumps(refusal))

    def _check_success(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        try:
            response = super().check_response(bot, method, status_code, content)
        except ClientDecodeError as error:  # it quotes the body, which may quote a user
            cause = ValueError(type(error.original).__name__)
            raise ClientDecodeError(error.message, cause, None) from None
        if response.result is None:
            raise ClientDecodeError("No result", ValueError("null"), None)
        return response


def _parameters(parameters: Any, status: int) -> dict[str, int]:
    """What a refusal asks for, as far as it makes sense."""
    if not isinstance(parameters, dict):
        parameters = {}
    found: dict[str, int] = {}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        seconds = parameters.get("retry_after")
        named = seconds if _is_number(seconds) else FLOOD_PAUSE
        found["retry_after"] = int(min(max(named, 1), MAX_RETRY_AFTER))
    chat_id = _whole(parameters.get("migrate_to_chat_id"), -MAX_CHAT_ID, -1)
    if chat_id is not None:
        found["migrate_to_chat_id"] = chat_id
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _whole(value: Any, least: int, most: int) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and least <= value <= most else None
