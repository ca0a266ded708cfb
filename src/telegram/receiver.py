"""Receiving updates: stored with their jobs first, then confirmed to Telegram.

There are two sources: our own ``getUpdates`` loop and the webhook's route. Both accept malformed
input, and neither confirms anything while PostgreSQL is unavailable.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiogram import Bot, exceptions, types
from aiogram.methods import GetUpdates
from aiogram.utils.backoff import Backoff, BackoffConfig
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from src.base.addresses import WebhookState
from src.base.errors import ConfigError, StorageError, describe_outage
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.pg.locks import AdvisoryLock
from src.queue.update_repo import UpdateRepository
from src.telegram import updates

logger = logging.getLogger(__name__)

BATCH = 100  # updates per getUpdates, Telegram's maximum
BACKOFF = BackoffConfig(min_delay=1.0, max_delay=30.0, factor=2.0, jitter=0.1)  # seconds
LOCK_SECONDS = 2.0  # during which a lock counts as held; one getUpdates may take much longer
UNKNOWN_TOKEN = "TELEGRAM_BOT_TOKEN: Telegram does not know this token. Copy it from @BotFather"


@dataclass(frozen=True)
class PollTiming:
    """Delays of the poller, in seconds.

    Attributes:
        poll: Time for which Telegram holds a getUpdates request without updates.
        grace: Additional time before the request times out.
        backoff: Pauses after failures.
        conflict_pause: Minimum pause after a 409.
        standby_pause: Pause between attempts to become the only receiver.
        max_retry_after: Maximum ``retry_after`` of a 429 that is respected.
    """

    poll: int = 25
    grace: int = 10
    backoff: BackoffConfig = BACKOFF
    conflict_pause: float = 5.0
    standby_pause: float = 2.0
    max_retry_after: float = 300.0


class GetRawUpdates(GetUpdates):
    """``getUpdates`` with a raw JSON result, so that one malformed update spoils no batch."""

    __returning__ = list[Any]


@dataclass(eq=False, repr=False)
class UpdateIntake:
    """Stores raw updates, for polling and the webhook alike."""

    _client: PgClient
    _updates: UpdateRepository
    _bot: updates.BotIdentity
    _access: updates.AllowList
    _metrics: Metrics
    last_received: float | None = None

    def note_contact(self) -> None:
        """Record that Telegram has just answered or called; readiness depends on it."""
        self.last_received = time.monotonic()
        self._metrics.last_poll.set_to_current_time()

    async def store(self, raw_updates: Sequence[Any]) -> int:
        """Store the relevant updates with their jobs in one transaction; return how many were new.

        Raises:
            StorageError: Nothing is stored, so nothing may be confirmed.
        """
        found = []
        for raw in raw_updates:
            update = updates.classify(raw, self._bot, self._access)
            self._metrics.updates.labels(update.kind if update else "ignored").inc()
            if update is not None:
                found.append(update)
        if not found:
            return 0
        messages = [updates.replied_message(update, self._bot) for update in found]
        if any(messages):
            asked = await self._client.run(self._updates.find_asked, self._bot.id, messages)
            found = list(map(updates.with_question, found, map(asked.get, messages)))
        return await self._client.run(self._updates.store, self._bot.id, found)


class Poller:
    """A ``getUpdates`` loop that only one process per bot and database runs at a time."""

    def __init__(
        self, bot: Bot, intake: UpdateIntake, lock: AdvisoryLock, timing: PollTiming = PollTiming()
    ) -> None:
        """Poll ``bot`` and store through ``intake`` while holding ``lock``."""
        self._timing = timing
        self._bot = bot
        self._intake = intake
        self._lock = lock
        self._backoff = Backoff(timing.backoff)
        self._last_message = ""
        self._locked_at = float("-inf")
        self.is_receiver = False

    async def run(self) -> None:
        """Receive until cancelled; retry after every error."""
        offset: int | None = None
        try:
            while True:
                try:
                    await self._wait_for_lock()
                    offset = await self._receive(offset)
                    if self._backoff.counter:
                        log = {"failures": self._backoff.counter}
                        logger.info("receiving updates again", extra=log)
                    self._backoff.reset()
                    self._last_message = ""
                except (exceptions.AiogramError, StorageError, OSError, TimeoutError) as error:
                    await asyncio.sleep(self._pause_after(error))
        finally:
            await asyncio.to_thread(self._lock.release)

    async def _wait_for_lock(self) -> None:
        """Return once this process holds the lock, which its connection may have lost."""
        if self.is_receiver and time.monotonic() - self._locked_at < LOCK_SECONDS:
            return
        while not await asyncio.to_thread(self._lock.try_exclusive):
            self.is_receiver = False
            self._log_once(
                "another process on this database already receives this bot's updates; "
                "this one stands by and takes over when that one ends"
            )
            await asyncio.sleep(self._timing.standby_pause)
        self._locked_at = time.monotonic()
        self.is_receiver = True

    async def _receive(self, offset: int | None) -> int | None:
        """Run one ``getUpdates`` and return the offset that confirms it, or None without updates.

        The offset is used only for the call right after a batch: after a quiet week Telegram
        restarts with a random number, which an old offset could skip.
        """
        seconds = self._timing.poll
        request = GetRawUpdates(
            offset=offset, limit=BATCH, timeout=seconds, allowed_updates=updates.ALLOWED_UPDATES
        )
        batch = await self._bot(request, request_timeout=seconds + self._timing.grace)
        self._intake.note_contact()
        if not batch:
            return None
        await self._intake.store(batch)
        numbers = [number for number in map(updates.update_id_of, batch) if number is not None]
        if not numbers:
            await asyncio.sleep(1)  # nothing to confirm: avoid a busy loop
            return offset
        return max(numbers) + 1

    def _pause_after(self, error: Exception) -> float:
        """Log the error once per kind and return the seconds to wait."""
        pause = next(self._backoff)
        match error:
            case exceptions.TelegramUnauthorizedError():
                self._log_once("Telegram does not know this token; asking again")
            case exceptions.TelegramRetryAfter():
                pause = min(float(error.retry_after), self._timing.max_retry_after)
                self._log_once("Telegram asks to wait; trying again then")
            case exceptions.TelegramConflictError():
                pause = max(pause, self._timing.conflict_pause)
                self._log_once(
                    "Telegram reports a conflict (409): another program polls with this token, or "
                    "a webhook is set. Stop the other one; this bot tries again by itself"
                )
            case StorageError():
                self._log_once(f"updates wait at Telegram while the database is away: {error}")
            case _:
                self._log_once(
                    f"no updates from Telegram ({describe_outage(error)}); trying again"
                )
        return pause

    def _log_once(self, message: str) -> None:
        if message != self._last_message:
            self._last_message = message
            logger.error(message)


class WebhookRoute:
    """Route that Telegram calls: 200 only for stored updates, 503 while storing fails."""

    def __init__(self, intake: UpdateIntake, secret: str) -> None:
        """Accept only calls that carry ``secret``, which is required."""
        if not secret:
            raise ConfigError(["TELEGRAM_WEBHOOK_SECRET: a webhook needs a secret"])
        self._intake = intake
        self._secret = secret.encode()

    async def __call__(self, request: Request) -> Response:
        """Store one update."""
        token = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(token.encode(), self._secret):
            return PlainTextResponse("forbidden", 403)
        try:
            raw = await request.json()
        except ClientDisconnect:  # Telegram retries; this response is never read
            return PlainTextResponse("incomplete", 400)
        except (ValueError, RecursionError):
            return PlainTextResponse("not JSON", 400)
        self._intake.note_contact()
        try:
            await self._intake.store([raw])
        except StorageError as error:
            logger.error("an update waits at Telegram: the database is away", exc_info=error)  # noqa: TRY400
            return PlainTextResponse("try again", 503)
        return PlainTextResponse("ok")


WELL_PAUSE, TROUBLE_PAUSE = 60.0, 2.0  # seconds between two questions


def read_state(info: types.WebhookInfo) -> WebhookState:
    """Return the parts of Telegram's answer that tell whether it can deliver."""
    failed_at = 0.0
    if info.last_error_date:
        failed_at = info.last_error_date.timestamp()
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
                self.problem = read_state(info).find_problem(self._url)
            except exceptions.AiogramError as error:
                self.problem = f"no answer to getWebhookInfo ({describe_outage(error)})"
            if self.problem is None:
                self._intake.note_contact()
            await asyncio.sleep(TROUBLE_PAUSE if self.problem else WELL_PAUSE)
