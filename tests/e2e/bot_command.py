"""``python bot.py ...`` as a real process with nothing of this machine's environment."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path

from tests.e2e.nursery import Forked, start_program

BOT = Path(__file__).resolve().parents[2] / "bot.py"
TIMEOUT = 60  # seconds; a process takes about one


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def replies(self) -> list[str]:
        """The lines of stdout that say something."""
        return [line for line in self.stdout.splitlines() if line]


@dataclass(frozen=True)
class Machine:
    """A folder to run in, without a .env, and the variables that are set there.

    Attributes:
        folder: To run in.
        variables: The environment, but for PATH.
        cold: Whether processes import everything themselves (see ``nursery``).
    """

    folder: Path
    variables: dict[str, str]
    cold: bool = False

    def with_variables(self, **variables: str) -> Machine:
        """The same machine with more variables."""
        return replace(self, variables={**self.variables, **variables})

    def run(self, *arguments: str, stdin: str | bytes = "") -> Finished:
        """Run a command to its end."""
        return asyncio.run(self.run_beside(*arguments, stdin=stdin))

    async def run_beside(self, *arguments: str, stdin: str | bytes = "") -> Finished:
        """Run a command to its end while this process serves its fakes."""
        process = await self.start(*arguments)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        async with asyncio.timeout(TIMEOUT):
            out, err = await process.communicate(data)
        assert process.returncode is not None
        return Finished(process.returncode, out.decode(), err.decode())

    async def start(self, *arguments: str) -> asyncio.subprocess.Process | Forked:
        """Start a command to talk with."""
        return await start_program(
            BOT, *arguments, cwd=self.folder, env=self._environment(), cold=self.cold
        )

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], **self.variables}


async def say_to(process: asyncio.subprocess.Process | Forked, text: str) -> str:
    """Write one line and return the first line of the reply."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{text}\n".encode())
    await process.stdin.drain()
    line = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
    return line.decode().removesuffix("\n")
