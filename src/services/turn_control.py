"""Ending a running answer: its generation, and the waiting while it is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


class TurnStoppedError(Exception):
    """The user stopped the answer (/stop, the Stop button, /new)."""


class TurnCutError(Exception):
    """The answer reached one of its bounds."""


class TurnControl:
    """Lets the user's Stop, or a bound, end what is run through it, and only that.

    Storing, and a request that is on its way to Telegram, go on undisturbed. One Stop ends one
    thing: what was written by then is still delivered, until there is another one.

    Attributes:
        stopped: Whether the user stopped anything of this turn.
    """

    def __init__(self) -> None:
        """One control per turn."""
        self.stopped = False
        self._pending = False  # a Stop that has ended nothing yet
        self._is_cut = False
        self._running: asyncio.Task[Any] | None = None

    def stop(self) -> None:
        """The user's: end what runs, or what would run next."""
        self.stopped = self._pending = True
        self._cancel()

    def cut(self) -> None:
        """A bound's: end what runs."""
        self._is_cut = True
        self._cancel()

    def check(self) -> None:
        """Between two steps that are not run through here.

        Raises:
            TurnStoppedError: The user does not want the next one.
        """
        if self._pending:
            self._pending = False
            raise TurnStoppedError

    async def run(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Run something that may be ended.

        Raises:
            TurnStoppedError: It was stopped.
            TurnCutError: It took longer than ``seconds``, or ``cut`` was called.
        """
        if self._pending:
            work.close()
        self.check()
        task = asyncio.ensure_future(work)
        self._running = task
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self.cut)
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
            if timer is not None:
                timer.cancel()

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()


_delivering: ContextVar[TurnControl | None] = ContextVar("delivering", default=None)


@contextmanager
def stoppable_delivery(control: TurnControl) -> Iterator[None]:
    """Inside it, a stop of ``control`` ends the delivery where the two functions below look."""
    token = _delivering.set(control)
    try:
        yield
    finally:
        _delivering.reset(token)


async def wait_unless_stopped(waiting: Coroutine[Any, Any, T]) -> T:
    """Wait for something without an effect, such as a pause or a place in a queue.

    Raises:
        TurnStoppedError: The user stopped the answer for whose delivery this is.
    """
    control = _delivering.get()
    return await (waiting if control is None else control.run(waiting))


def check_stopped() -> None:
    """Between two parts of an answer.

    Raises:
        TurnStoppedError: The user stopped the delivery; the next one is not wanted.
    """
    control = _delivering.get()
    if control is not None:
        control.check()
