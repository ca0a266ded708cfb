"""What a turn costs each bot, side by side: processor, transactions, WAL, latency, and idle.

    python -m benchmarks.bots --rounds 3 --seconds 30 other=/path/to/a/checkout

Every bot talks to the same fake Telegram and the same fake model, which answers at once, in turn:
this checkout, the bare handler, and other checkouts of Pomni given as NAME=PATH (an earlier commit
in a worktree, say). Other authors' bots are in no registry; one that starts with ``python bot.py
run`` and reads the same variables can be given likewise.
"""

import argparse
import asyncio
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2

from benchmarks.world import ROOT, World, percentile, process
from src.pg.embedded import EmbeddedPostgres

Numbers = dict[str, float]
IDLE_SECONDS = 20.0
WARM_TURNS = 20
USERS = 200
DRAIN_SECONDS = 120.0  # at most, until the background of the turns is done

# What a database has done so far, and what it holds.
COUNT_WORK = """
SELECT xact_commit + xact_rollback, tup_inserted, tup_updated,
       pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())
FROM pg_stat_database WHERE datname = current_database()
"""


def main() -> None:
    """Measure every bot in turn, as often as asked, and print the medians as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bots")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("others", nargs="*", metavar="NAME=PATH")
    arguments = parser.parse_args()
    here = {"bare": "benchmarks/bare_bot.py", "pomni": "bot.py"}
    bots = {name: ROOT / path for name, path in here.items()}
    others = dict(other.split("=", 1) for other in arguments.others)
    bots |= {name: Path(path) / "bot.py" for name, path in others.items()}
    rounds: dict[str, list[Numbers]] = {name: [] for name in bots}
    with tempfile.TemporaryDirectory(prefix="pomni-bots-") as name:
        server = EmbeddedPostgres(Path(name) / "pg")
        address = server.start()
        try:
            for number in range(arguments.rounds):
                for bot, program in bots.items():
                    folder = Path(name) / f"{bot}-{number}"
                    folder.mkdir()
                    measured = measure(address, program, folder, arguments.rate, arguments.seconds)
                    rounds[bot].append(asyncio.run(measured))
        finally:
            server.stop()
    print(json.dumps({bot: medians(of) for bot, of in rounds.items()}, indent=2))


def medians(rounds: list[Numbers]) -> Numbers:
    """Of each figure the one in the middle."""
    return {name: round(percentile([one[name] for one in rounds], 0.5), 3) for name in rounds[0]}


async def measure(
    address: str, program: Path, folder: Path, rate: float, seconds: float
) -> Numbers:
    """One bot on a database of its own: its start, its turns at a rate, its rest."""
    dsn = new_database(address, folder.name.replace("-", "_"))
    command = [str(program)] if program.name != "bot.py" else [str(program), "run"]
    async with World() as world:
        environment = {**world.environment(dsn), "PYTHONPATH": str(program.parent)}
        if program.name != "bot.py":
            environment["PYTHONPATH"] = str(ROOT)
        world.timeline.expect(1)
        await world.say(1, USERS)
        started = time.monotonic()
        with process(command, environment, folder) as child:
            await asyncio.wait_for(world.timeline.done.wait(), 60)
            numbers = {"first_answer_s": time.monotonic() - started}
            numbers["start_processor_s"] = processor(child)
            await talk(world, WARM_TURNS, rate)
            await drained(child)
            numbers |= await cost_of_turns(world, child, dsn, rate, seconds)
            numbers |= await cost_of_rest(child, dsn)
            numbers["memory_mb"] = sum(each.memory_info().rss for each in family(child)) / 1e6
    return numbers


async def cost_of_turns(
    world: World, child: psutil.Process, dsn: str, rate: float, seconds: float
) -> Numbers:
    """What each of some turns costs, until their background is done."""
    turns, server = int(rate * seconds), server_of(dsn)
    before, used, served = work(dsn), processor(child), processor(server)
    await talk(world, turns, rate)
    line = world.timeline
    added = [1000 * (line.answered[number] - line.sent[number]) for number in line.sent]
    await drained(child)
    transactions, inserted, updated, wal, size = (
        (now - then) / turns for now, then in zip(work(dsn), before, strict=True)
    )
    return {
        "added_p50_ms": percentile(added, 0.5),
        "added_p99_ms": percentile(added, 0.99),
        "processor_ms": 1000 * (processor(child) - used) / turns,
        "postgres_ms": 1000 * (processor(server) - served) / turns,
        "transactions": transactions,
        "rows_inserted": inserted,
        "rows_updated": updated,
        "wal_kb": wal / 1024,
        "database_kb": size / 1024,
    }


async def cost_of_rest(child: psutil.Process, dsn: str) -> Numbers:
    """What it costs while nobody writes."""
    server = server_of(dsn)
    before, used = work(dsn), processor(child) + processor(server)
    await asyncio.sleep(IDLE_SECONDS)
    spent = processor(child) + processor(server) - used
    return {
        "idle_processor_percent": 100 * spent / IDLE_SECONDS,
        "idle_transactions_per_s": (work(dsn)[0] - before[0]) / IDLE_SECONDS,
    }


async def talk(world: World, count: int, rate: float) -> None:
    """So many messages at a rate, each answered."""
    world.timeline.expect(count)
    for number in range(1, count + 1):
        await world.say(number, USERS)
        await asyncio.sleep(1 / rate)
    await asyncio.wait_for(world.timeline.done.wait(), 120)


async def drained(child: psutil.Process) -> None:
    """Wait until the processes of a bot have come to rest."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        used = processor(child)
        await asyncio.sleep(3.0)
        if processor(child) - used < 0.15:
            return


def family(child: psutil.Process) -> list[psutil.Process]:
    """A process and those that it started."""
    return [child, *child.children(recursive=True)]


def processor(parent: psutil.Process) -> float:
    """Seconds of processor of a process and those that it started, ended ones included."""
    times = [each.cpu_times() for each in family(parent)]
    ended = times[0].children_user + times[0].children_system
    return sum(t.user + t.system for t in times) + ended


def server_of(dsn: str) -> psutil.Process:
    """The PostgreSQL of a database."""
    with closing(psycopg2.connect(dsn)) as connection:
        return psutil.Process(connection.info.backend_pid).parent() or psutil.Process()


def new_database(address: str, name: str) -> str:
    """The address of an empty database."""
    with closing(psycopg2.connect(address)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return address.replace("/postgres?", f"/{name}?")


def work(dsn: str) -> tuple[float, ...]:
    """``COUNT_WORK`` of a database."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(COUNT_WORK)
        return tuple(map(float, cursor.fetchone() or ()))


if __name__ == "__main__":
    main()
