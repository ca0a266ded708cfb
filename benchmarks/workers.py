"""Turns a second of one receiver with 1, 2 or 4 workers, and their use of the CPU.

    python -m benchmarks.workers --messages 1000

The receiver polls and runs one turn at a time, each worker eight. The model and Telegram are
loopback servers in this process, and PostgreSQL runs on this machine too.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psutil

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.conftest import execute, fast_folder
from tests.e2e.bot_process import BotProcess, World
from tests.fakes.openai_server import FakeOpenAI, Reply
from tests.fakes.telegram_server import FakeTelegram

FIRST_USER = 2**41


def processor_seconds(bots: Sequence[BotProcess]) -> dict[str, float]:
    """Return the CPU seconds of the bots, PostgreSQL and this process."""
    spent: dict[str, float] = defaultdict(float)
    own = psutil.Process()
    spent["fakes"] = sum(own.cpu_times()[:2])
    pids = {bot.pid for bot in bots}
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "postgres":
            kind = "postgres"
        elif process.pid in pids:
            kind = "bots"
        else:
            continue
        try:
            spent[kind] += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return spent


async def measure(world: World, first: int, workers: int, messages: int) -> dict[str, float]:
    """Return the turns a second from first message to last answer, and the CPU times per turn.

    Every user sends one message; ``first`` is the id of the first user.
    """
    telegram = world.telegram
    bots = [await world.start("run", WORKER_CONCURRENCY="1")]
    bots += [await world.start("worker") for _ in range(workers)]
    before, sent, start = processor_seconds(bots), len(telegram.sent), time.monotonic()
    for number in range(messages):
        await telegram.send_text(first + number, f"слово {number}")
    await telegram.wait_for(lambda: len(telegram.sent) >= sent + messages, timeout=300)
    seconds = time.monotonic() - start
    after = processor_seconds(bots)
    spent = {kind: total - before.get(kind, 0.0) for kind, total in after.items()}
    for bot in bots:
        await bot.terminate()
    return {"turns_per_second": messages / seconds} | {
        f"{kind}_ms_per_turn": 1000 * total / messages for kind, total in spent.items()
    }


async def run(dsn: str, messages: int) -> None:
    """Measure each number of workers and print the table."""
    async with FakeTelegram() as telegram, FakeOpenAI() as model:
        telegram.keep_calls = model.keep_requests = False
        model.reply = lambda request: Reply(text=f"эхо: {request.last_user_text[:40]}")
        world = World(dsn, telegram, model)
        try:
            print("workers  turns/s  bots ms  postgres ms  fakes ms")
            for workers in (1, 2, 4):
                found = await measure(world, FIRST_USER + workers * messages, workers, messages)
                print(
                    f"{workers:7}{found['turns_per_second']:9.1f}{found['bots_ms_per_turn']:9.1f}"
                    f"{found['postgres_ms_per_turn']:13.1f}{found['fakes_ms_per_turn']:10.1f}"
                )
        finally:
            await world.close()


def main() -> None:
    """Start a database and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1000)
    messages = parser.parse_args().messages
    with tempfile.TemporaryDirectory(prefix="pomni-bench-", dir=fast_folder()) as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            execute(dsn, "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET max_connections = 200")
            server.stop()
            server.start()
            migrate(dsn)
            asyncio.run(run(dsn, messages))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
