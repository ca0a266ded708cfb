"""The end of the process: in order, and in any case in time.

A signal only wakes a thread; the thread asks the event loop to end, and when that takes too long
(a database that hangs, a thread that is stuck in a call, the interpreter waiting for it) it ends
the process itself. Nothing is lost by that: every step of a turn is made to survive ``kill -9``.
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

STATUS_FORCED = 3  # exit status of a process that was told to stop, and could not do it in order
EXTRA_SECONDS = 1.5  # beyond SHUTDOWN_TIMEOUT; two are promised
LAST_WORDS_SECONDS = 0.2  # for the log line, should the log itself be stuck
LEAVING_SECONDS = 0.5  # for the interpreter to end by itself, when all is done
SIGNALS = (signal.SIGINT, signal.SIGTERM)
DONE = b"\0"


class Shutdown:
    """What happens at SIGINT and SIGTERM; a process has one."""

    def __init__(self) -> None:
        """Nothing changes before ``run``."""
        self.signal: int | None = None
        self._seconds = 0.0
        self._status = STATUS_FORCED
        self._wishes: list[Callable[[], None]] = []
        self._drain: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Any]
        self._reader, self._writer = -1, -1

    def drain(self) -> asyncio.Event:
        """From here on a signal sets this event; before, it cancels the command."""
        self._drain = asyncio.Event()
        if self.signal is not None:
            self._drain.set()
        return self._drain

    def at_worst(self, wish: Callable[[], None]) -> None:
        """Call this before the process is ended by force; it must not wait for anything."""
        self._wishes.append(wish)

    async def run(self, command: Coroutine[Any, Any, int], *, seconds: float) -> int:
        """Run a command; a signal ends it within ``seconds`` and a little.

        Returns:
            Its exit status; 128 and the signal's number when that cancelled it.
        """
        self._seconds = seconds
        self._loop, self._task = asyncio.get_running_loop(), asyncio.ensure_future(command)
        self._reader, self._writer = os.pipe()
        threading.Thread(target=self._watch, name="shutdown", daemon=True).start()
        before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._status = 1
        try:
            self._status = await self._task
        except asyncio.CancelledError:
            if self.signal is None:
                raise
            self._status = 128 + self.signal
        finally:
            if self.signal is None:
                for number, handler in before.items():
                    signal.signal(number, handler)
            os.write(self._writer, DONE)
        return self._status

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Called between any two steps of the main thread, so it takes no lock."""
        os.write(self._writer, bytes([number]))

    def _watch(self) -> None:
        first = os.read(self._reader, 1)
        if first == DONE:  # it ended by itself
            os.close(self._reader)
            os.close(self._writer)
            return
        self.signal = first[0]
        with suppress(AttributeError, ValueError, OSError):  # should Python itself be stuck
            signal.setitimer(signal.ITIMER_REAL, self._seconds + EXTRA_SECONDS + 0.4)
        with suppress(RuntimeError):  # the loop is closed: the command has ended already
            self._loop.call_soon_threadsafe(self._begin)
        self._wait(time.monotonic() + self._seconds + EXTRA_SECONDS)

    def _begin(self) -> None:
        if self._drain is not None:
            self._drain.set()
        else:
            self._task.cancel()

    def _wait(self, deadline: float) -> None:
        is_done = False
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._reader], [], [], left)[0]:
                break
            told = os.read(self._reader, 1)
            if told == DONE:
                is_done = True
                deadline = min(deadline, time.monotonic() + LEAVING_SECONDS)
            elif told[0] == signal.SIGINT:  # Ctrl-C was pressed again
                break
        self._leave(is_done)

    def _leave(self, is_done: bool) -> None:
        if not is_done:
            last = threading.Thread(target=self._say_last_words, daemon=True)
            last.start()
            last.join(LAST_WORDS_SECONDS)
        else:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
        os._exit(self._status if is_done else STATUS_FORCED)

    def _say_last_words(self) -> None:
        for wish in self._wishes:
            with suppress(OSError):
                wish()
        logger.error("it did not stop in order within its time, and is ended by force")


SHUTDOWN = Shutdown()
