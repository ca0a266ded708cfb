"""A fail-over that drops every packet, under load."""

from __future__ import annotations

from tests.attacks.time_outs import MESSAGES, fail_over
from tests.e2e.bot_process import World
from tests.fakes.tcp_proxy import SwallowingProxy

PEOPLE = 4


async def test_a_fail_over_that_drops_everything_costs_no_answer(world: World) -> None:
    with SwallowingProxy(world.dsn) as proxy:
        found = await fail_over(world, proxy, people=PEOPLE, silence=3)
    assert found["turns"] == PEOPLE * MESSAGES
    assert (found["lost"], found["unordered"]) == (0, 0)
