"""How much of the bot one person may take up through the page."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BURST = 120.0  # at once; opening the page and all of its parts takes five
PER_SECOND = 1.0  # that come back
MAX_PEOPLE = 10_000  # that are remembered


class Allowance:
    """A bucket for each person, from which requests take; one process keeps its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Everybody's is full; ``clock`` tells the seconds."""
        self._clock = clock
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, user_id: int, cost: float = 1.0) -> bool:
        """Take so much of somebody's; False when it is not there, and nothing is taken."""
        now = self._clock()
        left, at = self._left.pop(user_id, (BURST, now))
        left = min(BURST, left + (now - at) * PER_SECOND)
        is_enough = left >= cost
        self._left[user_id] = (left - cost if is_enough else left, now)
        if len(self._left) > MAX_PEOPLE:
            self._left.popitem(last=False)
        return is_enough
