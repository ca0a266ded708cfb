"""Shutdown of the process on SIGINT, SIGTERM and SIGHUP: orderly, with a deadline.

What does not end in time (a thread in a call that hangs) is ended by force. Nothing is lost by
that: every step of a turn survives ``kill -9``.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

STATUS_FORCED = 3  # exit status after a forced shutdown
EXTRA_SECONDS = 1.5  # beyond SHUTDOWN_TIMEOUT; the documentation promises 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last of a closed terminal


class Shutdown:
    """Handler of the signals; a process has one.

    Attributes:
        signal: Number of the first signal; None before it.
    """

    def __init__(self) -> None:
        """Install nothing; ``run`` does."""
        self.signal: int | None = None
        self._status: int | None = None
        self._drain: asyncio.Event | None = None

    def drain(self) -> asyncio.Event:
        """Return an event that signals set from now on, instead of cancelling the command."""
        self._drain = asyncio.Event()
        if self.signal is not None:
            self._drain.set()
        return self._drain

    async def run(self, command: Coroutine[Any, Any, int], *, seconds: float) -> int:
        """Run a command; a signal ends the process within ``seconds`` and EXTRA_SECONDS.

        Returns:
            Its exit status; 128 plus the signal's number if the signal cancelled it.
        """
        task = asyncio.ensure_future(command)
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) == signal.SIG_DFL:  # no nohup
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(number, self._end, number, task, seconds)
        try:
            self._status = await task
        except asyncio.CancelledError:
            if self.signal is None:
                raise
            self._status = 128 + self.signal
        return self._status

    def _end(self, number: int, task: asyncio.Future[int], seconds: float) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:  # the second Ctrl-C
                self._exit()
            return
        self.signal = number
        timer = threading.Timer(seconds + EXTRA_SECONDS, self._exit)
        timer.daemon = True
        timer.start()
        if self._drain is not None:
            self._drain.set()
        else:
            task.cancel()

    def _exit(self) -> None:
        """End the process at once, also if threads of it hang."""
        if self._status is None:
            logger.error("it did not stop in order within its time, and is ended by force")
            os._exit(STATUS_FORCED)
        os._exit(self._status)


SHUTDOWN = Shutdown()
