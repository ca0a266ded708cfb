"""The admin pages in a browser: each is looked at, and what there is to press is pressed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.admin_tour import CHROMIUM, PASSWORD, open_browser, talk
from tests.e2e.bot_process import World
from tests.e2e.operation_tour import PAGES, AdminTour, fill_operation, keep_facts

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="the admin page is not looked at: there is no chromium"
)


@pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=[pytest.mark.proof, pytest.mark.timeout(600)])]
)
async def test_every_control_is_pressed_once_and_nobody_is_kept_out(
    world: World, tmp_path: Path, is_whole: bool
) -> None:
    bot = await world.start(ADMIN_PASSWORD=PASSWORD)
    await talk(world)
    keep_facts(world)
    fill_operation(world)
    tour = AdminTour(bot, tmp_path if is_whole else None, is_whole=is_whole)
    async with open_browser() as browser:
        await tour.take(browser, PASSWORD)
    assert tour.looked == (len(PAGES) + 1) * (4 if is_whole else 1) + 1 and tour.seen
    assert tour.seen <= tour.pressed, f"never pressed: {tour.seen - tour.pressed}"
