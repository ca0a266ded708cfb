"""A fake Telegram with the real aiogram talking to it; the agent, and somebody who talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiogram import Bot

from src.storage.pg_client import PgClient
from tests.conftest import open_client
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Person, Rig, open_person, open_rig, shared_database
from tests.integration.polling import open_bot


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(fake: FakeTelegram) -> AsyncIterator[Bot]:
    async with open_bot(fake) as opened:
        yield opened


@pytest.fixture
def core_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What ``pytest.mark.core`` says of a test or a file."""
    mark = request.node.get_closest_marker("core")
    return dict(mark.kwargs) if mark else {}


@pytest.fixture
async def rig(client: PgClient, core_settings: dict[str, Any]) -> AsyncIterator[Rig]:
    """The agent on a database of the test's own."""
    async with open_rig(client, **core_settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared(postgres_server: str) -> Iterator[PgClient]:
    """The database of all tests in which somebody new talks to the bot."""
    yield from open_client(shared_database(postgres_server))


@pytest.fixture
async def person(shared: PgClient, core_settings: dict[str, Any]) -> AsyncIterator[Person]:
    """Somebody whom the bot has never met."""
    async with open_person(shared, **core_settings) as opened:
        yield opened
