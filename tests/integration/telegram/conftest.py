"""A bot that receives updates."""

from __future__ import annotations

import pytest
from aiogram import Bot

from src.pg.client import PgClient
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import Line


@pytest.fixture
def line(fake: FakeTelegram, bot: Bot, client: PgClient) -> Line:
    return Line(fake, bot, client)
