"""Receiving updates: stored with their jobs first, confirmed to Telegram second.

Two ways in, one way on: our own ``getUpdates`` loop, or the webhook's route. Neither trusts what
arrives, and neither confirms anything while PostgreSQL is away.
"""

import asyncio
import hmac
import json
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiogram import Bot, exceptions
from aiogram.methods import GetUpdates
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from src.base.errors import ConfigError, StorageError
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.pg.locks import AdvisoryLock
from src.queue.update_repo import UpdateRepository
from src.telegram.updates import ALLOWED_UPDATES, Access, BotIdentity, classify, update_id_of

logger = logging.getLogger(__name__)

BATCH = 100  # updates per getUpdates, Telegram's maximum
UNAUTHORIZED = 3  # times in a row that Telegram must say it before we believe it
MAX_BODY = 4 * 1024 * 1024  # bytes of a webhook call; a true one has a few kilobytes


@dataclass(frozen=True)
class PollTiming:
    """The poller's times, in seconds.

    Attributes:
        poll: How long Telegram holds a getUpdates without updates.
        grace: How much longer we wait before we give the request up.
        first_pause: Doubled with every failure, up to ``longest_pause``.
        longest_pause: The most between attempts while something is wrong.
        conflict_pause: The least after a 409.
        standby_pause: Between attempts to become the one receiver.
        longest_wish: The most that a 429 is obeyed; nobody hears from us meanwhile.
        unauthorized: For so long at least Telegram must know nothing of the token.
        proof_pause: Between two looks whether the lock's connection has to prove that it lives.
    """

    poll: int = 25
    grace: int = 10
    first_pause: float = 0.5
    longest_pause: float = 30.0
    conflict_pause: float = 5.0
    standby_pause: float = 2.0
    longest_wish: float = 300.0
    unauthorized: float = 60.0
    proof_pause: float = 1.0


class GetRawUpdates(GetUpdates):
    """``getUpdates`` whose result stays JSON: one malformed update must not spoil a batch."""

    __returning__ = list[Any]


@dataclass(eq=False, repr=False)
class UpdateIntake:
    """Stores raw updates; what polling and the webhook have in common."""

    _client: PgClient
    _updates: UpdateRepository
    _bot: BotIdentity
    _access: Access
    _metrics: Metrics
    last_received: float | None = None

    def saw_telegram(self) -> None:
        """Telegram just answered, or called: readiness looks at this."""
        self.last_received = time.monotonic()
        self._metrics.last_poll.set_to_current_time()

    async def store(self, raw_updates: Sequence[Any]) -> int:
        """Store what is worth it, with its jobs, in one transaction; returns how many were new.

        Raises:
            StorageError: Nothing is stored, nothing may be confirmed.
        """
        found = []
        for raw in raw_updates:
            update = classify(raw, self._bot, self._access)
            self._metrics.updates.labels(update.kind if update else "ignored").inc()
            if update is not None:
                found.append(update)
        if not found:
            return 0
        return await self._client.run(self._updates.store, self._bot.id, found)


class Poller:
    """Our own ``getUpdates`` loop. Only one process per bot and database runs it at a time."""

    def __init__(
        self, bot: Bot, intake: UpdateIntake, lock: AdvisoryLock, timing: PollTiming = PollTiming()
    ) -> None:
        """Poll ``bot``, store through ``intake``, while holding ``lock``."""
        self._timing = timing
        self._bot = bot
        self._intake = intake
        self._lock = lock
        self._failures = 0
        self._unauthorized: list[float] = []
        self._told = ""
        self.is_receiver = False

    async def run(self) -> None:
        """Receive until cancelled; every error but a wrong token is waited out.

        Raises:
            ConfigError: Telegram says again and again, for a while and nothing else between, that
                it does not know the token (any more).
        """
        offset: int | None = None
        keeping = asyncio.ensure_future(self._keep_lock())
        try:
            while True:
                try:
                    await self._become_receiver()
                    offset = await self._receive(offset)
                    self._recovered()
                except (exceptions.AiogramError, StorageError, OSError, TimeoutError) as error:
                    await asyncio.sleep(self._pause_after(error))
        finally:
            keeping.cancel()
            await asyncio.to_thread(self._lock.release)

    async def _become_receiver(self) -> None:
        """Hold the lock of this bot, waiting for it as long as another process has it."""
        if self.is_receiver and self._lock.is_connected():
            return
        self.is_receiver = False
        while not await asyncio.to_thread(self._lock.try_exclusive):
            self._tell(
                "another process on this database already receives this bot's updates; "
                "this one stands by and takes over when that one ends"
            )
            await asyncio.sleep(self._timing.standby_pause)
        self.is_receiver = True

    async def _keep_lock(self) -> None:
        """Use the lock's connection now and then, also while Telegram holds a getUpdates."""
        while True:
            await asyncio.sleep(self._timing.proof_pause)
            if self.is_receiver and self._lock.needs_proof():
                await asyncio.to_thread(self._lock.prove)

    async def _receive(self, offset: int | None) -> int | None:
        """One ``getUpdates``; returns the offset that confirms it, None when nothing came.

        The offset is only used for the call right after a batch: after a quiet week Telegram
        starts anew with a random number, which an old offset could pass over.
        """
        seconds = self._timing.poll
        request = GetRawUpdates(
            offset=offset, limit=BATCH, timeout=seconds, allowed_updates=ALLOWED_UPDATES
        )
        batch = await self._bot(request, request_timeout=seconds + self._timing.grace)
        self._intake.saw_telegram()
        if not batch:
            return None
        await self._intake.store(batch)
        numbers = [number for number in map(update_id_of, batch) if number is not None]
        if len(numbers) < len(batch):
            self._tell("Telegram sent updates without a valid update_id; they are passed over")
        if not numbers:
            await asyncio.sleep(1)  # nothing to confirm: do not spin
            return offset
        return max(numbers) + 1

    def _recovered(self) -> None:
        if self._failures:
            logger.info("receiving updates again", extra={"failures": self._failures})
        self._failures = 0
        self._unauthorized.clear()
        self._told = ""

    def _pause_after(self, error: Exception) -> float:
        """Tell the operator once per kind of trouble; return how many seconds to wait."""
        self._failures += 1
        growing = self._timing.first_pause * 2 ** min(self._failures, 10)
        pause: float = min(self._timing.longest_pause, growing) * random.uniform(0.8, 1.2)
        self._count_unauthorized(error)
        if isinstance(error, exceptions.TelegramRetryAfter):
            pause = min(float(error.retry_after), self._timing.longest_wish)
        if isinstance(error, exceptions.TelegramConflictError):
            pause = max(pause, self._timing.conflict_pause)
            self._tell(
                "Telegram reports a conflict (409): another program polls with this token, or a "
                "webhook is set. Stop the other one; this bot tries again by itself"
            )
        elif isinstance(error, StorageError):
            self._tell(f"updates wait at Telegram while the database is away: {error}")
        elif isinstance(error, exceptions.ClientDecodeError):
            self._tell("Telegram's answer to getUpdates is not the Bot API's; trying again")
        else:
            self._tell(f"no updates from Telegram ({type(error).__name__}); trying again")
        return pause

    def _count_unauthorized(self, error: Exception) -> None:
        """One 401 may be a mistake of Telegram's; many, over a while, are the truth."""
        if not isinstance(error, exceptions.TelegramUnauthorizedError):
            self._unauthorized.clear()
            return
        now = time.monotonic()
        self._unauthorized.append(now)
        lasts = now - self._unauthorized[0] >= self._timing.unauthorized
        if lasts and len(self._unauthorized) >= UNAUTHORIZED:
            raise ConfigError(
                ["TELEGRAM_BOT_TOKEN: Telegram does not know this token. Copy it from @BotFather"]
            ) from error

    def _tell(self, message: str) -> None:
        if message != self._told:
            self._told = message
            logger.error(message)


class WebhookRoute:
    """The route that Telegram calls: 200 only for what is stored, 503 while it cannot be."""

    def __init__(self, intake: UpdateIntake, secret: str) -> None:
        """Accept only calls that carry ``secret``; there is no webhook without one."""
        if not secret:
            raise ConfigError(["TELEGRAM_WEBHOOK_SECRET: a webhook needs a secret"])
        self._intake = intake
        self._secret = secret.encode()

    async def __call__(self, request: Request) -> Response:
        """Store one update."""
        token = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(token.encode(), self._secret):
            return PlainTextResponse("forbidden", 403)
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    return PlainTextResponse("too large", 413)
        except ClientDisconnect:  # Telegram sends the update again; nobody reads this answer
            return PlainTextResponse("incomplete", 400)
        try:
            raw = json.loads(bytes(body))
        except (ValueError, RecursionError):
            return PlainTextResponse("not JSON", 400)
        self._intake.saw_telegram()
        try:
            await self._intake.store([raw])
        except StorageError as error:
            logger.error("an update waits at Telegram: the database is away", exc_info=error)  # noqa: TRY400
            return PlainTextResponse("try again", 503)
        return PlainTextResponse("ok")
