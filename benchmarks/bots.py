"""Comparison of bots: latency, turns a second, CPU, database, idle cost, memory, and kills.

    python -m benchmarks.bots --rate 5 --rate 20 --burst 300 --burst 1000 --kills 10
    python -m benchmarks.bots n3d1117=/path/to/their/checkout earlier=/path/to/a/worktree

All bots talk, one after the other, to the same fake Telegram and the same fake model, which
answers at once: the bare handler, a LangGraph bot written in a day (``langgraph_bot.py``), this
checkout, and those given as NAME=PATH, which are other checkouts of Pomni, or checkouts of the two
bots by other authors that ``other_bot.py`` can start (they are in no registry). A checkout is run
by its own ``.venv/bin/python`` if it has one, otherwise by ours. Those of the other authors need
their own requirements there, and father-bot's also mongomock. They count tokens with tiktoken,
which downloads its vocabularies into ``data-gym-cache`` of the temporary folder.

A chat of fifteen messages fits into the prompt, so nothing is searched for it: the fewer
``--people``, the more turns of a long run search. Telegram accepts one answer a second per chat,
so there must be more people than messages a second.

Each round is printed when measured, then the medians with their ratios to the bare handler's.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import psutil
import psycopg2

from benchmarks.bot_phases import (
    Numbers,
    alone,
    burst,
    cold_start,
    cost_of_rest,
    cost_of_turns,
    drained,
    kills,
)
from benchmarks.world import ROOT, World, percentile, process
from src.pg.embedded import EmbeddedPostgres


@dataclass(frozen=True)
class Contender:
    """Bot to measure: its program with arguments, its folder of modules, its interpreter."""

    arguments: list[str]
    modules: Path = ROOT
    interpreter: str = sys.executable


OURS = {
    "bare": Contender([str(ROOT / "benchmarks" / "bare_bot.py")]),
    "langgraph": Contender([str(ROOT / "benchmarks" / "langgraph_bot.py")]),
    "pomni": Contender([str(ROOT / "bot.py"), "run"]),
}


def other(path: Path) -> Contender:
    """Return the contender of a checkout of Pomni, or of a bot that ``other_bot.py`` can start."""
    own = path / ".venv" / "bin" / "python"
    interpreter = str(own) if own.exists() else sys.executable
    if (path / "bot.py").exists():
        return Contender([str(path / "bot.py"), "run"], path, interpreter)
    starter = ROOT / "benchmarks" / "other_bot.py"
    return Contender([str(starter), str(path)], path / "bot", interpreter)


def main() -> None:
    """Measure every bot in turn, for the given rounds, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bots")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, action="append", help="messages a second (5)")
    parser.add_argument("--seconds", type=float, default=30.0, help="at each rate")
    parser.add_argument("--people", type=int, default=200, help="who write at these rates in turn")
    parser.add_argument("--burst", type=int, action="append", default=[], help="chats at once")
    parser.add_argument("--settle", type=float, default=65.0, help="seconds before the rest")
    parser.add_argument("--kills", type=int, default=0, help="at the slowest rate")
    parser.add_argument("--skip", action="append", default=[], help="a bot that is not run")
    parser.add_argument("others", nargs="*", metavar="NAME=PATH")
    arguments = parser.parse_args()
    arguments.rate = arguments.rate or [5.0]
    others = dict(each.split("=", 1) for each in arguments.others)
    bots = OURS | {name: other(Path(path).resolve()) for name, path in others.items()}
    bots = {name: bot for name, bot in bots.items() if name not in arguments.skip}
    rounds: dict[str, list[Numbers]] = {name: [] for name in bots}
    with tempfile.TemporaryDirectory(prefix="pomni-bots-") as name:
        server = EmbeddedPostgres(Path(name) / "pg")
        address = server.start()
        try:
            for number in range(arguments.rounds):
                for bot, contender in bots.items():
                    folder = Path(name) / f"{bot}-{number}"
                    folder.mkdir()
                    try:
                        measured = asyncio.run(measure(address, contender, folder, arguments))
                    except (AssertionError, psutil.Error) as error:
                        print(f"{bot} failed: {error}")  # the others are still measured
                        continue
                    rounds[bot].append(measured)
                    print(json.dumps({"bot": bot, "round": number, **measured}), flush=True)
        finally:
            server.stop()
    show({bot: medians(of) for bot, of in rounds.items() if of})


async def measure(
    address: str, contender: Contender, folder: Path, arguments: argparse.Namespace
) -> Numbers:
    """Measure one bot on its own database: start, turns, idle time, kills."""
    dsn, port = new_database(address, folder.name.replace("-", "_")), free_port()
    async with World(arguments.people) as world:
        environment = {**world.environment(dsn), "HTTP_PORT": port}
        environment["PYTHONPATH"] = str(contender.modules)
        start = partial(process, contender.arguments, environment, folder, contender.interpreter)
        world.timeline.expect(1)
        await world.say(1, world.people)
        started = time.monotonic()
        with start() as child:
            numbers = await cold_start(world, child, started)
            numbers |= await alone(world)
            await drained(child)
            for rate in arguments.rate:
                cost = await cost_of_turns(world, child, dsn, rate, arguments.seconds)
                numbers |= {f"{name}_at_{rate:g}": figure for name, figure in cost.items()}
                numbers[f"by_words_at_{rate:g}"] = searches_by_words(port)
            for chats in arguments.burst:
                speed = await burst(world, child, chats)
                numbers |= {f"{name}_of_{chats}_chats": figure for name, figure in speed.items()}
            await asyncio.sleep(arguments.settle)
            numbers |= await cost_of_rest(child, dsn)
            numbers["by_words"] = searches_by_words(port)
        if arguments.kills:
            toll = await kills(world, start, arguments.kills, min(arguments.rate))
            numbers |= {f"kills_{name}": figure for name, figure in toll.items()}
    return {name: round(figure, 3) for name, figure in numbers.items()}


def medians(rounds: list[Numbers]) -> Numbers:
    """Return the median of each figure."""
    return {name: percentile([one[name] for one in rounds], 0.5) for name in rounds[0]}


def show(bots: dict[str, Numbers]) -> None:
    """Print the medians as a table, each with its ratio to the bare handler's."""
    print(f"\n| | {' | '.join(bots)} |\n|---|{'---|' * len(bots)}")
    bare = bots.get("bare", {})
    for name in next(iter(bots.values()), {}):
        cells = [
            cell(of[name], 0.0 if of is bare else bare.get(name, 0.0)) for of in bots.values()
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def cell(figure: float, beside: float) -> str:
    """Format a figure, with its ratio to ``beside`` unless that is 0."""
    ratio = f" ({figure / beside:.2f}×)" if beside else ""
    return f"{round(figure, 2):g}{ratio}"


def free_port() -> str:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def searches_by_words(port: str) -> float:
    """Return the number of searches without an embedding, from the bot's metrics, or 0."""
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith("pomni_searches_by_words_total "):
                return float(line.split()[1])
    return 0.0


def new_database(address: str, name: str) -> str:
    """Create an empty database and return its address."""
    with closing(psycopg2.connect(address)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return address.replace("/postgres?", f"/{name}?")


if __name__ == "__main__":
    main()
