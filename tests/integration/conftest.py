"""A fake Telegram with the real aiogram talking to it; the agent, and somebody who talks to it.

The tests of a worker share a database, a model server and, for each set of settings, an agent.
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
from tests.integration.polling import open_bot
from tests.tables import empty_database


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """On a busy machine the embedder of a question may take longer than a person would wait."""
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
    """The worker's database, in which every test may talk as somebody new."""
    for address in new_database(postgres_server, TEMPLATE):
        yield from open_client(address)


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """Its address, with nothing of anybody in it; a new one for whom ``own_database`` marks."""
    if request.node.get_closest_marker("own_database"):
        yield from new_database(request.getfixturevalue("postgres_server"), TEMPLATE)
        return
    shared: PgClient = request.getfixturevalue("shared")
    empty_database(shared.dsn)
    yield shared.dsn


@pytest.fixture
def client(request: pytest.FixtureRequest, dsn: str) -> Iterator[PgClient]:
    """An open client on it."""
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
    """What ``pytest.mark.core`` says of a test or a file."""
    mark = request.node.get_closest_marker("core")
    return dict(mark.kwargs) if mark else {}


@pytest.fixture
async def rig(
    request: pytest.FixtureRequest,
    client: PgClient,
    agents: Agents,
    core_settings: dict[str, Any],
) -> AsyncIterator[Rig]:
    """An agent that nobody has ever written to; with a database of its own, a new one."""
    if request.node.get_closest_marker("own_database"):
        async with open_rig(client, **core_settings) as opened:
            yield opened
        return
    yield await agents.get(**core_settings)


@pytest.fixture
async def person(agents: Agents, core_settings: dict[str, Any]) -> Person:
    """Somebody whom the bot has never met."""
    return await agents.person(**core_settings)
