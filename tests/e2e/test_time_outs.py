"""A fail-over that drops every packet, and kill -9 of the embedded server, under load."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.migrations import migrate
from tests.attacks.time_outs import MESSAGES, fail_over, kill_server
from tests.e2e.bot_process import World
from tests.e2e.conftest import open_world
from tests.fakes.tcp_proxy import SwallowingProxy

PEOPLE = 4


async def test_a_fail_over_that_drops_everything_costs_no_answer(world: World) -> None:
    with SwallowingProxy(world.dsn) as proxy:
        found = await fail_over(world, proxy, people=PEOPLE, silence=3)
    assert found["turns"] == PEOPLE * MESSAGES
    assert (found["lost"], found["unordered"]) == (0, 0)


@pytest.fixture
async def own_world() -> AsyncIterator[tuple[World, Path]]:
    """A world on an embedded server that the bot looks after."""
    with tempfile.TemporaryDirectory(prefix="pomni-killed-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        await asyncio.to_thread(migrate, dsn)
        async with open_world(dsn) as world:
            yield world, Path(folder)
        await asyncio.to_thread(server.stop)


async def test_killing_the_embedded_server_costs_no_answer(own_world: tuple[World, Path]) -> None:
    world, data_dir = own_world
    found = await kill_server(world, data_dir, people=PEOPLE, kills=1)
    assert found["turns"] == PEOPLE * MESSAGES
    assert (found["lost"], found["unordered"], found["status"]) == (0, 0, 0)
