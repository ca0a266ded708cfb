"""What ``benchmarks.bots`` does with a running bot, and what it counts meanwhile."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from typing import Any

import psutil
import psycopg2
from psycopg2.extensions import parse_dsn

from benchmarks.world import World, percentile

Numbers = dict[str, float]
Start = Callable[[], AbstractContextManager[psutil.Process]]

IDLE_SECONDS = 20.0
ALONE_TURNS = 40  # one after the other, from the first on
TYPING_SECONDS = 1.2  # between two of them: Telegram wants no more than one a second in a chat
DRAIN_SECONDS = 120.0  # at most, until the background of the turns is done
START_SECONDS = 60.0  # at most, until a bot that was started answers
LIFE_SECONDS = 3.0  # from its first answer to the next kill
THINKING_SECONDS = 1.0  # of the model meanwhile, so that kills meet answers under way
LATE_MS = 10_000.0

# What a database has done so far, and what it holds.
COUNT_WORK = """
SELECT xact_commit + xact_rollback, tup_inserted, tup_updated,
       pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_database_size(datname)
FROM pg_stat_database WHERE datname = %(name)s
"""


async def cold_start(world: World, child: psutil.Process, started: float) -> Numbers:
    """A bot started at that moment answers the message that waits for it, then rests."""
    await answered(world, 1)
    numbers = {"cold_start_s": time.monotonic() - started}
    numbers["start_processor_s"] = sum(processor(child))
    await drained(child)
    return numbers | {"memory_idle_mb": memory(child)}


async def alone(world: World) -> Numbers:
    """One person, a message soon after the one before is answered."""
    added = []
    for number in range(1, ALONE_TURNS + 1):
        world.timeline.expect(1)
        await world.say(number, 1)
        await answered(world, 1)
        added += world.timeline.latencies()
        await asyncio.sleep(TYPING_SECONDS)
    return {"alone_p50_ms": percentile(added, 0.5), "alone_max_ms": max(added)}


async def cost_of_turns(
    world: World, child: psutil.Process, dsn: str, rate: float, seconds: float
) -> Numbers:
    """What each of some turns costs, until their background is done."""
    turns, server, line = int(rate * seconds), server_of(dsn), world.timeline
    before, used, served = work(dsn), processor(child), sum(processor(server))
    line.expect(turns)
    for number in range(1, turns + 1):
        await world.say(number, world.people)
        await asyncio.sleep(1 / rate)
    await line.quiet()
    added = line.latencies()
    await drained(child)
    main, children = (
        1000 * (now - then) / turns for now, then in zip(processor(child), used, strict=True)
    )
    transactions, inserted, updated, wal, size = (
        (now - then) / turns for now, then in zip(work(dsn), before, strict=True)
    )
    return {
        "added_p50_ms": percentile(added, 0.5),
        "added_p99_ms": percentile(added, 0.99),
        "unanswered": turns - len(added),
        "processor_main_ms": main,
        "processor_children_ms": children,
        "processor_postgres_ms": 1000 * (sum(processor(server)) - served) / turns,
        "transactions": transactions,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "wal_kb": wal / 1024,
        "database_kb": size / 1024,
    }


async def burst(world: World, child: psutil.Process, chats: int) -> Numbers:
    """So many chats write at once: turns a second of those that are answered."""
    line = world.timeline
    line.expect(chats)
    for number in range(1, chats + 1):
        await world.say(number, chats)
    await line.quiet()
    count, last = len(line.answered), max(line.answered.values(), default=math.inf)
    await drained(child)
    return {"turns_per_s": count / (last - min(line.sent.values())), "unanswered": chats - count}


async def cost_of_rest(child: psutil.Process, dsn: str) -> Numbers:
    """What it costs while nobody writes."""
    server = server_of(dsn)
    before, used, served = work(dsn), sum(processor(child)), sum(processor(server))
    await asyncio.sleep(IDLE_SECONDS)
    return {
        "idle_processor_percent": 100 * (sum(processor(child)) - used) / IDLE_SECONDS,
        "idle_postgres_percent": 100 * (sum(processor(server)) - served) / IDLE_SECONDS,
        "idle_transactions_per_s": (work(dsn)[0] - before[0]) / IDLE_SECONDS,
        "memory_after_mb": memory(child),
    }


async def kills(world: World, start: Start, count: int, rate: float) -> Numbers:
    """Messages at a rate, while the bot is killed so many times and started again at once.

    Lost are those that nobody answered when all had become quiet; the latencies hold the second
    that the model takes.
    """
    line, enough, waits = world.timeline, asyncio.Event(), []
    line.expect(0)
    line.thinking = THINKING_SECONDS
    talking = asyncio.create_task(talk_on(world, rate, enough))
    moment = time.monotonic()
    for left in range(count, -1, -1):
        with start() as child:
            await answered(world, len(line.answered) + 1)
            waits.append(time.monotonic() - moment)
            if left:
                await asyncio.sleep(LIFE_SECONDS)
                moment = time.monotonic()
                family(child, psutil.Process.kill)
                continue
            enough.set()
            await talking
            line.expected = len(line.sent)
            await line.quiet()
            await drained(child)
    return {
        "messages": len(line.sent),
        "lost": len(line.sent) - len(line.answered),
        "doubled": len(line.answers) - len(line.answered),
        "late": sum(latency > LATE_MS for latency in line.latencies()),
        "after_kill_p50_s": percentile(waits[1:], 0.5),
    }


async def talk_on(world: World, rate: float, enough: asyncio.Event) -> None:
    """Write at a rate until it is enough."""
    number = 0
    while not enough.is_set():
        number += 1
        await world.say(number, world.people)
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), 1 / rate)


async def answered(world: World, count: int) -> None:
    """Return when so many messages are answered."""
    line = world.timeline
    await world.telegram.wait_for(lambda: len(line.answered) >= count, START_SECONDS, "an answer")


async def drained(child: psutil.Process) -> None:
    """Wait until the processes of a bot have come to rest."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        used = sum(processor(child))
        await asyncio.sleep(3.0)
        if sum(processor(child)) - used < 0.15:
            return


def family(child: psutil.Process, ask: Callable[[psutil.Process], Any]) -> list[Any]:
    """What a process answers, and those that it started, but for those that ended meanwhile."""
    answers = []
    for each in (child, *child.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            answers.append(ask(each))
    return answers


def memory(child: psutil.Process) -> float:
    """MB of a process and those that it started."""
    return float(sum(each.rss for each in family(child, psutil.Process.memory_info))) / 1e6


def processor(parent: psutil.Process) -> tuple[float, float]:
    """Seconds of processor of a process, and of those that it started, ended ones included."""
    own, *others = family(parent, psutil.Process.cpu_times)
    ended = own.children_user + own.children_system
    return own.user + own.system, ended + sum(each.user + each.system for each in others)


def server_of(dsn: str) -> psutil.Process:
    """The PostgreSQL of a database."""
    with closing(psycopg2.connect(dsn, dbname="postgres")) as connection:
        return psutil.Process(connection.info.backend_pid).parent() or psutil.Process()


def work(dsn: str) -> tuple[float, ...]:
    """``COUNT_WORK`` of a database, from another one: what it takes is not counted."""
    with closing(psycopg2.connect(dsn, dbname="postgres")) as connection:
        cursor = connection.cursor()
        cursor.execute(COUNT_WORK, {"name": parse_dsn(dsn)["dbname"]})
        return tuple(map(float, cursor.fetchone() or ()))
