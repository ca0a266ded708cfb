"""Turns: added latency, throughput, cold start and memory of the bot and of the bare handler."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import psycopg2

from benchmarks.world import ROOT, World, percentile, process

Numbers = dict[str, float]

# Messages that are in no index yet, and documents without a vector.
COUNT_PENDING = """
SELECT (SELECT count(*) FROM unindexed_messages)
     + (SELECT count(*) FROM search_documents WHERE model_id IS NULL)
"""


@dataclass(frozen=True)
class Load:
    """How much of everything a run does."""

    users: int = 10_000
    rate: float = 20.0  # messages a second
    paced: int = 1_200  # messages at that rate
    flood: int = 3_000  # messages at once, for the sustained rate
    memory_turns: int = 10_000


async def measure_bot(
    world: World,
    arguments: list[str],
    dsn: str,
    load: Load,
    folder: Path,
    *,
    remembers: bool = False,
) -> Numbers:
    """Everything about one bot, in one process; ``remembers``: it embeds what was said."""
    world.timeline.expect(1)
    await world.say(1, load.users)
    started = time.monotonic()
    with process(arguments, world.environment(dsn), folder) as child:
        await asyncio.wait_for(world.timeline.done.wait(), 60)
        numbers = {"cold_start_s": time.monotonic() - started}
        await asyncio.sleep(2)  # let it settle: this is what an idle bot holds
        numbers["memory_idle_mb"] = _memory(child)
        numbers |= await _paced(world, load, "added", steady=True)
        numbers |= await _paced(world, load, "random_added", steady=False)
        numbers |= await _flood(world, load, load.flood)
        if remembers:
            numbers["embedded_after_flood_s"] = await _until_embedded(dsn)
        done = 1 + 2 * load.paced + load.flood
        if load.memory_turns > done:
            await _flood(world, load, load.memory_turns - done)
        numbers[f"memory_after_{load.memory_turns}_turns_mb"] = _memory(child)
    return numbers


async def _paced(world: World, load: Load, name: str, *, steady: bool) -> Numbers:
    """Messages at a rate, evenly or at random moments (Poisson), and what the bot adds to each."""
    world.timeline.expect(load.paced)
    moments = random.Random(7)
    for number in range(1, load.paced + 1):
        await world.say(number, load.users)
        await asyncio.sleep(1 / load.rate if steady else moments.expovariate(load.rate))
    await asyncio.wait_for(world.timeline.done.wait(), 60)
    line = world.timeline
    spans = {
        f"{name}_to_model": [1000 * (line.asked[n] - line.sent[n]) for n in line.sent],
        f"{name}_from_model": [1000 * (line.answered[n] - line.asked[n]) for n in line.sent],
        name: [1000 * (line.answered[n] - line.sent[n]) for n in line.sent],
    }
    return {
        f"{span}_p{share}_ms": percentile(values, share / 100)
        for span, values in spans.items()
        for share in (50, 99)
    }


async def _flood(world: World, load: Load, count: int) -> Numbers:
    """Messages of different users, all at once: how many turns a second the bot sustains."""
    world.timeline.expect(count)
    start = time.monotonic()
    for number in range(1, count + 1):
        await world.say(number, load.users)
        if number % 100 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(world.timeline.done.wait(), 600)
    return {"turns_per_s": count / (time.monotonic() - start)}


async def _until_embedded(dsn: str) -> float:
    """Seconds until everything that was said is found by its meaning too."""
    start = time.monotonic()
    while await asyncio.to_thread(_count_pending, dsn):  # noqa: ASYNC110  (the bot's)
        await asyncio.sleep(0.5)
    return time.monotonic() - start


def _count_pending(dsn: str) -> int:
    connection = psycopg2.connect(dsn)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(COUNT_PENDING)
        return int((cursor.fetchone() or (0,))[0])


def _memory(child: psutil.Process) -> float:
    """Resident megabytes of a process."""
    return float(child.memory_info().rss) / 1e6


async def measure_turns(dsn: str, load: Load, folder: Path) -> dict[str, object]:
    """The bot, then the bare handler, in the same world; and how they compare."""
    async with World() as world:
        pomni = await measure_bot(
            world, [str(ROOT / "bot.py"), "run"], dsn, load, folder, remembers=True
        )
    async with World() as world:
        bare = await measure_bot(
            world, [str(ROOT / "benchmarks" / "bare_bot.py")], dsn, load, folder
        )
    ratios = {name: value / bare[name] for name, value in pomni.items() if bare.get(name)}
    return {"load": asdict(load), "pomni": pomni, "bare": bare, "ratio": ratios}
