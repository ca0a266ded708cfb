"""The poller against the fake Telegram and the real database: stored first, confirmed second."""

from __future__ import annotations

import logging

import psycopg2
import pytest

from src.pg.locks import POLLER_LOCK
from src.telegram.receiver import PollTiming
from tests.conftest import execute, query
from tests.integration.polling import QUICK, Line, eventually, running

pytestmark = pytest.mark.own_database


async def test_nothing_is_confirmed_while_the_insert_is_not_done(line: Line) -> None:
    blocker = psycopg2.connect(line.client.dsn)
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLE telegram_updates IN SHARE MODE")
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
    async with line.receiving():
        update = await line.send("подожди")
        await eventually(lambda: query(line.client.dsn, waits), "a blocked insert")
        assert line.fake.confirmed_offset == 0 and len(line.fake.pending_updates) == 1
        blocker.rollback()
        await line.fake.wait_confirmed(update)
    blocker.close()
    assert line.texts() == ["подожди"]


async def test_nothing_is_confirmed_while_statements_fail(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "src")
    execute(line.client.dsn, "ALTER TABLE telegram_updates RENAME TO elsewhere")
    async with line.receiving():
        update = await line.send("подожди")
        await line.fake.wait_for(lambda: len(line.fake.calls_of("getUpdates")) >= 3)
        assert line.fake.confirmed_offset == 0
        execute(line.client.dsn, "ALTER TABLE elsewhere RENAME TO telegram_updates")
        await line.fake.wait_confirmed(update)
    assert line.texts() == ["подожди"]
    away = [r for r in caplog.records if "updates wait at Telegram" in r.getMessage()]
    assert len(away) == 1, "the operator is told once, not at every attempt"
    assert "подожди" not in caplog.text, "the log never quotes a message"


async def test_a_database_that_is_away_delays_and_loses_nothing(
    line: Line, postgres_server: str
) -> None:
    name = line.client.dsn.partition("?")[0].rpartition("/")[2]
    async with line.receiving():
        await line.fake.wait_confirmed(await line.send("до"))
        execute(
            postgres_server,
            f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        update = await line.send("во время")
        polls = len(line.fake.calls_of("getUpdates"))
        await line.fake.wait_for(lambda: len(line.fake.calls_of("getUpdates")) > polls)
        assert not line.fake.queue.is_confirmed(update)
        execute(postgres_server, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        await line.fake.wait_confirmed(update)
    assert line.texts() == ["до", "во время"]


@pytest.mark.parametrize(("trouble", "times"), [
    ("conflict", 2), ("flood", 1), ("failure", 3), ("garbage", 2), ("drop", 2), ("drop after", 1),
])  # fmt: skip
async def test_trouble_with_get_updates_is_waited_out(
    line: Line, trouble: str, times: int
) -> None:
    method = "getUpdates"
    if trouble == "garbage":
        line.fake.garbage_next(method, times)
    elif trouble.startswith("drop"):
        line.fake.drop_next(method, times, when="after" if "after" in trouble else "before")
    else:
        status = {"conflict": 409, "flood": 429, "failure": 500}[trouble]
        parameters = {"retry_after": 1} if status == 429 else None
        line.fake.fail_next(
            method, times=times, status=status, description=trouble, parameters=parameters
        )
    update = await line.send(trouble)
    async with line.receiving():
        await line.fake.wait_confirmed(update)
    assert line.texts() == [trouble]
    refused, *calls = line.fake.calls_of(method)
    assert sum(not call.ok for call in (refused, *calls)) == times
    if trouble == "flood":
        assert calls[0].at - refused.at >= 1


async def test_a_hung_poll_is_given_up(line: Line) -> None:
    line.fake.hang_next("getUpdates")
    update = await line.send("привет")
    quick = PollTiming(**{**vars(QUICK), "poll": 1, "grace": 0})
    async with running(line.poller(quick)):
        await line.fake.wait_confirmed(update)
    assert line.texts() == ["привет"]


async def test_malformed_updates_do_not_hold_up_the_valid_ones(line: Line) -> None:
    await line.send("до")
    await line.fake.push_raw({"update_id": 1001, "message": {"chat": [], "text": 5}})
    await line.fake.push_raw({"update_id": 1002, "message": None})
    await line.fake.push_raw({"update_id": 1003, "kind_of_the_future": {"x": 1}})
    await line.fake.push_raw("не обновление")
    await line.fake.push_raw({"no_update_id": True})
    last = await line.send("после")
    async with line.receiving():
        await line.fake.wait_confirmed(last)
        await line.fake.wait_for(lambda: not line.fake.pending_updates)
    assert line.texts() == ["до", "после"]


async def test_updates_without_a_number_alone_are_passed_over(line: Line) -> None:
    await line.fake.push_raw({"no_update_id": True})
    async with line.receiving():
        await line.fake.wait_for(lambda: line.fake.queue.head is None)
        await line.fake.wait_confirmed(await line.send("дальше"))
    assert line.texts() == ["дальше"]


async def test_numbers_that_jump_down_after_a_quiet_week_are_taken(line: Line) -> None:
    quick = PollTiming(**{**vars(QUICK), "poll": 1})
    async with running(line.poller(quick)):
        await line.fake.push_raw({"update_id": 900_000_000, "kind_of_the_future": {}})
        await line.fake.wait_confirmed(900_000_000)
        quiet = len(line.fake.calls_of("getUpdates")) + 2
        await line.fake.wait_for(lambda: len(line.fake.calls_of("getUpdates")) >= quiet)
        line.fake.queue.next_update_id = 17
        await line.fake.wait_confirmed(await line.send("снова"))
    assert line.texts() == ["снова"]
    numbers = query(line.client.dsn, "SELECT update_id FROM telegram_updates")
    assert numbers == [(17,)]


async def test_a_backlog_of_more_than_one_batch_comes_in_order(line: Line) -> None:
    updates = [await line.send(str(number)) for number in range(250)]
    async with line.receiving():
        await line.fake.wait_confirmed(updates[-1])
    assert line.texts() == [str(number) for number in range(250)]


# One receiver per bot and database: standing by, taking over, and a token that is wrong


HOLDERS = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND classid = {POLLER_LOCK} AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


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
