"""Shutdown of the process: orderly, with a deadline.

A signal only wakes a thread. The thread asks the event loop to end, and terminates the process
itself if that takes too long (a hanging database, a thread stuck in a call, the interpreter
waiting for it). Nothing is lost by that: every step of a turn survives ``kill -9``.
"""

import asyncio
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

STATUS_FORCED = 3  # exit status after a forced shutdown
EXTRA_SECONDS = 1.5  # beyond SHUTDOWN_TIMEOUT; the documentation promises 2
LAST_CALLS_SECONDS = 0.2  # for the log line: the log itself may be stuck
EXIT_SECONDS = 0.5  # for the interpreter to exit after an orderly shutdown
SIGNALS = (signal.SIGINT, signal.SIGTERM)
DONE = b"\0"


class Shutdown:
    """Handler of SIGINT and SIGTERM; a process has one.

    Attributes:
        signal: Number of the first signal; None before it.
        last_calls: Functions to call before a forced exit; they must not block.
    """

    def __init__(self) -> None:
        """Install nothing; ``run`` does."""
        self.signal: int | None = None
        self._seconds = 0.0
        self._status = STATUS_FORCED
        self.last_calls: list[Callable[[], None]] = []
        self._drain: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Any]
        self._reader, self._writer = -1, -1

    def drain(self) -> asyncio.Event:
        """Return an event that signals set from now on, instead of cancelling the command."""
        self._drain = asyncio.Event()
        if self.signal is not None:
            self._drain.set()
        return self._drain

    async def run(self, command: Coroutine[Any, Any, int], *, seconds: float) -> int:
        """Run a command; a signal ends it within ``seconds`` and EXTRA_SECONDS.

        Returns:
            Its exit status; 128 plus the signal's number if the signal cancelled it.
        """
        self._seconds = seconds
        self._loop, self._task = asyncio.get_running_loop(), asyncio.ensure_future(command)
        self._reader, self._writer = os.pipe()
        threading.Thread(target=self._watch, name="shutdown", daemon=True).start()
        previous_handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._status = 1
        try:
            self._status = await self._task
        except asyncio.CancelledError:
            if self.signal is None:
                raise
            self._status = 128 + self.signal
        finally:
            if self.signal is None:
                for number, handler in previous_handlers.items():
                    signal.signal(number, handler)
            os.write(self._writer, DONE)
        return self._status

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Write to the pipe: the handler interrupts any code, so it must take no lock."""
        os.write(self._writer, bytes([number]))

    def _watch(self) -> None:
        first = os.read(self._reader, 1)
        if first == DONE:  # the command ended without a signal
            os.close(self._reader)
            os.close(self._writer)
            return
        self.signal = first[0]
        with suppress(AttributeError, ValueError, OSError):  # in case Python itself is stuck
            signal.setitimer(signal.ITIMER_REAL, self._seconds + EXTRA_SECONDS + 0.4)
        with suppress(RuntimeError):  # the loop is closed: the command has ended
            self._loop.call_soon_threadsafe(self._request_end)
        self._await_end(time.monotonic() + self._seconds + EXTRA_SECONDS)

    def _request_end(self) -> None:
        if self._drain is not None:
            self._drain.set()
        else:
            self._task.cancel()

    def _await_end(self, deadline: float) -> None:
        is_done = False
        while (remaining := deadline - time.monotonic()) > 0:
            if not select.select([self._reader], [], [], remaining)[0]:
                break
            byte = os.read(self._reader, 1)
            if byte == DONE:
                is_done = True
                deadline = min(deadline, time.monotonic() + EXIT_SECONDS)
            elif byte[0] == signal.SIGINT:  # second Ctrl-C
                break
        self._exit_process(is_done)

    def _exit_process(self, is_done: bool) -> None:
        if not is_done:
            thread = threading.Thread(target=self._make_last_calls, daemon=True)
            thread.start()
            thread.join(LAST_CALLS_SECONDS)
        else:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
        os._exit(self._status if is_done else STATUS_FORCED)

    def _make_last_calls(self) -> None:
        for last_call in self.last_calls:
            with suppress(OSError):
                last_call()
        logger.error("it did not stop in order within its time, and is ended by force")


SHUTDOWN = Shutdown()
