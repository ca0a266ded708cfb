"""The embedded PostgreSQL under a bot: killed, left and found again; one folder for all tests."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.attacks.time_outs import MESSAGES, kill_server
from tests.conftest import execute
from tests.e2e.bot_command import Machine, say_to
from tests.e2e.bot_process import World, open_world
from tests.fakes.openai_server import echo
from tests.integration.embedded_users import find_postmaster

USER = 2**41 + 1
PEOPLE = 4

Embedded = tuple[World, Path]


@pytest.fixture(scope="module")
async def embedded() -> AsyncIterator[Embedded]:
    """A world on an embedded server, which the test starts, and its folder."""
    with tempfile.TemporaryDirectory(prefix="pomni-embedded-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        execute(dsn, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        await asyncio.to_thread(migrate, dsn)
        await asyncio.to_thread(server.stop)
        async with open_world(dsn) as world:
            yield world, Path(folder)
        await asyncio.to_thread(server.start)  # so that nothing of it runs afterwards
        await asyncio.to_thread(server.stop)


async def test_killing_the_server_costs_no_answer(embedded: Embedded) -> None:
    world, folder = embedded
    found = await kill_server(world, folder, people=PEOPLE, kills=1)
    assert found["turns"] == PEOPLE * MESSAGES
    assert (found["lost"], found["unordered"], found["status"]) == (0, 0, 0)


async def test_everything_is_kept_over_restarts(embedded: Embedded) -> None:
    world, folder = embedded
    settings = {"DATABASE_URL": "", "DATA_DIR": str(folder)}
    person = USER + PEOPLE
    world.model.reply = echo
    bot = await world.start(**settings)
    await world.telegram.send_text(person, "раз")
    await world.telegram.wait_sent(person)
    await world.settled()
    assert await bot.terminate() == 0, bot.logs()
    assert not (folder / "postgres" / "postmaster.pid").exists(), "the server has stopped"

    bot = await world.start(**settings)
    await world.telegram.send_text(person, "два")
    await world.telegram.wait_sent(person, 2)
    assert "раз" in str(world.model.requests[-1].messages)
    assert await bot.terminate() == 0, bot.logs()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])  # Ctrl-C, a closed terminal
async def test_a_signal_ends_the_console_and_its_server(
    embedded: Embedded, tmp_path: Path, number: signal.Signals
) -> None:
    _, folder = embedded
    machine = Machine(tmp_path, {"DATA_DIR": str(folder)})
    process = await machine.start("console")
    assert "Меня зовут Анна" in await say_to(process, "Меня зовут Анна")
    postmaster = find_postmaster(folder)
    process.send_signal(number)  # while it waits for the next line
    async with asyncio.timeout(30):
        assert await process.wait() == 128 + number
    assert not postmaster.is_running() or postmaster.status() == psutil.STATUS_ZOMBIE
    assert process.stderr is not None
    assert b"Traceback" not in await process.stderr.read()
