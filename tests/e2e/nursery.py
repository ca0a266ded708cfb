"""Processes of the bot that are forked after the imports of ``python bot.py``.

A start takes two and a half seconds of CPU time, two of them for imports. One process per test run
has imported everything and only forks. Each forked process is an independent ``python bot.py``
with its own folder, environment and files. Tests of the start itself use complete starts
(``cold``).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LENGTH = struct.Struct("<I")
MODULES = (
    "bot", "src.console", "src.operate.doctor", "src.operate.evaluation", "src.app",
    "langchain_openai", "anyio._backends._asyncio",
)  # fmt: skip


def settle(folder: Path) -> Path:
    """Return a bot.py in ``folder``, so that it reads no ``.env`` of the project."""
    program = folder / "bot.py"
    if not program.exists():
        shutil.copy(ROOT / "bot.py", program)
        (folder / "src").symlink_to(ROOT / "src")
    return program


async def start_program(
    program: Path,
    *arguments: str,
    cwd: str | Path,
    env: Mapping[str, str],
    stdin: int = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    cold: bool = False,
) -> asyncio.subprocess.Process | Forked:
    """Start a program that imports the bot, with piped stderr, forked if possible."""
    if cold or "PYTHONPATH" in env:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(program), *arguments, cwd=cwd, env=dict(env),
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
        )  # fmt: skip
    forked = Forked()
    await forked.start([str(program), *arguments], str(cwd), dict(env), stdin, stdout)
    return forked


class Forked:
    """Counterpart of ``asyncio.subprocess.Process`` for a forked process.

    Attributes:
        pid: Process id.
        returncode: Exit status, negative for a signal; None while it runs.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None

    async def start(
        self, argv: list[str], cwd: str, env: dict[str, str], stdin: int, stdout: int | None
    ) -> None:
        """Request the process from the nursery."""
        files: list[int] = []
        if stdin == subprocess.PIPE:
            ours, its = socket.socketpair()
            files.append(its.detach())
            _, self.stdin = await asyncio.open_connection(sock=ours)
        else:
            files.append(os.open(os.devnull, os.O_RDONLY))
        if stdout == subprocess.PIPE:
            self.stdout = await _reading_end(files)
        else:
            files.append(os.dup(1))
        self.stderr = await _reading_end(files)
        status_pipe = await _reading_end(files)
        nursery().ask({"argv": argv, "cwd": cwd, "env": env}, files)
        self.pid = int(await status_pipe.readline())
        self._ending = asyncio.create_task(self._end(status_pipe))

    async def _end(self, status_pipe: asyncio.StreamReader) -> int:
        self.returncode = os.waitstatus_to_exitcode(int(await status_pipe.read()))
        return self.returncode

    async def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        status = await asyncio.shield(self._ending)
        if self.stdin is not None:
            self.stdin.close()
        return status

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Write the rest of stdin, wait for the end, and return stdout and stderr."""
        assert self.stdin is not None and self.stdout is not None and self.stderr is not None
        if not self.stdin.is_closing():
            self.stdin.write(data)
            self.stdin.close()
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


async def _reading_end(files: list[int]) -> asyncio.StreamReader:
    """Create a pipe, append its writing end to ``files``, and return its reader."""
    ours, its = os.pipe()
    files.append(its)
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
    )
    return reader


class Nursery:
    """Client of the forking process, which all workers of a test run share."""

    def __init__(self) -> None:
        """Connect to the process; the first client starts it."""
        self._lock = threading.Lock()
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.getpid()
        address = f"\0pomni-nursery-{run}"  # abstract socket: it disappears with the process
        while (connection := _connect(address)) is None:
            with contextlib.suppress(OSError):  # another client is starting it
                _start(address)
        self._socket = connection
        atexit.register(connection.close)

    def ask(self, order: Mapping[str, Any], files: Sequence[int]) -> None:
        """Request a process with these files: stdin, stdout, stderr, and a pipe for its status."""
        data = json.dumps(order).encode()
        with self._lock:
            socket.send_fds(self._socket, [LENGTH.pack(len(data))], files)
            self._socket.sendall(data)
        _close(*files)


nursery = functools.cache(Nursery)


def _connect(address: str) -> socket.socket | None:
    """Connect to the process; None if it does not run or is just ending."""
    connection = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        connection.connect(address)
        if connection.recv(1):
            return connection
    connection.close()
    return None


def _start(address: str) -> None:
    """Start the forking process, listening at the address, in a bare environment."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        bare = {"PATH": os.environ["PATH"], "HOME": os.devnull, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.e2e.nursery"]
        stdin = (os.POSIX_SPAWN_DUP2, listening.fileno(), 0)
        os.posix_spawn(sys.executable, command, bare, file_actions=[stdin])


def main() -> None:
    """Serve fork requests on connections to the socket at stdin until all have closed."""
    gc.disable()
    _warm_up()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listening = socket.socket(fileno=os.dup(0))
    users = [_accept(listening)]
    while users:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for ready in select.select([listening, *users], [], [])[0]:
            if ready is listening:
                users.append(_accept(listening))
            elif (order := _receive(ready)) is None:
                users.remove(ready)
            elif os.fork() == 0:
                _close(listening, *users)
                _supervise(*order)
                return
            else:
                _close(*order[1])


def _close(*files: int | socket.socket) -> None:
    for file in files:
        file.close() if isinstance(file, socket.socket) else os.close(file)


def _accept(listening: socket.socket) -> socket.socket:
    user, _ = listening.accept()
    user.sendall(b".")
    return user


def _receive(user: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Read a request and its files; None if the client has closed the connection."""
    head, files, _, _ = socket.recv_fds(user, LENGTH.size, 4)
    if not head:
        return None
    return json.loads(user.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)), files


def _warm_up() -> None:
    """Import and load what a bot imports and loads at its start."""
    for module in MODULES:
        importlib.import_module(module)
    from src.base.config import Settings
    from src.core import build_chat_model
    from src.reading.reminder_phrases import read_reminder
    from src.reading.time_expressions import read_time
    from src.reading.words import content_words
    from src.texts import LANGUAGES, say

    now = datetime.now(UTC)
    read_time("5 марта", now)
    read_reminder("напомни завтра в 9 полить цветы", now, "Europe/Kyiv")
    content_words("слово")
    build_chat_model(Settings(_env_file=None), "openai:any")  # type: ignore[call-arg]
    for language in LANGUAGES:
        say("start", language)


def _supervise(order: Mapping[str, Any], files: list[int]) -> None:
    """Fork the program, and write its pid and, after its end, its wait status to the pipe."""
    *standard, status_pipe = files
    pid = os.fork()
    if pid == 0:
        os.close(status_pipe)
        _run_program(order, standard)
        return
    _close(0, *standard)
    os.write(status_pipe, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(status_pipe, str(status).encode())
    os._exit(0)


def _run_program(order: Mapping[str, Any], standard: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    encoding, _, errors = order["env"].get("PYTHONIOENCODING", "").partition(":")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(standard[number], number)
        os.close(standard[number])
        original = getattr(sys, name)  # its mode and encoding are those of the nursery's own file
        stream = open(  # noqa: SIM115  (for as long as the process lives)
            number, original.mode, buffering=1 if number == 2 else -1, closefd=False,
            encoding=encoding or original.encoding, errors=errors or original.errors,
        )  # fmt: skip
        setattr(sys, name, stream)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = order["argv"]
    sys.orig_argv = [sys.executable, *sys.argv]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
