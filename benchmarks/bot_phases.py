"""Phases of ``benchmarks.bots``: the load on a running bot, and the figures of each phase."""

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
ALONE_TURNS = 40  # one after the other
TYPING_SECONDS = 1.2  # between two turns: Telegram allows one message a second per chat
DRAIN_SECONDS = 120.0  # limit for the background work of the turns
START_SECONDS = 60.0  # limit for the first answer of a started bot
LIFE_SECONDS = 3.0  # from the first answer to the next kill
THINKING_SECONDS = 1.0  # of the model during kills, so that they interrupt answers
LATE_MS = 10_000.0

# Select a database's counters of work, and its size.
COUNT_WORK = """
SELECT xact_commit + xact_rollback, tup_inserted, tup_updated,
       pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_database_size(datname)
FROM pg_stat_database WHERE datname = %(name)s
"""


async def cold_start(world: World, child: psutil.Process, started: float) -> Numbers:
    """Wait until a bot started at ``started`` answers the pending message and is idle."""
    await answered(world, 1)
    numbers = {"cold_start_s": time.monotonic() - started}
    numbers["start_processor_s"] = sum(processor(child))
    await drained(child)
    return numbers | {"memory_idle_mb": memory(child)}


async def alone(world: World) -> Numbers:
    """Send the messages of one person, each soon after the answer to the previous one."""
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
    """Return the cost per turn, including the background work."""
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
    """Send messages of many chats at once; return the turns a second of the answered ones."""
    line = world.timeline
    line.expect(chats)
    for number in range(1, chats + 1):
        await world.say(number, chats)
    await line.quiet()
    count, last = len(line.answered), max(line.answered.values(), default=math.inf)
    await drained(child)
    return {"turns_per_s": count / (last - min(line.sent.values())), "unanswered": chats - count}


async def cost_of_rest(child: psutil.Process, dsn: str) -> Numbers:
    """Return the cost of an idle bot."""
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
    """Send messages at a rate while the bot is killed ``count`` times and restarted at once.

    Lost messages are those without an answer when the bot has become idle. The latencies include
    the second that the model takes.
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
    """Send messages at a rate until ``enough`` is set."""
    number = 0
    while not enough.is_set():
        number += 1
        await world.say(number, world.people)
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), 1 / rate)


async def answered(world: World, count: int) -> None:
    """Wait until ``count`` messages are answered."""
    line = world.timeline
    await world.telegram.wait_for(lambda: len(line.answered) >= count, START_SECONDS, "an answer")


async def drained(child: psutil.Process) -> None:
    """Wait until the processes of a bot are idle."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        used = sum(processor(child))
        await asyncio.sleep(3.0)
        if sum(processor(child)) - used < 0.15:
            return


def family(child: psutil.Process, ask: Callable[[psutil.Process], Any]) -> list[Any]:
    """Call ``ask`` on a process and its descendants, and skip those that ended meanwhile."""
    answers = []
    for each in (child, *child.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            answers.append(ask(each))
    return answers


def memory(child: psutil.Process) -> float:
    """Return the MB of a process and its descendants."""
    return float(sum(each.rss for each in family(child, psutil.Process.memory_info))) / 1e6


def processor(parent: psutil.Process) -> tuple[float, float]:
    """Return the CPU seconds of a process, and of its descendants, ended ones included."""
    own, *others = family(parent, psutil.Process.cpu_times)
    ended = own.children_user + own.children_system
    return own.user + own.system, ended + sum(each.user + each.system for each in others)


def server_of(dsn: str) -> psutil.Process:
    """Return the PostgreSQL server process of a database."""
    with closing(psycopg2.connect(dsn, dbname="postgres")) as connection:
        return psutil.Process(connection.info.backend_pid).parent() or psutil.Process()


def work(dsn: str) -> tuple[float, ...]:
    """Return ``COUNT_WORK`` of a database, queried from another one so that it adds nothing."""
    with closing(psycopg2.connect(dsn, dbname="postgres")) as connection:
        cursor = connection.cursor()
        cursor.execute(COUNT_WORK, {"name": parse_dsn(dsn)["dbname"]})
        return tuple(map(float, cursor.fetchone() or ()))
