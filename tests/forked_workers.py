"""Workers of pytest-xdist that are forked from one process, which has imported every test.

Else each of them would import everything itself, for five seconds of a processor. pytest-xdist
starts a worker as ``python … -c LINE``; here that is this program, which hands its files to the
process that forks, and ends with the worker.
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

# What tests of several files import at last; the first alone takes seconds of a processor.
LATER = ("langchain_anthropic", "langchain_google_genai", "langchain_openai", "alembic.command")


@contextmanager
def forking(arguments: Sequence[str]) -> Iterator[str]:
    """The command that starts a worker, in the way of pytest-xdist's ``--tx``.

    Args:
        arguments: Of pytest, which say what will be collected.
    """
    address = f"pomni-workers-{os.getpid()}"
    lives, life = os.pipe()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{address}")  # in no folder: it vanishes with the process
        listening.listen()
        child = os.fork()
        if child == 0:
            os.close(life)
            _fork_for(listening, lives, arguments)
            os._exit(0)
    os.close(lives)
    try:
        yield f"popen//python={sys.executable} -I -S {__file__} {address}"
    finally:
        os.close(life)
        os.waitpid(child, 0)


def _fork_for(listening: socket.socket, lives: int, arguments: Sequence[str]) -> None:
    """Import what is collected; then fork a worker a connection, until nobody wants any more.

    Returns in each worker, too, when it has ended.
    """
    _import_tests(arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while lives not in select.select([listening, lives], [], [])[0]:
        connection, _ = listening.accept()
        data, files, _, _ = socket.recv_fds(connection, 65_536, 3)
        if os.fork() == 0:
            os.close(lives)
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _work(data.decode(), files)
            return
        connection.close()
        for file in files:
            os.close(file)


def _import_tests(arguments: Sequence[str]) -> None:
    import pytest

    with open(os.devnull, "r+b") as nowhere:
        kept = [os.dup(number) for number in range(2)]
        for number in range(2):
            os.dup2(nowhere.fileno(), number)
        pytest.main(["--collect-only", "-p", "no:xdist", "-p", "no:cacheprovider", *arguments])
        gc.disable()  # nothing of it is garbage
        for name in LATER:
            importlib.import_module(name)
        gc.enable()
        for number, file in enumerate(kept):
            os.dup2(file, number)
            os.close(file)


def _work(line: str, files: Sequence[int]) -> None:
    """Be the worker that was asked for."""
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
        os.dup2(file, number)
        os.close(file)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(number, mode, buffering=1, closefd=False))  # noqa: SIM115
    sys.argv = ["-c"]
    exec(line, {"__name__": "__main__"})


def main() -> None:
    """Have a worker forked, and end with it."""
    address, *_, line = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{address}")
        socket.send_fds(connection, [line.encode()], [0, 1, 2])
        connection.recv(1)


if __name__ == "__main__":
    main()
