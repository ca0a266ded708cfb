"""The job of an update: what comes with it, how it ends, a Stop at an inconvenient moment."""

from __future__ import annotations

import asyncio

import pytest
from aiogram import Bot, Dispatcher
from procrastinate import App, JobContext
from procrastinate.job_context import AbortReason
from procrastinate.jobs import Job
from procrastinate.testing import InMemoryConnector

from src.queue.update_repo import FETCH_JOB, NEWER_KINDS, NewUpdate, WaitingUpdate
from src.queue.woken_worker import FINISHED, AnnouncedJobs, WokenWorker
from src.queue.workers import BackOff, build_queue
from src.telegram.delivery import Delivery
from src.telegram.tasks import UpdateTasks
from tests.conftest import query
from tests.integration.person import Rig
from tests.integration.phone import never
from tests.tables import nodes_of

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
    job = Job(id=1, status="doing", queue="turns", lock=None, queueing_lock=None, task_name="x")
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


async def test_a_worker_gets_the_update_with_its_job_which_ends_with_it(rig: Rig) -> None:
    updates, chat = rig.core.updates, 2**40 + 1
    words = {"update_id": 1, "message": {"message_id": 1, "text": "раз"}}
    new = [
        NewUpdate(number, "message", words, chat_id=chat, user_id=chat, message_id=number)
        for number in (1, 2)
    ]
    async with build_queue(rig.core.dsn).open_async() as queue:
        jobs = AnnouncedJobs(queue.job_manager.connector)
        worker = await jobs.register_worker()
        updates.store(BOT + 1, new)
        first = await jobs.fetch_job(["turns"], worker)
        assert first is not None and first.id is not None
        update = first.task_kwargs["update"]
        fetched = WaitingUpdate.from_json(jobs.waiting[first.id])
        assert fetched == updates.find_waiting(update)
        assert (fetched.newer, fetched.payload) == ("message", words)

        jobs.expected += 1
        assert await jobs.fetch_job(["turns"], worker) is None, "the chat is busy"
        updates.mark_handled(update, "done", job=first.id)
        jobs.expected += 1
        second = await jobs.fetch_job(["turns"], worker)
        assert second is not None and second.id is not None, "the chat is free"
        assert jobs.waiting[second.id]["newer"] is None
        updates.mark_handled(second.task_kwargs["update"], "done", job=second.id)
        await jobs.unregister_worker(worker)
    mine = "SELECT id FROM procrastinate_jobs WHERE id IN (%(first)s, %(second)s)"
    assert rig.rows(mine, first=first.id, second=second.id) == []


def test_an_update_is_looked_up_for_its_job_alone_whatever_the_plan(rig: Rig) -> None:
    """Computed for all that wait, a burst of a thousand chats would take three times as long."""
    new = [
        NewUpdate(n, "message", {"update_id": n}, chat_id=2**41 + n, user_id=2**41 + n)
        for n in range(1, 51)
    ]
    rig.core.updates.store(BOT + 2, new)
    taken = {"queues": ["turns"], "worker_id": None, **NEWER_KINDS}
    with rig.core.client.transaction() as transaction:
        transaction.execute("SAVEPOINT nothing_is_taken")
        for scan in ("indexscan", "bitmapscan"):  # a planner that knows no way but to read all
            transaction.execute(f"SET LOCAL enable_{scan} = off")
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {FETCH_JOB}"
        [[[plan]]] = transaction.fetch_all(explain, taken)
        transaction.execute("ROLLBACK TO nothing_is_taken")
    parts = nodes_of(plan["Plan"])
    assert len([part for part in parts if "Subplan Name" in part]) >= 4, "it was looked up"
    assert max(part["Actual Loops"] for part in parts) == 1


@pytest.mark.parametrize("ending", ["told", "interrupted"])
async def test_a_job_that_ended_with_its_update_is_not_ended_twice(
    rig: Rig, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    async def work(context: JobContext) -> None:
        rig.core.updates.mark_handled(0, "done", job=context.job.id)
        if ending == "interrupted":
            raise asyncio.CancelledError
        context.additional_context[FINISHED] = True

    async with build_queue(rig.core.dsn).open_async() as queue:
        task = queue.task(name=f"end_{ending}", queue=ending, pass_context=True, retry=BackOff())
        await task(work).defer_async()
        worker = WokenWorker(
            queue, queues=[ending], on_end=ended.set, is_clock=False, wait=False,
            listen_notify=False, delete_jobs="successful", install_signal_handlers=False,
        )  # fmt: skip
        await worker.run()
    assert ended.is_set()
    assert rig.rows("SELECT id FROM procrastinate_jobs WHERE queue_name = %(q)s", q=ending) == []
    assert "never retrieved" not in caplog.text
