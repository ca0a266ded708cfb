"""Process of the bot: receiver, workers and HTTP server, started and drained together."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import src.telegram  # noqa: F401  (imports aiogram with deferred models)

# isort: split
from aiogram import Bot
from procrastinate import App

from src.base.errors import AppError, DeliveryError
from src.base.shutdown import Shutdown
from src.core import Core
from src.imports.service import ImportTasks
from src.memory.tasks import MemoryTasks
from src.operate.housekeeping import Housekeeping
from src.pg.locks import POLLER_LOCK, AdvisoryLock
from src.pg.records import FailureLog
from src.queue.job_repo import JobRepository
from src.queue.workers import DeadJobs, Workers, build_queue
from src.telegram import handlers, receiver, setup, updates
from src.telegram.delivery import Delivery
from src.telegram.tasks import ReminderTasks, UpdateTasks
from src.texts.morphology import load_dictionaries
from src.web.http_server import HttpServer, build_http_app

logger = logging.getLogger(__name__)

WARM_SECONDS = 5.0  # that a start waits at most for the embedding model; it takes 0.2
OPEN_AND_PAID = (
    "everybody in Telegram may use this bot, and its model costs money: set ALLOWED_USER_IDS, or "
    "daily_tokens in global_settings; doctor says how"
)
MAX_PAUSE = 30.0  # seconds between attempts to reach Telegram at start


async def run_bot_process(core: Core, shutdown: Shutdown, *, receive: bool) -> None:
    """Handle queued updates, with ``receive`` also receive new ones, until told to stop.

    It may be cancelled at any point before it works.

    Raises:
        ConfigError: The token is wrong, or the HTTP port is taken.
    """
    load_dictionaries()  # so that no first turn waits for them
    async with _open_bot(core) as (bot, identity, queue):
        reminders = _register_tasks(core, bot, identity, queue)
        workers = Workers(
            queue,
            DeadJobs(queue, core.client, core.metrics),
            concurrency=core.settings.worker_concurrency,
            shutdown_timeout=core.settings.shutdown_timeout,
        )
        intake = receiver.UpdateIntake(
            core.client, core.updates, identity, _build_access(core), core.metrics
        )
        webhook = watch = None
        url, secret = core.settings.telegram_webhook_url, core.settings.telegram_webhook_secret
        if receive and url and secret:
            webhook = receiver.WebhookRoute(intake, secret.get_secret_value())
            watch = receiver.WebhookWatch(bot, intake, url)
        http = _build_http(core, intake if receive else None, webhook, watch)
        http.bind(required=receive)
        # So that no first search goes by words alone; a slow model is not awaited.
        with suppress(TimeoutError):
            async with asyncio.timeout(WARM_SECONDS):
                await core.warm_up()
        jobs: list[Coroutine[Any, Any, None]] = [
            http.serve_bound(),
            workers.run(),
            reminders.plan_now(),
            FailureLog(core.client).run(),
        ]
        if receive:
            if core.settings.is_open_and_paid:
                logger.warning(OPEN_AND_PAID)
            jobs += [setup.configure_until_done(bot, core.settings), core.read_ahead()]
        if watch is not None:
            jobs.append(watch.run())
        elif receive:
            lock = AdvisoryLock(core.dsn, POLLER_LOCK, identity.id)
            jobs.append(receiver.Poller(bot, intake, lock).run())
        started = {"bot": identity.username, "receives": receive, "http_port": http.port}
        logger.info("started", extra=started)
        await _run_until(shutdown.drain(), jobs, http)


@asynccontextmanager
async def _open_bot(core: Core) -> AsyncIterator[tuple[Bot, updates.BotIdentity, App]]:
    core.servers.start()
    bot = setup.build_bot(core.settings, core.metrics)
    try:
        identity = await _fetch_identity(bot)
        await core.client.run(JobRepository(core.client).delete_dead_workers)
        async with build_queue(core.dsn).open_async() as queue:
            yield bot, identity, queue
    finally:
        await bot.session.close()


def _register_tasks(
    core: Core, bot: Bot, identity: updates.BotIdentity, queue: App
) -> ReminderTasks:
    """Register all tasks in the queue; return those that a start uses as well."""
    delivery = Delivery(bot, partial(handlers.move_group, core))
    dispatcher = setup.build_dispatcher(core, delivery, identity)
    UpdateTasks(core, dispatcher, delivery).register(queue)
    reminders = ReminderTasks(core, delivery)
    reminders.register(queue)
    Housekeeping(core).register(queue)
    memory = core.memory
    MemoryTasks(memory.digest, memory.batches, memory.consolidation).register(queue)
    progress = handlers.ImportProgress(core, delivery)
    ImportTasks(core.client, core.imports, progress.show).register(queue)
    return reminders


def _build_access(core: Core) -> updates.AllowList:
    """Operators may always use the bot."""
    allowed = core.settings.allowed_user_ids
    if allowed:
        allowed |= core.settings.admin_user_ids
    return updates.AllowList(allowed)


def _build_http(
    core: Core,
    intake: receiver.UpdateIntake | None,
    webhook: receiver.WebhookRoute | None,
    watch: receiver.WebhookWatch | None,
) -> HttpServer:
    last_polled = (lambda: intake.last_received) if intake and webhook is None else None
    find_problem = (lambda: watch.problem) if watch else None
    app = build_http_app(
        core, last_polled=last_polled, webhook=webhook, find_webhook_problem=find_problem
    )
    if core.settings.admin_password:
        from src.web.admin_access import AdminAccess  # 5 MB and 60 ms, only if it is configured
        from src.web.admin_pages import build_admin_app

        keys = (core.settings.admin_password, core.settings.admin_reader_password)
        passwords = [one.get_secret_value() for one in keys if one]
        app.mount("/admin", build_admin_app(core, AdminAccess(*passwords)))
    settings, token = core.settings, core.settings.telegram_bot_token
    permits = partial(_build_access(core).permits, chat_id=None)
    if settings.app_url and token:
        from src.web.app_api import build_web_app

        app.mount("/app", build_web_app(core, token.get_secret_value(), permits))
    http = HttpServer(app, settings.http_host, settings.http_port, settings.trusted_proxies)
    if settings.memory_server:
        from src.web.memory_server import MemoryServer  # 10 MB, only if it is configured

        memory = MemoryServer(core, permits)
        app.routes.extend(memory.routes())
        http.while_serving = memory.run()
    return http


async def _fetch_identity(bot: Bot) -> updates.BotIdentity:
    """Ask Telegram for the identity of the bot, until it answers.

    Raises:
        ConfigError: Telegram does not know the token.
    """
    pause, reported = 0.5, ""
    while True:
        try:
            return await setup.get_identity(bot)
        except DeliveryError as error:
            if str(error) != reported:
                reported = str(error)
                logger.error("%s; trying again until it does", error)  # noqa: TRY400
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))
        pause = min(MAX_PAUSE, pause * 2)


async def _run_until(
    stop: asyncio.Event, jobs: list[Coroutine[Any, Any, None]], http: HttpServer
) -> None:
    """Run the jobs concurrently; on ``stop``, or when one fails, drain the workers and end.

    The HTTP server, which drains by itself, is the first of the jobs.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]
    stopped = asyncio.ensure_future(stop.wait())
    pending: set[asyncio.Future[Any]] = {*tasks, stopped}
    failed: BaseException | None = None
    while not stopped.done() and failed is None:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        failed = next((task.exception() for task in done if task.exception()), None)
    logger.info("stopping: finishing the turns that are under way")
    for task in (*tasks[1:], stopped):
        task.cancel()
    http.stop()
    await asyncio.gather(*tasks, stopped, return_exceptions=True)
    logger.info("stopped")
    if failed is not None:
        raise failed if isinstance(failed, AppError) else AppError(str(failed)) from failed
