"""``python bot.py`` as a process of its own, started, killed and looked at by tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2

from tests.e2e.nursery import Forked, start_program
from tests.fakes import Changes
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.telegram_server import FakeTelegram

PROGRAM = Path(__file__).resolve().parents[2] / "bot.py"
START_SECONDS = 60.0
WORKERS = "SELECT id FROM procrastinate_workers"
STOP_SECONDS = 40.0

Json = dict[str, Any]


class BotProcess:
    """One process of the bot.

    Attributes:
        lines: Its log so far, one object a line; what is no JSON is ``{"event": line}``.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        command: str = "run",
        program: Path = PROGRAM,
        *,
        cold: bool = False,
    ) -> None:
        """Nothing starts yet.

        Args:
            settings: Its whole environment, but for PATH.
            command: Of ``bot.py``.
            program: ``bot.py``, or a script that wraps it.
            cold: Whether it imports everything itself (see ``nursery``).
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
        """Start it, and wait until it says that it works."""
        await self.spawn()
        await self.wait_started()
        return self

    async def spawn(self) -> None:
        """Start it in an empty folder, with no environment but its settings."""
        assert self._process is None, "it runs already"
        self.lines = []
        self._folder = tempfile.TemporaryDirectory(prefix="pomni-e2e-")  # one without a .env
        self._process = await start_program(
            self._program,
            self._command,
            cwd=self._folder.name,
            env={"PATH": os.defpath, "HOME": self._folder.name, **self._settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=None,
            cold=self._cold,
        )
        assert self._process.stderr is not None
        self._reader = asyncio.create_task(self._read(self._process.stderr))

    async def wait_started(self) -> None:
        """Return once it works."""
        await self.wait_event("started")

    async def wait_event(self, event: str, timeout: float = START_SECONDS) -> Json:
        """Return the first log line of this event, as soon as there is one."""
        return await self.wait_log(
            lambda line: line.get("event") == event, what=f"{event!r}", timeout=timeout
        )

    async def wait_log(self, wanted: Any, *, what: str, timeout: float = START_SECONDS) -> Json:
        """Return the first log line that ``wanted`` accepts.

        Raises:
            AssertionError: None came in time, or the process ended.
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
        """The address of its HTTP server."""
        [port] = [line["http_port"] for line in self.lines if line.get("event") == "started"]
        return f"http://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        """Its number, while it runs."""
        assert self._process is not None and self._process.returncode is None, "it has ended"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and not ended by us."""
        return self._process is not None

    def logs(self) -> str:
        """The end of its log."""
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in self.lines[-40:])

    async def kill(self) -> None:
        """SIGKILL: no time to say good-bye."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._ended()

    async def terminate(self) -> int:
        """SIGTERM; returns the exit status."""
        self.ask_to_stop()
        return await self._ended()

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        assert self._process is not None
        self._process.terminate()

    async def wait_end(self, timeout: float | None = STOP_SECONDS) -> int:
        """Return the exit status once it has ended."""
        return await self._ended(timeout)

    async def _ended(self, timeout: float | None = STOP_SECONDS) -> int:
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
        asyncio.get_running_loop().call_soon(self._changes.notify)  # when this task is done


class World:
    """A database, a Telegram, a model, and the processes of the bot between them."""

    def __init__(self, dsn: str, telegram: FakeTelegram, model: FakeOpenAI) -> None:
        self.dsn = dsn
        self.telegram = telegram
        self.model = model
        self.processes: list[BotProcess] = []
        self._connection: psycopg2.extensions.connection | None = None

    def settings(self) -> dict[str, str]:
        """The settings of a bot in this world."""
        return {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_API_BASE": self.telegram.url,
            "TELEGRAM_RATE_LIMIT": "1000",
            "OPENAI_BASE_URL": self.model.url,
            "LLM_MODEL": "openai:test",
            "DATABASE_URL": self.dsn,
            "HTTP_PORT": "0",
            "LOG_LEVEL": "INFO",
        }

    def process(
        self, command: str = "run", *, program: Path = PROGRAM, cold: bool = False, **settings: str
    ) -> BotProcess:
        """A process that is not started yet."""
        made = BotProcess({**self.settings(), **settings}, command, program, cold=cold)
        self.processes.append(made)
        return made

    async def start(self, command: str = "run", **settings: str) -> BotProcess:
        """A process that works."""
        return await self.process(command, **settings).start()

    async def close(self) -> None:
        """End every process that still runs."""
        for process in self.processes:
            if process.running:
                await process.kill()
        self._disconnect()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of one statement, on a connection that is kept for as long as the server lives."""
        try:
            return self._query(sql, *parameters)
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            self._disconnect()
            return self._query(sql, *parameters)

    def _query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = psycopg2.connect(self.dsn)
            self._connection.autocommit = True
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def history(self, owner: int, thread_id: int = 0) -> list[tuple[str, str]]:
        """(role, text) of an owner's messages, oldest first."""
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
        """What the bot said in a chat, oldest first."""
        return [message.text for message in self.telegram.sent_to(chat_id)]

    async def settled(self, timeout: float = 20) -> None:
        """Return once every stored update is handled and no job is left.

        Raises:
            AssertionError: Something still waits.
        """
        waiting = "SELECT kind, chat_id, update_id FROM telegram_updates WHERE handled_at IS NULL"
        jobs = (
            "SELECT task_name, status::text, args::text FROM procrastinate_jobs "
            "WHERE queue_name IN ('turns', 'beside', 'commands', 'control')"
        )
        await eventually(
            lambda: not self.query(waiting) and not self.query(jobs),
            lambda: f"the queue to be empty: {self.query(waiting)[:5]} {self.query(jobs)[:5]}",
            timeout,
        )

    def workers(self) -> list[int]:
        """Ids of the workers that are known: several a process."""
        return [number for (number,) in self.query(WORKERS)]

    def presume_dead(self, workers: list[int]) -> None:
        """Make their last heartbeats old: else it takes ten seconds more."""
        self.query(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat "
            "- interval '1 minute' WHERE id = ANY(%s)",
            workers,
        )

    def undelivered(self) -> list[tuple[Any, ...]]:
        """Answers that the tables say nobody got."""
        return self.query(
            "SELECT id FROM messages WHERE role = 'assistant' AND delivered_at IS NULL"
        )


async def eventually(condition: Any, what: Any, timeout: float = 15) -> Any:
    """Return the condition's first true value; for what nobody announces.

    Raises:
        AssertionError: It did not become true in time; ``what`` is a text or makes one.
    """
    try:
        async with asyncio.timeout(timeout):
            while not (value := condition()):  # noqa: ASYNC110  (nobody would set an event)
                await asyncio.sleep(0.03)
            return value
    except TimeoutError:
        text = what() if callable(what) else what
        raise AssertionError(f"waited {timeout} s in vain for {text}") from None
