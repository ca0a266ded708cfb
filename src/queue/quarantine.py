"""Quarantine: jobs that ran during two deaths are tried in a process of their own.

That somebody's job ran when the process died proves little: others ran beside it, and an operator
may have killed the process. So suspects leave the bot's process. It starts another one, which runs
the same program, works off the suspects and ends. When *that* one dies while its parent lives, one
of the jobs in its hands did it: the only one, or else they are tried one by one. When both die it
was none of them, since they were not in the parent: they get another chance beside the others.

The child tells the parent on its stdout, line by line, what it takes into its hands; it ends at
once when its stdin does, since its parent is dead then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from procrastinate import App, JobContext
from procrastinate.worker import Worker

from src.base.config import quarantine_environment
from src.base.errors import StorageError
from src.pg.client import PgClient
from src.queue.dead_jobs import HEARTBEAT_SECONDS, ON_STEP, DeadJobs
from src.queue.job_death_repo import SUSPECT_DEATHS, JobDeathRepository, Step, Suspects
from src.queue.job_repo import QUARANTINE_QUEUE

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # how often the parent looks for suspects
MAX_PAUSE = 60.0  # seconds between two children that die before they have taken a job
ALIVE_SECONDS = 5.0  # how often the child shows that its event loop runs
SILENCE_SECONDS = 60.0  # after which it counts as dead: something blocks it for good
STOP_SECONDS = 1.0  # beyond the jobs' own time to finish
# So few suspects are tried one by one at once. More are tried together first: an operator's kills
# make suspects of all that runs, and they would wait for each other for minutes.
FEW = 8
JOBS_TOGETHER = 32

ALIVE, END, JOB = "alive", "end", "job"  # what a line of the child begins with, or a step's kind


@dataclass(frozen=True)
class Orders:
    """What the parent tells the child in the first line of its stdin.

    Attributes:
        dsn: The database that the parent uses.
        concurrency: How many suspects to try at once.
    """

    dsn: str
    concurrency: int


@dataclass
class Report:
    """What a child has said so far.

    Attributes:
        jobs: Ids of the jobs that it took.
        step: The message or document at which its last job is, when that is one for all.
        ended: Whether it came to an orderly end.
    """

    jobs: list[int] = field(default_factory=list)
    step: Step | None = None
    ended: bool = False

    def hear(self, line: str) -> None:
        """Take in one line."""
        word, _, number = line.strip().partition(" ")
        if word == END:
            self.ended = True
        elif number.isdecimal():
            if word == JOB:
                self.jobs.append(int(number))
                self.step = None
            elif word == "message":
                self.step = ("message", int(number))
            elif word == "document":
                self.step = ("document", int(number))


class Quarantine:
    """The parent's side: starts a child when there are suspects, and judges its death."""

    def __init__(
        self,
        client: PgClient,
        deaths: JobDeathRepository,
        dead_jobs: DeadJobs,
        *,
        shutdown_timeout: float,
    ) -> None:
        """Nothing starts yet.

        Args:
            client: Its address is the child's database.
            deaths: Knows the suspects.
            dead_jobs: Puts aside.
            shutdown_timeout: Seconds that the child's jobs get to finish.
        """
        self._client = client
        self._deaths = deaths
        self._dead_jobs = dead_jobs
        self._shutdown_timeout = shutdown_timeout

    async def run(self, stopping: asyncio.Event) -> None:
        """Look for suspects until ``stopping``; less often while nothing comes of it."""
        pause = POLL_SECONDS
        while not stopping.is_set():
            try:
                is_well = await self._try_suspects(stopping)
            except (StorageError, OSError) as error:
                logger.warning("suspects have to wait", exc_info=error)
                is_well = False
            pause = POLL_SECONDS if is_well else min(MAX_PAUSE, 2 * pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopping.wait()

    async def _try_suspects(self, stopping: asyncio.Event) -> bool:
        """Have the suspects tried, if there are any; False when the child took none of them."""
        suspects = await self._client.run(self._deaths.count_suspects)
        if not suspects.waiting:
            return True
        concurrency = how_many_at_once(suspects)
        logger.info(
            "trying suspected jobs in a process of their own",
            extra={"jobs": suspects.waiting, "at_once": concurrency},
        )
        report = await self._run_child(Orders(self._client.dsn, concurrency), stopping)
        if report.jobs and not report.ended and not stopping.is_set():
            await self._dead_jobs.judge(report.jobs, report.step)
        return bool(report.jobs)

    async def _run_child(self, orders: Orders, stopping: asyncio.Event) -> Report:
        """Start a child and listen to it until it ends, or has to."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *sys.orig_argv[1:],  # the same program, whatever wraps bot.py
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=quarantine_environment(),
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(asdict(orders)).encode() + b"\n")
        report = Report()
        listening = asyncio.ensure_future(_listen(child.stdout, report))
        stop = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({listening, stop}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.is_set() and not listening.done():
                await self._stop(child, listening)
        finally:
            stop.cancel()
            listening.cancel()
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        return report

    async def _stop(
        self, child: asyncio.subprocess.Process, listening: asyncio.Future[None]
    ) -> None:
        """Let the child's jobs finish, within their time."""
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await asyncio.wait({listening}, timeout=self._shutdown_timeout + STOP_SECONDS)


def how_many_at_once(suspects: Suspects) -> int:
    """One by one when they are few, or when one of them has killed others beside it."""
    is_narrowing = suspects.most_deaths > SUSPECT_DEATHS
    return 1 if suspects.waiting <= FEW or is_narrowing else JOBS_TOGETHER


async def _listen(stream: asyncio.StreamReader, report: Report) -> None:
    """Hear the child until it ends, or falls silent."""
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(SILENCE_SECONDS):
                line = await stream.readline()
            if not line:
                return
            report.hear(line.decode(errors="replace"))


class Parent:
    """The child's line to its parent; dies with it."""

    def __init__(self) -> None:
        """Read the orders. What jobs print goes to stderr from now on."""
        self.orders = Orders(**json.loads(sys.stdin.readline()))
        self._line = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        threading.Thread(target=_die_with_parent, name="parent", daemon=True).start()

    def tell(self, kind: str, number: int | None = None) -> None:
        """Write one line in one piece, at once: it outlives this process."""
        line = kind if number is None else f"{kind} {number}"
        with contextlib.suppress(BrokenPipeError):
            os.write(self._line, f"{line}\n".encode())

    def tell_end(self) -> None:
        """The child comes to its end: nothing has killed it."""
        self.tell(END)

    async def tell_alive(self) -> None:
        """Show again and again that the event loop runs."""
        while True:
            self.tell(ALIVE)
            await asyncio.sleep(ALIVE_SECONDS)

    async def tell_job(
        self, call_next: Callable[[], Awaitable[Any]], context: JobContext, _worker: Worker
    ) -> Any:
        """Procrastinate's middleware: the parent knows of a job before it begins."""
        self.tell(JOB, context.job.id)
        return await call_next()


class QuarantineWorker:
    """The child's side: works off the suspects, and tells its parent what it is at."""

    def __init__(self, app: App, parent: Parent, *, shutdown_timeout: float) -> None:
        """Run the jobs of ``app``, whose tasks are registered."""
        self._app = app
        self._parent = parent
        self._shutdown_timeout = shutdown_timeout

    async def run(self, stop: asyncio.Event) -> None:
        """Work until no suspect is left, or ``stop``."""
        self._app.periodic_registry.periodic_tasks.clear()  # the parent is the clock
        stopped = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(self._work())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        working.cancel()  # procrastinate finishes the running jobs first
        [ended] = await asyncio.gather(working, return_exceptions=True)
        if isinstance(ended, Exception):
            logger.warning("the suspects' worker ended", exc_info=ended)

    async def _work(self) -> None:
        await self._app.run_worker_async(
            queues=[QUARANTINE_QUEUE],
            name="pomni-quarantine",
            wait=False,
            concurrency=self._parent.orders.concurrency,
            shutdown_graceful_timeout=self._shutdown_timeout,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            delete_jobs="successful",
            install_signal_handlers=False,
            worker_middleware=[self._parent.tell_job],
            additional_context={ON_STEP: self._parent.tell},
        )


def _die_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)
