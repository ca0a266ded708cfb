"""The poller against the fake Telegram and the real database: stored first, confirmed second."""

from __future__ import annotations

import logging

import psycopg2
import pytest
from aiogram import Bot

from src.pg.client import PgClient
from src.telegram.receiver import PollTiming
from src.telegram.updates import ALLOWED_UPDATES
from tests.conftest import execute, query
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import QUICK, build_poller, eventually, running, texts
from tests.integration.polling import write as send

pytestmark = pytest.mark.own_database


async def test_a_message_is_stored_and_then_confirmed(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(await send(fake, "привет"))
        assert texts(client.dsn) == ["привет"]
    jobs = query(client.dsn, "SELECT task_name, lock, args FROM procrastinate_jobs")
    [(task, lock, arguments)] = jobs
    assert (task, lock) == ("handle_update", f"chat:42:{2**41 + 7}:0")
    assert arguments == {"update": 1, "message_id": 1}
    assert fake.calls_of("getUpdates")[0].params["allowed_updates"] == ALLOWED_UPDATES


async def test_nothing_is_confirmed_while_the_insert_is_not_done(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    blocker = psycopg2.connect(client.dsn)
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLE telegram_updates IN SHARE MODE")
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
    async with running(build_poller(bot, client)):
        update = await send(fake, "подожди")
        await eventually(lambda: query(client.dsn, waits), "a blocked insert")
        assert fake.confirmed_offset == 0 and len(fake.pending_updates) == 1
        blocker.rollback()
        await fake.wait_confirmed(update)
    blocker.close()
    assert texts(client.dsn) == ["подожди"]


async def test_nothing_is_confirmed_while_statements_fail(
    fake: FakeTelegram, bot: Bot, client: PgClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "src")
    execute(client.dsn, "ALTER TABLE telegram_updates RENAME TO elsewhere")
    async with running(build_poller(bot, client)):
        update = await send(fake, "подожди")
        await fake.wait_for(lambda: len(fake.calls_of("getUpdates")) >= 3)
        assert fake.confirmed_offset == 0
        execute(client.dsn, "ALTER TABLE elsewhere RENAME TO telegram_updates")
        await fake.wait_confirmed(update)
    assert texts(client.dsn) == ["подожди"]
    away = [r for r in caplog.records if "updates wait at Telegram" in r.getMessage()]
    assert len(away) == 1, "the operator is told once, not at every attempt"
    assert "подожди" not in caplog.text, "the log never quotes a message"


async def test_a_database_that_is_away_delays_and_loses_nothing(
    fake: FakeTelegram, bot: Bot, client: PgClient, postgres_server: str
) -> None:
    name = client.dsn.partition("?")[0].rpartition("/")[2]
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(await send(fake, "до"))
        execute(
            postgres_server,
            f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        update = await send(fake, "во время")
        polls = len(fake.calls_of("getUpdates"))
        await fake.wait_for(lambda: len(fake.calls_of("getUpdates")) > polls)
        assert not fake.queue.is_confirmed(update)
        execute(postgres_server, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        await fake.wait_confirmed(update)
    assert texts(client.dsn) == ["до", "во время"]


async def test_a_redelivered_update_is_stored_once_and_confirmed_again(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    async with running(build_poller(bot, client)):
        first = await send(fake, "раз")
        await fake.wait_confirmed(first)
        await fake.redeliver(first)
        second = await send(fake, "два")
        await fake.wait_confirmed(second)
        await fake.wait_for(lambda: not fake.pending_updates)
    assert texts(client.dsn) == ["раз", "два"]
    assert query(client.dsn, "SELECT count(*) FROM procrastinate_jobs") == [(2,)]


@pytest.mark.parametrize(("trouble", "times"), [
    ("conflict", 2), ("flood", 1), ("failure", 3), ("garbage", 2), ("drop", 2), ("drop after", 1),
])  # fmt: skip
async def test_trouble_with_get_updates_is_waited_out(
    fake: FakeTelegram, bot: Bot, client: PgClient, trouble: str, times: int
) -> None:
    method = "getUpdates"
    if trouble == "garbage":
        fake.garbage_next(method, times)
    elif trouble.startswith("drop"):
        fake.drop_next(method, times, when="after" if "after" in trouble else "before")
    else:
        status = {"conflict": 409, "flood": 429, "failure": 500}[trouble]
        parameters = {"retry_after": 1} if status == 429 else None
        fake.fail_next(
            method, times=times, status=status, description=trouble, parameters=parameters
        )
    update = await send(fake, trouble)
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(update)
    assert texts(client.dsn) == [trouble]
    refused, *calls = fake.calls_of(method)
    assert sum(not call.ok for call in (refused, *calls)) == times
    if trouble == "flood":
        assert calls[0].at - refused.at >= 1


async def test_a_hung_poll_is_given_up(fake: FakeTelegram, bot: Bot, client: PgClient) -> None:
    fake.hang_next("getUpdates")
    update = await send(fake, "привет")
    quick = PollTiming(**{**vars(QUICK), "poll": 1, "grace": 0})
    async with running(build_poller(bot, client, quick)):
        await fake.wait_confirmed(update)
    assert texts(client.dsn) == ["привет"]


async def test_malformed_updates_do_not_hold_up_the_valid_ones(
    fake: FakeTelegram, bot: Bot, client: PgClient, caplog: pytest.LogCaptureFixture
) -> None:
    await send(fake, "до")
    await fake.push_raw({"update_id": 1001, "message": {"chat": [], "text": 5}})
    await fake.push_raw({"update_id": 1002, "message": None})
    await fake.push_raw({"update_id": 1003, "kind_of_the_future": {"x": 1}})
    await fake.push_raw("не обновление")
    await fake.push_raw({"no_update_id": True})
    last = await send(fake, "после")
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(last)
        await fake.wait_for(lambda: not fake.pending_updates)
    assert texts(client.dsn) == ["до", "после"]
    assert "without a valid update_id" in caplog.text


async def test_numbers_that_jump_down_after_a_quiet_week_are_taken(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    quick = PollTiming(**{**vars(QUICK), "poll": 1})
    async with running(build_poller(bot, client, quick)):
        await fake.push_raw({"update_id": 900_000_000, "kind_of_the_future": {}})
        await fake.wait_confirmed(900_000_000)
        quiet = len(fake.calls_of("getUpdates")) + 2
        await fake.wait_for(lambda: len(fake.calls_of("getUpdates")) >= quiet)
        fake.queue.next_update_id = 17
        await fake.wait_confirmed(await send(fake, "снова"))
    assert texts(client.dsn) == ["снова"]
    numbers = query(client.dsn, "SELECT update_id FROM telegram_updates")
    assert numbers == [(17,)]


async def test_a_backlog_of_more_than_one_batch_comes_in_order(
    fake: FakeTelegram, bot: Bot, client: PgClient
) -> None:
    updates = [await send(fake, str(number)) for number in range(250)]
    async with running(build_poller(bot, client)):
        await fake.wait_confirmed(updates[-1])
    assert texts(client.dsn) == [str(number) for number in range(250)]
