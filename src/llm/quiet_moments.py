"""When this process answers nobody: the time for work that can wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class QuietMoments:
    """Knows whether a turn is under way in this process."""

    def __init__(self) -> None:
        """None is."""
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn is under way inside it."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self._quiet.set()

    async def wait(self, seconds: float) -> None:
        """Return when none is under way, and after ``seconds`` in any case."""
        if not self._quiet.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._quiet.wait()
