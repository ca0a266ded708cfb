"""A user's Telegram for the tests of the memory."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram import Bot

from src.pg.client import PgClient
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Agents
from tests.integration.phone import Phone, open_phone


@pytest.fixture
async def phone(
    client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot, core_settings: dict[str, Any]
) -> Phone:
    """A phone connected to the agent of the mark ``core``, with an empty database."""
    return await open_phone(agents, fake, bot, **core_settings)
