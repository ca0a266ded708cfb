"""Watch of the webhook: whether Telegram can deliver to it."""

import asyncio

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.types import WebhookInfo

from src.base.webhooks import WebhookState, find_problem
from src.telegram.receiver import UpdateIntake

WELL_PAUSE, TROUBLE_PAUSE = 60.0, 2.0  # seconds between two questions


def read_state(info: WebhookInfo) -> WebhookState:
    """Return the parts of Telegram's answer that tell whether it can deliver."""
    failed_at = info.last_error_date.timestamp() if info.last_error_date else 0.0
    return WebhookState(info.url, info.pending_update_count, failed_at, info.last_error_message)


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
                info = await self._bot.get_webhook_info()
                self.problem = find_problem(read_state(info), self._url)
            except AiogramError as error:
                self.problem = f"no answer to getWebhookInfo ({type(error).__name__})"
            if self.problem is None:
                self._intake.note_contact()
            await asyncio.sleep(TROUBLE_PAUSE if self.problem else WELL_PAUSE)
