"""When a job is tried again."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from procrastinate import BaseRetryStrategy, RetryDecision
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job
from procrastinate.utils import utcnow

from src.errors import DeliveryRefusedError, DeliveryUnknownError, TransientError

FIRST_PAUSE = 1.0  # seconds; doubled with every attempt
MAX_PAUSE = 60.0
UNKNOWN_PAUSE = 5.0  # the least, when a message may have arrived: no blind retry
REFUSED_PAUSE = 10.0  # the least, when Telegram refused a message without a reason that we know
MAX_WISH = 86_400.0  # seconds; nobody is waited for longer than a day


class BackOff(BaseRetryStrategy):
    """Tries again what is transient, and what a shutdown interrupted.

    How often is the task's own decision: it raises something else when it gives up.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """At once after a shutdown, else after a pause."""
        if isinstance(exception, asyncio.CancelledError | JobAborted):
            return RetryDecision(retry_at=utcnow())
        if not isinstance(exception, TransientError):
            return None
        return RetryDecision(retry_at=utcnow() + timedelta(seconds=pause(exception, job.attempts)))


def pause(error: TransientError, attempts: int) -> float:
    """Seconds until the next attempt, with jitter so that chats do not all come back at once."""
    if error.retry_after is not None:
        return min(max(error.retry_after, 0.0), MAX_WISH)
    seconds: float = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(attempts, 16))
    if isinstance(error, DeliveryUnknownError):
        seconds = max(seconds, UNKNOWN_PAUSE)
    if isinstance(error, DeliveryRefusedError):
        seconds = max(seconds, REFUSED_PAUSE)
    return seconds * random.uniform(0.75, 1.25)
