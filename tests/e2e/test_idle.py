"""While nobody writes the bot does next to nothing, and wakes up as fast as ever."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.e2e.bot_process import World, eventually

USER = 2**41 + 1
SECONDS = 3
WINDOWS = 5  # the first ones have what was under way, of which the server tells late
COMMITS = """
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
"""
# The connection on which the workers of a process are told of jobs.
LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE query LIKE 'LISTEN%%' AND datname = current_database()
"""
CUT_OFF = f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listeners"
# A job of which no notification tells, such as one that an operator's statement inserts.
UNHEARD = """
SET LOCAL session_replication_role = replica;
INSERT INTO procrastinate_jobs (queue_name, task_name, args, lock, scheduled_at)
VALUES ('control', 'no such task', '{}', 'unheard', now() + %s * interval '1 second')
RETURNING id
"""


async def test_an_idle_bot_hardly_asks_the_database(world: World) -> None:
    await world.start()
    await world.telegram.send_text(USER, "привет")
    await world.telegram.wait_sent(USER)
    await world.settled()
    commits: list[int] = []
    for _ in range(WINDOWS):
        commits.append(world.query(COMMITS)[0][0])
        await asyncio.sleep(SECONDS)
        commits.append(world.query(COMMITS)[0][0])
        if commits[-1] - commits[-2] <= 5 * SECONDS:
            return
    pytest.fail(f"an idle bot does not come to rest: {commits}")


def is_done(world: World, job: int) -> bool:
    """Whether somebody took it; nobody can do it."""
    done = "SELECT 1 FROM procrastinate_jobs WHERE id = %s AND status = 'failed'"
    return bool(world.query(done, job))


async def test_what_no_notification_tells_is_done_nevertheless(world: World) -> None:
    """A job that was not heard, one whose time comes, and messages after the listener's end."""
    await world.start()
    for seconds in (0, 1):
        job = world.query(UNHEARD, seconds)[0]
        await eventually(partial(is_done, world, *job), "the job")
    assert world.query(CUT_OFF)
    await world.telegram.send_text(USER, "привет")
    await world.telegram.wait_sent(USER)
    await eventually(lambda: world.query(LISTENERS), "a new listener")
