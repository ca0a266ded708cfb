"""SIGKILL while many people stand at many points: after one restart each has what is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.e2e.bot_process import World, open_world
from tests.e2e.kill_matrix import DEAD, LAST, POINTS, Life, Script, Someone

FIRST = 2**41 + 1
LEFT = "SELECT count(*) FROM messages WHERE question IS NOT NULL"
Outcome = BaseException | str | None


async def step(life: Life, outcome: Outcome = None) -> Outcome:
    """Go on to the next point; returns it, or what went wrong before or now."""
    if isinstance(outcome, BaseException):
        return outcome
    try:
        return await anext(life, None)
    except Exception as error:  # noqa: BLE001  (the test of this person raises it)
        return error


@pytest.fixture(scope="module")
async def world(shared_dsn: str) -> AsyncIterator[World]:
    """The world after the restart."""
    async with open_world(shared_dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
async def outcomes(world: World) -> dict[str, Outcome]:
    """What went wrong with each, by the name of where they stood; None is nothing."""
    script = Script()
    world.model.reply = script
    bot = await world.start()
    lives = {
        point.__name__: point(Someone(world, script, user))
        for user, point in enumerate(POINTS, FIRST)
    }
    names, last = list(lives), [point.__name__ for point in LAST]
    first = [name for name in names if name not in last]
    stood = dict(zip(first, await asyncio.gather(*(step(lives[n]) for n in first)), strict=True))
    for name in last:
        stood[name] = await step(lives[name])
    await bot.kill()
    for name in names:
        if stood[name] == DEAD:
            stood[name] = await step(lives[name])
    await world.start()
    await world.settled()
    ended = await asyncio.gather(*(step(lives[name], stood[name]) for name in names))
    await world.settled()
    return dict(zip(names, ended, strict=True))


@pytest.mark.parametrize("point", [point.__name__ for point in POINTS])
def test_nothing_is_lost_or_doubled_by_a_kill(outcomes: dict[str, Outcome], point: str) -> None:
    outcome = outcomes[point]
    if isinstance(outcome, BaseException):
        raise outcome
    assert outcome is None, "it did not go to its end"


@pytest.mark.usefixtures("outcomes")
def test_nothing_is_left_undelivered_or_open(world: World) -> None:
    assert world.undelivered() == [] and world.query(LEFT) == [(0,)]
