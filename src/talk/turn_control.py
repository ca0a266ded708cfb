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
        is_left: True if the sender went on before any of the answer was shown.
    """

    def __init__(self) -> None:
        """Create the control of one turn."""
        self.stopped = False
        self.is_left = False
        self._pending = False  # a Stop that has ended nothing yet
        self._timer: asyncio.Timeout | None = None  # of what runs
        self._left: float | None = None  # seconds, while the timer is paused

    def stop(self) -> None:
        """Handle the user's Stop: end what runs, or what would run next."""
        self.stopped = self._pending = True
        self.cut()

    def cut(self) -> None:
        """Handle a reached bound: end what runs."""
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(asyncio.get_running_loop().time())

    def wait(self, waits: bool) -> None:
        """Pause the timer while a slow server reads its input, and resume it once it writes."""
        timer, now = self._timer, asyncio.get_running_loop().time()
        if timer is None or timer.expired():
            return
        end = timer.when()
        if waits and end is not None and end > now:
            self._left = end - now
            timer.reschedule(None)
        elif not waits and end is None and self._left is not None:
            timer.reschedule(now + self._left)

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
        self._timer, self._left = asyncio.timeout(seconds), None
        try:
            async with self._timer:
                return await work
        except TimeoutError:
            if not self._timer.expired():
                raise
            self.check()
            raise TurnCutError from None
        finally:
            self._timer = None
