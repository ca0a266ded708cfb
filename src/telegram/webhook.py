"""Telegram's view of the webhook: its address, and whether the last calls arrived."""

import asyncio
import time
from urllib.parse import urlsplit

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.types import WebhookInfo

from src.telegram.receiver import UpdateIntake

PATH = "/telegram/webhook"
TIMEOUT = 15  # seconds
WELL_PAUSE, TROUBLE_PAUSE = 60.0, 2.0  # seconds between two questions
RECENT = 900.0  # seconds; Telegram keeps the last error for ever


def find_problem(info: WebhookInfo, url: str | None) -> str | None:
    """Return what is wrong, with a remedy after a semicolon; None if Telegram can deliver.

    Args:
        info: Telegram's answer to ``getWebhookInfo``.
        url: The configured address; None to poll.
    """
    host = urlsplit(info.url).hostname
    if url is None:
        if not info.url:
            return None
        return f"a webhook at {host} keeps updates from polling; start the bot, which removes it"
    if not urlsplit(url).path.endswith(PATH):
        return f"the webhook's address lacks our path; end TELEGRAM_WEBHOOK_URL in {PATH}"
    if not info.url:
        return "no webhook is set; start the bot, which sets it"
    if info.url != url:
        return f"the webhook leads to {host}; stop the other program, and start the bot again"
    failed_at = info.last_error_date.timestamp() if info.last_error_date else 0.0
    if info.pending_update_count and time.time() - failed_at < RECENT:
        return (
            f"{info.pending_update_count} updates wait, as Telegram's call failed: "
            f"{info.last_error_message}; look at the proxy, its certificate and its port"
        )
    return None


class WebhookWatch:
    """Asks Telegram at an interval whether it can deliver: a quiet bot may be well.

    Attributes:
        problem: What was wrong at the last question.
    """

    def __init__(self, bot: Bot, intake: UpdateIntake, url: str) -> None:
        """Watch the webhook at ``url``."""
        self.problem: str | None = "Telegram has not been asked about the webhook yet"
        self._bot = bot
        self._intake = intake
        self._url = url

    async def run(self) -> None:
        """Ask until cancelled; a good answer counts as contact with Telegram."""
        while True:
            try:
                info = await self._bot.get_webhook_info(request_timeout=TIMEOUT)
                self.problem = find_problem(info, self._url)
            except AiogramError as error:
                self.problem = f"no answer to getWebhookInfo ({type(error).__name__})"
            if self.problem is None:
                self._intake.note_contact()
            await asyncio.sleep(TROUBLE_PAUSE if self.problem else WELL_PAUSE)
