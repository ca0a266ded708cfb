"""``python bot.py ...`` as a real process with nothing of this machine's environment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    """A folder to run in, without a .env, and the variables that are set there."""

    folder: Path
    variables: dict[str, str]

    def with_variables(self, **variables: str) -> Machine:
        """The same machine with more variables."""
        return Machine(self.folder, {**self.variables, **variables})

    def run(self, *arguments: str, stdin: str | bytes = "") -> Finished:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, str(BOT), *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            cwd=self.folder,
            env=self._environment(),
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    async def run_beside(self, *arguments: str, stdin: str = "") -> Finished:
        """Run a command to its end while this process serves its fakes."""
        return await asyncio.to_thread(self.run, *arguments, stdin=stdin)

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command to talk with."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(BOT),
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], **self.variables}


async def say_to(process: asyncio.subprocess.Process, text: str) -> str:
    """Write one line and return the first line of the reply."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{text}\n".encode())
    await process.stdin.drain()
    line = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
    return line.decode().removesuffix("\n")
