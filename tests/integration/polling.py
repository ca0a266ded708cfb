"""Pollers with short pauses, and checks of their effects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from aiogram.utils.backoff import BackoffConfig

from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.pg.locks import POLLER_LOCK, AdvisoryLock
from src.queue.update_repo import UpdateRepository
from src.telegram.receiver import Poller, PollTiming, UpdateIntake
from src.telegram.requests import TelegramSession
from src.telegram.updates import AllowList, BotIdentity
from tests.conftest import query
from tests.fakes import eventually as eventually
from tests.fakes.telegram_server import FakeTelegram

QUICK = PollTiming(
    poll=5,
    grace=2,
    backoff=BackoffConfig(0.04, 0.2, factor=2.0, jitter=0.0),
    conflict_pause=0.05,
    standby_pause=0.05,
    max_retry_after=1.2,
)


@contextlib.asynccontextmanager
async def open_bot(fake: FakeTelegram, token: str | None = None) -> AsyncIterator[Bot]:
    """Open a real aiogram bot that is connected to the fake."""
    session = TelegramSession(api=TelegramAPIServer.from_base(fake.url))
    yield Bot(token or fake.token, session=session)
    # aiogram's close waits a quarter of a second for TLS connections, of which there are none.
    await (await session.create_session()).close()


def build_intake(client: PgClient, access: AllowList | None = None) -> UpdateIntake:
    """Build the intake of the fake's bot."""
    return UpdateIntake(
        client,
        UpdateRepository(client),
        BotIdentity(42, "pomni_test_bot", "Помни"),
        access or AllowList(),
        Metrics(),
    )


def build_poller(bot: Bot, client: PgClient, timing: PollTiming = QUICK) -> Poller:
    """Build a poller of the bot on the client's database."""
    lock = AdvisoryLock(client.dsn, POLLER_LOCK, bot.id)
    return Poller(bot, build_intake(client), lock, timing)


@contextlib.asynccontextmanager
async def running(poller: Poller) -> AsyncIterator[asyncio.Task[None]]:
    """Run the poller during the context; its errors fail the test."""
    task = asyncio.create_task(poller.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def texts(dsn: str) -> list[str]:
    """Return the texts of stored messages in order of arrival."""
    sql = "SELECT payload->'message'->>'text' FROM telegram_updates ORDER BY id"
    return [row[0] for row in query(dsn, sql)]


@dataclass
class Line:
    """A bot that receives updates from the fake into a database."""

    fake: FakeTelegram
    bot: Bot
    client: PgClient

    def poller(self, timing: PollTiming = QUICK) -> Poller:
        """Build a poller."""
        return build_poller(self.bot, self.client, timing)

    def receiving(
        self, timing: PollTiming = QUICK
    ) -> contextlib.AbstractAsyncContextManager[asyncio.Task[None]]:
        """Run a poller during the context."""
        return running(self.poller(timing))

    async def send(self, text: str) -> int:
        """Write as a user; returns the update's number."""
        return self.fake.update_id_of(await self.fake.send_text(2**41 + 7, text))

    def texts(self) -> list[str]:
        """Return the texts of stored messages in order of arrival."""
        return texts(self.client.dsn)
