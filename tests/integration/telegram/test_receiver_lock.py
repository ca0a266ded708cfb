"""One receiver per bot and database: standing by, taking over, and a token that is wrong."""

from __future__ import annotations

import pytest

from src.base.errors import ConfigError
from src.pg.locks import POLLER_LOCK
from src.telegram.receiver import UNAUTHORIZED
from tests.conftest import query
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import Line, build_poller, eventually, open_bot, running

pytestmark = pytest.mark.own_database

HOLDERS = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND classid = {POLLER_LOCK} AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_wrong_token_is_an_error_of_settings(line: Line) -> None:
    async with open_bot(line.fake, "43:WRONG") as wrong:
        with pytest.raises(ConfigError, match="TELEGRAM_BOT_TOKEN"):
            await build_poller(wrong, line.client).run()
    await eventually(lambda: not query(line.client.dsn, HOLDERS), "it to let go of the lock")


@pytest.mark.parametrize("status", [200, 502])
async def test_a_token_is_wrong_only_after_a_while_of_nothing_but_401(
    line: Line, status: int
) -> None:
    async with line.receiving() as work:
        await line.fake.wait_polling()
        for _ in range(2):
            line.fake.fail_next("getUpdates", status=401, times=UNAUTHORIZED - 1)
            if status != 200:
                line.fake.fail_next("getUpdates", status=status)
            await line.fake.wait_confirmed(await line.send("есть кто?"))
        assert not work.done()


async def test_many_401_in_a_row_end_the_bot(line: Line) -> None:
    line.fake.fail_next("getUpdates", status=401, times=100)
    with pytest.raises(ConfigError, match="TELEGRAM_BOT_TOKEN"):
        await line.poller().run()
    assert len(line.fake.calls_of("getUpdates")) == UNAUTHORIZED


async def test_a_wait_that_telegram_asks_for_is_bounded(line: Line) -> None:
    line.fake.fail_next("getUpdates", status=429, parameters={"retry_after": 10**12})
    async with line.receiving():
        await line.fake.wait_confirmed(await line.send("есть кто?"))


async def test_a_second_poller_stands_by_and_takes_over(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = line.poller(), line.poller()
    standing_by = "already receives this bot's updates"
    async with running(first) as receiving:
        await eventually(lambda: first.is_receiver, "the first to receive")
        async with running(second):
            await eventually(lambda: standing_by in caplog.text, "the second to stand by")
            await line.fake.wait_confirmed(await line.send("первому"))
            assert not second.is_receiver
            receiving.cancel()
            await eventually(lambda: second.is_receiver, "the second to take over")
            await line.fake.wait_confirmed(await line.send("второму"))
    assert line.texts() == ["первому", "второму"]
    assert caplog.text.count(standing_by) == 1
    assert all(call.status != 409 for call in line.fake.calls_of("getUpdates"))


async def test_pollers_of_two_bots_do_not_wait_for_each_other(line: Line) -> None:
    async with FakeTelegram("43:OTHER", bot_id=43) as other, open_bot(other) as other_bot:
        one, two = line.poller(), build_poller(other_bot, line.client)
        async with running(one), running(two):
            await eventually(lambda: one.is_receiver and two.is_receiver)


async def test_a_killed_lock_connection_is_replaced(line: Line) -> None:
    poller = line.poller()
    async with running(poller):
        await line.fake.wait_confirmed(await line.send("до"))
        [(pid,)] = query(line.client.dsn, HOLDERS)
        query(
            line.client.dsn, "SELECT pg_terminate_backend(%s, 10000)", pid
        )  # ms until it has ended
        await line.fake.wait_confirmed(await line.send("после"))
        [(another,)] = await eventually(lambda: query(line.client.dsn, HOLDERS), "the lock")
        assert another != pid and poller.is_receiver
    assert line.texts() == ["до", "после"]
