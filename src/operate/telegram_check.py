"""Check of ``doctor``: two calls of the Bot API, without the library that runs the bot."""

from http import HTTPStatus
from typing import Any

import httpx2
from pydantic import SecretStr
from socksio import ProtocolError

from src.base.config import Settings
from src.base.webhooks import WebhookState, find_problem
from src.operate.checks import CheckResult

SECONDS = 15.0  # for each step of a request


async def check_telegram(settings: Settings) -> list[CheckResult]:
    """Ask Telegram for the identity of the bot, and for the state of its webhook."""
    if settings.telegram_bot_token is None:
        mend = None if settings.console_fallback else "set TELEGRAM_BOT_TOKEN, from @BotFather"
        return [CheckResult("telegram", "no token: the console opens instead", mend)]
    method = "getMe"
    try:
        me = await _call(settings, settings.telegram_bot_token, method)
        identity = CheckResult("telegram", f"@{me['username']} ({me['id']})")
        method = "getWebhookInfo"
        info = await _call(settings, settings.telegram_bot_token, method)
        state = WebhookState(
            info["url"],
            info["pending_update_count"],
            info.get("last_error_date", 0.0),
            info.get("last_error_message"),
        )
    except PermissionError:
        mend = "copy TELEGRAM_BOT_TOKEN from @BotFather again"
        return [CheckResult("telegram", "the token is refused", mend)]
    except (httpx2.HTTPError, ProtocolError, ValueError, LookupError, TypeError) as error:
        name = type(error).__name__
        mend = "is TELEGRAM_API_BASE right and reachable?"
        return [CheckResult("telegram", f"Telegram did not answer {method} ({name})", mend)]
    problem = find_problem(state, settings.telegram_webhook_url)
    if problem is None:
        return [identity]
    what, _, mend = problem.rpartition("; ")
    return [identity, CheckResult("webhook", what, mend)]


async def _call(settings: Settings, token: SecretStr, method: str) -> Any:
    """Return the result of a method.

    Raises:
        PermissionError: The token is refused.
        httpx2.HTTPError: There is no answer, or an error.
        ValueError, LookupError, TypeError: The answer is not the Bot API's.
    """
    base = settings.telegram_api_base
    proxy = settings.telegram_proxy_to(base)
    async with httpx2.AsyncClient(proxy=proxy, timeout=SECONDS) as client:
        response = await client.get(f"{base}/bot{token.get_secret_value()}/{method}")
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise PermissionError
    response.raise_for_status()
    return response.json()["result"]
