"""A database that stops answering during work: a fail-over, or SIGKILL to its server.

python -m tests.attacks.time_outs --people 20 --silence 10
python -m tests.attacks.time_outs --people 20 --kill 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.conftest import query
from tests.e2e.bot_process import World, eventually
from tests.e2e.conftest import open_world
from tests.fakes.openai_server import Reply
from tests.fakes.tcp_proxy import SwallowingProxy
from tests.integration.embedded_users import is_reachable, kill_postmaster

FIRST = 2**41 + 100
MESSAGES = 3  # per user, each after the answer to the previous one


class Crowd:
    """Users who write, wait for the answer, and write again."""

    def __init__(self, world: World, people: int) -> None:
        self.world = world
        self.people = range(FIRST, FIRST + people)
        world.model.reply = lambda request: Reply(
            text=f"эхо: {request.last_user_text}", chunk_size=4, chunk_delay=0.05
        )

    async def talk(self) -> None:
        """Return when all users have all answers."""
        await asyncio.gather(*map(self._talk, self.people))

    async def _talk(self, person: int) -> None:
        for number in range(MESSAGES):
            await self.world.telegram.send_text(person, f"№{number}")
            await self.world.telegram.wait_sent(person, number + 1, timeout=150)

    def check(self) -> dict[str, int]:
        """Count the answers that are missing, doubled or out of order."""
        expected = [f"эхо: №{number}" for number in range(MESSAGES)]
        counts = {"lost": 0, "twice": 0, "unordered": 0}
        for person in self.people:
            answers = self.world.answers(person)
            counts["lost"] += len(set(expected) - set(answers))
            counts["twice"] += len(answers) - len(set(answers))
            counts["unordered"] += list(dict.fromkeys(answers)) != expected
        return counts


async def fail_over(world: World, proxy: SwallowingProxy, *, people: int, silence: float) -> Any:
    """Drop all bytes for ``silence`` seconds; then only new connections work.

    The kernel of a real host notices that nobody acknowledges its packets (``tcp_user_timeout``);
    here the proxy acknowledges all of them, so it cuts the dead connections itself.
    """
    bot = await world.start(DATABASE_URL=proxy.dsn)
    crowd = Crowd(world, people)
    talking = asyncio.ensure_future(crowd.talk())
    await world.telegram.wait_for(lambda: len(world.telegram.sent) >= people, timeout=120)
    proxy.swallow()
    await asyncio.sleep(silence)
    proxy.fail_over()
    start = time.monotonic()
    await talking
    seconds = time.monotonic() - start
    return await conclude(crowd, seconds, await bot.terminate())


async def kill_server(world: World, data_dir: Path, *, people: int, kills: int) -> Any:
    """Kill the process of the embedded server, which the bot supervises."""
    bot = await world.start(DATABASE_URL="", DATA_DIR=str(data_dir))
    crowd = Crowd(world, people)
    talking = asyncio.ensure_future(crowd.talk())
    recovered_at = time.monotonic()
    for number in range(kills):
        share = people * MESSAGES * (number + 1) // (kills + 1)
        await world.telegram.wait_for(lambda n=share: len(world.telegram.sent) >= n, timeout=150)
        await asyncio.to_thread(kill_postmaster, data_dir)
        await eventually(lambda: is_reachable(world.dsn), "the server", 120)
        recovered_at = time.monotonic()
    await talking
    return await conclude(crowd, time.monotonic() - recovered_at, await bot.terminate())


async def conclude(crowd: Crowd, seconds: float, status: int) -> dict[str, Any]:
    """Return the report."""
    turns = len(crowd.people) * MESSAGES
    return {"turns": turns, **crowd.check(), "seconds_after": round(seconds, 1), "status": status}


async def run(arguments: argparse.Namespace) -> Any:
    """Run the attack on its own PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="pomni-attack-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        await asyncio.to_thread(migrate, dsn)
        query(dsn, "SELECT 1")
        try:
            async with open_world(dsn) as world:
                if arguments.kill:
                    return await kill_server(
                        world, Path(folder), people=arguments.people, kills=arguments.kill
                    )
                with SwallowingProxy(dsn) as proxy:
                    return await fail_over(
                        world, proxy, people=arguments.people, silence=arguments.silence
                    )
        finally:
            await asyncio.to_thread(server.stop)


def main() -> int:
    """Run the attack, print the report, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--silence", type=float, default=10)
    parser.add_argument("--kill", type=int, default=0, help="how often, instead of the silence")
    report = asyncio.run(run(parser.parse_args()))
    print(json.dumps(report))
    return 1 if report["lost"] or report["unordered"] or report["status"] else 0


if __name__ == "__main__":
    sys.exit(main())
