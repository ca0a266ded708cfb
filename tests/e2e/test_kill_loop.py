"""Five kills at random moments under load; ``kill_loop`` runs as many as one likes."""

from __future__ import annotations

from tests.e2e.bot_process import World
from tests.e2e.kill_loop import run_loop


async def test_five_kills_lose_nothing_and_keep_the_order(world: World) -> None:
    result = await run_loop(world, kills=5, people=20, seed=20_260_101)
    assert result.messages >= 25, "there was no load"
    assert (result.lost, result.out_of_order) == (0, 0), result
    assert result.unexcused == 0, result
    assert result.duplicates <= result.kills // 2, result
    assert (result.unhandled, result.rows_wrong) == (0, 0), result
