"""Stopping a running answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TurnStoppedError(Exception):
    """The user stopped the answer (/stop, the Stop button, /new)."""


class TurnControl:
    """Lets the user's Stop end the generation of an answer, and only that.

    Storing and delivering go on undisturbed: a stop that comes too late changes nothing.
    """

    def __init__(self) -> None:
        """One control per turn."""
        self.stopped = False
        self._generation: asyncio.Task[Any] | None = None

    def stop(self) -> None:
        """End the generation, now or as soon as it would begin."""
        self.stopped = True
        if self._generation is not None:
            self._generation.cancel()

    async def run(self, generation: Coroutine[Any, Any, T]) -> T:
        """Run the generation.

        Raises:
            TurnStoppedError: It was stopped.
        """
        if self.stopped:
            generation.close()
            raise TurnStoppedError
        task = asyncio.ensure_future(generation)
        self._generation = task
        try:
            return await task
        except asyncio.CancelledError:
            outer = asyncio.current_task()
            if self.stopped and outer is not None and not outer.cancelling():
                raise TurnStoppedError from None
            task.cancel()
            raise
        finally:
            self._generation = None
