"""Two receivers behind a balancer and two workers: one dies now and then, and nobody notices much.

``python -m tests.attacks.many_hosts`` does it for longer, and restarts PostgreSQL too.
"""

from __future__ import annotations

import pytest

from src.queue.workers import DEAD_AFTER
from tests.attacks.many_hosts import open_hosts, run_hosts

TAKEOVER = 20.0  # seconds that an answer may come later because its worker died


@pytest.mark.proof
@pytest.mark.timeout(900)
async def test_deaths_among_many_hosts_lose_nothing_and_delay_nobody_for_long(dsn: str) -> None:
    async with open_hosts(dsn) as world:
        result, waits = await run_hosts(
            world, None, receivers=2, workers=2, people=6, kills=20, every=1.0, seed=7
        )
    assert result.messages >= 12, "there was no load"
    assert (result.lost, result.out_of_order, result.unexcused) == (0, 0, 0), result
    assert (result.unhandled, result.rows_wrong) == (0, 0), result
    assert DEAD_AFTER < TAKEOVER and waits.longest < 2 * TAKEOVER, waits  # on a busy machine, too
