"""People do everything at once while the bot dies; see ``tests.e2e.interleavings``."""

from __future__ import annotations

import pytest

from tests.e2e.interleavings import main


@pytest.mark.proof
@pytest.mark.timeout(900)
async def test_whatever_people_do_and_whenever_the_bot_dies_nothing_is_lost_or_mixed_up() -> None:
    result = await main(300, 20_261_123)
    assert result.actions > 1200 and result.kills >= 1, "there was no load"
    assert (result.lost, result.stale, result.foreign) == (0, 0, 0), result
    assert (result.together, result.unhandled) == (0, 0), result
