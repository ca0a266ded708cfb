"""A fake Telegram, and the real aiogram talking to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiogram import Bot

from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import open_bot


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(fake: FakeTelegram) -> AsyncIterator[Bot]:
    async with open_bot(fake) as opened:
        yield opened
