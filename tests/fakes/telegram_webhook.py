"""Delivery of queued updates to the bot's webhook."""

from __future__ import annotations

import asyncio
import time

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.fakes import Changes
from tests.fakes.telegram_types import Json
from tests.fakes.telegram_updates import Queued, UpdateQueue

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
FIRST_BACKOFF = 0.02
MAX_BACKOFF = 0.5


class Webhook:
    """Webhook settings and deliveries: one update at a time, retried until a 2xx."""

    def __init__(self, queue: UpdateQueue, changes: Changes) -> None:
        self.url = ""
        self.secret_token = ""
        self.last_error = ""
        self._queue = queue
        self._changes = changes
        self._task: asyncio.Task[None] | None = None

    def info(self) -> Json:
        """Return a WebhookInfo."""
        info: Json = {
            "url": self.url,
            "has_custom_certificate": False,
            "pending_update_count": len(self._queue.pending),
        }
        if self.last_error:
            info |= {"last_error_date": int(time.time()), "last_error_message": self.last_error}
        return info

    def set(self, url: str, secret_token: str = "") -> None:
        """Enable the webhook, or disable it with an empty URL."""
        self.url = url
        self.secret_token = secret_token
        self.last_error = ""
        self._changes.notify()

    def start(self) -> None:
        """Start delivering in the background."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop delivering; the settings are kept."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        async with ClientSession(timeout=ClientTimeout(total=30)) as session:
            backoff = FIRST_BACKOFF
            while True:
                entry = self._queue.head if self.url else None
                if entry is None:
                    await self._changes.wait()
                elif await self._deliver(session, entry):
                    backoff = FIRST_BACKOFF
                else:
                    await asyncio.sleep(backoff)
                    backoff = min(backoff * 2, MAX_BACKOFF)

    async def _deliver(self, session: ClientSession, entry: Queued) -> bool:
        status = await self._post(session, entry)
        if 200 <= status < 300:
            self._queue.confirm(entry)
            return True
        self.last_error = f"Wrong response from the webhook: {status}"
        self._changes.notify()
        return False

    async def _post(self, session: ClientSession, entry: Queued) -> int:
        headers = {SECRET_HEADER: self.secret_token} if self.secret_token else {}
        try:
            async with session.post(self.url, json=entry.body, headers=headers) as response:
                return response.status
        except (ClientError, TimeoutError):
            return 0
