"""One receiver per bot and database: standing by, taking over, and a token that is wrong."""

from __future__ import annotations

import pytest
from aiogram import Bot

from src.base.errors import ConfigError
from src.pg.client import PgClient
from src.pg.locks import POLLER_LOCK
from src.telegram.receiver import UNAUTHORIZED
from tests.conftest import query
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import build_poller, eventually, open_bot, running, texts
from tests.integration.polling import write as send

pytestmark = pytest.mark.own_database

HOLDERS = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND classid = {POLLER_LOCK} AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_wrong_token_is_an_error_of_settings(fake: FakeTelegram, client: PgClient) -> None:
    async with open_bot(fake, "43:WRONG") as wrong:
        with pytest.raises(ConfigError, match="TELEGRAM_BOT_TOKEN"):
            await build_poller(wrong, client).run()
    await eventually(lambda: not query(client.dsn, HOLDERS), "it to let go of the lock")


@pytest.mark.parametrize("status", [200, 502])
async def test_a_token_is_wrong_only_after_a_while_of_nothing_but_401(
    fake: FakeTelegram, bot: Bot, client: PgClient, status: int
) -> None:
    async with running(build_poller(bot, client)) as work:
        await fake.wait_polling()
        for _ in range(4):
            fake.fail_next("getUpdates", status=401, times=UNAUTHORIZED - 1)
            if status != 200:
                fake.fail_next("getUpdates", status=status)
            await fake.wait_confirmed(await send(fake, "есть кто?"))
        assert not work.done()


async def test_many_401_in_a_row_end_the_bot(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    fake.fail_next("getUpdates", status=401, times=100)
    with pytest.raises(ConfigError, match="TELEGRAM_BOT_TOKEN"):
        await build_poller(bot, client).run()
    assert len(fake.calls_of("getUpdates")) == UNAUTHORIZED


async def test_a_wait_that_telegram_asks_for_is_bounded(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    fake.fail_next("getUpdates", status=429, parameters={"retry_after": 10**12})
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(await send(fake, "есть кто?"))


async def test_a_second_poller_stands_by_and_takes_over(
    fake: FakeTelegram, bot: Bot, client: PgClient, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = build_poller(bot, client), build_poller(bot, client)
    standing_by = "already receives this bot's updates"
    async with running(first) as receiving:
        await eventually(lambda: first.is_receiver, "the first to receive")
        async with running(second):
            await eventually(lambda: standing_by in caplog.text, "the second to stand by")
            await fake.wait_confirmed(await send(fake, "первому"))
            assert not second.is_receiver
            receiving.cancel()
            await eventually(lambda: second.is_receiver, "the second to take over")
            await fake.wait_confirmed(await send(fake, "второму"))
    assert texts(client.dsn) == ["первому", "второму"]
    assert caplog.text.count(standing_by) == 1
    assert all(call.status != 409 for call in fake.calls_of("getUpdates"))


async def test_pollers_of_two_bots_do_not_wait_for_each_other(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    async with FakeTelegram("43:OTHER", bot_id=43) as other, open_bot(other) as other_bot:
        one, two = build_poller(bot, client), build_poller(other_bot, client)
        async with running(one), running(two):
            await eventually(lambda: one.is_receiver and two.is_receiver)


async def test_a_killed_lock_connection_is_replaced(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    poller = build_poller(bot, client)
    async with running(poller):
        await fake.wait_confirmed(await send(fake, "до"))
        [(pid,)] = query(client.dsn, HOLDERS)
        query(client.dsn, "SELECT pg_terminate_backend(%s, 10000)", pid)  # ms until it has ended
        await fake.wait_confirmed(await send(fake, "после"))
        [(another,)] = await eventually(lambda: query(client.dsn, HOLDERS), "the lock")
        assert another != pid and poller.is_receiver
    assert texts(client.dsn) == ["до", "после"]
