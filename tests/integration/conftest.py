"""Fixtures of integration tests: a fake Telegram with a real aiogram bot, agents and users.

The tests of a worker share a database, a model server and one agent per set of settings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiogram import Bot

from src.memory import retriever, writer
from src.pg.client import PgClient
from tests.conftest import TEMPLATE, new_database, open_client
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Agents, Person, Rig, open_rig
from tests.integration.phone import Phone, open_phone
from tests.integration.polling import open_bot
from tests.tables import empty_database


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Raise the embedding deadlines, which a busy machine would exceed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retriever, "EMBED_DEADLINE", 10.0)
        patch.setattr(writer, "EMBED_DEADLINE", 30.0)
        yield


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(fake: FakeTelegram) -> AsyncIterator[Bot]:
    async with open_bot(fake) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared(postgres_server: str) -> Iterator[PgClient]:
    """Client of the worker's database, in which every test can use a new user."""
    for address in new_database(postgres_server, TEMPLATE):
        yield from open_client(address)


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of the emptied shared database, or of a new one with the mark ``own_database``."""
    if request.node.get_closest_marker("own_database"):
        yield from new_database(request.getfixturevalue("postgres_server"), TEMPLATE)
        return
    shared: PgClient = request.getfixturevalue("shared")
    empty_database(shared.dsn)
    yield shared.dsn


@pytest.fixture
def client(request: pytest.FixtureRequest, dsn: str) -> Iterator[PgClient]:
    """Open client of the database ``dsn``."""
    if request.node.get_closest_marker("own_database"):
        yield from open_client(dsn)
        return
    yield request.getfixturevalue("shared")


@pytest.fixture(scope="session")
async def agents(shared: PgClient) -> AsyncIterator[Agents]:
    async with FakeOpenAI() as model:
        opened = Agents(shared, model)
        yield opened
        await opened.close()


@pytest.fixture
def core_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings from ``pytest.mark.core`` of a test or a file."""
    mark = request.node.get_closest_marker("core")
    return dict(mark.kwargs) if mark else {}


@pytest.fixture
async def rig(
    request: pytest.FixtureRequest,
    client: PgClient,
    agents: Agents,
    core_settings: dict[str, Any],
) -> AsyncIterator[Rig]:
    """Agent with a reset model; a separate one with the mark ``own_database``."""
    if request.node.get_closest_marker("own_database"):
        async with open_rig(client, **core_settings) as opened:
            yield opened
        return
    yield await agents.get(**core_settings)


@pytest.fixture
async def person(agents: Agents, core_settings: dict[str, Any]) -> Person:
    """New user of the agent."""
    return await agents.person(**core_settings)


@pytest.fixture
async def phone(
    client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot, core_settings: dict[str, Any]
) -> Phone:
    """Telegram of a user, with the whole bot except the queue, on an emptied database."""
    return await open_phone(agents, fake, bot, **core_settings)
