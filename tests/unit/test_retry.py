"""When a job is tried again."""

from __future__ import annotations

import asyncio

import pytest
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job
from procrastinate.utils import utcnow

from src.base.errors import (
    ChatUnavailableError,
    DeliveryUnknownError,
    ModelError,
    ModelUnavailableError,
    StorageUnavailableError,
)
from src.queue.workers import MAX_PAUSE, UNKNOWN_PAUSE, BackOff, retry_delay


def job(attempts: int = 0) -> Job:
    return Job(
        id=1, queue="people", lock=None, queueing_lock=None, task_name="t", attempts=attempts
    )


def seconds(error: BaseException, attempts: int = 0) -> float | None:
    """Seconds until the next attempt, or None when there is none."""
    decision = BackOff().get_retry_decision(exception=error, job=job(attempts))
    if decision is None:
        return None
    assert decision.retry_at is not None
    return (decision.retry_at - utcnow()).total_seconds()


def test_pauses_double_up_to_a_minute() -> None:
    error = ModelUnavailableError("busy")
    for attempts in range(40):
        expected = min(MAX_PAUSE, 2.0**attempts)
        assert 0.75 * expected <= retry_delay(error, attempts) <= 1.25 * expected


def test_pauses_differ_so_that_chats_do_not_come_back_all_at_once() -> None:
    error = StorageUnavailableError("away")
    assert len({retry_delay(error, 3) for _ in range(20)}) > 10


def test_what_may_have_arrived_is_not_sent_again_at_once() -> None:
    assert retry_delay(DeliveryUnknownError("?"), 0) >= 0.75 * UNKNOWN_PAUSE


@pytest.mark.parametrize("error", [asyncio.CancelledError(), JobAborted()])
def test_what_a_shutdown_interrupted_is_tried_again_at_once(error: BaseException) -> None:
    assert seconds(error, 9) == pytest.approx(0, abs=0.5)


def test_only_what_is_transient_is_tried_again() -> None:
    assert seconds(ModelUnavailableError("busy")) == pytest.approx(1, abs=0.5)
    for final in (ModelError("refused"), ChatUnavailableError("blocked"), ValueError("defect")):
        assert seconds(final) is None
