"""Tool calls that kill the bot's process in various ways, and their effect on other users.

    python -m tests.attacks.poison --n 2

prints one JSON line: the number of messages that killed their process, and the violations. The
exit status is 1 on a violation. Each poison is a message of one user beside slow turns of three
others, on its own database; the bot is restarted whenever it ends.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.attacks.frame import own_postgres, run_attack
from tests.conftest import TEMPLATE, new_database
from tests.e2e.conftest import open_world
from tests.e2e.test_poison import Service, live_through

WAYS = ("kill", "exit", "abort", "segv", "sys.exit")


async def main(n: int) -> dict[str, object]:
    """Try every way ``n`` times."""
    wrong = []
    async with own_postgres() as own:
        for way in WAYS * n:
            for dsn in new_database(own.address, TEMPLATE):
                wrong += [f"{way}: {what}" for what in await try_way(dsn, way)]
    return {"poisons": n * len(WAYS), "wrong": wrong}


async def try_way(dsn: str, way: str) -> list[str]:
    """Try one way; returns the violations."""
    async with open_world(dsn) as world:
        with tempfile.TemporaryDirectory() as folder:
            service = Service(world, Path(folder) / "order")
            try:
                await live_through(world, service, way)
            except AssertionError as error:
                return [str(error)[:500]]
            finally:
                await service.stop()
    return []


if __name__ == "__main__":
    run_attack(main, {"--n": 1}, wrong=["wrong"])
