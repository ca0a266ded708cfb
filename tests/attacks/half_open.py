"""Half-open HTTP connections against a bot process with few file descriptors.

python -m tests.attacks.half_open --n 1100 --descriptors 1024 --seconds 15
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.e2e.bot_process import World
from tests.e2e.conftest import open_world

STARTS = (
    b"",
    b"GET /healthz HT",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    b"POST /telegram/webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{",
)


async def attack(world: World, *, n: int, descriptors: int, seconds: float) -> dict[str, Any]:
    """Open ``n`` connections that send no complete request, and poll ``/healthz``."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * n + 1000), hard))
    bot = await world.start()
    process = psutil.Process(bot.pid)
    resource.prlimit(bot.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    port = int(bot.http.rpartition(":")[2])
    answers: list[float] = []
    refused = most_descriptors = 0
    writers = []
    deadline = time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=bot.http) as http:
        while len(writers) < n or time.monotonic() < deadline:
            for number in range(50 if len(writers) < n else 0):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(STARTS[number % len(STARTS)])
                    writers.append(writer)
            start = time.monotonic()
            try:
                response = await http.get("/healthz", headers={"Connection": "close"}, timeout=30)
                refused += response.status_code != 200
            except httpx.HTTPError:
                refused += 1
            answers.append(time.monotonic() - start)
            most_descriptors = max(most_descriptors, process.num_fds())
            if len(writers) >= n:
                await asyncio.sleep(0.2)
        await world.telegram.send_text(2**41 + 1, "привет")
        await world.telegram.wait_sent(2**41 + 1, timeout=60)
    for writer in writers:
        writer.close()
    status = await bot.terminate()
    return {
        "half_open": len(writers),
        "healthz": len(answers),
        "refused": refused,
        "slowest_s": round(max(answers), 2),
        "most_descriptors": most_descriptors,
        "status": status,
    }


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the attack on its own PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="pomni-attack-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        await asyncio.to_thread(migrate, dsn)
        try:
            async with open_world(dsn) as world:
                return await attack(
                    world,
                    n=arguments.n,
                    descriptors=arguments.descriptors,
                    seconds=arguments.seconds,
                )
        finally:
            await asyncio.to_thread(server.stop)


def main() -> int:
    """Run the attack, print the report, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1100)
    parser.add_argument("--descriptors", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=15)
    report = asyncio.run(run(parser.parse_args()))
    print(json.dumps(report))
    return 1 if report["refused"] or report["status"] else 0


if __name__ == "__main__":
    sys.exit(main())
