"""``python bot.py ...`` as a real process, isolated from the machine's environment."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path

from tests.e2e.nursery import Forked, settle, start_program

TIMEOUT = 60  # seconds; a process usually takes about one


@dataclass(frozen=True)
class Finished:
    """Result of a finished process."""

    status: int
    stdout: str
    stderr: str

    @property
    def replies(self) -> list[str]:
        """Non-empty lines of stdout."""
        return [line for line in self.stdout.splitlines() if line]


@dataclass(frozen=True)
class Machine:
    """Environment of processes: a folder with bot.py and without a .env, and variables.

    Attributes:
        folder: Folder of bot.py.
        variables: The environment except PATH and the language, Russian by default.
        cold: True if processes import everything themselves (see ``nursery``).
        cwd: Working directory; None for the folder.
    """

    folder: Path
    variables: dict[str, str]
    cold: bool = False
    cwd: Path | None = None

    def with_variables(self, **variables: str) -> Machine:
        """Return a copy with additional variables."""
        return replace(self, variables={**self.variables, **variables})

    def run(self, *arguments: str, stdin: str | bytes = "") -> Finished:
        """Run a command and return its result."""
        return asyncio.run(self.run_beside(*arguments, stdin=stdin))

    async def run_beside(self, *arguments: str, stdin: str | bytes = "") -> Finished:
        """Run a command in an event loop that also serves its fakes."""
        process = await self.start(*arguments)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        async with asyncio.timeout(TIMEOUT):
            out, err = await process.communicate(data)
        assert process.returncode is not None
        return Finished(process.returncode, out.decode(), err.decode())

    async def start(self, *arguments: str) -> asyncio.subprocess.Process | Forked:
        """Start an interactive command."""
        return await start_program(
            settle(self.folder), *arguments,
            cwd=self.cwd or self.folder, env=self._environment(), cold=self.cold,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        russian = {"PATH": os.environ["PATH"], "LC_MESSAGES": "ru_RU.UTF-8"}
        return {**russian, **self.variables}


async def say_to(process: asyncio.subprocess.Process | Forked, text: str) -> str:
    """Write a line and return the first line of the reply."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{text}\n".encode())
    await process.stdin.drain()
    line = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
    return line.decode().removesuffix("\n")
