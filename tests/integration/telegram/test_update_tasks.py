"""The job of an update: a Stop at an inconvenient moment."""

from __future__ import annotations

import asyncio

from aiogram import Bot, Dispatcher
from procrastinate import App, JobContext
from procrastinate.job_context import AbortReason
from procrastinate.jobs import Job
from procrastinate.testing import InMemoryConnector

from src.queue.update_repo import NewUpdate
from src.telegram.delivery import Delivery
from src.telegram.tasks import UpdateTasks
from tests.conftest import query
from tests.integration.person import Rig
from tests.integration.phone import never

BOT = 555
LOCKS = "SELECT 1 FROM pg_locks WHERE relation = 'telegram_updates'::regclass AND NOT granted"


async def test_a_stop_at_the_very_beginning_does_not_lose_the_job(rig: Rig) -> None:
    """Procrastinate fails a job that a Stop cancels, and tries it no more."""
    core = rig.core
    message = {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}}
    payload = {"update_id": 1, "message": message}
    core.updates.store(BOT, [NewUpdate(1, "other", payload, chat_id=7)])
    [(update,)] = rig.rows("SELECT id FROM telegram_updates WHERE bot_id = %(bot)s", bot=BOT)
    delivery = Delivery(Bot("1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), never)
    tasks = UpdateTasks(core, Dispatcher(), delivery)
    job = Job(id=1, status="doing", queue="people", lock=None, queueing_lock=None, task_name="x")
    context = JobContext(
        app=App(connector=InMemoryConnector()), job=job,
        abort_reason=lambda: AbortReason.USER_REQUEST, start_timestamp=0.0,
    )  # fmt: skip

    with core.client.transaction() as transaction:  # the update cannot be read yet
        transaction.execute("LOCK TABLE telegram_updates IN ACCESS EXCLUSIVE MODE")
        handling = asyncio.ensure_future(tasks.handle_update(context, update))
        while not await asyncio.to_thread(query, core.dsn, LOCKS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        handling.cancel()
        await asyncio.sleep(0)
    await handling
    handled = "SELECT outcome FROM telegram_updates WHERE id = %(update)s"
    assert rig.rows(handled, update=update) == [("ignored",)]
