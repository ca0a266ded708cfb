"""SIGTERM ends the process in time, whatever hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from src.base.shutdown import STATUS_FORCED
from src.pg.migrations import LOCK_KEY
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import Reply
from tests.fakes.tcp_proxy import SwallowingProxy

USER = 2**41 + 1
# In this database: others share the server.
MIGRATING = """
SELECT 1 FROM pg_stat_activity
WHERE application_name = 'pomni migrate' AND datname = current_database()
"""
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


async def test_a_database_that_says_nothing_does_not_keep_the_process(
    world: World, proxy: SwallowingProxy
) -> None:
    bot = await world.start(DATABASE_URL=proxy.dsn, SHUTDOWN_TIMEOUT=str(TIMEOUT))
    world.model.queue(Reply(hang=True))
    await world.telegram.send_text(USER, "раз")
    await world.model.wait_for(lambda: world.model.active)
    proxy.swallow()
    swallowed = proxy.swallowed
    await eventually(lambda: proxy.swallowed > swallowed, "a statement without an answer")
    status = await end(bot)
    assert status in (0, STATUS_FORCED)
    if status == STATUS_FORCED:
        assert any("by force" in line["event"] for line in bot.lines), bot.logs()
    proxy.fail_over()
    # The server would find out by itself that nobody is there, in half a minute.
    world.query(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await world.start()
    await world.telegram.wait_sent(USER)
    await world.settled()
    assert world.answers(USER) == ["эхо: раз"]


async def test_a_migration_that_waits_does_not_keep_the_process(world: World) -> None:
    with closing(psycopg2.connect(world.dsn)) as migrating:
        migrating.cursor().execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        bot = world.process(SHUTDOWN_TIMEOUT=str(TIMEOUT))
        await bot.spawn()
        await eventually(lambda: world.query(MIGRATING), "the migration")
        assert await end(bot) == 0


async def test_a_database_that_is_silent_from_the_start_does_not_keep_the_process(
    world: World, proxy: SwallowingProxy
) -> None:
    proxy.swallow()
    bot = world.process(DATABASE_URL=proxy.dsn, SHUTDOWN_TIMEOUT=str(TIMEOUT))
    await bot.spawn()
    await eventually(lambda: proxy.swallowed, "the first packet")
    assert await end(bot) in (0, 1, STATUS_FORCED)


async def test_sigterm_ends_what_can_end_and_leaves_the_rest_for_later(world: World) -> None:
    """An answer under way is finished; a model and a Telegram that hang keep nothing."""
    telegram, model = world.telegram, world.model
    bot = await world.start(SHUTDOWN_TIMEOUT="4")
    finishing, unsent, unasked = USER, USER + 1, USER + 2
    gate = asyncio.Event()
    slow = Reply(text="доскажу", chunk_size=4, gate=gate, gate_after_chunks=1)
    model.queue(slow)
    await telegram.send_text(finishing, "раз")
    await model.wait_for(lambda: model.waiting_at_gate)
    telegram.hang_next("sendMessage", when="before", chat_id=unsent)
    await telegram.send_text(unsent, "раз")
    await telegram.wait_for(lambda: telegram.calls_of("sendMessage"))
    asked = model.request_count
    model.queue(Reply(hang=True))
    await telegram.send_text(unasked, "раз")
    await model.wait_for(lambda: model.request_count > asked)
    bot.ask_to_stop()
    await bot.wait_event("stopping: finishing the turns that are under way")
    await telegram.wait_for(lambda: not telegram.polling)
    await telegram.send_text(finishing, "два")
    gate.set()
    async with asyncio.timeout(4 + BOUND):
        assert await bot.wait_end() == 0
    people = (finishing, unsent, unasked)
    assert [world.answers(person) for person in people] == [["доскажу"], [], []]
    await world.start()
    await telegram.wait_sent(finishing, 2)
    await world.settled()
    assert [world.answers(person) for person in people] == [
        ["доскажу", "эхо: два"], ["эхо: раз"], ["эхо: раз"],
    ]  # fmt: skip
