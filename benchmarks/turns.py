"""Turn figures: added latency, throughput, cold start and memory of the bot and the bare one."""

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

# Count messages that are not indexed yet, and documents without a vector.
COUNT_PENDING = """
SELECT (SELECT count(*) FROM unindexed_messages)
     + (SELECT count(*) FROM search_documents WHERE model_id IS NULL)
"""


@dataclass(frozen=True)
class Load:
    """Amounts of load in a run."""

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
    """Measure one bot in one process; with ``remembers``, also until its messages are embedded."""
    world.timeline.expect(1)
    await world.say(1, load.users)
    started = time.monotonic()
    with process(arguments, world.environment(dsn), folder) as child:
        await asyncio.wait_for(world.timeline.done.wait(), 60)
        numbers = {"cold_start_s": time.monotonic() - started}
        await asyncio.sleep(2)  # until the bot is idle
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
    """Send messages at a rate, evenly or at random (Poisson); return the latency that it adds."""
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
    """Send messages of different users at once; return the turns a second."""
    world.timeline.expect(count)
    start = time.monotonic()
    for number in range(1, count + 1):
        await world.say(number, load.users)
        if number % 100 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(world.timeline.done.wait(), 600)
    return {"turns_per_s": count / (time.monotonic() - start)}


async def _until_embedded(dsn: str) -> float:
    """Return the seconds until all messages are indexed and embedded."""
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
    """Return the resident megabytes of a process."""
    return float(child.memory_info().rss) / 1e6


async def measure_turns(dsn: str, load: Load, folder: Path) -> dict[str, object]:
    """Measure the bot, then the bare handler, in equal worlds; return both and their ratios."""
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
