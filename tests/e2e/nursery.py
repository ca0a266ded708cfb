"""Processes of the bot that are forked after the imports of ``python bot.py``.

A start takes two and a half seconds of CPU time, two of them for imports. The fork server of the
standard library has imported everything (``warm_bot``) and only forks. Each forked process is an
independent ``python bot.py`` with its own folder, environment and files. Tests of the start
itself use complete starts (``cold``).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 2**20  # bytes of a line
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.e2e.warm_bot"])


def settle(folder: Path) -> Path:
    """Return a bot.py in ``folder``, so that it reads no ``.env`` of the project."""
    program = folder / "bot.py"
    if not program.exists():
        shutil.copy(ROOT / "bot.py", program)
        (folder / "src").symlink_to(ROOT / "src")
    return program


async def start_program(
    program: Path, *arguments: str, cwd: str | Path, env: Mapping[str, str], cold: bool = False
) -> asyncio.subprocess.Process | Forked:
    """Start a program that imports the bot, with piped standard files, forked if possible."""
    if cold or "PYTHONPATH" in env:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(program), *arguments, cwd=cwd, env=dict(env), limit=LIMIT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    forked = Forked()
    await forked.start([str(program), *arguments], str(cwd), dict(env))
    return forked


class Forked:
    """Counterpart of ``asyncio.subprocess.Process`` for a forked process.

    Attributes:
        pid: Process id.
        returncode: Exit status, negative for a signal; None while it runs.
        stdin: Writer of its standard input.
        stdout: Reader of its standard output.
        stderr: Reader of its standard error.
    """

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    async def start(self, argv: list[str], cwd: str, env: dict[str, str]) -> None:
        """Fork the process."""
        ours, stdin = socket.socketpair()
        _, self.stdin = await asyncio.open_connection(sock=ours)
        self.stdout, stdout = await _open_pipe()
        self.stderr, stderr = await _open_pipe()
        files = (stdin, stdout, stderr)
        self._process = FORKS.Process(target=run_program, args=(argv, cwd, env, files))
        self._process.daemon = True  # it does not outlive the tests
        self._process.start()
        for file in files:
            file.close()
        self.pid = self._process.pid
        asyncio.get_running_loop().add_reader(self._process.sentinel, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self.returncode = self._process.exitcode
        self._ended.set()

    async def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        await self._ended.wait()
        assert self.returncode is not None
        self.stdin.close()
        return self.returncode

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Write the rest of stdin, wait for the end, and return stdout and stderr."""
        if not self.stdin.is_closing():
            self.stdin.write(data)
            self.stdin.write_eof()
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


async def _open_pipe() -> tuple[asyncio.StreamReader, Connection]:
    """Return the two ends of a pipe."""
    ours, its = FORKS.Pipe(duplex=False)
    reader = asyncio.StreamReader(limit=LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(ours.fileno()), "rb", 0)
    )
    ours.close()
    return reader, its


def run_program(
    argv: list[str], cwd: str, env: dict[str, str], files: Sequence[socket.socket | Connection]
) -> None:
    """Become the program, in the process that the fork server has forked."""
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
        file.close()
    encoding, _, errors = env.get("PYTHONIOENCODING", "").partition(":")
    given = {"encoding": encoding or "utf-8", "closefd": False}
    sys.stdin = open(0, errors=errors or "surrogateescape", **given)  # noqa: SIM115
    sys.stdout = open(1, "w", errors=errors or "surrogateescape", **given)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, **given)  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    sys.orig_argv = [sys.executable, *argv]
    runpy.run_path(argv[0], run_name="__main__")
