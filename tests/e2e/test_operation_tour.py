"""The admin pages about operation, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.admin_tour import CHROMIUM, PASSWORD, open_browser
from tests.e2e.bot_process import World
from tests.e2e.operation_tour import OperationTour, fill_operation

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="the admin page is not looked at: there is no chromium"
)


async def test_every_control_is_pressed_once_and_nobody_is_kept_out(
    world: World, tmp_path: Path
) -> None:
    bot = await world.start(ADMIN_PASSWORD=PASSWORD)
    fill_operation(world)
    tour = OperationTour(bot, tmp_path)
    async with open_browser() as browser:
        await tour.take(browser, PASSWORD)
    assert len(tour.made) == 20 and tour.seen
    assert tour.seen <= tour.pressed, f"never pressed: {tour.seen - tour.pressed}"
