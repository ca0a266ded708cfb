"""What a turn costs each bot, side by side: processor, transactions, WAL, latency, and idle.

    python -m benchmarks.bots --rounds 3 --seconds 30 other=/path/to/a/checkout
    python -m benchmarks.bots --rate 20 --seconds 180 --burst 300 --burst 1000

Every bot talks to the same fake Telegram and the same fake model, which answers at once, in turn:
this checkout, the bare handler, and other checkouts of Pomni given as NAME=PATH (an earlier commit
in a worktree, say). Other authors' bots are in no registry; one that starts with ``python bot.py
run`` and reads the same variables can be given likewise.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import psutil
import psycopg2

from benchmarks.world import ROOT, World, percentile, process
from src.pg.embedded import EmbeddedPostgres

Numbers = dict[str, float]
IDLE_SECONDS = 20.0
ALONE_TURNS = 40  # one after the other, from the first on
TYPING_SECONDS = 1.2  # between two of them: Telegram wants no more than one a second in a chat
SETTLE_SECONDS = 65.0  # before the rest is measured
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
    parser.add_argument("--burst", type=int, action="append", default=[], help="chats at once")
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
                    rounds[bot].append(asyncio.run(measure(address, program, folder, arguments)))
        finally:
            server.stop()
    print(json.dumps({bot: medians(of) for bot, of in rounds.items()}, indent=2))


def medians(rounds: list[Numbers]) -> Numbers:
    """Of each figure the one in the middle."""
    return {name: round(percentile([one[name] for one in rounds], 0.5), 3) for name in rounds[0]}


async def measure(
    address: str, program: Path, folder: Path, arguments: argparse.Namespace
) -> Numbers:
    """One bot on a database of its own: its start, its turns, its rest."""
    dsn = new_database(address, folder.name.replace("-", "_"))
    command = [str(program)] if program.name != "bot.py" else [str(program), "run"]
    async with World() as world:
        port = str(free_port())
        environment = {**world.environment(dsn), "HTTP_PORT": port}
        environment["PYTHONPATH"] = str(program.parent)
        if program.name != "bot.py":
            environment["PYTHONPATH"] = str(ROOT)
        world.timeline.expect(1)
        await world.say(1, USERS)
        started = time.monotonic()
        with process(command, environment, folder) as child:
            await asyncio.wait_for(world.timeline.done.wait(), 60)
            numbers = {"first_answer_s": time.monotonic() - started}
            numbers["start_processor_s"] = processor(child)
            numbers |= await alone(world)
            await drained(child)
            numbers |= await cost_of_turns(world, child, dsn, arguments.rate, arguments.seconds)
            for chats in arguments.burst:
                numbers[f"turns_per_s_of_{chats}_chats"] = await burst(world, chats)
                await drained(child)
            await asyncio.sleep(SETTLE_SECONDS)
            numbers |= await cost_of_rest(child, dsn)
            numbers["memory_mb"] = sum(each.memory_info().rss for each in family(child)) / 1e6
            numbers["searches_by_words"] = searches_by_words(port)
    return numbers


async def alone(world: World) -> Numbers:
    """One person, a message soon after the one before is answered."""
    added = []
    for number in range(1, ALONE_TURNS + 1):
        world.timeline.expect(1)
        await world.say(number, 1)
        await asyncio.wait_for(world.timeline.done.wait(), 60)
        added.append(1000 * (world.timeline.answered[number] - world.timeline.sent[number]))
        await asyncio.sleep(TYPING_SECONDS)
    return {"alone_p50_ms": percentile(added, 0.5), "alone_max_ms": max(added)}


async def burst(world: World, chats: int) -> float:
    """Turns a second while so many chats write at once."""
    line = world.timeline
    line.expect(chats)
    for number in range(1, chats + 1):
        await world.say(number, chats)
    await asyncio.wait_for(line.done.wait(), 600)
    return chats / (max(line.answered.values()) - min(line.sent.values()))


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def searches_by_words(port: str) -> float:
    """How many searches went without an embedding, as the bot's metrics tell; 0 without such."""
    with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith("pomni_searches_by_words_total "):
                return float(line.split()[1])
    return 0.0


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
    await asyncio.wait_for(world.timeline.done.wait(), 300)


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
