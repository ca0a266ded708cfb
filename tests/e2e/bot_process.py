"""``python bot.py`` as a process that tests start, observe and kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import query
from tests.e2e.nursery import Forked, settle, start_program
from tests.fakes import PATIENCE, Changes
from tests.fakes import eventually as eventually
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.telegram_server import FakeTelegram

WORKERS = "SELECT id FROM procrastinate_workers"
STOP_SECONDS = 40.0

Json = dict[str, Any]


class BotProcess:
    """One process of the bot.

    Attributes:
        lines: Log lines so far; a line that is no JSON object becomes ``{"event": line}``.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        command: str = "run",
        program: Path | None = None,
        *,
        cold: bool = False,
    ) -> None:
        """Prepare a process without starting it.

        Args:
            settings: The whole environment except PATH.
            command: Command of ``bot.py``.
            program: A script that wraps ``bot.py``; None for ``bot.py``.
            cold: True if it imports everything itself (see ``nursery``).
        """
        self.lines: list[Json] = []
        self._settings = dict(settings)
        self._command = command
        self._program = program
        self._cold = cold
        self._changes = Changes()
        self._process: asyncio.subprocess.Process | Forked | None = None
        self._reader: asyncio.Task[None] | None = None
        self._folder: tempfile.TemporaryDirectory[str]

    async def start(self) -> BotProcess:
        """Start the process, and wait until it logs ``started``."""
        await self.spawn()
        await self.wait_started()
        return self

    async def spawn(self) -> None:
        """Start the process in an empty folder with only its settings as environment."""
        assert self._process is None, "it runs already"
        self.lines = []
        self._folder = tempfile.TemporaryDirectory(prefix="pomni-e2e-")  # without a .env
        self._process = await start_program(
            self._program or settle(Path(self._folder.name)),
            self._command,
            cwd=self._folder.name,
            env={"PATH": os.defpath, "HOME": self._folder.name, **self._settings},
            cold=self._cold,
        )
        assert self._process.stdin is not None and self._process.stderr is not None
        self._process.stdin.close()
        self._reader = asyncio.create_task(self._read(self._process.stderr))

    async def wait_started(self) -> None:
        """Return once the process has logged ``started``."""
        await self.wait_event("started")

    async def wait_event(self, event: str, timeout: float = PATIENCE) -> Json:
        """Return the first log line with this event, waiting for it if necessary."""
        return await self.wait_log(
            lambda line: line.get("event") == event, what=f"{event!r}", timeout=timeout
        )

    async def wait_log(self, wanted: Any, *, what: str, timeout: float = PATIENCE) -> Json:
        """Return the first log line for which ``wanted`` is true.

        Raises:
            AssertionError: The timeout passed or the process ended before.
        """

        def found() -> Json | None:
            return next((line for line in self.lines if wanted(line)), None)

        def over() -> bool:
            return found() is not None or (self._reader is not None and self._reader.done())

        await self._changes.until(over, timeout, lambda: f"no {what} in the log:\n{self.logs()}")
        line = found()
        assert line is not None, f"it ended without {what}:\n{self.logs()}"
        return line

    @property
    def http(self) -> str:
        """URL of the process's HTTP server."""
        [port] = [line["http_port"] for line in self.lines if line.get("event") == "started"]
        return f"http://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        """Process id; fails if the process has ended."""
        assert self._process is not None and self._process.returncode is None, "it has ended"
        return self._process.pid

    @property
    def running(self) -> bool:
        """True if the process was started, and neither killed nor awaited."""
        return self._process is not None

    def logs(self) -> str:
        """Return the end of the log."""
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in self.lines[-40:])

    async def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self.wait_end()

    async def terminate(self) -> int:
        """Send SIGTERM, and return the exit status."""
        self.ask_to_stop()
        return await self.wait_end()

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting."""
        assert self._process is not None
        self._process.terminate()

    async def wait_end(self, timeout: float | None = STOP_SECONDS) -> int:
        """Wait for the end, and return the exit status."""
        process, reader = self._process, self._reader
        assert process is not None and reader is not None
        async with asyncio.timeout(timeout):
            status = await process.wait()
            await reader
        self._process = None
        self._folder.cleanup()
        return status

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            text = line.decode(errors="replace").rstrip()
            self.lines.append(entry if isinstance(entry, dict) else {"event": text})
            self._changes.notify()
        asyncio.get_running_loop().call_soon(self._changes.notify)  # after this task is done


class World:
    """A database, a Telegram, a model, and the bot's processes that use them."""

    def __init__(self, dsn: str, telegram: FakeTelegram, model: FakeOpenAI) -> None:
        self.dsn = dsn
        self.telegram = telegram
        self.model = model
        self.processes: list[BotProcess] = []

    def settings(self) -> dict[str, str]:
        """Return the settings of a bot in this world."""
        return {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_API_BASE": self.telegram.url,
            "TELEGRAM_RATE_LIMIT": "1000",
            "OPENAI_BASE_URL": self.model.url,
            "LLM_MODEL": "openai:test",
            "LLM_CALLS": "tools",
            "DATABASE_URL": self.dsn,
            "HTTP_PORT": "0",
            "LOG_LEVEL": "INFO",
            "GATHER_SECONDS": "0.3",  # by default 1, for which hundreds of answers would wait
        }

    def process(
        self,
        command: str = "run",
        *,
        program: Path | None = None,
        cold: bool = False,
        **settings: str,
    ) -> BotProcess:
        """Create a process without starting it."""
        process = BotProcess({**self.settings(), **settings}, command, program, cold=cold)
        self.processes.append(process)
        return process

    async def start(self, command: str = "run", **settings: str) -> BotProcess:
        """Create and start a process."""
        return await self.process(command, **settings).start()

    async def close(self) -> None:
        """Kill all running processes."""
        for process in self.processes:
            if process.running:
                await process.kill()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Execute a statement; returns the rows."""
        return query(self.dsn, sql, *parameters)

    def history(self, owner: int, thread_id: int = 0) -> list[tuple[str, str]]:
        """Return (role, text) of an owner's messages, oldest first."""
        return [
            (role, text)
            for role, text in self.query(
                "SELECT role, message_text(content) FROM messages m "
                "JOIN conversations c ON c.id = m.conversation_id "
                "WHERE c.telegram_user_id = %s AND c.thread_id = %s "
                "ORDER BY m.created_at, m.id",
                owner,
                thread_id,
            )
        ]

    def answers(self, chat_id: int) -> list[str]:
        """Return the texts of the bot's messages that stand in a chat, oldest first."""
        return [one.text for one in self.telegram.sent_to(chat_id) if not one.deleted]

    async def settled(self, timeout: float = PATIENCE) -> None:
        """Return once every stored update is handled and no job is left.

        Raises:
            AssertionError: Updates or jobs are left after the timeout.
        """
        waiting = "SELECT kind, chat_id, update_id FROM telegram_updates WHERE handled_at IS NULL"
        jobs = (
            "SELECT task_name, status::text, args::text FROM procrastinate_jobs "
            "WHERE queue_name IN ('people', 'control') "
            "AND task_name NOT IN ('remind', 'plan_reminders') "
            "AND id NOT IN (SELECT job_id FROM job_deaths WHERE put_aside_at IS NOT NULL)"
        )
        await eventually(
            lambda: not self.query(waiting) and not self.query(jobs),
            lambda: f"the queue to be empty: {self.query(waiting)[:5]} {self.query(jobs)[:5]}",
            timeout,
        )

    def workers(self) -> list[int]:
        """Return the ids of all registered workers, several per process."""
        return [number for (number,) in self.query(WORKERS)]

    def presume_dead(self, workers: list[int]) -> None:
        """Backdate the heartbeats of workers, which saves a wait of ten seconds."""
        self.query(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat "
            "- interval '1 minute' WHERE id = ANY(%s)",
            workers,
        )

    def undelivered(self) -> list[tuple[Any, ...]]:
        """Return the stored answers that are not marked as delivered."""
        return self.query(
            "SELECT id FROM messages WHERE role = 'assistant' AND delivered_at IS NULL"
        )


@contextlib.asynccontextmanager
async def open_world(
    dsn: str, *, telegram: FakeTelegram | None = None, model: FakeOpenAI | None = None
) -> AsyncIterator[World]:
    """A world without a bot; new fakes unless some are given."""
    async with telegram or FakeTelegram() as its_telegram, model or FakeOpenAI() as its_model:
        world = World(dsn, its_telegram, its_model)
        try:
            yield world
        finally:
            await world.close()
