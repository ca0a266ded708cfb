"""Kills at random moments under load; ``kill_loop`` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.e2e.bot_process import World
from tests.e2e.kill_loop import run_loop


@pytest.mark.timeout(900)  # with many kills; each takes three seconds
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.proof)])
async def test_kills_lose_nothing_and_keep_the_order(world: World, kills: int) -> None:
    result = await run_loop(world, kills=kills, people=20, seed=20_260_101)
    assert result.messages >= 25, "there was no load"
    # How many meet three kills, and get the apology, depends on the speed of the machine.
    assert (result.lost, result.out_of_order) == (0, 0), result
    assert result.unexcused == 0, result
    assert result.duplicates <= result.kills // 2, result
    assert (result.unhandled, result.rows_wrong) == (0, 0), result
