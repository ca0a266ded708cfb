"""While nobody writes the bot does next to nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.bot_process import World

USER = 2**41 + 1
SECONDS = 3
WINDOWS = 5  # the first ones have what was under way, of which the server tells late
MOST = 6  # transactions a second
COMMITS = """
SELECT xact_commit + xact_rollback, extract(epoch FROM clock_timestamp())
FROM pg_stat_database WHERE datname = current_database()
"""


async def test_an_idle_bot_hardly_asks_the_database(world: World) -> None:
    await world.start()
    await world.telegram.send_text(USER, "привет")
    await world.telegram.wait_sent(USER)
    await world.settled()
    rates: list[float] = []
    for _ in range(WINDOWS):
        before, began = world.query(COMMITS)[0]
        await asyncio.sleep(SECONDS)
        after, ended = world.query(COMMITS)[0]
        rates.append((after - before) / float(ended - began))
        if rates[-1] <= MOST:
            return
    pytest.fail(f"an idle bot does not come to rest: {rates}")
