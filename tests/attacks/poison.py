"""Tool calls that kill the bot's process in various ways, and their effect on other users.

    python -m tests.attacks.poison --n 2

prints one JSON line: the number of messages that killed their process, and the violations. The
exit status is 1 on a violation. Each poison is a message of one user beside slow turns of three
others, on its own database; the bot is restarted whenever it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.conftest import TEMPLATE, database_url, execute, new_database
from tests.e2e.conftest import open_world
from tests.e2e.test_poison import Service, live_through

WAYS = ("kill", "exit", "abort", "segv", "sys.exit")


async def main(n: int) -> dict[str, object]:
    """Try every way ``n`` times; returns the report."""
    start, wrong = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="pomni-poison-") as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        address = await asyncio.to_thread(server.start)
        try:
            execute(address, f"CREATE DATABASE {TEMPLATE}")
            await asyncio.to_thread(migrate, database_url(address, TEMPLATE))
            for way in WAYS * n:
                wrong += [f"{way}: {what}" for what in await try_way(address, way, folder)]
        finally:
            await asyncio.to_thread(server.stop)
    seconds = round(time.monotonic() - start, 1)
    return {"poisons": n * len(WAYS), "wrong": wrong, "seconds": seconds}


async def try_way(address: str, way: str, folder: str) -> list[str]:
    """Try one way; returns the violations."""
    for dsn in new_database(address, TEMPLATE):
        async with open_world(dsn) as world:
            service = Service(world, Path(folder) / f"order-{time.monotonic_ns()}")
            try:
                await live_through(world, service, way)
            except AssertionError as error:
                return [str(error)[:500]]
            finally:
                await service.stop()
    return []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1, help="times that each way is tried")
    result = asyncio.run(main(**vars(parser.parse_args())))
    print(json.dumps(result, ensure_ascii=False))
    sys.exit(bool(result["wrong"]))
