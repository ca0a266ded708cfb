"""Several receiver and worker processes on one PostgreSQL, one of which dies every few seconds.

    python -m tests.attacks.many_hosts --receivers 2 --workers 3 --kills 20 --every 3 --seed 1

Updates arrive by webhook at one receiver, some at two, and again until one accepts them. Users
write again as soon as they are answered. A random process is killed and restarted. PostgreSQL is
restarted once in the middle.
Prints one JSON line: the counts of ``tests.e2e.kill_loop``, and the users' waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientSession

from src.pg.embedded import EmbeddedPostgres
from tests.attacks.frame import own_postgres, run_attack
from tests.e2e.bot_process import BotProcess, World
from tests.e2e.kill_loop import FIRST_PERSON, Result, judge, slow_echo, talk
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply
from tests.fakes.telegram_server import FakeTelegram
from tests.fakes.telegram_updates import Queued
from tests.fakes.telegram_webhook import Webhook

HOOK = {
    "TELEGRAM_WEBHOOK_URL": "https://bot.example.org/telegram/webhook",
    "TELEGRAM_WEBHOOK_SECRET": "a-secret-of-the-webhook",
}
TWICE = 0.05  # share of updates that go to two receivers


class Balancer(Webhook):
    """Webhook that delivers each update to one or two receivers."""

    hosts: list[str]
    numbers: random.Random

    async def _post(self, session: ClientSession, entry: Queued) -> int:
        path = urlsplit(self.url).path
        count = 2 if self.numbers.random() < TWICE else 1
        chosen = self.numbers.sample(self.hosts, min(count, len(self.hosts)))
        whole, statuses = self.url, [0]
        for host in chosen:
            self.url = f"{host}{path}"
            try:
                statuses.append(await super()._post(session, entry))
            finally:
                self.url = whole
        return max(statuses)


def answer(request: ChatRequest) -> Reply:
    """Echo short messages slowly; answer the background's long prompts with a word."""
    return slow_echo(request) if len(request.last_user_text) < 100 else Reply(text="хорошо")


@dataclass
class Waits:
    """Waits for an answer, in seconds."""

    p50: float
    p99: float
    longest: float


class Hosts:
    """The processes and their faults."""

    def __init__(self, world: World, balancer: Balancer, numbers: random.Random) -> None:
        self.world = world
        self.balancer = balancer
        self.numbers = numbers
        self.running: list[tuple[str, BotProcess]] = []
        self.ended_at: list[float] = []

    async def start(self, command: str) -> None:
        """Start a process; a receiver is registered with the balancer."""
        process = await self.world.start(command, **HOOK)
        self.running.append((command, process))
        if command == "run":
            self.balancer.hosts.append(process.http)

    async def end_one(self) -> None:
        """Kill and replace a random process."""
        command, process = self.running.pop(self.numbers.randrange(len(self.running)))
        self.ended_at.append(time.monotonic())
        if command == "run":
            self.balancer.hosts.remove(process.http)
        await process.kill()
        self.world.processes.remove(process)
        await self.start(command)


async def run_hosts(
    world: World,
    server: EmbeddedPostgres | None,
    *,
    receivers: int = 2,
    workers: int = 3,
    people: int = 12,
    kills: int = 20,
    every: float = 3.0,
    seed: int = 1,
) -> tuple[Result, Waits]:
    """Let users write while processes die; returns the counts and the waits."""
    start = time.monotonic()
    numbers = random.Random(seed)
    balancer = world.telegram.webhook
    assert isinstance(balancer, Balancer)
    balancer.hosts, balancer.numbers = [], numbers
    world.model.reply = answer
    world.model.keep_requests = world.telegram.keep_calls = False
    hosts = Hosts(world, balancer, numbers)
    for command in ["run"] * receivers + ["worker"] * workers:
        await hosts.start(command)
    enough, waits = asyncio.Event(), list[float]()
    persons = range(FIRST_PERSON, FIRST_PERSON + people)
    talks = [asyncio.create_task(talk(world, person, enough, waits, 0.3)) for person in persons]
    for number in range(1, kills + 1):
        await asyncio.sleep(numbers.uniform(0.3, 2 * every - 0.3))
        await hosts.end_one()
        if server is not None and number == kills // 2:
            hosts.ended_at.append(time.monotonic())
            await asyncio.to_thread(server.stop)
            hosts.ended_at.append(time.monotonic())
            await asyncio.to_thread(server.start)
    await asyncio.sleep(every)
    enough.set()
    sent = await asyncio.gather(*talks)
    with contextlib.suppress(AssertionError):
        await world.settled(60)
    counts = dict(zip(persons, sent, strict=True))
    result = judge(world, hosts.ended_at, counts, seconds=time.monotonic() - start)
    waits.sort()
    quantiles = (waits[len(waits) // 2], waits[int(len(waits) * 0.99)], waits[-1])
    return result, Waits(*(round(seconds, 2) for seconds in quantiles))


@contextlib.asynccontextmanager
async def open_hosts(dsn: str):  # type: ignore[no-untyped-def]
    """Open a world whose Telegram delivers to several receivers."""
    async with FakeTelegram() as telegram, FakeOpenAI() as model:
        await telegram.webhook.stop()
        telegram.webhook = Balancer(telegram.queue, telegram.changes)
        telegram.webhook.start()
        world = World(dsn, telegram, model)
        try:
            yield world
        finally:
            await world.close()


async def main(**options: Any) -> dict[str, object]:
    """Run the attack on its own PostgreSQL."""
    async with (
        own_postgres("ALTER SYSTEM SET max_connections = 300") as own,
        open_hosts(own.dsn) as world,
    ):
        result, waits = await run_hosts(world, own.server, **options)
        return {**asdict(result), "waited": asdict(waits)}


if __name__ == "__main__":
    options = {"--receivers": 2, "--workers": 3, "--people": 12, "--kills": 20}
    options |= {"--seed": 1, "--every": 3.0}
    run_attack(main, options, wrong=["lost", "out_of_order", "unexcused", "unhandled"])
