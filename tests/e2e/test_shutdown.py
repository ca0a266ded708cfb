"""SIGTERM ends the process in time, whatever hangs."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import pytest

from src.shutdown import STATUS_FORCED
from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.migrations import LOCK_KEY
from tests.e2e.bot_command import Machine, say_to
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import Reply
from tests.fakes.tcp_proxy import SwallowingProxy
from tests.integration.embedded_users import find_postmaster

USER = 2**41 + 1
TIMEOUT = 0.5  # SHUTDOWN_TIMEOUT, in seconds
# Two seconds more are promised, and on a busy machine a process takes its time to be taken down.
BOUND = TIMEOUT + 2 + 8


@pytest.fixture
def proxy(dsn: str) -> Iterator[SwallowingProxy]:
    with SwallowingProxy(dsn) as opened:
        yield opened


async def end(bot: BotProcess) -> int:
    """SIGTERM; returns the exit status, which must come within the bound."""
    bot.ask_to_stop()
    async with asyncio.timeout(BOUND):
        return await bot.wait_end()


@pytest.mark.parametrize("command", ["run", "worker"])
async def test_a_database_that_says_nothing_does_not_keep_the_process(
    world: World, proxy: SwallowingProxy, command: str
) -> None:
    bot = await world.start(command, DATABASE_URL=proxy.dsn, SHUTDOWN_TIMEOUT=str(TIMEOUT))
    if command == "run":
        world.model.queue(Reply(hang=True))
        await world.telegram.send_text(USER, "раз")
        await world.model.wait_for(lambda: world.model.active, timeout=60)
    proxy.swallow()
    swallowed = proxy.swallowed
    await eventually(lambda: proxy.swallowed > swallowed, "a statement without an answer")
    status = await end(bot)
    assert status in (0, STATUS_FORCED)
    if status == STATUS_FORCED:
        assert any("by force" in line["event"] for line in bot.lines), bot.logs()
    proxy.fail_over()
    if command == "run":
        dead = world.workers()
        await world.start()
        world.presume_dead(dead)
        await world.telegram.wait_sent(USER, timeout=60)
        await world.settled(60)
        assert world.answers(USER) == ["эхо: раз"]


async def test_a_telegram_that_hangs_at_the_start_does_not_keep_the_process(world: World) -> None:
    world.telegram.hang_next("getMe", when="before")
    bot = world.process(SHUTDOWN_TIMEOUT=str(TIMEOUT))
    await bot.spawn()
    await world.telegram.wait_for(lambda: world.telegram.calls_of("getMe"), timeout=60)
    assert await end(bot) == 0


async def test_a_migration_that_waits_does_not_keep_the_process(world: World) -> None:
    with closing(psycopg2.connect(world.dsn)) as migrating:
        migrating.cursor().execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        bot = world.process(SHUTDOWN_TIMEOUT=str(TIMEOUT))
        await bot.spawn()
        waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'pomni migrate'"
        await eventually(lambda: world.query(waits), "the migration", 60)
        assert await end(bot) == 0


async def test_a_database_that_is_silent_from_the_start_does_not_keep_the_process(
    world: World, proxy: SwallowingProxy
) -> None:
    proxy.swallow()
    bot = world.process(DATABASE_URL=proxy.dsn, SHUTDOWN_TIMEOUT=str(TIMEOUT))
    await bot.spawn()
    await eventually(lambda: proxy.swallowed, "the first packet", 60)
    assert await end(bot) in (0, 1, STATUS_FORCED)


async def test_model_and_telegram_that_hang_do_not_keep_the_process(world: World) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start(SHUTDOWN_TIMEOUT=str(TIMEOUT))
    telegram.hang_next("sendMessage", when="before")
    await telegram.send_text(USER, "раз")
    await telegram.wait_for(lambda: telegram.calls_of("sendMessage"), timeout=60)
    model.queue(Reply(hang=True))
    await telegram.send_text(USER + 1, "два")
    await model.wait_for(lambda: model.active, timeout=60)
    assert await end(bot) == 0


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder for an embedded server; nothing of it runs afterwards."""
    with tempfile.TemporaryDirectory(prefix="pomni-shutdown-") as folder:
        data_dir = Path(folder) / "data"
        yield data_dir
        server = EmbeddedPostgres(data_dir)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.stop)


async def test_a_frozen_embedded_server_keeps_no_process(world: World, embedded: Path) -> None:
    settings = {"DATABASE_URL": "", "DATA_DIR": str(embedded), "SHUTDOWN_TIMEOUT": str(TIMEOUT)}
    bot = await world.start(**settings)
    postmaster = find_postmaster(embedded)
    family = [postmaster, *postmaster.children()]
    for process in family:
        process.suspend()
    status = await end(bot)
    assert status in (0, STATUS_FORCED)
    for process in family:
        process.resume()
    await eventually(lambda: not postmaster.is_running(), "the server to stop by itself", 30)


async def test_ctrl_c_ends_the_console_and_its_server(tmp_path: Path, embedded: Path) -> None:
    machine = Machine(tmp_path, {"DATA_DIR": str(embedded)})
    process = await machine.start("console")
    assert (await say_to(process, "Меня зовут Анна")).startswith("Запомнил")
    postmaster = find_postmaster(embedded)
    process.send_signal(signal.SIGINT)  # while it waits for the next line
    async with asyncio.timeout(30):
        assert await process.wait() == 130
    assert not postmaster.is_running() or postmaster.status() == psutil.STATUS_ZOMBIE
    assert process.stderr is not None
    assert b"Traceback" not in await process.stderr.read()
