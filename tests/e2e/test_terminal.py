"""The console on a terminal, with a person's keys: a real process on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import re
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from src.console import CONSOLE_USER_ID
from src.texts import say
from tests.conftest import execute, query
from tests.e2e.bot_command import TIMEOUT, Machine
from tests.e2e.nursery import Forked, settle, start_program
from tests.fakes.openai_server import FakeOpenAI, Reply

PROGRAM = Path(__file__).with_name("on_terminal.py")
PROMPT = "> "
COLOUR = re.compile(rb"\x1b\[[?\d;]*[a-zA-Z]")
CTRL_C, CTRL_D, UP, BACKSPACE = "\x03", "\x04", "\x1b[A", "\x7f"
STORED = say("taught_new", "ru", text="Меня зовут Анна")


@dataclass
class Terminal:
    """A console process, the keyboard and the screen in front of it."""

    process: asyncio.subprocess.Process | Forked
    keyboard: int

    async def press(self, keys: str) -> None:
        """Type keys."""
        await asyncio.to_thread(os.write, self.keyboard, keys.encode())

    async def read_until(self, text: str) -> str:
        """What appears on the screen, up to and with ``text``."""
        shown = b""
        async with asyncio.timeout(TIMEOUT):
            while text.encode() not in COLOUR.sub(b"", shown):
                shown += await asyncio.to_thread(os.read, self.keyboard, 4096)
        return COLOUR.sub(b"", shown).decode()

    async def end(self) -> tuple[int, str]:
        """The exit status, and what was said on stderr."""
        assert self.process.stderr is not None
        async with asyncio.timeout(TIMEOUT):
            errors = await self.process.stderr.read()
            return await self.process.wait(), errors.decode()

    def is_as_usual(self) -> bool:
        """Whether the terminal echoes and edits lines by itself, as a shell expects it."""
        flags = termios.tcgetattr(self.keyboard)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)


@asynccontextmanager
async def console(machine: Machine, command: str = "console") -> AsyncIterator[Terminal]:
    """A console, or another command, on a terminal of its own."""
    keyboard, screen = os.openpty()
    bare = {"PATH": os.defpath, "HOME": str(machine.folder), "TERM": "xterm"}
    bare["LC_CTYPE"] = "C.UTF-8"  # which a Python that starts, not forks, would set itself
    settle(machine.folder)
    process = await start_program(
        PROGRAM,
        command,
        cwd=machine.folder,
        env={**bare, "TERMINAL": os.ttyname(screen), **machine.variables},
    )
    try:
        yield Terminal(process, keyboard)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        os.close(keyboard)
        os.close(screen)


async def test_the_arrow_keys_recall_lines_and_a_paste_is_many_and_no_file_keeps_them(
    machine: Machine,
) -> None:
    async with console(machine) as terminal:
        await terminal.read_until(PROMPT)
        await terminal.press("Меня зовут Анна\n")
        assert STORED in await terminal.read_until(f"\n{PROMPT}")
        await terminal.press(UP)
        await terminal.read_until("Меня зовут Анна")
        await terminal.press(f"{BACKSPACE}{BACKSPACE}я\n")
        shown = await terminal.read_until(f"\n{PROMPT}")
        assert "Меня зовут Аня" in shown
        await terminal.press("Меня зовут Анна\n/stop\n")  # a pasted text
        await terminal.read_until(f"{say('stop_nothing', 'ru')}\r\n\r\n{PROMPT}")
        await terminal.press(CTRL_D)
        assert await terminal.end() == (0, "")
        assert terminal.is_as_usual()
    kept = [path for path in machine.folder.rglob("*") if path.is_file()]
    assert all("зовут".encode() not in path.read_bytes() for path in kept)


async def test_the_console_greets_in_the_language_of_the_terminal(machine: Machine) -> None:
    async with console(machine.with_variables(LANG="ru_RU.UTF-8", LANGUAGE="uk:ru")) as terminal:
        shown = await terminal.read_until(PROMPT)
        assert say("console_hello", "uk") in shown and say("offline_note", "uk") in shown
        await terminal.press("/stop\n")
        await terminal.read_until(say("stop_nothing", "uk"))


async def test_the_console_greets_in_the_language_that_the_user_chose(
    machine: Machine, dsn: str
) -> None:
    execute(
        dsn,
        "INSERT INTO user_settings (owner_id, language)"
        f" VALUES (add_owner({CONSOLE_USER_ID}, 0), 'uk')",
    )
    async with console(machine.with_variables(LANG="ru_RU.UTF-8")) as terminal:
        assert say("console_hello", "uk") in await terminal.read_until(PROMPT)


async def test_ctrl_c_in_the_midst_of_an_answer_ends_the_console(machine: Machine) -> None:
    async with FakeOpenAI() as model:
        model.queue(Reply("Это долгая история", hang=True))
        there = machine.with_variables(LLM_MODEL="openai:fake-model", OPENAI_BASE_URL=model.url)
        async with console(there) as terminal:
            await terminal.read_until(PROMPT)
            await terminal.press("Расскажи\n")
            await model.wait_requests(1)
            await terminal.press(CTRL_C)
            assert await terminal.end() == (130, "")
            assert terminal.is_as_usual()


def test_psql_opens_the_database_and_creates_none(machine: Machine) -> None:
    chosen = machine.run("psql", "-qAt", "-c", "SELECT count(*) FROM messages")
    assert (chosen.status, chosen.stdout, chosen.stderr) == (0, "0\n", "")
    typed = machine.run("psql", "-At", stdin="SELECT 1 + 1;\n")
    assert (typed.status, typed.stdout) == (0, "2\n")
    bare = Machine(machine.folder, {"DATA_DIR": "data"})
    missing = bare.run("psql", "-c", "SELECT 1")
    assert missing.status == 1 and "there is no database of Pomni's in " in missing.stderr
    assert not (machine.folder / "data").exists()


async def test_ctrl_c_is_left_to_psql(machine: Machine) -> None:
    """It cancels a statement, and the session goes on."""
    async with console(machine, "psql") as terminal:
        await terminal.read_until("=# ")
        await terminal.press("SELECT pg_sleep(1000);\n")
        asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while not await asyncio.to_thread(query, machine.variables["DATABASE_URL"], asleep):
            pass
        await terminal.press(CTRL_C)
        await terminal.read_until("=# ")
        await terminal.press("SELECT 'still ' || 'there';\n")
        await terminal.read_until("still there")
        await terminal.press(CTRL_D)
        assert (await terminal.end())[0] == 0
