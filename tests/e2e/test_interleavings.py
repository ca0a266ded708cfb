"""People do everything at once while the bot dies; see ``tests.e2e.interleavings``."""

from __future__ import annotations

import pytest

from tests.e2e.interleavings import LIFE_ACTIONS, main


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("people", "life"), [(20, (30, 60)), pytest.param(300, LIFE_ACTIONS, marks=pytest.mark.proof)]
)
async def test_whatever_people_do_and_whenever_the_bot_dies_nothing_is_lost_or_mixed_up(
    people: int, life: tuple[int, int]
) -> None:
    result = await main(people, 20_261_123, life)
    assert result.actions > 4 * people and result.kills >= 1, "there was no load"
    assert (result.lost, result.stale, result.foreign) == (0, 0, 0), result
    assert (result.together, result.unhandled) == (0, 0), result
