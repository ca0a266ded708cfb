"""Kills at random moments under load; ``kill_loop`` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.e2e.bot_process import World
from tests.e2e.kill_loop import run_loop


@pytest.mark.proof
@pytest.mark.timeout(900)  # each kill takes three seconds
async def test_kills_lose_nothing_and_keep_the_order(world: World) -> None:
    result = await run_loop(world, kills=40, people=20, seed=20_260_101)
    assert result.messages >= 25, "there was no load"
    # How many meet three kills, and get the apology, depends on the speed of the machine.
    assert (result.lost, result.out_of_order) == (0, 0), result
    assert result.unexcused == 0, result
    assert result.duplicates <= result.kills // 2, result
    assert (result.unhandled, result.rows_wrong) == (0, 0), result
