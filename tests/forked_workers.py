"""pytest-xdist workers that are forked from one process which has imported all tests.

Otherwise each worker would import everything itself (five seconds of CPU time). pytest-xdist
starts a worker as ``python … -c LINE``; here that is this program. It passes its standard streams
to the forking process and exits with the worker.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Modules that tests import late; the first one alone takes seconds of CPU time.
LATER = ("langchain_anthropic", "langchain_google_genai", "langchain_openai", "alembic.command")


@contextmanager
def forking(arguments: Sequence[str]) -> Iterator[str]:
    """Start the forking process; yields a pytest-xdist ``--tx`` specification of its workers.

    Args:
        arguments: Arguments of pytest, which select the tests to import.
    """
    address = f"pomni-workers-{os.getpid()}"
    lives, life = os.pipe()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{address}")  # abstract socket: it disappears with the process
        listening.listen()
        child = os.fork()
        if child == 0:
            os.close(life)
            _serve_forks(listening, lives, arguments)
            os._exit(0)
    os.close(lives)
    try:
        yield f"popen//python={sys.executable} -I -S {__file__} {address}"
    finally:
        os.close(life)
        os.waitpid(child, 0)


def _serve_forks(listening: socket.socket, lives: int, arguments: Sequence[str]) -> None:
    """Import the selected tests, then fork one worker per connection until ``lives`` is closed.

    Returns in each worker too, when its work is done.
    """
    _import_tests(arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap workers automatically
    while lives not in select.select([listening, lives], [], [])[0]:
        connection, _ = listening.accept()
        data, files, _, _ = socket.recv_fds(connection, 65_536, 3)
        if os.fork() == 0:
            os.close(lives)
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run_worker(data.decode(), files)
            return
        connection.close()
        for file in files:
            os.close(file)


def _import_tests(arguments: Sequence[str]) -> None:
    import pytest

    with open(os.devnull, "r+b") as nowhere:
        saved = [os.dup(number) for number in range(2)]
        for number in range(2):
            os.dup2(nowhere.fileno(), number)
        pytest.main(["--collect-only", "-p", "no:xdist", "-p", "no:cacheprovider", *arguments])
        gc.disable()  # imports create no garbage
        for name in LATER:
            importlib.import_module(name)
        gc.enable()
        for number, file in enumerate(saved):
            os.dup2(file, number)
            os.close(file)


def _run_worker(line: str, files: Sequence[int]) -> None:
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
        os.dup2(file, number)
        os.close(file)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(number, mode, buffering=1, closefd=False))  # noqa: SIM115
    sys.argv = ["-c"]
    exec(line, {"__name__": "__main__"})


def main() -> None:
    """Request a worker and exit when it does."""
    address, *_, line = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{address}")
        socket.send_fds(connection, [line.encode()], [0, 1, 2])
        connection.recv(1)


if __name__ == "__main__":
    main()
