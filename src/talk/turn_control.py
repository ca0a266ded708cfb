"""Control of a turn: what a Stop of the user, or a bound, ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TurnStoppedError(Exception):
    """The user stopped the answer (/stop, the Stop button, /new)."""


class TurnCutError(Exception):
    """The answer reached one of its bounds."""


class TurnControl:
    """Cancellation of what is run through it, by the user's Stop or by a bound.

    Storing, and a request on its way to Telegram, are not cancelled. One Stop ends one thing:
    what was written by then is still delivered, until there is another Stop.

    Attributes:
        stopped: True if the user stopped anything of this turn.
    """

    def __init__(self) -> None:
        """Create the control of one turn."""
        self.stopped = False
        self._pending = False  # a Stop that has ended nothing yet
        self._is_cut = False
        self._running: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0.0  # seconds, while the timer is paused

    def stop(self) -> None:
        """Handle the user's Stop: end what runs, or what would run next."""
        self.stopped = self._pending = True
        self._cancel()

    def cut(self) -> None:
        """Handle a reached bound: end what runs."""
        self._is_cut = True
        self._cancel()

    def wait(self, waits: bool) -> None:
        """Pause the timer while a slow server reads its input, and resume it once it writes."""
        loop, timer = asyncio.get_running_loop(), self._timer
        if timer is None or timer.cancelled() == waits:
            return
        if waits:
            self._left = timer.when() - loop.time()
            timer.cancel()
        else:
            self._timer = loop.call_later(self._left, self.cut)

    def check(self) -> None:
        """Check for a Stop between two steps that are not run through here.

        Raises:
            TurnStoppedError: There was a Stop.
        """
        if self._pending:
            self._pending = False
            raise TurnStoppedError

    async def run(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Run a coroutine that a Stop or a bound may cancel.

        Raises:
            TurnStoppedError: The user stopped it.
            TurnCutError: It took longer than ``seconds``, or ``cut`` was called.
        """
        if self._pending:
            work.close()
        self.check()
        task = asyncio.ensure_future(work)
        self._running = task
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.cut)
        try:
            return await task
        except asyncio.CancelledError:
            outer = asyncio.current_task()
            if outer is not None and not outer.cancelling():
                self.check()
                if self._is_cut:
                    raise TurnCutError from None
            task.cancel()
            raise
        finally:
            self._running = None
            self._is_cut = False
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()
